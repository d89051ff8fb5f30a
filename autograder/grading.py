"""Grading one submission: its named tests, its own tests, and what they add up to.

It knows what is graded and in which order, and asks a room to run it. It does not know what a room
is made of, nor how a report looks.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from autograder import implementations, reading, scoring
from autograder.blame import Footing, footing, settled
from autograder.budget import Budget, budget, has_budget
from autograder.catalogue import catalogue
from autograder.diagnosis import Candidate, diagnose
from autograder.earlier import earlier_work
from autograder.files import Unreadable
from autograder.reading import Submission
from autograder.rooms import Rooms
from autograder.running import Status, Verdict
from autograder.scoring import OwnScore, Round
from autograder.work import Broken, Limits, Remarks, Work
from course.modules import Module
from course.progress import Tell, silent


class Room(Protocol):
    """Where a submission runs."""

    isolation: str

    def verdicts(self, work: Work, tests: Sequence[str], remarks: Remarks) -> Iterator[Verdict]:
        """A verdict for each named test, in order, whatever happens; notes go to `remarks`."""

    def rounds(self, work: Work, order: Sequence[str], remarks: Remarks) -> Iterator[Round]:
        """A round of the student's own tests for each implementation. Raises Broken if they can't be collected."""

    def names(self, work: Work) -> AbstractContextManager[Mapping[str, Any]]:
        """The submission's names and those underneath, to be used here while the `with` block runs."""


@dataclass(frozen=True)
class Report:
    """What came of one submission.

    `below` says what it stood on (nothing for the lowest modules), `isolation` how well it was kept apart
    from its verdict, `remarks` what the student should know besides, `budget` what came of a measurement
    that is no part of the verdict, where there was one, `diagnosis` the pitfalls that failed tests look like.
    `lost_first` is the first named test that it did not pass on the student's own earlier modules, before any
    verdict was taken from flat models: a later module stands on this one where there is none.
    """

    module: Module
    submission: str
    verdicts: tuple[Verdict, ...]
    own: OwnScore
    below: str
    isolation: str
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0
    budget: Budget | None = None
    diagnosis: tuple[Candidate, ...] = ()
    lost_first: str = ""

    @property
    def n_passed(self) -> int:
        """How many named tests passed."""
        return sum(verdict.passed for verdict in self.verdicts)

    @property
    def named_passed(self) -> bool:
        """Every named test passed, and there was one."""
        return bool(self.verdicts) and self.n_passed == len(self.verdicts)

    @property
    def passed(self) -> bool:
        """The named tests and the student's own tests both hold."""
        return self.named_passed and self.own.passed

    @property
    def undecided(self) -> bool:
        """The named tests hold, but the own tests can't be graded here."""
        return self.named_passed and not self.own.graded


def grade(
    path: Path,
    module: Module,
    limits: Limits | None = None,
    flat_below: bool = False,
    tell: Tell = silent,
    room: Room | None = None,
    with_budget: bool = False,
) -> Report:
    """Grade the submission in a file. What is missing or can't be read is a verdict, never an error.

    Args:
        path: a notebook or a Python file. The student's own earlier modules are looked for around it
            (autograder/earlier.py).
        module: what it should implement.
        limits: seconds and memory.
        flat_below: stand the submission on flat models whatever earlier modules there are.
        tell: hears how far it is.
        room: where to run it; rooms with what isolation there is, unless another is given.
        with_budget: measure the module's budget at the end, if it has one.
    """
    start = time.perf_counter()
    try:
        submission = reading.read(path, module)
    except FileNotFoundError:
        return unread(module, path.name, Status.NOT_SUBMITTED, f"There is no {path.name}.")
    except Unreadable as problem:
        return unread(module, path.name, Status.UNREADABLE, str(problem))
    room, limits = room or Rooms(), limits or Limits()
    base = Footing({}) if flat_below else _footing(path, module, limits, room)
    whose = "the reference" if _is_reference(path) else "your own"
    report = grade_read(Work(submission, limits, base.earlier), room, tell, with_budget, base.remarks, whose)
    return replace(report, seconds=time.perf_counter() - start)


def grade_read(
    work: Work,
    room: Room,
    tell: Tell = silent,
    with_budget: bool = False,
    on: Sequence[str] = (),
    whose: str = "your own",
) -> Report:
    """Grade a submission that is read already, over earlier modules that are known to be sound.

    Args:
        work: the submission, its limits, and the earlier modules.
        room: where to run it.
        tell: hears how far it is.
        with_budget: measure the module's budget at the end, if it has one.
        on: what there is to say about the earlier modules that are not taken.
        whose: the earlier modules, in words.
    """
    start, submission, remarks = time.perf_counter(), work.submission, Remarks()
    found = _named(work, room, remarks, tell)
    verdicts, blamed = settled(work, found, lambda again, tests: room.verdicts(again, tests, Remarks()))
    own = _own(work, room, remarks, tell)
    report = Report(
        submission.module,
        submission.name,
        tuple(_explain(verdict, submission, remarks) for verdict in verdicts),
        own,
        _below(work, whose),
        room.isolation,
        (*submission.remarks, *_problems(submission), *remarks.raised, *on, *blamed),
        lost_first=next((verdict.test for verdict in found if not verdict.passed), ""),
    )
    if with_budget and has_budget(submission.module):
        report = replace(report, budget=budget(report.named_passed, lambda: room.names(work), tell))
    diagnosis = diagnose(submission.module, report.verdicts)
    return replace(report, diagnosis=diagnosis, seconds=time.perf_counter() - start)


def unread(module: Module, name: str, status: Status, reason: str) -> Report:
    """The report for work that is not there or can't be read: every named test has that verdict."""
    verdicts = tuple(Verdict(test.name, status, reason) for test in catalogue(module))
    return Report(module, name, verdicts, OwnScore(False, reason), "", "nothing was run")


def _footing(path: Path, module: Module, limits: Limits, room: Room) -> Footing:
    """What a submission stands on: the references for a reference, else the student's sound earlier modules."""
    found = earlier_work(path, module)
    if _is_reference(path):
        return Footing(found)
    return footing(found, limits, lambda work, tests: room.verdicts(work, tests, Remarks()))


def _is_reference(path: Path) -> bool:
    return path.resolve().parent == implementations.SOLUTIONS.resolve()


def _below(work: Work, whose: str) -> str:
    """What a submission stood on, in words."""
    flat = [need for need in work.submission.module.needs if need not in work.earlier]
    own = [f"{whose} {submission.name}" for submission in work.earlier.values()]
    models = f"flat models of {', '.join(flat)}" if len(flat) > 1 else f"the flat model of {flat[0]}" if flat else ""
    return ", ".join([*own, *[models] * bool(models)])


# ---------------------------------------------------------------- named tests


def _named(work: Work, room: Room, remarks: Remarks, tell: Tell) -> list[Verdict]:
    tests = [test.name for test in catalogue(work.submission.module)]
    verdicts: list[Verdict] = []
    tell("named tests", 0, len(tests))
    for verdict in room.verdicts(work, tests, remarks):
        verdicts.append(verdict)
        tell("named tests", len(verdicts), len(tests))
    return verdicts


def _problems(submission: Submission) -> tuple[str, ...]:
    return tuple(cell.problem for cell in submission.cells if cell.problem)


def _explain(verdict: Verdict, submission: Submission, remarks: Remarks) -> Verdict:
    """A verdict on something that is not defined, with the reason why it isn't."""
    if verdict.status is not Status.NOT_DEFINED:
        return verdict
    broken = [cell.problem for cell in submission.for_named_tests if cell.problem]
    causes = [*broken, *remarks.raised]
    status = Status.UNREADABLE if broken else Status.NOT_DEFINED
    return replace(verdict, status=status, message="\n  ".join([verdict.message, *causes]))


# ---------------------------------------------------------------- own tests


def _own(work: Work, room: Room, remarks: Remarks, tell: Tell) -> OwnScore:
    submission = work.submission
    if not submission.has_own_tests:
        where = "in a cell that is marked for them" if submission.is_notebook else f"in {_expected(submission)}"
        return OwnScore(False, f"There are no tests of your own {where}.")
    if problem := next((cell.problem for cell in submission.for_own_tests if cell.problem), ""):
        return OwnScore(False, problem)
    order = scoring.order(submission.module, _seed(submission))
    rounds: list[Round] = []
    tell("own tests", 0, len(order))
    try:
        for round_ in room.rounds(work, order, remarks):
            rounds.append(round_)
            tell("own tests", len(rounds), len(order))
            if scoring.hopeless(round_):
                break
    except Broken as problem:
        return OwnScore(False, str(problem))
    return scoring.judge(submission.module, rounds, work.limits.test_s)


def _expected(submission: Submission) -> str:
    return f"test_{submission.module.name}.py beside {submission.name}"


def _seed(submission: Submission) -> str:
    text = "\0".join(cell.source for cell in submission.for_own_tests)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

"""Grading one submission: its named tests, its own tests, and what they add up to.

It knows what is graded and in which order, and asks a room to run it. It does not know what a room
is made of, nor how a report looks.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from autograder import implementations, reading, scoring
from autograder.catalogue import catalogue
from autograder.reading import Submission, Unreadable
from autograder.running import Status, Verdict
from autograder.scoring import OwnScore, Round
from autograder.watching import Broken, Limits, PlainChild, Remarks, Work
from course.modules import Module


class Room(Protocol):
    """Where a submission runs."""

    isolation: str

    def verdicts(self, work: Work, tests: Sequence[str], remarks: Remarks) -> Iterator[Verdict]:
        """A verdict for each named test, in order, whatever happens; notes go to `remarks`."""

    def rounds(self, work: Work, order: Sequence[str], remarks: Remarks) -> Iterator[Round]:
        """A round of the student's own tests for each implementation. Raises Broken if they can't be collected."""


@dataclass(frozen=True)
class Report:
    """What came of one submission.

    `below` says what it stood on (nothing for the lowest modules), `isolation` how well it was kept apart
    from its verdict, `remarks` what the student should know besides.
    """

    module: Module
    submission: str
    verdicts: tuple[Verdict, ...]
    own: OwnScore
    below: str
    isolation: str
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0

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


Tell = Callable[[str, int, int], None]
"""Hears (what is being done, steps done, steps in all)."""


def silent(what: str, done: int, of: int) -> None:
    """Tells nobody."""


def grade(
    path: Path,
    module: Module,
    limits: Limits | None = None,
    flat_below: bool = False,
    tell: Tell = silent,
    room: Room | None = None,
) -> Report:
    """Grade the submission in a file. What is missing or can't be read is a verdict, never an error.

    Args:
        path: a notebook or a Python file.
        module: what it should implement.
        limits: seconds and memory.
        flat_below: stand the submission on flat models even where there are references.
        tell: hears how far it is.
        room: where to run it.
    """
    room = room or PlainChild()
    flat_below = flat_below or not _references(module)
    start = time.perf_counter()
    try:
        submission = reading.read(path, module)
    except FileNotFoundError:
        return unread(module, path.name, Status.NOT_SUBMITTED, f"There is no {path.name}.")
    except Unreadable as problem:
        return unread(module, path.name, Status.UNREADABLE, str(problem))
    remarks = Remarks()
    work = Work(submission, flat_below, limits or Limits())
    verdicts = _named(work, room, remarks, tell)
    own = _own(work, room, remarks, tell)
    return Report(
        module,
        submission.name,
        tuple(_explain(verdict, submission, remarks) for verdict in verdicts),
        own,
        _below(module, flat_below),
        room.isolation,
        (*submission.remarks, *_problems(submission), *remarks.raised),
        time.perf_counter() - start,
    )


def unread(module: Module, name: str, status: Status, reason: str) -> Report:
    """The report for work that is not there or can't be read: every named test has that verdict."""
    verdicts = tuple(Verdict(test.name, status, reason) for test in catalogue(module))
    return Report(module, name, verdicts, OwnScore(False, reason), "", "nothing was run")


def _references(module: Module) -> bool:
    return all((implementations.SOLUTIONS / f"{name}.py").exists() for name in (*module.needs, module.name))


def _below(module: Module, flat_below: bool) -> str:
    if not module.needs:
        return ""
    return "flat models of " * flat_below + "the references of " * (not flat_below) + ", ".join(module.needs)


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

"""Two rooms: the submission runs in one of its own, and the tests run here and talk to it over a wire.

It knows how a submission becomes a job for its room, how each named test gets a fork and a verdict, and
what a room's end means for the tests that are left. How a room is kept apart this file does not know, nor
what verdicts add up to.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autograder import edition, own_rooms, sealed
from autograder.catalogue import NamedTest, catalogue
from autograder.flat import flat_source
from autograder.reading import Submission
from autograder.remote import Bounds, Cell, Job, Part, RoomClient, RoomDied, RoomTimeout, WireBroken, remote_names
from autograder.room.proxies import RemoteNames
from autograder.running import Status, Verdict, run_named
from autograder.sandbox import NOT_ISOLATED, Sandbox
from autograder.scoring import Round
from autograder.subject import Subject
from autograder.work import Limits, Remarks, Work
from course import modules
from course.modules import Module

BUDGET_S = 120.0
"""Seconds that the engine may take over a submission's manager, all of its runs together."""

Trouble = RoomTimeout | RoomDied | WireBroken
TROUBLE = (RoomTimeout, RoomDied, WireBroken)


class Rooms:
    """Runs work in rooms of its own: one for the named tests, one for the student's own tests.

    `sandbox` says whether rooms must be, may be or are not to be isolated; `isolation` what they were.
    """

    def __init__(self, sandbox: Sandbox = Sandbox.AUTO) -> None:
        self.sandbox = sandbox
        self.isolation = "nothing was run"

    def verdicts(self, work: Work, tests: Sequence[str], remarks: Remarks) -> Iterator[Verdict]:
        """A verdict for each named test, in order. Whatever one test does to the room, the next has a new one."""
        known = {test.name: test for test in catalogue(work.submission.module)}
        ends = time.monotonic() + work.limits.total_s
        with self._room(work) as room:
            for name in tests:
                left = ends - time.monotonic()
                if left <= 0:
                    reason = f"The {work.limits.total_s:g} s for the whole submission were used up."
                    yield Verdict(name, Status.TIMED_OUT, reason)
                    continue
                yield room.verdict(known[name], min(work.limits.test_s, left))
                _note(room, remarks)

    def rounds(self, work: Work, order: Sequence[str], remarks: Remarks) -> Iterator[Round]:
        """A round of the student's own tests for each implementation, in order.

        Raises:
            Broken: the tests can't be collected.
        """
        heard, hearing = Remarks(), remarks
        for round_ in own_rooms.rounds(work, order, heard, self.sandbox, self._was):
            hearing.raised.update(heard.raised)
            hearing = Remarks()  # what cells raise on a planted bug is no news to a student, and tells of the bug
            yield round_

    @contextlib.contextmanager
    def names(self, work: Work) -> Iterator[Mapping[str, Any]]:
        """The submission's names and those underneath, for as long as the `with` block runs.

        Raises:
            RoomFailed: the room came to its end, and how.
        """
        with self._room(work) as room:
            room.open()
            if room.unopened is not None:
                raise RoomFailed(told(room.unopened)[1])
            try:
                room.client.fork(BUDGET_S)
                yield room.names()
            except TROUBLE as trouble:
                raise RoomFailed(told(trouble)[1]) from None

    @contextlib.contextmanager
    def _room(self, work: Work) -> Iterator[_Room]:
        client = RoomClient(job_of(work), bounds_of(work.limits), self.sandbox)
        try:
            yield _Room(client, work.submission.module)
        finally:
            self._was(client.isolation)
            client.close()

    def _was(self, isolation: str) -> None:
        """Note how well a room was kept apart; one that was not decides for all."""
        if isolation and self.isolation != NOT_ISOLATED:
            self.isolation = isolation


class RoomFailed(Exception):
    """The room came to its end; the message says how."""


# ---------------------------------------------------------------- what a room is told


def bounds_of(limits: Limits) -> Bounds:
    """The limits of a submission as a room knows them."""
    return Bounds(cell_s=limits.cell_s, memory_mb=limits.memory_mb)


def job_of(work: Work) -> Job:
    """What a room runs before it serves named tests: the modules underneath, then the submission."""
    needs = [modules.find(need) for need in work.submission.module.needs]
    below = [_part(work.earlier[need.name]) if need.name in work.earlier else flat_part(need) for need in needs]
    return Job((*below, _part(work.submission)))


def flat_part(module: Module) -> Part:
    """A module's flat model, sent in as text, or as code where it is sealed."""
    place = f"flat model of {module.name}"
    if edition.IS_STUDENTS:
        cell = Cell("", place, given=True, sealed=sealed.marshalled(edition.SEALED, f"flat/{module.name}"))
    else:
        cell = Cell(flat_source(module.name), place, given=True)
    return Part(module, (cell,), is_notebook=False)


def _part(submission: Submission) -> Part:
    wanted = [cell for cell in submission.for_named_tests if not cell.problem]
    cells = tuple(Cell(cell.source, cell.place, cell.given) for cell in wanted)
    return Part(submission.module, cells, submission.is_notebook)


# ---------------------------------------------------------------- one room


@dataclass
class _Room:
    """A room, started when it is first needed, and anew after it came to an end.

    `unopened` is how it ended before it could serve: it is not tried again, as it would run the same cells.
    """

    client: RoomClient
    module: Module
    started: bool = False
    unopened: Trouble | None = None
    advice: dict[str, None] = field(default_factory=dict)

    def verdict(self, test: NamedTest, seconds: float) -> Verdict:
        """Run a named test here against a fork of the room, for so many seconds at most."""
        self.open()
        if self.unopened is not None:
            return Verdict(test.name, *told(self.unopened))
        begun = time.perf_counter()
        try:
            self.client.fork(seconds)
            names = self.names()
            verdict = run_named(test, Subject(self.module, names, "submission"))
            self.client.end()  # a room that broke during the test raises that again: the test did not come to its end
        except TROUBLE as trouble:
            return Verdict(test.name, *told(trouble), time.perf_counter() - begun)
        self.advice.update(dict.fromkeys(names.advice))
        return _advised(verdict, names.advice)

    def open(self) -> None:
        """Have a room that serves, or know why there is none."""
        if self.unopened is None and (not self.started or self.client.failure is not None):
            try:
                self.client.restart()
                self.started = True
            except TROUBLE as trouble:
                self.unopened = trouble

    def names(self) -> RemoteNames:
        """The names that the current fork serves."""
        return remote_names(self.client, self.module)


def _advised(verdict: Verdict, advice: Sequence[str]) -> Verdict:
    """A verdict that is not passed, with what else may be the reason."""
    return verdict if verdict.passed else replace(verdict, message="\n  ".join([verdict.message, *advice]))


def told(trouble: Trouble) -> tuple[Status, str]:
    """The status and the sentence that a room's end stands for."""
    if isinstance(trouble, RoomTimeout):
        return Status.TIMED_OUT, f"{trouble}."
    if isinstance(trouble, RoomDied):
        return trouble.status, f"{trouble.reason.rstrip('.')}."
    return Status.DIED, f"{str(trouble)[:1].upper()}{str(trouble)[1:]}."


def _note(room: _Room, remarks: Remarks) -> None:
    if room.started:
        remarks.raised.update(dict.fromkeys([*room.client.opening.raised, *room.advice]))
        remarks.missing = tuple(room.client.opening.missing)

"""A student's own tests in a room, blind: one round for each implementation, which answers from here.

It knows the order of the rounds, what the room may say in one, and how a round ends. The room gets calls
answered, and no hint of what answers them. What rounds add up to this file does not know.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from autograder import jobs, scoring
from autograder.reading import Cell, Submission
from autograder.remote import Bounds, Job, Part, RoomClient, RoomDied, RoomTimeout
from autograder.room.calls import read_request
from autograder.running import Status
from autograder.sandbox import Sandbox
from autograder.scoring import TIMED_OUT, Did, Ran, Round
from autograder.serving import OutOfTime, Rubbish, Serving, Watch, answered
from autograder.wire import Message, Silence, WireBroken
from autograder.work import Broken, Remarks, Work

EXTRA = 2
"""So many more rounds on right code stand among the others: who fails by the clock, at so many implementations
as it takes to pass, hits one of them in 99 of 100 tries. They are told of only if they say something new."""

LONGEST_NAME = 1000
"""Characters in the name of a test, at most."""

DRAWS_TEXT = ("text(", "characters(", "from_regex(", "from_type(", "emails(")
"""Where one of these stands in the tests, the room loads the table of characters once, before all rounds."""

TROUBLE = (RoomTimeout, RoomDied, WireBroken, Silence, Rubbish, OutOfTime)


def rounds(
    work: Work,
    order: Sequence[str],
    remarks: Remarks,
    sandbox: Sandbox = Sandbox.AUTO,
    isolated: Callable[[str], None] = lambda how: None,
) -> Iterator[Round]:
    """A round of the student's own tests for each implementation; those in the middle in an order of chance.

    Args:
        work: the submission and its limits.
        order: the implementations to meet; the first and the last stay where they are.
        remarks: gets what the cells raise.
        sandbox: whether the room must be, may be or is not to be isolated.
        isolated: hears how well the room is kept apart.

    Raises:
        Broken: the tests can't be collected.
    """
    bounds = Bounds(cell_s=work.limits.cell_s, memory_mb=work.limits.memory_mb)
    client = RoomClient(_job(work.submission), bounds, sandbox)
    room = _Room(client, work, remarks, time.monotonic() + work.limits.total_s)
    first: Round | None = None
    try:
        for name, extra in _shuffled(order):
            round_ = room.round(name, first)
            first = first or round_
            if not extra or round_.fault or round_.passed != first.passed:
                yield round_
    finally:
        isolated(client.isolation)
        client.close()


def _shuffled(order: Sequence[str]) -> list[tuple[str, bool]]:
    """The order to play in, and which rounds are extra ones."""
    first, *middle, last = order if len(order) > 1 else (*order, *order)
    played = [(name, False) for name in middle] + [(first, True)] * EXTRA
    secrets.SystemRandom().shuffle(played)
    return [(first, False), *played, (last, False)]


# ---------------------------------------------------------------- what the room is told


def _job(submission: Submission) -> Job:
    """A room without cells: a student's code runs only in its forks, so that no round can leave anything behind."""
    warm = set(_imported(submission.for_own_tests))
    if any(word in cell.source for cell in submission.for_own_tests for word in DRAWS_TEXT):
        warm.add("autograder.room.characters")
    part = Part(submission.module, (), submission.is_notebook)
    return Job((part,), own_tests=True, warm=tuple(sorted(warm)), compiled=_cells(submission))


def _imported(cells: Sequence[Cell]) -> Iterator[str]:
    """Modules of the course, and numpy, that cells import: they load once for all rounds."""
    for cell in cells:
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            for node in ast.walk(ast.parse(cell.source)):
                yield from filter(_can_be_warm, _names(node))


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []


def _can_be_warm(name: str) -> bool:
    with contextlib.suppress(ImportError, ValueError):
        return (name == "numpy" or name.startswith("course.")) and importlib.util.find_spec(name) is not None
    return False


def _cells(submission: Submission) -> tuple[jobs.Cell, ...]:
    wanted = [cell for cell in submission.for_own_tests if not cell.problem]
    return tuple(jobs.Cell(cell.source, cell.place, cell.given) for cell in wanted)


# ---------------------------------------------------------------- rounds


@dataclass
class _Room:
    """A room that is started when it is needed, and anew after it came to an end."""

    client: RoomClient
    work: Work
    remarks: Remarks
    ends: float
    started: bool = False
    at: str = ""

    def round(self, name: str, first: Round | None) -> Round:
        """Play one round; however it ends, the next can be played. A room that holds a trace is replaced first."""
        try:
            return self._played(name, first)
        except _Used:
            self.client.close()
            self.started = False
            return self._played(name, first)

    def _played(self, name: str, first: Round | None) -> Round:
        if time.monotonic() >= self.ends:
            return Round(name, (), cut_off=TIMED_OUT, at=self.at)
        module, cut_off = self.work.submission.module, ""
        talk = _Talk(Serving(scoring.implementation(module, name).names), self, first)
        try:
            self._open()
            talk.begin()  # the room's own start is no part of the round: rounds are compared
            self._fork(talk.serving)
            talk.listen()
        except TROUBLE as trouble:
            cut_off = _status(trouble)
        finally:
            talk.watch.stop()
        round_ = Round(name, tuple(talk.ran), time.monotonic() - talk.begun, cut_off, talk.at)
        self.at = talk.at
        self._end()
        return round_

    def _open(self) -> None:
        if not self.started or self.client.failure is not None:
            self.client.restart() if self.started else self.client.start()
            self.started = True

    def _fork(self, serving: Serving) -> None:
        self.client.fork(
            max(self.ends - time.monotonic(), 1.0),
            "own",
            names=list(serving.names),
            cells=jobs.written(self.client.job.compiled),
            is_notebook=self.work.submission.is_notebook,
        )

    def _end(self) -> None:
        """End the fork and all that it left; a room that can't do that is replaced before the next round."""
        if self.client.failure is None:
            with contextlib.suppress(*TROUBLE):
                self.client.end()


def _status(trouble: BaseException) -> str:
    if isinstance(trouble, RoomTimeout | Silence | OutOfTime):
        return TIMED_OUT
    return str(trouble.status) if isinstance(trouble, RoomDied) else str(Status.DIED)


class _Used(Exception):
    """A round before left something in the room that this one could find."""


class _Talk:
    """What is said in one round: the room asks, and this answers."""

    def __init__(self, serving: Serving, room: _Room, first: Round | None) -> None:
        self.serving, self.room, self.first = serving, room, first
        self.limits = room.work.limits
        self.ran: list[Ran] = []
        self.at = ""
        self.watch = Watch(0.0)
        self.begin()

    def begin(self) -> None:
        """The round begins now: its first step is that the cells start to run."""
        self.begun = time.monotonic()
        self._watch_for(self.limits.cell_s)

    def listen(self) -> None:
        """Answer until the room says that it is done."""
        client, number = self.room.client, 0
        while True:
            client.deadline = self.watch.ends
            message = client.receive()
            number += 1
            if message.get("n") != number:
                raise WireBroken("the process asked out of turn")
            answer = self._answer(message)
            client.deadline = self.watch.ends
            client.send({"n": number, **answer})
            if message["op"] == "done":
                return

    def _answer(self, message: Message) -> Message:
        if message.get("op") == "call":
            return self._call(message)
        if message.get("op") not in _STEPS:
            raise WireBroken("the process wrote something that is no message")
        return _STEPS[message["op"]](self, message)

    def _call(self, message: Message) -> Message:
        request = read_request(message)
        return answered(lambda asked: self.watch.call(lambda: self.serving.answer(asked)), request)

    def _cell(self, message: Message) -> Message:
        self._watch_for(self.limits.cell_s)
        return {}

    def _raised(self, message: Message) -> Message:
        self.room.remarks.raised[_text(message, "message")] = None
        return {}

    def _broken(self, message: Message) -> Message:
        raise Broken(_text(message, "reason"))

    def _at(self, message: Message) -> Message:
        self.at = _text(message, "test", LONGEST_NAME)
        self._watch_for(self.limits.test_s)
        return {}

    def _ran(self, message: Message) -> Message:
        did = _text(message, "did")
        if did not in set(Did) or not self.at or _text(message, "test", LONGEST_NAME) != self.at:
            raise WireBroken("the process told of a test that did not run")
        self.ran.append(Ran(self.at, Did(did), _text(message, "message")))
        settled = self.first is None or self.at in self.first.passed
        return {"enough": did == Did.FAILED and settled}

    def _done(self, message: Message) -> Message:
        return {}

    def _used(self, message: Message) -> Message:
        raise _Used

    def _watch_for(self, seconds: float) -> None:
        self.watch.again(min(seconds, max(self.room.ends - time.monotonic(), 0.0)))


_STEPS: dict[Any, Callable[[_Talk, Message], Message]] = {
    "cell": _Talk._cell,
    "raised": _Talk._raised,
    "broken": _Talk._broken,
    "at": _Talk._at,
    "ran": _Talk._ran,
    "done": _Talk._done,
    "used": _Talk._used,
}


def _text(message: Message, key: str, longest: int = 16_000) -> str:
    """A text that a message must hold."""
    text: Any = message.get(key)
    if type(text) is not str or len(text) > longest:
        raise WireBroken("the process wrote something that is no message")
    return text

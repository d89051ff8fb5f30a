"""Running one named test on one implementation, in this process, and what came of it.

It knows how a test's end becomes a verdict and how an error is told to a student. It does not know
about time limits or other processes: whoever starts the process sets those.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from autograder.catalogue import NamedTest
from autograder.expect import RuleBroken
from autograder.replay import kept
from autograder.room.errors import at, place
from autograder.subject import NotDefined, Subject


class Status(StrEnum):
    """How a test ended. Only `PASSED` counts as passed: what is missing never does."""

    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    DIED = "died"
    NOT_DEFINED = "not defined"
    UNREADABLE = "can't be read"
    NOT_SUBMITTED = "not submitted"


@dataclass(frozen=True)
class Verdict:
    """One named test's end: `message` says why it did not pass, `seconds` how long it took.

    `story` is the shortest failing story as plain data for a replay, where the test is one.
    """

    test: str
    status: Status
    message: str = ""
    seconds: float = 0.0
    story: dict[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def passed(self) -> bool:
        """Whether the test ran to its end and every rule held."""
        return self.status is Status.PASSED


def run_named(test: NamedTest, subject: Subject) -> Verdict:
    """Run one named test. Whatever the code under test raises is a verdict; only an interrupt passes through."""
    start = time.perf_counter()
    status, message, story = Status.PASSED, "", None
    try:
        test.run(subject)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit() in a method, too, ends only this test
        (status, message), story = ending(error), kept(error)
    return Verdict(test.name, status, message, time.perf_counter() - start, story)


def ending(error: BaseException) -> tuple[Status, str]:
    """The status and the sentence that an exception out of a test stands for."""
    match error:
        case RuleBroken():
            return Status.FAILED, str(error)
        case NotDefined():
            return Status.NOT_DEFINED, str(error)
        case MemoryError():
            return Status.OUT_OF_MEMORY, f"Memory ran out{_at(error)}."
        case SystemExit():
            return Status.DIED, f"The code under test asked Python to exit{_at(error)}."
        case NotImplementedError():
            what = str(error) or "it raises NotImplementedError"
            return Status.FAILED, f"Not written yet: {what}{_at(error, with_line=False)}."
        case RecursionError():
            return Status.FAILED, f"Too deep a recursion{_at(error)}: no call may recurse with the prompt's length."
        case _:
            return Status.FAILED, explained(error)


def explained(error: BaseException) -> str:
    """An error as one line for its author: what it is, and the last line of their own code that it came through."""
    text = str(error).strip()
    return f"{type(error).__name__}{': ' + text if text else ''}{_at(error)}"


def _at(error: BaseException, with_line: bool = True) -> str:
    found = _told_from_a_room(error)
    if found is None:
        return at(error, with_line)
    where, number, line = found
    return f" ({where}, line {number}{': ' + line if line and with_line else ''})"


def _told_from_a_room(error: BaseException) -> tuple[str, int, str] | None:
    """Where an error arose in a process of its own, if it came from there: place, line, and the line's text."""
    found: tuple[str, int, str] | None = getattr(error, "at", None)
    return (place(found[0]), *found[1:]) if found else None

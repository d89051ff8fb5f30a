"""What came of a class, as plain data: a result for each student and module, and how results add up.

It knows what is kept, and how it is written down as JSON. How anything was found, graded or shown it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """How far the work of one student for one module came."""

    GRADED = "graded"
    NOT_SUBMITTED = "not submitted"
    UNREADABLE = "can't be read"
    NOT_GRADED = "could not be graded"


@dataclass(frozen=True)
class Result:
    """What came of one student's work for one module.

    Attributes:
        student: the student's id, exactly as the folder or the file says it: any text that a file may be called.
        module: the module's id, such as L8.4.
        submission: the file that was graded, relative to the class's folder; "" where there is none.
        state: how far it came.
        notes: a sentence each: what an instructor should know about the files (renamed, two attempts, …), and
            why nothing could be graded where it could not.
        points: what each check is worth to this student, by named test, and OWN_TESTS; 0.0 where it is lost.
        worth: the most that each check gives, by the same names.
        hidden: named tests whose reasons and stories no student may see.
        report: the report as `autograder.report.as_data` gives it; empty where nothing was graded.
        key: what the verdict hangs on (autograder/classroom/keys.py): the same key, the same verdict.
        attempts: how many files the student handed in for this module.
    """

    student: str
    module: str
    submission: str
    state: State
    notes: tuple[str, ...] = ()
    points: Mapping[str, float] = field(default_factory=dict)
    worth: Mapping[str, float] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    report: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    attempts: int = 1

    @property
    def score(self) -> float:
        """The points, added up."""
        return total(self.points.values())

    @property
    def most(self) -> float:
        """The most points that could be had."""
        return total(self.worth.values())


OWN_TESTS = "own_tests"
"""The name under which the own-tests score stands among a result's points."""


def total(points: Iterable[float]) -> float:
    """Points added up, to two digits, so that thirds of a point make whole ones again."""
    return round(sum(points), 2) + 0.0


@dataclass(frozen=True)
class Class:
    """Everybody's results, sorted by student and by module, lowest first.

    Attributes:
        name: what the class is called: the name of its folder.
        modules: ids of the modules that were graded, lowest first.
        results: exactly one for each student and module.
    """

    name: str
    modules: tuple[str, ...]
    results: tuple[Result, ...]

    def students(self) -> Iterator[tuple[str, Sequence[Result]]]:
        """Each student, with one result a module."""
        by_student: dict[str, list[Result]] = {}
        for result in self.results:
            by_student.setdefault(result.student, []).append(result)
        yield from by_student.items()


# ---------------------------------------------------------------- as JSON


def as_data(result: Result) -> dict[str, Any]:
    """A result in plain values."""
    return {**asdict(result), "state": result.state.value}


def from_data(data: Mapping[str, Any]) -> Result:
    """A result from what `as_data` gave. Raises KeyError, TypeError or ValueError for what it can't have given."""
    lists = {name: tuple(data[name]) for name in ("notes", "hidden")}
    return Result(**{**data, **lists, "state": State(data["state"])})

"""Heat maps of a class: students by named tests, and students by planted bugs.

It knows which columns a module has and what happened in each cell, in a word. Signs and colours it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from autograder.catalogue import catalogue
from autograder.classroom.pages.results import own, tests
from autograder.classroom.rows import Result, State
from autograder.planted import planted_bugs
from autograder.running import Status
from course.modules import Module

CAUGHT, MISSED, NO_TESTS = "caught", "missed", "no tests"
NOTHING = {Status.UNREADABLE.value, Status.NOT_SUBMITTED.value, NO_TESTS}
"""What stands in every cell of a student of whom nothing could be run."""

Pairs = Sequence[tuple[str, Result]]
"""Students, each with the result for one module."""


@dataclass(frozen=True)
class Line:
    """A student's cells, and how many of them are good; "" where nothing could be run."""

    student: str
    cells: tuple[str, ...]
    good: str


@dataclass(frozen=True)
class HeatMap:
    """A line a student; `sums`: how many students have each column right."""

    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    sums: tuple[int, ...]


def of_tests(module: Module, pairs: Pairs) -> HeatMap:
    """Students by named tests: those of the catalogue, and those that older reports have besides."""
    names = [test.name for test in catalogue(module)]
    names += [each.name for _, result in pairs for each in tests(result)]
    columns = tuple(dict.fromkeys(names))
    return _made(columns, ((student, _ends(result, columns)) for student, result in pairs), Status.PASSED.value)


def _ends(result: Result, columns: Sequence[str]) -> tuple[str, ...]:
    nothing = Status.UNREADABLE if result.state is State.UNREADABLE else Status.NOT_SUBMITTED
    ended: Mapping[str, Status] = {each.name: each.status for each in tests(result)}
    return tuple(ended.get(name, nothing).value for name in columns)


def of_bugs(module: Module, pairs: Pairs) -> HeatMap:
    """Students by planted bugs, by their titles: which of them the student's own tests catch."""
    columns = _titles(module)
    return _made(columns, ((student, _catches(result, columns)) for student, result in pairs), CAUGHT)


def _catches(result: Result, columns: Sequence[str]) -> tuple[str, ...]:
    score = own(result)
    if score is None or not score.valid or not score.graded:
        return (NO_TESTS,) * len(columns)
    return tuple(MISSED if title in score.missed else CAUGHT for title in columns)


@cache
def _titles(module: Module) -> tuple[str, ...]:
    return tuple(bug.title for bug in planted_bugs(module))


def _made(columns: tuple[str, ...], rows: Iterable[tuple[str, tuple[str, ...]]], good: str) -> HeatMap:
    lines = tuple(Line(name, cells, "" if set(cells) <= NOTHING else str(cells.count(good))) for name, cells in rows)
    sums = tuple(sum(line.cells[place] == good for line in lines) for place in range(len(columns)))
    return HeatMap(columns, lines, sums)

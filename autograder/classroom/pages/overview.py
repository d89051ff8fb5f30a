"""What stands on a class's page: who needs a look, how everyone did, and what a class should hear about again.

It knows what is counted over students, and in which order it is told. How one result is read, and how a page is
laid out, it does not know.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autograder.classroom.pages import class_charts, heatmaps
from autograder.classroom.pages.results import (
    Blame,
    Measured,
    blamed,
    concerns,
    isolated,
    measured,
    pitfalls,
    tests,
)
from autograder.classroom.rows import Class, Result, State, total
from course.charts import BUDGET
from course.modules import Module, find

MOST_ROWS = 12
"""So many rows has a list of what was missed or failed most; the heat maps have all."""


@dataclass(frozen=True)
class Row:
    """A student with one result a module."""

    name: str
    results: tuple[Result, ...]
    score: float
    most: float

    @property
    def share(self) -> float:
        """Points over the most there are; 0.0 where nothing gives points."""
        return self.score / self.most if self.most else 0.0


@dataclass(frozen=True)
class Look:
    """What an instructor should look at, in one student's work for one module."""

    student: str
    module: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Count:
    """Something that happened to so many of so many students."""

    module: str
    what: str
    n: int
    of: int
    more: str = ""


@dataclass(frozen=True)
class Blamed:
    """How many students have an earlier module that a later one could not build on."""

    earlier: str
    later: str
    unsound: int
    at_fault: int


@dataclass(frozen=True)
class ModulePart:
    """Everything about one module."""

    module: Module
    counts: Mapping[str, int]
    mean: float | None
    most: float
    scores: class_charts.Histogram
    tests: heatmaps.HeatMap
    bugs: heatmaps.HeatMap


@dataclass(frozen=True)
class Page:
    """A class's page."""

    name: str
    students: tuple[Row, ...]
    n_results: int
    n_graded: int
    mean: float
    median: float
    most: float
    totals: class_charts.Histogram
    looks: tuple[Look, ...]
    warning: str
    modules: tuple[ModulePart, ...]
    pitfalls: tuple[Count, ...]
    failed: tuple[Count, ...]
    blamed: tuple[Blamed, ...]
    ttft: class_charts.Spread | None
    times: tuple[tuple[str, Measured], ...]
    budget: float = BUDGET


def page(cls: Class) -> Page:
    """The page of a class."""
    students = tuple(_row(name, results) for name, results in cls.students())
    results, none_isolated = cls.results, _none_isolated(cls.results)
    times = tuple((row.name, found) for row in students for each in row.results if (found := measured(each)))
    return Page(
        cls.name,
        students,
        len(results),
        sum(each.state is State.GRADED for each in results),
        statistics.mean(row.score for row in students) if students else 0.0,
        statistics.median(row.score for row in students) if students else 0.0,
        max((row.most for row in students), default=0.0),
        class_charts.histogram([row.share for row in students]),
        tuple(_looks(students, skip_isolation=none_isolated)),
        NONE_ISOLATED if none_isolated else "",
        tuple(_module(find(module), students) for module in cls.modules),
        _pitfalls(results),
        _failed(results),
        _blamed(row.results for row in students),
        class_charts.spread([(name, found.ratio, found.met) for name, found in times]),
        times,
    )


def _row(name: str, results: Sequence[Result]) -> Row:
    return Row(name, tuple(results), total(each.score for each in results), total(each.most for each in results))


# ---------------------------------------------------------------- who needs a look

NONE_ISOLATED = (
    "No submission was isolated: there is no sandbox on this machine. Verdicts hold for careless code, not for "
    "hostile code. See ol doctor."
)
ALONE = "Not isolated, while others were: grade it again where there is a sandbox."


def _none_isolated(results: Iterable[Result]) -> bool:
    graded = [each for each in results if each.state is State.GRADED]
    return bool(graded) and not any(isolated(each) for each in graded)


def _looks(students: Sequence[Row], skip_isolation: bool) -> Iterator[Look]:
    for row in students:
        if all(each.state is State.NOT_SUBMITTED for each in row.results) and row.results:
            yield Look(row.name, "", ("Nothing was handed in.", *(note for each in row.results for note in each.notes)))
            continue
        for each in row.results:
            alone = (ALONE,) * (not skip_isolation and not isolated(each))
            if found := (*concerns(each), *alone):
                yield Look(row.name, each.module, found)


# ---------------------------------------------------------------- modules


def _module(module: Module, students: Sequence[Row]) -> ModulePart:
    pairs = [(row.name, each) for row in students for each in row.results if each.module == module.id]
    graded = [each for _, each in pairs if each.state is State.GRADED]
    counts = {state.value: n for state in State if (n := sum(each.state is state for _, each in pairs))}
    most = max((each.most for each in graded), default=0.0)
    return ModulePart(
        module,
        counts,
        statistics.mean(each.score for each in graded) if graded else None,
        most,
        class_charts.histogram([each.score / each.most if each.most else 0.0 for each in graded]),
        heatmaps.of_tests(module, pairs),
        heatmaps.of_bugs(module, pairs),
    )


# ---------------------------------------------------------------- what a class should hear about again


def _most(found: Mapping[tuple[str, str, str], int], of: Mapping[str, int]) -> tuple[Count, ...]:
    ranked = sorted(found.items(), key=lambda each: (-each[1], each[0]))
    return tuple(Count(module, what, n, of[module], more) for (module, what, more), n in ranked[:MOST_ROWS])


def _n_graded(results: Iterable[Result]) -> Mapping[str, int]:
    n: dict[str, int] = defaultdict(int)
    for each in results:
        n[each.module] += each.state is State.GRADED
    return n


def _pitfalls(results: Sequence[Result]) -> tuple[Count, ...]:
    found: dict[tuple[str, str, str], int] = defaultdict(int)
    for each in results:
        for pitfall in pitfalls(each):
            found[each.module, pitfall.title, pitfall.reread] += 1
    return _most(found, _n_graded(results))


def _failed(results: Sequence[Result]) -> tuple[Count, ...]:
    found: dict[tuple[str, str, str], int] = defaultdict(int)
    for result in results:
        for each in tests(result) if result.state is State.GRADED else ():
            if not each.passed:
                found[result.module, each.name, ""] += 1
    return _most(found, _n_graded(results))


def _blamed(students: Iterable[Sequence[Result]]) -> tuple[Blamed, ...]:
    found: dict[tuple[str, str], list[Blame]] = defaultdict(list)
    for results in students:
        for blame in blamed(results):
            found[blame.earlier, blame.later].append(blame)
    rows = (
        Blamed(*pair, sum(each.unsound for each in blames), sum(not each.unsound for each in blames))
        for pair, blames in found.items()
    )
    return tuple(sorted(rows, key=lambda row: (-row.unsound - row.at_fault, row.earlier, row.later)))

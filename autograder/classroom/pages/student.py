"""What stands on a student's page: total, a score a module, and for each module every reason with what helps next.

It knows which parts a page has and how they are worded. How they are laid out the templates say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from markupsafe import Markup

from autograder import replay
from autograder.catalogue import catalogue
from autograder.classroom.pages import charts
from autograder.classroom.pages.results import (
    HIDDEN,
    Ended,
    Own,
    Pitfall,
    own,
    pitfalls,
    remarks,
    shortest_story,
    tests,
)
from autograder.classroom.rows import OWN_TESTS, Result, State, total
from course.modules import Module, find


@dataclass(frozen=True)
class TestRow:
    """A named test: how it ended, what it gives of what it could give (None: nothing), and why.

    `checks` is what the catalogue says of it; `repeats`: its reason was told before.
    """

    ended: Ended
    points: float
    worth: float | None
    checks: str
    repeats: bool


@dataclass(frozen=True)
class Story:
    """A failing story as a picture."""

    test: str
    html: Markup


@dataclass(frozen=True)
class Manager:
    """A manager under the engine: what was found, and its charts where it was measured."""

    result: str
    text: str
    ttft: charts.Times | None
    hit_rate: charts.Rates | None


@dataclass(frozen=True)
class Section:
    """Everything about one module."""

    module: Module
    result: Result
    state: str
    advice: str
    notes: tuple[str, ...]
    rows: tuple[TestRow, ...]
    n_passed: int
    own: Own | None
    pitfalls: tuple[Pitfall, ...]
    story: Story | None
    manager: Manager | None
    remarks: tuple[str, ...]
    footnote: str

    @property
    def own_points(self) -> tuple[float, float | None]:
        """Points of the own tests, and the most that they give."""
        return self.result.points.get(OWN_TESTS, 0.0), self.result.worth.get(OWN_TESTS)


@dataclass(frozen=True)
class Page:
    """A student's page."""

    class_name: str
    student: str
    score: float
    most: float
    sections: tuple[Section, ...]


ADVICE = {
    State.GRADED: "",
    State.NOT_SUBMITTED: "Hand in {name}.ipynb, under that name, and it counts from the next grading on.",
    State.UNREADABLE: (
        "If it no longer opens in JupyterLab, go back to a copy that does, or take the assignment anew and paste your "
        "cells into it; then hand it in again."
    ),
    State.NOT_GRADED: "This says nothing about the work: whoever grades has to look into it and grade it again.",
}


def page(class_name: str, student: str, results: Sequence[Result]) -> Page:
    """The page of a student with these results, one a module."""
    score, most = (total(values) for values in zip(*((each.score, each.most) for each in results), strict=True))
    return Page(class_name, student, score, most, tuple(map(_section, results)))


def _section(result: Result) -> Section:
    module, rows = find(result.module), tuple(_rows(result))
    state = "" if result.state is State.GRADED else result.state.value[:1].upper() + result.state.value[1:]
    return Section(
        module,
        result,
        state,
        ADVICE[result.state].format(name=module.name),
        result.notes,
        rows,
        sum(row.ended.passed for row in rows),
        own(result),
        pitfalls(result),
        _story(shortest_story(result)),
        _manager(result),
        remarks(result),
        _footnote(result),
    )


def _rows(result: Result) -> Iterator[TestRow]:
    """What did not pass comes first: that is what there is to read."""
    checks = {test.name: test.checks for test in catalogue(find(result.module))}
    said: set[str] = set()
    for each in sorted(tests(result), key=lambda each: each.passed):
        what = "" if each.hidden else checks.get(each.name, "")
        yield TestRow(each, result.points.get(each.name, 0.0), result.worth.get(each.name), what, each.message in said)
        said |= {each.message} - {"", HIDDEN}


def _story(ended: Ended | None) -> Story | None:
    if ended is None:
        return None
    return Story(ended.name, Markup(_picture(ended.name, json.dumps(ended.story))))


@lru_cache(maxsize=512)
def _picture(test: str, story: str) -> str:
    """The picture of a story: students who take the same wrong turn have the same one."""
    return replay.picture(test, json.loads(story)).html


def _manager(result: Result) -> Manager | None:
    budget: Mapping[str, Any] | None = result.report.get("budget")
    if not budget:
        return None
    times, hits, queries = (budget.get(name, {}) for name in ("ttft_ms", "hit_tokens", "query_tokens"))
    word = {True: "met", False: "not met", None: "not measured"}[budget["met"]]
    return Manager(word, budget["text"], charts.ttft(times), charts.hit_rate(hits, queries))


def _footnote(result: Result) -> str:
    """What a module stood on, and how it was kept apart."""
    report = result.report
    if not report or not result.submission:
        return ""
    below = f"It stood on {report['below']}. " if report.get("below") else ""
    isolation = str(report.get("isolation", ""))
    return f"Graded: {result.submission}. {below}{isolation[:1].upper()}{isolation[1:]}{'.' * bool(isolation)}"

"""`ol demo`: chats served without and with a prefix cache, then three sample notebooks graded.

It knows the order, the samples, and what should come of each. How chats are served is in
autograder/serving_demo.py; how a notebook is graded it does not know.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console, RenderableType
from rich.live import Live

from autograder.grading import Report, grade
from autograder.report import class_view
from autograder.samples import MODULE, Sample, samples
from autograder.work import Limits

LIMITS = Limits(test_s=2.0)
"""A right test here ends in a fraction of a second, and one that loops should not keep anybody waiting."""


Row = tuple[str, Report | None, str]
Show = Callable[[list[Row]], None]


def demo(console: Console, model: str, out: Path) -> bool:
    """The whole demo. Returns whether every answer and every verdict is as it should be.

    Args:
        console: where to print, with progress on a terminal.
        model: the chats' model; where it can't be had, the byte model takes its place.
        out: the folder for the charts.
    """
    from autograder.serving_demo import serving_demo

    served_well = serving_demo(console, model, out)
    console.print()
    graded_well = grading_demo(console)
    return served_well and graded_well


def grading_demo(console: Console) -> bool:
    """Grade the samples, with the table growing on a terminal. Returns whether every verdict is as it should be."""
    chosen = samples()
    console.print(f"Grading {len(chosen)} sample notebooks for {MODULE.id}, {MODULE.title}.")
    console.print(f"One of them loops without end, so a test may take {LIMITS.test_s:g} s at most.\n")
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            rows = _graded(chosen, lambda rows: live.update(_table(rows), refresh=True))
    else:
        rows = _graded(chosen, lambda rows: None)
        console.print(_table(rows))
    reports = [report for _, report, _ in rows if report is not None]
    surprises = [
        f"{sample.path.name} {problem}"
        for sample, report in zip(chosen, reports, strict=True)
        if (problem := surprise(sample, report))
    ]
    console.print()
    for problem in surprises:
        console.print(f"Not as it should be: {problem}", style="bold red")
    if not surprises:
        console.print("Every verdict is as it should be.", style="bold green")
        console.print(f"For all of one report: ol check {MODULE.id} {_typed(chosen[1].path)}")
    return not surprises


def _graded(chosen: Sequence[Sample], show: Show) -> list[Row]:
    rows: list[Row] = [(sample.path.name, None, "waiting") for sample in chosen]
    for place, sample in enumerate(chosen):

        def tell(what: str, done: int, of: int, place: int = place) -> None:
            rows[place] = (rows[place][0], None, f"{what} {done} of {of}")
            show(rows)

        report = grade(sample.path, MODULE, LIMITS, tell=tell)
        rows[place] = (sample.path.name, report, "")
        show(rows)
    return rows


def _table(rows: Sequence[Row]) -> RenderableType:
    return class_view(f"{MODULE.id} {MODULE.title}", rows)


def _typed(path: Path) -> str:
    """A path as one would type it from here."""
    near = os.path.relpath(path)
    return str(path) if near.startswith("..") else near


def surprise(sample: Sample, report: Report) -> str:
    """How a sample's verdict is not what it should be; nothing if it is."""
    if (report.passed or report.undecided) != sample.passes:
        return f"should {'' if sample.passes else 'not '}pass"
    if sample.shows not in {verdict.status for verdict in report.verdicts}:
        return f"should have a named test that {sample.shows}"
    own = report.own
    return (
        ""
        if own.passed or (own.valid and not own.graded)
        else f"has good tests of its own, and they are not accepted: {own.reason}"
    )

"""Reports on paper: one submission's verdicts, a class's table, a module's catalogue, as rich text or as data.

It knows how results are worded and laid out. It does not know how they came about.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from autograder.budget import Budget
from autograder.catalogue import NamedTest
from autograder.diagnosis import Candidate
from autograder.grading import Report
from autograder.planted import PlantedBug
from autograder.running import Status, Verdict
from autograder.scoring import THRESHOLD, OwnScore
from course.modules import Module

SIGNS = {Status.PASSED: ("✓", "green"), Status.FAILED: ("✗", "red")}
OTHER_SIGN = ("!", "yellow")

MESSAGE_LINES = 30
"""A longer message is cut: the whole of it is in the JSON report."""


def plural(n: int, noun: str) -> str:
    """`1 test`, `2 tests`."""
    return f"{n} {noun}" + "s" * (n != 1)


def duration(seconds: float) -> str:
    """Seconds, as short as they can be read."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


# ---------------------------------------------------------------- one submission


def shown(report: Report) -> RenderableType:
    """A whole report, for a terminal or a file."""
    parts: list[RenderableType] = [
        Text.assemble((f"{report.module.id} {report.module.title}", "bold"), f" · {report.submission}")
    ]
    parts += [Text(f"note: {remark}", "yellow") for remark in _news(report)]
    parts += [Text(), _heading("Named tests", f"{report.n_passed} of {len(report.verdicts)} passed")]
    parts += _verdicts(report.verdicts)
    parts += [Indented(line, 2) for line in looks_like(report.diagnosis)]
    parts += [Text(), *_own(report.own), *_budget(report.budget)]
    parts += [Text(), verdict_line(report), Text(_footnote(report), "dim")]
    return Group(*parts)


def _news(report: Report) -> list[str]:
    """The remarks that no verdict repeats."""
    told = "\n".join([report.own.reason, *(verdict.message for verdict in report.verdicts)])
    return [remark for remark in report.remarks if remark not in told]


def _heading(title: str, result: str) -> Text:
    return Text.assemble((title, "bold"), f": {result}")


def _verdicts(verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    """One line a test, and below it why it did not pass; a reason that several share is said once."""
    said: set[str] = set()
    for verdict in verdicts:
        sign, colour = SIGNS.get(verdict.status, OTHER_SIGN)
        ending = "" if verdict.status in SIGNS else f"  {verdict.status}"
        yield Text.assemble("  ", (sign, colour), f" {verdict.test}", (ending, colour))
        if verdict.message and verdict.message not in said:
            yield Indented(verdict.message)
        said.add(verdict.message)


@dataclass(frozen=True)
class Indented:
    """A message under a test's line: wrapped with its indent on a terminal, left as it is where it is piped."""

    message: str
    indent: int = 6

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """The lines of the message, each below the other."""
        lines = self.message.splitlines()
        hidden = len(lines) - MESSAGE_LINES
        for line in [*lines[:MESSAGE_LINES], *[f"(and {plural(hidden, 'line')} more)"] * (hidden > 0)]:
            margin = " " * (self.indent + len(line) - len(line.lstrip()))
            width = max(options.max_width, len(margin) + 20) if options.is_terminal else len(margin) + len(line) + 1
            wrapped = textwrap.wrap(line.strip(), width, initial_indent=margin, subsequent_indent=margin + "  ")
            yield from (Text(piece, no_wrap=True, overflow="ignore") for piece in wrapped)


def looks_like(candidates: Sequence[Candidate]) -> list[str]:
    """The pitfalls that failed tests look like, in a line or two."""
    named = [f"“{each.title}” (read again: {each.reread})" for each in candidates]
    if not named:
        return []
    if len(named) == 1:
        return [f"This looks like a known pitfall: {named[0]}."]
    return [f"This looks like one of {len(named)} known pitfalls: {'; or '.join(named)}."]


def _own(own: OwnScore) -> Iterator[RenderableType]:
    yield _heading("Your own tests", own_result(own))
    if own.reason:
        yield Indented(own.reason)
    for title in own.missed if own.valid else ():
        yield Text.assemble("  ", ("✗", "red"), f" not caught: {title}")


def _budget(budget: Budget | None) -> Iterator[RenderableType]:
    """The budget's line; it is no part of the verdict, and says so."""
    if budget is not None:
        result = {True: "met", False: "not met", None: "open"}[budget.met]
        yield from (Text(), _heading("TTFT budget", f"{result} (no part of the verdict)"), Indented(budget.text))


def own_result(own: OwnScore) -> str:
    """The own tests' result in a few words."""
    if not own.valid:
        return "not valid"
    if not own.graded:
        return "accept the correct implementation"
    return f"{len(own.caught)} of {own.n_bugs} planted bugs caught ({own.share:.0%}, {THRESHOLD:.0%} needed)"


def verdict_line(report: Report) -> Text:
    """The last word on a submission."""
    if report.passed:
        return Text(f"{report.module.id} passed.", "bold green")
    if report.undecided:
        return Text("The named tests pass. Your own tests can't be graded in this edition.", "bold yellow")
    lost = len(report.verdicts) - report.n_passed
    named = [f"{plural(lost, 'named test')} of {len(report.verdicts)} did not pass"] * bool(lost)
    own = ["your own tests are not good enough yet"] * (report.own.graded and not report.own.passed)
    return Text(f"{report.module.id} is not passed: {', and '.join(named + own)}.", "bold red")


def _footnote(report: Report) -> str:
    below = f" On {report.below}." if report.below else ""
    return f"{report.isolation[:1].upper()}{report.isolation[1:]}.{below} {duration(report.seconds)}."


def as_data(report: Report) -> dict[str, Any]:
    """A report for programs: everything that `shown` shows, in plain values."""
    own = report.own
    return {
        "module": report.module.id,
        "submission": report.submission,
        "passed": report.passed,
        "named_tests": [
            {
                "test": each.test,
                "status": each.status.value,
                "message": each.message,
                "seconds": round(each.seconds, 4),
                "story": each.story,
            }
            for each in report.verdicts
        ],
        "diagnosis": [
            {"pitfall": each.title, "reread": each.reread, "likeness": each.likeness} for each in report.diagnosis
        ],
        "own_tests": {
            "valid": own.valid,
            "graded": own.graded,
            "passed": own.passed,
            "reason": own.reason,
            "caught": len(own.caught),
            "planted": own.n_bugs,
            "share": round(own.share, 4),
            "missed": list(own.missed),
            "required_missed": list(own.required_missed),
        },
        "remarks": list(report.remarks),
        "below": report.below,
        "isolation": report.isolation,
        "seconds": round(report.seconds, 3),
        "budget": report.budget and vars(report.budget),
    }


# ---------------------------------------------------------------- a class


def class_view(title: str, rows: Sequence[tuple[str, Report | None, str]]) -> RenderableType:
    """A row for each submission, (name, report or None, what is being done), and below it where each one fails."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("submission", no_wrap=True)
    for column in ("named tests", "own tests"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    for name, report, doing in rows:
        table.add_row(name, *(("", "", Text(doing, "dim"), "") if report is None else _class_row(report)))
    lost = [(name, weak) for name, report, _ in rows if report is not None and (weak := _weak_points(report))]
    return Group(table, *(Text.assemble((f"{name}: ", "bold"), weak) for name, weak in lost))


def _class_row(report: Report) -> tuple[str | Text, ...]:
    own = report.own
    return (
        f"{report.n_passed} of {len(report.verdicts)}",
        "not valid" if not own.valid else f"{len(own.caught)} of {own.n_bugs}" if own.graded else "not graded",
        _class_verdict(report),
        duration(report.seconds),
    )


def _class_verdict(report: Report) -> Text:
    if report.undecided:
        return Text("open", "yellow")
    return Text("passed", "green") if report.passed else Text("not passed", "red")


def _weak_points(report: Report) -> str:
    """The first named test that does not hold and how many more, or what the own tests lack."""
    lost = [verdict for verdict in report.verdicts if not verdict.passed]
    if not lost:
        return report.own.reason
    how = "" if lost[0].status is Status.FAILED else f" ({lost[0].status})"
    return lost[0].test + how + (f", and {len(lost) - 1} more" if len(lost) > 1 else "")


# ---------------------------------------------------------------- a module's catalogue


def catalogue_view(
    module: Module, tests: Sequence[NamedTest], bugs: Sequence[PlantedBug], width: int
) -> RenderableType:
    """What a module's named tests check and why, and the planted bugs that own tests should catch.

    A table where `width` has room for one, else a list.
    """
    head = Text.assemble((f"{module.id} {module.title}", "bold"), f" · {plural(len(tests), 'named test')}")
    titles = [Text.assemble("  · ", bug.title, (" (required)", "bold") if bug.required else "") for bug in bugs]
    needed = f"your own tests should catch {THRESHOLD:.0%} of these {len(bugs)}"
    required = ", the required ones among them" * any(bug.required for bug in bugs)
    rows = [_catalogue_table(tests)] if width >= TABLE_WIDTH else list(_catalogue_list(tests))
    return Group(head, Text(), *rows, Text(), _heading("Planted bugs", f"{needed}{required}."), *titles)


TABLE_WIDTH = 110


def _catalogue_table(tests: Sequence[NamedTest]) -> Table:
    table = Table(expand=True, show_lines=True)
    table.add_column("named test", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("checks", ratio=5)
    table.add_column("why it matters", ratio=4)
    for test in tests:
        table.add_row(test.name, test.kind, Text(test.checks), Text(test.why))
    return table


def _catalogue_list(tests: Sequence[NamedTest]) -> Iterator[RenderableType]:
    for test in tests:
        yield Text.assemble((test.name, "bold"), f"  {test.kind}")
        yield Indented(f"checks: {test.checks}", 4)
        yield Indented(f"why: {test.why}", 4)


def catalogue_data(module: Module, tests: Sequence[NamedTest], bugs: Sequence[PlantedBug]) -> dict[str, Any]:
    """The catalogue for programs."""
    return {
        "module": module.id,
        "title": module.title,
        "tests": [{"name": t.name, "kind": t.kind, "checks": t.checks, "why": t.why} for t in tests],
        "planted_bugs": [{"title": bug.title, "required": bug.required} for bug in bugs],
    }

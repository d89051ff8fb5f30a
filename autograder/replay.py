"""Replay: a failing story kept as data, and stepped through call by call, expected beside got.

It knows the shortest failing story of a verdict: what was called, what came, which call was wrong and what
the tree or the pool held then, beside what the course's flat model holds after the same calls. It runs no
submission and judges nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from autograder.judging import StoryFailed
from autograder.looking import drawn, looks, seen
from autograder.stories import Story, play
from autograder.telling import show
from course.modules import MODULES
from course.pictures import Picture
from course.pictures.base import BLUE, MONO, ORANGE, SANS

LONGEST = 2_000
"""A longer text is cut, in characters."""

ARROW = "  →  "
EXPECTED_STATE, GOT_STATE = "Expected, after these calls", "Yours, after these calls"
FREEDOM = "(A block pool may hand out any free block: other block numbers are no fault.)"


# ---------------------------------------------------------------- keeping


def kept(error: BaseException) -> dict[str, Any] | None:
    """A failing story as plain data for a report; None for any other failure.

    `calls` are lines of Python with what each gave; `fault` is the place of the wrong one among them, the rule
    it breaks, and expected beside got; `expected_state` and `got_state` are what could be read after it.
    """
    if not isinstance(error, StoryFailed):
        return None
    fault = error.fault
    lines = [line.partition(ARROW) for line in show(error.story[: fault.at + 1], error.outcomes)]
    return {
        "intro": error.intro,
        "calls": [{"call": _cut(call), "got": _cut(got)} for call, _, got in lines],
        "fault": {"at": fault.at, "rule": fault.rule, "expected": _cut(fault.expected), "got": _cut(fault.got)},
        "expected_state": _expected_state(error.story),
        "got_state": error.state,
    }


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text):,} characters)"


def _expected_state(story: Story) -> dict[str, Any] | None:
    """What the flat model holds after the same calls."""
    from autograder.implementations import flat

    named = {call.target for call in story if isinstance(call.target, str)}
    about = [module for module in MODULES if named & set(module.exports)]
    if not about:
        return None
    outcomes = play((*story, *looks(story)), flat(about[-1]).names)
    return seen(story, outcomes[len(story) :])


# ---------------------------------------------------------------- finding


class NothingToReplay(Exception):
    """There is no such story; the message says why."""


def load(path: Path) -> dict[str, Any]:
    """A report from a file, or from standard input for `-`. Raises NothingToReplay where it can't be read."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        report = json.loads(text)
    except OSError as problem:
        raise NothingToReplay(f"can't read {path}: {problem.strerror}") from None
    except ValueError:
        raise NothingToReplay(f"{path} is no report: make one with ol check M NOTEBOOK --json > {path}") from None
    if not isinstance(report, dict) or not isinstance(report.get("named_tests"), list):
        raise NothingToReplay(f"{path} is no report of ol check --json: it has no named tests")
    return report


def find(report: Mapping[str, Any], test: str) -> dict[str, Any]:
    """The story of one test of a report. Raises NothingToReplay, and says which tests have one."""
    rows = {row["test"]: row for row in report["named_tests"] if isinstance(row, dict) and "test" in row}
    stories = [name for name, row in rows.items() if row.get("story")]
    hint = f"; stories of {', '.join(stories)} are there" if stories else "; no failing story is in this report"
    if test not in rows:
        raise NothingToReplay(f"the report has no test {test}{hint}")
    row = rows[test]
    if row.get("status") == "passed":
        raise NothingToReplay(f"{test} passed{hint}")
    if not row.get("story"):
        raise NothingToReplay(f"{test} failed without a story: its message says all there is{hint}")
    return dict(row["story"])


# ---------------------------------------------------------------- showing


@dataclass(frozen=True)
class Step:
    """One call of a story: its line of Python, what came, and what was expected, which differs at the fault only."""

    number: int
    call: str
    got: str
    expected: str
    wrong: bool


def steps(story: Mapping[str, Any]) -> list[Step]:
    """The calls of a kept story, the last of them the one that is wrong."""
    fault, found = story["fault"], []
    for place, row in enumerate(story["calls"]):
        wrong = place == fault["at"]
        got, expected = (fault["got"], fault["expected"]) if wrong else (row["got"], row["got"])
        found.append(Step(place + 1, row["call"], got.strip("\n"), expected.strip("\n"), wrong))
    return found


def states(story: Mapping[str, Any]) -> list[Picture]:
    """The tree or the pool at the wrong call: expected, then got."""
    captions = (("expected_state", EXPECTED_STATE), ("got_state", GOT_STATE))
    return [picture for key, caption in captions if (picture := drawn(story.get(key), caption))]


def has_pool(story: Mapping[str, Any]) -> bool:
    """Whether the story was about a block pool, alone or under a manager."""
    return (story.get("got_state") or {}).get("kind") == "pool"


def opening(test: str, story: Mapping[str, Any]) -> str:
    """What is said before the first call."""
    n = len(story["calls"])
    length = f"{n} call{'s' * (n != 1)}"
    return f"{test}: {story['intro']}\nThe shortest story that shows it has {length}; the last one is wrong."


def play_back(test: str, story: Mapping[str, Any], out: Console, wait: bool) -> None:
    """Print a story call by call, then the first divergence. `wait`: go on when Enter is pressed."""
    out.print(Text(opening(test, story)))
    told = steps(story)
    for step in told:
        if wait and not _next(out, f"  call {step.number} of {len(told)} "):
            return
        for part in _told(step):
            out.print(part, crop=False)
    out.print(Text(f"\n{story['fault']['rule']}", "bold"))
    for picture in states(story):
        out.print(Text(f"\n{picture.text}"), crop=False)
    if has_pool(story):
        out.print(Text(FREEDOM, "dim"))


def _next(out: Console, prompt: str) -> bool:
    """Wait for Enter; False where the input ends or is q."""
    try:
        return out.input(Text(f"{prompt}(Enter; q ends) ", "dim")).strip().lower() != "q"
    except EOFError:
        return False


def _told(step: Step) -> Iterator[RenderableType]:
    sign, colour = ("✗", "red") if step.wrong else ("✓", "green")
    yield Text.assemble("  ", (sign, colour), f" {step.call}")
    if not step.wrong:
        if step.got:
            yield Text(f"      {step.got}", "dim")
        return
    table = Table(show_edge=False, pad_edge=False, box=None, padding=(0, 3, 0, 0))
    table.add_column("      expected", overflow="fold")
    table.add_column("got", overflow="fold")
    table.add_row(Text(_indented(step.expected, 6)), Text(step.got, colour))
    yield table


def _indented(text: str, n: int) -> str:
    return "\n".join(" " * n + line for line in text.splitlines())


# ---------------------------------------------------------------- in a notebook


def picture(test: str, story: Mapping[str, Any]) -> Picture:
    """A whole story for a notebook: its calls in a table, and below it both trees or pools."""
    rows = "".join(_row(step) for step in steps(story))
    head = "".join(f'<th scope="col" style="{_CELL}">{name}</th>' for name in ("", "call", "expected", "got"))
    table = f'<table style="border-collapse:collapse; color:inherit"><thead><tr>{head}</tr></thead>{rows}</table>'
    shown = states(story)
    beside = "".join(f'<div style="flex:1 1 20em">{each.html}</div>' for each in shown)
    words = escape(opening(test, story)).replace("\n", "<br>")
    note = f'<div style="opacity:.8">{escape(FREEDOM)}</div>' if has_pool(story) else ""
    html = (
        f'<div style="border-left:4px solid {ORANGE}; padding:.4em .9em; font-family:{SANS}; line-height:1.45">'
        f"<div>{words}</div>{table}<div><b>{escape(story['fault']['rule'])}</b></div>"
        f'<div style="display:flex; flex-wrap:wrap; gap:1.5em">{beside}</div>{note}</div>'
    )
    return Picture(html, as_text(test, story))


_CELL = f"text-align:left; vertical-align:top; padding:.15em 1em .15em 0; white-space:pre-wrap; font:12.5px/1.5 {MONO}"


def _row(step: Step) -> str:
    sign, colour = ("✗ wrong", ORANGE) if step.wrong else ("✓", BLUE)
    cells = (escape(step.call), escape(step.expected), escape(step.got))
    told = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
    return f'<tr><td style="{_CELL}; color:{colour}; white-space:nowrap">{sign}</td>{told}</tr>'


def as_text(test: str, story: Mapping[str, Any]) -> str:
    """The same without colours, for a screen reader or a pipe."""
    from io import StringIO

    out = Console(file=StringIO(), width=120, color_system=None, highlight=False)
    play_back(test, story, out, wait=False)
    return out.file.getvalue().rstrip()  # type: ignore[attr-defined, no-any-return]

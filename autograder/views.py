"""How verdicts look in a notebook: each view as HTML, and as text for everything else.

It knows verdicts, scores and catalogues, and the look that the course's pictures share. It runs nothing
and judges nothing. A colour never says anything that a word beside it doesn't say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from autograder.catalogue import NamedTest
from autograder.planted import PlantedBug
from autograder.running import Verdict
from autograder.scoring import THRESHOLD, OwnScore
from course.modules import Module, find
from course.pictures.base import BLUE, MONO, ORANGE, SANS, Picture


@dataclass(frozen=True)
class Place:
    """A line of the student's own code: its number and the lines of the cell or file that it stands in."""

    line: int
    lines: tuple[str, ...]

    def around(self, reach: int = 2) -> list[tuple[int, str]]:
        """The line and its neighbours, with their numbers."""
        first = max(self.line - reach, 1)
        return [(n, self.lines[n - 1]) for n in range(first, min(self.line + reach, len(self.lines)) + 1)]

    @property
    def part(self) -> str:
        """The `class` or `def` that the line belongs to, as it stands in the code."""
        above = [line for line in self.lines[: self.line] if line.startswith(("class ", "def "))]
        return (above or self.lines)[-1 if above else 0].strip()


@dataclass(frozen=True)
class Ending:
    """A check's verdict, and the line of the student's code that an exception came from, if one did."""

    verdict: Verdict
    place: Place | None = None


# ---------------------------------------------------------------- small parts


def _framed(body: str, colour: str) -> str:
    style = (
        f"border-left:4px solid {colour}; padding:.4em .9em; margin:.5em 0; max-width:62em; "
        f"font-family:{SANS}; line-height:1.45; break-inside:avoid"
    )
    return f'<div style="{style}">{body}</div>'


def _pre(text: str) -> str:
    style = (
        f"font:12.5px/1.5 {MONO}; white-space:pre-wrap; margin:.3em 0; padding:.4em .7em; color:inherit; "
        "background:rgba(128,128,128,.12); border-radius:4px"
    )
    return f'<pre style="{style}">{escape(text)}</pre>'


def _code(text: str) -> str:
    return f'<code style="font:.95em {MONO}; background:none; color:inherit">{escape(text)}</code>'


def _mark(good: bool, word: str) -> str:
    sign, colour = ("✓", BLUE) if good else ("✗", ORANGE)
    return f'<span style="white-space:nowrap; font-weight:600"><span style="color:{colour}">{sign}</span> {word}</span>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    cell = "text-align:left; vertical-align:top; padding:.25em .9em .25em 0; white-space:normal"
    head = "".join(f'<th scope="col" style="{cell}">{text}</th>' for text in heads)
    body = "".join("<tr>" + "".join(f'<td style="{cell}">{text}</td>' for text in row) + "</tr>" for row in rows)
    style = "border-collapse:collapse; margin:.4em 0; font-size:inherit; color:inherit"
    return f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


# ---------------------------------------------------------------- the first cell, the catalogue, a guess


def ready(module: Module, lent: Sequence[str]) -> Picture:
    """What `begin` says: the module, and what the course lends for it."""
    owners = [need for need in map(find, module.needs) if set(need.exports) & set(lent)]
    loans = "; ".join(f"{' and '.join(owner.exports)} ({owner.id}, {owner.title.lower()})" for owner in owners)
    text = f"{module.id} · {module.title}. Ready."
    more = f"The course lends you {loans}: slow, and right." if loans else ""
    return Picture(_framed(f"<b>{escape(text)}</b> {escape(more)}", BLUE), f"{text} {more}".strip())


def table_of_tests(module: Module, tests: Sequence[NamedTest]) -> Picture:
    """The catalogue: one row a named test."""
    rows = [(_code(test.name), test.kind, escape(test.checks), escape(test.why)) for test in tests]
    html = _table(("Test", "Kind", "What it checks", "Why it matters"), rows)
    lines = [f"{test.name} ({test.kind})\n    checks: {test.checks}\n    why:    {test.why}" for test in tests]
    return Picture(_framed(html, BLUE), "\n".join([f"{module.id}: {len(tests)} tests", *lines]))


def guessed(guess: Any, answer: Any) -> Picture:
    """A guess beside the answer."""
    right = _listed(guess) == _listed(answer)
    if guess is None:
        text = f"It is {answer!r}. A guess first, right or wrong, helps to remember."
    elif right:
        text = f"Right: {answer!r}."
    else:
        text = f"You guessed {guess!r}; it is {answer!r}."
    return Picture(_framed(escape(text), BLUE if right or guess is None else ORANGE), text)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | list) else value


# ---------------------------------------------------------------- checks


def report(endings: Sequence[Ending], hints: Sequence[str] = ()) -> Picture:
    """How checks ended: one entry each, the rule first where one is broken; `hints` stand at the end."""
    passed = all(ending.verdict.passed for ending in endings)
    html = "".join([*map(_entry, endings), *(f"<div>{escape(hint)}</div>" for hint in hints)])
    return Picture(_framed(html, BLUE if passed else ORANGE), "\n".join([*map(_entry_text, endings), *hints]))


def no_story(verdict: Verdict) -> Picture:
    """What a replay shows of a test that passes, or that fails without a story: its verdict."""
    why = "it passes" if verdict.passed else "it is no story: its message says all there is"
    text = f"There is nothing to step through in {verdict.test}: {why}."
    more = "" if verdict.passed else _entry(Ending(verdict))
    told = "" if verdict.passed else "\n" + _entry_text(Ending(verdict))
    return Picture(_framed(escape(text) + more, BLUE if verdict.passed else ORANGE), text + told)


def _entry(ending: Ending) -> str:
    verdict = ending.verdict
    took = f'<span style="opacity:.7">{max(verdict.seconds * 1000, 1):.0f} ms</span>'
    head = f"<div>{_mark(verdict.passed, verdict.status.value)} {_code(verdict.test)} {took}</div>"
    if verdict.passed:
        return head
    rule, _, values = verdict.message.partition("\n")
    shown = _pre(_outdented(values)) if values else ""
    return f'{head}<div style="margin:.2em 0 .6em 1.2em"><b>{escape(rule)}</b>{shown}{_snippet(ending.place)}</div>'


def _snippet(place: Place | None) -> str:
    if place is None or not place.lines:
        return ""
    where = f"In your {_code(place.part)}, line {place.line} of the cell:"
    return f"<div>{where}</div>{_pre(_marked(place))}"


def _marked(place: Place) -> str:
    return "\n".join(f"{'→' if n == place.line else ' '} {n:3} {line}" for n, line in place.around())


def _outdented(values: str) -> str:
    return "\n".join(line.removeprefix("  ") for line in values.splitlines())


def _entry_text(ending: Ending) -> str:
    verdict = ending.verdict
    head = f"{'✓' if verdict.passed else '✗'} {verdict.test}: {verdict.status.value}"
    told = [f"    {line}" for line in verdict.message.splitlines()]
    where = [f"    {line}" for line in _marked(ending.place).splitlines()] if ending.place else []
    return "\n".join([head, *told, *where])


# ---------------------------------------------------------------- the student's own tests


def bug_score(module: Module, bugs: Sequence[PlantedBug], score: OwnScore) -> Picture:
    """Which planted bugs a suite catches, by title; the required ones are marked."""
    if not score.valid or not score.graded:
        rule, _, more = score.reason.partition("\n")
        lead = "No score yet." if score.graded else ""
        html = f"{lead} <b>{escape(rule)}</b>{_pre(_outdented(more)) if more else ''}"
        return Picture(_framed(html, ORANGE), f"{lead} {score.reason}".strip())
    verdict = _score_line(module, score)
    rows = [_bug_row(bug, bug.id in score.caught) for bug in bugs]
    table = _table(("", "Planted bug", "What goes wrong in a server, and where to read again"), rows)
    html = f"<div><b>{escape(verdict)}</b></div>{_bar(score)}{table}"
    lines = [
        f"{'✓ caught' if bug.id in score.caught else '✗ missed'}  {bug.title}{' (required)' if bug.required else ''}"
        for bug in bugs
    ]
    return Picture(_framed(html, BLUE if score.passed else ORANGE), "\n".join([verdict, *lines]))


def _score_line(module: Module, score: OwnScore) -> str:
    counted = f"Your tests catch {len(score.caught)} of {score.n_bugs} planted bugs."
    if score.passed:
        return f"{counted} That is enough for {module.id}."
    return f"{counted} Not enough yet: {THRESHOLD:.0%} are needed, and every required one."


def _bar(score: OwnScore) -> str:
    outer = (
        "position:relative; width:24em; max-width:100%; height:.8em; border:1px solid currentColor; border-radius:3px"
    )
    inner = f"width:{score.share:.1%}; height:100%; background:{BLUE}"
    mark = f"position:absolute; left:{THRESHOLD:.0%}; top:-.25em; bottom:-.25em; border-left:2px solid currentColor"
    label = f"{score.share:.0%} caught, {THRESHOLD:.0%} needed"
    fills = f'<div style="{inner}"></div><div style="{mark}"></div>'
    return f'<div role="img" aria-label="{label}" style="{outer}; margin:.5em 0">{fills}</div>'


def _bug_row(bug: PlantedBug, caught: bool) -> tuple[str, str, str]:
    required = " <i>(required)</i>" if bug.required else ""
    return (
        _mark(caught, "caught" if caught else "missed"),
        escape(bug.title) + required,
        f'{escape(bug.symptom)} <span style="opacity:.75">{escape(bug.reread)}</span>',
    )

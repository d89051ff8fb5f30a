"""What came of prompts that were served: the numbers, and a small table of them.

It knows how served requests are shown, as a picture and as text. How they are served it does not know.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from course.engine.requests import Event, Prefilled
from course.pictures import Picture
from course.pictures.base import SANS

SHOWN_ANSWER, SHOWN_NODE = 48, 28
"""Characters of an answer in a table, and of a node's text in a tree."""


@dataclass(frozen=True)
class Served:
    """Prompts that were served, a value for each of them where there are several.

    Attributes:
        model: what answered.
        prefix_cache: the mode.
        n_prompt: tokens of the prompt.
        ttft_ms: time to first token in milliseconds, from when the request came.
        prefill_tokens: positions computed as prefill, those of a preempted request again each time.
        cached_tokens: tokens of the prompt that the cache had when the request was first admitted.
        preemptions: how often the request had to give its blocks back and begin again.
        answers: the texts.
        tokens: the same as token ids.
        hit_rates: hit tokens over query tokens so far, each time a request was finished.
        evictions: cached blocks that were given up for others.
        pool: the pool as it is now, to look at.
        manager: the manager as it is now, to look at.
    """

    model: str
    prefix_cache: str
    n_prompt: tuple[int, ...]
    ttft_ms: tuple[float, ...]
    prefill_tokens: tuple[int, ...]
    cached_tokens: tuple[int, ...]
    preemptions: tuple[int, ...]
    answers: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]
    hit_rates: tuple[float, ...]
    evictions: int
    pool: Any = field(repr=False, compare=False)
    manager: Any = field(repr=False, compare=False)

    @property
    def hit_rate(self) -> float:
        """Hit tokens over query tokens, when all was answered."""
        return self.hit_rates[-1]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return table_of_requests(self)._repr_mimebundle_(include, exclude)

    def __str__(self) -> str:
        return table_of_requests(self).text


def table_of_requests(served: Served) -> Picture:
    """One row a request, and what all of them took together."""
    head = ("request", "prompt tokens", "from the cache", "computed", "TTFT", "answer")
    rows = [
        (
            str(i + 1),
            f"{served.n_prompt[i]:,}",
            f"{served.cached_tokens[i]:,}",
            f"{served.prefill_tokens[i]:,}",
            milliseconds(served.ttft_ms[i]),
            _short(served.answers[i], served.tokens[i]),
        )
        for i in range(len(served.answers))
    ]
    caption = f"{_counted(len(rows))}, {served.model} model, prefix cache {served.prefix_cache}"
    total = f"{sum(served.prefill_tokens):,} tokens computed for prompts of {sum(served.n_prompt):,}"
    return table(head, rows, caption, f"{total}; hit rate {served.hit_rate:.0%}{_trouble(served)}")


def side_by_side(runs: Mapping[str, Served]) -> Picture:
    """One row a run: the same prompts served in several ways, their answers compared with the first one's.

    Raises ValueError if there is no run.
    """
    if not runs:
        raise ValueError("there is nothing to compare: give at least one run")
    first = next(iter(runs.values()))
    head = ("", "TTFT, median", "tokens computed", "hit rate", "evictions", "preemptions", "answers")
    rows = [
        (
            label,
            milliseconds(statistics.median(run.ttft_ms)),
            f"{sum(run.prefill_tokens):,}",
            f"{run.hit_rate:.0%}",
            f"{run.evictions:,}",
            f"{sum(run.preemptions):,}",
            "the same" if run.tokens == first.tokens else "not the same",
        )
        for label, run in runs.items()
    ]
    return table(head, rows, f"{_counted(len(first.answers))}, {first.model} model", "")


@dataclass(frozen=True)
class StepDone:
    """One step of the engine: positions computed as prefill, tokens answered, requests admitted, and its time."""

    prefill: int
    answered: int
    admitted: int
    preempted: int
    ms: float

    @classmethod
    def of(cls, events: Sequence[Event], ms: float) -> StepDone:
        """A step from what happened in it."""
        kinds = [type(event).__name__ for event in events]
        prefill = sum(event.end - event.start for event in events if isinstance(event, Prefilled))
        return cls(prefill, kinds.count("Token"), kinds.count("Admitted"), kinds.count("Preempted"), ms)


@dataclass(frozen=True)
class Steps:
    """Steps of the engine, in order; a notebook shows them as a table."""

    done: tuple[StepDone, ...]

    def __len__(self) -> int:
        return len(self.done)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return table_of_steps(self)._repr_mimebundle_(include, exclude)

    def __str__(self) -> str:
        return table_of_steps(self).text


def table_of_steps(steps: Steps) -> Picture:
    """One row a step."""
    head = ("step", "admitted", "prefill positions", "tokens answered", "preempted", "time")
    rows = [
        (str(i), str(step.admitted), str(step.prefill), str(step.answered), str(step.preempted), milliseconds(step.ms))
        for i, step in enumerate(steps.done, 1)
    ]
    prefill, ms = sum(step.prefill for step in steps.done), sum(step.ms for step in steps.done)
    total = f"{prefill:,} positions of prefill, {milliseconds(ms)}"
    return table(head, rows, f"{len(steps)} steps of the engine", total)


@dataclass(frozen=True)
class Spelled:
    """A radix tree in words, for a picture: of each node the text that its tokens stand for, cut in the middle."""

    tree: Any
    decode: Callable[[Sequence[int]], str]

    def walk(self) -> Iterator[tuple[Any, ...]]:
        """Rows as a radix tree gives them, with one piece of text and one number of blocks for each node."""
        for node, parent, tokens, values, locks, last_used in self.tree.walk():
            blocks = f"{len(values)} block{'s' * (len(values) != 1)}"
            yield node, parent, (self._said(tokens),), (blocks,), locks, last_used

    def _said(self, tokens: Sequence[int]) -> str:
        text = "".join(c if c.isprintable() else "·" for c in " ".join(self.decode(tokens).split()))
        return text if len(text) <= SHOWN_NODE else f"{text[: SHOWN_NODE // 2]} … {text[-SHOWN_NODE // 2 :]}"


def milliseconds(value: float) -> str:
    """A time in milliseconds, three digits of it or as many as there are before the point."""
    return f"{value:.3g} ms" if value < 999.5 else f"{value:,.0f} ms"


def _counted(n: int) -> str:
    return f"{n} request{'s' * (n != 1)}"


def _trouble(served: Served) -> str:
    parts = [(served.evictions, "evictions"), (sum(served.preemptions), "preemptions")]
    return "".join(f"; {n:,} {what}" for n, what in parts if n)


def _short(answer: str, tokens: Sequence[int]) -> str:
    """An answer on one line, cut where it is long; its token ids where it is no text, as random weights give it."""
    line = " ".join(answer.split())
    if not line.isprintable() or "\ufffd" in line or len(line) < len(tokens) / 2:
        line = f"tokens {' '.join(map(str, tokens))}"
    return line if len(line) <= SHOWN_ANSWER else line[: SHOWN_ANSWER - 1] + "…"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str, below: str) -> Picture:
    """A table as a picture: its head, its rows, a caption above and a note below; without a head, the caption alone."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = ["  ".join(part.ljust(width) for part, width in zip(row, widths, strict=True)) for row in (head, *rows)]
    text = "\n".join(part for part in (caption, *(line.rstrip() for line in lines), below) if part)
    return Picture(_html(head, rows, caption, below), text)


def _html(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str, below: str) -> str:
    cell = "padding:.15em 1.1em .15em 0; text-align:left"
    top = "".join(f'<th scope="col" style="{cell}">{escape(part)}</th>' for part in head)
    body = "".join(
        "<tr>" + "".join(f'<td style="{cell}">{escape(part)}</td>' for part in row) + "</tr>" for row in rows
    )
    note = f'<div style="font-size:.85em; opacity:.8; margin-top:.3em">{escape(below)}</div>' if below else ""
    return (
        f'<figure style="margin:.5em 0; font-family:{SANS}; color:inherit; break-inside:avoid; overflow-x:auto">'
        f'<figcaption style="font-weight:600; margin-bottom:.3em">{escape(caption)}</figcaption>'
        f'<table style="border-collapse:collapse; color:inherit; font-size:13px">'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{note}</figure>"
    )

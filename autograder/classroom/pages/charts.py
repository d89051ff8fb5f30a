"""Charts of one manager: its time to first token and its hit rate, as places in a small drawing.

It knows scales, ticks and places, and what a chart says in words for those who can't see it. The drawings are
360 units wide, so that their text can be read on a phone; templates/charts.html draws them, in the page's colours.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from autograder.classroom.pages.results import timed
from course.charts import BUDGET, hit_rate_finding, milliseconds, ttft_finding

WIDTH = 360.0
LEFT, RIGHT = 46.0, 346.0
"""Where the axis begins and ends."""


@dataclass(frozen=True)
class Tick:
    """A place on an axis, and what stands there."""

    at: float
    label: str


def ticks(most: float, unit: str = "", parts: int = 4) -> tuple[float, tuple[tuple[float, str], ...]]:
    """The end of an axis from 0 that holds `most`, and round values on it with their labels."""
    raw = max(most, 0.1) / parts
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * each for each in (1, 2, 2.5, 5, 10) if size * each >= raw)
    n = max(math.ceil(round(most / step, 6)), 1)
    return n * step, tuple((i * step, f"{i * step:g}{unit}") for i in range(n + 1))


# ---------------------------------------------------------------- TTFT of a manager


@dataclass(frozen=True)
class Dot:
    """A request; `cold`: the first one, which fills the cache."""

    x: float
    cold: bool


@dataclass(frozen=True)
class Row:
    """The requests of one mode, and their median."""

    mode: str
    y: float
    dots: tuple[Dot, ...]
    median_x: float
    label: str


@dataclass(frozen=True)
class Times:
    """TTFT by mode, with the budget as a line at half of the time without a cache."""

    title: str
    alt: str
    rows: tuple[Row, ...]
    budget: Tick
    ticks: tuple[Tick, ...]
    height: float


ROW = 38.0


def ttft(ttft_ms: Mapping[str, Sequence[float]]) -> Times | None:
    """The chart of these times in milliseconds; None where there are none, or none without a cache."""
    if not ttft_ms.get("none"):
        return None
    warm = {mode: timed(times) for mode, times in ttft_ms.items() if times}
    most, labels = ticks(max(time for times in ttft_ms.values() for time in times) * 1.02)
    budget = statistics.median(warm["none"]) / BUDGET
    rows = tuple(_row(mode, ttft_ms[mode], place, most) for place, mode in enumerate(warm))
    in_seconds = {mode: [time / 1e3 for time in times] for mode, times in warm.items()}
    told = ", ".join(f"{row.mode} {row.label}" for row in rows)
    return Times(
        ttft_finding(in_seconds),
        f"Time to first token, medians: {told}. The budget is {milliseconds(budget / 1e3)} ms.",
        rows,
        Tick(_x(budget, most), f"budget {milliseconds(budget / 1e3)} ms"),
        tuple(Tick(_x(value, most), label) for value, label in labels),
        34 + ROW * len(rows),
    )


def _row(mode: str, times: Sequence[float], place: int, most: float) -> Row:
    dots = tuple(Dot(_x(time, most), number == 0 and len(times) > 1) for number, time in enumerate(times))
    median = statistics.median(timed(times))
    return Row(mode, 44 + ROW * place, dots, _x(median, most), f"{milliseconds(median / 1e3)} ms")


def _x(value: float, most: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * value / most, 1)


# ---------------------------------------------------------------- hit rate of a manager

TOP, BOTTOM = 16.0, 132.0


@dataclass(frozen=True)
class Line:
    """The hit rate of a mode after each request."""

    mode: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Rates:
    """Hit rates over requests, by mode; `labels` stand at the ends of the lines, one for lines that end alike."""

    title: str
    alt: str
    lines: tuple[Line, ...]
    labels: tuple[tuple[float, str], ...]
    ticks: tuple[Tick, ...]


def hit_rate(hit_tokens: Mapping[str, Sequence[int]], query_tokens: Mapping[str, Sequence[int]]) -> Rates | None:
    """The chart of these counts, a request each; None where there are none."""
    rates = {mode: _so_far(hits, query_tokens[mode]) for mode, hits in hit_tokens.items() if hits}
    if not rates:
        return None
    longest = max(map(len, rates.values()))
    lines = tuple(Line(mode, _points(values, longest)) for mode, values in rates.items())
    ends: dict[float, list[str]] = {}
    for mode, values in rates.items():
        ends.setdefault(round(values[-1], 2), []).append(mode)
    told = "; ".join(f"{mode} {', '.join(f'{rate:.0%}' for rate in values)}" for mode, values in rates.items())
    every = -(-longest // 10)
    return Rates(
        hit_rate_finding(rates),
        f"Share of prompt tokens found in the cache so far, after each request: {told}.",
        lines,
        tuple((_y(rate), f"{' and '.join(modes)} {rate:.0%}") for rate, modes in ends.items()),
        tuple(Tick(_at(place, longest), str(place + 1)) for place in range(0, longest, every)),
    )


def _so_far(hits: Sequence[int], queries: Sequence[int]) -> list[float]:
    """Hits over queries after each request."""
    return [hit / asked if asked else 0.0 for hit, asked in zip(accumulate(hits), accumulate(queries), strict=True)]


def _points(values: Sequence[float], longest: int) -> tuple[tuple[float, float], ...]:
    return tuple((_at(place, longest), _y(value)) for place, value in enumerate(values))


def _at(place: int, longest: int) -> float:
    return round(LEFT + 14 + (RIGHT - LEFT - 28) * place / max(longest - 1, 1), 1)


def _y(rate: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * min(max(rate, 0.0), 1.0), 1)

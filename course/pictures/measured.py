"""Measured numbers as charts in a notebook: hit rate over requests, and time to first token with its budget.

It knows lists of numbers by mode. The sentences that say what was found are those of the charts in files
(`course.charts`). What was measured, and how, it does not know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from course.charts import Spread, hit_rate_finding, ttft_finding
from course.charts import milliseconds as in_milliseconds
from course.pictures import base
from course.pictures.base import BLUE, BOLD, END, ORANGE, START, NothingToDraw, Picture, said

INK = "currentColor"
MODES = ("none", "hash", "radix")
COLOURS = (INK, BLUE, ORANGE)
DASHES = ("2 4", "", "8 5")
MARKERS = ("square", "circle", "triangle")
"""A mode has its colour, line and marker in every chart; other labels take them in turn, a plain line first."""


# ---------------------------------------------------------------- hit rate

WIDE, HIGH, LEFT, TOP, BOTTOM = 430.0, 190.0, 48.0, 14.0, 40.0
MOST_TOLD = 20
"""Pixels of the plot and its margins; of more requests the text form tells so many, spread out."""


def draw_hit_rate(rates: Mapping[str, Sequence[float]], caption: str = "") -> Picture:
    """Draw the hit rate so far after every request: a line for each label.

    Args:
        rates: for each label, hit tokens over query tokens after each request, from 0 to 1.
        caption: a line above the picture.
    """
    try:
        series = _series(rates, "hit rate", 1.0)
    except NothingToDraw as problem:
        return base.message(f"{caption}\n{problem}" if caption else str(problem))
    finding = hit_rate_finding(series)
    text = "\n".join([*([finding] if caption else []), *_rate_rows(series)])
    names = [(f"{' and '.join(alike)} {values[-1]:.0%}", values[-1]) for alike, values in _alike(series)]
    shapes = _rate_axes(max(map(len, series.values())))
    for place, (label, values) in enumerate(series.items()):
        shapes += _line(place, label, values)
    shapes += _end_labels(names)
    width = LEFT + WIDE + max(len(name) for name, _ in names) * 7.2 + 24
    return base.figure(width, TOP + HIGH + BOTTOM, shapes, text, caption or finding, finding if caption else "")


def _series(given: Any, what: str, most: float) -> dict[str, list[float]]:
    """The numbers, or in words why they are none. Raises NothingToDraw."""
    if not isinstance(given, Mapping) or not given:
        raise NothingToDraw(f"There is nothing to draw: it takes a dict of lists, a {what} for each entry.")
    return {said(label): _values(said(label), values, what, most) for label, values in given.items()}


def _values(label: str, values: Any, what: str, most: float) -> list[float]:
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise NothingToDraw(f"{label}: a list of one {what} or more is needed, not {said(values)}.")
    for place, value in enumerate(values):
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
        if not 0 <= number <= most or number == math.inf:
            bound = f"from 0 to {most:g}" if most < math.inf else "of 0 or more"
            raise NothingToDraw(f"{label}: value {place + 1} is {said(value)}; a {what} is a number {bound}.")
    return [float(value) for value in values]


def _rate_rows(series: Mapping[str, Sequence[float]]) -> list[str]:
    wide = max(map(len, series))
    rows = []
    for label, values in series.items():
        step = -(-len(values) // MOST_TOLD)
        shown = [*values[:-1:step], values[-1]]
        rows.append(f"{label:>{wide}}  {' '.join(f'{value:.0%}' for value in shown)}")
    return rows


def _alike(series: Mapping[str, Sequence[float]]) -> list[tuple[list[str], Sequence[float]]]:
    """Labels whose lines are the same, together: they lie on each other."""
    groups: dict[tuple[float, ...], list[str]] = {}
    for label, values in series.items():
        groups.setdefault(tuple(round(value, 3) for value in values), []).append(label)
    return [(labels, series[labels[0]]) for labels in groups.values()]


def _at(request: int, rate: float, requests: int) -> tuple[float, float]:
    share = request / (requests - 1) if requests > 1 else 0.5
    return LEFT + 10 + share * (WIDE - 20), TOP + (1 - rate) * HIGH


def _rate_axes(requests: int) -> list[str]:
    shapes = []
    for quarter in range(5):
        y = TOP + HIGH * (1 - quarter / 4)
        shapes.append(base.path(f"M{LEFT:g} {y:g} H{LEFT + WIDE:g}", f'stroke="{INK}" stroke-opacity=".18"'))
        shapes.append(base.label(LEFT - 8, y + 4, f"{quarter / 4:.0%}", size=11, style=END))
    step = max(1, -(-requests // 10))
    for request in range(0, requests, step):
        x, _ = _at(request, 0, requests)
        shapes.append(base.label(x, TOP + HIGH + 17, str(request + 1), size=11))
    return [*shapes, base.label(LEFT + WIDE / 2, TOP + HIGH + 34, "requests answered", size=11.5)]


def _look(label: str, place: int) -> int:
    return MODES.index(label) if label in MODES else (place + 1) % len(MODES)


def _line(place: int, label: str, values: Sequence[float]) -> list[str]:
    points = [_at(request, rate, len(values)) for request, rate in enumerate(values)]
    look = _look(label, place)
    colour, dash = COLOURS[look], DASHES[look]
    stroke = f'stroke="{colour}" stroke-width="2.5"' + (f' stroke-dasharray="{dash}"' if dash else "")
    commands = " ".join(f"{'L' if n else 'M'}{x:g} {y:g}" for n, (x, y) in enumerate(points))
    every = -(-len(points) // 20)
    return [base.path(commands, stroke), *(_marker(MARKERS[look], x, y, colour) for x, y in points[::every])]


def _marker(kind: str, x: float, y: float, colour: str) -> str:
    # a circle is drawn hollow and larger, so that a line that lies on it leaves both to be seen
    if kind == "circle":
        return base.box(x - 6, y - 6, 12, 12, line=f'stroke="{colour}" stroke-width="2"', fill='fill="none"')
    if kind == "square":
        return base.box(x - 3.5, y - 3.5, 7, 7, line='stroke="none"', fill=f'fill="{colour}"', radius=0)
    return f'<path d="M{x:g} {y - 5:g} l5 9 h-10 z" fill="{colour}"/>'


def _end_labels(names: Sequence[tuple[str, float]]) -> list[str]:
    """The labels at their lines' ends, moved apart where they would stand on each other."""
    shapes, lowest = [], math.inf
    for name, rate in sorted(names, key=lambda pair: pair[1]):
        lowest = min(TOP + (1 - rate) * HIGH + 4, lowest - 15)
        shapes.append(base.label(LEFT + WIDE + 8, lowest, name, size=12, style=START + BOLD))
    return shapes


# ---------------------------------------------------------------- time to first token

LENGTH, ROW, THICK = 380.0, 36.0, 18.0
"""Pixels: the longest bar, a row, a bar's thickness."""


def draw_ttft(milliseconds: Mapping[str, Sequence[float]], caption: str = "", budget: float = 2.0) -> Picture:
    """Draw the time to first token by mode: a bar to the median, a line from the quickest repeat to the slowest.

    The dashed line is the budget: the time of the mode `none`, divided by `budget` (L10.4, section 4).

    Args:
        milliseconds: repeats of the TTFT for each mode, in milliseconds.
        caption: a line above the picture.
        budget: how many times sooner than `none` a cached prompt's first token is to come.
    """
    try:
        series = _series(milliseconds, "time in milliseconds", math.inf)
        _values("budget", [budget], "budget", math.inf)
    except NothingToDraw as problem:
        return base.message(f"{caption}\n{problem}" if caption else str(problem))
    spreads = {mode: Spread.of(values) for mode, values in series.items()}
    limit = spreads["none"].median / budget if "none" in spreads and budget else None
    finding = _finding(spreads)
    text = "\n".join([*([finding] if finding and caption else []), *_time_rows(spreads, limit, budget)])
    legend = "bar: median · line: quickest to slowest repeat" + (" · dashed: the budget" if limit is not None else "")
    legend = f"{finding}\n{legend}" if finding and caption else legend
    shapes, width, height = _bars(spreads, limit, budget)
    return base.figure(width, height, shapes, text, caption or finding, legend)


def _finding(spreads: Mapping[str, Spread]) -> str:
    """What was found; nothing where there is no `none` to compare with, or a time of 0."""
    if "none" not in spreads or not all(spread.median > 0 for spread in spreads.values()):
        return ""
    return ttft_finding({mode: [spread.median / 1e3] for mode, spread in spreads.items()})


def _told(value: float) -> str:
    return f"{in_milliseconds(value / 1e3)} ms"


def _budget_told(limit: float, budget: float) -> str:
    share = "half of none" if budget == 2 else f"none / {budget:g}"
    return f"budget: {_told(limit)}, {share}"


def _time_rows(spreads: Mapping[str, Spread], limit: float | None, budget: float) -> list[str]:
    wide = max(map(len, spreads))
    rows = [
        f"{mode:>{wide}}  {_told(spread.median)} ({_told(spread.low)} to {_told(spread.high)})"
        for mode, spread in spreads.items()
    ]
    return rows if limit is None else [*rows, _budget_told(limit, budget)]


def _bars(spreads: Mapping[str, Spread], limit: float | None, budget: float) -> tuple[list[str], float, float]:
    left = max(len(mode) for mode in spreads) * 7.2 + 22
    scale = LENGTH / (max(spread.high for spread in spreads.values()) or 1)
    bottom = TOP + ROW * len(spreads)
    shapes = [base.path(f"M{left:g} {TOP - 6:g} V{bottom:g}")]
    for place, (mode, spread) in enumerate(spreads.items()):
        shapes += _bar(left, TOP + place * ROW, mode, spread, scale, COLOURS[_look(mode, place)])
    if limit is not None:
        x = left + limit * scale
        shapes.append(base.path(f"M{x:g} {TOP - 6:g} V{bottom + 4:g}", f'stroke="{INK}" stroke-dasharray="5 4"'))
        told = _budget_told(limit, budget)
        shapes.append(base.label(max(x, len(told) * 3.4 + 4), bottom + 18, told, size=11.5))
    return shapes, left + LENGTH + 84, bottom + 26


def _bar(x: float, y: float, mode: str, spread: Spread, scale: float, colour: str) -> list[str]:
    middle = y + THICK / 2
    low, high = x + spread.low * scale, x + spread.high * scale
    whisker = f"M{low:g} {middle:g} H{high:g} M{low:g} {middle - 4:g} v8 M{high:g} {middle - 4:g} v8"
    fill = f'fill="{colour}" fill-opacity="{".45" if colour == INK else ".75"}"'
    return [
        base.label(x - 8, middle + 4.5, mode, style=END),
        base.box(x, y, spread.median * scale, THICK, line='stroke="none"', fill=fill, radius=2),
        base.path(whisker, f'stroke="{INK}" stroke-width="1.4"'),
        base.label(x + LENGTH + 10, middle + 4.5, _told(spread.median), style=START + BOLD),
    ]

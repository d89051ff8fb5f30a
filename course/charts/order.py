"""Time to first token of every request of a backlog, by the order in which they were admitted, as PNG and as text.

It knows times by order and the sentence that they amount to. What was measured, and how, it does not know.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course.charts.style import BAR, COLOURS, INK, MARKERS, axes_for
from course.percentiles import percentile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ARRIVAL, PREFIX = "arrival", "prefix"

Times = Mapping[str, Sequence[Sequence[float]]]
"""By order, for each repeat the seconds that every request waited for its first token."""

LOOKS: Mapping[str, Any] = {
    ARRIVAL: {"color": COLOURS["none"], "marker": MARKERS["none"], "ls": ":"},
    PREFIX: {"color": COLOURS["hash"], "marker": MARKERS["hash"], "ls": "-"},
}
OTHER_LOOK: Any = {"color": INK, "marker": "D", "ls": "--"}

ALIKE = 0.05
"""Means that differ by less are told as the same: one run after the other differs by as much."""

NAME_LENGTH = 12
"""Characters of an order's name that are shown."""

GAP = 0.17
"""Height between two labels, as a part of the chart's: they have two lines each."""


def order_chart(times: Times, path: Path, note: str = "") -> Path:
    """Draw for each order the times to the first token, from the request that waited least to the one that did most.

    A line is the median of the repeats, the band about it their range.

    Args:
        times: seconds, by order and repeat.
        path: the PNG file to write; its folder is made if need be.
        note: a line of small print.

    Raises:
        ValueError: an order without a request, or whose repeats do not have as many each.
    """
    _check(times)
    top = max(max(repeat) for repeats in times.values() for repeat in repeats) * 1.08 or 1.0
    with axes_for(path, order_finding(times), note) as axes:
        for order, repeats in times.items():
            _line(axes, order, repeats)
        _label_ends(axes, times, top)
        axes.set_xlim(0, 101)
        axes.set_ylim(0, top)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}%")
        axes.set_xlabel("requests, from the one that waited least to the one that waited most")
        axes.set_ylabel("time to first token, s")
    return path


def _line(axes: Axes, order: str, repeats: Sequence[Sequence[float]]) -> None:
    ranks = list(zip(*(sorted(repeat) for repeat in repeats), strict=True))
    places = [100 * (rank + 1) / len(ranks) for rank in range(len(ranks))]
    look = LOOKS.get(order, OTHER_LOOK)
    band = [min(rank) for rank in ranks], [max(rank) for rank in ranks]
    axes.fill_between(places, *band, color=look["color"], alpha=0.18, linewidth=0)
    axes.plot(places, [statistics.median(rank) for rank in ranks], linewidth=2, markersize=4, **look)


def _label_ends(axes: Axes, times: Times, top: float) -> None:
    """Names and figures at the right of the lines' ends, moved apart where they would stand on each other."""
    ends = sorted((statistics.median(max(repeat) for repeat in repeats), order) for order, repeats in times.items())
    lowest = GAP / 2 * top
    for place, (end, order) in enumerate(ends):
        highest = top * (1 - GAP * (len(ends) - place - 0.5))
        height = min(max(end, lowest), highest)
        lowest = height + GAP * top
        axes.annotate(
            f"{_short(order)}\nmean {_seconds(_mean(times[order]))}",
            (100, height),
            xytext=(12, 0),
            textcoords="offset points",
            va="center",
            color=LOOKS.get(order, OTHER_LOOK)["color"],
            weight="bold",
            annotation_clip=False,
        )


def order_text(times: Times) -> str:
    """The same chart as text: for each order a bar as long as the mean, and the mean, median and 95th percentile."""
    _check(times)
    longest = max(map(_mean, times.values())) or 1.0
    rows = []
    for order, repeats in times.items():
        bar = "█" * max(1, round(BAR * _mean(repeats) / longest))
        p50, p95 = (_seconds(statistics.median(percentile(list(each), at) for each in repeats)) for at in (50, 95))
        rows.append(f"{_short(order):>{NAME_LENGTH}} {bar:{BAR}} mean {_seconds(_mean(repeats))}, p50 {p50}, p95 {p95}")
    return "\n".join([order_finding(times), *rows])


def order_finding(times: Times) -> str:
    """What the times say, in a sentence."""
    _check(times)
    if not {ARRIVAL, PREFIX} <= times.keys():
        order = next(iter(times))
        return f"In the order of {_told(order)} the first token takes {_seconds(_mean(times[order]))} on average"
    arrival, prefix = _mean(times[ARRIVAL]), _mean(times[PREFIX])
    slower, faster = max(arrival, prefix), min(arrival, prefix)
    if slower - faster <= ALIKE * slower:
        return "The order of prefixes brings the first token as soon, on average, as the order of arrival"
    ratio = f"{slower / faster:.1f} times " if faster else "far "
    direction = "sooner" if prefix < arrival else "later"
    return (
        f"In the order of prefixes the first token comes {ratio}{direction}, on average, than in the order of arrival"
    )


def _told(order: str) -> str:
    return "prefixes" if order == PREFIX else order


def _short(order: str) -> str:
    return order if len(order) <= NAME_LENGTH else f"{order[: NAME_LENGTH - 1]}…"


def _mean(repeats: Sequence[Sequence[float]]) -> float:
    """The mean over requests: the median of the repeats."""
    return statistics.median(statistics.fmean(repeat) for repeat in repeats)


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 999.5 else f"{value:,.0f} s"


def _check(times: Times) -> None:
    if not times or not all(repeats and all(repeats) for repeats in times.values()):
        raise ValueError("every order needs at least one request in each of its repeats")
    if ragged := [order for order, repeats in times.items() if len({len(repeat) for repeat in repeats}) > 1]:
        raise ValueError(f"the repeats of {ragged[0]} do not have as many requests each")

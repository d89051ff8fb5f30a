"""Ways of routing side by side, time to first token and hit rate of each, as a PNG file and as text for a terminal.

It knows numbers by way and the sentence that they amount to. The first way is the one that others are held against.
What was routed, and how, it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from course.charts.style import COLOURS, INK, TITLE_COLUMNS, Spread, axes_for, milliseconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE_SIZE = 12.5
LATE, SOON = COLOURS["radix"], COLOURS["hash"]
NAME_COLUMNS = 18


@dataclass(frozen=True)
class WayFigures:
    """What one way came to, a value for each repeat.

    Attributes:
        p50: seconds within which half of the first tokens came.
        p95: seconds within which 95 % of them came.
        hit_rate: hit tokens over query tokens of all engines, 0 to 1.
        engines: the hit rate of each engine, in each repeat.
    """

    p50: Sequence[float]
    p95: Sequence[float]
    hit_rate: Sequence[float]
    engines: Sequence[Sequence[float]]


@dataclass(frozen=True)
class RoutingFigures:
    """All ways, by name, and the hit rate of one cache that all engines share and that forgets nothing."""

    ways: Mapping[str, WayFigures]
    ideal: float


def routing_chart(data: RoutingFigures, path: Path, note: str = "") -> Path:
    """Draw a row for each way: left its times to first token, right its hit rate, and the ideal as a line.

    Args:
        data: what was measured; the first way is the one that the title compares with.
        path: the PNG file to write; its folder is made if need be.
        note: a line of small print.

    Raises:
        ValueError: there is no way, or one without a measurement.
    """
    title = fill(routing_finding(data), TITLE_COLUMNS)
    with axes_for(path, "", note) as axes:
        figure = axes.get_figure(root=True)
        assert figure is not None, "axes that can be drawn on are part of a figure"
        axes.remove()
        figure.suptitle(title, x=0.01, ha="left", size=TITLE_SIZE, weight="bold")
        times, rates = figure.subplots(1, 2, sharey=True)
        _draw_times(times, data)
        _draw_rates(rates, data)
        for axes in (times, rates):
            axes.grid(axis="x", color=INK, alpha=0.15)
            axes.set_axisbelow(True)
        times.set_yticks(range(len(data.ways)), [fill(way, NAME_COLUMNS) for way in data.ways])
        times.set_ylim(max(len(data.ways), 2) - 0.4, -0.6)
    return path


def _draw_times(axes: Axes, data: RoutingFigures) -> None:
    top = 0.0
    for place, way in enumerate(data.ways.values()):
        soon, late = Spread.of(way.p50), Spread.of(way.p95)
        top = max(top, 1e3 * late.high)
        axes.plot([1e3 * soon.median, 1e3 * late.median], [place, place], color=INK, alpha=0.35, linewidth=2, zorder=1)
        _point(axes, soon, place, "o", SOON, (-4, 9), "left")
        _point(axes, late, place, "D", LATE, (0, -17), "center")
    axes.set_xlim(0, top * 1.15 or 1)
    axes.set_xlabel("time to first token, ms\n● half of the requests   ◆ 95%")


def _point(axes: Axes, spread: Spread, place: int, marker: str, colour: str, beside: tuple[int, int], ha: str) -> None:
    at = 1e3 * spread.median
    ends = [[at - 1e3 * spread.low], [1e3 * spread.high - at]]
    axes.errorbar(at, place, xerr=ends, fmt=marker, color=colour, ecolor=INK, markersize=8, capsize=3, linewidth=1.2)
    axes.annotate(
        milliseconds(spread.median),
        (at, place),
        xytext=beside,
        textcoords="offset points",
        ha=ha,
        color=colour,
        weight="bold",
    )


def _draw_rates(axes: Axes, data: RoutingFigures) -> None:
    for place, way in enumerate(data.ways.values()):
        spread = Spread.of(way.hit_rate)
        axes.barh(place, spread.median, height=0.5, color=SOON)
        if spread.high > spread.low:
            ends = [[spread.median - spread.low], [spread.high - spread.median]]
            axes.errorbar(spread.median, place, xerr=ends, color=INK, capsize=4, linewidth=1.3)
        inside = spread.low > 0.25
        axes.annotate(
            f"{spread.median:.0%}",
            (spread.low if inside else spread.high, place),
            xytext=(-7 if inside else 7, 0),
            textcoords="offset points",
            ha="right" if inside else "left",
            va="center",
            color="white" if inside else INK,
            weight="bold",
        )
    axes.axvline(data.ideal, color=INK, linewidth=1.2, linestyle=(0, (5, 3)))
    axes.annotate(
        f"ideal {data.ideal:.0%}",
        (data.ideal, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-4 if data.ideal > 0.5 else 4, -1),
        textcoords="offset points",
        ha="right" if data.ideal > 0.5 else "left",
        va="top",
        fontsize=9.5,
    )
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_xlabel("prompt tokens found in a cache,\nboth engines together")


def routing_text(data: RoutingFigures) -> str:
    """The same chart as text: for each way its times and its hit rates, and the ideal below them."""
    finding, wide = routing_finding(data), max(map(len, [*data.ways, "ideal"]))
    rows = [_row(name.ljust(wide), way) for name, way in data.ways.items()]
    ideal = f"{'ideal':{wide}} {_bar(data.ideal)} {data.ideal:>4.0%} found by one cache for all that forgets nothing"
    return "\n".join([finding, *rows, ideal])


def _row(name: str, way: WayFigures) -> str:
    rate, p50, p95 = (Spread.of(each).median for each in (way.hit_rate, way.p50, way.p95))
    engines = ", ".join(f"{Spread.of(each).median:.0%}" for each in zip(*way.engines, strict=True))
    times = f"TTFT p50 {milliseconds(p50)} ms, p95 {milliseconds(p95)} ms"
    return f"{name} {_bar(rate)} {rate:>4.0%} found (engines {engines}); {times}"


def _bar(share: float, columns: int = 20) -> str:
    return ("█" * round(columns * share)).ljust(columns)


def routing_finding(data: RoutingFigures) -> str:
    """What the measurement says, in a sentence: the way that finds most, against the first one."""
    if not data.ways:
        raise ValueError("there is nothing to compare: give at least one way")
    rates = {name: f"{Spread.of(way.hit_rate).median:.0%}" for name, way in data.ways.items()}
    times = {name: milliseconds(Spread.of(way.p50).median) for name, way in data.ways.items()}
    first, best = next(iter(rates)), _best(data)
    if rates[best] == rates[first]:
        more = f"; nothing finds more than {first}" if len(rates) > 1 else f" with {first}"
        return f"{rates[first]} of prompt tokens are found{more}: median TTFT {times[first]} ms"
    told = f"{times[best]} ms, not {times[first]}" if times[best] != times[first] else f"{times[best]} ms in both"
    return f"With {best}, {rates[best]} of prompt tokens are found, {rates[first]} with {first}: median TTFT {told}"


def _best(data: RoutingFigures) -> str:
    """The way that finds most; of equal ones the first."""
    return max(data.ways, key=lambda name: Spread.of(data.ways[name].hit_rate).median)

"""Time of a step by its number of tokens, as a PNG file and as text for a terminal.

It knows times by tokens, for one way of computing a step or several, and the sentence that they amount to. What was
measured, and how, it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course.charts.style import BAR, INK, Spread, axes_for, milliseconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Times = Mapping[str, Mapping[int, Sequence[float]]]
"""Repeats in seconds, by the way of computing, by tokens in the step."""

FREE_UP_TO = 256
"""Up to here a step of a small model is said to cost the same on a GPU; the title says what these data say."""

LOOKS: tuple[dict[str, Any], ...] = (
    {"color": "#0072b2", "marker": "o", "ls": "-"},
    {"color": "#d55e00", "marker": "^", "ls": "--"},
    {"color": "#6b6b6b", "marker": "s", "ls": ":"},
)


def steps_chart(times: Times, path: Path, note: str = "") -> Path:
    """Draw the time of a step over its tokens, both on scales of powers of two, and what it would be in proportion.

    Args:
        times: repeats in seconds; of several ways of computing, the first is the one that the title is about.
        path: the PNG file to write; its folder is made if need be.
        note: a line of small print.

    Raises:
        ValueError: no way has a time, or a time is not above 0.
    """
    spreads, finding = _spreads(times), steps_finding(times)
    with axes_for(path, finding, note) as axes:
        for look, by_tokens in zip(_looks(len(spreads)), spreads.values(), strict=True):
            _line(axes, by_tokens, look)
        _labels(axes, spreads)
        _proportional(axes, next(iter(spreads.values())))
        tokens = sorted({n for by_tokens in spreads.values() for n in by_tokens})
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(tokens, [f"{n:,}" for n in tokens])
        axes.minorticks_off()
        axes.set_xlim(tokens[0] / 1.3, tokens[-1] * 1.3)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ticks = _ticks(spreads)
        axes.set_yticks(ticks)
        axes.set_ylim(ticks[0], ticks[-1])
        axes.set_xlabel("tokens in a step")
        axes.set_ylabel("time of the step, ms")
    return path


def _looks(n: int) -> list[dict[str, Any]]:
    return [LOOKS[place % len(LOOKS)] for place in range(n)]


def _line(axes: Axes, by_tokens: Mapping[int, Spread], look: Mapping[str, Any]) -> None:
    middle = [1e3 * spread.median for spread in by_tokens.values()]
    around = [
        [1e3 * (spread.median - spread.low) for spread in by_tokens.values()],
        [1e3 * (spread.high - spread.median) for spread in by_tokens.values()],
    ]
    axes.errorbar(list(by_tokens), middle, around, linewidth=2, markersize=6, capsize=3, elinewidth=1.3, **look)


def _labels(axes: Axes, spreads: Mapping[str, Mapping[int, Spread]]) -> None:
    """The name of each line, stacked above the axes: lines that meet leave no room at their ends."""
    if len(spreads) == 1:
        return
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], linewidth=2, markersize=6, **look) for look in _looks(len(spreads))]
    axes.legend(handles, list(spreads), loc="upper left", frameon=False, handlelength=3)


def _proportional(axes: Axes, by_tokens: Mapping[int, Spread]) -> None:
    """The line on which a token costs in every step what it costs in the largest one."""
    largest = max(by_tokens)
    each = 1e3 * by_tokens[largest].median / largest
    ends = [min(by_tokens), largest]
    axes.plot(ends, [each * n for n in ends], color=INK, linewidth=1.2, linestyle=(0, (5, 3)), zorder=1)
    if len(by_tokens) > 1:
        middle = (ends[0] * ends[1]) ** 0.5
        axes.annotate(
            "in proportion to tokens",
            (middle, each * middle),
            xytext=(12, -8),
            textcoords="offset points",
            va="top",
            fontsize=9.5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )


def _ticks(spreads: Mapping[str, Mapping[int, Spread]]) -> list[float]:
    """1, 2 and 5 of each power of ten, in milliseconds, around everything drawn."""
    first = next(iter(spreads.values()))
    largest = max(first)
    values = [1e3 * value for lines in spreads.values() for each in lines.values() for value in (each.low, each.high)]
    low = min(*values, 1e3 * first[largest].median / largest * min(first))
    steps = [digit * 10.0**power for power in range(-4, 8) for digit in (1, 2, 5)]
    below = max((place for place, step in enumerate(steps) if step <= low * 0.9), default=0)
    above = next((place for place, step in enumerate(steps) if step >= 1.3 * max(values)), len(steps) - 1)
    return steps[below : above + 1]


def steps_text(times: Times) -> str:
    """The same chart as text: for each way of computing a bar and the median of each size."""
    spreads = _spreads(times)
    top = max(spread.median for by_tokens in spreads.values() for spread in by_tokens.values())
    rows = []
    for name, by_tokens in spreads.items():
        rows += [name] * (len(spreads) > 1)
        rows += [
            f"{n:>6,} {'█' * max(1, round(BAR * spread.median / top)):{BAR}} {milliseconds(spread.median)} ms"
            f", {1e6 * spread.median / n:,.3g} us a token"
            for n, spread in by_tokens.items()
        ]
    return "\n".join([steps_finding(times), *rows])


def steps_finding(times: Times) -> str:
    """What the times say, in a sentence."""
    by_tokens = next(iter(_spreads(times).values()))
    smallest, largest = min(by_tokens), max(by_tokens)
    if smallest == largest:
        return f"A step of {smallest:,} tokens takes {milliseconds(by_tokens[smallest].median)} ms"
    middle = max((n for n in by_tokens if smallest < n <= FREE_UP_TO), default=largest)
    more = f"{middle:,} tokens take {_times(by_tokens, middle, smallest)} as long as {smallest:,}"
    return more if middle == largest else f"{more}, {largest:,} take {_times(by_tokens, largest, smallest)}"


def _times(by_tokens: Mapping[int, Spread], n: int, smallest: int) -> str:
    ratio = by_tokens[n].median / by_tokens[smallest].median
    return f"{ratio:,.0f} times" if ratio >= 9.95 else f"{ratio:.1f} times"


def _spreads(times: Times) -> dict[str, dict[int, Spread]]:
    if not times or not all(times.values()):
        raise ValueError("the time of a step needs at least one measurement")
    if any(seconds <= 0 for by_tokens in times.values() for repeats in by_tokens.values() for seconds in repeats):
        raise ValueError("a step takes some time: more than 0 seconds")
    return {name: {n: Spread.of(by_tokens[n]) for n in sorted(by_tokens)} for name, by_tokens in times.items()}

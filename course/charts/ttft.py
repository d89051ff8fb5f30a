"""Time to first token by mode, with its budget, as a PNG file and as text for a terminal.

It knows times by mode and the sentence that they amount to. What was measured, and how, it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from course.charts.style import BAR, COLOURS, INK, Spread, axes_for, milliseconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BUDGET = 2.0
"""TTFT without a cache over TTFT with one is at least this (L10.4, section 4)."""


def ttft_chart(seconds: Mapping[str, Sequence[float]], path: Path, note: str = "") -> Path:
    """Draw the time to first token of each mode, with the budget as a line at half of the time without a cache.

    Args:
        seconds: repeats of the TTFT for each mode; `none` is the one the budget is taken from.
        path: the PNG file to write; its folder is made if need be.
        note: a line of small print: model, prompt, machine.

    Raises:
        ValueError: a mode has no measurement, or `none` is not among them.
    """
    spreads, finding = _spreads(seconds), ttft_finding(seconds)
    budget = spreads["none"].median / BUDGET
    with axes_for(path, finding, note) as axes:
        for place, (mode, spread) in enumerate(spreads.items()):
            _bar(axes, place, mode, spread)
        axes.axhline(budget * 1e3, color=INK, linewidth=1.2, linestyle=(0, (5, 3)))
        axes.set_xlim(-0.6, len(spreads) - 0.4)
        axes.annotate(
            f"budget: {milliseconds(budget)} ms, half of none",
            (len(spreads) - 0.42, budget * 1e3),
            xytext=(0, 5),
            textcoords="offset points",
            ha="right",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )
        axes.set_xticks(range(len(spreads)), spreads)
        axes.set_xlabel("prefix cache")
        axes.set_ylabel("time to first token, ms")
        axes.set_ylim(0, max(spread.high for spread in spreads.values()) * 1e3 * 1.18)
    return path


def _bar(axes: Axes, place: int, mode: str, spread: Spread) -> None:
    height, low, high = (1e3 * value for value in (spread.median, spread.low, spread.high))
    axes.bar(place, height, width=0.55, color=COLOURS.get(mode, INK))
    axes.errorbar(place, height, [[height - low], [high - height]], color=INK, capsize=5, linewidth=1.3)
    axes.annotate(
        f"{milliseconds(spread.median)} ms",
        (place, high),
        xytext=(0, 5),
        textcoords="offset points",
        ha="center",
        weight="bold",
    )


def ttft_text(seconds: Mapping[str, Sequence[float]]) -> str:
    """The same chart as text: a bar, the median and the range of each mode, and where the budget lies."""
    spreads = _spreads(seconds)
    top = max(spread.median for spread in spreads.values())
    rows = [
        f"{mode:>6} {'█' * max(1, round(BAR * spread.median / top)):{BAR}} {milliseconds(spread.median)} ms"
        f" ({milliseconds(spread.low)} to {milliseconds(spread.high)})"
        for mode, spread in spreads.items()
    ]
    budget = spreads["none"].median / BUDGET
    line = (
        f"{'budget':>6} {'·' * round(BAR * budget / top)}│".ljust(BAR + 8) + f"{milliseconds(budget)} ms, half of none"
    )
    return "\n".join([ttft_finding(seconds), *rows, line])


def ttft_finding(seconds: Mapping[str, Sequence[float]]) -> str:
    """What the measurement says, in a sentence."""
    spreads = _spreads(seconds)
    cached = {mode: spread.median for mode, spread in spreads.items() if mode != "none"}
    if not cached:
        return f"Without a cache the first token takes {milliseconds(spreads['none'].median)} ms"
    mode = "hash" if "hash" in cached else next(iter(cached))
    ratio = spreads["none"].median / cached[mode]
    if ratio < 1:
        return f"With the {mode} cache the first token comes {1 / ratio:.1f} times later"
    return f"With the {mode} cache the first token comes {ratio:.1f} times sooner"


def _spreads(seconds: Mapping[str, Sequence[float]]) -> dict[str, Spread]:
    if "none" not in seconds:
        raise ValueError("the time without a cache (none) is needed: the budget is taken from it")
    return {mode: Spread.of(repeats) for mode, repeats in seconds.items()}

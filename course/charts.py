"""Charts of what a cache does to serving: time to first token by mode, and hit rate over requests.

Each comes as a PNG file and as text for a terminal. It knows how measured numbers are drawn, in one
style: colours that differ for every kind of colour vision, every mode told apart by its place, marker
or label too, and a title that says what was found. What was measured, and how, it does not know.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BUDGET = 2.0
"""TTFT without a cache over TTFT with one is at least this (L10.4, section 4)."""

COLOURS = {"none": "#6b6b6b", "hash": "#0072b2", "radix": "#d55e00"}
MARKERS = {"none": "s", "hash": "o", "radix": "^"}
DASHES = {"none": ":", "hash": "-", "radix": "--"}
INK = "#222222"
STYLE: Any = {
    "figure.dpi": 150,
    "figure.facecolor": "white",
    "font.size": 11,
    "axes.titlesize": 12.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
SIZE = (7.2, 4.2)
"""Inches."""

BAR = 36
"""Columns of the longest bar in a text chart."""


@dataclass(frozen=True)
class Spread:
    """Repeats of one measurement: their median, and the range that they all lie in."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, repeats: Sequence[float]) -> Spread:
        """The spread of one or more repeats. Raises ValueError if there are none."""
        if not repeats:
            raise ValueError("a spread needs at least one measurement")
        return cls(statistics.median(repeats), min(repeats), max(repeats))


def milliseconds(seconds: float) -> str:
    """A time in milliseconds, three digits of it or as many as there are before the point; without the unit."""
    value = seconds * 1e3
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


# ---------------------------------------------------------------- time to first token


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
    with _axes(path, finding, note) as axes:
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


# ---------------------------------------------------------------- hit rate


def hit_rate_chart(rates: Mapping[str, Sequence[float]], path: Path, note: str = "") -> Path:
    """Draw the hit rate of each mode after every request, from 0 to 1.

    Args:
        rates: hit tokens over query tokens so far, a value after each request.
        path: the PNG file to write; its folder is made if need be.
        note: a line of small print.

    Raises:
        ValueError: no mode has a request.
    """
    with _axes(path, hit_rate_finding(rates), note) as axes:
        for mode, values in rates.items():
            style: dict[str, Any] = {
                "color": COLOURS.get(mode, INK),
                "marker": MARKERS.get(mode, "D"),
                "ls": DASHES.get(mode, "-"),
            }
            axes.plot(range(1, len(values) + 1), values, linewidth=2, markersize=6, **style)
        for names, values in _alike(rates):
            axes.annotate(
                f"{' and '.join(names)} {values[-1]:.0%}",
                (len(values), values[-1]),
                xytext=(9, 0),
                textcoords="offset points",
                va="center",
                color=COLOURS.get(names[0], INK) if len(names) == 1 else INK,
                weight="bold",
            )
        longest = max(map(len, rates.values()))
        axes.set_xlim(0.5, longest + 0.5)
        axes.set_xticks([tick for tick in axes.get_xticks() if 1 <= tick <= longest and tick == int(tick)])
        axes.set_ylim(-0.04, 1.04)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_xlabel("requests answered")
        axes.set_ylabel("prompt tokens found in the cache, so far")
    return path


def hit_rate_text(rates: Mapping[str, Sequence[float]]) -> str:
    """The same chart as text: for each mode a column a request, and the rate after the last."""
    steps = " ▁▂▃▄▅▆▇█"
    rows = []
    for mode, values in rates.items():
        shown = [values[place * len(values) // BAR] for place in range(BAR)] if len(values) > BAR else values
        line = "".join(steps[round(value * (len(steps) - 1))] for value in shown)
        rows.append(f"{mode:>6} {line:{BAR}} {values[-1]:.0%}")
    return "\n".join([hit_rate_finding(rates), *rows])


def hit_rate_finding(rates: Mapping[str, Sequence[float]]) -> str:
    """What the hit rates say, in a sentence."""
    last = {mode: values[-1] for mode, values in rates.items() if values}
    if not last:
        raise ValueError("a hit rate needs at least one request")
    best = max(last, key=lambda mode: last[mode])
    n = len(rates[best])
    return f"After {n} request{'s' * (n != 1)}, {last[best]:.0%} of all prompt tokens came from the cache"


def _alike(rates: Mapping[str, Sequence[float]]) -> list[tuple[list[str], Sequence[float]]]:
    """The modes whose rates are the same, together: their labels would stand on each other."""
    groups: list[tuple[list[str], Sequence[float]]] = []
    for mode, values in rates.items():
        for names, others in groups:
            if all(abs(a - b) < 0.005 for a, b in zip(values, others, strict=False)) and len(values) == len(others):
                names.append(mode)
                break
        else:
            groups.append(([mode], values))
    return groups


# ---------------------------------------------------------------- the style


@contextmanager
def _axes(path: Path, title: str, note: str) -> Iterator[Axes]:
    """Axes in the one style; what is drawn on them stands in the file afterwards."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=SIZE, layout="constrained")
        FigureCanvasAgg(figure)  # drawn into a file, whatever a notebook or a desktop has set
        axes = figure.add_subplot()
        axes.set_title(title)
        axes.grid(axis="y", color=INK, alpha=0.15)
        axes.set_axisbelow(True)
        yield axes
        if note:
            figure.supxlabel(note, fontsize=8.5, x=0.01, ha="left")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="png")

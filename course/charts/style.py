"""The one style of all charts: colours, markers, sizes, and the axes that a chart is drawn on.

Colours differ for every kind of colour vision, and every mode is told apart by its place, marker or label too.
It knows how measured numbers look. What they say it does not know.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

TITLE_COLUMNS = 60
"""Characters in a line of a title."""

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


@contextmanager
def axes_for(path: Path, title: str, note: str) -> Iterator[Axes]:
    """Axes in the one style; what is drawn on them stands in the file afterwards."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=SIZE, layout="constrained")
        FigureCanvasAgg(figure)  # drawn into a file, whatever a notebook or a desktop has set
        axes = figure.add_subplot()
        axes.set_title(fill(title, TITLE_COLUMNS))
        axes.grid(axis="y", color=INK, alpha=0.15)
        axes.set_axisbelow(True)
        yield axes
        if note:
            figure.supxlabel(note, fontsize=8.5, x=0.01, ha="left")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="png")

"""Charts for the lab: how many times sooner the first token comes, and the charts of `course.charts` on a page.

It knows measured numbers and how they are drawn. How they were measured it does not know.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import TypeVar

from course.pictures import Picture, base

Data = TypeVar("Data")

LENGTH, ROW, THICK, TOP, LEFT = 380.0, 34.0, 16.0, 12.0, 150.0
"""Pixels: the longest bar, a row, a bar's thickness, the space above, and the labels' column."""

START, END = "text-anchor:start", "text-anchor:end"


def draw_against_limit(ratios: Mapping[str, tuple[float, float]], caption: str = "") -> Picture:
    """Draw ratios of two times, each as a bar, with a mark at its limit: the same ratio of computed tokens.

    Args:
        ratios: for each label (what was measured, the limit), both above 0.
        caption: a line above the picture.

    Raises:
        ValueError: there is nothing to draw.
    """
    if not ratios:
        raise ValueError("there is nothing to draw: give at least one ratio and its limit")
    scale = LENGTH / max(max(pair) for pair in ratios.values())
    shapes = [base.path(f"M{LEFT:g} {TOP - 6:g} V{TOP + ROW * len(ratios):g}")]
    for place, (label, (measured, limit)) in enumerate(ratios.items()):
        shapes += _row(TOP + place * ROW, label, measured, limit, scale)
    legend = "bar: measured · mark: the limit, the ratio of computed tokens"
    return base.figure(LEFT + LENGTH + 150, TOP + ROW * len(ratios) + 8, shapes, _text(ratios), caption, legend)


def _row(y: float, label: str, measured: float, limit: float, scale: float) -> list[str]:
    middle, mark = y + THICK / 2, LEFT + limit * scale
    told = f"{measured:.1f} of {limit:.1f}"
    return [
        base.label(LEFT - 8, middle + 4.5, label, style=END),
        base.box(
            LEFT,
            y,
            measured * scale,
            THICK,
            line='stroke="none"',
            fill=f'fill="{base.BLUE}" fill-opacity=".75"',
            radius=2,
        ),
        base.path(f"M{mark:g} {y - 5:g} v{THICK + 10:g}", f'stroke="{base.ORANGE}" stroke-width="2.5"'),
        base.label(LEFT + max(measured, limit) * scale + 10, middle + 4.5, told, style=START),
    ]


def _text(ratios: Mapping[str, tuple[float, float]]) -> str:
    wide = max(map(len, ratios))
    return "\n".join(
        f"{label:>{wide}}  {measured:.1f} times sooner; the limit is {limit:.1f}"
        for label, (measured, limit) in ratios.items()
    )


# ---------------------------------------------------------------- a chart of course.charts


def shown(
    draw: Callable[[Data, Path, str], Path], tell: Callable[[Data], str], measured: Data, note: str = ""
) -> Picture:
    """A chart that is otherwise written into a file, in a notebook, with what it says as text to unfold.

    Args:
        draw: writes the chart of the measured data, such as `course.charts.ttft_chart`.
        tell: the same as text, such as `course.charts.ttft_text`; a screen reader gets it in place of the chart.
        measured: what both take.
        note: a line of small print in the chart.
    """
    text = tell(measured)
    with tempfile.TemporaryDirectory() as folder:
        drawn = base64.b64encode(draw(measured, Path(folder) / "chart.png", note).read_bytes()).decode()
    image = f'<img alt="{escape(text)}" src="data:image/png;base64,{drawn}" style="max-width:100%; width:720px">'
    style = f"font:.85em/1.35 {base.MONO}; overflow-x:auto; white-space:pre; margin:.4em 0"
    below = f'<details><summary>The same as text</summary><div style="{style}">{escape(text)}</div></details>'
    return Picture(f'<figure style="margin:.5em 0; break-inside:avoid">{image}{below}</figure>', text)

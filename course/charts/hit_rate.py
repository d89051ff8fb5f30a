"""Hit rate by mode over requests, as a PNG file and as text for a terminal.

It knows hit rates and the sentence that they amount to. What was measured, and how, it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from course.charts.style import BAR, COLOURS, DASHES, INK, MARKERS, axes_for


def hit_rate_chart(rates: Mapping[str, Sequence[float]], path: Path, note: str = "") -> Path:
    """Draw the hit rate of each mode after every request, from 0 to 1.

    Args:
        rates: hit tokens over query tokens so far, a value after each request.
        path: the PNG file to write; its folder is made if need be.
        note: a line of small print.

    Raises:
        ValueError: no mode has a request.
    """
    with axes_for(path, hit_rate_finding(rates), note) as axes:
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

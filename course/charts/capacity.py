"""Hit rate against a cache's capacity, beside the ideal of an infinite one, as a PNG file and as text for a terminal.

It knows hit rates, capacities in tokens, and the sentence that they amount to. What was measured, and how, it does
not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Any

from course.charts.style import BAR, COLOURS, DASHES, INK, MARKERS, axes_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALIKE = 0.005
"""Lines that are nowhere further apart than this lie on each other, and have one label."""

MORE_LOOKS = (("#009e73", "D", "-."), ("#aa3377", "v", (0, (1, 1))), ("#222222", "P", (0, (6, 2))))
"""Colour, marker and dashes of lines that are no plain mode, in turn."""

GLYPHS = {"o": "●", "^": "▲", "s": "■", "D": "◆", "v": "▼", "P": "✚"}
"""Markers as signs, for the labels at line ends."""

LABEL_WIDTH, NAME_LENGTH = 20, 40
"""Characters of a line in a label, and of a name that is shown at all."""

APART = 0.02
"""Hit rates that differ by less, as a part of the ideal one, are told as the same."""

BEHIND: Any = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
"""What lies behind a text, so that a line under it does not cross it."""

ROW = 0.07
"""Height of a line of text, as a part of the chart's."""


@dataclass(frozen=True)
class Curve:
    """One way of caching: hit rates from 0 to 1, by capacity in tokens."""

    name: str
    rates: Mapping[int, float]


@dataclass(frozen=True)
class Capacities:
    """What is drawn.

    Attributes:
        curves: each way of caching, over the same capacities; the finding is told of hash, or of the first.
        ideal: the hit rate of an infinite cache.
        marks: capacities among those measured that stand out, and what others say of each, in a few words.
    """

    curves: Sequence[Curve]
    ideal: float
    marks: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.curves or not all(curve.rates for curve in self.curves):
            raise ValueError("a chart of hit rates needs at least one capacity of at least one way of caching")
        if missing := [mark for mark in self.marks for curve in self.curves if mark not in curve.rates]:
            raise ValueError(f"a capacity of {missing[0]} tokens is marked, and was not measured")

    @property
    def lead(self) -> Curve:
        """The curve that the finding is told of."""
        return next((curve for curve in self.curves if curve.name == "hash"), self.curves[0])

    def share(self, rate: float) -> float:
        """A hit rate as a part of the ideal one; 0.0 where that is 0."""
        return rate / self.ideal if self.ideal else 0.0


# ---------------------------------------------------------------- words


def capacity_finding(data: Capacities) -> str:
    """What the hit rates say, in a sentence: at the marked capacities or the ends, or where policies differ most."""
    lead = data.lead
    if not data.ideal:
        return "Even an infinite cache finds nothing again here"
    if not data.marks and lead.name not in COLOURS and (parted := _parted(data)):
        return parted
    first, *more = sorted(data.marks or {min(lead.rates): "", max(lead.rates): ""})
    said = f"room for {tokens_text(first)} tokens gives {_percent(data.share(lead.rates[first]))} of the ideal hit rate"
    said += "".join(f", room for {tokens_text(other)} {_percent(data.share(lead.rates[other]))}" for other in more)
    return said[0].upper() + said[1:] if len(_groups(data)) == 1 else f"With {_name(lead)}, {said}"


def _parted(data: Capacities) -> str:
    """Where another way finds more or less than the one in the lead, and how much; nothing if it hardly does."""
    gaps = [
        (abs(curve.rates[tokens] - rate), tokens, curve)
        for curve in data.curves
        for tokens, rate in data.lead.rates.items()
        if curve is not data.lead
    ]
    gap, tokens, curve = max(gaps, key=lambda each: each[0], default=(0.0, 0, data.lead))
    if gap < APART * data.ideal:
        return ""
    rates = f"{curve.rates[tokens]:.1%} of blocks, {_name(data.lead)} {data.lead.rates[tokens]:.1%}"
    return f"They part most with room for {tokens_text(tokens)} tokens: {_name(curve)} finds {rates}"


def capacity_text(data: Capacities) -> str:
    """The same chart as text: a bar for each capacity of each way of caching, and the ideal."""
    top = max([data.ideal, *(rate for curve in data.curves for rate in curve.rates.values())]) or 1.0
    lines = [capacity_finding(data)]
    for group in _groups(data):
        lines.append(f"{' and '.join(map(_name, group))}: hit rate, and its share of the ideal")
        for tokens, rate in sorted(group[0].rates.items()):
            said = f"  {data.marks[tokens]}" if tokens in data.marks else ""
            bar = "█" * round(BAR * rate / top)
            lines.append(f"{tokens_text(tokens):>6} {bar:{BAR}} {rate:6.1%} {_percent(data.share(rate)):>8}{said}")
    return "\n".join([*lines, f"{'ideal':>6} {'█' * round(BAR * data.ideal / top):{BAR}} {data.ideal:6.1%}"])


def tokens_text(tokens: int) -> str:
    """A capacity in tokens, shortly: 512k, 3M."""
    for size, sign in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if tokens >= 0.9995 * size:
            value = tokens / size
            return f"{value:.3g}{sign}" if value < 999.5 else f"{value:,.0f}{sign}"
    return str(tokens)


def _percent(share: float) -> str:
    """A share in whole percent, that says neither all nor nothing where it is not quite so."""
    whole = round(100 * share)
    if whole == 100 and share < 1:
        return "over 99%"
    return "under 1%" if whole == 0 and share > 0 else f"{whole}%"


def _name(curve: Curve) -> str:
    return shorten(curve.name, NAME_LENGTH, placeholder="…") or "…"


def _groups(data: Capacities) -> list[list[Curve]]:
    """The curves that lie on each other, together."""
    groups: list[list[Curve]] = []
    for curve in data.curves:
        for group in groups:
            if _alike(group[0], curve):
                group.append(curve)
                break
        else:
            groups.append([curve])
    return groups


def _alike(a: Curve, b: Curve) -> bool:
    return a.rates.keys() == b.rates.keys() and all(abs(a.rates[at] - b.rates[at]) < ALIKE for at in a.rates)


# ---------------------------------------------------------------- drawing


def capacity_chart(data: Capacities, path: Path, note: str = "") -> Path:
    """Draw hit rates against capacity, on a logarithmic scale.

    Args:
        data: what was measured.
        path: the PNG file to write; its folder is made if need be.
        note: a line of small print.
    """
    looks = {curve.name: look for curve, look in zip(data.curves, _looks(data.curves), strict=True)}
    measured = sorted({at for curve in data.curves for at in curve.rates})
    highest = max([data.ideal, *(rate for curve in data.curves for rate in curve.rates.values())])
    top = (1.15 + ROW * len(data.marks)) * highest or 1.0
    with axes_for(path, capacity_finding(data), note) as axes:
        for curve in data.curves:
            at = sorted(curve.rates)
            colour, marker, dash = looks[curve.name]
            axes.plot(at, [curve.rates[one] for one in at], color=colour, marker=marker, ls=dash, lw=2, ms=6)
        _set_scales(axes, measured[0], measured[-1], top)
        _draw_ideal(axes, data)
        _draw_marks(axes, data)
        _label_ends(axes, data, looks, top)
    return path


def _looks(curves: Sequence[Curve]) -> Iterator[tuple[str, str, Any]]:
    """Colour, marker and dashes of each curve: a plain mode's own, or the next of the others."""
    others = 0
    for curve in curves:
        if curve.name in COLOURS:
            yield COLOURS[curve.name], MARKERS[curve.name], DASHES[curve.name]
        else:
            yield MORE_LOOKS[others % len(MORE_LOOKS)]
            others += 1


def _set_scales(axes: Axes, low: int, high: int, top: float) -> None:
    """Capacity with ticks at 1, 2 and 5 of each power of ten, or fewer where the range is wide; rates in percent."""
    digits = (1, 2, 5) if high / low < 1_000 else (1,)
    ticks = [digit * 10**power for power in range(20) for digit in digits]
    axes.set_xscale("log")
    axes.set_xlim(low / 1.25, high * 1.25)
    axes.set_xticks([tick for tick in ticks if low / 1.25 <= tick <= high * 1.25] or [low])
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(lambda value, _: tokens_text(int(value)))
    axes.set_xlabel("capacity of the cache, tokens")
    axes.set_ylim(-0.03 * top, top)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}" if top > 0.1 else f"{value:.1%}")
    axes.set_ylabel("prompt blocks found in the cache")


def _draw_ideal(axes: Axes, data: Capacities) -> None:
    axes.axhline(data.ideal, color=INK, lw=1.2, ls=(0, (5, 3)))
    axes.annotate(
        f"ideal of an infinite cache: {data.ideal:.1%}",
        (0.01, data.ideal),
        xycoords=axes.get_yaxis_transform(),
        xytext=(0, 4),
        textcoords="offset points",
        fontsize=9.5,
        bbox=BEHIND,
    )


def _draw_marks(axes: Axes, data: Capacities) -> None:
    """A line at each marked capacity, and what is said of it in a row of its own above all curves."""
    to_axes = axes.transScale + axes.transLimits
    for row, mark in enumerate(sorted(data.marks)):
        on_the_left = float(to_axes.transform((mark, 0))[0]) < 0.5
        height = 1 - ROW * row
        axes.axvline(mark, color=INK, lw=1, ls=":", ymax=height, zorder=0.9)
        axes.annotate(
            f"{tokens_text(mark)} tokens: {_percent(data.share(data.lead.rates[mark]))} of ideal ({data.marks[mark]})",
            (mark, height),
            xycoords=axes.get_xaxis_transform(),
            xytext=(4 if on_the_left else -4, 0),
            textcoords="offset points",
            ha="left" if on_the_left else "right",
            va="top",
            fontsize=9.5,
            bbox=BEHIND,
        )


def _label_ends(axes: Axes, data: Capacities, looks: Mapping[str, tuple[str, str, Any]], top: float) -> None:
    """Each line's name where it ends, moved away where the one beside it needs the room."""
    ends: list[tuple[float, list[str], str]] = []
    for group in _groups(data):
        last = max(group[0].rates)
        signs = "".join(GLYPHS[looks[curve.name][1]] for curve in group)
        label = wrap(f"{signs} {' and '.join(map(_name, group))} {group[0].rates[last]:.1%}", LABEL_WIDTH)
        colour = looks[group[0].name][0] if len(group) == 1 else INK
        ends.append((group[0].rates[last], label, colour))
    ends.sort(key=lambda end: -end[0])
    heights = [0.8 * ROW * top * (len(label) + 0.4) for _, label, _ in ends]
    uppers = _apart([rate + ROW * top / 2 for rate, _, _ in ends], heights, -0.05 * top)
    for upper, (_, label, colour) in zip(uppers, ends, strict=True):
        axes.annotate(
            "\n".join(label),
            (1.0, upper),
            xycoords=axes.get_yaxis_transform(),
            xytext=(6, 0),
            textcoords="offset points",
            va="top",
            color=colour,
            weight="bold",
        )


def _apart(wanted: Sequence[float], heights: Sequence[float], floor: float) -> list[float]:
    """Upper edges of labels, from the highest to the lowest, so that none overlaps and none reaches below the floor."""
    uppers, ceiling = [], float("inf")
    for upper, height in zip(wanted, heights, strict=True):
        uppers.append(min(upper, ceiling))
        ceiling = uppers[-1] - height
    for place in reversed(range(len(uppers))):
        uppers[place] = max(uppers[place], floor + heights[place])
        floor = uppers[place]
    return uppers

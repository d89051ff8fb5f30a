"""Serving under load: how long first tokens take, as cumulative distributions, and hit rates over time.

Each as a PNG file and as text for a terminal. It knows times and counts by mode, a list for each repeat, and the
sentence that they amount to. What was measured, and how, it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from course.charts.style import BAR, COLOURS, DASHES, INK, MARKERS, Spread, axes_for, milliseconds
from course.charts.ttft import BUDGET
from course.percentiles import percentile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ttfts = Mapping[str, Sequence[Sequence[float]]]
"""For each mode the repeats, and in each the seconds to first token of all its requests."""

Samples = Sequence[tuple[float, int, int]]
"""(time in seconds, hit tokens so far, query tokens so far), as time goes on."""

MARKED = (50, 95)
"""The percentiles that the chart marks; the text adds the 99th."""

BEST = "at best"
BAND = "#cfcfcf"
LONGEST_NAME = 12

# ---------------------------------------------------------------- first tokens


def load_chart(ttfts: Ttfts, path: Path, note: str = "") -> Path:
    """Draw, for each mode, which share of the first tokens had come within which time, on a logarithmic axis.

    The dashed line is the budget for the 95th percentile of a cache: half of that without one (L10.4, section 4).

    Args:
        ttfts: seconds to first token by mode; a curve for each repeat, and marks at the median of the repeats with
            their range.
        path: the PNG file to write; its folder is made if need be.
        note: a line of small print.

    Raises:
        ValueError: no mode, or a repeat without a request.
    """
    with axes_for(path, load_finding(ttfts), note) as axes:
        _time_axis(axes, _every(ttfts))
        for mode, repeats in ttfts.items():
            _curves(axes, mode, repeats)
        if (budget := _budget(ttfts)) is not None:
            _mark_budget(axes, budget)
        axes.set_ylim(0, 1.03)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 0.95])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_xlabel("time to first token, ms (logarithmic)")
        axes.set_ylabel("first tokens that have come")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, handlelength=2.6, labelspacing=1.1)
    return path


def _curves(axes: Axes, mode: str, repeats: Sequence[Sequence[float]]) -> None:
    colour, dash = COLOURS.get(mode, INK), DASHES.get(mode, "-")
    for seconds in repeats:
        found = sorted(1e3 * value for value in seconds)
        shares = [place / len(found) for place in range(len(found) + 1)]
        axes.step([found[0], *found], shares, where="post", color=colour, ls=dash, lw=2, alpha=_faint(repeats))
    spreads = {percent: _spread(repeats, percent) for percent in MARKED}
    told = [f"p{percent} {milliseconds(spread.median)} ms" for percent, spread in spreads.items()]
    at = [1e3 * spread.median for spread in spreads.values()]
    reach = [
        [1e3 * (spread.median - spread.low) for spread in spreads.values()],
        [1e3 * (spread.high - spread.median) for spread in spreads.values()],
    ]
    axes.errorbar(
        at,
        [percent / 100 for percent in MARKED],
        xerr=reach,
        color=colour,
        ls=dash,
        elinewidth=1.3,
        capsize=4 if len(repeats) > 1 else 0,
        marker=MARKERS.get(mode, "D"),
        markersize=8,
        markeredgecolor="white",
        lw=0,
        zorder=3,
        label="\n".join([_short(mode), *told]),
    )


def _budget(ttfts: Ttfts) -> float | None:
    """Within which time 95% of first tokens should come with a cache; None where there is nothing to compare."""
    if "none" not in ttfts or len(ttfts) == 1:
        return None
    return _spread(ttfts["none"], 95).median / BUDGET


def _mark_budget(axes: Axes, budget: float) -> None:
    at = 1e3 * budget
    axes.axvline(at, color=INK, linewidth=1.2, linestyle=(0, (5, 3)), zorder=1)
    low, high = axes.get_xlim()
    on_the_left = log(at / low) > log(high / low) / 2
    axes.annotate(
        f"budget for 95%:\n{milliseconds(budget)} ms, half of none",
        (at, 0.62 if on_the_left else 0.08),  # where the curve without a cache, which crosses the line, is not
        xytext=(-5 if on_the_left else 5, 0),
        textcoords="offset points",
        ha="right" if on_the_left else "left",
        va="center",
        fontsize=9.5,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        zorder=2,
    )


def _faint(repeats: Sequence[object]) -> float:
    """How strongly one of several curves is drawn."""
    return 1.0 if len(repeats) == 1 else 0.45


def _time_axis(axes: Axes, every: Sequence[float]) -> None:
    """From a little before the first time to a little after the last, with times written out."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = 1e3 * min(every) / 1.2, 1e3 * max(every) * 1.2
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    few = high / low > 300
    axes.xaxis.set_major_locator(LogLocator(subs=(1,), numticks=5) if few else LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.15g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def load_text(ttfts: Ttfts) -> str:
    """The same as text: for each mode the stretch from p50 to p95 on one logarithmic scale, and the numbers."""
    finding = load_finding(ttfts)
    low, high = min(_every(ttfts)), max(_every(ttfts))
    rows = []
    for mode, repeats in ttfts.items():
        p50, p95, p99 = (_spread(repeats, percent).median for percent in (*MARKED, 99))
        first, last = _column(p50, low, high), _column(p95, low, high)
        line = f"{' ' * first}●{'━' * (last - first - 1)}{'┫' * (last > first)}"
        numbers = f"p50 {milliseconds(p50)}, p95 {milliseconds(p95)}, p99 {milliseconds(p99)} ms"
        rows.append(f"{_short(mode):>6} {line:{BAR}} {numbers}")
    if (budget := _budget(ttfts)) is not None:
        rows.append(
            f"budget {' ' * max(_column(budget, low, high), 0) + '│':{BAR}} p95 {milliseconds(budget)} ms at most"
        )
    ends = f"{milliseconds(low)} ms", f"{milliseconds(high)} ms"
    return "\n".join([finding, *rows, f"{'':>6} {ends[0]}{ends[1]:>{BAR - len(ends[0])}}"])


def _column(seconds: float, low: float, high: float) -> int:
    """The place of a time on the scale of a line of text."""
    return round((BAR - 1) * log(seconds / low) / log(high / low)) if high > low else 0


def _every(ttfts: Ttfts) -> list[float]:
    return [value for repeats in ttfts.values() for seconds in repeats for value in seconds]


def _short(mode: str) -> str:
    """A name that still fits a title and a legend."""
    return mode if len(mode) <= LONGEST_NAME else f"{mode[: LONGEST_NAME - 1]}…"


def load_finding(ttfts: Ttfts) -> str:
    """What the distributions say, in a sentence."""
    if not ttfts or not all(repeats and all(repeats) for repeats in ttfts.values()) or min(_every(ttfts)) <= 0:
        raise ValueError("a distribution needs a request in each repeat of each mode, and times above 0")
    p95 = {mode: _spread(repeats, 95).median for mode, repeats in ttfts.items()}
    cached = [mode for mode in p95 if mode != "none"]
    if not cached:
        return f"Without a cache 95% of first tokens come within {milliseconds(p95['none'])} ms"
    mode = "hash" if "hash" in cached else cached[0]
    if "none" not in p95:
        return f"With the {_short(mode)} cache 95% of first tokens come within {milliseconds(p95[mode])} ms"
    if 0.95 < p95["none"] / p95[mode] < 1.05:
        return f"TTFT p95 is no shorter with the {_short(mode)} cache"
    ratio = p95["none"] / p95[mode]
    times, what = (ratio, "shorter") if ratio > 1 else (1 / ratio, "longer")
    return f"TTFT p95 is {times:.1f} times {what} with the {_short(mode)} cache"


def _spread(repeats: Sequence[Sequence[float]], percent: int) -> Spread:
    return Spread.of([percentile(seconds, percent) for seconds in repeats])


# ---------------------------------------------------------------- hits


def load_hits_chart(
    samples: Mapping[str, Sequence[Samples]],
    path: Path,
    note: str = "",
    *,
    ideal: Sequence[Samples] = (),
    arrivals_end: float | None = None,
) -> Path:
    """Draw how the hit rate of each mode goes with time, beside that of a cache that never forgets.

    Args:
        samples: the counters over time by mode; a line for each repeat, and the median of their ends as a label.
        path: the PNG file to write; its folder is made if need be.
        note: a line of small print.
        ideal: what an endless cache would find in the same traffic, for each repeat.
        arrivals_end: when the last sessions began, in seconds.

    Raises:
        ValueError: no mode, or a repeat without a sample.
    """
    with axes_for(path, load_hits_finding(samples, ideal=ideal), note) as axes:
        end = max(each[-1][0] for repeats in (*samples.values(), ideal) for each in repeats)
        _lines(axes, ideal, end, color=BAND, lw=7, solid_capstyle="butt")  # wide and below: modes may lie right on it
        for mode, repeats in samples.items():
            _lines(axes, repeats, end, color=COLOURS.get(mode, INK), ls=DASHES.get(mode, "-"), lw=2)
        for place, names, rate in _labels(samples, ideal):
            colour = COLOURS.get(names[0], INK) if len(names) == 1 else INK
            label = f"{' and '.join(map(_short, names))} {rate:.0%}"
            weight = "normal" if names == [BEST] else "bold"
            axes.annotate(
                label, (end, place), xytext=(6, 0), textcoords="offset points", va="center", color=colour, weight=weight
            )
        axes.set_xlim(0, end)
        axes.set_ylim(-0.04, 1.04)
        if arrivals_end is not None and arrivals_end < end:
            _mark_end(axes, arrivals_end, end)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_xlabel("seconds")
        axes.set_ylabel("prompt tokens found in the cache, so far")
    return path


def _lines(axes: Axes, repeats: Sequence[Samples], end: float, **style: Any) -> None:
    for each in repeats:
        times = [0.0, *(time for time, _, _ in each), end]
        rates = [_rate(each[0]) if each[0][0] <= 0 else 0.0, *map(_rate, each), _rate(each[-1])]
        axes.step(times, rates, where="post", alpha=_faint(repeats), **style)


def _mark_end(axes: Axes, at: float, end: float) -> None:
    axes.axvline(at, color=INK, lw=1, ls=":", alpha=0.6)
    left = at > end / 2
    axes.annotate(
        "no new sessions from here",
        (at, 0.0),
        xytext=(-5 if left else 5, 12),
        textcoords="offset points",
        ha="right" if left else "left",
        fontsize=9,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )


NEAR = 0.065
"""Labels at line ends stand at least so far apart, as a share of the axis."""


def _labels(samples: Mapping[str, Sequence[Samples]], ideal: Sequence[Samples]) -> list[tuple[float, list[str], float]]:
    """(where it stands, names, rate) of each label, from below; names with the same rate share one."""
    ends = _ends(samples)
    groups: dict[str, list[str]] = {}
    for name, rate in ends.items():
        groups.setdefault(f"{rate:.0%}", []).append(name)
    labels = [(ends[names[0]], names) for names in groups.values()]
    if ideal:
        labels.append((median(_rate(each[-1]) for each in ideal), [BEST]))
    labels.sort(key=lambda label: (label[0], label[1] == [BEST]))
    places = _apart([rate for rate, _ in labels])
    return [(place, names, rate) for place, (rate, names) in zip(places, labels, strict=True)]


def _apart(rates: Sequence[float]) -> list[float]:
    """Places for labels of rising rates: each at its rate, or as near as the others and the top of the axis let it."""
    places: list[float] = []
    for rate in rates:
        places.append(max(rate, places[-1] + NEAR) if places else rate)
    highest = 1.0
    for index in reversed(range(len(places))):
        places[index] = min(places[index], highest)
        highest = places[index] - NEAR
    return places


def load_hits_text(samples: Mapping[str, Sequence[Samples]], *, ideal: Sequence[Samples] = ()) -> str:
    """The same as text: the first repeat of each mode, a column for each stretch of time, and the rate at the end."""
    finding = load_hits_finding(samples, ideal=ideal)
    end = max(each[-1][0] for repeats in (*samples.values(), ideal) for each in repeats)
    rows = [_text_row(mode, repeats, end) for mode, repeats in samples.items()]
    return "\n".join([finding, *rows, *([_text_row(BEST, ideal, end)] if ideal else [])])


def _text_row(name: str, repeats: Sequence[Samples], end: float) -> str:
    steps = " ▁▂▃▄▅▆▇█"
    rates = [_rate_at(repeats[0], end * (column + 1) / BAR) for column in range(BAR)]
    line = "".join(steps[round(rate * (len(steps) - 1))] for rate in rates)
    return f"{_short(name):>7} {line} {median(_rate(each[-1]) for each in repeats):.0%}"


def load_hits_finding(samples: Mapping[str, Sequence[Samples]], *, ideal: Sequence[Samples] = ()) -> str:
    """What the hit rates say, in a sentence."""
    if not samples or not all(repeats and all(repeats) for repeats in (*samples.values(), ideal or [[(0.0, 0, 0)]])):
        raise ValueError("a hit rate over time needs at least one sample in each repeat of each mode")
    best = max(_ends(samples).values())
    if not ideal:
        return f"{best:.0%} of prompt tokens came from the cache"
    most = median(_rate(each[-1]) for each in ideal)
    return f"{best:.0%} of prompt tokens came from the cache, of {most:.0%} at best"


def _ends(samples: Mapping[str, Sequence[Samples]]) -> dict[str, float]:
    return {mode: median(_rate(each[-1]) for each in repeats) for mode, repeats in samples.items()}


def _rate(sample: tuple[float, int, int]) -> float:
    return sample[1] / sample[2] if sample[2] else 0.0


def _rate_at(samples: Samples, time: float) -> float:
    return next((_rate(each) for each in reversed(samples) if each[0] <= time * (1 + 1e-9)), 0.0)

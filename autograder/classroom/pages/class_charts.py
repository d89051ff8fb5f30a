"""Charts of a class: how its scores are distributed, and how much sooner everyone's first token comes.

It knows where bars and dots stand in a small drawing, and what a chart says in words. Whose results they are it
does not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from autograder.classroom.pages.charts import RIGHT, WIDTH, Tick, ticks
from course.charts import BUDGET

# ---------------------------------------------------------------- a distribution


@dataclass(frozen=True)
class Bar:
    """One bar: where it stands, how high it is, and how many it counts."""

    x: float
    height: float
    count: int


@dataclass(frozen=True)
class Histogram:
    """How many students have which share of the points; `alt` says it in words."""

    bars: tuple[Bar, ...]
    alt: str


BINS = 10
TALLEST = 92.0
BAR_WIDTH = (WIDTH - 20) / BINS


def histogram(shares: Sequence[float]) -> Histogram:
    """Shares from 0 to 1 in ten bins; the last one holds 1 too."""
    counts = Counter(min(int(share * BINS + 1e-9), BINS - 1) for share in shares)
    top = max(counts.values(), default=1)
    bars = tuple(Bar(10 + i * BAR_WIDTH, TALLEST * counts[i] / top, counts[i]) for i in range(BINS))
    told = [f"{counts[i]} from {i * BINS} to {(i + 1) * BINS} %" for i in range(BINS) if counts[i]]
    return Histogram(bars, f"Students by their share of the points: {', '.join(told) or 'none'}.")


# ---------------------------------------------------------------- TTFT of a class


@dataclass(frozen=True)
class Student:
    """One dot of a class: whose it is, where it stands, and whether the budget is met."""

    name: str
    x: float
    y: float
    ratio: float
    met: bool


@dataclass(frozen=True)
class Spread:
    """How many times sooner the first token comes, a dot a student; dots of one place are stacked."""

    dots: tuple[Student, ...]
    budget: Tick
    ticks: tuple[Tick, ...]
    height: float
    radius: float
    alt: str


COLUMNS = 40
HIGHEST = 150.0
START = 14.0


def spread(ratios: Sequence[tuple[str, float, bool]]) -> Spread | None:
    """The dots of (student, TTFT none / TTFT hash, met) in columns; None where nobody was measured."""
    if not ratios:
        return None
    most, labels = ticks(max(BUDGET * 1.25, *(ratio for _, ratio, _ in ratios)), "×")
    columns: Counter[int] = Counter()
    places = []
    for name, ratio, met in sorted(ratios, key=lambda each: (each[1], each[0])):
        column = min(int(ratio / most * COLUMNS), COLUMNS - 1)
        places.append((name, ratio, met, column, columns[column]))
        columns[column] += 1
    gap = min(7.5, HIGHEST / max(columns.values()))
    floor = 30 + gap * max(columns.values())
    dots = tuple(
        Student(name, _across((column + 0.5) / COLUMNS), round(floor - (level + 0.5) * gap, 1), ratio, met)
        for name, ratio, met, column, level in places
    )
    n_met = sum(met for _, _, met in ratios)
    alt = f"How many times sooner the first token comes, a dot a student: {n_met} of {len(ratios)} meet the budget."
    on_axis = tuple(Tick(_across(value / most), label) for value, label in labels)
    budget = Tick(_across(BUDGET / most), f"budget {BUDGET:g}×")
    return Spread(dots, budget, on_axis, floor, min(3.3, gap / 2.2), alt)


def _across(share: float) -> float:
    return round(START + (RIGHT - START) * share, 1)

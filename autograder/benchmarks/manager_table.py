"""What bookkeeping costs, as a table for a terminal.

It knows how costs are worded and laid out. How they were measured it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from autograder.benchmarks.manager import Cost
from autograder.benchmarks.tables import table
from course.contract import Publish


def manager_view(
    costs: Mapping[str, Cost], n_requests: int, in_flight: int, publish: Publish = "release"
) -> RenderableType:
    """What the bookkeeping of a request costs in each mode."""
    title = f"Bookkeeping, {n_requests:,} requests, {in_flight} in flight"
    title += ", published as soon as they are computed" * (publish == "prefill")
    made = table(title, "manager", "us a request", "times the yardstick", "hit rate")
    for name, cost in costs.items():
        made.add_row(name, f"{cost.microseconds:.1f}", f"{cost.ratio:.2f}", f"{cost.hit_rate:.4f}")
    note = "The yardstick is a bare hash pool: blake2b names, no statistics, no checks. Medians of rounds in turn."
    return Group(made, Text(note, "dim"))

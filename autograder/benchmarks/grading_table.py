"""What grading costs, on paper: a table for a terminal, and what is to be said of it.

It knows how results are worded. How they came about it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from autograder.benchmarks.grading import LIMIT_S, Costs
from autograder.benchmarks.tables import table


def grading_view(costs: Costs) -> RenderableType:
    """Seconds a submission and module for each number of workers, and nbgrader's beside them."""
    made = table(
        "Grading a class, named tests, own tests and planted bugs",
        "", "submissions", "seconds in all", "seconds each", "nbgrader / it", "timed out",
    )  # fmt: skip
    beside = costs.nbgrader
    for run in costs.runs:
        ratio = f"{beside.each / run.each:.1f}" if beside else ""
        counts = f"{run.submissions}", f"{run.seconds:.1f}", f"{run.each:.2f}", ratio, f"{run.timed_out}"
        made.add_row(f"ol grade --workers {run.workers}", *counts)
    if beside:
        made.add_row("nbgrader autograde", f"{beside.notebooks}", f"{beside.seconds:.1f}", f"{beside.each:.2f}", "", "")
    return Group(made, Text("\n".join(("", *_said_of(costs)))))


def _said_of(costs: Costs) -> Iterator[str]:
    least = min(costs.runs, key=lambda run: run.workers)
    parts = ", ".join(f"{module} {seconds:.2f}" for module, seconds in least.by_module.items())
    yield f"Seconds that a submission takes its worker, with the fewest workers: {parts}."
    if costs.scaling is not None:
        yield f"From the fewest workers to the most, grading gets {costs.scaling:.2f} times as fast."
    yield f"At most {LIMIT_S:g} s each are asked for: {'met' if costs.within_limit else 'not met'}."
    if costs.nbgrader:
        yield "nbgrader runs the check cells in a kernel: no own tests, no planted bugs, nothing kept apart."

"""Benchmarks on paper: what was measured, as tables for a terminal.

It knows how results are worded and laid out. How they came about it does not know.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autograder.benchmarks.shared_prefix_ttft import HASH, NONE, Result
from course.charts import BUDGET, Spread, milliseconds


def table(title: str, *columns: str) -> Table:
    """An empty table whose first column is text and all others numbers."""
    made = Table(title=title, title_justify="left", title_style="bold")
    for place, column in enumerate(columns):
        made.add_column(column, justify="right" if place else "left", no_wrap=True)
    return made


# ---------------------------------------------------------------- TTFT


def ttft_view(result: Result, where: str) -> RenderableType:
    """The benchmark's table, which chunk none ran with, and whether the budget is met.

    Args:
        result: what was measured.
        where: the model and the device, in words.
    """
    made = table(
        f"TTFT with a shared prefix, {where}",
        "prefix cache", "TTFT", "range of repeats", "prefill tokens", "none / it", "limit", "share of limit",
    )  # fmt: skip
    for mode, times in result.ttft.items():
        spread = Spread.of(times)
        made.add_row(
            mode,
            f"{milliseconds(spread.median)} ms",
            f"{milliseconds(spread.low)} to {milliseconds(spread.high)}",
            f"{result.prefill_tokens[mode] // result.plan.n_requests:,}",
            *(("", "", "") if mode == NONE else _ratios(result, mode)),
        )
    return Group(made, Text(_small_print(result), "dim"), verdict(result))


def _ratios(result: Result, mode: str) -> tuple[str, str, str]:
    return f"{result.ratio(mode):.2f}", f"{result.limit(mode):.2f}", f"{result.share(mode):.0%}"


def _small_print(result: Result) -> str:
    plan = result.plan
    tried = ", ".join(f"{size}: {milliseconds(time)} ms" for size, time in result.chunk_times.items())
    return (
        f"{len(plan.prefix):,} shared tokens and {plan.n_suffix:,} of each request's own; {plan.repeats} repeats of "
        f"{plan.n_requests} requests, medians. Times and prefill tokens are of one request.\n"
        f"All modes ran with prefill chunks of {result.chunk}, the fastest for none ({tried})."
    )


def verdict(result: Result) -> Text:
    """Whether the budget is met, in a sentence."""
    if not result.same_answers:
        return Text("The answers are not the same in all modes: a time to a wrong token is worth nothing.", "bold red")
    asked = f"TTFT none / TTFT hash is {result.ratio(HASH):.2f}, and at least {BUDGET:g} is asked"
    met = result.within_budget
    return Text(f"{asked}: the budget is {'met' if met else 'not met'}.", "bold green" if met else "bold red")

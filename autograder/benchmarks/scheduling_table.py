"""bench_order on paper, as a table for a terminal. It knows how results are worded; how they came about it does not."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.text import Text

from autograder.benchmarks.scheduling import Result, Run
from autograder.benchmarks.tables import table
from course.charts import milliseconds

TIMES: tuple[tuple[str, Callable[[Run], float]], ...] = (
    ("mean", lambda run: run.mean),
    ("p50", lambda run: run.at(50)),
    ("p95", lambda run: run.at(95)),
    ("longest", lambda run: max(run.ttfts)),
)
"""Which times to first token are shown, in milliseconds."""


def order_view(result: Result, where: str) -> RenderableType:
    """A row for each order, what was served, and whether the answers are the same.

    Args:
        result: what was measured.
        where: the model and the device, in words.
    """
    made = table(
        f"A backlog in two orders, {where}",
        "order of", *(f"TTFT {name}" for name, _ in TIMES), "hit rate", "prefill tokens", "preemptions",
    )  # fmt: skip
    for order in result.runs:
        made.add_row(
            order,
            *(f"{milliseconds(result.median(order, of))} ms" for _, of in TIMES),
            f"{result.median(order, lambda run: run.hit_rate):.1%}",
            f"{result.median(order, lambda run: run.prefill_tokens):,.0f}",
            f"{result.median(order, lambda run: run.preemptions):,.0f}",
        )
    return Group(made, Text(_small_print(result), "dim"), _verdict(result))


def _small_print(result: Result) -> str:
    plan = result.plan
    return (
        f"{plan.n_requests} requests at once, {plan.n_each} for each of {plan.n_prefixes} prefixes of {plan.n_prefix} "
        f"tokens, {plan.n_suffix} of each request's own; cache {plan.mode}, {plan.n_blocks} blocks, "
        f"{plan.max_running} at a time.\n{_repeats(plan.repeats)} With every "
        f"prefix computed once the hit rate is {plan.best_hit_rate:.1%}. Times include the wait in the queue."
    )


def _repeats(n: int) -> str:
    return "One repeat." if n == 1 else f"Medians of {n} repeats, each with another mixture."


def _verdict(result: Result) -> Text:
    if result.same_answers:
        return Text("Every request got the same answer in both orders.", "bold green")
    return Text("The answers are not the same in both orders: a time to a wrong token is worth nothing.", "bold red")

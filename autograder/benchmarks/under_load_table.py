"""bench_serve on paper, as a table for a terminal. It knows how results are worded; how they came about it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autograder.benchmarks import load_runs
from autograder.benchmarks.load_runs import NONE, PERCENTS, Run
from autograder.benchmarks.tables import table
from autograder.benchmarks.under_load import Plan, Setting
from course.charts import BUDGET, milliseconds
from course.traffic import MEAN_TURNS

MOST_NAMED = 3
"""So many requests with another answer are named; the file has them all."""

FIGURES: tuple[tuple[str, Callable[[Run], float], str], ...] = (
    ("tok/s", lambda run: run.tokens_per_second, ".1f"),
    ("req/s", lambda run: run.requests_per_second, ".2f"),
    ("hit rate", lambda run: run.hit_rate, ".1%"),
    ("prefill", lambda run: run.prefill_tokens, ",.0f"),
    ("preempted", lambda run: run.preemptions, ",.0f"),
    ("busy", lambda run: run.busy_share, ".0%"),
)
"""What stands in the table after the times: a name, where it comes from, and how it is written."""


def load_view(plan: Plan, setting: Setting, runs: Sequence[Run], where: str) -> RenderableType:
    """A row for each mode, what was served and how, and whether the budget is met.

    Args:
        plan: what was to be served.
        setting: what was settled before.
        runs: what was measured.
        where: the model and the device, in words.
    """
    modes = load_runs.by_mode(runs)
    made = table(
        f"Time to first token under load, {where}",
        "cache", *(f"p{percent}, ms" for percent in PERCENTS), "ms/token", *(name for name, _, _ in FIGURES),
    )  # fmt: skip
    for mode, own in modes.items():
        _add_rows(made, mode, own)
    return Group(made, Text(_small_print(plan, setting, modes), "dim"), *_told(plan, runs))


def _add_rows(made: Table, mode: str, runs: Sequence[Run]) -> None:
    """The medians of the repeats, and under the times their ranges where there are several."""
    spreads = [load_runs.spread(runs, percent) for percent in PERCENTS]
    made.add_row(
        mode,
        *(milliseconds(spread.median) for spread in spreads),
        milliseconds(median(run.per_token for run in runs)),
        *(format(median(map(of, runs)), shape) for _, of, shape in FIGURES),
    )
    if len(runs) > 1:
        ranges = (f"{milliseconds(spread.low)}–{milliseconds(spread.high)}" for spread in spreads)
        made.add_row("", *ranges, style="dim")


def _small_print(plan: Plan, setting: Setting, modes: dict[str, list[Run]]) -> str:
    n = ", ".join(str(len(run.done)) for run in next(iter(modes.values()), []))
    load = (
        ""
        if setting.alone is None
        else f" (load {plan.load:g}: alone, a request takes {setting.alone:.3g} s without a cache)"
    )
    start = "Every cache began empty." if plan.cold else "Each system prompt was served once before the start."
    tried = ", ".join(f"{size}: {milliseconds(time)} ms" for size, time in setting.chunk_times.items())
    chunk = f", the fastest for none ({tried})" if plan.chunk is None else ""
    options = "".join(f", {key} {value}" for key, value in plan.options.items())
    return (
        f"{setting.rate:.3g} sessions a second for {plan.seconds:g} s{load}, {MEAN_TURNS:g} requests each in the mean, "
        f"answers of at most {plan.new_tokens} tokens; {n} requests. {start}\n"
        f"{plan.n_blocks} blocks of {plan.block_size}, {plan.max_running} requests at a time{options}; steps of at "
        f"most {setting.chunk} tokens{chunk}."
    )


def _told(plan: Plan, runs: Sequence[Run]) -> list[Text]:
    """How full it was, whether the answers agree, and the budget."""
    return [*map(_fullness, load_runs.by_mode(runs).items()), verdict(runs)]


def _fullness(mode_and_runs: tuple[str, list[Run]]) -> Text:
    mode, runs = mode_and_runs
    full = mode in load_runs.saturated(runs)
    half, end = (median(run.under_way(run.seconds * part) for run in runs) for part in (0.5, 1.0))
    return Text(
        f"{mode}: {'saturated' if full else 'not saturated'}, busy for {median(run.busy_share for run in runs):.0%} of "
        f"the time; requests under way: {half:g} at half of the time, {end:g} when arrivals ended.",
        "yellow" if full else "",
    )


def verdict(runs: Sequence[Run]) -> Text:
    """Whether the budget is met, in a sentence."""
    if differ := load_runs.differing(runs):
        more = f", and {len(differ) - MOST_NAMED} more" if len(differ) > MOST_NAMED else ""
        return Text(f"The answers are not the same in all modes: {'; '.join(differ[:MOST_NAMED])}{more}.", "bold red")
    same = "All modes gave the same answers, token for token"
    measured = load_runs.ratio(runs)
    if measured is None:
        return Text(f"{same}. The budget compares none and hash, and not both were measured.", "bold")
    asked = f"{same}. TTFT p95 none / hash is {measured:.1f}, and at least {BUDGET:g} is asked"
    if NONE in load_runs.saturated(runs):
        return Text(f"{asked} where none is not saturated: it is, so this says little.", "bold yellow")
    met = load_runs.within_budget(runs)
    return Text(f"{asked}: the budget is {'met' if met else 'not met'}.", "bold green" if met else "bold red")

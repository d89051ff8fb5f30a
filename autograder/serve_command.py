"""`ol bench serve`: chats that arrive at random, against the engine in each mode, for some time.

It knows options and exit codes. What is measured, and how, it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograder import bench_common as common
from autograder.terminal import COULD_NOT, NOT_PASSED, PASSED, AsJson, console, give_up, print_json, progress
from course.contract import PrefixCache

if TYPE_CHECKING:
    from autograder.benchmarks.load_runs import Run
    from autograder.benchmarks.under_load import Plan, Setting

INTERRUPTED = 130


class Order(StrEnum):
    """Which waiting request is admitted first."""

    ARRIVAL = "arrival"
    PREFIX = "prefix"


def serve(
    submission: common.Submission = None,
    seconds: Annotated[float, typer.Option(metavar="S", min=1, max=86_400, help="How long new chats arrive.")] = 60,
    load: Annotated[
        float,
        typer.Option(
            metavar="X", min=0.01, max=1_000, help="How busy none would be, one request after another; sets the rate."
        ),
    ] = 0.7,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="R", min=0.0001, max=10_000, help="Chats a second, whatever the load.", show_default="from the load"
        ),
    ] = None,
    model: common.Model = "smollm2",
    mode: Annotated[
        list[PrefixCache] | None, typer.Option(help="Measure this mode; may be given again.", show_default="all three")
    ] = None,
    cold: Annotated[
        bool, typer.Option("--cold", help="Begin with an empty cache; else each system prompt was served once before.")
    ] = False,
    publish: common.When = common.Publish.RELEASE,
    order: Annotated[Order, typer.Option(help="Which waiting request is admitted first.")] = Order.ARRIVAL,
    new_tokens: Annotated[int, typer.Option(metavar="N", min=1, help="Tokens of an answer, at most.")] = 8,
    blocks: Annotated[int, typer.Option(metavar="N", min=1, max=65_536, help="Blocks in the pool.")] = 512,
    chunk: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Tokens in a step, at most.", show_default="the fastest for none"),
    ] = None,
    device: common.OnDevice = common.Device.CPU,
    threads: common.Threads = 1,
    cpu_time: Annotated[
        bool,
        typer.Option("--cpu-time", help="Count CPU time (one thread of a CPU only): what else runs matters less then."),
    ] = False,
    repeats: Annotated[int, typer.Option(metavar="N", min=1, help="How often, each time with other chats.")] = 1,
    seed: common.Seed = 0,
    assert_: Annotated[
        bool, typer.Option("--assert", help="Exit code 1 if the budget is not met, or answers differ.")
    ] = False,
    out: common.Out = Path("out"),
    as_json: AsJson = False,
) -> None:
    """Chats of a few turns arrive at random: time to first token, throughput and hit rate in each mode.

    Time in which nobody has anything to do is jumped over, so a minute of chats takes as long as its answers do. The
    budget is TTFT p95 none / hash of at least 2, where none is not saturated. Ctrl-C ends it; what was measured by
    then is kept. Exit code 2: it could not be measured.
    """
    from autograder.benchmarks import load_runs, under_load
    from autograder.benchmarks.serving import lab_names
    from course.engine.engine import PromptTooLong
    from course.lab_models import on_threads

    chosen = tuple(each for each in load_runs.MODES if not mode or PrefixCache(each) in mode)
    options = {"publish": publish.value, "order": order.value}
    plan = under_load.Plan(
        seconds, load, rate, seed, repeats, chosen, cold, new_tokens, chunk, blocks, cpu_time=cpu_time, options=options
    )
    if assert_ and not {load_runs.NONE, load_runs.HASH} <= set(chosen):
        give_up("--assert compares hash with none: measure both.")
    if cpu_time and (threads > 1 or device is not common.Device.CPU):
        give_up("--cpu-time tells the time of one thread on a CPU: it goes with --threads 1 and --device cpu.")
    runs: list[Run] = []
    setting, interrupted = None, False
    try:
        with progress("serve", quiet=as_json) as tell, on_threads(threads):
            loaded = common.model_on(model, device, tell)
            with common.classes_of(submission, passes=(PromptTooLong,), publish=publish) as names:
                baseline = names if submission is None else lab_names()
                setting = under_load.settle(loaded, baseline, plan, tell)
                for run in under_load.measure(loaded, names, baseline, plan, setting, tell):
                    runs.append(run)  # one by one: an interrupt comes after the run that it cut short
    except KeyboardInterrupt:
        interrupted = True
    except PromptTooLong as problem:
        give_up(f"it can't be measured. {problem}")
    if setting is None:
        raise typer.Exit(INTERRUPTED)
    where = common.told_where(loaded, threads) + ", CPU time" * cpu_time
    _show(plan, setting, runs, {"submission": str(submission or "reference"), "where": where}, out, as_json)
    if interrupted:
        console(error=True).print("ol: interrupted; this is what was measured by then.", markup=False)
        raise typer.Exit(INTERRUPTED)
    if not load_runs.by_mode(runs):
        raise typer.Exit(COULD_NOT)
    raise typer.Exit(NOT_PASSED if assert_ and not load_runs.within_budget(runs) else PASSED)


def _show(
    plan: Plan, setting: Setting, runs: Sequence[Run], about: Mapping[str, str], out: Path, as_json: bool
) -> None:
    """Write all that was measured, and show it."""
    from autograder.benchmarks import load_runs, under_load
    from autograder.benchmarks.under_load_table import load_view

    data = {**about, **under_load.as_data(plan, setting, runs)}
    charts, texts = _drawn(plan, setting, runs, about["where"]) if load_runs.by_mode(runs) else ({}, [])
    files = common.write(out, "bench_serve", data, charts)
    if charts:
        common.show(data, as_json, load_view(plan, setting, runs, about["where"]), texts, files)
    elif as_json:
        print_json(data)
    else:
        console().print(
            f"No run was completed in which a chat arrived: {setting.rate:.3g} a second for {plan.seconds:g} s."
        )


def _drawn(
    plan: Plan, setting: Setting, runs: Sequence[Run], where: str
) -> tuple[Mapping[str, common.Draw], list[str]]:
    """Who draws both charts, by the ending of the file's name; and both as text."""
    from autograder.benchmarks import load_runs
    from course.charts.load import load_chart, load_hits_chart, load_hits_text, load_text

    ttfts = {mode: [run.ttfts for run in own] for mode, own in load_runs.by_mode(runs).items()}
    samples, ideal = load_runs.hits_over_time(runs, plan.block_size)
    start = "cold" if plan.cold else "warm"
    note = f"{where}; {setting.rate:.3g} sessions a second for {plan.seconds:g} s, {start} start"
    charts: Mapping[str, common.Draw] = {
        "ttft": lambda path: load_chart(ttfts, path, note),
        "hits": lambda path: load_hits_chart(samples, path, note, ideal=ideal, arrivals_end=plan.seconds),
    }
    return charts, [load_text(ttfts), load_hits_text(samples, ideal=ideal)]

"""`ol bench order`: what it brings to admit requests that share a prefix together.

It knows options and exit codes. What is measured, and how, it does not know.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder.terminal import NOT_PASSED, PASSED, AsJson, console, give_up, print_json, progress

if TYPE_CHECKING:
    from course.engine.models import LoadedModel


class Cache(StrEnum):
    """The prefix cache; without one there is no prefix to go by."""

    HASH = "hash"
    RADIX = "radix"


def order(
    model: Annotated[str, typer.Option(metavar="NAME", help="byte, smollm2, or a folder with a checkpoint.")] = "byte",
    mode: Annotated[Cache, typer.Option(help="The prefix cache.")] = Cache.RADIX,
    prefixes: Annotated[int, typer.Option(metavar="N", min=1, help="How many prefixes there are.")] = 6,
    each: Annotated[int, typer.Option(metavar="N", min=1, help="Requests for each prefix.")] = 8,
    room: Annotated[int, typer.Option(metavar="N", min=0, help="Prefixes that the pool holds beside what runs.")] = 1,
    running: Annotated[int, typer.Option(metavar="N", min=1, help="Requests that run at the same time.")] = 2,
    repeats: Annotated[int, typer.Option(metavar="N", min=1, help="How often each order is timed.")] = 3,
    threads: Annotated[
        int, typer.Option(metavar="N", min=1, help="Threads; one is hardly disturbed by what else runs.")
    ] = 1,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the chart and the numbers go.")] = Path("out"),
    as_json: AsJson = False,
) -> None:
    """Time to first token of a backlog over several prefixes: in the order of arrival, and longest cached prefix first.

    Exit code 1: an answer hangs on the order. Exit code 2: it could not be measured.
    """
    from autograder.benchmarks import scheduling
    from autograder.benchmarks.scheduling_table import order_view
    from autograder.benchmarks.serving import lab_names
    from course.charts.order import order_chart, order_text
    from course.lab_models import on_threads

    plan = scheduling.Plan(prefixes, each, room=room, max_running=running, mode=mode.value, repeats=repeats)
    with progress("order", quiet=as_json) as tell, on_threads(threads):
        loaded = _model(model, tell)
        try:
            result = scheduling.measure(loaded, lab_names(), plan, tell)
        except ValueError as problem:
            give_up(f"{problem}.")
    where = f"{loaded.name} model on {loaded.model.device}, {threads} thread{'s' * (threads != 1)}"
    data = {"where": where, **scheduling.as_data(result)}
    note = f"{where}; {plan.n_requests} requests over {plan.n_prefixes} prefixes; median and range of repeats"
    try:
        chart = order_chart(result.ttfts, out / "bench_order.png", note)
        numbers = out / "bench_order.json"
        numbers.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    except OSError as problem:
        give_up(f"can't write {problem.filename or out}: {problem.strerror}")
    if as_json:
        print_json(data)
    else:
        shown = console()
        shown.print(order_view(result, where))
        shown.print(f"\n{order_text(result.ttfts)}\n\n{chart} and {numbers.name} are written.", markup=False)
    raise typer.Exit(PASSED if result.same_answers else NOT_PASSED)


def _model(name: str, tell: Any) -> LoadedModel:
    """The model; gives up where it can't be had."""
    from course.engine.models import ModelUnavailable, ModelUnsupported, load_model

    try:
        return load_model(name, report=tell)
    except (ModelUnavailable, ModelUnsupported) as problem:
        give_up(str(problem))

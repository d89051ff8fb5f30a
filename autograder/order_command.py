"""`ol bench order`: what it brings to admit requests that share a prefix together.

It knows options and exit codes. What is measured, and how, it does not know.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from autograder import bench_common as common
from autograder.terminal import NOT_PASSED, PASSED, AsJson, give_up, progress


class Cache(StrEnum):
    """The prefix cache; without one there is no prefix to go by."""

    HASH = "hash"
    RADIX = "radix"


def order(
    model: common.Model = "byte",
    mode: Annotated[Cache, typer.Option(help="The prefix cache.")] = Cache.RADIX,
    prefixes: Annotated[int, typer.Option(metavar="N", min=1, help="How many prefixes there are.")] = 6,
    each: Annotated[int, typer.Option(metavar="N", min=1, help="Requests for each prefix.")] = 8,
    room: Annotated[int, typer.Option(metavar="N", min=0, help="Prefixes that the pool holds beside what runs.")] = 1,
    running: Annotated[int, typer.Option(metavar="N", min=1, help="Requests that run at the same time.")] = 2,
    repeats: Annotated[int, typer.Option(metavar="N", min=1, help="How often each order is timed.")] = 3,
    device: common.OnDevice = common.Device.CPU,
    threads: common.Threads = 1,
    out: common.Out = Path("out"),
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
        loaded = common.model_on(model, device, tell, "byte-large")
        try:
            result = scheduling.measure(loaded, lab_names(), plan, tell)
        except ValueError as problem:
            give_up(f"{problem}.")
    where = common.told_where(loaded, threads)
    data = {"where": where, **scheduling.as_data(result)}
    note = f"{where}; {plan.n_requests} requests over {plan.n_prefixes} prefixes; median and range of repeats"
    files = common.write(out, "bench_order", data, {"": lambda path: order_chart(result.ttfts, path, note)})
    common.show(data, as_json, order_view(result, where), [order_text(result.ttfts)], files)
    raise typer.Exit(PASSED if result.same_answers else NOT_PASSED)

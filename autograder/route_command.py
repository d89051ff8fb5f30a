"""`ol bench route`: the same chats sent to two engines in different ways.

It knows options and exit codes. What is measured, and how, it does not know.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder import bench_common as common
from autograder.terminal import NOT_PASSED, PASSED, AsJson, give_up, progress


def route(
    submission: common.Submission = None,
    model: common.Model = "byte",
    device: common.OnDevice = common.Device.CPU,
    chats: Annotated[int, typer.Option(metavar="N", min=2, help="Chats, of three turns each.")] = 40,
    load: Annotated[
        float,
        typer.Option(
            metavar="X", min=0.01, max=1_000, help="1: as many chats as two engines could serve without a cache."
        ),
    ] = 1.0,
    blocks: Annotated[
        int, typer.Option(metavar="N", min=1, max=65_536, help="Blocks of each engine; the system prompts need 80.")
    ] = 64,
    publish: common.When = common.Publish.RELEASE,
    repeats: Annotated[int, typer.Option(metavar="N", min=1, help="How often, each time with other chats.")] = 3,
    seed: common.Seed = 0,
    assert_: Annotated[
        bool, typer.Option("--assert", help="Exit code 1 unless block names beat round robin and all answers agree.")
    ] = False,
    out: common.Out = Path("out"),
    as_json: AsJson = False,
) -> None:
    """Two engines behind a router: in turn, by hit ratio, by block names, and with blocks sent along.

    Each engine has a clock of its own, and computes on one thread. Exit code 2: it could not be measured.
    """
    from autograder.benchmarks import routing
    from course.charts.routing import routing_chart, routing_text
    from course.engine.engine import PromptTooLong
    from course.routing_chats import Plan, plan_told
    from course.routing_lab import routing_figures

    plan = Plan(n_chats=chats, load=load, n_blocks=blocks, publish=publish.value, seed=seed)
    try:
        with progress("route", quiet=as_json) as tell:
            # before the submission runs: what leaves here is not that one's end
            loaded = common.model_on(model, device, tell, "byte-large")
            with common.classes_of(submission, passes=(PromptTooLong,), publish=publish) as names:
                result = routing.measure(loaded, names, plan, repeats, tell)
    except PromptTooLong as problem:
        give_up(f"it can't be measured. {problem}")
    where = f"{loaded.name} model on {loaded.model.device}"
    data = {"submission": str(submission or "reference"), **routing.as_data(result, where)}
    figures = routing_figures(result.repeats)
    note = f"{loaded.name} model; {plan_told(plan)}"
    files = common.write(out, "bench_route", data, {"": lambda path: routing_chart(figures, path, note)})
    common.show(data, as_json, routing.routing_view(result, where), [routing_text(figures)], files)
    raise typer.Exit(NOT_PASSED if assert_ and result.shortfalls else PASSED)

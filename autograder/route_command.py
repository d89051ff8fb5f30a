"""`ol bench route`: the same chats sent to two engines in different ways.

It knows options and exit codes. What is measured, and how, it does not know.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder.terminal import NOT_PASSED, PASSED, AsJson, console, give_up, print_json, progress

if TYPE_CHECKING:
    from course.engine.loaded import LoadedModel


class When(StrEnum):
    """When an engine's blocks can be found by others."""

    RELEASE = "release"
    PREFILL = "prefill"


def route(
    submission: Annotated[
        Path | None,
        typer.Argument(metavar="SUBMISSION", help="A notebook or a Python file. Without it, the reference."),
    ] = None,
    model: Annotated[str, typer.Option(metavar="NAME", help="byte, smollm2, or a folder with a checkpoint.")] = "byte",
    chats: Annotated[int, typer.Option(metavar="N", min=2, help="Chats, of three turns each.")] = 40,
    load: Annotated[
        float, typer.Option(metavar="X", min=0.01, help="1: as many chats as two engines could serve without a cache.")
    ] = 1.0,
    blocks: Annotated[
        int, typer.Option(metavar="N", min=1, help="Blocks of each engine; the system prompts need 80.")
    ] = 64,
    publish: Annotated[When, typer.Option(help="When blocks can be found by others.")] = When.RELEASE,
    repeats: Annotated[int, typer.Option(metavar="N", min=1, help="How often, each time with other chats.")] = 3,
    seed: Annotated[int, typer.Option(metavar="N", help="Equal seeds give equal chats.")] = 0,
    assert_: Annotated[
        bool, typer.Option("--assert", help="Exit code 1 unless block names beat round robin and all answers agree.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the chart and the numbers go.")] = Path("out"),
    as_json: AsJson = False,
) -> None:
    """Two engines behind a router: in turn, by hit ratio, by block names, and with blocks sent along.

    Each engine has a clock of its own, and computes on one thread. Exit code 2: it could not be measured.
    """
    from autograder.benchmarks import routing
    from autograder.benchmarks.submitted import SubmissionFailed
    from course.charts.routing import routing_chart, routing_text
    from course.engine.engine import PromptTooLong
    from course.routing_chats import Plan, plan_told
    from course.routing_lab import routing_figures

    plan = Plan(n_chats=chats, load=load, n_blocks=blocks, publish=publish.value, seed=seed)
    try:
        with progress("route", quiet=as_json) as tell:
            loaded = _model(model, tell)  # before the submission runs: what leaves here is not that one's end
            with _classes(submission) as names:
                result = routing.measure(loaded, names, plan, repeats, tell)
    except (SubmissionFailed, PromptTooLong) as problem:
        give_up(f"it can't be measured. {problem}")
    where = f"{loaded.name} model on {loaded.model.device}"
    data = {"submission": str(submission or "reference"), **routing.as_data(result, where)}
    figures = routing_figures(result.repeats)
    try:
        chart = routing_chart(figures, out / "bench_route.png", f"{loaded.name} model; {plan_told(plan)}")
        numbers = out / "bench_route.json"
        numbers.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    except OSError as problem:
        give_up(f"can't write {problem.filename or out}: {problem.strerror}")
    if as_json:
        print_json(data)
    else:
        shown = console()
        shown.print(routing.routing_view(result, where))
        shown.print(f"\n{routing_text(figures)}\n\n{chart} and {numbers.name} are written.", markup=False)
    raise typer.Exit(NOT_PASSED if assert_ and result.shortfalls else PASSED)


def _classes(path: Path | None) -> AbstractContextManager[Any]:
    """The classes of a submission, or the lab's."""
    from autograder.benchmarks.serving import MODULE, lab_names
    from autograder.benchmarks.submitted import submission

    return submission(path, MODULE) if path else nullcontext(lab_names())


def _model(name: str, tell: Any) -> LoadedModel:
    from course.engine.models import ModelUnavailable, ModelUnsupported, load_model

    try:
        return load_model(name, report=tell)
    except (ModelUnavailable, ModelUnsupported) as problem:
        give_up(str(problem))

"""`ol bench`: what a rule about cost costs here. Local, with ratios within one run, and never part of a verdict.

It knows options and exit codes; the instructor's benchmarks have a file of their own. What is measured, and how, it
does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder import gpu_command, order_command, route_command, serve_command, trace_command
from autograder.terminal import NOT_PASSED, PASSED, AsJson, console, give_up, print_json, progress

if TYPE_CHECKING:
    from course.engine.models import LoadedModel

bench = typer.Typer(
    help="Measure what things cost here: ratios within one run, and never part of a verdict.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


class Device(StrEnum):
    """Where the model runs; auto takes a GPU if there is one."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    MPS = "mps"


@bench.command("L10.4")
def shared_prefix_ttft(
    submission: Annotated[
        Path | None,
        typer.Argument(metavar="SUBMISSION", help="A notebook or a Python file. Without it, the reference."),
    ] = None,
    assert_: Annotated[bool, typer.Option("--assert", help="Exit code 1 if the budget is not met.")] = False,
    device: Annotated[Device, typer.Option(help="Where the model runs.")] = Device.CPU,
    model: Annotated[
        str, typer.Option(metavar="NAME", help="byte, smollm2, or a folder with a checkpoint.", show_default="byte")
    ] = "",
    repeats: Annotated[int, typer.Option(metavar="N", min=1, help="How often each mode is timed.")] = 7,
    threads: Annotated[
        int, typer.Option(metavar="N", min=1, help="Threads on a CPU; one is hardly disturbed by what else runs.")
    ] = 1,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the chart and the numbers go.")] = Path("out"),
    as_json: AsJson = False,
) -> None:
    """Time to first token with a shared system prompt of 224 bytes: none, hash and radix (bench_shared_prefix_ttft).

    The budget is TTFT none / TTFT hash of at least 2. Exit code 2: it could not be measured.
    """
    from dataclasses import replace

    from autograder.benchmarks import shared_prefix_ttft as ttft
    from autograder.benchmarks import tables
    from autograder.benchmarks.serving import best_names
    from course.charts import ttft_chart, ttft_text
    from course.lab_models import on_threads

    with progress("L10.4", quiet=as_json) as tell, on_threads(threads):
        loaded = _model(model, device, tell)
        on_cpu = loaded.model.device.type == "cpu"
        plan = replace(ttft.plan_for(loaded) if on_cpu else ttft.scaled_plan(loaded), repeats=repeats)
        with _classes(submission) as names:
            result = ttft.measure(loaded, names or best_names(), best_names(), plan, tell)
    where = f"{loaded.name} model in {str(loaded.model.dtype).removeprefix('torch.')} on {loaded.model.device}"
    where += f", {threads} thread{'s' * (threads != 1)}" * on_cpu
    data = {"submission": str(submission or "reference"), "where": where, **ttft.as_data(result)}
    try:
        chart = ttft_chart(result.ttft, out / "bench_shared_prefix_ttft.png", f"{where}; median and range of repeats")
        numbers = out / "bench_shared_prefix_ttft.json"
        numbers.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    except OSError as problem:
        give_up(f"can't write {problem.filename or out}: {problem.strerror}")
    if as_json:
        print_json(data)
    else:
        shown = console()
        shown.print(tables.ttft_view(result, where))
        shown.print(f"\n{ttft_text(result.ttft)}\n\n{chart} and {numbers.name} are written.", markup=False)
    raise typer.Exit(NOT_PASSED if assert_ and not result.within_budget else PASSED)


@contextmanager
def _classes(path: Path | None) -> Iterator[Mapping[str, Any] | None]:
    """The classes of a submission, or None for the reference's; gives up where they can't be measured."""
    if path is None:
        yield None
        return
    from autograder.benchmarks.serving import MODULE
    from autograder.benchmarks.submitted import SubmissionFailed, submission

    try:
        with submission(path, MODULE) as names:
            yield names
    except SubmissionFailed as problem:
        give_up(f"{path.name} can't be measured. {problem}")


def _model(name: str, device: Device, tell: Any) -> LoadedModel:
    """The model, in the type that suits the device; gives up where it can't be had."""
    from course.engine.models import ModelUnavailable, ModelUnsupported, load_model, pick_device

    try:
        where = pick_device(device.value)
        suits = {"cpu": ("byte", "float32")}.get(where.type, ("byte-large", "bfloat16"))
        return load_model(suits[0] if name in ("", "byte") else name, where, suits[1], tell)
    except (ModelUnavailable, ModelUnsupported, ValueError) as problem:
        give_up(str(problem))


bench.command("trace")(trace_command.trace)
bench.command("order")(order_command.order)
bench.command("gpu")(gpu_command.gpu)
bench.command("route")(route_command.route)
bench.command("serve")(serve_command.serve)

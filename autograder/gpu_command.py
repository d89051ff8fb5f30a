"""`ol bench gpu`: its options, its files, its exit codes. What is measured, and how, it does not know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder.terminal import COULD_NOT, NOT_PASSED, PASSED, AsJson, console, give_up, print_json, progress

if TYPE_CHECKING:
    from autograder.benchmarks.gpu_findings import Findings
    from course.engine.models import LoadedModel


class Device(StrEnum):
    """Where the model runs; auto takes a CUDA device if there is one."""

    AUTO = "auto"
    CUDA = "cuda"
    CPU = "cpu"


def gpu(
    assert_: Annotated[
        bool, typer.Option("--assert", help="Exit code 1 if bits, answers or the budget are not as promised.")
    ] = False,
    device: Annotated[Device, typer.Option(help="Where the model runs.")] = Device.AUTO,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="byte, byte-large, smollm2, or a folder with a checkpoint.",
            show_default="byte-large on a GPU, byte on a CPU",
        ),
    ] = "",
    small: Annotated[
        bool, typer.Option("--small", help="A small size, as on a CPU: the whole path in a minute.")
    ] = False,
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Threads, on a CPU.")] = 1,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where charts and numbers go.")] = Path("out"),
    as_json: AsJson = False,
) -> None:
    """Bits, answers and times on a GPU, in under six minutes: what keeps answers equal, what a step costs, TTFT.

    Without a GPU the whole path runs at a small size. The budget is TTFT none / TTFT hash of at least 2 with a shared
    prefix of 4,096 tokens. Exit code 2: something that is asked for could not be measured.
    """
    from autograder.benchmarks import gpu as bench
    from autograder.benchmarks import gpu_findings as findings
    from autograder.benchmarks.gpu_tables import gpu_view
    from autograder.benchmarks.serving import best_names
    from course.engine.precision import fixed_workspace
    from course.lab_models import on_threads

    time_left = bench.TimeLeft(findings.LIMIT_S)
    where = _device(device)
    sizes = findings.SMALL if small or where == "cpu" else findings.FULL
    with progress("gpu", quiet=as_json) as tell, on_threads(threads), fixed_workspace():
        loaded = _model(model or sizes.model, where, tell)
        found = bench.measure(loaded, sizes, best_names(), time_left, tell)
    data = findings.as_data(found)
    files = _write(found, data, out)
    if as_json:
        print_json(data)
    else:
        shown = console()
        shown.print(gpu_view(found))
        shown.print("\n" + "\n\n".join(_texts(found)), markup=False)
        shown.print(f"\nWritten: {', '.join(str(path) for path in files)}", markup=False)
    raise typer.Exit(_exit_code(found) if assert_ else PASSED)


def _exit_code(found: Findings) -> int:
    """What `--assert` says, with the reasons on standard error."""
    from autograder.benchmarks.gpu_findings import failures, missing

    for sentence in (broken := failures(found)) or missing(found):
        console(error=True).print(f"ol: {sentence}", markup=False)
    if broken:
        return NOT_PASSED
    return COULD_NOT if missing(found) else PASSED


def _device(wanted: Device) -> str:
    """Which device that is here; gives up where it is not there."""
    import torch

    there = torch.cuda.is_available()
    if wanted == Device.CUDA and not there:
        give_up(
            "there is no CUDA device here, or this torch is built without CUDA. `--device cpu` runs the whole path "
            "at a small size."
        )
    if wanted == Device.AUTO:
        return "cuda" if there else "cpu"
    return wanted.value


def _model(name: str, device: str, tell: Any) -> LoadedModel:
    from course.engine.models import ModelUnavailable, ModelUnsupported, load_model

    tell(f"loading {name}", 0, 1)
    try:
        return load_model(name, device, "float32" if device == "cpu" else "bfloat16", tell)
    except (ModelUnavailable, ModelUnsupported, ValueError) as problem:
        give_up(str(problem))


# ---------------------------------------------------------------- files and texts


def _write(found: Findings, data: dict[str, Any], out: Path) -> list[Path]:
    """The numbers, and a chart of each part that was measured; gives up where they can't be written."""
    numbers = out / "bench_gpu.json"
    try:
        out.mkdir(parents=True, exist_ok=True)
        numbers.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
        return [numbers, *_charts(found, out)]
    except OSError as problem:
        give_up(f"can't write {problem.filename or out}: {problem.strerror}")


def _charts(found: Findings, out: Path) -> Iterator[Path]:
    from course.charts import ttft_chart
    from course.charts.steps import steps_chart

    for name, result in (("ttft", found.long), ("ttft_224", found.short)):
        if result:
            note = f"{found.where};\n{len(result.plan.prefix):,} shared tokens, median and range of repeats"
            yield ttft_chart(result.ttft, out / f"bench_gpu_{name}.png", note)
    if found.steps:
        note = f"{found.where};\ntime on the device, median and range of repeats"
        yield steps_chart(_device_times(found), out / "bench_gpu_steps.png", note)


def _texts(found: Findings) -> Iterator[str]:
    from course.charts import ttft_text
    from course.charts.steps import steps_text

    if found.steps:
        yield steps_text(_device_times(found))
    for result in (found.long, found.short):
        if result:
            yield f"{len(result.plan.prefix):,} shared tokens. {ttft_text(result.ttft)}"


def _device_times(found: Findings) -> dict[str, dict[int, list[float]]]:
    return {
        name: {n: [each.device for each in taken] for n, taken in by_tokens.items()}
        for name, by_tokens in found.steps.items()
    }

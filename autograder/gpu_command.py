"""`ol bench gpu`: its options, its files, its exit codes. What is measured, and how, it does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder import bench_common as common
from autograder.terminal import COULD_NOT, NOT_PASSED, PASSED, AsJson, console, give_up, progress

if TYPE_CHECKING:
    from autograder.benchmarks.gpu_findings import Findings


def gpu(
    assert_: Annotated[
        bool, typer.Option("--assert", help="Exit code 1 if bits, answers or the budget are not as promised.")
    ] = False,
    device: common.OnDevice = common.Device.AUTO,
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
    threads: common.Threads = 1,
    out: common.Out = Path("out"),
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
    sizes = findings.SMALL if small or where is common.Device.CPU else findings.FULL
    with progress("gpu", quiet=as_json) as tell, on_threads(threads), fixed_workspace():
        tell(f"loading {model or sizes.model}", 0, 1)
        loaded = common.model_on(model or sizes.model, where, tell)
        found = bench.measure(loaded, sizes, best_names(), time_left, tell)
    data = findings.as_data(found)
    files = common.write(out, "bench_gpu", data, dict(_charts(found)))
    common.show(data, as_json, gpu_view(found), list(_texts(found)), files)
    raise typer.Exit(_exit_code(found) if assert_ else PASSED)


def _exit_code(found: Findings) -> int:
    """What `--assert` says, with the reasons on standard error."""
    from autograder.benchmarks.gpu_findings import failures, missing

    for sentence in (broken := failures(found)) or missing(found):
        console(error=True).print(f"ol: {sentence}", markup=False)
    if broken:
        return NOT_PASSED
    return COULD_NOT if missing(found) else PASSED


def _device(wanted: common.Device) -> common.Device:
    """Which device that is here; gives up where it is not there."""
    import torch

    there = torch.cuda.is_available()
    if wanted is common.Device.CUDA and not there:
        give_up(
            "there is no CUDA device here, or this torch is built without CUDA. `--device cpu` runs the whole path "
            "at a small size."
        )
    if wanted is common.Device.AUTO:
        return common.Device.CUDA if there else common.Device.CPU
    return wanted


# ---------------------------------------------------------------- files and texts


def _charts(found: Findings) -> Iterator[tuple[str, common.Draw]]:
    """Who draws the chart of each part that was measured, by the ending of the file's name."""
    from course.charts import ttft_chart
    from course.charts.steps import steps_chart

    for name, result in (("ttft", found.long), ("ttft_224", found.short)):
        if result:
            note = f"{found.where};\n{len(result.plan.prefix):,} shared tokens, median and range of repeats"
            yield name, partial(_drawn, ttft_chart, result.ttft, note)
    if found.steps:
        note = f"{found.where};\ntime on the device, median and range of repeats"
        yield "steps", partial(_drawn, steps_chart, _device_times(found), note)


def _drawn(draw: Callable[[Any, Path, str], Path], measured: object, note: str, path: Path) -> Path:
    return draw(measured, path, note)


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

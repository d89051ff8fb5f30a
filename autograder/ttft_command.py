"""`ol bench L10.4`: the time to first token with a shared system prompt, and its budget.

It knows options and exit codes. What is measured, and how, it does not know.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder import bench_common as common
from autograder.terminal import NOT_PASSED, PASSED, AsJson, progress

NAME = "bench_shared_prefix_ttft"


def shared_prefix_ttft(
    submission: common.Submission = None,
    assert_: Annotated[bool, typer.Option("--assert", help="Exit code 1 if the budget is not met.")] = False,
    device: common.OnDevice = common.Device.CPU,
    model: common.Model = "byte",
    repeats: Annotated[int, typer.Option(metavar="N", min=1, help="How often each mode is timed.")] = 7,
    threads: common.Threads = 1,
    out: common.Out = Path("out"),
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
        loaded = common.model_on(model, device, tell, "byte-large")
        on_cpu = loaded.model.device.type == "cpu"
        plan = replace(ttft.plan_for(loaded) if on_cpu else ttft.scaled_plan(loaded), repeats=repeats)
        with common.classes_of(submission, best_names) as names:
            result = ttft.measure(loaded, names, best_names(), plan, tell)
    where = common.told_where(loaded, threads)
    data = {"submission": str(submission or "reference"), "where": where, **ttft.as_data(result)}
    note = f"{where}; median and range of repeats"
    files = common.write(out, NAME, data, {"": lambda path: ttft_chart(result.ttft, path, note)})
    common.show(data, as_json, tables.ttft_view(result, where), [ttft_text(result.ttft)], files)
    raise typer.Exit(NOT_PASSED if assert_ and not result.within_budget else PASSED)

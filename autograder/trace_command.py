"""`ol bench trace`: recorded traffic, replayed into block managers of many sizes.

It knows options and exit codes. What is measured, and how, it does not know.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder import bench_common as common
from autograder.terminal import AsJson, console, give_up, progress
from course.contract import PrefixCache


def trace(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace: JSON lines in the public Mooncake format.")],
    submission: common.Submission = None,
    blocks: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N",
            min=1,
            max=10_000_000,
            help="Blocks of a pool; may be given again.",
            show_default="200000 to 1000, or the trace's own blocks halved five times where it is small",
        ),
    ] = None,
    mode: Annotated[
        list[PrefixCache] | None,
        typer.Option(help="A prefix cache; may be given again.", show_default="hash and radix"),
    ] = None,
    eviction: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="What radix evicts first; may be given again.", show_default="lru"),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A line that is no valid record is an error.")] = False,
    out: common.Out = Path("out"),
    as_json: AsJson = False,
) -> None:
    """Hit rate against capacity on recorded traffic, beside the ideal of an infinite cache.

    Two more sizes are measured always: 3 and 50 million tokens, of which the paper with these traces says something.
    Exit code 2: it could not be measured.
    """
    from autograder.benchmarks import traces
    from autograder.benchmarks.traces_table import skipped, trace_view
    from course.charts.capacity import capacity_chart, capacity_text
    from course.eviction import find_eviction
    from course.traces import LRU, TraceError, read_trace

    modes = tuple(mode or (PrefixCache.HASH, PrefixCache.RADIX))
    try:
        for policy in eviction or ():
            find_eviction(policy)
    except ValueError as problem:
        give_up(f"{problem}.")
    if eviction and PrefixCache.RADIX not in modes:
        give_up("--eviction is a choice of mode radix, and that is not among the modes.")
    asked = traces.ways(modes, eviction or (LRU,))
    try:
        read = read_trace(file, strict)
    except OSError as problem:
        give_up(f"can't read {file}: {problem.strerror}")
    except TraceError as problem:
        give_up(f"{problem}.")
    try:
        with (
            progress("trace", quiet=as_json) as tell,
            common.classes_of(submission, passes=(traces.NotMeasured,)) as names,
        ):
            result = traces.measure(file.name, read, names, asked, blocks or (), tell)
    except traces.NotMeasured as problem:
        give_up(f"{problem}.")
    data = {"submission": str(submission or "reference"), **traces.as_data(result)}
    drawn, note = traces.as_capacities(result), f"{result.name}: {result.n_requests:,} requests, one at a time"
    name = f"bench_trace_{file.stem}"
    files = common.write(out, name, data, {"": lambda path: capacity_chart(drawn, path, note)})
    if told := skipped(result):
        console(error=True).print(told, markup=False)
    common.show(data, as_json, trace_view(result), [capacity_text(drawn)], files)

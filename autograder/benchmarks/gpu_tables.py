"""What `ol bench gpu` found, as tables and sentences for a terminal.

It knows how findings are worded and laid out. How they came about it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autograder.benchmarks.gpu_findings import LIMIT_S, LONG, SHORT, Findings, failures, missing, ttft_median
from autograder.benchmarks.gpu_load import Load
from autograder.benchmarks.gpu_parts import Bits, Modes, medians
from autograder.benchmarks.shared_prefix_ttft import NONE, Result
from autograder.benchmarks.tables import table
from course.charts import milliseconds

GIB = 1 << 30


def gpu_view(found: Findings) -> RenderableType:
    """Everything that was measured, what was not and why, and whether every promise is kept."""
    return Group(*_parts(found))


def _parts(found: Findings) -> Iterator[RenderableType]:
    if found.sizes.small:
        yield Text("A small size: this shows that everything runs, and its times are none of a large GPU.\n", "bold")
    yield Text(f"{found.where}\n{_machine(found.machine)}\n", "dim")
    if found.bits:
        yield bits_table(found.bits)
        yield Text(_needs(found) + "\n")
    if found.modes:
        yield Text(_modes(found.modes) + "\n")
    if found.steps:
        yield steps_table(found)
        yield Text(
            "Medians. Between the events of a step the GPU may have waited for Python; wall is all of it.\n", "dim"
        )
    for name, result in {LONG: found.long, SHORT: found.short}.items():
        if result:
            yield ttft_table(name, result)
            yield Text(_ttft_small_print(result) + "\n", "dim")
    if found.load:
        yield load_table(found.load)
    for sentence in found.left_out.values():
        yield Text(f"{sentence[0].upper()}{sentence[1:]}", "yellow")
    yield Text(
        f"{sum(found.seconds.values()):.0f} s of measuring, and {LIMIT_S:.0f} at most with all there is to load.", "dim"
    )
    yield verdict(found)


def _machine(machine: Mapping[str, Any]) -> str:
    told = [f"torch {machine['torch']}"]
    if "cuda" in machine:
        told += [
            f"CUDA {machine['cuda']}",
            f"{machine['memory_bytes'] / GIB:.0f} GiB",
            f"compute capability {machine['capability']}",
            f"CUBLAS_WORKSPACE_CONFIG={machine['switches']['CUBLAS_WORKSPACE_CONFIG']}",
        ]
    return ", ".join(told)


def bits_table(every: list[Bits]) -> Table:
    """What breaks under each setting."""
    made = Table(title="Bit equality: one prompt computed in many ways", title_justify="left", title_style="bold")
    for column in ("setting", "what it needs", "what has other bits"):
        made.add_column(column)
    for bits in every:
        told = Text("nothing", "green") if bits.kept else Text("\n".join(bits.broken), "red")
        made.add_row(bits.setting.name, bits.setting.needs, told)
    return made


def _needs(found: Findings) -> str:
    first, under = found.first_kept, found.setting
    if first is None or under is None:
        return "No setting keeps all bits here."
    told = f"The first setting that keeps all bits is {first.name}; it needs {first.needs}."
    return (
        told
        if first == under
        else f"{told}\nThe rest is measured under {under.name}, the way that this device runs by itself."
    )


def _modes(modes: Modes) -> str:
    n = len(next(iter(modes.answers.values())))
    tokens = ", ".join(f"{mode} {count:,}" for mode, count in modes.prefill_tokens.items())
    same = "the same tokens" if modes.same_tokens else "not the same tokens"
    return (
        f"{n} requests in three modes (prefill tokens: {tokens}): {same}; {modes.equal:,} of {modes.compared:,} logits "
        "before a token are the same to the bit."
    )


def steps_table(found: Findings) -> Table:
    """Time of a step by its tokens, on the device and for whoever waits."""
    columns = [f"{name}, {clock}" for name in found.steps for clock in ("device", "wall")]
    made = table("A step with one chunk, ms", "tokens", *columns)
    times = {name: dict(medians(taken)) for name, taken in found.steps.items()}
    for n in sorted({n for by_tokens in times.values() for n in by_tokens}):
        cells: list[str] = []
        for by_tokens in times.values():
            taken = by_tokens.get(n)
            cells += [milliseconds(taken.device), milliseconds(taken.wall)] if taken else ["", ""]
        made.add_row(f"{n:,}", *cells)
    return made


def ttft_table(name: str, result: Result) -> Table:
    """TTFT by mode, the ratio to none, and the limit that compute sets."""
    made = table(
        f"TTFT, {name}: {len(result.plan.prefix):,} shared tokens and {result.plan.n_suffix:,} of each request's own",
        "prefix cache", "TTFT", "prefill tokens", "none / it", "limit", "share of limit",
    )  # fmt: skip
    for mode in result.ttft:
        ratios = (
            ("", "", "")
            if mode == NONE
            else (f"{result.ratio(mode):.2f}", f"{result.limit(mode):.2f}", f"{result.share(mode):.0%}")
        )
        tokens = f"{result.prefill_tokens[mode] // result.plan.n_requests:,}"
        made.add_row(mode, f"{milliseconds(ttft_median(result, mode))} ms", tokens, *ratios)
    return made


def _ttft_small_print(result: Result) -> str:
    tried = ", ".join(f"{size:,}: {milliseconds(time)} ms" for size, time in result.chunk_times.items())
    return (
        f"{result.plan.repeats} repeats of {result.plan.n_requests} requests, medians. All modes ran with prefill "
        f"chunks of {result.chunk:,}, the fastest for none ({tried})."
    )


def load_table(loads: Mapping[str, Load]) -> Table:
    """TTFT and hit rate of requests that came at random times."""
    made = table("Under load, at half of what none could take", "prefix cache", "TTFT p50", "slowest", "hit rate")
    for mode, load in loads.items():
        made.add_row(
            mode, f"{milliseconds(load.median)} ms", f"{milliseconds(max(load.ttft))} ms", f"{load.hit_rate:.0%}"
        )
    return made


def verdict(found: Findings) -> Text:
    """Whether every promise is kept, with the reasons where not."""
    if broken := failures(found):
        return Text("\n".join(broken), "bold red")
    if missing(found):
        return Text("What is asked for was not all measured.", "bold red")
    return Text("The bits are kept, the answers agree, and the budget is met.", "bold green")

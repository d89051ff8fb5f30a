"""What a cache finds again in recorded traffic, as a table for a terminal.

It knows how hit rates by capacity are worded and laid out. How they were measured it does not know.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from autograder.benchmarks.tables import table
from autograder.benchmarks.traces import CLAIMS, Claim, Result, shares_at
from course.charts.capacity import tokens_text
from course.traces import Replayed

LINES_SHOWN = 10


def trace_view(result: Result) -> RenderableType:
    """A row for each way of caching and each size, the ideal, and how the paper's two sizes fare."""
    ideal = result.ideal
    made = table(
        f"{result.name}: {result.n_requests:,} requests, {ideal.n_blocks:,} blocks of {result.block_tokens} tokens",
        "cache", "blocks", "tokens", "hit rate", "of ideal", "evictions", "refused", "seconds", "the paper says",
    )  # fmt: skip
    made.add_row(
        "infinite", "", "", rate(ideal.hit_rate), "100.0%" if ideal.hits else "", "0", "0", "", end_section=True
    )
    for name, rows in result.replays.items():
        for row in rows:
            made.add_row(*_cells(result, name, row), end_section=row is rows[-1])
    return Group(made, Text(_small_print(result), "dim"), *(Text(_fares(result, claim)) for claim in CLAIMS))


def rate(value: float) -> str:
    """A hit rate to the fourth digit: .3660."""
    return f"{value:.4f}".removeprefix("0")


def _cells(result: Result, name: str, row: Replayed) -> tuple[str, ...]:
    share = result.share(row)
    return (
        name,
        f"{row.capacity:,}",
        tokens_text(row.capacity * result.block_tokens),
        rate(row.hit_rate),
        f"{share:.1%}" if result.ideal.hits else "",
        f"{row.evictions:,}",
        f"{row.refused:,}",
        f"{row.seconds:.2f}",
        next((claim.says for claim in CLAIMS if claim.blocks(result.block_tokens) == row.capacity), ""),
    )


def _small_print(result: Result) -> str:
    slowest = max(row.seconds for rows in result.replays.values() for row in rows)
    different = result.ideal.n_distinct
    said = (
        f"Requests come and go one at a time. {different:,} blocks are different ones: an infinite cache keeps "
        f"{tokens_text(different * result.block_tokens)} tokens.\n"
        f"The slowest row took {slowest:.2f} s"
    )
    return f"{said}; peak memory {result.peak_bytes / 2**20:,.0f} MiB." if result.peak_bytes else f"{said}."


def _fares(result: Result, claim: Claim) -> str:
    """What the paper says of one size, and what this trace gives there."""
    shares = shares_at(result, claim)
    told = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    held = {claim.holds(share) for share in shares.values()}
    verdict = "holds for some only" if len(held) > 1 else "holds" if True in held else "does not hold here"
    size = tokens_text(claim.tokens)
    return f"{size} tokens: {claim.says} of the ideal, in the paper (FAST '25, 5.3.1); {told}: {verdict}."


def skipped(result: Result) -> str:
    """The lines that were left out, each with its number and why; nothing if there are none."""
    if not result.n_bad:
        return ""
    told = [f"  {bad}" for bad in result.bad_lines[:LINES_SHOWN]]
    more = result.n_bad - len(told)
    head = f"{result.name}: {result.n_bad:,} line{'s are' if result.n_bad > 1 else ' is'} no valid record, left out:"
    return "\n".join([head, *told, *([f"  and {more:,} more"] if more else [])])

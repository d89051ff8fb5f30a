"""What a cache of each size finds again in recorded traffic, beside an infinite one (`ol bench trace`).

It knows which sizes and which ways of caching are measured, and what has been published of two of the sizes. How a
request is replayed `course.traces` knows; how figures are shown it does not know.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from course.charts.capacity import Capacities, Curve
from course.contract import PrefixCache
from course.progress import Tell
from course.traces import LRU, BadLine, Ideal, Replayed, Trace, ideal, new_manager, replay

SIZES = (200_000, 100_000, 50_000, 30_000, 10_000, 1_000)
"""Blocks of the pools that a trace is replayed into, unless others are asked for or the trace is small."""

SMALL_TRACE = 30_000
"""A trace with no more different blocks than this fits whole into most of SIZES, and gets sizes of its own."""

HALVINGS = 5


@dataclass(frozen=True)
class Claim:
    """What the Mooncake paper (FAST '25, section 5.3.1) says of a cache with room for so many tokens.

    `says` is what it says of the share of the infinite cache's hit rate; it holds from `low` up to below `high`.
    """

    tokens: int
    says: str
    low: float
    high: float

    def blocks(self, block_tokens: int) -> int:
        """The room in blocks, rounded down."""
        return self.tokens // block_tokens

    def holds(self, share: float) -> bool:
        """Whether a share of the ideal hit rate is what the paper says."""
        return self.low <= share < self.high


CLAIMS = (Claim(3_000_000, "under half", 0.0, 0.5), Claim(50_000_000, "nearly all", 0.95, float("inf")))
"""That nearly all means 95 % at least is decided here."""


@dataclass(frozen=True)
class Way:
    """One way of caching: a mode, and which leaf of its tree goes first."""

    mode: PrefixCache
    eviction: str = LRU

    @property
    def name(self) -> str:
        """What it is called in tables and charts."""
        return self.mode.value if self.eviction == LRU else f"{self.mode.value}, {self.eviction}"


@dataclass(frozen=True)
class Result:
    """What was measured.

    Attributes:
        name: the trace's file name.
        block_tokens: tokens of a block.
        n_requests: valid records.
        n_bad: lines that are none.
        bad_lines: the first of them, each with its number.
        ideal: what an infinite cache finds.
        replays: for each way of caching, by its name, a replay for each size, the largest first.
        peak_bytes: the most memory that this process has held so far; None where that can't be asked.
    """

    name: str
    block_tokens: int
    n_requests: int
    n_bad: int
    bad_lines: tuple[BadLine, ...]
    ideal: Ideal
    replays: Mapping[str, tuple[Replayed, ...]]
    peak_bytes: int | None

    def share(self, row: Replayed) -> float:
        """A replay's hit rate as a part of the ideal one; 0.0 where that is 0."""
        return row.hits / self.ideal.hits if self.ideal.hits else 0.0


class NotMeasured(Exception):
    """A way of caching that these classes don't have; the message says which."""


# ---------------------------------------------------------------- what is measured


def default_sizes(n_distinct: int) -> tuple[int, ...]:
    """SIZES, or for a small trace room for all its different blocks, half of that, and so on."""
    if n_distinct > SMALL_TRACE:
        return SIZES
    return tuple(size for halving in range(HALVINGS + 1) if (size := n_distinct >> halving))


def ways(modes: Sequence[PrefixCache], evictions: Sequence[str]) -> tuple[Way, ...]:
    """Each mode, and radix with each eviction policy: a pool has one of its own (L10.4, section 2.2)."""
    return tuple(
        Way(mode, eviction)
        for mode in dict.fromkeys(modes)
        for eviction in (dict.fromkeys(evictions) if mode is PrefixCache.RADIX else (LRU,))
    )


def measure(
    name: str,
    trace: Trace,
    names: Mapping[str, Any],
    asked: Sequence[Way],
    sizes: Sequence[int] = (),
    tell: Tell = lambda *far: None,
) -> Result:
    """Replay a trace into a new pool for each way of caching and each size.

    Args:
        name: the trace's file name.
        trace: what was read from it.
        names: the classes under test, `KvPool` and `BlockManager`.
        asked: the ways of caching.
        sizes: blocks of the pools; without any, `default_sizes`. The sizes of CLAIMS are measured, too.
        tell: hears how far it is.

    Raises:
        NotMeasured: the manager does not know one of the ways.
    """
    for way in asked:
        _check(names, way)
    best = ideal(trace.requests)
    claimed = {claim.blocks(trace.block_tokens) for claim in CLAIMS}
    every = sorted({*(sizes or default_sizes(best.n_distinct)), *claimed}, reverse=True)
    replays: dict[str, tuple[Replayed, ...]] = {}
    n_requests = len(trace.requests)
    total = len(asked) * len(every) * n_requests
    for way in asked:
        rows: list[Replayed] = []
        for size in every:
            before = (len(replays) * len(every) + len(rows)) * n_requests
            heard = _further(tell, way.name, before, total)
            rows.append(replay(trace.requests, names, way.mode, size, way.eviction, heard))
        replays[way.name] = tuple(rows)
    return Result(name, trace.block_tokens, n_requests, trace.n_bad, trace.bad_lines, best, replays, peak_memory())


def _check(names: Mapping[str, Any], way: Way) -> None:
    try:
        new_manager(names, way.mode, 1, way.eviction)
    except (TypeError, ValueError) as problem:
        raise NotMeasured(f"this BlockManager can't be had as {way.name}: {problem}") from problem


def _further(tell: Tell, way: str, before: int, total: int) -> Tell:
    """Hears how far one replay is, and tells how far all are."""
    return lambda doing, done, of: tell(f"{way}, {doing.partition(', ')[2]}", before + done, total)


def peak_memory() -> int | None:
    """The most bytes that this process has held in memory so far; None where the system doesn't say."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# ---------------------------------------------------------------- for charts and for programs


def as_capacities(result: Result) -> Capacities:
    """A result as the chart draws it."""
    curves = [
        Curve(name, {row.capacity * result.block_tokens: row.hit_rate for row in rows})
        for name, rows in result.replays.items()
    ]
    marks = {_tokens(result, claim): f"paper: {claim.says}{_not_here(result, claim)}" for claim in CLAIMS}
    return Capacities(curves, result.ideal.hit_rate, marks)


def _tokens(result: Result, claim: Claim) -> int:
    return claim.blocks(result.block_tokens) * result.block_tokens


def _not_here(result: Result, claim: Claim) -> str:
    """What to add where none of these ways bears the paper out: its traces were others."""
    return "" if any(map(claim.holds, shares_at(result, claim).values())) else ", not here"


def as_data(result: Result) -> dict[str, object]:
    """A result for programs, in plain values."""
    return {
        "benchmark": "trace",
        "trace": result.name,
        "requests": result.n_requests,
        "blocks": result.ideal.n_blocks,
        "distinct_blocks": result.ideal.n_distinct,
        "block_tokens": result.block_tokens,
        "ideal_hit_rate": result.ideal.hit_rate,
        "replays": {name: [_row_data(result, row) for row in rows] for name, rows in result.replays.items()},
        "paper": [_claim_data(result, claim) for claim in CLAIMS],
        "peak_memory_bytes": result.peak_bytes,
        "n_bad_lines": result.n_bad,
        "bad_lines": [asdict(bad) for bad in result.bad_lines],
    }


def _row_data(result: Result, row: Replayed) -> dict[str, object]:
    return {
        "capacity_blocks": row.capacity,
        "capacity_tokens": row.capacity * result.block_tokens,
        "hit_rate": row.hit_rate,
        "share_of_ideal": result.share(row),
        "evictions": row.evictions,
        "refused": row.refused,
        "seconds": row.seconds,
    }


def _claim_data(result: Result, claim: Claim) -> dict[str, object]:
    shares = shares_at(result, claim)
    return {
        "source": "Mooncake, FAST '25, section 5.3.1",
        "capacity_blocks": claim.blocks(result.block_tokens),
        "capacity_tokens": _tokens(result, claim),
        "says": claim.says,
        "share_of_ideal": shares,
        "holds": {name: claim.holds(share) for name, share in shares.items()},
    }


def shares_at(result: Result, claim: Claim) -> dict[str, float]:
    """The share of the ideal hit rate that each way of caching reaches at the size of a claim."""
    room = claim.blocks(result.block_tokens)
    return {name: result.share(row) for name, rows in result.replays.items() for row in rows if row.capacity == room}

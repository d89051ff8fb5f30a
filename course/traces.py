"""Recorded traffic, replayed through a block manager: what a pool of some size finds of it again.

It knows what a replay counts, and what an infinite cache would have found. How a trace is written
`course.trace_files` knows; whose pool and manager it is replayed into, and how figures are shown, nobody here does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from course.contract import BlockManager, PrefixCache
from course.eviction import Eviction
from course.progress import Tell, silent
from course.tokens import TOKEN_LIMIT
from course.trace_files import BLOCK_TOKENS, BadLine, Trace, TraceError, TraceRequest, read_trace

__all__ = [
    "BLOCK_TOKENS",
    "LRU",
    "OWN_TRACE",
    "BadLine",
    "Ideal",
    "Replayed",
    "Trace",
    "TraceError",
    "TraceRequest",
    "ideal",
    "new_manager",
    "read_trace",
    "replay",
]

OWN_TRACE = Path(__file__).parent.parent / "fixtures" / "traces" / "homework_hour.jsonl"
"""A small trace of our own making, in the shape of real traffic."""

TELL_EVERY = 500
"""Requests between two calls of `tell`."""

LRU = "lru"
"""The contract's own eviction policy (L8.4, section 2), the one that every manager has."""


# ---------------------------------------------------------------- what could be found at all


@dataclass(frozen=True)
class Ideal:
    """What a cache that forgets nothing finds: `hits` of `n_blocks`, where `n_distinct` are not the same prefix."""

    n_blocks: int
    hits: int
    n_distinct: int

    @property
    def hit_rate(self) -> float:
        """Hit blocks over all blocks; 0.0 for no request."""
        return self.hits / self.n_blocks if self.n_blocks else 0.0


def ideal(requests: Sequence[TraceRequest]) -> Ideal:
    """Count what an infinite cache finds, one request after another: each block whose whole prefix came before.

    A prompt's last block is never counted, as its last token is always computed (L10.4, section 2.1). No manager is
    asked and nothing is hashed: every distinct prefix gets a number, found by its parent's number and its last id.
    """
    prefixes: dict[int, int] = {}
    n_blocks = hits = 0
    for request in requests:
        number, found = 0, 0
        for block in request.hash_ids:
            known = len(prefixes)
            number = prefixes.setdefault(number * TOKEN_LIMIT + block, known + 1)
            found += number <= known
        n_blocks += len(request.hash_ids)
        hits += min(found, len(request.hash_ids) - 1)
    return Ideal(n_blocks, hits, len(prefixes))


# ---------------------------------------------------------------- replaying


@dataclass(frozen=True)
class Replayed:
    """What one replay found.

    Attributes:
        mode: the cache, by its name: none, hash or radix.
        capacity: blocks of the pool.
        eviction: the eviction policy's name.
        n_blocks: blocks of all prompts together.
        hits: those that were found in the cache.
        evictions: blocks that made room for others, as the manager counts them.
        refused: requests that the pool was too small for, whose blocks all count as not found.
        seconds: wall time of the whole replay.
    """

    mode: str
    capacity: int
    eviction: str
    n_blocks: int
    hits: int
    evictions: int
    refused: int
    seconds: float

    @property
    def hit_rate(self) -> float:
        """Hit blocks over all blocks; 0.0 for no request."""
        return self.hits / self.n_blocks if self.n_blocks else 0.0


def new_manager(
    names: Mapping[str, Any], mode: PrefixCache, n_blocks: int, eviction: str | Eviction = LRU
) -> BlockManager:
    """A manager over an empty pool of blocks of one token. Only a policy other than LRU is asked for by name.

    Raises:
        ValueError: sizes or a policy that the classes refuse.
        TypeError: the manager takes no policy.
    """
    pool = names["KvPool"](n_blocks, 1)
    options = {} if eviction == LRU else {"eviction": eviction}
    return cast(BlockManager, names["BlockManager"](pool, mode, **options))


def replay(
    requests: Sequence[TraceRequest],
    names: Mapping[str, Any],
    mode: PrefixCache,
    n_blocks: int,
    eviction: str | Eviction = LRU,
    tell: Tell = silent,
) -> Replayed:
    """Allocate and release the requests one at a time, in their order, and count the blocks that are found.

    A block of the trace is one token to the manager, whose blocks hold one token each: what is shared between prompts
    is the same as with 512 tokens a block, and a replay takes a moment.

    Args:
        requests: the trace.
        names: the classes to run, `KvPool` and `BlockManager`.
        mode: how the manager finds prefixes.
        n_blocks: blocks of the pool, each for 512 tokens of the trace.
        eviction: a policy, or the name of one.
        tell: hears how many requests are done.

    Raises:
        ValueError: sizes or a policy that the classes refuse.
        TypeError: the manager takes no policy.
    """
    manager = new_manager(names, mode, n_blocks, eviction)
    hits = asked = refused = 0
    start = time.perf_counter()
    for seq, request in enumerate(requests):
        if seq % TELL_EVERY == 0:
            tell(f"{mode.value}, {n_blocks:,} blocks", seq, len(requests))
        prompt = list(request.hash_ids)
        asked += len(prompt)
        allocation = manager.allocate(seq, prompt)
        if allocation is None:
            refused += 1
            continue
        hits += allocation.cached_tokens
        manager.release(seq, prompt)
    seconds = time.perf_counter() - start
    policy = eviction if isinstance(eviction, str) else eviction.name
    return Replayed(mode.value, n_blocks, policy, asked, hits, manager.stats.evictions, refused, seconds)

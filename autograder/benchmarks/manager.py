"""What the bookkeeping of a block manager costs a request, beside a yardstick in the same run (L10.4).

`ol bench manager`. The time depends on the machine; the ratio to the yardstick hardly does. It knows a
workload, a clock and the calls of a `BlockSpace`; which manager it measures, its caller says.
"""

from __future__ import annotations

import gc
import statistics
import struct
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

from course.contract import BlockId, PrefixCache, Publish
from course.progress import Tell
from course.workloads import shared_prefix_requests

BLOCK_SIZE = 16
N_BLOCKS = 8_192
LAYOUT = f"<Q{BLOCK_SIZE}I"
"""A block's parent and its tokens as bytes, as the contract's own hash lays them out (L10.4, section 2.1)."""

ROUNDS = 3
YARDSTICK = "yardstick"


class Contender(Protocol):
    """What is measured: it takes a request in, and lets it go with its whole prompt computed."""

    def begin(self, tokens: list[int]) -> tuple[int, Any]:
        """Tokens found in the cache, and what `end` wants back."""

    def end(self, request: Any) -> None:
        """The request is done."""


# ---------------------------------------------------------------- the yardstick


class BareHashPool:
    """The least that a hash cache of blocks can do: 64-bit blake2b names, no statistics, no checks, no errors."""

    def __init__(self) -> None:
        self.unused = list(range(N_BLOCKS))
        self.references = [0] * N_BLOCKS
        self.names = [0] * N_BLOCKS
        self.holders: dict[int, BlockId] = {}
        self.idle: OrderedDict[BlockId, None] = OrderedDict()

    def begin(self, tokens: list[int]) -> tuple[int, Any]:
        """Name the prompt's full blocks, take those that are known, and new ones for the rest."""
        names = self._names(tokens)
        table: list[BlockId] = []
        for name in names[: (len(tokens) - 1) // BLOCK_SIZE]:
            found = self.holders.get(name)
            if found is None:
                break
            if not self.references[found]:
                del self.idle[found]
            self.references[found] += 1
            table.append(found)
        n_hits = len(table)
        for _ in range(n_hits, -(-len(tokens) // BLOCK_SIZE)):
            table.append(self._new_block())
        return n_hits * BLOCK_SIZE, (table, names)

    def end(self, request: tuple[list[BlockId], list[int]]) -> None:
        """Name the new full blocks, and give every reference back, the last block first."""
        table, names = request
        for block, name in zip(table, names, strict=False):  # the last block may be partial and have no name
            if not self.names[block] and name not in self.holders:
                self.holders[name], self.names[block] = block, name
        for block in reversed(table):
            self.references[block] -= 1
            if not self.references[block]:
                if self.names[block]:
                    self.idle[block] = None
                else:
                    self.unused.append(block)

    def _names(self, tokens: list[int]) -> list[int]:
        parent, names = 0, []
        for start in range(0, len(tokens) - BLOCK_SIZE + 1, BLOCK_SIZE):
            content = struct.pack(LAYOUT, parent, *tokens[start : start + BLOCK_SIZE])
            parent = int.from_bytes(blake2b(content, digest_size=8).digest(), "little") or 1
            names.append(parent)
        return names

    def _new_block(self) -> BlockId:
        if self.unused:
            block = self.unused.pop()
        else:
            block, _ = self.idle.popitem(last=False)
            del self.holders[self.names[block]]
            self.names[block] = 0
        self.references[block] = 1
        return block


# ---------------------------------------------------------------- a manager


class Managed:
    """A block manager over a pool of its own, as a contender; it may publish what it admits at once.

    A manager is told about `publish` only where that is not release, which is what every manager does.
    """

    def __init__(self, names: Mapping[str, Any], mode: PrefixCache, publish: Publish = "release") -> None:
        self.early = publish != "release"
        options = {"publish": publish} if self.early else {}
        self.space = names["BlockManager"](names["KvPool"](N_BLOCKS, BLOCK_SIZE), mode, **options)
        self.count = 0

    def begin(self, tokens: list[int]) -> tuple[int, Any]:
        """Allocate for the prompt. Where blocks are published early, all of it counts as computed now."""
        self.count += 1
        found = self.space.allocate(self.count, tokens).cached_tokens
        if self.early:
            self.space.publish(self.count, tokens)
        return found, (self.count, tokens)

    def end(self, request: tuple[int, list[int]]) -> None:
        """Release with the whole prompt computed."""
        self.space.release(*request)


def contenders(names: Mapping[str, Any], publish: Publish = "release") -> dict[str, Callable[[], Contender]]:
    """The yardstick and the three modes of the manager that `names` holds, each made anew for every round.

    The yardstick names its blocks at the end whatever `publish` says.
    """
    modes = {mode.value: lambda mode=mode: Managed(names, mode, publish) for mode in PrefixCache}
    return {YARDSTICK: BareHashPool, **modes}


# ---------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Cost:
    """What one contender costs: microseconds a request, times the yardstick's cost, and its hit rate."""

    microseconds: float
    ratio: float
    hit_rate: float


def measure(
    makers: Mapping[str, Callable[[], Contender]],
    n_requests: int = 2_000,
    in_flight: int = 1,
    rounds: int = ROUNDS,
    tell: Tell = lambda what, done, of: None,
) -> dict[str, Cost]:
    """Time every contender in turn, several rounds, so that a drift of the machine hits all alike.

    Args:
        makers: makes each contender; the one named `yardstick` is what the others are compared with.
        n_requests: requests a round.
        in_flight: how many requests are held at a time.
        rounds: how often each is timed; medians count.
        tell: hears how far it is.
    """
    requests = shared_prefix_requests(n_requests)
    times: dict[str, list[float]] = {name: [] for name in makers}
    rates: dict[str, float] = {}
    for round_ in range(rounds):
        for place, (name, make) in enumerate(makers.items()):
            tell(name, round_ * len(makers) + place, rounds * len(makers))
            seconds, rates[name] = serve(make(), requests, in_flight)
            times[name].append(seconds / n_requests * 1e6)
    return {
        name: Cost(
            statistics.median(taken),
            statistics.median(a / b for a, b in zip(taken, times[YARDSTICK], strict=True)),
            rates[name],
        )
        for name, taken in times.items()
    }


def serve(contender: Contender, requests: Sequence[list[int]], in_flight: int) -> tuple[float, float]:
    """Seconds for all requests, with the garbage collector off, and the share of tokens that were hits."""
    hits, held = 0, deque[Any]()
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        for tokens in requests:
            found, request = contender.begin(tokens)
            hits += found
            held.append(request)
            if len(held) >= in_flight:
                contender.end(held.popleft())
        while held:
            contender.end(held.popleft())
        seconds = time.perf_counter() - start
    finally:
        gc.enable()
    return seconds, hits / sum(map(len, requests))

"""The flat model of the block manager (L10.4): each call first asks, then acts, one block at a time.

It knows which blocks a sequence holds, which of them were hits, and what the radix cache holds a reference on.
It looks before it takes (`find`, then `retain`), so a refusal has nothing to undo.
What is in a block, and how the pool and the cache choose what to give up, it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from course.contract import (
    ROOT,
    Allocation,
    BlockId,
    BlockStats,
    KvPool,
    NodeId,
    PrefixCache,
    Publish,
    SeqId,
)
from course.modules import RadixCache, kv_block_hash
from course.tokens import pack_tokens, unpack_tokens


@dataclass
class Held:
    """A sequence: its table, its slots (prompt positions and one for each append), and what it reused.

    The first `n_published` blocks of its table have been offered to a cache: the hits, then what it published.
    """

    table: list[BlockId]
    slots: int
    n_hits: int
    names: list[int] = field(default_factory=list)
    node: NodeId = ROOT
    n_published: int = field(init=False)

    def __post_init__(self) -> None:
        self.n_published = self.n_hits


class BlockManager:
    """The scheduler's `BlockSpace` over a pool, with a prefix cache in one of three modes (L10.4)."""

    def __init__(self, pool: KvPool, mode: PrefixCache, publish: Publish = "release") -> None:
        """Manage all of `pool`. Raises ValueError for a time of publishing that there is not."""
        if publish not in ("release", "prefill"):
            raise ValueError(f"there is no publish={publish!r}: it is release or prefill")
        self._publish = publish
        self._pool = pool
        self._mode = PrefixCache(mode)
        self._size = pool.block_size
        self._cache = RadixCache(self._size)
        self._in_tree: set[BlockId] = set()
        self._held: dict[SeqId, Held] = {}
        self._lookups = 0
        self._query_tokens = 0
        self._hit_tokens = 0
        self._pool_evictions_before = pool.evictions

    @property
    def mode(self) -> PrefixCache:
        """How prefixes are found again."""
        return self._mode

    @property
    def available_blocks(self) -> int:
        """Blocks that a request could get now: free, plus what could be evicted."""
        return self._pool.n_free + self._pool.n_cached + self._cache.evictable_blocks

    @property
    def cached_blocks(self) -> int:
        """Blocks that hold reusable content, in use or not: the named ones, or the tree's."""
        return {
            PrefixCache.NONE: 0,
            PrefixCache.HASH: self._pool.n_named,
            PrefixCache.RADIX: self._cache.cached_blocks,
        }[self._mode]

    @property
    def stats(self) -> BlockStats:
        """The counters, over admitted prompts (L10.4, section 4)."""
        if self._mode is PrefixCache.RADIX:
            evictions = self._cache.stats.evicted_blocks
        else:
            evictions = self._pool.evictions - self._pool_evictions_before
        return BlockStats(self._lookups, self._query_tokens, self._hit_tokens, evictions)

    @property
    def hit_rate(self) -> float:
        """Hit tokens over query tokens; 0.0 before the first prompt."""
        return self._hit_tokens / self._query_tokens if self._query_tokens else 0.0

    def allocate(self, seq: SeqId, tokens: Sequence[int]) -> Allocation | None:
        """Admit a prompt: a table of ceil(n / B) blocks, the cached ones first; None if it can't be had now.

        Raises ValueError for an empty prompt, a token out of range or a sequence already held.
        """
        prompt = unpack_tokens(pack_tokens(tokens))
        if not prompt:
            raise ValueError("an empty prompt has no position to compute")
        if seq in self._held:
            raise ValueError(f"sequence {seq!r} is held already")
        held = {
            PrefixCache.NONE: self._allocate_fresh,
            PrefixCache.HASH: self._allocate_by_name,
            PrefixCache.RADIX: self._allocate_by_path,
        }[self._mode](prompt)
        if held is None:
            return None
        self._held[seq] = held
        self._lookups += 1
        self._query_tokens += len(prompt)
        self._hit_tokens += held.n_hits * self._size
        return Allocation(held.n_hits * self._size, tuple(held.table))

    def append_slot(self, seq: SeqId) -> bool:
        """Make room for one more position; False, and nothing changed, if there is none."""
        held = self._held[seq]
        if held.slots == len(held.table) * self._size:
            if self.available_blocks == 0:
                return False
            held.table += self._take(1)
        held.slots += 1
        return True

    def release(self, seq: SeqId, computed: Sequence[int]) -> None:
        """End a sequence. `computed` are the ids whose K and V are written, beginning with the prompt's.

        Raises KeyError for a sequence not held, ValueError for more ids than it has slots.
        """
        held, written = self._written(seq, computed)
        del self._held[seq]
        kept: set[BlockId] = set()
        if self._mode is PrefixCache.HASH:
            self._name_full_blocks(held, written, held.n_hits)
        if self._mode is PrefixCache.RADIX:
            kept, _ = self._store_full_blocks(held, written)
            self._cache.unlock(held.node)
        for block in reversed(held.table):  # of a prefix, the tail is to be evicted first
            if block not in kept:
                self._pool.release(block)

    def publish(self, seq: SeqId, computed: Sequence[int]) -> None:
        """Make the full blocks among the `computed` ids findable now, if this manager publishes early.

        Raises as `release` does.
        """
        held, written = self._written(seq, computed)
        full = len(written) // self._size
        if self._publish == "release" or full <= held.n_published:
            return
        if self._mode is PrefixCache.HASH:
            self._name_full_blocks(held, written, held.n_published)
        if self._mode is PrefixCache.RADIX:
            one_more = (held.n_published + 1) * self._size
            first, _ = self._store_full_blocks(held, written[:one_more])
            if not first:
                return  # a twin's block is there; without a lock on it nothing of ours may hang below
            rest, node = self._store_full_blocks(held, written)
            for block in first | rest:
                self._pool.retain(block)  # the cache's own reference: the request keeps the one it has
            self._cache.lock(node)
            self._cache.unlock(held.node)
            held.node = node
        held.n_published = full

    def _written(self, seq: SeqId, computed: Sequence[int]) -> tuple[Held, tuple[int, ...]]:
        """A sequence and its computed ids, checked."""
        held = self._held[seq]
        written = unpack_tokens(pack_tokens(computed))
        if len(written) > held.slots:
            raise ValueError(f"{len(written)} computed tokens: sequence {seq!r} has {held.slots} slots")
        return held, written

    def block_table(self, seq: SeqId) -> list[BlockId]:
        """The sequence's blocks, in the order of its positions."""
        return list(self._held[seq].table)

    def _usable(self, prompt: Sequence[int]) -> int:
        return (len(prompt) - 1) // self._size

    def _needed(self, prompt: Sequence[int]) -> int:
        return -(-len(prompt) // self._size)

    def _allocate_fresh(self, prompt: Sequence[int]) -> Held | None:
        if self._needed(prompt) > self.available_blocks:
            return None
        return Held(self._take(self._needed(prompt)), len(prompt), n_hits=0)

    def _allocate_by_name(self, prompt: Sequence[int]) -> Held | None:
        names: list[int] = []
        hits: list[BlockId] = []
        while len(hits) < self._usable(prompt):
            self._name_next(names, prompt)
            block = self._pool.find(names[-1])
            if block is None:
                break
            hits.append(block)
        fresh = self._needed(prompt) - len(hits)
        hits_that_are_spare = sum(self._pool.refcount(block) == 0 for block in hits)
        if fresh > self.available_blocks - hits_that_are_spare:
            return None
        for block in hits:  # before any other is taken, so that no hit is evicted for it
            self._pool.retain(block)
        return Held(hits + self._take(fresh), len(prompt), len(hits), names)

    def _allocate_by_path(self, prompt: Sequence[int]) -> Held | None:
        match = self._cache.match_prefix(prompt)
        self._cache.lock(match.node)  # so that what is evictable no longer counts the hits
        fresh = self._needed(prompt) - len(match.blocks)
        if fresh > self.available_blocks:
            self._cache.unlock(match.node)
            return None
        for block in match.blocks:
            self._pool.retain(block)
        table = list(match.blocks) + self._take(fresh)
        return Held(table, len(prompt), len(match.blocks), node=match.node)

    def _take(self, n: int) -> list[BlockId]:
        short = n - self._pool.n_free - self._pool.n_cached
        if short > 0:
            for block in self._cache.evict(short):
                self._in_tree.remove(block)
                self._pool.release(block)
        return self._pool.alloc(n)

    def _name_next(self, names: list[int], tokens: Sequence[int]) -> None:
        start = len(names) * self._size
        names.append(kv_block_hash(names[-1] if names else 0, tokens[start : start + self._size]))

    def _name_full_blocks(self, held: Held, written: Sequence[int], first: int) -> None:
        full = len(written) // self._size
        while len(held.names) < full:
            self._name_next(held.names, written)
        for place in range(first, full):
            if self._pool.find(held.names[place]) is None:
                self._pool.set_fill(held.table[place], self._size)
                self._pool.register(held.table[place], held.names[place])

    def _store_full_blocks(self, held: Held, written: Sequence[int]) -> tuple[set[BlockId], NodeId]:
        """Store the full blocks in the tree: the ones it did not have, and the node where they end."""
        full = len(written) // self._size
        offered = held.table[:full]
        inserted = self._cache.insert(written[: full * self._size], offered)
        new = set(offered) - set(inserted.duplicates) - self._in_tree
        self._in_tree |= new
        return new, inserted.node

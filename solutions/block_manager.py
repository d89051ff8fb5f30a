"""L10.4 · The block manager: admits prompts, reuses the blocks of prefixes it has seen, gives all back.

It knows sequences, their block tables and which of three caches finds a prefix again. It does not
know what runs on the blocks: a scheduler asks for room and says at the end which tokens were computed.

The three modes differ in four places: how a prompt's hits are found, how room is made, what becomes
of full blocks at the end, and what could be evicted. Everything else is the same for all.
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
    PoolExhausted,
    PrefixCache,
    SeqId,
)
from course.many import lookup_prefix, name_blocks, register_full, release_all, retain_all
from course.modules import RadixCache, kv_block_hash
from course.tokens import pack_tokens


@dataclass(slots=True)
class _Sequence:
    """What one admitted prompt holds: a reference on each block of `table`, of which `hits` came from the cache."""

    table: list[BlockId]
    hits: int
    slots: int
    names: list[int] = field(default_factory=list)
    node: NodeId = ROOT
    prompt: list[int] = field(default_factory=list)


class BlockManager:
    """A `BlockSpace` over a pool with a prefix cache: none, hash or radix (contract: `BlockManager`)."""

    def __init__(self, pool: KvPool, mode: PrefixCache) -> None:
        self.mode = PrefixCache(mode)
        self._pool = pool
        self._size = pool.block_size
        self._radix = RadixCache(pool.block_size) if self.mode is PrefixCache.RADIX else None
        self._sequences: dict[SeqId, _Sequence] = {}
        self._lookups = self._query_tokens = self._hit_tokens = 0
        self._evictions_before = pool.evictions

    # ------------------------------------------------------------ counts

    @property
    def available_blocks(self) -> int:
        """Blocks that a request could get now: free, plus what could be evicted."""
        evictable = self._radix.evictable_blocks if self._radix is not None else 0
        return self._pool.n_free + self._pool.n_cached + evictable

    @property
    def cached_blocks(self) -> int:
        """Blocks that hold reusable content, in use or not."""
        return self._radix.cached_blocks if self._radix is not None else self._pool.n_named

    @property
    def stats(self) -> BlockStats:
        """Counters over admitted prompts; a refused attempt counts nothing."""
        radix = self._radix
        evictions = radix.stats.evicted_blocks if radix is not None else self._pool.evictions - self._evictions_before
        return BlockStats(self._lookups, self._query_tokens, self._hit_tokens, evictions)

    @property
    def hit_rate(self) -> float:
        """Hit tokens over query tokens; 0.0 before the first prompt (section 4)."""
        return self._hit_tokens / self._query_tokens if self._query_tokens else 0.0

    def block_table(self, seq: SeqId) -> list[BlockId]:
        """The sequence's blocks, in the order of its positions. Raises KeyError for an unknown sequence."""
        return list(self._held(seq).table)

    # ------------------------------------------------------------ admission

    def allocate(self, seq: SeqId, tokens: Sequence[int]) -> Allocation | None:
        """Room for a prompt: its cached blocks first, then fresh ones (sections 2.1 and 2.2).

        All or nothing: where the fresh blocks can't be had, the hits go back too and None is returned.

        Raises:
            ValueError: an empty prompt, a token out of range, or a sequence already held.
        """
        if seq in self._sequences:
            raise ValueError(f"sequence {seq!r} already holds blocks")
        if len(tokens) == 0:
            raise ValueError(f"the prompt of sequence {seq!r} is empty")
        new = self._find_hits(tokens)
        fresh = self._take_fresh(self._blocks_for(len(tokens)) - new.hits)
        if fresh is None:
            self._give_back(new, new.table)
            return None
        new.table += fresh
        new.prompt = list(tokens)
        self._sequences[seq] = new
        self._lookups += 1
        self._query_tokens += len(tokens)
        self._hit_tokens += new.hits * self._size
        return Allocation(new.hits * self._size, tuple(new.table))

    def _blocks_for(self, positions: int) -> int:
        """How many blocks hold so many positions, the last one perhaps in part (section 2.2)."""
        return -(-positions // self._size)

    def _usable_blocks(self, n: int) -> int:
        """How many blocks of an n-token prompt may be reused: its last token is always computed (section 2.1)."""
        return (n - 1) // self._size

    def _find_hits(self, tokens: Sequence[int]) -> _Sequence:
        """The prompt's cached prefix, a reference taken on each of its blocks (section 2.2)."""
        if self._radix is not None:
            match = self._radix.match_prefix(tokens)
            retain_all(self._pool, match.blocks)
            self._radix.lock(match.node)
            return _Sequence(list(match.blocks), len(match.blocks), len(tokens), node=match.node)
        if self.mode is PrefixCache.HASH:
            names = name_blocks(self._pool, kv_block_hash, tokens)
            hits = lookup_prefix(self._pool, names[: self._usable_blocks(len(tokens))])
            return _Sequence(hits, len(hits), len(tokens), names)
        pack_tokens(tokens)  # for its check, as the other modes do on their way
        return _Sequence([], 0, len(tokens))

    def _take_fresh(self, n: int) -> list[BlockId] | None:
        """n blocks, evicting radix leaves for what the free list is short of; None if they can't be had."""
        if self._radix is not None:
            short = n - self._pool.n_free
            if short > self._radix.evictable_blocks:
                return None
            if short > 0:
                release_all(self._pool, self._radix.evict(short))
        try:
            return self._pool.alloc(n)
        except PoolExhausted:
            return None

    # ------------------------------------------------------------ growth

    def append_slot(self, seq: SeqId) -> bool:
        """Room for one more position; False, and nothing changed, if there is none."""
        held = self._held(seq)
        if self._blocks_for(held.slots + 1) > len(held.table):
            fresh = self._take_fresh(1)
            if fresh is None:
                return False
            held.table += fresh
        held.slots += 1
        return True

    # ------------------------------------------------------------ the end

    def release(self, seq: SeqId, computed: Sequence[int]) -> None:
        """Cache the full computed blocks and give every reference back (section 2.2).

        Args:
            seq: the sequence that ends.
            computed: the ids whose K and V are written, in table order, beginning with the prompt's.

        Raises:
            KeyError: an unknown sequence.
            ValueError: more tokens than the sequence has slots, or one out of range.
        """
        held = self._held(seq)
        if len(computed) > held.slots:
            raise ValueError(f"{len(computed)} tokens computed, but sequence {seq!r} has {held.slots} slots")
        given_away = self._cache(held, computed)
        del self._sequences[seq]
        self._give_back(held, [block for block in held.table if block not in given_away] if given_away else held.table)

    def _cache(self, held: _Sequence, computed: Sequence[int]) -> set[BlockId]:
        """Make the full computed blocks findable; those whose reference the cache now holds are returned."""
        full = len(computed) // self._size
        if self._radix is not None:
            duplicates = self._radix.insert(computed, held.table[:full]).duplicates
            return set(held.table[held.hits : full]).difference(duplicates)
        self._check_tokens(held, computed)
        if self.mode is PrefixCache.HASH:
            names = self._names(held.names, computed)
            register_full(self._pool, held.table[held.hits : full], names[held.hits : full])
        return set()

    def _check_tokens(self, held: _Sequence, computed: Sequence[int]) -> None:
        """ValueError for a token out of range, as the tree raises it. The prompt's were checked on admission."""
        prompt = len(held.prompt)
        pack_tokens(computed[prompt:] if computed[:prompt] == held.prompt else computed)

    def _names(self, known: list[int], computed: Sequence[int]) -> list[int]:
        """The names of all full blocks: the prompt's are known since it was admitted, the rest follow from them."""
        rest = computed[len(known) * self._size :]
        if len(rest) < self._size:
            return known
        return known + name_blocks(self._pool, kv_block_hash, rest, known[-1] if known else 0)

    def _give_back(self, held: _Sequence, blocks: Sequence[BlockId]) -> None:
        """The tail first, so that pressure shortens a cached prefix from its end: without a head it can't hit."""
        if self._radix is not None:
            self._radix.unlock(held.node)
        release_all(self._pool, blocks[::-1])

    def _held(self, seq: SeqId) -> _Sequence:
        if seq not in self._sequences:
            raise KeyError(f"sequence {seq!r} holds no blocks here")
        return self._sequences[seq]

"""L10.4 · The block manager: admits prompts, reuses the blocks of prefixes it has seen, gives all back.

It knows sequences, their block tables and which of three caches finds a prefix again. It does not
know what runs on the blocks: a scheduler asks for room and says at the end which tokens were computed.

The three modes part in two places: how a prompt's hits are found, and how full blocks are kept at the
end. Everything else is the same for all: the tree of a mode that stores nothing in it is empty, and the
pool of a mode that names no block has none cached, so a sum over both needs no question about the mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from course import contract
from course.contract import ROOT, Allocation, BlockId, BlockStats, NodeId, PrefixCache, Publish, SeqId
from course.many import lookup_prefix, name_blocks, register_full, release_all, retain_all
from course.modules import RadixCache, kv_block_hash
from course.tokens import pack_tokens


@dataclass(slots=True)
class _Sequence:
    """What one admitted prompt holds: a reference on each block of `table`, the first `hits` of them found in a cache.

    It is made with its hits alone in the table. `slots` are the positions that it has room for; `names` (hash)
    are those of the prompt's full blocks, `node` (radix) is the one that is locked for it. The first `published`
    blocks of the table were offered to a cache already: the hits, and what `publish` was called for.
    """

    prompt: list[int]
    table: list[BlockId]
    names: list[int] = field(default_factory=list)
    node: NodeId = ROOT
    hits: int = field(init=False)
    slots: int = field(init=False)
    published: int = field(init=False)

    def __post_init__(self) -> None:
        self.hits = self.published = len(self.table)
        self.slots = len(self.prompt)


class BlockManager:
    """A `BlockSpace` over a pool with a prefix cache: none, hash or radix (contract: `BlockManager`).

    With `publish="prefill"` blocks can be found again as soon as they are computed, not when their request ends.
    """

    def __init__(self, pool: contract.KvPool, mode: PrefixCache, publish: Publish = "release") -> None:
        if publish not in ("release", "prefill"):
            raise ValueError(f"publish is release or prefill, not {publish!r}")
        self.mode = PrefixCache(mode)
        self._publishes_early = publish == "prefill"
        self._pool = pool
        self._size = pool.block_size
        self._radix = RadixCache(pool.block_size)
        self._sequences: dict[SeqId, _Sequence] = {}
        self._lookups = self._query_tokens = self._hit_tokens = 0
        self._evictions_before = pool.evictions

    # ------------------------------------------------------------ counts

    @property
    def available_blocks(self) -> int:
        """Blocks that a request could get now: free, plus what could be evicted."""
        return self._pool.n_free + self._pool.n_cached + self._radix.evictable_blocks

    @property
    def cached_blocks(self) -> int:
        """Blocks that hold reusable content, in use or not."""
        return self._pool.n_named + self._radix.cached_blocks

    @property
    def stats(self) -> BlockStats:
        """Counters over admitted prompts; a refused attempt counts nothing."""
        evictions = self._pool.evictions - self._evictions_before + self._radix.stats.evicted_blocks
        return BlockStats(self._lookups, self._query_tokens, self._hit_tokens, evictions)

    @property
    def hit_rate(self) -> float:
        """Hit tokens over query tokens; 0.0 before the first prompt (section 4)."""
        return self._hit_tokens / self._query_tokens if self._query_tokens else 0.0

    def block_table(self, seq: SeqId) -> list[BlockId]:
        """The sequence's blocks, in the order of its positions. Raises KeyError for an unknown sequence."""
        return list(self._held(seq).table)

    def _held(self, seq: SeqId) -> _Sequence:
        """What a sequence holds. Raises KeyError for one that holds nothing here."""
        if seq not in self._sequences:
            raise KeyError(f"sequence {seq!r} holds no blocks here")
        return self._sequences[seq]

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
        self._sequences[seq] = new
        self._lookups += 1
        self._query_tokens += len(tokens)
        self._hit_tokens += new.hits * self._size
        return Allocation(new.hits * self._size, tuple(new.table))

    def _blocks_for(self, positions: int) -> int:
        """How many blocks hold so many positions, the last one perhaps in part (section 2.2)."""
        return -(-positions // self._size)

    def _find_hits(self, tokens: Sequence[int]) -> _Sequence:
        """The prompt with its cached prefix, a reference taken on each block of it; none in mode none."""
        if self.mode is PrefixCache.HASH:
            return self._find_by_name(tokens)
        if self.mode is PrefixCache.RADIX:
            return self._find_by_path(tokens)
        pack_tokens(tokens)  # for its check, as the other modes do on their way
        return _Sequence(list(tokens), [])

    def _take_fresh(self, n: int) -> list[BlockId] | None:
        """n blocks, evicting from the tree what free and cached ones are short of; None if they can't be had."""
        if n > self.available_blocks:
            return None
        short = n - self._pool.n_free - self._pool.n_cached
        if short > 0:
            self._evict(short)
        return self._pool.alloc(n)

    def _give_back(self, held: _Sequence, blocks: Sequence[BlockId]) -> None:
        """The tail first, so that pressure shortens a cached prefix from its end: without a head it can't hit."""
        self._radix.unlock(held.node)
        release_all(self._pool, blocks[::-1])

    # ------------------------------------------------------------ growth and the end

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
        self._check_slots(seq, held, computed)
        kept = self._keep(held, computed)
        del self._sequences[seq]
        self._give_back(held, [block for block in held.table if block not in kept] if kept else held.table)

    def _keep(self, held: _Sequence, computed: Sequence[int]) -> set[BlockId]:
        """Make the full computed blocks findable; those whose reference a cache keeps are returned."""
        if self.mode is PrefixCache.RADIX:
            return self._keep_by_path(held, computed)
        self._check_tokens(held, computed)
        if self.mode is PrefixCache.HASH:
            self._keep_by_name(held, computed)
        return set()

    def _check_slots(self, seq: SeqId, held: _Sequence, computed: Sequence[int]) -> None:
        """ValueError for more computed tokens than the sequence has slots."""
        if len(computed) > held.slots:
            raise ValueError(f"{len(computed)} tokens computed, but sequence {seq!r} has {held.slots} slots")

    def _check_tokens(self, held: _Sequence, computed: Sequence[int]) -> None:
        """ValueError for a token out of range, as the tree raises it. The prompt's were checked on admission."""
        prompt = len(held.prompt)
        pack_tokens(computed[prompt:] if computed[:prompt] == held.prompt else computed)

    # ------------------------------------------------------------ publishing early

    def publish(self, seq: SeqId, computed: Sequence[int]) -> None:
        """Make the full computed blocks findable while their request goes on, if this manager does so at all.

        Blocks whose content another request published first stay in this request's own table until it ends.

        Args:
            seq: a sequence that goes on.
            computed: the ids whose K and V are written, in table order, beginning with the prompt's.

        Raises:
            KeyError: an unknown sequence.
            ValueError: more tokens than the sequence has slots, or one out of range in what is published.
        """
        held = self._held(seq)
        self._check_slots(seq, held, computed)
        full = len(computed) // self._size
        if not self._publishes_early or full <= held.published:
            return
        self._check_tokens(held, computed)
        if self.mode is PrefixCache.HASH:
            self._publish_by_name(held, computed)
        if self.mode is PrefixCache.RADIX:
            self._publish_by_path(held, computed)

    def _publish_by_name(self, held: _Sequence, computed: Sequence[int]) -> None:
        """Name the new full blocks. One whose name is taken stays unnamed; `release` tries once more."""
        full = len(computed) // self._size
        held.names = self._names(held.names, computed)
        register_full(self._pool, held.table[held.published : full], held.names[held.published : full])
        held.published = full

    def _publish_by_path(self, held: _Sequence, computed: Sequence[int]) -> None:
        """Store the new full blocks, with a reference of the cache's own on each, and lock the path that they end.

        If the first of them is a twin's already, nothing is stored: below the twin's path the request would have to
        lock blocks that it does not use beside its own copies, and a pool that holds one copy may not hold two. If
        it is not, no other can be: a path has no gaps.
        """
        first, full = held.published, len(computed) // self._size
        tried = self._radix.insert(computed[: (first + 1) * self._size], held.table[: first + 1])
        if held.table[first] in tried.duplicates:
            return
        inserted = tried if full == first + 1 else self._radix.insert(computed, held.table[:full])
        retain_all(self._pool, held.table[first:full])
        self._radix.lock(inserted.node)
        self._radix.unlock(held.node)
        held.node, held.published = inserted.node, full

    # ------------------------------------------------------------ mode hash

    def _usable_blocks(self, n: int) -> int:
        """How many blocks of an n-token prompt may be reused: its last token is always computed (section 2.1)."""
        return (n - 1) // self._size

    def _find_by_name(self, tokens: Sequence[int]) -> _Sequence:
        """Look the prompt's blocks up by name, front to back, until the first miss (section 2.2)."""
        names = self._names([], tokens)
        hits = lookup_prefix(self._pool, names[: self._usable_blocks(len(tokens))])
        return _Sequence(list(tokens), hits, names)

    def _keep_by_name(self, held: _Sequence, computed: Sequence[int]) -> None:
        """Fill and name the full computed blocks that have no name yet (section 2.2)."""
        full = len(computed) // self._size
        names = self._names(held.names, computed)
        register_full(self._pool, held.table[held.hits : full], names[held.hits : full])

    def _names(self, known: list[int], computed: Sequence[int]) -> list[int]:
        """The names of all full blocks: the prompt's are known since it was admitted, the rest follow from them."""
        rest = computed[len(known) * self._size :]
        return known + name_blocks(self._pool, kv_block_hash, rest, known[-1] if known else 0)

    # ------------------------------------------------------------ mode radix

    def _find_by_path(self, tokens: Sequence[int]) -> _Sequence:
        """Match the prompt, take a reference on each matched block, lock the node it ends at (section 2.2)."""
        match = self._radix.match_prefix(tokens)
        retain_all(self._pool, match.blocks)
        self._radix.lock(match.node)
        return _Sequence(list(tokens), list(match.blocks), node=match.node)

    def _keep_by_path(self, held: _Sequence, computed: Sequence[int]) -> set[BlockId]:
        """Insert the full computed blocks; the cache keeps the request's reference on those that it newly stores."""
        full = len(computed) // self._size
        duplicates = self._radix.insert(computed, held.table[:full]).duplicates
        return set(held.table[held.published : full]).difference(duplicates)

    def _evict(self, n: int) -> None:
        """Free n blocks of the tree, or a few more: the cache's reference on each goes (section 2.2)."""
        release_all(self._pool, self._radix.evict(n))

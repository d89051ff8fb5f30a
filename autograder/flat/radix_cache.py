"""The flat model of the radix prefix cache (L8.4): the block rules and the counters over any radix tree.

It knows whole blocks, the last prompt token and who keeps a block that was computed twice. How prefixes are
stored and which leaf goes first is the tree's business; what the block ids name, it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from course.contract import BlockId, Inserted, NodeId, PrefixMatch, PrefixStats
from course.contract import RadixTree as Tree
from course.modules import RadixTree
from course.tokens import pack_tokens, unpack_tokens


class RadixCache:
    """The block-granular prefix cache over a radix tree (L8.4)."""

    def __init__(self, block_size: int) -> None:
        """An empty cache. Raises ValueError for a block size below 1."""
        if block_size < 1:
            raise ValueError(f"block size {block_size}: it must be 1 or more")
        self._block_size = block_size
        self._tree = RadixTree(block_size)
        self._stats = PrefixStats()

    @property
    def block_size(self) -> int:
        """Tokens in a block (B)."""
        return self._block_size

    @property
    def cached_tokens(self) -> int:
        """Tokens in the cache: B for each block."""
        return self._tree.n_values * self._block_size

    @property
    def cached_blocks(self) -> int:
        """Blocks in the cache."""
        return self._tree.n_values

    @property
    def evictable_blocks(self) -> int:
        """Blocks that `evict` could give back now: those that no lock pins."""
        return self._tree.n_evictable

    @property
    def stats(self) -> PrefixStats:
        """The counters, over every call so far (L8.4, section 2)."""
        return self._stats

    @property
    def hit_rate(self) -> float:
        """Hit tokens over query tokens; 0.0 before the first lookup."""
        if self._stats.query_tokens == 0:
            return 0.0
        return self._stats.hit_tokens / self._stats.query_tokens

    @property
    def tree(self) -> Tree:
        """The tree underneath, one block id for each granule of B tokens."""
        return self._tree

    def match_prefix(self, tokens: Sequence[int]) -> PrefixMatch:
        """The longest cached prefix of a prompt: at most (n - 1) // B * B tokens (L8.4, section 2)."""
        plain = unpack_tokens(pack_tokens(tokens))
        usable = (len(plain) - 1) // self._block_size * self._block_size if plain else 0
        match = self._tree.match_prefix(plain[:usable])
        self._count(lookups=1, query_tokens=len(plain), hit_tokens=match.n_tokens)
        return PrefixMatch(match.n_tokens, tuple(match.values), match.node)

    def insert(self, tokens: Sequence[int], blocks: Sequence[BlockId]) -> Inserted:
        """Store the full blocks of a run. Raises ValueError unless `len(blocks) == len(tokens) // B`."""
        plain = unpack_tokens(pack_tokens(tokens))
        full = len(plain) // self._block_size
        if len(blocks) != full:
            raise ValueError(f"{len(blocks)} blocks for {len(plain)} tokens: they fill {full} of {self._block_size}")
        insertion = self._tree.insert(plain[: full * self._block_size], blocks)
        kept = insertion.present
        self._count(inserted_blocks=full - len(kept))
        duplicates = [blocks[place] for place in range(len(kept)) if blocks[place] != kept[place]]
        return Inserted(insertion.node, tuple(duplicates))

    def lock(self, node: NodeId) -> None:
        """Pin the prefix that ends at this node while a request reads it."""
        self._tree.lock(node)

    def unlock(self, node: NodeId) -> None:
        """Undo one lock."""
        self._tree.unlock(node)

    def evict(self, n_blocks: int) -> list[BlockId]:
        """Free at least n blocks if it can: whole unlocked leaves, least recently used first."""
        if n_blocks < 0:
            raise ValueError(f"{n_blocks} blocks to evict: an amount is 0 or more")
        out = list(self._tree.evict(n_blocks))
        self._count(evicted_blocks=len(out))
        return out

    def _count(
        self,
        lookups: int = 0,
        query_tokens: int = 0,
        hit_tokens: int = 0,
        inserted_blocks: int = 0,
        evicted_blocks: int = 0,
    ) -> None:
        more = (lookups, query_tokens, hit_tokens, inserted_blocks, evicted_blocks)
        self._stats = PrefixStats(*(old + new for old, new in zip(astuple(self._stats), more, strict=True)))

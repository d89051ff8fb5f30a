"""L8.4 · The radix prefix cache: which KV blocks already hold the beginning of this prompt.

It knows the rules that a serving engine needs on top of a radix tree: whole blocks only, the last
token is always computed, one owner for each stored block, and the counters. It does not know which
blocks are free or who holds one: it hands ids back, and the block manager gives them to the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from course.contract import BlockId, Inserted, NodeId, PrefixMatch, PrefixStats
from course.modules import RadixTree
from course.tokens import pack_tokens


class RadixCache:
    """A radix tree at granule B that maps token runs to block ids (contract: `RadixCache`)."""

    def __init__(self, block_size: int) -> None:
        if block_size < 1:
            raise ValueError(f"a block has at least 1 token, not {block_size}")
        self.block_size = block_size
        self.tree = RadixTree(block_size)
        self.stats = PrefixStats()

    # ------------------------------------------------------------ counts

    @property
    def cached_blocks(self) -> int:
        """Blocks in the cache."""
        return self.tree.n_values

    @property
    def cached_tokens(self) -> int:
        """Tokens in the cache: B for each block."""
        return self.cached_blocks * self.block_size

    @property
    def evictable_blocks(self) -> int:
        """Blocks that no lock pins."""
        return self.tree.n_evictable

    @property
    def hit_rate(self) -> float:
        """Hit tokens over query tokens, over every lookup; 0.0 before the first (section 2)."""
        return self.stats.hit_tokens / self.stats.query_tokens if self.stats.query_tokens else 0.0

    # ------------------------------------------------------------ lookups

    def match_prefix(self, tokens: Sequence[int]) -> PrefixMatch:
        """The longest cached prefix, at most `usable_tokens` long, and the node to lock.

        Raises:
            ValueError: a token out of range.
        """
        usable = self.usable_tokens(len(tokens))
        pack_tokens(tokens[usable:], usable)  # the tree checks the tokens it is given, and these it never sees
        match = self.tree.match_prefix(tokens[:usable])
        self.stats = replace(
            self.stats,
            lookups=self.stats.lookups + 1,
            query_tokens=self.stats.query_tokens + len(tokens),
            hit_tokens=self.stats.hit_tokens + match.n_tokens,
        )
        return PrefixMatch(match.n_tokens, match.values, match.node)

    def usable_tokens(self, n: int) -> int:
        """How much of an n-token prompt may be reused: the model must run on its last token (section 2)."""
        return max(n - 1, 0) // self.block_size * self.block_size

    # ------------------------------------------------------------ storing

    def insert(self, tokens: Sequence[int], blocks: Sequence[BlockId]) -> Inserted:
        """Store the full blocks of a run. The first owner of a position keeps it (section 2).

        Returns:
            The node where the run ends, and as `duplicates` the blocks that the tree did not take
            because it holds another block there.

        Raises:
            ValueError: not one block for each full block of tokens, or a token out of range.
        """
        full = len(tokens) // self.block_size
        if len(blocks) != full:
            raise ValueError(f"{len(tokens)} tokens fill {full} blocks of {self.block_size}, not {len(blocks)}")
        pack_tokens(tokens[full * self.block_size :])
        insertion = self.tree.insert(tokens[: full * self.block_size], blocks)
        present = insertion.present
        self.stats = replace(self.stats, inserted_blocks=self.stats.inserted_blocks + full - len(present))
        duplicates = [block for block, kept in zip(blocks, present, strict=False) if block != kept]
        return Inserted(insertion.node, tuple(duplicates))

    # ------------------------------------------------------------ locks and eviction

    def lock(self, node: NodeId) -> None:
        """Pin the prefix that ends at this node while a request reads it (section 2)."""
        self.tree.lock(node)

    def unlock(self, node: NodeId) -> None:
        """Undo one lock, when the request ends."""
        self.tree.unlock(node)

    def evict(self, n_blocks: int) -> list[BlockId]:
        """Free at least n blocks if it can: whole unlocked leaves, least recently used first (section 2)."""
        evicted = self.tree.evict(n_blocks)
        self.stats = replace(self.stats, evicted_blocks=self.stats.evicted_blocks + len(evicted))
        return evicted

"""Calls over many blocks at once, for whoever works with whole tables.

The contract asks a pool for single calls only. A pool may offer the calls over many blocks as well,
and these functions use them where it does and the single calls where it doesn't. Either way the
same blocks end in the same states; what a block holds, this file does not know.
"""

from __future__ import annotations

from collections.abc import Sequence

from course.contract import BlockId, KvBlockHash, KvPool
from course.tokens import pack_tokens


def name_blocks(pool: KvPool, block_hash: KvBlockHash, tokens: Sequence[int], parent: int = 0) -> list[int]:
    """The chained names of a run's full blocks, the first one's parent being `parent` (L10.4, section 2.1).

    `block_hash` names one block, for a pool that can't name many. Raises ValueError for a token out of
    range, also in the partial block at the end, which gets no name.
    """
    if own := getattr(pool, "name_blocks", None):
        return list(own(tokens, parent))
    pack_tokens(tokens)
    names = []
    size = pool.block_size
    for start in range(0, len(tokens) // size * size, size):
        parent = block_hash(parent, tokens[start : start + size])
        names.append(parent)
    return names


def lookup_prefix(pool: KvPool, names: Sequence[int]) -> list[BlockId]:
    """`lookup` each name until the first miss: the blocks found, a reference taken on each."""
    if own := getattr(pool, "lookup_prefix", None):
        return list(own(names))
    hits: list[BlockId] = []
    for name in names:
        block = pool.lookup(name)
        if block is None:
            break
        hits.append(block)
    return hits


def retain_all(pool: KvPool, blocks: Sequence[BlockId]) -> None:
    """`retain` each block."""
    if own := getattr(pool, "retain_many", None):
        own(blocks)
        return
    for block in blocks:
        pool.retain(block)


def register_full(pool: KvPool, blocks: Sequence[BlockId], names: Sequence[int]) -> None:
    """Fill and name these used blocks. A name that is taken stays with its holder, and a block with its own name."""
    if own := getattr(pool, "register_full", None):
        own(blocks, names)
        return
    for block, name in zip(blocks, names, strict=True):
        if pool.find(name) != block:
            pool.set_fill(block, pool.block_size)
            pool.register(block, name)


def release_all(pool: KvPool, blocks: Sequence[BlockId]) -> None:
    """`release` each block, in this order: of two cached blocks, the one released first is evicted first."""
    if own := getattr(pool, "release_many", None):
        own(blocks)
        return
    for block in blocks:
        pool.release(block)

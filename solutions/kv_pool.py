"""L10.1 · The KV block pool: who holds which block, what a full block is called, what is evicted first.

It knows blocks by number and names by value. It does not know what a block contains, which sequence
holds it, or why: references are counted, never attributed.

A block is free (rho 0, unnamed), used (rho >= 1) or cached (rho 0, named). Each state has its own
structure, so that no call ever searches the pool: a stack of free blocks, reference counts, and an
ordered dict of cached blocks with the least recently used one in front.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence

from fnv_c import lib as compiled

from course.contract import BlockId, BlockStateError, PoolExhausted
from course.tokens import pack_tokens

FNV_OFFSET = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3
U64 = 2**64 - 1

UNNAMED = -1
"""Stands for "no name": a name is a hash, and a hash is never negative."""


def fnv1a_64(data: bytes) -> int:
    """FNV-1a, 64 bits wide: exclusive-or each byte in, then multiply.

    This is the definition. `kv_block_hash` calls the same function compiled (the package fnv-c),
    because 72 multiplications in Python cost more than everything else done for a block.
    """
    value = FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * FNV_PRIME) & U64
    return value


def kv_block_hash(parent: int, tokens: Sequence[int]) -> int:
    """The name of a full block: its tokens and, through the parent's name, all before it (L10.4, section 2.1).

    Args:
        parent: the name of the block before, 0 for the first.
        tokens: the block's token ids.

    Raises:
        ValueError: a token outside 0 to 2**32 - 1, or a parent outside 0 to 2**64 - 1.
    """
    _check_parent(parent)
    data = parent.to_bytes(8, "little") + pack_tokens(tokens)
    name: int = compiled.fnv1a_64(data, len(data))
    return name or 1


def _check_parent(parent: int) -> None:
    """ValueError for a parent outside 0 to 2**64 - 1."""
    if not 0 <= parent <= U64:
        raise ValueError(f"parent {parent} is out of range: 0 to 2**64 - 1")


class KvPool:
    """`n_blocks` blocks of `block_size` positions, reference counted, with a prefix index (contract: `KvPool`)."""

    def __init__(self, n_blocks: int, block_size: int) -> None:
        if n_blocks < 1 or block_size < 1:
            raise ValueError(f"a pool needs at least 1 block of 1 position, not {n_blocks} of {block_size}")
        self.n_blocks = n_blocks
        self.block_size = block_size
        self.evictions = 0
        self._refs = [0] * n_blocks
        self._fill = [0] * n_blocks
        self._name = [UNNAMED] * n_blocks
        self._by_name: dict[int, BlockId] = {}
        self._free = list(reversed(range(n_blocks)))  # a stack: its end is handed out first
        self._cached: OrderedDict[BlockId, None] = OrderedDict()

    # ------------------------------------------------------------ counts

    @property
    def n_free(self) -> int:
        """Blocks that hold nothing."""
        return len(self._free)

    @property
    def n_cached(self) -> int:
        """Named blocks that nobody holds."""
        return len(self._cached)

    @property
    def n_used(self) -> int:
        """Blocks with a reference on them."""
        return self.n_blocks - self.n_free - self.n_cached

    @property
    def n_named(self) -> int:
        """Blocks with a name, used or cached."""
        return len(self._by_name)

    def fill(self, block: BlockId) -> int:
        """Positions written in the block."""
        return self._fill[self._checked(block)]

    def refcount(self, block: BlockId) -> int:
        """The block's rho."""
        return self._refs[self._checked(block)]

    # ------------------------------------------------------------ references

    def alloc(self, n: int) -> list[BlockId]:
        """n blocks at rho 1 and fill 0: free ones, then the least recently used cached ones (L10.4, section 2.2).

        Raises:
            PoolExhausted: fewer than n are free or cached; then none is handed out.
            ValueError: n is negative.
        """
        if n < 0:
            raise ValueError(f"can't hand out {n} blocks")
        if n > self.n_free + self.n_cached:
            raise PoolExhausted(n, self.n_free + self.n_cached)
        left = max(self.n_free - n, 0)
        blocks = self._free[left:][::-1]
        del self._free[left:]
        if len(blocks) < n:
            blocks += self._evict(n - len(blocks))
        for block in blocks:
            self._refs[block] = 1
        return blocks

    def _evict(self, n: int) -> list[BlockId]:
        """Take the n least recently used cached blocks, and their names from them."""
        blocks = [self._cached.popitem(last=False)[0] for _ in range(n)]
        for block in blocks:
            del self._by_name[self._name[block]]
            self._name[block] = UNNAMED
            self._fill[block] = 0
        self.evictions += n
        return blocks

    def retain(self, block: BlockId) -> None:
        """One more reference on a block that is used or cached; BlockStateError for a free one."""
        if self._refs[self._checked(block)] == 0:
            if block not in self._cached:
                raise BlockStateError(f"block {block} is free: nothing to retain")
            del self._cached[block]
        self._refs[block] += 1

    def release(self, block: BlockId) -> None:
        """One reference back; the last one makes a named block cached and another free (L10.4, section 2.2)."""
        if self._refs[self._checked(block)] == 0:
            raise BlockStateError(f"block {block} has no reference to give back")
        self._refs[block] -= 1
        if self._refs[block] == 0:
            self._retire(block)

    def _retire(self, block: BlockId) -> None:
        """Nobody holds the block any more: keep it if it can be found again, else forget what it held."""
        if self._name[block] != UNNAMED:
            self._cached[block] = None
        else:
            self._fill[block] = 0
            self._free.append(block)

    # ------------------------------------------------------------ names

    def set_fill(self, block: BlockId, n: int) -> None:
        """n positions of a used, unnamed block are written. A named block is shared: it never changes."""
        self._used(block)
        if self._name[block] != UNNAMED:
            raise BlockStateError(f"block {block} has a name: its fill can't change")
        if not 0 <= n <= self.block_size:
            raise BlockStateError(f"a fill of {n} is outside 0 to {self.block_size}")
        self._fill[block] = n

    def register(self, block: BlockId, name: int) -> bool:
        """Name a used block; False if it isn't full, has a name, or the name is taken (L10.4, section 2.2)."""
        self._used(block)
        if self._fill[block] != self.block_size or self._name[block] != UNNAMED or name in self._by_name:
            return False
        self._name[block] = name
        self._by_name[name] = block
        return True

    def find(self, name: int) -> BlockId | None:
        """The block of this name, without taking a reference."""
        return self._by_name.get(name)

    def lookup(self, name: int) -> BlockId | None:
        """The block of this name, with a reference taken: a cached block is used again (L10.4, section 2.2)."""
        block = self._by_name.get(name)
        if block is not None:
            self.retain(block)
        return block

    # ------------------------------------------------------------ checks

    def _checked(self, block: BlockId) -> BlockId:
        """The block itself; BlockStateError for an id that the pool does not have."""
        if not 0 <= block < self.n_blocks:
            raise BlockStateError(f"block {block} is not in this pool: 0 to {self.n_blocks - 1}")
        return block

    def _used(self, block: BlockId) -> None:
        """BlockStateError for a block that nobody holds, or that the pool does not have."""
        if self._refs[self._checked(block)] == 0:
            raise BlockStateError(f"block {block} is not in use")

    # ------------------------------------------------------------ many blocks at once
    #
    # The rules above for a whole table in one call: the functions of `course.many` use these where a pool
    # has them, and the single calls where it hasn't. For each block a Python call costs more than its work,
    # so the checks run over the whole table first, and the loops touch plain lists and dicts.

    def name_blocks(self, tokens: Sequence[int], parent: int = 0) -> list[int]:
        """The chained names of a run's full blocks: `kv_block_hash` of each, the first one's parent given."""
        content, named_by = struct.Struct(f"{4 * self.block_size}s"), struct.Struct(f"<Q{4 * self.block_size}s")
        pack, fnv1a_64 = named_by.pack, compiled.fnv1a_64
        packed = pack_tokens(tokens)
        _check_parent(parent)
        whole = len(packed) // content.size * content.size
        names = []
        for (block,) in content.iter_unpack(packed[:whole]):
            parent = fnv1a_64(pack(parent, block), named_by.size) or 1
            names.append(parent)
        return names

    def lookup_prefix(self, names: Sequence[int]) -> list[BlockId]:
        """`lookup` front to back until the first miss: the blocks found, a reference taken on each."""
        refs, cached = self._refs, self._cached
        hits: list[BlockId] = []
        for block in map(self._by_name.get, names):
            if block is None:
                break
            if not refs[block]:
                del cached[block]
            refs[block] += 1
            hits.append(block)
        return hits

    def retain_many(self, blocks: Sequence[BlockId]) -> None:
        """`retain` for each of these blocks; if one can't be retained, none is."""
        if not self._are_used(blocks):
            for block in blocks:
                if not self._refs[self._checked(block)] and block not in self._cached:
                    raise BlockStateError(f"block {block} is free: nothing to retain")
        refs, cached = self._refs, self._cached
        for block in blocks:
            if not refs[block]:
                del cached[block]
            refs[block] += 1

    def register_full(self, blocks: Sequence[BlockId], names: Sequence[int]) -> None:
        """`set_fill` to B and `register` for each of these used blocks that has no name yet."""
        self._must_be_used(blocks)
        if len(names) != len(blocks):
            raise ValueError(f"{len(names)} names for {len(blocks)} blocks")
        size, fill, name_of, by_name = self.block_size, self._fill, self._name, self._by_name
        for block, name in zip(blocks, names, strict=True):
            if name_of[block] == UNNAMED:
                fill[block] = size
                if name not in by_name:
                    name_of[block] = name
                    by_name[name] = block

    def release_many(self, blocks: Sequence[BlockId]) -> None:
        """`release` for each of these distinct blocks, in their order; if one can't be released, none is."""
        self._must_be_used(blocks)
        if len(set(blocks)) < len(blocks):
            raise BlockStateError("a block is named twice: give each reference back in a call of its own")
        refs, names, fill, free, cached = self._refs, self._name, self._fill, self._free, self._cached
        for block in blocks:
            left = refs[block] = refs[block] - 1
            if not left:
                if names[block] != UNNAMED:
                    cached[block] = None
                else:
                    fill[block] = 0
                    free.append(block)

    def _are_used(self, blocks: Sequence[BlockId]) -> bool:
        try:
            return not blocks or (min(blocks) >= 0 and 0 not in map(self._refs.__getitem__, blocks))
        except IndexError:
            return False

    def _must_be_used(self, blocks: Sequence[BlockId]) -> None:
        if not self._are_used(blocks):
            for block in blocks:
                self._used(block)

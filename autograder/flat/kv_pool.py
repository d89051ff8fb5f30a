"""The flat model of the KV block pool (L10.1): three lists indexed by block, and scans over them.

It knows each block's references, fill and name, and in which order the cached ones were given back.
It does not know whose the references are, or what a name stands for.
"""

from __future__ import annotations

from collections.abc import Sequence

from course.contract import BlockId, BlockStateError, PoolExhausted
from course.tokens import pack_tokens, unpack_tokens

FNV_START = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3


def kv_block_hash(parent: int, tokens: Sequence[int]) -> int:
    """The name of a full block, byte by byte (L10.4, section 2.1).

    FNV-1a 64 over `parent` as 8 little-endian bytes, then each token id as 4; a result of 0 becomes 1.
    Raises ValueError for a token or a parent out of range.
    """
    if not 0 <= parent < 2**64:
        raise ValueError(f"parent {parent} is out of range: 0 to 2**64 - 1")
    data = parent.to_bytes(8, "little")
    for token in unpack_tokens(pack_tokens(tokens)):
        data += token.to_bytes(4, "little")
    name = FNV_START
    for byte in data:
        name = (name ^ byte) * FNV_PRIME % 2**64
    return name or 1


class KvPool:
    """A pool of KV blocks: free (rho 0, unnamed), used (rho >= 1) or cached (rho 0, named) (L10.1)."""

    def __init__(self, n_blocks: int, block_size: int) -> None:
        """All blocks free. Raises ValueError for a size below 1."""
        if n_blocks < 1 or block_size < 1:
            raise ValueError(f"{n_blocks} blocks of {block_size}: a pool needs 1 or more of each")
        self._n_blocks = n_blocks
        self._block_size = block_size
        self._rho = [0] * n_blocks
        self._fill = [0] * n_blocks
        self._name: list[int | None] = [None] * n_blocks
        self._cached: list[BlockId] = []  # least recently used first
        self._evictions = 0

    @property
    def n_blocks(self) -> int:
        """Blocks in the pool, whatever their state."""
        return self._n_blocks

    @property
    def block_size(self) -> int:
        """Token positions in a block (B)."""
        return self._block_size

    @property
    def n_free(self) -> int:
        """Blocks that hold nothing."""
        return len(self._free())

    @property
    def n_used(self) -> int:
        """Blocks that somebody holds a reference on."""
        return sum(rho > 0 for rho in self._rho)

    @property
    def n_cached(self) -> int:
        """Blocks that nobody holds, kept because they have a name."""
        return len(self._cached)

    @property
    def n_named(self) -> int:
        """Blocks that have a name, used or cached."""
        return sum(name is not None for name in self._name)

    @property
    def evictions(self) -> int:
        """Cached blocks handed out anew since the pool was made."""
        return self._evictions

    def alloc(self, n: int) -> list[BlockId]:
        """Hand out n blocks at rho 1 and fill 0: free ones first, then cached ones, least recently used first.

        Raises PoolExhausted if it can't give all n, ValueError if n is negative.
        """
        if n < 0:
            raise ValueError(f"{n} blocks asked for: an amount is 0 or more")
        spare = self._free() + self._cached
        if n > len(spare):
            raise PoolExhausted(n, len(spare))
        taken = spare[:n]
        for block in taken:
            self._hand_out(block)
        return taken

    def retain(self, block: BlockId) -> None:
        """Take one more reference; a cached block becomes used. Raises BlockStateError for a free block."""
        self._check(block)
        if block in self._free():
            raise BlockStateError(f"block {block} is free: there is nothing to retain")
        if block in self._cached:
            self._cached.remove(block)
        self._rho[block] += 1

    def release(self, block: BlockId) -> None:
        """Give one reference back; at rho 0 a named block becomes cached, most recently used, another free.

        Raises BlockStateError if there is no reference to give back.
        """
        self._check_used(block)
        self._rho[block] -= 1
        if self._rho[block] > 0:
            return
        if self._name[block] is None:
            self._fill[block] = 0
        else:
            self._cached.append(block)

    def set_fill(self, block: BlockId, n: int) -> None:
        """Say that n positions are written, 0 <= n <= B, of a used block without a name; else BlockStateError."""
        self._check_used(block)
        if self._name[block] is not None:
            raise BlockStateError(f"block {block} has a name: its content no longer changes")
        if not 0 <= n <= self._block_size:
            raise BlockStateError(f"fill {n} of block {block}: a block has {self._block_size} positions")
        self._fill[block] = n

    def fill(self, block: BlockId) -> int:
        """How many positions of the block are written."""
        self._check(block)
        return self._fill[block]

    def refcount(self, block: BlockId) -> int:
        """The block's rho."""
        self._check(block)
        return self._rho[block]

    def register(self, block: BlockId, name: int) -> bool:
        """Name a used block (else BlockStateError); False if it isn't full, has a name, or the name is taken."""
        self._check_used(block)
        if self._fill[block] < self._block_size or self._name[block] is not None or name in self._name:
            return False
        self._name[block] = name
        return True

    def lookup(self, name: int) -> BlockId | None:
        """The block of this name, with a reference taken for the caller; None if there is none."""
        block = self.find(name)
        if block is not None:
            self.retain(block)
        return block

    def find(self, name: int) -> BlockId | None:
        """The block of this name, and no reference taken; None if there is none."""
        return next((block for block, held in enumerate(self._name) if held is not None and held == name), None)

    def _free(self) -> list[BlockId]:
        return [block for block in range(self._n_blocks) if self._rho[block] == 0 and self._name[block] is None]

    def _hand_out(self, block: BlockId) -> None:
        if block in self._cached:
            self._cached.remove(block)
            self._name[block] = None
            self._evictions += 1
        self._rho[block] = 1
        self._fill[block] = 0

    def _check(self, block: BlockId) -> None:
        if block not in range(self._n_blocks):
            raise BlockStateError(f"no block {block}: the pool has 0 to {self._n_blocks - 1}")

    def _check_used(self, block: BlockId) -> None:
        self._check(block)
        if self._rho[block] == 0:
            raise BlockStateError(f"nobody holds a reference on block {block}")

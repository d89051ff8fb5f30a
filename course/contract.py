"""The contract: every type, protocol and exception that the four modules share.

It knows what each call takes, gives back and may change. It does not know how any of it is done:
no implementation lives here, and nothing here imports one.

Words used throughout: a *block* holds the K and V of `block_size` (B) token positions; rho is a
block's reference count; a *granule* is the run of tokens that a radix tree never splits.
Sources: chapter L8.4 (radix prefix cache) and chapter L10.4 (block manager, with the pool's rules of L10.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Literal, Protocol

BlockId = int
"""A block's number in its pool, 0 to n_blocks - 1."""

SeqId = int | str
"""A sequence's name, chosen by whoever allocates for it."""

NodeId = Any
"""A node of a radix tree: opaque. Give it back to the tree that handed it out; look no further."""

ROOT: NodeId = 0
"""The root of every radix tree. It holds no tokens, can't be evicted, and locking it does nothing."""


# ---------------------------------------------------------------- errors


class PoolExhausted(Exception):
    """A pool can't give all the blocks asked for, and gave none (L10.1).

    Attributes:
        needed: how many blocks were asked for.
        available: how many there were, free and cached together.
    """

    def __init__(self, needed: int, available: int) -> None:
        super().__init__(f"{needed} blocks needed, {available} available")
        self.needed = needed
        self.available = available


class BlockStateError(ValueError):
    """A call that a block's state does not allow, or a block id that the pool does not have (L10.1)."""


# ---------------------------------------------------------------- results


@dataclass(frozen=True)
class Match:
    """What `RadixTree.match_prefix` found (ds.07): `values` has one value for each granule of `n_tokens`."""

    n_tokens: int
    values: tuple[Any, ...]
    node: NodeId


@dataclass(frozen=True)
class Insertion:
    """What `RadixTree.insert` did (ds.07).

    `present` are the values that the tree already held for the first granules, in order, and still holds.
    """

    node: NodeId
    present: tuple[Any, ...]


@dataclass(frozen=True)
class PrefixMatch:
    """The longest cached prefix of a prompt (L8.4, section 4): one block for each B of `matched_tokens`."""

    matched_tokens: int
    blocks: tuple[BlockId, ...]
    node: NodeId


@dataclass(frozen=True)
class Inserted:
    """What `RadixCache.insert` did (L8.4, section 2): `duplicates` are the caller's to free."""

    node: NodeId
    duplicates: tuple[BlockId, ...]


@dataclass(frozen=True)
class PrefixStats:
    """A radix cache's counters over every lookup, insert and eviction so far (L8.4, section 2)."""

    lookups: int = 0
    query_tokens: int = 0
    hit_tokens: int = 0
    inserted_blocks: int = 0
    evicted_blocks: int = 0


@dataclass(frozen=True)
class Allocation:
    """An admitted prompt (L10.4, section 4): prefill starts at position `cached_tokens` of the table `blocks`."""

    cached_tokens: int
    blocks: tuple[BlockId, ...]


@dataclass(frozen=True)
class BlockStats:
    """A block manager's counters over admitted prompts, each counted once (L10.4, section 4)."""

    lookups: int = 0
    query_tokens: int = 0
    hit_tokens: int = 0
    evictions: int = 0


class PrefixCache(Enum):
    """How a block manager finds prefixes again (L10.4, section 2.2)."""

    NONE = "none"
    HASH = "hash"
    RADIX = "radix"


Publish = Literal["release", "prefill"]
"""When a manager makes a request's full blocks findable: when the request ends, or as soon as they are computed."""

OPTIONAL = frozenset({"publish"})
"""Calls that a class may leave out. Whoever makes one looks first whether it is there."""


# ---------------------------------------------------------------- protocols


class KvBlockHash(Protocol):
    """`kv_block_hash(parent, tokens)`: the name of a full block (L10.4, section 2.1)."""

    def __call__(self, parent: int, tokens: Sequence[int]) -> int:
        """FNV-1a 64 over `parent` (8 little-endian bytes, 0 for a first block), then each id (4).

        A result of 0 becomes 1. Raises ValueError for a token or a parent out of range.
        """


class KvPool(Protocol):
    """A pool of KV blocks: free (rho 0, unnamed), used (rho >= 1) or cached (rho 0, named) (L10.1).

    `n_free + n_used + n_cached == n_blocks` after every call. A call that raises changes nothing.
    Every call that takes a block raises BlockStateError for an id out of range.
    """

    def __init__(self, n_blocks: int, block_size: int) -> None:
        """All blocks free. Raises ValueError for a size below 1."""

    @property
    def n_blocks(self) -> int:
        """Blocks in the pool, whatever their state."""

    @property
    def block_size(self) -> int:
        """Token positions in a block (B)."""

    @property
    def n_free(self) -> int:
        """Blocks that hold nothing."""

    @property
    def n_used(self) -> int:
        """Blocks that somebody holds a reference on."""

    @property
    def n_cached(self) -> int:
        """Blocks that nobody holds, kept because they have a name."""

    @property
    def n_named(self) -> int:
        """Blocks that have a name, used or cached."""

    @property
    def evictions(self) -> int:
        """Cached blocks handed out anew since the pool was made."""

    def alloc(self, n: int) -> list[BlockId]:
        """Hand out n blocks at rho 1 and fill 0: free ones first, then cached ones, least recently used first.

        A cached block that is handed out loses its name. Raises PoolExhausted if it can't give all n,
        ValueError if n is negative.
        """

    def retain(self, block: BlockId) -> None:
        """Take one more reference; a cached block becomes used. Raises BlockStateError for a free block."""

    def release(self, block: BlockId) -> None:
        """Give one reference back. At rho 0 a named block becomes cached, as the most recently used one;
        another becomes free and loses its fill. Raises BlockStateError if there is none to give back."""

    def set_fill(self, block: BlockId, n: int) -> None:
        """Say that n positions are written, 0 <= n <= B, of a used block without a name; else BlockStateError."""

    def fill(self, block: BlockId) -> int:
        """How many positions of the block are written."""

    def refcount(self, block: BlockId) -> int:
        """The block's rho."""

    def register(self, block: BlockId, name: int) -> bool:
        """Name a used block (else BlockStateError).

        False, and nothing changes, if its fill is not B, it has a name, or the name is taken.
        """

    def lookup(self, name: int) -> BlockId | None:
        """The block of this name, with a reference taken for the caller; None if there is none."""

    def find(self, name: int) -> BlockId | None:
        """The block of this name, and no reference taken; None if there is none."""


class RadixTree(Protocol):
    """Maps runs of tokens to one value for each `granule` tokens, sharing what they share (ds.07).

    Only whole granules are matched or stored; two children of a node differ in their first granule.
    A match or an insert ends exactly at a node, splitting an edge if it must. The halves share the
    old lock count and time of use; then every node on the path is stamped as used now.
    """

    ROOT: ClassVar[NodeId]

    def __init__(self, granule: int) -> None:
        """An empty tree. Raises ValueError for a granule below 1."""

    @property
    def granule(self) -> int:
        """Tokens for each value."""

    @property
    def n_values(self) -> int:
        """Values in the tree."""

    @property
    def n_evictable(self) -> int:
        """Values that `evict` could give if asked for all: those of unlocked nodes."""

    @property
    def n_nodes(self) -> int:
        """Nodes, without the root."""

    def match_prefix(self, tokens: Sequence[int]) -> Match:
        """The longest stored prefix in whole granules, and the node it ends at (ROOT if none)."""

    def insert(self, tokens: Sequence[int], values: Sequence[Any]) -> Insertion:
        """Store a run. What is there already stays; storing past a leaf adds a child.

        Raises ValueError unless `len(tokens)` is a multiple of the granule with one value for each.
        """

    def lock(self, node: NodeId) -> None:
        """Pin the node and its ancestors. ROOT: nothing. Raises KeyError for a node that is gone."""

    def unlock(self, node: NodeId) -> None:
        """Undo one lock. Raises KeyError for a node that is gone, ValueError for one that is not locked."""

    def evict(self, n: int) -> list[Any]:
        """Take unlocked leaves, least recently used first, whole, until n values are out or none is left.

        A parent whose last child goes is a leaf in the same call. Values come leaf by leaf, front to back.
        """

    def walk(self) -> Iterator[tuple[NodeId, NodeId, tuple[int, ...], tuple[Any, ...], int, int]]:
        """(node, parent, tokens, values, locks, last_used) for every node but the root, parents first."""


class RadixCache(Protocol):
    """The block-granular prefix cache over a radix tree (L8.4)."""

    def __init__(self, block_size: int) -> None:
        """An empty cache. Raises ValueError for a block size below 1."""

    @property
    def block_size(self) -> int:
        """Tokens in a block (B)."""

    @property
    def cached_tokens(self) -> int:
        """Tokens in the cache: B for each block."""

    @property
    def cached_blocks(self) -> int:
        """Blocks in the cache."""

    @property
    def evictable_blocks(self) -> int:
        """Blocks that `evict` could give back now: those that no lock pins."""

    @property
    def stats(self) -> PrefixStats:
        """The counters, over every call so far."""

    @property
    def hit_rate(self) -> float:
        """Hit tokens over query tokens; 0.0 before the first lookup."""

    @property
    def tree(self) -> RadixTree:
        """The tree underneath, one block id for each granule of B tokens."""

    def match_prefix(self, tokens: Sequence[int]) -> PrefixMatch:
        """The longest cached prefix of a prompt: at most (n - 1) // B * B tokens (section 2)."""

    def insert(self, tokens: Sequence[int], blocks: Sequence[BlockId]) -> Inserted:
        """Store the full blocks of a run. Raises ValueError unless `len(blocks) == len(tokens) // B`."""

    def lock(self, node: NodeId) -> None:
        """Pin the prefix that ends at this node while a request reads it."""

    def unlock(self, node: NodeId) -> None:
        """Undo one lock."""

    def evict(self, n_blocks: int) -> list[BlockId]:
        """Free at least n blocks if it can: whole unlocked leaves, least recently used first."""


class BlockSpace(Protocol):
    """What a scheduler asks of whoever hands out KV blocks (L10.2, L10.4)."""

    def allocate(self, seq: SeqId, tokens: Sequence[int]) -> Allocation | None:
        """Admit a prompt: a table of ceil(n / B) blocks, the cached ones first; None if it can't be had now.

        Raises ValueError for an empty prompt or a sequence already held.
        """

    def append_slot(self, seq: SeqId) -> bool:
        """Make room for one more position; False, and nothing changed, if there is none."""

    def release(self, seq: SeqId, computed: Sequence[int]) -> None:
        """End a sequence. `computed` are the ids whose K and V are written, beginning with the prompt's.

        Raises ValueError for more of them than the sequence has slots.
        """

    def publish(self, seq: SeqId, computed: Sequence[int]) -> None:
        """Make the full blocks among the `computed` ids findable while the sequence goes on (optional).

        A scheduler calls it after each chunk. A space that was not made to publish early does nothing. The
        sequence keeps its table and every reference: where another holds the same content already, its own copy
        stays its own until it ends. Raises ValueError as `release` does.
        """

    def block_table(self, seq: SeqId) -> list[BlockId]:
        """The sequence's blocks, in the order of its positions."""

    @property
    def available_blocks(self) -> int:
        """Blocks that a request could get now: free, plus what could be evicted."""


class BlockManager(BlockSpace, Protocol):
    """The scheduler's `BlockSpace` over a pool, with a prefix cache in one of three modes (L10.4).

    Every call that takes a sequence raises KeyError for one that is not held.
    """

    def __init__(self, pool: KvPool, mode: PrefixCache, publish: Publish = "release") -> None:
        """Manage all of `pool`. A manager without the call `publish` need not take the option either."""

    @property
    def mode(self) -> PrefixCache:
        """How prefixes are found again."""

    @property
    def cached_blocks(self) -> int:
        """Blocks that hold reusable content, in use or not: the named ones, or the tree's."""

    @property
    def stats(self) -> BlockStats:
        """The counters, over admitted prompts."""

    @property
    def hit_rate(self) -> float:
        """Hit tokens over query tokens; 0.0 before the first prompt."""

"""The lab's manager, cache and tree: what production systems add to the three that the course builds.

Three things, none of which changes what a cache may share. Another rule for what is evicted first (L8.4's and
L10.4's last sections; the policies are in `course.eviction`). Extra keys, which keep equal tokens apart: in a
block's name, and at the root of the tree. And a look at what is cached that takes, stamps and counts nothing, for
whoever chooses a request or an engine by it. Each class extends the one that the course builds; what that
one does, it does not repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course.contract import (
    ROOT,
    Allocation,
    KvPool,
    NodeId,
    PrefixCache,
    Publish,
    SeqId,
)
from course.eviction import Eviction, find_eviction
from course.extra_keys import ExtraKeys, checked, parent_of_first_block
from course.many import name_blocks
from course.modules import kv_block_hash
from course.tokens import pack_tokens

if TYPE_CHECKING:  # a type checker wants to know which classes these are; where it runs, whoever runs it decides
    from solutions import block_manager, radix_cache, radix_tree

    PlainTree = radix_tree.RadixTree
    PlainCache = radix_cache.RadixCache
    PlainManager = block_manager.BlockManager
else:
    from course.modules import BlockManager as PlainManager
    from course.modules import RadixCache as PlainCache
    from course.modules import RadixTree as PlainTree


# ---------------------------------------------------------------- the tree


@dataclass(frozen=True)
class _Leaf:
    """What an eviction policy sees of a leaf."""

    last_used: int
    uses: int
    depth: int


class RadixTree(PlainTree):
    """A radix tree with a choice of what is evicted first, and a root for each set of extra keys.

    Nodes of all roots are evicted in one order. A node is ranked when it becomes a leaf that could go; that
    rank holds until its next use, so leaves stay sorted whatever the policy.
    """

    def __init__(self, granule: int, eviction: str | Eviction = "lru") -> None:
        super().__init__(granule)
        self._policy = find_eviction(eviction)
        self._leaves: Any = self._leaves  # sorted by rank here, not by time alone
        self._ranks: dict[NodeId, tuple[float, ...]] = {}
        self._uses: dict[NodeId, int] = {}
        self._plain = self._root
        self._roots: dict[ExtraKeys, Any] = {(): self._plain}

    # ------------------------------------------------------------ extra keys

    @contextmanager
    def under(self, keys: ExtraKeys) -> Iterator[None]:
        """Let matches and inserts be those of prompts with these extra keys, for the length of a `with` block."""
        # A root's own values are never read: its keys stand there, so that it can be found when it is empty.
        self._root = self._roots.get(checked(keys)) or type(self._plain)(ROOT, None, b"", [keys])
        try:
            yield
        finally:
            if self._root.children:
                self._roots[keys] = self._root
            self._root = self._plain

    def _known(self, node: NodeId) -> Any:
        """The root of the keys in use is ROOT too, and locking it does nothing."""
        return self._root if node == ROOT else super()._known(node)

    def walk(self) -> Iterator[tuple[NodeId, NodeId, tuple[int, ...], tuple[Any, ...], int, int]]:
        """Every node below every root, parents first."""
        for keys in list(self._roots):
            with self.under(keys):
                rows = list(super().walk())
            yield from rows

    # ------------------------------------------------------------ looking without taking

    def peek(self, tokens: Sequence[int]) -> int:
        """How many tokens `match_prefix` would find now. Splits no edge, and is no use of what it finds."""
        packed = pack_tokens(tokens)[: len(tokens) // self.granule * self._width]
        node, at = self._root, 0
        while child := node.children.get(packed[at : at + self._width]):
            if not packed.startswith(child.tokens, at):
                at += self._shared_bytes(child.tokens, packed, at)
                break
            node, at = child, at + len(child.tokens)
        return at // 4

    # ------------------------------------------------------------ the order of eviction

    def _stamp(self, end: Any) -> None:
        for node in self._path_up(end):
            self._uses[node.id] = self._uses.get(node.id, 0) + 1
        super()._stamp(end)

    def _split(self, lower: Any, at: int) -> Any:
        """Both halves were used as often as the whole."""
        upper = super()._split(lower, at)
        self._uses[upper.id] = self._uses[lower.id]
        return upper

    def _remember_leaf(self, node: Any) -> None:
        if node.children or node.locks or node.parent is None:
            return
        depth = sum(len(step.values) for step in self._path_up(node))
        rank = (*self._policy.rank(_Leaf(node.last_used, self._uses[node.id], depth)), node.last_used)
        self._ranks[node.id] = rank
        self._leaves[rank] = node

    def _forget_leaf(self, node: Any) -> None:
        if node.id in self._ranks:
            del self._leaves[self._ranks.pop(node.id)]

    def _remove(self, leaf: Any) -> None:
        parent = leaf.parent
        del self._ranks[leaf.id], self._uses[leaf.id]
        super()._remove(leaf)
        if parent.parent is None and not parent.children and parent is not self._plain:
            self._roots.pop(parent.values[0], None)


# ---------------------------------------------------------------- the cache


class RadixCache(PlainCache):
    """A prefix cache over the lab's tree; `with cache.tree.under(keys)` its calls are about prompts with these keys."""

    tree: RadixTree

    def __init__(self, block_size: int, eviction: str | Eviction = "lru") -> None:
        super().__init__(block_size)
        self.tree = RadixTree(block_size, eviction)

    def peek(self, tokens: Sequence[int]) -> int:
        """How many tokens `match_prefix` would find now; nothing is stamped or counted."""
        return self.tree.peek(tokens[: self.usable_tokens(len(tokens))])


# ---------------------------------------------------------------- the manager


class BlockManager(PlainManager):
    """A block manager with extra keys, a choice of eviction policy (mode radix), and a look without taking."""

    def __init__(
        self, pool: KvPool, mode: PrefixCache, publish: Publish = "release", eviction: str | Eviction = "lru"
    ) -> None:
        super().__init__(pool, mode, publish)
        self._radix: RadixCache = RadixCache(pool.block_size, eviction)
        self._keys: dict[SeqId, ExtraKeys] = {}
        self._first_parent = 0

    def allocate(self, seq: SeqId, tokens: Sequence[int], extra_keys: ExtraKeys = ()) -> Allocation | None:
        """Admit a prompt. It shares blocks with prompts of equal extra keys alone.

        Raises:
            ValueError: as without keys, and for what is no tuple of texts and integers.
        """
        with self._under(extra_keys):
            allocation = super().allocate(seq, tokens)
        if allocation is not None and extra_keys:
            self._keys[seq] = extra_keys
        return allocation

    def publish(self, seq: SeqId, computed: Sequence[int]) -> None:
        """Publish the full computed blocks, for prompts of the sequence's own keys."""
        with self._under(self._keys.get(seq, ())):
            super().publish(seq, computed)

    def release(self, seq: SeqId, computed: Sequence[int]) -> None:
        """Cache the full computed blocks, for prompts of the sequence's own keys, and give every reference back."""
        with self._under(self._keys.get(seq, ())):
            super().release(seq, computed)
        self._keys.pop(seq, None)

    def cached_prefix(self, tokens: Sequence[int], extra_keys: ExtraKeys = ()) -> int:
        """How many of its tokens a prompt would find cached now. Takes, stamps and counts nothing.

        Raises:
            ValueError: a token out of range, or what is no key.
        """
        with self._under(extra_keys):
            if self.mode is PrefixCache.RADIX:
                return self._radix.peek(tokens)
            names = self._names([], tokens)[: self._usable_blocks(len(tokens))]
        if self.mode is PrefixCache.NONE:
            return 0
        found = next((at for at, name in enumerate(names) if self._pool.find(name) is None), len(names))
        return found * self._size

    @contextmanager
    def _under(self, keys: ExtraKeys) -> Iterator[None]:
        """The length of a call for a sequence with these keys."""
        self._first_parent = parent_of_first_block(kv_block_hash, keys)
        try:
            with self._radix.tree.under(keys):
                yield
        finally:
            self._first_parent = 0

    def _names(self, known: list[int], computed: Sequence[int]) -> list[int]:
        """As without keys, but that a first block is chained to the keys' name."""
        if known:
            return super()._names(known, computed)
        return name_blocks(self._pool, kv_block_hash, computed, self._first_parent)

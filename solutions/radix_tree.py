"""ds.07 · The radix tree: runs of tokens, stored once where they agree, with one value for each granule.

It knows tokens, values, locks and the order of use. It does not know what a value stands for: the
cache above it stores block ids, and a test may store letters.

An edge carries as many tokens as its run has before it branches. Tokens are kept packed, 4 bytes
each, so that comparing two runs is one comparison of bytes and a child is found by the bytes of its
first granule. No method recurses: a path can be as long as a prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sortedcontainers import SortedDict

from course.contract import ROOT, Insertion, Match, NodeId
from course.tokens import pack_tokens, unpack_tokens


@dataclass(slots=True, eq=False)
class _Node:
    """A node, with the edge that leads to it.

    `pins` counts the locks on this very node; `locks` counts those on it and everything below.
    """

    id: NodeId
    parent: _Node | None
    tokens: bytes
    values: list[Any]
    children: dict[bytes, _Node] = field(default_factory=dict)
    pins: int = 0
    locks: int = 0
    last_used: int = 0


class RadixTree:
    """Longest-prefix match over token runs, with locks and least-recently-used eviction (contract: `RadixTree`).

    `_leaves` holds the leaves that `evict` may take, by time of use. A time names one leaf: nodes
    stamped together lie on one path, and a path has one leaf.
    """

    ROOT: ClassVar[NodeId] = ROOT

    def __init__(self, granule: int) -> None:
        if granule < 1:
            raise ValueError(f"a granule has at least 1 token, not {granule}")
        self.granule = granule
        self.n_values = 0
        self.n_evictable = 0
        self._width = 4 * granule
        self._root = _Node(ROOT, None, b"", [])
        self._nodes: dict[NodeId, _Node] = {ROOT: self._root}
        self._next_id = 1
        self._leaves: SortedDict[int, _Node] = SortedDict()
        self._now = 0

    @property
    def n_nodes(self) -> int:
        """Nodes, without the root."""
        return len(self._nodes) - 1

    # ------------------------------------------------------------ match and insert

    def match_prefix(self, tokens: Sequence[int]) -> Match:
        """The longest stored prefix in whole granules, and the node where it ends."""
        packed = pack_tokens(tokens)
        node, _ = self._descend(packed[: len(tokens) // self.granule * self._width])
        self._stamp(node)
        values = self._values_down_to(node)
        return Match(len(values) * self.granule, values, node.id)

    def insert(self, tokens: Sequence[int], values: Sequence[Any]) -> Insertion:
        """Store a run; the values that were there already stay and are returned.

        Raises:
            ValueError: a run that is no whole number of granules, or not one value for each.
        """
        packed = pack_tokens(tokens)
        if len(tokens) % self.granule or len(values) != len(tokens) // self.granule:
            raise ValueError(
                f"{len(tokens)} tokens at granule {self.granule} need {len(tokens) / self.granule:g} values, "
                f"not {len(values)}"
            )
        node, end = self._descend(packed)
        present = self._values_down_to(node)
        if end < len(packed):
            node = self._add_leaf(node, packed[end:], list(values[len(present) :]))
        self._stamp(node)
        return Insertion(node.id, present)

    def _descend(self, packed: bytes) -> tuple[_Node, int]:
        """Follow a packed run as far as it is stored, splitting the edge it ends in.

        Returns the node where it ends and how many of its bytes lead there.
        """
        node, at, width = self._root, 0, self._width
        while child := node.children.get(packed[at : at + width]):
            shared = len(child.tokens)
            if not packed.startswith(child.tokens, at):
                shared = self._shared_bytes(child.tokens, packed, at)
                return self._split(child, shared), at + shared
            node, at = child, at + shared
        return node, at

    def _shared_bytes(self, label: bytes, packed: bytes, at: int) -> int:
        """How many bytes of an edge a run follows, in whole granules: at least one granule, not all."""
        shared, parted = 1, len(label) // self._width
        while parted - shared > 1:
            middle = (shared + parted) // 2
            if packed.startswith(label[: middle * self._width], at):
                shared = middle
            else:
                parted = middle
        return shared * self._width

    def _split(self, lower: _Node, at: int) -> _Node:
        """Cut an edge after `at` bytes. The lower half keeps the id, so that an id held stays good."""
        upper = self._new_node(lower.parent, lower.tokens[:at], lower.values[: at // self._width])
        upper.locks, upper.last_used = lower.locks, lower.last_used
        lower.tokens, lower.values = lower.tokens[at:], lower.values[at // self._width :]
        self._attach(lower, upper)
        return upper

    def _add_leaf(self, parent: _Node, tokens: bytes, values: list[Any]) -> _Node:
        """Store a run below a node, which is no leaf from now on."""
        self._forget_leaf(parent)
        self.n_values += len(values)
        self.n_evictable += len(values)
        return self._new_node(parent, tokens, values)

    def _new_node(self, parent: _Node | None, tokens: bytes, values: list[Any]) -> _Node:
        """A node with an id of its own, listed in `_nodes` and hung below its parent."""
        assert parent is not None, "only the root has no parent"
        node = _Node(self._next_id, parent, tokens, values)
        self._next_id += 1
        self._nodes[node.id] = node
        self._attach(node, parent)
        return node

    def _attach(self, node: _Node, parent: _Node) -> None:
        """Hang a node below a parent, which finds it by the bytes of its first granule."""
        node.parent = parent
        parent.children[node.tokens[: self._width]] = node

    def _values_down_to(self, node: _Node) -> tuple[Any, ...]:
        """The values on the path from the root to this node, front to back."""
        runs = [step.values for step in self._path_up(node)]
        return tuple(value for run in reversed(runs) for value in run)

    def _path_up(self, node: _Node) -> Iterator[_Node]:
        """The node, its parent, and so on; not the root."""
        while node.parent is not None:
            yield node
            node = node.parent

    # ------------------------------------------------------------ time of use

    def _stamp(self, end: _Node) -> None:
        """A match or an insert that ends here is a use of every node on the path (L8.4, section 2)."""
        self._now += 1
        self._forget_leaf(end)
        for node in self._path_up(end):
            node.last_used = self._now
        self._remember_leaf(end)

    def _remember_leaf(self, node: _Node) -> None:
        """Let `evict` take this node, if it is a leaf that nobody locks."""
        if not node.children and not node.locks and node is not self._root:
            self._leaves[node.last_used] = node

    def _forget_leaf(self, node: _Node) -> None:
        """Keep `evict` from this node, if it could have taken it."""
        if self._leaves.get(node.last_used) is node:
            del self._leaves[node.last_used]

    # ------------------------------------------------------------ locks and eviction

    def lock(self, node: NodeId) -> None:
        """Pin the node and its ancestors. Raises KeyError for a node that is gone."""
        locked = self._known(node)
        if locked is self._root:
            return
        self._forget_leaf(locked)
        locked.pins += 1
        for step in self._path_up(locked):
            if step.locks == 0:
                self.n_evictable -= len(step.values)
            step.locks += 1

    def unlock(self, node: NodeId) -> None:
        """Undo one lock. Raises KeyError for a node that is gone, ValueError for one that isn't locked."""
        locked = self._known(node)
        if locked is self._root:
            return
        if locked.pins == 0:
            raise ValueError(f"node {node} is not locked")
        locked.pins -= 1
        for step in self._path_up(locked):
            step.locks -= 1
            if step.locks == 0:
                self.n_evictable += len(step.values)
        self._remember_leaf(locked)

    def _known(self, node: NodeId) -> _Node:
        """The node of this id. Raises KeyError for one that is gone."""
        if node not in self._nodes:
            raise KeyError(f"node {node} is not in this tree")
        return self._nodes[node]

    def evict(self, n: int) -> list[Any]:
        """Take whole unlocked leaves, least recently used first, until n values are out (L8.4, section 2)."""
        if n < 0:
            raise ValueError(f"can't evict {n} values")
        out: list[Any] = []
        while len(out) < n and self._leaves:
            _, leaf = self._leaves.popitem(0)
            out += leaf.values
            self._remove(leaf)
        return out

    def _remove(self, leaf: _Node) -> None:
        """Take a leaf out; a parent that loses its last child is a leaf from now on."""
        parent = leaf.parent
        assert parent is not None, "the root is never removed"
        del parent.children[leaf.tokens[: self._width]]
        del self._nodes[leaf.id]
        self.n_values -= len(leaf.values)
        self.n_evictable -= len(leaf.values)
        self._remember_leaf(parent)

    # ------------------------------------------------------------ looking at the tree

    def walk(self) -> Iterator[tuple[NodeId, NodeId, tuple[int, ...], tuple[Any, ...], int, int]]:
        """(node, parent, tokens, values, locks, last_used) for every node but the root, parents first."""
        waiting = list(self._root.children.values())
        while waiting:
            node = waiting.pop()
            assert node.parent is not None, "only the root has no parent"
            yield (
                node.id,
                node.parent.id,
                unpack_tokens(node.tokens),
                tuple(node.values),
                node.locks,
                node.last_used,
            )
            waiting.extend(node.children.values())

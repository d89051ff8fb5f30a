"""The flat model of the radix tree (ds.07): a dict of stored prefixes, and no tree.

Every stored prefix has a number, found from the number of the prefix one granule shorter and the last
granule. A node is a list of such numbers. Which node is whose parent, how often a node is locked and which
ones are leaves is worked out from that each time it is asked, so it can't fall out of step.
What the values are, this file does not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from course.contract import ROOT, Insertion, Match, NodeId
from course.tokens import pack_tokens, unpack_tokens

Granule = tuple[int, ...]
NOTHING = 0
"""The number of the empty prefix."""


@dataclass
class Prefix:
    """A stored prefix: the number of the one a granule shorter, its last granule, that one's value, its node."""

    shorter: int
    granule: Granule
    value: Any
    node: int


@dataclass
class Node:
    """A node: the prefixes that end on its edge, shortest first, the locks put on it by name, its last use."""

    prefixes: list[int]
    own_locks: int
    last_used: int


class RadixTree:
    """Maps runs of tokens to one value for each `granule` tokens (ds.07)."""

    ROOT: ClassVar[NodeId] = ROOT

    def __init__(self, granule: int) -> None:
        """An empty tree. Raises ValueError for a granule below 1."""
        if granule < 1:
            raise ValueError(f"granule {granule}: it must be 1 or more")
        self._granule = granule
        self._numbers: dict[tuple[int, Granule], int] = {}
        self._prefixes: dict[int, Prefix] = {}
        self._nodes: dict[int, Node] = {}
        self._n_made = 0  # numbers are never used twice, so what is gone stays gone
        self._now = 0

    @property
    def granule(self) -> int:
        """Tokens for each value."""
        return self._granule

    @property
    def n_values(self) -> int:
        """Values in the tree."""
        return len(self._prefixes)

    @property
    def n_evictable(self) -> int:
        """Values that `evict` could give if asked for all: those of unlocked nodes."""
        locks = self._locks()
        return sum(len(held.prefixes) for node, held in self._nodes.items() if not locks[node])

    @property
    def n_nodes(self) -> int:
        """Nodes, without the root."""
        return len(self._nodes)

    def match_prefix(self, tokens: Sequence[int]) -> Match:
        """The longest stored prefix in whole granules, and the node it ends at (ROOT if none)."""
        found = self._find(self._granules(tokens))
        node = self._node_ending_at(found)
        self._use(found)
        return Match(len(found) * self._granule, self._values(found), node)

    def insert(self, tokens: Sequence[int], values: Sequence[Any]) -> Insertion:
        """Store a run. What is there already stays; storing past a leaf adds a child.

        Raises ValueError unless `len(tokens)` is a multiple of the granule with one value for each.
        """
        granules = self._granules(tokens)
        if len(tokens) % self._granule or len(values) != len(granules):
            raise ValueError(f"{len(tokens)} tokens and {len(values)} values: one for each {self._granule} tokens")
        found = self._find(granules)
        node = self._node_ending_at(found)
        present = self._values(found)
        if len(found) < len(granules):
            node = self._add(found, granules[len(found) :], values[len(found) :])
        self._use(self._find(granules))
        return Insertion(node, present)

    def lock(self, node: NodeId) -> None:
        """Pin the node and its ancestors. ROOT: nothing. Raises KeyError for a node that is gone."""
        if node != ROOT:
            self._nodes[node].own_locks += 1

    def unlock(self, node: NodeId) -> None:
        """Undo one lock. Raises KeyError for a node that is gone, ValueError for one that is not locked."""
        if node == ROOT:
            return
        if self._nodes[node].own_locks == 0:
            raise ValueError(f"node {node} is not locked")
        self._nodes[node].own_locks -= 1

    def evict(self, n: int) -> list[Any]:
        """Take unlocked leaves, least recently used first, whole, until n values are out or none is left.

        Values come leaf by leaf, front to back. Raises ValueError for a negative n.
        """
        if n < 0:
            raise ValueError(f"{n} values to evict: an amount is 0 or more")
        locks = self._locks()
        children = Counter(self._parent(node) for node in self._nodes)
        leaves = [node for node in self._nodes if not locks[node] and not children[node]]
        out: list[Any] = []
        while len(out) < n and leaves:
            leaf = min(leaves, key=lambda node: self._nodes[node].last_used)
            leaves.remove(leaf)
            parent = self._parent(leaf)
            out += self._remove(leaf)
            children[parent] -= 1
            if parent != ROOT and not children[parent] and not locks[parent]:
                leaves.append(parent)
        return out

    def walk(self) -> Iterator[tuple[NodeId, NodeId, tuple[int, ...], tuple[Any, ...], int, int]]:
        """(node, parent, tokens, values, locks, last_used) for every node but the root, parents first."""
        locks = self._locks()
        seen: set[NodeId] = {ROOT}
        left = {node: self._parent(node) for node in self._nodes}
        rows = []
        while left:
            for node in [node for node, parent in left.items() if parent in seen]:
                seen.add(node)
                rows.append((node, left.pop(node), *self._contents(node), locks[node], self._nodes[node].last_used))
        return iter(rows)

    def _granules(self, tokens: Sequence[int]) -> list[Granule]:
        plain, size = unpack_tokens(pack_tokens(tokens)), self._granule
        return [plain[start : start + size] for start in range(0, len(plain) - size + 1, size)]

    def _find(self, granules: Sequence[Granule]) -> list[int]:
        found: list[int] = []
        at = NOTHING
        for granule in granules:
            longer = self._numbers.get((at, granule))
            if longer is None:
                break
            at = longer
            found.append(at)
        return found

    def _values(self, found: Sequence[int]) -> tuple[Any, ...]:
        return tuple(self._prefixes[number].value for number in found)

    def _contents(self, node: int) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        numbers = self._nodes[node].prefixes
        tokens = tuple(token for number in numbers for token in self._prefixes[number].granule)
        return tokens, self._values(numbers)

    def _parent(self, node: int) -> int:
        shorter = self._prefixes[self._nodes[node].prefixes[0]].shorter
        return ROOT if shorter == NOTHING else self._prefixes[shorter].node

    def _locks(self) -> Counter[int]:
        locks: Counter[int] = Counter()
        for node, held in self._nodes.items():
            at = node
            while held.own_locks and at != ROOT:
                locks[at] += held.own_locks
                at = self._parent(at)
        return locks

    def _use(self, found: Sequence[int]) -> None:
        self._now += 1
        for number in found:
            self._nodes[self._prefixes[number].node].last_used = self._now

    def _new_number(self) -> int:
        self._n_made += 1
        return self._n_made

    def _node_ending_at(self, found: Sequence[int]) -> int:
        if not found:
            return ROOT  # type: ignore[no-any-return]
        node = self._prefixes[found[-1]].node
        length = self._nodes[node].prefixes.index(found[-1]) + 1
        return node if length == len(self._nodes[node].prefixes) else self._split(node, length)

    def _split(self, lower: int, length: int) -> int:
        # the lower half keeps the id, so that whoever holds it still holds the same prefix
        held = self._nodes[lower]
        upper = self._make_node(held.prefixes[:length], held.last_used)
        held.prefixes = held.prefixes[length:]
        return upper

    def _add(self, found: Sequence[int], granules: Sequence[Granule], values: Sequence[Any]) -> int:
        at = found[-1] if found else NOTHING
        added = []
        for granule, value in zip(granules, values, strict=True):
            number = self._new_number()
            self._numbers[at, granule] = number
            self._prefixes[number] = Prefix(at, granule, value, ROOT)
            added.append(number)
            at = number
        return self._make_node(added, self._now)

    def _make_node(self, prefixes: list[int], last_used: int) -> int:
        node = self._new_number()
        self._nodes[node] = Node(prefixes, own_locks=0, last_used=last_used)
        for number in prefixes:
            self._prefixes[number].node = node
        return node

    def _remove(self, node: int) -> list[Any]:
        gone = [self._prefixes.pop(number) for number in self._nodes.pop(node).prefixes]
        for prefix in gone:
            del self._numbers[prefix.shorter, prefix.granule]
        return [prefix.value for prefix in gone]

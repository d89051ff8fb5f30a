"""The flat pool and the flat tree beside the references, in lockstep; and how flat models are loaded."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lockstep import FLAT, REFERENCE, Raised, few, outcome, runs, same, tree_picture

import solutions
from autograder.flat import flat_exports
from course import modules
from course.contract import ROOT, BlockStateError, PoolExhausted

# ---------------------------------------------------------------- kv_pool (L10.1)

NAMES = range(1, 7)
pool_calls = st.lists(
    st.one_of(
        st.tuples(st.just("alloc"), st.integers(-1, 4)),
        st.tuples(st.sampled_from(["retain", "release", "release"]), st.integers(0, 9)),
        st.tuples(st.just("set_fill"), st.integers(0, 9), st.sampled_from([-1, 0, 1, 2, 2, 2, 3])),
        st.tuples(st.just("register"), st.integers(0, 9), st.sampled_from(NAMES)),
        st.tuples(st.sampled_from(["lookup", "find"]), st.sampled_from(NAMES)),
        st.tuples(st.just("name"), st.integers(0, 9), st.sampled_from(NAMES)),
    ),
    min_size=25,
    max_size=60,
)


@dataclass
class Pools:
    """A flat and a reference pool of 6 blocks of 2; `twin` maps each block that is not free to the other's."""

    flat: Any = field(default_factory=lambda: FLAT["KvPool"](6, 2))
    reference: Any = field(default_factory=lambda: REFERENCE["KvPool"](6, 2))
    twin: dict[int, int] = field(default_factory=dict)

    def block(self, choice: int) -> tuple[int, int]:
        """A live block by number, or a free one, or an id that no pool has."""
        free = [b for b in range(6) if b not in self.twin], [b for b in range(6) if b not in self.twin.values()]
        blocks = [*self.twin.items(), *zip(*free, strict=True), (-1, -1), (6, 6)]
        return blocks[choice % len(blocks)]

    def on_block(self, call: str, choice: int, *args: int) -> None:
        flat, reference = self.block(choice)
        same([outcome(getattr(self.flat, call), flat, *args), outcome(getattr(self.reference, call), reference, *args)])

    def alloc(self, n: int) -> None:
        flat, reference = outcome(self.flat.alloc, n), outcome(self.reference.alloc, n)
        if isinstance(flat, Raised):
            assert flat == reference
            return
        assert len(flat) == len(reference) == n
        for mine, other in zip(flat, reference, strict=True):
            assert self.twin.get(mine) == (other if other in self.twin.values() else None), "evicted in another order"
            self.twin[mine] = other

    def by_name(self, call: str, name: int) -> None:
        flat, reference = getattr(self.flat, call)(name), getattr(self.reference, call)(name)
        assert (flat is None and reference is None) or self.twin[flat] == reference

    def check(self) -> None:
        counts = ("n_blocks", "block_size", "n_free", "n_used", "n_cached", "n_named", "evictions")
        same([tuple(getattr(pool, count) for count in counts) for pool in (self.flat, self.reference)])
        assert self.flat.n_free + self.flat.n_used + self.flat.n_cached == self.flat.n_blocks
        named = {self.flat.find(name) for name in NAMES}
        self.twin = {f: r for f, r in self.twin.items() if self.flat.refcount(f) or f in named}
        for name in NAMES:
            self.by_name("find", name)
        for flat, reference in [self.block(choice) for choice in range(6)]:
            assert self.flat.refcount(flat) == self.reference.refcount(reference)
            assert self.flat.fill(flat) == self.reference.fill(reference)


@few
@given(pool_calls)
def test_pools_agree(calls: list[tuple[Any, ...]]) -> None:
    pools = Pools()
    for call, *args in calls:
        if call == "alloc":
            pools.alloc(*args)
        elif call in ("lookup", "find"):
            pools.by_name(call, *args)
        elif call == "name":
            pools.on_block("set_fill", args[0], 2)
            pools.on_block("register", *args)
        else:
            pools.on_block(call, *args)
        pools.check()


@few
@given(st.integers(-1, 2**64), st.lists(st.integers(-1, 2**32) | st.integers(0, 300), max_size=20))
def test_block_hashes_agree(parent: int, tokens: list[int]) -> None:
    same([outcome(names["kv_block_hash"], parent, tokens) for names in (FLAT, REFERENCE)])


@pytest.mark.parametrize("names", [FLAT, REFERENCE], ids=["flat", "reference"])
def test_a_block_hash_is_never_0_and_a_byte_is_a_token(names: Any) -> None:
    """The 8 bytes are the shortest input whose FNV-1a 64 is 0, as the hash's authors publish it."""
    parent = int.from_bytes(bytes.fromhex("d56bb95342870836"), "little")
    assert names["kv_block_hash"](parent, []) == 1
    assert names["kv_block_hash"](0, b"\x01\x02") == names["kv_block_hash"](0, [1, 2])
    assert names["kv_block_hash"](0, [2**32 - 1]) != names["kv_block_hash"](0, [0])


# ---------------------------------------------------------------- radix_tree (ds.07)

tree_calls = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["match", "match and lock"]), runs),
        st.tuples(st.just("insert"), runs, st.sampled_from([0] * 9 + [1, -1])),
        st.tuples(st.just("insert"), runs, st.just(0)),
        st.tuples(st.sampled_from(["lock", "unlock", "unlock"]), st.integers(0, 30)),
        st.tuples(st.just("evict"), st.sampled_from([-1, 0, 1, 1, 1, 2, 3, 99])),
        st.tuples(st.just("bad token"), st.sampled_from([-1, 2**32])),
    ),
    min_size=25,
    max_size=50,
)


class Trees:
    """Trees in lockstep; `nodes` are the ids they gave at the same moment for the same node."""

    def __init__(self, granule: int) -> None:
        self.trees = [names["RadixTree"](granule) for names in (FLAT, REFERENCE)]
        self.granule = granule
        self.nodes: list[tuple[Any, ...]] = [(ROOT, ROOT), (10**9, 10**9)]
        self.values = count()

    def all(self, call: str, *args: Any) -> list[Any]:
        return [outcome(getattr(tree, call), *args) for tree in self.trees]

    def match(self, tokens: Sequence[int]) -> None:
        found = self.all("match_prefix", tokens)
        same((match.n_tokens, match.values, match.node == ROOT) for match in found)
        self.nodes.append(tuple(match.node for match in found))

    def insert(self, tokens: Sequence[int], off: int) -> None:
        """Store a run of whole granules; `off` values too many, or one token and one value too few."""
        whole = len(tokens) // self.granule
        n = max(0, whole + off)
        done = self.all("insert", tokens[: whole * self.granule - (off < 0)], [next(self.values) for _ in range(n)])
        if not isinstance(done[0], Raised):
            same(insertion.present for insertion in done)
            self.nodes.append(tuple(insertion.node for insertion in done))
        else:
            same(done)

    def on_node(self, call: str, choice: int) -> None:
        nodes = self.nodes[choice % len(self.nodes)]
        same(outcome(getattr(tree, call), node) for tree, node in zip(self.trees, nodes, strict=True))


@few
@given(st.integers(1, 3), tree_calls)
def test_trees_agree(granule: int, calls: list[tuple[Any, ...]]) -> None:
    trees = Trees(granule)
    for call, *args in calls:
        if call == "match":
            trees.match(*args)
        elif call == "match and lock":
            trees.match(*args)
            trees.on_node("lock", -1)
        elif call == "insert":
            trees.insert(*args)
        elif call == "evict":
            same(trees.all("evict", *args))
        elif call == "bad token":
            assert same(trees.all("match_prefix", [0, *args])) == Raised(ValueError)
            assert same(trees.all("insert", [0] * granule + args, [7])) == Raised(ValueError)
        else:
            trees.on_node(call, *args)
        same(tree_picture(tree) for tree in trees.trees)


@pytest.fixture(params=[FLAT, REFERENCE], ids=["flat", "reference"])
def tree(request: pytest.FixtureRequest) -> Any:
    return request.param["RadixTree"](1)


def test_the_lower_half_of_a_split_is_older_and_goes_first(tree: Any) -> None:
    tree.insert(b"abcd", "ABCD")
    tree.insert(b"z", "Z")
    tree.match_prefix(b"ab")
    assert [tree.evict(1) for _ in range(4)] == [["C", "D"], ["Z"], ["A", "B"], []]


def test_an_id_held_through_a_split_names_the_lower_half(tree: Any) -> None:
    whole = tree.insert(b"abcd", "ABCD").node
    tree.lock(whole)
    upper = tree.match_prefix(b"ab").node
    assert tree_picture(tree)[97, 98][2] == tree_picture(tree)[97, 98, 99, 100][2] == 1
    with pytest.raises(ValueError):
        tree.unlock(upper)  # only its descendant holds a lock
    assert tree.evict(9) == []
    tree.unlock(whole)
    assert tree.n_evictable == 4 and tree.evict(1) == ["C", "D"]
    with pytest.raises(KeyError):
        tree.lock(whole)


def test_a_child_of_a_locked_leaf_is_free_to_go(tree: Any) -> None:
    tree.lock(tree.insert(b"ab", "AB").node)
    tree.insert(b"abc", "ABC")
    assert tree.evict(9) == ["C"] and tree.n_values == 2


def test_deep_nesting_needs_no_recursion(tree: Any) -> None:
    """A chain of 1,200 nodes, one below the other, under the interpreter's default limit."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(min(before, 1000))
    try:
        prompt = [7] * 1200
        for n in range(1, 1201):
            deepest = tree.insert(prompt[:n], range(n)).node
        tree.lock(deepest)
        assert tree.n_nodes == 1200 and tree.evict(1) == [] and len(list(tree.walk())) == 1200
        tree.unlock(deepest)
        assert tree.evict(1200) == list(reversed(range(1200)))
    finally:
        sys.setrecursionlimit(before)


# ---------------------------------------------------------------- edges of all four, and the loading


@pytest.mark.parametrize("names", [FLAT, REFERENCE], ids=["flat", "reference"])
def test_sizes_below_1_are_refused(names: Any) -> None:
    for call, args in [("KvPool", (0, 1)), ("KvPool", (1, 0)), ("RadixTree", (0,)), ("RadixCache", (0,))]:
        assert outcome(names[call], *args) == Raised(ValueError)


@pytest.mark.parametrize("names", [FLAT, REFERENCE], ids=["flat", "reference"])
def test_a_pool_says_what_it_lacks_and_gives_none(names: Any) -> None:
    pool = names["KvPool"](3, 1)
    (held,) = pool.alloc(1)
    assert outcome(pool.alloc, 3) == Raised(PoolExhausted, needed=3, available=2)
    assert pool.alloc(0) == [] and pool.n_free == 2
    assert outcome(pool.release, -1) == outcome(pool.fill, 3) == Raised(BlockStateError)
    pool.release(held)
    assert outcome(pool.release, held) == outcome(pool.retain, held) == Raised(BlockStateError)


def test_flat_exports_binds_flat_models_underneath_and_leaves_no_trace() -> None:
    listed = {name for name in sys.modules if name.startswith("autograder.flat.")}
    for wanted in ("L8.4", "radix_cache"):
        cache = flat_exports(wanted)["RadixCache"]
        assert type(cache(2).tree).__module__ == "autograder.flat.radix_tree"  # type: ignore[operator]
    assert sorted(flat_exports("kv_pool")) == ["KvPool", "kv_block_hash"]
    assert modules.RadixTree is importlib.import_module(f"{solutions.__name__}.radix_tree").RadixTree
    assert {name for name in sys.modules if name.startswith("autograder.flat.")} == listed
    with pytest.raises(KeyError):
        flat_exports("L9.9")


def test_flat_exports_prefers_flat_models_to_what_is_bound() -> None:
    with modules.bound({"RadixTree": object}):
        cache = flat_exports("radix_cache")["RadixCache"]
        assert modules.RadixTree is object
    assert cache(1).cached_blocks == 0  # type: ignore[operator]

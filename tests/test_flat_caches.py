"""The flat cache and the flat manager beside the references, each over flat and over reference modules, in lockstep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lockstep import FLAT, REFERENCE, Raised, few, load, outcome, runs, same, tree_picture

from course import modules
from course.contract import ROOT, Allocation, BlockStats, Inserted, PrefixCache, PrefixMatch

CACHES = [
    load(package, "radix_cache", underneath).RadixCache
    for package in ("autograder.flat", "solutions")
    for underneath in (FLAT, REFERENCE)
]
MANAGERS = [
    SimpleNamespace(
        make=load(package, "block_manager", underneath).BlockManager,
        pool=underneath["KvPool"],
        names={name: underneath[name] for name in underneath if name != "BlockManager"},
    )
    for package in ("autograder.flat", "solutions")
    for underneath in (FLAT, REFERENCE)
]


# ---------------------------------------------------------------- radix_cache (L8.4)

cache_calls = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["match", "match and lock"]), runs),
        st.tuples(st.just("insert"), runs, st.integers(0, 4), st.sampled_from([0] * 9 + [1, -1])),
        st.tuples(st.sampled_from(["lock", "unlock", "unlock"]), st.integers(0, 30)),
        st.tuples(st.just("evict"), st.sampled_from([-1, 0, 1, 1, 2, 99])),
        st.tuples(st.just("bad token"), st.sampled_from([-1, 2**32])),
    ),
    min_size=20,
    max_size=40,
)


class Caches:
    """Both caches over both trees, in lockstep."""

    def __init__(self, block_size: int) -> None:
        self.caches = [cache(block_size) for cache in CACHES]
        self.size = block_size
        self.nodes: list[tuple[Any, ...]] = [(ROOT,) * 4, (10**9,) * 4]
        self.blocks = count(100)

    def all(self, call: str, *args: Any) -> list[Any]:
        return [outcome(getattr(cache, call), *args) for cache in self.caches]

    def match(self, tokens: Sequence[int]) -> tuple[int, ...]:
        found: list[PrefixMatch] = self.all("match_prefix", tokens)
        self.nodes.append(tuple(match.node for match in found))
        _, blocks, _ = same((match.matched_tokens, match.blocks, match.node == ROOT) for match in found)
        return tuple(blocks)

    def insert(self, tokens: Sequence[int], n_own: int, off: int) -> None:
        own = self.match(tokens)[:n_own]  # the match's own ids first, then foreign ones
        n = max(0, len(tokens) // self.size + off)
        done: list[Inserted] = self.all("insert", tokens, [*own, *(next(self.blocks) for _ in range(n))][:n])
        if isinstance(done[0], Raised):
            same(done)
        else:
            same(inserted.duplicates for inserted in done)
            self.nodes.append(tuple(inserted.node for inserted in done))

    def on_node(self, call: str, choice: int) -> None:
        nodes = self.nodes[choice % len(self.nodes)]
        same(outcome(getattr(cache, call), node) for cache, node in zip(self.caches, nodes, strict=True))

    def check(self) -> None:
        counts = ("block_size", "cached_tokens", "cached_blocks", "evictable_blocks", "stats", "hit_rate")
        same(tuple(getattr(cache, count) for count in counts) for cache in self.caches)
        same(tree_picture(cache.tree) for cache in self.caches)


@few
@given(st.integers(1, 3), cache_calls)
def test_caches_agree(block_size: int, calls: list[tuple[Any, ...]]) -> None:
    caches = Caches(block_size)
    for call, *args in calls:
        if call == "match":
            caches.match(*args)
        elif call == "match and lock":
            caches.match(*args)
            caches.on_node("lock", -1)
        elif call == "insert":
            caches.insert(*args)
        elif call == "evict":
            same(caches.all("evict", *args))
        elif call == "bad token":
            assert same(caches.all("match_prefix", [0, 1, *args])) == Raised(ValueError)
            tokens = [0] * block_size + args
            blocks = [1] * (len(tokens) // block_size)
            assert same(caches.all("insert", tokens, blocks)) == Raised(ValueError)
        else:
            caches.on_node(call, *args)
        caches.check()


def test_the_worked_example_of_the_cache() -> None:
    """L8.4, section 3."""
    caches = Caches(2)
    same(inserted.duplicates for inserted in caches.all("insert", [1, 2, 3, 4, 5], [10, 11]))
    assert [caches.match(tokens) for tokens in ([1, 2, 3, 4, 9, 9], [1, 2, 3, 4], [7, 7, 7])] == [(10, 11), (10,), ()]
    caches.check()
    assert caches.caches[0].hit_rate == 6 / 13


# ---------------------------------------------------------------- block_manager (L10.4)

N_BLOCKS, SIZE = 7, 2
BASES = ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [1, 2, 3, 4, 50, 60, 70, 80], [3, 4, 5, 6, 7])
manager_calls = st.lists(
    st.one_of(
        st.tuples(st.just("allocate"), st.integers(0, 4), st.sampled_from(range(3)), st.integers(0, 15)),
        st.tuples(st.just("allocate"), st.integers(0, 4), st.just(0), st.integers(5, 15)),
        st.tuples(st.just("append_slot"), st.integers(0, 4)),
        st.tuples(st.just("release"), st.integers(0, 4), st.sampled_from([0, 0, 0, 0, 1, 2, 4, 99, -1])),
        st.tuples(st.just("bad token"), st.integers(0, 4), st.sampled_from([-1, 2**32])),
    ),
    min_size=25,
    max_size=50,
)


class World:
    """One manager over one pool. A block is known by its label: the moment it was handed out, and its place."""

    def __init__(self, kind: Any, mode: PrefixCache) -> None:
        self.names = kind.names
        self.pool = kind.pool(N_BLOCKS, SIZE)
        self.manager = kind.make(self.pool, mode)
        self.labels: dict[int, tuple[int, int]] = {}

    def call(self, name: str, *args: Any) -> Any:
        with modules.bound(self.names):
            return outcome(getattr(self.manager, name), *args)

    def label(self, moment: int, table: Sequence[int], n_old: int) -> list[tuple[int, int]]:
        assert len(set(table)) == len(table)
        self.labels |= {block: (moment, place) for place, block in enumerate(table) if place >= n_old}
        return [self.labels[block] for block in table]

    def picture(self, seqs: Iterable[int], names: Iterable[int]) -> Any:
        pool, manager = self.pool, self.manager
        assert pool.n_free + pool.n_used + pool.n_cached == pool.n_blocks
        named = {name: self.pool.find(name) for name in names}
        return (
            (pool.n_free, pool.n_used, pool.n_cached, pool.n_named, pool.evictions),
            (manager.mode, manager.available_blocks, manager.cached_blocks, manager.stats, manager.hit_rate),
            {seq: [self.labels[block] for block in manager.block_table(seq)] for seq in seqs},
            {name: self.labels[block] for name, block in named.items() if block is not None},
            {self.labels[block]: pool.refcount(block) for block in range(N_BLOCKS) if pool.refcount(block)},
            {self.labels[block]: pool.fill(block) for block in named.values() if block is not None},
        )


class Worlds:
    """Both managers over both sets of earlier modules, in lockstep."""

    def __init__(self, mode: PrefixCache) -> None:
        self.mode = mode
        self.worlds = [World(kind, mode) for kind in MANAGERS]
        self.written: dict[int, list[int]] = {}  # a token for each slot, by sequence
        self.names: set[int] = set()
        self.moments = count()

    def all(self, call: str, *args: Any) -> Any:
        return same(world.call(call, *args) for world in self.worlds)

    def held(self, choice: int) -> int:
        """A sequence that is held; for choice 4, and where none is, one that may not be."""
        return sorted(self.written)[choice % len(self.written)] if self.written and choice < 4 else choice

    def new(self, choice: int) -> int:
        """A sequence that is not held; for choice 4 one that may be."""
        return next(seq for seq in count() if seq not in self.written) if choice < 4 else choice

    def picture(self) -> Any:
        return same(world.picture(self.written, self.names) for world in self.worlds)

    def chain(self, tokens: Sequence[int]) -> list[int]:
        names = [0]
        for start in range(0, len(tokens) - SIZE + 1, SIZE):
            names.append(FLAT["kv_block_hash"](names[-1], tokens[start : start + SIZE]))
        self.names.update(names[1:])
        return names[1:]

    def leaves_order_open(self, tokens: Sequence[int]) -> bool:
        """Whether this prompt is refused in hash mode after hits on cached blocks.

        Whether such hits count as used now, the contract leaves open, so stories do without.
        """
        pool = self.worlds[0].pool
        found = [pool.find(name) for name in self.chain(tokens)[: (len(tokens) - 1) // SIZE]]
        hits = found[: found.index(None)] if None in found else found
        spare = pool.n_free + pool.n_cached - sum(pool.refcount(block) == 0 for block in hits)
        return len(hits) > 0 and -(-len(tokens) // SIZE) - len(hits) > spare

    def allocate(self, seq: int, tokens: list[int]) -> None:
        if self.leaves_order_open(tokens):
            return
        before = self.picture()
        given = [world.call("allocate", seq, tokens) for world in self.worlds]
        if not isinstance(given[0], Allocation):
            same(given)
            assert self.picture() == before
            return
        cached = same(allocation.cached_tokens for allocation in given)
        assert cached % SIZE == 0 and cached < len(tokens)
        moment = next(self.moments)
        for world, allocation in zip(self.worlds, given, strict=True):
            world.label(moment, allocation.blocks, cached // SIZE)
        self.written[seq] = list(tokens)

    def append_slot(self, seq: int) -> None:
        before = self.picture()
        if seq in self.written:
            n_old = len(self.worlds[0].manager.block_table(seq))
        if self.all("append_slot", seq) is not True:
            assert self.picture() == before
            return
        moment = next(self.moments)
        for world in self.worlds:
            world.label(moment, world.manager.block_table(seq), n_old)
        self.written[seq].append(20 + len(self.written[seq]))

    def release(self, seq: int, short: int) -> None:
        """End a sequence with so many of its slots not computed; -1: one token more than it has slots."""
        tokens = self.written.get(seq, [])
        computed = tokens[: max(0, len(tokens) - short)] if short >= 0 else [*tokens, 5]
        self.chain(tokens)
        if self.all("release", seq, computed) is None:
            del self.written[seq]


@pytest.mark.parametrize("mode", PrefixCache)
@few
@given(calls=manager_calls)
def test_managers_agree(mode: PrefixCache, calls: list[tuple[Any, ...]]) -> None:
    worlds = Worlds(mode)
    for call, seq, *args in calls:
        if call == "allocate":
            base, length = args
            worlds.allocate(worlds.new(seq), BASES[base][:length])
        elif call == "append_slot":
            worlds.append_slot(worlds.held(seq))
        elif call == "bad token":
            assert worlds.all("allocate", 99, [1, 2, *args]) == Raised(ValueError)
        else:
            worlds.release(worlds.held(seq), *args)
        worlds.picture()
    for seq in list(worlds.written):
        worlds.release(seq, 0)
    counts, manager_counts, *_ = worlds.picture()
    n_free, n_used, n_cached, *_ = counts
    assert n_used == (manager_counts[2] if mode is PrefixCache.RADIX else 0)
    assert n_free + n_used + n_cached == N_BLOCKS == manager_counts[1]


@pytest.mark.parametrize("kind", MANAGERS, ids=["flat on flat", "flat on reference", "reference on flat", "reference"])
class TestManagersOneByOne:
    """The worked example and the edges, with each manager on each set of earlier modules."""

    @pytest.mark.parametrize("mode", [PrefixCache.HASH, PrefixCache.RADIX])
    def test_the_worked_example(self, kind: Any, mode: PrefixCache) -> None:
        """L10.4, section 3."""
        with modules.bound(kind.names):
            manager = kind.make(pool := kind.pool(8, 4), mode)
            a = manager.allocate("A", range(1, 11))
            manager.release("A", range(1, 11))
            assert (manager.cached_blocks, manager.available_blocks) == (2, 8)
            b = manager.allocate("B", [1, 2, 3, 4, 5, 6, 7, 8, 99, 98, 97])
            assert (b.cached_tokens, b.blocks[:2], manager.hit_rate) == (8, a.blocks[:2], 8 / 21)
            assert pool.refcount(b.blocks[0]) == (2 if mode is PrefixCache.RADIX else 1)
            assert manager.allocate("C", range(1, 9)).cached_tokens == 4
            assert manager.allocate("D", [5, 6, 7, 8, 1]).cached_tokens == 0
            assert manager.stats == BlockStats(lookups=4, query_tokens=34, hit_tokens=12, evictions=0)

    @pytest.mark.parametrize("mode", PrefixCache)
    def test_wrong_calls_raise_and_change_nothing(self, kind: Any, mode: PrefixCache) -> None:
        with modules.bound(kind.names):
            manager = kind.make(pool := kind.pool(4, 2), mode)
            manager.allocate(1, b"abc")
            for call, args in [("append_slot", (2,)), ("release", (2, [])), ("block_table", (2,))]:
                assert outcome(getattr(manager, call), *args) == Raised(KeyError)
            for call, args in [
                ("allocate", (2, [])),
                ("allocate", (1, [1])),
                ("allocate", (2, [1, 2, 2**32])),
                ("allocate", (2, [1, 2, -1, 3])),
                ("release", (1, b"abcd")),
                ("release", (1, [97, 98, 2**32])),
                ("release", (1, [-1, 98])),
            ]:
                assert outcome(getattr(manager, call), *args) == Raised(ValueError), (call, args)
            assert (pool.n_free, pool.n_used, manager.stats.lookups) == (2, 2, 1)
            manager.release(1, b"abc")
            assert (manager.available_blocks, manager.cached_blocks) == (4, int(mode is not PrefixCache.NONE))

    @pytest.mark.parametrize("mode", [PrefixCache.HASH, PrefixCache.RADIX])
    def test_pressure_takes_the_tail_of_a_cached_prefix(self, kind: Any, mode: PrefixCache) -> None:
        """Of a leaf of three blocks the radix cache gives up all, of which one stays free; hash gives up one."""
        with modules.bound(kind.names):
            manager = kind.make(kind.pool(4, 2), mode)
            manager.allocate(1, b"abcdef")
            manager.release(1, b"abcdef")
            manager.allocate(2, b"wxyz")
            assert manager.stats.evictions == (3 if mode is PrefixCache.RADIX else 1)
            manager.release(2, b"")
            assert manager.allocate(3, b"abcdefg").cached_tokens == (0 if mode is PrefixCache.RADIX else 4)

    @pytest.mark.parametrize("mode", [PrefixCache.HASH, PrefixCache.RADIX])
    def test_a_refused_prompt_leaves_its_hits_as_they_were(self, kind: Any, mode: PrefixCache) -> None:
        with modules.bound(kind.names):
            manager = kind.make(pool := kind.pool(4, 2), mode)
            manager.allocate(1, b"abcd")
            manager.release(1, b"abcd")
            manager.allocate(2, b"xy")
            rho, stats = [pool.refcount(block) for block in range(4)], manager.stats
            for _ in range(2):  # the hits are no spare room: 2 of them and 2 fresh blocks, where 1 is left
                assert manager.allocate(3, b"abcdefg") is None
                assert [pool.refcount(block) for block in range(4)] == rho
            assert (manager.stats, manager.cached_blocks, manager.available_blocks) == (stats, 2, 3)
            assert manager.allocate(3, b"abcde").cached_tokens == 4
            assert manager.append_slot(3) and not manager.append_slot(3)

    def test_evictions_count_from_when_the_manager_was_made(self, kind: Any) -> None:
        with modules.bound(kind.names):
            pool = kind.pool(1, 1)
            pool.alloc(1)
            pool.set_fill(0, 1)
            assert pool.register(0, 77)
            pool.release(0)
            assert pool.alloc(1) == [0] and pool.evictions == 1
            pool.release(0)
            assert kind.make(pool, PrefixCache.HASH).stats.evictions == 0

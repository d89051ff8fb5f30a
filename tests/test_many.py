"""The calls over many blocks at once give what the single calls give, and the compiled hash what the readable one does.

Two ways lead through `course.many`: a pool's own calls where it has them, and single calls where it hasn't.
Both are held against single calls written out here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from fnv_c import lib as compiled
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.implementations import flat
from course import many
from course.contract import BlockId, BlockStateError
from course.modules import find
from solutions.kv_pool import KvPool, fnv1a_64, kv_block_hash

quick = settings(derandomize=True, max_examples=80, deadline=None, database=None)
N, B = 6, 2
NAMES = range(1, 9)
tokens = st.lists(st.integers(0, 2**32 - 1), max_size=9)
parents = st.integers(0, 2**64 - 1)


class SingleCalls:
    """A pool that has the contract's calls and no others."""

    HIDDEN = ("name_blocks", "lookup_prefix", "retain_many", "register_full", "release_many")

    def __init__(self, pool: KvPool) -> None:
        self.pool = pool

    def __getattr__(self, call: str) -> Any:
        if call in self.HIDDEN:
            raise AttributeError(call)
        return getattr(self.pool, call)


# ---------------------------------------------------------------- pools in the same state

steps = st.lists(st.tuples(st.sampled_from("aaarrrttnnnnl"), st.integers(0, 7)), min_size=5, max_size=40)
ids = st.lists(st.integers(0, N - 1), max_size=N)
bad_ids = st.sampled_from([-1, -N, N, N + 1])


def pool_after(calls: list[tuple[str, int]]) -> KvPool:
    """A pool with blocks in all states: the same calls give the same pool."""
    pool = KvPool(N, B)
    for call, n in calls:
        used = [block for block in range(N) if pool.refcount(block)]
        if call == "a" and pool.n_free + pool.n_cached:
            pool.alloc(1)
        elif call == "l":
            pool.lookup(NAMES[n])
        elif call == "r" and used:
            pool.release(used[n % len(used)])
        elif call == "t" and used:
            pool.retain(used[n % len(used)])
        elif call == "n" and used:
            name(pool, used[n % len(used)], NAMES[n])
    return pool


def name(pool: Any, block: BlockId, its_name: int) -> None:
    """Fill and name a block that has no name yet."""
    if not any(pool.find(known) == block for known in NAMES):
        pool.set_fill(block, B)
        pool.register(block, its_name)


def picture(pool: Any) -> Any:
    """All that can be seen of a pool, the order in which its blocks go to the next callers included."""
    seen = [(pool.refcount(block), pool.fill(block)) for block in range(N)]
    seen += [{known: pool.find(known) for known in NAMES}]
    seen += [pool.n_free, pool.n_used, pool.n_cached, pool.n_named, pool.evictions]
    return seen, [pool.alloc(1)[0] for _ in range(pool.n_free + pool.n_cached)]


def agree(calls: list[tuple[str, int]], at_once: Callable[[Any], Any], one_by_one: Callable[[Any], Any]) -> None:
    """Both ways through `course.many`, and the single calls, end in the same result and state."""
    own, fallback, single = pool_after(calls), pool_after(calls), pool_after(calls)
    results = [at_once(own), at_once(SingleCalls(fallback)), one_by_one(single)]
    assert results[0] == results[1] == results[2]
    assert picture(own) == picture(fallback) == picture(single)


def refused(calls: list[tuple[str, int]], at_once: Callable[[KvPool], Any], error: type[Exception]) -> None:
    """A pool's own call raises this, and the pool is as it was."""
    pool = pool_after(calls)
    with pytest.raises(error):
        at_once(pool)
    assert picture(pool) == picture(pool_after(calls))


def used_blocks(calls: list[tuple[str, int]]) -> list[BlockId]:
    pool = pool_after(calls)
    return [block for block in range(N) if pool.refcount(block)]


# ---------------------------------------------------------------- names of blocks


@quick
@given(st.binary(max_size=100))
def test_the_readable_hash_is_the_compiled_one(data: bytes) -> None:
    assert fnv1a_64(data) == compiled.fnv1a_64(data, len(data))


def test_the_readable_hash_is_fnv_1a() -> None:
    """Test vectors that FNV's authors publish."""
    assert (fnv1a_64(b""), fnv1a_64(b"a"), fnv1a_64(b"foobar")) == (
        0xCBF29CE484222325,
        0xAF63DC4C8601EC8C,
        0x85944171F73967E8,
    )


@quick
@given(parents, tokens)
def test_a_name_is_the_readable_hash_of_parent_and_tokens(parent: int, run: list[int]) -> None:
    data = parent.to_bytes(8, "little") + b"".join(token.to_bytes(4, "little") for token in run)
    assert kv_block_hash(parent, run) == (fnv1a_64(data) or 1) == flat(find("L10.1")).kv_block_hash(parent, run)


@quick
@given(st.integers(1, 4), tokens, parents)
def test_name_blocks_chains_the_names_of_full_blocks(size: int, run: list[int], parent: int) -> None:
    expected, last = [], parent
    for start in range(0, len(run) - size + 1, size):
        last = kv_block_hash(last, run[start : start + size])
        expected.append(last)
    for pool in (KvPool(1, size), SingleCalls(KvPool(1, size))):
        assert many.name_blocks(pool, kv_block_hash, run, parent) == expected
        assert many.name_blocks(pool, kv_block_hash, run) == many.name_blocks(pool, kv_block_hash, run, 0)
    assert KvPool(1, size).name_blocks(run) == KvPool(1, size).name_blocks(run, 0)


def test_name_blocks_never_gives_0() -> None:
    """A block of which FNV-1a gives 0 is called 1, and is the parent of the next under that name."""
    zero = [341251436, 1784661086, 219767518, 1145903402]
    for pool in (KvPool(1, 4), SingleCalls(KvPool(1, 4))):
        assert many.name_blocks(pool, kv_block_hash, [*zero, 1, 2, 3, 4]) == [1, kv_block_hash(1, [1, 2, 3, 4])]


@pytest.mark.parametrize(
    "run, parent", [([1, 2, -1, 4], 0), ([1, 2**32], 0), ([1, 2, -1], 0), ([2**32], 0), ([1, 2], -1), ([1, 2], 2**64)]
)
@pytest.mark.parametrize("pool", [KvPool(1, 2), SingleCalls(KvPool(1, 2))], ids=["own", "single calls"])
def test_name_blocks_refuses_ids_out_of_range(pool: Any, run: list[int], parent: int) -> None:
    with pytest.raises(ValueError):
        many.name_blocks(pool, kv_block_hash, run, parent)


# ---------------------------------------------------------------- references


@quick
@given(steps, st.lists(st.sampled_from(NAMES), max_size=6))
def test_lookup_prefix_looks_up_until_the_first_miss(calls: list[tuple[str, int]], names: list[int]) -> None:
    def one_by_one(pool: KvPool) -> list[BlockId]:
        hits: list[BlockId] = []
        for wanted in names:
            if (block := pool.lookup(wanted)) is None:
                return hits
            hits.append(block)
        return hits

    agree(calls, lambda pool: many.lookup_prefix(pool, names), one_by_one)


@quick
@given(steps, ids)
def test_retain_all_retains_each(calls: list[tuple[str, int]], chosen: list[BlockId]) -> None:
    there = pool_after(calls)
    held = [
        block for block in chosen if there.refcount(block) or there.fill(block)
    ]  # used or cached; any number of times
    agree(calls, lambda pool: many.retain_all(pool, held), each("retain", held))


@quick
@given(steps, st.randoms(use_true_random=False))
def test_release_all_releases_each_in_order(calls: list[tuple[str, int]], chance: Any) -> None:
    blocks = used_blocks(calls)
    chance.shuffle(blocks)
    agree(calls, lambda pool: many.release_all(pool, blocks), each("release", blocks))


@quick
@given(steps, st.lists(st.sampled_from(NAMES), min_size=N, max_size=N))
def test_register_full_fills_and_names_each(calls: list[tuple[str, int]], names: list[int]) -> None:
    there = pool_after(calls)
    named = {there.find(known) for known in NAMES}
    blocks = [block for block in used_blocks(calls) if block not in named]

    def one_by_one(pool: KvPool) -> None:
        for block, its_name in zip(blocks, names, strict=False):
            name(pool, block, its_name)

    agree(calls, lambda pool: many.register_full(pool, blocks, names[: len(blocks)]), one_by_one)


@quick
@given(steps, st.lists(st.sampled_from(NAMES), min_size=N, max_size=N))
def test_register_full_leaves_named_blocks_as_they_are(calls: list[tuple[str, int]], names: list[int]) -> None:
    blocks = used_blocks(calls)
    own, single = pool_after(calls), pool_after(calls)
    own.register_full(blocks, names[: len(blocks)])
    for block, its_name in zip(blocks, names, strict=False):
        name(single, block, its_name)
    assert picture(own) == picture(single)


def each(call: str, blocks: Sequence[BlockId]) -> Callable[[Any], None]:
    """The single call on each block."""

    def one_by_one(pool: Any) -> None:
        for block in blocks:
            getattr(pool, call)(block)

    return one_by_one


# ---------------------------------------------------------------- all or nothing


@quick
@given(steps, st.integers(0, N), bad_ids)
def test_one_block_out_of_range_stops_all(calls: list[tuple[str, int]], place: int, bad: BlockId) -> None:
    blocks = used_blocks(calls)
    blocks.insert(place, bad)
    refused(calls, lambda pool: pool.retain_many(blocks), BlockStateError)
    refused(calls, lambda pool: pool.release_many(blocks), BlockStateError)
    refused(calls, lambda pool: pool.register_full(blocks, [90 + i for i in range(len(blocks))]), BlockStateError)


@pytest.mark.parametrize("bad", [-1, -N, N])
def test_no_block_is_counted_from_the_end(bad: BlockId) -> None:
    all_used = [("a", 0)] * N
    for call in ("retain_many", "release_many"):
        refused(all_used, lambda pool, call=call: getattr(pool, call)([0, bad]), BlockStateError)
    refused(all_used, lambda pool: pool.register_full([0, bad], [1, 2]), BlockStateError)


@quick
@given(steps, st.integers(0, N), st.integers(0, N))
def test_one_block_in_the_wrong_state_stops_all(calls: list[tuple[str, int]], place: int, choice: int) -> None:
    pool = pool_after(calls)
    idle = [block for block in range(N) if not pool.refcount(block)]
    free = [block for block in idle if not pool.fill(block)]
    if idle:
        blocks = used_blocks(calls)
        blocks.insert(place, idle[choice % len(idle)])
        refused(calls, lambda pool: pool.release_many(blocks), BlockStateError)
        refused(calls, lambda pool: pool.register_full(blocks, [90 + i for i in range(len(blocks))]), BlockStateError)
    if free:
        blocks = [block for block in range(N) if block not in free]
        blocks.insert(place, free[choice % len(free)])
        refused(calls, lambda pool: pool.retain_many(blocks), BlockStateError)


@quick
@given(steps, st.integers(0, N), st.integers(0, N))
def test_release_many_takes_each_block_once(calls: list[tuple[str, int]], place: int, choice: int) -> None:
    blocks = used_blocks(calls)
    if blocks:
        blocks.insert(place, blocks[choice % len(blocks)])
        refused(calls, lambda pool: pool.release_many(blocks), BlockStateError)


def test_register_full_wants_a_name_for_each_block() -> None:
    three = [("a", 0)] * 3
    for names in ([1, 2], [1, 2, 3, 4]):
        refused(three, lambda pool, names=names: pool.register_full([0, 1, 2], names), ValueError)


def test_nothing_for_no_blocks() -> None:
    for pool in (KvPool(2, B), SingleCalls(KvPool(2, B))):
        assert many.name_blocks(pool, kv_block_hash, []) == many.lookup_prefix(pool, []) == []
        many.retain_all(pool, [])
        many.register_full(pool, [], [])
        many.release_all(pool, [])
        assert (pool.n_free, pool.n_named) == (2, 0)


def test_a_pool_of_single_calls_stops_where_it_is_refused() -> None:
    """Single calls can't take back what they did: only a pool's own call is all or nothing."""
    pool = SingleCalls(KvPool(2, B))
    (block,) = pool.alloc(1)
    with pytest.raises(BlockStateError):
        many.retain_all(pool, [block, N])
    assert pool.refcount(block) == 2

"""L10.1 · A student's own tests of the KV block pool: each rule by an example, and the counts under random calls.

They know the contract's calls. Which implementation `KvPool` stands for, and which free block it hands out,
they do not know.
"""

from __future__ import annotations

import contextlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course import contract
from course.contract import BlockId, BlockStateError, PoolExhausted
from course.modules import KvPool, kv_block_hash

B = 2


def named(pool: contract.KvPool, *names: int) -> list[BlockId]:
    """A used, full block for each name."""
    blocks = pool.alloc(len(names))
    for block, name in zip(blocks, names, strict=True):
        pool.set_fill(block, B)
        assert pool.register(block, name) is True
    return blocks


def cached(pool: contract.KvPool, *names: int) -> list[BlockId]:
    """A cached block for each name, the least recently used first."""
    blocks = named(pool, *names)
    for block in blocks:
        pool.release(block)
    return blocks


def counts(pool: contract.KvPool) -> tuple[int, int, int]:
    """Free, used and cached blocks."""
    return pool.n_free, pool.n_used, pool.n_cached


# ---------------------------------------------------------------- names


def fnv1a(data: bytes) -> int:
    """The definition, once more."""
    value = 14695981039346656037
    for byte in data:
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


@given(st.integers(0, 2**64 - 1), st.lists(st.integers(0, 2**32 - 1), max_size=5))
def test_a_name_is_fnv_over_parent_and_tokens(parent: int, tokens: list[int]) -> None:
    data = parent.to_bytes(8, "little") + b"".join(token.to_bytes(4, "little") for token in tokens)
    assert kv_block_hash(parent, tokens) == fnv1a(data)


def test_the_parent_is_part_of_the_name() -> None:
    first = kv_block_hash(0, [1, 2, 3, 4])
    assert kv_block_hash(first, [5, 6, 7, 8]) != kv_block_hash(0, [5, 6, 7, 8])


def test_a_name_is_never_0() -> None:
    """These 8 bytes take FNV-1a to 0."""
    assert fnv1a(bytes.fromhex("d56bb95342870836")) == 0
    assert kv_block_hash(int.from_bytes(bytes.fromhex("d56bb95342870836"), "little"), []) == 1


def test_ids_out_of_range_have_no_name() -> None:
    for parent, token in ((-1, 1), (2**64, 1), (0, -1), (0, 2**32)):
        with pytest.raises(ValueError):
            kv_block_hash(parent, [token])


# ---------------------------------------------------------------- handing out


def test_a_pool_has_at_least_one_block_of_one_position() -> None:
    pool = KvPool(3, B)
    assert (pool.n_blocks, pool.block_size, pool.n_free, pool.evictions) == (3, B, 3, 0)
    for sizes in ((0, 1), (1, 0), (-1, 1)):
        with pytest.raises(ValueError):
            KvPool(*sizes)


def test_every_block_is_handed_out_once() -> None:
    pool = KvPool(4, B)
    assert pool.alloc(0) == []
    assert sorted(pool.alloc(1) + pool.alloc(3)) == [0, 1, 2, 3]
    assert [(pool.refcount(block), pool.fill(block)) for block in range(4)] == [(1, 0)] * 4


def test_alloc_gives_all_or_nothing() -> None:
    pool = KvPool(3, B)
    pool.alloc(1)
    cached(pool, 7)
    for n, error in ((3, PoolExhausted), (-1, ValueError)):
        with pytest.raises(error):
            pool.alloc(n)
        assert counts(pool) == (1, 1, 1)
    with pytest.raises(PoolExhausted) as caught:
        pool.alloc(5)
    assert (caught.value.needed, caught.value.available) == (5, 2)
    assert len(pool.alloc(2)) == 2


def test_free_blocks_go_first_then_the_least_recently_released() -> None:
    pool = KvPool(4, B)
    a, b, c = named(pool, 1, 2, 3)
    for block in (b, c, a):
        pool.release(block)
    (free,) = pool.alloc(1)
    assert free not in (a, b, c)
    assert [pool.alloc(1), pool.alloc(1)] == [[b], [c]]
    assert (pool.evictions, pool.n_named) == (2, 1)


def test_an_alloc_may_evict_several() -> None:
    pool = KvPool(3, B)
    cached(pool, 1, 2, 3)
    pool.alloc(3)
    assert (pool.evictions, pool.n_named) == (3, 0)


# ---------------------------------------------------------------- references


def test_references_are_counted() -> None:
    pool = KvPool(1, B)
    (block,) = pool.alloc(1)
    pool.retain(block)
    pool.set_fill(block, 1)
    pool.release(block)
    assert (pool.refcount(block), pool.fill(block), counts(pool)) == (1, 1, (0, 1, 0))
    pool.release(block)
    assert (pool.refcount(block), pool.fill(block), counts(pool)) == (0, 0, (1, 0, 0))


def test_what_a_state_does_not_allow_is_refused() -> None:
    pool = KvPool(3, B)
    (kept,) = cached(pool, 7)
    (free,) = pool.alloc(1)
    pool.release(free)
    for block in (free, kept, -1, 3):
        with pytest.raises(BlockStateError):
            pool.release(block)
        with pytest.raises(BlockStateError):
            pool.set_fill(block, 1)
        with pytest.raises(BlockStateError):
            pool.register(block, 8)
    for block in (free, -1, 3):
        with pytest.raises(BlockStateError):
            pool.retain(block)
    assert counts(pool) == (2, 0, 1)


# ---------------------------------------------------------------- names and the cache


def test_only_a_full_block_without_a_name_takes_a_free_name() -> None:
    pool = KvPool(2, B)
    first, second = pool.alloc(2)
    pool.set_fill(first, B - 1)
    assert pool.register(first, 7) is False
    pool.set_fill(first, B)
    assert pool.register(first, 7) is True
    pool.set_fill(second, B)
    assert pool.register(second, 7) is False
    assert pool.register(first, 8) is False
    assert (pool.find(7), pool.find(8), pool.n_named) == (first, None, 1)


def test_the_fill_of_a_named_block_is_fixed() -> None:
    pool = KvPool(2, B)
    (block,) = named(pool, 7)
    with pytest.raises(BlockStateError):
        pool.set_fill(block, 0)
    (other,) = pool.alloc(1)
    for n in (-1, B + 1):
        with pytest.raises(BlockStateError):
            pool.set_fill(other, n)
    assert (pool.fill(block), pool.fill(other)) == (B, 0)


def test_a_named_block_is_cached_and_found_again() -> None:
    pool = KvPool(2, B)
    (block,) = cached(pool, 7)
    assert (counts(pool), pool.fill(block)) == ((1, 0, 1), B)
    assert (pool.find(7), pool.refcount(block)) == (block, 0)
    assert (pool.lookup(7), pool.refcount(block), counts(pool)) == (block, 1, (1, 1, 0))
    assert (pool.lookup(7), pool.refcount(block)) == (block, 2)
    assert pool.lookup(8) is None


def test_a_hit_is_a_use_and_a_look_is_none() -> None:
    pool = KvPool(3, B)
    a, b, c = cached(pool, 1, 2, 3)
    assert pool.lookup(1) == a
    pool.release(a)
    assert pool.find(2) == b
    assert [pool.alloc(1) for _ in range(3)] == [[b], [c], [a]]


def test_an_evicted_block_forgets_all() -> None:
    pool = KvPool(1, B)
    (block,) = cached(pool, 7)
    assert pool.alloc(1) == [block]
    assert (pool.find(7), pool.n_named, pool.fill(block), pool.refcount(block)) == (None, 0, 0, 1)


# ---------------------------------------------------------------- all together

calls = st.lists(st.tuples(st.sampled_from(["alloc", "release", "register", "lookup"]), st.integers(1, 5)), max_size=40)


@given(calls)
def test_the_pool_knows_who_holds_what(steps: list[tuple[str, int]]) -> None:
    """Whatever is called: references are those that we took, and every block is in one of three states."""
    pool = KvPool(4, B)
    held: list[BlockId] = []
    for call, n in steps:
        if call == "alloc":
            with contextlib.suppress(PoolExhausted):
                held += pool.alloc(n)
        elif call == "lookup" and (block := pool.lookup(n)) is not None:
            held.append(block)
        elif call == "release" and held:
            pool.release(held.pop(n % len(held)))
        elif call == "register" and held and pool.find(n) is None:
            block = held[n % len(held)]
            with contextlib.suppress(BlockStateError):
                pool.set_fill(block, B)
            pool.register(block, n)
        references = Counter(held)
        assert [pool.refcount(block) for block in range(4)] == [references[block] for block in range(4)]
        assert pool.n_used == len(references)
        assert sum(counts(pool)) == 4
        assert pool.n_cached <= pool.n_named <= pool.n_cached + pool.n_used

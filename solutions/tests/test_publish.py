"""L10.4 extended · A student's own tests of `publish`: when blocks are found, who holds them, and twins that race.

They know the contract's calls. Which implementation `BlockManager` stands for, they do not know.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course import contract
from course.contract import PrefixCache
from course.modules import BlockManager, KvPool

NONE = PrefixCache.NONE
HASH = PrefixCache.HASH
RADIX = PrefixCache.RADIX
SIZE = 4
A = list(range(1, 11))
B = [*range(1, 9), 99, 98, 97]
OTHER = list(range(1000, 1100))

in_both_caches = pytest.mark.parametrize("mode", [HASH, RADIX])
in_every_mode = pytest.mark.parametrize("mode", [NONE, HASH, RADIX])


def start(mode: PrefixCache, n_blocks: int = 8) -> tuple[contract.KvPool, contract.BlockManager]:
    """A pool, and a manager over it that publishes as soon as blocks are computed."""
    pool = KvPool(n_blocks, SIZE)
    return pool, BlockManager(pool, mode, publish="prefill")


def admit(manager: contract.BlockManager, seq: str, tokens: list[int]) -> contract.Allocation:
    """Allocate for a prompt that fits."""
    allocation = manager.allocate(seq, tokens)
    assert allocation is not None
    return allocation


def found(manager: contract.BlockManager, tokens: list[int]) -> int:
    """How many of these tokens another prompt finds; it leaves nothing behind."""
    cached = admit(manager, "looks", [*tokens, 5000]).cached_tokens
    manager.release("looks", [])
    return cached


def is_quiet(pool: contract.KvPool, manager: contract.BlockManager) -> bool:
    """With no request running, nobody holds a block but the tree, and all can be had."""
    in_tree = manager.cached_blocks if manager.mode is RADIX else 0
    rho = [pool.refcount(block) for block in range(pool.n_blocks)]
    return (sum(rho), pool.n_used, manager.available_blocks) == (in_tree, in_tree, pool.n_blocks)


# ---------------------------------------------------------------- when blocks are found


@in_both_caches
def test_b_finds_what_a_has_computed_while_a_runs(mode: PrefixCache) -> None:
    pool, manager = start(mode)
    first = admit(manager, "A", A)
    manager.publish("A", A)
    stats = manager.stats
    second = admit(manager, "B", B)
    assert (second.cached_tokens, second.blocks[:2]) == (8, first.blocks[:2])
    assert [pool.refcount(block) for block in first.blocks] == ([2, 2, 1] if mode is HASH else [3, 3, 1])
    assert (stats.lookups, stats.query_tokens, stats.hit_tokens) == (1, 10, 0)
    assert (manager.block_table("A"), manager.available_blocks) == (list(first.blocks), 4)
    manager.release("A", A)
    manager.release("B", B)
    assert (manager.cached_blocks, pool.n_free) == (2, 6)
    assert is_quiet(pool, manager)


@in_every_mode
@pytest.mark.parametrize("options", [(), ("release",)])
def test_on_release_nothing_is_published(mode: PrefixCache, options: tuple[contract.Publish, ...]) -> None:
    manager = BlockManager(KvPool(8, SIZE), mode, *options)
    admit(manager, "A", A)
    manager.publish("A", A)
    assert (manager.cached_blocks, found(manager, A[:8])) == (0, 0)
    manager.release("A", A)
    assert found(manager, A[:8]) == (0 if mode is NONE else 8)


def test_without_a_cache_nothing_is_published() -> None:
    pool, manager = start(NONE)
    admit(manager, "A", A)
    manager.publish("A", A)
    assert (found(manager, A[:8]), pool.n_named) == (0, 0)
    manager.release("A", A)
    assert pool.n_free == 8


@in_both_caches
@given(ends=st.lists(st.integers(min_value=0, max_value=26), max_size=6))
def test_each_chunk_adds_its_full_blocks(mode: PrefixCache, ends: list[int]) -> None:
    pool, manager = start(mode, n_blocks=14)
    admit(manager, "long", OTHER[:26])
    most = 0
    for end in ends:
        manager.publish("long", OTHER[:end])
        most = max(most, end // SIZE)
        assert (manager.cached_blocks, found(manager, OTHER[:24])) == (most, most * SIZE)
    manager.release("long", OTHER[:26])
    assert found(manager, OTHER[:24]) == 24
    assert is_quiet(pool, manager)


@in_both_caches
def test_answers_are_published_as_they_grow(mode: PrefixCache) -> None:
    pool, manager = start(mode)
    admit(manager, "turn", OTHER[:6])
    for end in range(7, 14):
        assert manager.append_slot("turn")
        manager.publish("turn", OTHER[:end])
        assert found(manager, OTHER[:12]) == end // SIZE * SIZE
    manager.release("turn", OTHER[:13])
    assert is_quiet(pool, manager)


# ---------------------------------------------------------------- twins


@in_both_caches
@pytest.mark.parametrize("first_ends_first", [True, False])
def test_twins_keep_their_own_blocks(mode: PrefixCache, first_ends_first: bool) -> None:
    pool, manager = start(mode)
    first, second = admit(manager, "first", A), admit(manager, "second", B)
    manager.publish("first", A)
    manager.publish("second", B)
    assert manager.block_table("second") == list(second.blocks)
    assert [pool.refcount(block) for block in second.blocks] == [1, 1, 1]
    for seq, tokens in (("first", A), ("second", B))[:: 1 if first_ends_first else -1]:
        manager.release(seq, tokens)
    assert (manager.cached_blocks, pool.n_free) == (2, 6)
    assert is_quiet(pool, manager)
    assert admit(manager, "again", A).blocks[:2] == first.blocks[:2]


@in_both_caches
def test_a_twin_makes_up_for_a_first_one_that_is_gone(mode: PrefixCache) -> None:
    pool, manager = start(mode)
    admit(manager, "first", A)
    admit(manager, "second", B)
    manager.publish("first", A)
    manager.publish("second", B)
    manager.release("first", A)
    admit(manager, "press", OTHER[: SIZE * manager.available_blocks])
    manager.release("press", [])
    manager.release("second", B)
    assert found(manager, B[:8]) == 8
    assert is_quiet(pool, manager)


@in_both_caches
def test_a_twin_goes_on_after_the_first_one_is_gone(mode: PrefixCache) -> None:
    pool, manager = start(mode)
    admit(manager, "first", A)
    admit(manager, "second", B)
    manager.publish("first", A)
    manager.publish("second", B)
    manager.release("first", A)
    admit(manager, "press", OTHER[: SIZE * manager.available_blocks])
    manager.release("press", [])
    assert manager.append_slot("second")
    manager.publish("second", [*B, 7])
    manager.release("second", [*B, 7])
    assert found(manager, [*B, 7]) == 12
    assert is_quiet(pool, manager)


# ---------------------------------------------------------------- the end, and mistakes


@in_both_caches
def test_published_blocks_are_not_spare_room_while_their_request_runs(mode: PrefixCache) -> None:
    _, manager = start(mode)
    admit(manager, "A", A)
    manager.publish("A", A[:5])
    manager.publish("A", A)
    assert manager.available_blocks == 5
    assert manager.allocate("big", OTHER[:24]) is None
    admit(manager, "fits", OTHER[:20])
    manager.release("fits", [])
    assert found(manager, A[:8]) == 8
    manager.release("A", A)
    assert manager.available_blocks == 8
    admit(manager, "whole", OTHER[:32])


@in_both_caches
@pytest.mark.parametrize("kept", [0, 3, 4, 8, 10])
def test_a_preempted_request_gives_everything_back(mode: PrefixCache, kept: int) -> None:
    pool, manager = start(mode)
    admit(manager, "A", A)
    manager.publish("A", A)
    manager.release("A", A[:kept])
    assert (manager.cached_blocks, pool.n_free) == (2, 6)
    assert is_quiet(pool, manager)


@in_every_mode
def test_mistakes_are_refused(mode: PrefixCache) -> None:
    pool, manager = start(mode)
    admit(manager, "A", A)
    with pytest.raises(KeyError):
        manager.publish("unknown", [])
    for wrong in ([*A, 1], [-1, *A[1:9]]):
        with pytest.raises(ValueError):
            manager.publish("A", wrong)
    with pytest.raises(ValueError):
        BlockManager(pool, mode, publish="often")  # type: ignore[arg-type]
    assert (manager.cached_blocks, manager.available_blocks) == (0, 5)


@in_both_caches
def test_a_twin_that_goes_on_alone_can_have_the_whole_pool(mode: PrefixCache) -> None:
    pool, manager = start(mode, n_blocks=6)
    prompts = {"first": [*A[:8], 60, 61, 62, 63], "second": [*A[:8], 70, 71, 72, 73]}
    for seq, prompt in prompts.items():
        admit(manager, seq, prompt)
    for seq, prompt in prompts.items():
        manager.publish(seq, prompt)
    manager.release("first", prompts["first"])
    assert all(manager.append_slot("second") for _ in range(12))
    assert (manager.append_slot("second"), len(set(manager.block_table("second")))) == (False, 6)
    manager.release("second", prompts["second"])
    assert is_quiet(pool, manager)

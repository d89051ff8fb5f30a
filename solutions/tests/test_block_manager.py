"""L10.4 · A student's own tests of the block manager: the chapter's examples, each rule once, and a property.

They know the contract's calls. Which implementation `BlockManager` stands for, they do not know.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course import contract
from course.contract import BlockStats, PrefixCache
from course.modules import BlockManager, KvPool, kv_block_hash

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
    """A pool, and a manager over it."""
    pool = KvPool(n_blocks, SIZE)
    return pool, BlockManager(pool, mode)


def admit(manager: contract.BlockManager, seq: str, tokens: list[int]) -> contract.Allocation:
    """Allocate for a prompt that fits."""
    allocation = manager.allocate(seq, tokens)
    assert allocation is not None
    return allocation


def come_and_go(manager: contract.BlockManager, seq: str, tokens: list[int]) -> contract.Allocation:
    """Admit a prompt, and end it once all of it is computed."""
    allocation = admit(manager, seq, tokens)
    manager.release(seq, tokens)
    return allocation


# ---------------------------------------------------------------- the worked example


@in_both_caches
def test_b_reuses_the_two_full_blocks_of_a(mode: PrefixCache) -> None:
    pool, manager = start(mode)
    first = come_and_go(manager, "A", A)
    assert (manager.cached_blocks, pool.n_free, manager.hit_rate) == (2, 6, 0.0)
    second = admit(manager, "B", B)
    assert (second.cached_tokens, len(second.blocks)) == (8, 3)
    assert second.blocks[:2] == first.blocks[:2]
    assert manager.block_table("B") == list(second.blocks)
    assert manager.stats == BlockStats(lookups=2, query_tokens=21, hit_tokens=8)
    assert manager.hit_rate == 8 / 21
    assert (manager.cached_blocks, manager.available_blocks) == (2, 5)


def test_the_pool_finds_blocks_by_their_chained_names() -> None:
    pool, manager = start(HASH)
    first = come_and_go(manager, "A", A)
    h0 = kv_block_hash(0, A[:4])
    assert pool.find(h0) == first.blocks[0]
    assert pool.find(kv_block_hash(h0, A[4:8])) == first.blocks[1]


@in_both_caches
def test_the_last_token_is_computed_anew(mode: PrefixCache) -> None:
    _, manager = start(mode)
    come_and_go(manager, "A", A)
    for n in range(1, 11):
        assert come_and_go(manager, f"{n}", A[:n]).cached_tokens == (n - 1) // SIZE * SIZE


@in_both_caches
def test_a_block_is_found_after_its_own_prefix_only(mode: PrefixCache) -> None:
    _, manager = start(mode)
    come_and_go(manager, "A", A)
    assert admit(manager, "D", [5, 6, 7, 8, 0]).cached_tokens == 0
    assert admit(manager, "E", [9, 9, 9, 9, 5, 6, 7, 8, 0]).cached_tokens == 0


def test_without_a_cache_nothing_is_kept_and_all_is_counted() -> None:
    pool, manager = start(NONE)
    come_and_go(manager, "A", A)
    assert (pool.n_free, pool.n_named) == (8, 0)
    assert come_and_go(manager, "again", A).cached_tokens == 0
    assert manager.stats == BlockStats(lookups=2, query_tokens=20)


# ---------------------------------------------------------------- room


@in_both_caches
def test_a_full_cache_makes_room_for_new_prompts(mode: PrefixCache) -> None:
    pool, manager = start(mode)
    for turn in range(4):
        come_and_go(manager, f"{turn}", [turn] * 8)
    assert (manager.cached_blocks, pool.n_free, manager.available_blocks) == (8, 0, 8)
    admit(manager, "new", OTHER[:16])
    assert manager.stats.evictions == 4


@in_both_caches
def test_free_blocks_go_before_cached_ones(mode: PrefixCache) -> None:
    _, manager = start(mode)
    for turn in range(4):
        come_and_go(manager, f"{turn}", [turn] * 4)
    admit(manager, "new", OTHER[:24])
    assert (manager.stats.evictions, manager.cached_blocks) == (2, 2)


@in_both_caches
def test_the_whole_pool_is_there_again_once_all_have_ended(mode: PrefixCache) -> None:
    _, manager = start(mode)
    come_and_go(manager, "A", A)
    admit(manager, "B", B)
    admit(manager, "B too", B)
    manager.release("B", B)
    manager.release("B too", B)
    assert manager.available_blocks == 8
    admit(manager, "whole", OTHER[:32])


@in_both_caches
def test_a_refused_prompt_pins_nothing_and_counts_nothing(mode: PrefixCache) -> None:
    pool, manager = start(mode)
    first = come_and_go(manager, "A", A)
    before = manager.stats
    rho = [pool.refcount(block) for block in first.blocks]
    assert manager.allocate("big", [*A[:8], *OTHER[:40]]) is None
    assert [pool.refcount(block) for block in first.blocks] == rho
    assert manager.stats == before
    assert manager.available_blocks == 8
    with pytest.raises(KeyError):
        manager.block_table("big")
    admit(manager, "whole", OTHER[:32])


@in_both_caches
def test_hits_are_not_room_for_the_rest_of_their_prompt(mode: PrefixCache) -> None:
    _, manager = start(mode, n_blocks=4)
    come_and_go(manager, "A", A)
    admit(manager, "runs", OTHER[:4])
    assert manager.allocate("long", [*A[:8], *OTHER[:8]]) is None
    assert len(set(admit(manager, "fits", [*A[:8], *OTHER[:4]]).blocks)) == 3


def test_pressure_takes_the_end_of_a_prefix() -> None:
    _, manager = start(HASH)
    come_and_go(manager, "long", OTHER[:24])
    come_and_go(manager, "press", A[:8] * 2)
    assert admit(manager, "again", OTHER[:25]).cached_tokens == 16


# ---------------------------------------------------------------- growth and the end


@in_every_mode
def test_a_sequence_grows_until_the_pool_is_used_up(mode: PrefixCache) -> None:
    _, manager = start(mode, n_blocks=3)
    come_and_go(manager, "A", A)
    admit(manager, "grows", OTHER[:3])
    for slots in range(4, 13):
        assert manager.append_slot("grows")
        assert len(manager.block_table("grows")) == -(-slots // SIZE)
    assert not manager.append_slot("grows")
    with pytest.raises(ValueError):
        manager.release("grows", OTHER[:13])
    manager.release("grows", OTHER[:12])


@in_every_mode
@pytest.mark.parametrize("size", [1, 3, 5])
def test_tables_follow_the_block_size(mode: PrefixCache, size: int) -> None:
    manager = BlockManager(KvPool(16, size), mode)
    assert len(admit(manager, "grows", OTHER[:7]).blocks) == -(-7 // size)
    for slots in range(8, 12):
        assert manager.append_slot("grows")
        assert len(manager.block_table("grows")) == -(-slots // size)


@in_both_caches
def test_answers_are_found_again(mode: PrefixCache) -> None:
    _, manager = start(mode)
    admit(manager, "turn 1", OTHER[:6])
    for _ in range(6):
        manager.append_slot("turn 1")
    manager.release("turn 1", OTHER[:12])
    assert admit(manager, "turn 2", OTHER[:13]).cached_tokens == 12


@in_both_caches
@given(computed=st.integers(min_value=0, max_value=10))
def test_only_what_was_computed_is_kept(mode: PrefixCache, computed: int) -> None:
    _, manager = start(mode)
    admit(manager, "A", A)
    manager.release("A", A[:computed])
    assert (manager.cached_blocks, manager.available_blocks) == (computed // SIZE, 8)


@in_both_caches
def test_of_two_copies_one_is_kept(mode: PrefixCache) -> None:
    pool, manager = start(mode)
    admit(manager, "A", A)
    second = admit(manager, "B", B)
    manager.release("B", B)
    manager.release("A", A)
    assert (manager.cached_blocks, pool.n_free) == (2, 6)
    assert admit(manager, "again", B).blocks[:2] == second.blocks[:2]


@in_every_mode
def test_mistakes_are_refused(mode: PrefixCache) -> None:
    _, manager = start(mode)
    admit(manager, "A", A)
    for call in (manager.block_table, manager.append_slot):
        with pytest.raises(KeyError):
            call("unknown")
    with pytest.raises(KeyError):
        manager.release("unknown", [])
    for seq, tokens in (("A", A), ("empty", []), ("token", [-1])):
        with pytest.raises(ValueError):
            manager.allocate(seq, tokens)
    with pytest.raises(ValueError):
        manager.release("A", [*A, 1])
    assert (manager.block_table("A") != [], manager.available_blocks) == (True, 5)


# ---------------------------------------------------------------- a property


@in_both_caches
@given(prompts=st.lists(st.lists(st.integers(min_value=1, max_value=2), min_size=1, max_size=14), max_size=12))
def test_references_balance_whatever_is_served(mode: PrefixCache, prompts: list[list[int]]) -> None:
    """Three requests run at a time; what a running one holds is all that is not available."""
    pool, manager = start(mode, n_blocks=12)
    hits, running = 0, list[str]()
    for turn, prompt in enumerate(prompts):
        if len(running) == 3:
            ended = running.pop(0)
            manager.release(ended, prompts[int(ended)])
        allocation = admit(manager, f"{turn}", prompt)
        running.append(f"{turn}")
        hits += allocation.cached_tokens
        held = {block for seq in running for block in manager.block_table(seq)}
        assert manager.available_blocks == 12 - len(held)
        assert pool.n_free + pool.n_used + pool.n_cached == 12
    for seq in running:
        manager.release(seq, prompts[int(seq)])
    assert pool.n_used == (manager.cached_blocks if mode is RADIX else 0)
    assert (manager.stats.query_tokens, manager.stats.hit_tokens) == (sum(map(len, prompts)), hits)

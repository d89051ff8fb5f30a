"""L8.4 · A student's own tests of the radix prefix cache: the chapter's four properties and a few examples.

They know the contract's calls. Which implementation `RadixCache` stands for, they do not know.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course import contract
from course.contract import PrefixStats
from course.modules import RadixCache

B = 2
NEW = 99
"""A token that no generated prompt holds."""

tokens = st.lists(st.integers(min_value=1, max_value=2), max_size=9)
"""Two tokens only, so that prompts share prefixes, and part ways inside a block as well as between two."""


def fill(cache: contract.RadixCache, prompts: list[list[int]]) -> set[int]:
    """Insert prompts, as a request does that computed all of it: all blocks that went in and stayed."""
    kept: set[int] = set()
    fresh = iter(range(1000))
    for prompt in prompts:
        blocks = [next(fresh) for _ in range(len(prompt) // B)]
        kept.update(set(blocks) - set(cache.insert(prompt, blocks).duplicates))
    return kept


# ---------------------------------------------------------------- the four properties


@given(st.lists(tokens, max_size=5), tokens)
def test_a_fully_cached_prompt_matches_all_but_its_last_block(prompts: list[list[int]], prompt: list[int]) -> None:
    cache = RadixCache(B)
    fill(cache, [*prompts, prompt])
    whole = cache.match_prefix([*prompt, NEW, NEW])
    usable = max(len(prompt) - 1, 0) // B * B
    match = cache.match_prefix(prompt)
    assert len(whole.blocks) == len(prompt) // B
    assert match.matched_tokens == usable
    assert match.blocks == whole.blocks[: usable // B]


@given(st.lists(tokens, max_size=5), tokens)
def test_inserting_what_a_match_returned_hands_nothing_back(prompts: list[list[int]], prompt: list[int]) -> None:
    cache = RadixCache(B)
    kept = fill(cache, prompts)
    match = cache.match_prefix([*prompt, NEW])
    assert cache.insert(prompt[: match.matched_tokens], match.blocks).duplicates == ()
    assert cache.cached_blocks == len(kept)


@given(st.lists(tokens, max_size=5), tokens, st.integers(min_value=0, max_value=20))
def test_a_locked_prefix_is_never_evicted(prompts: list[list[int]], prompt: list[int], n: int) -> None:
    cache = RadixCache(B)
    kept = fill(cache, [*prompts, prompt])
    match = cache.match_prefix([*prompt, NEW])
    cache.lock(match.node)
    assert cache.evictable_blocks == len(kept) - len(match.blocks)
    evicted = cache.evict(n)
    assert not set(evicted) & set(match.blocks)
    assert len(evicted) >= min(n, len(kept) - len(match.blocks))
    assert cache.match_prefix([*prompt, NEW]).blocks == match.blocks
    cache.unlock(match.node)
    assert sorted([*evicted, *cache.evict(100)]) == sorted(kept)


@given(st.lists(tokens, max_size=8), st.lists(st.integers(min_value=0, max_value=3), max_size=4))
def test_blocks_in_equal_blocks_out(prompts: list[list[int]], amounts: list[int]) -> None:
    cache = RadixCache(B)
    kept = fill(cache, prompts)
    assert cache.cached_blocks == len(kept)
    assert cache.cached_tokens == len(kept) * B
    out = [block for n in [*amounts, 100] for block in cache.evict(n)]
    assert sorted(out) == sorted(kept)
    assert cache.cached_blocks == 0
    assert cache.stats.inserted_blocks == cache.stats.evicted_blocks == len(kept)


# ---------------------------------------------------------------- examples


def test_the_counters_of_the_worked_example() -> None:
    cache = RadixCache(2)
    assert cache.hit_rate == 0.0
    cache.insert([1, 2, 3, 4, 5], [10, 11])
    assert cache.cached_tokens == 4
    assert cache.match_prefix([1, 2, 3, 4, 9, 9]).blocks == (10, 11)
    assert cache.match_prefix([1, 2, 3, 4]).blocks == (10,)
    assert cache.match_prefix([7, 7, 7]).matched_tokens == 0
    assert cache.stats == PrefixStats(lookups=3, query_tokens=13, hit_tokens=6, inserted_blocks=2)
    assert cache.hit_rate == 6 / 13


@pytest.mark.parametrize("blocks", [[], [10, 11]])
def test_a_run_needs_a_block_for_each_full_block_and_no_more(blocks: list[int]) -> None:
    cache = RadixCache(2)
    with pytest.raises(ValueError):
        cache.insert([1, 2, 3], blocks)
    assert cache.cached_blocks == 0


def test_the_first_of_two_racing_requests_keeps_its_blocks() -> None:
    cache = RadixCache(2)
    cache.insert([1, 2, 3, 4], [10, 11])
    assert cache.insert([1, 2, 3, 4, 5, 6], [20, 11, 22]).duplicates == (20,)
    assert cache.match_prefix([1, 2, 3, 4, 5, 6, 7]).blocks == (10, 11, 22)


def test_the_leaf_used_longest_ago_goes_first_and_whole() -> None:
    cache = RadixCache(2)
    cache.insert([1, 2, 3, 4], [10, 11])
    cache.insert([5, 6, 7, 8], [20, 21])
    cache.match_prefix([1, 2, 3, 4, 9])
    assert cache.evict(1) == [20, 21]
    assert cache.evict(1) == [10, 11]


@pytest.mark.parametrize("size", [0, -1])
def test_a_block_holds_at_least_one_token(size: int) -> None:
    with pytest.raises(ValueError):
        RadixCache(size)

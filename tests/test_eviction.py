"""Eviction policies: the order of each, ageing, a student's own, and what every policy must leave as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import FrozenInstanceError, dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from autograder.stand_in import ChecksumModel
from autograder.stories import seeded
from autograder.subject import Subject
from course.contract import PrefixCache
from course.eviction import (
    POLICIES,
    DepthWeighted,
    Eviction,
    Leaf,
    LeastFrequentlyUsed,
    LeastRecentlyUsed,
    find_eviction,
)
from course.modules import find
from solutions import kv_pool, production, radix_tree
from tests.engine_traffic import Traffic, serve
from tests.lockstep import few, runs

CHECKSUM = ChecksumModel()


@dataclass(frozen=True)
class Seen:
    """A leaf as a policy sees it."""

    last_used: int
    uses: int = 1
    depth: int = 1


class NewestFirst:
    """A student's own policy."""

    name = "newest first"

    def rank(self, leaf: Leaf) -> tuple[float, ...]:
        return (-leaf.last_used,)


class NoOpinion:
    """All leaves alike: the least recently used goes first."""

    name = "no opinion"

    def rank(self, leaf: Leaf) -> tuple[float, ...]:
        return ()


EVERY: tuple[Eviction, ...] = (
    *POLICIES.values(),
    LeastFrequentlyUsed(half_life=3),
    LeastFrequentlyUsed(half_life=float("inf")),
    DepthWeighted(per_value=0.3),
    NewestFirst(),
    NoOpinion(),
)
each_policy = pytest.mark.parametrize("policy", EVERY, ids=lambda policy: repr(policy).split(" object")[0])


def first_out(policy: Eviction, *leaves: Seen) -> Seen:
    return min(leaves, key=lambda leaf: (*policy.rank(leaf), leaf.last_used))


# ---------------------------------------------------------------- ranks


def test_policies_have_names_and_are_found_by_them() -> None:
    assert {name: type(policy) for name, policy in POLICIES.items()} == {
        "lru": LeastRecentlyUsed,
        "lfu": LeastFrequentlyUsed,
        "depth": DepthWeighted,
    }
    assert all(find_eviction(name) is policy and policy.name == name for name, policy in POLICIES.items())
    own = NewestFirst()
    assert find_eviction(own) is own


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    for make in (find_eviction, partial(production.RadixTree, 1), partial(production.RadixCache, 4)):
        with pytest.raises(ValueError, match="no eviction policy 'lifo'; there are lru, lfu, depth"):
            make("lifo")
    with pytest.raises(ValueError, match="no eviction policy ''"):
        production.BlockManager(kv_pool.KvPool(4, 4), PrefixCache.RADIX, eviction="")


def test_a_policy_is_a_value_and_refuses_weights_that_turn_it_round() -> None:
    assert LeastFrequentlyUsed(5) == LeastFrequentlyUsed(5) != LeastFrequentlyUsed(6)
    with pytest.raises(FrozenInstanceError):
        DepthWeighted().per_value = 2  # type: ignore[misc]
    for half_life in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="a half-life is above 0"):
            LeastFrequentlyUsed(half_life)
    for per_value in (-0.1, float("nan")):
        with pytest.raises(ValueError, match="at least 0"):
            DepthWeighted(per_value)


def test_least_recently_used_looks_at_nothing_else() -> None:
    old, new = Seen(3, uses=99, depth=1), Seen(4, uses=1, depth=99)
    assert first_out(LeastRecentlyUsed(), new, old) is old


def test_a_use_keeps_a_leaf_for_a_half_life_when_it_doubles_their_number() -> None:
    policy, once = LeastFrequentlyUsed(half_life=10), Seen(50, uses=1)
    assert first_out(policy, once, Seen(41, uses=2)) is once
    old = Seen(39, uses=2)
    assert first_out(policy, once, old) is old
    assert first_out(policy, once, Seen(21, uses=8)) is once, "three half-lives are three doublings"
    dead = Seen(19, uses=8)
    assert first_out(policy, once, dead) is dead, "a prefix that was hot once does not stay for ever"
    assert first_out(LeastFrequentlyUsed(float("inf")), once, dead) is once, "without ageing it would"


def test_a_value_of_depth_makes_a_leaf_older() -> None:
    policy, shallow = DepthWeighted(per_value=0.5), Seen(10, depth=2)
    deep = Seen(13, depth=10)
    assert first_out(policy, shallow, deep) is deep
    assert first_out(policy, shallow, Seen(15, depth=10)) is shallow
    assert first_out(DepthWeighted(0), shallow, deep) is shallow, "of no weight, only time counts"


# ---------------------------------------------------------------- a small tree


def small_tree(policy: str | Eviction) -> production.RadixTree:
    """Three leaves, of which each policy evicts another one first.

    `a b` is oldest, `c` newest but used only once, and `d e f g` is the end of the longest path.
    """
    tree = production.RadixTree(1, policy)
    tree.insert([4, 5, 6, 7], list("defg"))
    tree.insert([1, 2], list("ab"))
    for _ in range(3):
        tree.match_prefix([1, 2])
    for _ in range(3):
        tree.match_prefix([4, 5, 6, 7])
    tree.insert([3], ["c"])
    return tree


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("lru", ["ab", "defg", "c"]),
        ("lfu", ["c", "ab", "defg"]),
        ("depth", ["ab", "defg", "c"]),
        (DepthWeighted(per_value=2), ["defg", "ab", "c"]),
        (LeastFrequentlyUsed(half_life=0.1), ["ab", "defg", "c"]),
        (NewestFirst(), ["c", "defg", "ab"]),
        (NoOpinion(), ["ab", "defg", "c"]),
    ],
)
def test_each_policy_evicts_in_its_own_order(policy: str | Eviction, order: list[str]) -> None:
    tree = small_tree(policy)
    assert ["".join(tree.evict(1)) for _ in order] == order
    assert (tree.n_values, tree.n_nodes, tree.evict(1)) == (0, 0, [])


def test_halves_of_a_split_edge_were_both_used_as_often_as_the_whole() -> None:
    tree = production.RadixTree(1, LeastFrequentlyUsed(float("inf")))
    for _ in range(4):
        tree.insert([1, 2], list("ab"))
    tree.match_prefix([1])  # splits: a is used five times, b four times
    for _ in range(2):
        tree.insert([3], ["c"])
    assert [tree.evict(1) for _ in range(3)] == [["c"], ["b"], ["a"]]


def test_depth_is_that_of_the_whole_path() -> None:
    tree = production.RadixTree(1, DepthWeighted(per_value=2))
    tree.insert([5, 6, 7], list("efg"))
    tree.insert([1, 1, 1, 1, 1, 2], list("aaaaab"))
    tree.insert([1, 1, 1, 1, 1, 3], list("aaaaac"))
    assert ["".join(tree.evict(1)) for _ in range(4)] == ["b", "c", "aaaaa", "efg"]


def test_a_leaf_that_comes_back_is_a_new_one() -> None:
    tree = production.RadixTree(1, LeastFrequentlyUsed(float("inf")))
    for _ in range(9):
        tree.insert([1], ["hot"])
    tree.evict(1)
    tree.insert([1], ["hot"])
    tree.insert([2], ["other"])
    tree.insert([2], ["other"])
    assert tree.evict(1) == ["hot"]


# ---------------------------------------------------------------- any policy, at random


@dataclass
class Model:
    """What a policy should see: for each stored prefix its last use and its number of uses, granule by granule."""

    last_used: dict[tuple[int, ...], int]
    uses: dict[tuple[int, ...], int]
    now: int = 0

    def used(self, tokens: Sequence[int]) -> None:
        self.now += 1
        for end in range(1, len(tokens) + 1):
            path = tuple(tokens[:end])
            self.last_used[path] = self.now
            self.uses[path] = self.uses.get(path, 0) + 1

    def seen(self, path: tuple[int, ...]) -> Seen:
        return Seen(self.last_used[path], self.uses[path], len(path))

    def forget(self, path: tuple[int, ...], n: int) -> None:
        for end in range(len(path) - n + 1, len(path) + 1):
            del self.uses[path[:end]], self.last_used[path[:end]]


def evictable(tree: production.RadixTree) -> dict[tuple[int, ...], tuple[Any, ...]]:
    """The values of the unlocked leaves, by path."""
    rows, paths = list(tree.walk()), {tree.ROOT: ()}
    for node, parent, tokens, *_ in rows:
        paths[node] = paths[parent] + tokens
    inner = {row[1] for row in rows}
    return {paths[row[0]]: row[3] for row in rows if row[0] not in inner and not row[4]}


steps = st.lists(
    st.tuples(st.sampled_from(["insert", "insert", "match", "lock", "unlock", "evict"]), runs, st.integers(0, 3)),
    max_size=60,
)


@each_policy
@few
@given(steps)
def test_the_lowest_rank_goes_first_whole_and_never_a_locked_one(
    policy: Eviction, steps: list[tuple[str, list[int], int]]
) -> None:
    tree, model, locked, values = production.RadixTree(1, policy), Model({}, {}), [], 0
    for verb, tokens, n in steps:
        if verb == "insert":
            tree.insert(tokens, range(values, values + len(tokens)))
            values += len(tokens)
            model.used(tokens)
        elif verb in ("match", "lock"):
            match = tree.match_prefix(tokens)
            model.used(tokens[: match.n_tokens])
            if verb == "lock":
                tree.lock(match.node)
                locked.append(match.node)
        elif verb == "unlock" and locked:
            tree.unlock(locked.pop(n % len(locked)))
        elif verb == "evict":
            for _ in range(n):
                leaves = evictable(tree)
                wanted = min(leaves, default=None, key=lambda path: (*policy.rank(seen(path)), seen(path).last_used))
                assert tree.evict(1) == list(leaves.get(wanted or (), ()))
                if wanted is not None:
                    model.forget(wanted, len(leaves[wanted]))
        seen = model.seen
        rows = list(tree.walk())
        assert tree.n_values == len(model.uses) == sum(len(row[3]) for row in rows)
        assert tree.n_evictable == sum(len(row[3]) for row in rows if not row[4])
    for node in locked:
        tree.unlock(node)
    assert len(tree.evict(tree.n_values)) == len(model.uses) and tree.n_nodes == 0


@few
@given(steps)
def test_lru_by_name_is_the_plain_tree(steps: list[tuple[str, list[int], int]]) -> None:
    plain, named = radix_tree.RadixTree(1), production.RadixTree(1, "lru")
    both, held = (plain, named), []
    for verb, tokens, n in steps:
        if verb == "insert":
            results = [tree.insert(tokens, tokens) for tree in both]
        elif verb == "evict":
            results = [tree.evict(n) for tree in both]
        else:
            results = [tree.match_prefix(tokens) for tree in both]
            if verb == "lock":
                held.append(results[0].node)
                results += [tree.lock(held[-1]) for tree in both]
            elif verb == "unlock" and held:
                node = held.pop()
                results += [tree.unlock(node) for tree in both]
        assert results[::2] == results[1::2]
        assert list(plain.walk()) == list(named.walk())
        assert (plain.n_values, plain.n_evictable, plain.n_nodes) == (named.n_values, named.n_evictable, named.n_nodes)


# ---------------------------------------------------------------- under a manager and an engine


@each_policy
@pytest.mark.parametrize("publish", ["release", "prefill"])
def test_answers_are_right_and_no_block_is_lost_under_any_policy(policy: Eviction, publish: str) -> None:
    manager = partial(production.BlockManager, eviction=policy, publish=publish)
    subject = Subject(find("L10.4"), {"KvPool": kv_pool.KvPool, "BlockManager": manager})
    traffic = Traffic(CHECKSUM, seed=8)
    happened = serve(subject, CHECKSUM, PrefixCache.RADIX, [traffic.wanted() for _ in range(60)], seed=8)
    assert happened["evictions"] > 20 and happened["hit tokens"] > 0


@each_policy
@few
@given(st.lists(st.tuples(runs, st.booleans()), max_size=30))
def test_a_running_sequence_keeps_its_blocks(policy: Eviction, prompts: list[tuple[list[int], bool]]) -> None:
    assume(any(tokens for tokens, _ in prompts))
    pool = kv_pool.KvPool(12, 1)
    manager, running = production.BlockManager(pool, PrefixCache.RADIX, eviction=policy), dict[int, list[int]]()
    for name, (tokens, ends) in enumerate(prompts):
        if tokens and manager.allocate(name, tokens) is not None:
            running[name] = tokens
        if ends and running:
            oldest = min(running)
            manager.release(oldest, running.pop(oldest))
        tables = [manager.block_table(seq) for seq in running]
        assert all(pool.refcount(block) > 0 for table in tables for block in table)
        own = [block for table in tables for block in table if pool.refcount(block) == 1]
        assert len(own) == len(set(own)), "a block that two tables name has a reference for each"
        assert pool.n_free + pool.n_used + pool.n_cached == pool.n_blocks
    for name, tokens in running.items():
        manager.release(name, tokens)
    assert pool.n_used == manager.cached_blocks and manager.available_blocks == pool.n_blocks
    assert manager.allocate("all", [9] * 12) is not None, "all of it can be had again"


# ---------------------------------------------------------------- what a policy is for


def churn(n: int, n_days: int = 1) -> list[list[int]]:
    """Long texts that are read once, and between them questions under one of twelve system prompts of eight blocks.

    Each day has system prompts of its own.
    """
    choose, new = seeded(3), iter(range(10**6))
    requests = []
    for _ in range(n_days):
        prompts = [[next(new) for _ in range(8)] for _ in range(12)]
        for _ in range(n // n_days):
            asks = choose.random() < 0.5
            shared, n_own = (choose.choice(prompts), 2) if asks else ([], 24)
            requests.append(shared + [next(new) for _ in range(n_own)])
    return requests


def hit_rate(policy: str | Eviction, n_blocks: int, requests: list[list[int]]) -> float:
    manager = production.BlockManager(kv_pool.KvPool(n_blocks, 1), PrefixCache.RADIX, eviction=policy)
    for name, tokens in enumerate(requests):
        assert manager.allocate(name, tokens) is not None
        manager.release(name, tokens)
    return manager.hit_rate


@each_policy
def test_no_policy_changes_a_hit_while_nothing_is_evicted(policy: Eviction) -> None:
    requests = churn(100)
    assert hit_rate(policy, 2_000, requests) == hit_rate("lru", 2_000, requests) > 0.1


def test_under_churn_lru_forgets_hot_system_prompts_and_the_others_keep_them() -> None:
    requests = churn(600)
    all_of_them = hit_rate("lru", 20_000, requests)
    rates = {policy: hit_rate(policy, 300, requests) / all_of_them for policy in POLICIES}
    assert rates["lru"] < 0.65
    assert rates["lfu"] > rates["lru"] + 0.2 and rates["depth"] > rates["lru"] + 0.1


def test_without_ageing_prefixes_that_nobody_asks_for_any_more_fill_the_pool() -> None:
    requests = churn(1_200, n_days=4)
    ageing, plain = (hit_rate(LeastFrequentlyUsed(half), 200, requests) for half in (100, float("inf")))
    assert ageing > 1.4 * plain > 0

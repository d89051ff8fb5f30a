"""Extra keys: requests with different ones never share a block, whatever comes when; those with equal ones do."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder.implementations import flat
from autograder.stand_in import ChecksumModel, greedy
from autograder.stories import seeded
from course.collisions_64 import forged_64
from course.contract import ROOT, PrefixCache
from course.engine.config import EngineConfig
from course.engine.engine import Engine
from course.extra_keys import BEFORE_THE_KEYS, ExtraKeys, checked, parent_of_first_block
from course.modules import find
from solutions import kv_pool, production
from tests.lockstep import few

B = 2
caches = pytest.mark.parametrize("mode", [PrefixCache.HASH, PrefixCache.RADIX], ids=lambda mode: mode.value)
publishing = pytest.mark.parametrize("publish", ["release", "prefill"])
PROMPT = [1, 2, 3, 4, 5, 6, 7]

KEYS: tuple[ExtraKeys, ...] = (
    (),
    ("",),
    ("ab", "c"),
    ("a", "bc"),
    ("abc",),
    ("1",),
    (1,),
    (1, 1),
    (11,),
    ("é",),
    (-1,),
)
"""Keys that a careless way of writing them down takes for each other."""

each_pair = pytest.mark.parametrize(("one", "other"), list(itertools.combinations(KEYS, 2)), ids=repr)


def manager_of(mode: PrefixCache, n_blocks: int = 64, **options: Any) -> production.BlockManager:
    return production.BlockManager(kv_pool.KvPool(n_blocks, B), mode, **options)


def served(manager: production.BlockManager, keys: ExtraKeys, tokens: list[int] = PROMPT) -> int:
    """Serve a prompt to its end; how many of its tokens were cached."""
    allocation = manager.allocate("one", tokens, keys)
    assert allocation is not None
    manager.release("one", tokens)
    return allocation.cached_tokens


# ---------------------------------------------------------------- names of keys


def test_every_set_of_keys_has_a_name_of_its_own() -> None:
    names = [parent_of_first_block(kv_pool.kv_block_hash, keys) for keys in KEYS]
    assert len(set(names)) == len(KEYS) and names[0] == 0
    assert names[2] == parent_of_first_block(kv_pool.kv_block_hash, ("ab", "c"))


def test_no_prompts_first_block_is_named_like_keys() -> None:
    """Their tokens may be equal: the parent is another one."""
    written = list(b'["a"]')
    assert parent_of_first_block(kv_pool.kv_block_hash, ("a",)) == kv_pool.kv_block_hash(BEFORE_THE_KEYS, written)
    assert kv_pool.kv_block_hash(0, written) != kv_pool.kv_block_hash(BEFORE_THE_KEYS, written)


@pytest.mark.parametrize(
    "keys", ["tenant", ["tenant"], ("tenant", None), (1.0,), (True,), (("nested",),), None, (b"x",)]
)
def test_what_is_no_key_is_refused_and_nothing_is_changed(keys: Any) -> None:
    with pytest.raises(ValueError, match="a tuple of texts and integers"):
        checked(keys)
    for mode in PrefixCache:
        manager = manager_of(mode)
        for call in (partial(manager.allocate, "one"), manager.cached_prefix):
            with pytest.raises(ValueError, match="a tuple of texts and integers"):
                call(PROMPT, keys)
        assert (manager.available_blocks, manager.cached_blocks, manager.stats.lookups) == (64, 0, 0)
        assert served(manager, ()) == 0, "and it goes on as if nothing had happened"


# ---------------------------------------------------------------- two sets of keys


@caches
@each_pair
def test_equal_tokens_share_under_equal_keys_alone(mode: PrefixCache, one: ExtraKeys, other: ExtraKeys) -> None:
    manager = manager_of(mode)
    assert [served(manager, keys) for keys in (one, other, one, other)] == [0, 0, 6, 6]
    assert manager.cached_blocks == 6
    assert [manager.cached_prefix(PROMPT, keys) for keys in (one, other, ("somebody else",))] == [6, 6, 0]


@caches
def test_blocks_are_their_own_while_both_run(mode: PrefixCache) -> None:
    manager = manager_of(mode, publish="prefill")
    tables = {}
    for keys in (("acme",), ("globex",), ()):
        allocation = manager.allocate(repr(keys), PROMPT, keys)
        assert allocation is not None and allocation.cached_tokens == 0
        manager.publish(repr(keys), PROMPT)
        tables[keys] = allocation.blocks
    twin = manager.allocate("twin", PROMPT, ("acme",))
    assert twin is not None and twin.cached_tokens == 6 and twin.blocks[:3] == tables["acme",][:3]
    assert len({block for table in tables.values() for block in table}) == 12


@caches
def test_an_answer_goes_on_under_the_keys_of_its_prompt(mode: PrefixCache) -> None:
    """Also where the prompt is too short for a block of its own."""
    manager = manager_of(mode)
    assert manager.allocate("one", [1], ("acme",)) is not None
    assert all(manager.append_slot("one") for _ in range(4))
    manager.release("one", [1, 2, 3, 4, 5])
    assert [manager.cached_prefix([1, 2, 3, 4, 5], keys) for keys in ((), ("acme",), ("globex",))] == [0, 4, 0]


@caches
def test_a_refused_prompt_leaves_no_keys_behind(mode: PrefixCache) -> None:
    manager = manager_of(mode, n_blocks=4)
    assert manager.allocate("large", list(range(20)), ("acme",)) is None
    assert manager.allocate("large", PROMPT) is not None
    manager.release("large", PROMPT)
    assert [manager.cached_prefix(PROMPT, keys) for keys in ((), ("acme",))] == [6, 0]


@caches
def test_all_keys_share_one_pool_and_make_room_for_each_other(mode: PrefixCache) -> None:
    manager = manager_of(mode, n_blocks=8)
    for place in range(6):
        served(manager, (f"tenant {place}",))
    assert manager.available_blocks == 8 and manager.stats.evictions > 0
    assert served(manager, ("tenant 5",)) == 6 and served(manager, ("tenant 0",)) == 0


def test_keys_change_nothing_where_nothing_is_cached() -> None:
    manager = manager_of(PrefixCache.NONE)
    assert [served(manager, keys) for keys in (("a",), ("a",), ())] == [0, 0, 0]
    assert manager.available_blocks == 64 and manager.cached_prefix(PROMPT, ("a",)) == 0


# ---------------------------------------------------------------- the tree


def test_the_tree_has_a_root_for_each_set_of_keys_and_one_order_of_use() -> None:
    tree = production.RadixTree(1)
    for place, keys in enumerate([("a",), ("b",), ()]):
        with tree.under(keys):
            tree.insert([1, 2], [f"{place}x", f"{place}y"])
    assert (tree.n_values, tree.n_nodes, len(list(tree.walk()))) == (6, 3, 3)
    assert {row[1] for row in tree.walk()} == {ROOT}
    with tree.under(("a",)):
        assert tree.match_prefix([1, 2, 3]).values == ("0x", "0y")
    assert tree.match_prefix([1]).values == ("2x",)
    assert [tree.evict(1) for _ in range(4)] == [["1x", "1y"], ["2y"], ["0x", "0y"], ["2x"]]
    assert (tree.n_values, tree.n_evictable, tree.n_nodes, list(tree.walk())) == (0, 0, 0, [])


def test_a_lock_on_the_root_does_nothing_under_any_keys() -> None:
    tree = production.RadixTree(1)
    for keys in ((), ("a",), ()):
        with tree.under(keys):
            tree.unlock(ROOT)
            tree.lock(ROOT)
            tree.unlock(ROOT)
            tree.unlock(ROOT)
            tree.insert([1], ["x"])
    assert tree.n_evictable == tree.n_values == 2


def test_a_lock_under_keys_holds_outside_of_them_and_an_error_leaves_them() -> None:
    tree = production.RadixTree(1)
    with tree.under(("a",)):
        node = tree.insert([1, 2], ["x", "y"]).node
        tree.lock(node)
    with pytest.raises(ZeroDivisionError), tree.under(("a",)):
        raise ZeroDivisionError
    assert tree.match_prefix([1, 2]).values == () and tree.evict(9) == []
    tree.unlock(node)
    assert tree.evict(9) == ["x", "y"]


def test_roots_that_are_empty_again_are_forgotten() -> None:
    """A tenant that comes once costs nothing afterwards."""
    manager = manager_of(PrefixCache.RADIX, n_blocks=4)
    for place in range(50):
        manager.cached_prefix(PROMPT, (f"only looks {place}",))
        served(manager, (place,))
    assert len(manager._radix.tree._roots) <= 3 and not manager._keys


# ---------------------------------------------------------------- whatever the interleaving


@dataclass
class Told:
    """What a pool's blocks hold, as a request would write it: the keys and the tokens up to each block's end."""

    content: dict[int, tuple[ExtraKeys, tuple[int, ...]]] = field(default_factory=dict)

    def check(self, table: tuple[int, ...], n_cached: int, keys: ExtraKeys, tokens: list[int]) -> None:
        for place in range(n_cached // B):
            assert self.content[table[place]] == (keys, tuple(tokens[: (place + 1) * B]))

    def write(self, table: list[int], start: int, keys: ExtraKeys, tokens: list[int]) -> None:
        for place in range(start // B, len(tokens) // B):
            self.content[table[place]] = (keys, tuple(tokens[: (place + 1) * B]))


tenants = st.sampled_from([(), ("ab", "c"), ("a", "bc"), ("1",), (1,)])
short = st.lists(st.integers(0, 1), min_size=1, max_size=9)
traffic = st.lists(st.tuples(st.sampled_from(["come", "come", "compute", "go", "grow"]), tenants, short), max_size=40)


@pytest.mark.parametrize("eviction", ["lru", "lfu", "depth"])
@publishing
@caches
@settings(few, suppress_health_check=[HealthCheck.too_slow])
@given(traffic)
def test_a_hit_was_written_under_the_same_keys_whatever_comes_when(
    mode: PrefixCache, publish: str, eviction: str, traffic: list[tuple[str, ExtraKeys, list[int]]]
) -> None:
    manager = manager_of(mode, n_blocks=10, publish=publish, eviction=eviction)
    told, running = Told(), dict[int, tuple[ExtraKeys, list[int], int]]()
    for name, (verb, keys, tokens) in enumerate(traffic):
        if verb == "come":
            before = manager.cached_prefix(tokens, keys)
            allocation = manager.allocate(name, tokens, keys)
            if allocation is not None:
                assert allocation.cached_tokens == before
                told.check(allocation.blocks, before, keys, tokens)
                running[name] = (keys, list(tokens), before)
        elif running:
            chosen = sorted(running)[sum(tokens) % len(running)]
            its_keys, its_tokens, computed = running[chosen]
            if verb == "grow" and computed == len(its_tokens) and manager.append_slot(chosen):
                its_tokens.append(len(tokens) % 2)
            told.write(manager.block_table(chosen), computed, its_keys, its_tokens)
            running[chosen] = (its_keys, its_tokens, len(its_tokens))
            if verb == "go":
                manager.release(chosen, its_tokens)
                del running[chosen]
            else:
                manager.publish(chosen, its_tokens)
    for name, (_, its_tokens, computed) in running.items():
        manager.release(name, its_tokens[:computed])
    assert manager.available_blocks == 10


@caches
@publishing
@few
@given(traffic)
def test_equal_keys_hit_as_no_keys_do(
    mode: PrefixCache, publish: str, traffic: list[tuple[str, ExtraKeys, list[int]]]
) -> None:
    """The twin of the test above: keys that are all equal take nothing away."""
    plain, keyed = (manager_of(mode, n_blocks=10, publish=publish) for _ in range(2))
    running: list[int] = []
    prompts = {}
    for name, (verb, _, tokens) in enumerate(traffic):
        if verb == "come":
            prompts[name] = tokens
            one, other = plain.allocate(name, tokens), keyed.allocate(name, tokens, ("acme", 7))
            assert one == other
            running += [name] * (one is not None)
        elif running and verb == "compute":
            for manager in (plain, keyed):
                manager.publish(running[0], prompts[running[0]])
        elif running:
            name = running.pop(0)
            for manager in (plain, keyed):
                manager.release(name, prompts[name])
        assert (plain.stats, plain.available_blocks) == (keyed.stats, keyed.available_blocks)


# ---------------------------------------------------------------- through the engine


@caches
@publishing
def test_two_tenants_ask_the_same_and_find_nothing_of_each_other(mode: PrefixCache, publish: str) -> None:
    config = EngineConfig(block_size=4, n_blocks=64, prefix_cache=mode, max_running=3)
    pool = kv_pool.KvPool(64, 4)
    engine = Engine(ChecksumModel().runner(pool), production.BlockManager(pool, mode, publish), config)
    prompt = list(range(1, 18))
    cached = []
    for keys in (("acme",), ("globex",), (), ("acme",), ("globex",), ()):
        request = engine.add(prompt, 5, extra_keys=keys)
        engine.run_until_idle()
        cached.append(engine.records[request].cached_tokens)
        assert engine.records[request].tokens == greedy(prompt, 5)
    assert cached == [0, 0, 0, 16, 16, 16]


@caches
@publishing
@pytest.mark.parametrize("order", ["arrival", "prefix"])
def test_tenants_that_crowd_a_pool_all_get_their_answers(mode: PrefixCache, publish: str, order: str) -> None:
    """Preempted ones come back under their own keys; each answer is held against the truth."""
    config = EngineConfig(block_size=4, n_blocks=12, prefix_cache=mode, max_running=4, max_batch_tokens=16, order=order)
    choose, pool = seeded(6), kv_pool.KvPool(12, 4)
    engine = Engine(ChecksumModel().runner(pool), production.BlockManager(pool, mode, publish), config)
    prompts = {}
    for _ in range(60):
        prompt = [*range(8), *choose.choices(range(4), k=choose.randrange(1, 6))]
        prompts[engine.add(prompt, 6, extra_keys=choose.choice([(), ("a",), ("b", 1)]))] = prompt
    engine.run_until_idle()
    assert all(engine.records[request].tokens == greedy(prompt, 6) for request, prompt in prompts.items())
    assert any(record.preemptions for record in engine.records.values())
    assert any(record.cached_tokens for record in engine.records.values())


def test_a_manager_without_extra_keys_is_not_asked_for_any() -> None:
    names = flat(find("L10.4")).names
    pool = names["KvPool"](8, 4)
    manager = names["BlockManager"](pool, PrefixCache.HASH)
    engine = Engine(ChecksumModel().runner(pool), manager, EngineConfig(block_size=4, n_blocks=8))
    request = engine.add(PROMPT, 2)
    engine.run_until_idle()
    assert engine.records[request].tokens == greedy(PROMPT, 2)


# ---------------------------------------------------------------- what keys do not hold against


def test_keys_are_no_defence_against_a_collision_that_somebody_makes() -> None:
    """The name of another tenant's block, once it is known, can be had under one's own keys (`course.collisions`)."""
    size, victim = 16, [*b"What is the status of my order?!"]
    names: list[int] = []

    class Leaking(kv_pool.KvPool):
        def register_full(self, blocks: Any, named: Any) -> None:
            names.extend(named)
            super().register_full(blocks, named)

    manager = production.BlockManager(Leaking(64, size), PrefixCache.HASH)
    served(manager, ("victim", "a secret salt"), victim)
    attackers_parent = parent_of_first_block(kv_pool.kv_block_hash, ("attacker",))
    block = forged_64(attackers_parent, names[0])
    assert block is not None and list(block) != victim[:size]
    assert manager.cached_prefix([*block, 1], ("attacker",)) == size, "the hash cache gives the victim's block away"
    tree = production.BlockManager(Leaking(64, size), PrefixCache.RADIX)
    served(tree, ("victim", "a secret salt"), victim)
    assert tree.cached_prefix([*block, 1], ("attacker",)) == 0

"""Cache-aware scheduling: who of those that wait is admitted next, how long anybody waits for it, and what stays."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.implementations import reference
from autograder.stand_in import ChecksumModel, greedy
from autograder.stories import seeded
from autograder.subject import Subject
from course.contract import Allocation, PrefixCache, SeqId
from course.engine import scheduler as scheduling
from course.engine.config import ConfigError, EngineConfig, load_config
from course.engine.engine import Engine
from course.engine.scheduler import PATIENCE, WINDOW, Scheduler
from course.modules import find
from solutions import kv_pool, production
from tests import engine_traffic
from tests.lockstep import few, runs

B = 4
CHECKSUM = ChecksumModel()
caches = pytest.mark.parametrize("mode", [PrefixCache.HASH, PrefixCache.RADIX], ids=lambda mode: mode.value)
each_mode = pytest.mark.parametrize("mode", PrefixCache, ids=lambda mode: mode.value)

HOT = [1, 2, 3, 4, 5, 6, 7, 8]
WARM = [11, 12, 13, 14]


def lab_space(n_blocks: int, mode: PrefixCache, **options: Any) -> production.BlockManager:
    return production.BlockManager(kv_pool.KvPool(n_blocks, B), mode, **options)


def one_at_a_time(space: Any, order: str = "prefix", max_running: int = 1) -> Scheduler:
    return Scheduler(space, max_batch_tokens=64, max_running=max_running, order=order)


def know(space: Any, *prompts: list[int]) -> None:
    """Let the space have served these prompts."""
    for prompt in prompts:
        space.allocate("before", prompt)
        space.release("before", prompt)


def admitted(scheduler: Scheduler) -> list[SeqId]:
    """Step until all is done, each sequence ending with its first token; who was admitted, in order."""
    order = []
    while not scheduler.idle:
        step = scheduler.next_step()
        order += [seq for seq, _ in step.admitted]
        for seq, _ in scheduler.took(step, [0] * len(step.chunks)):
            scheduler.end(seq)
    return order


# ---------------------------------------------------------------- whose turn it is


@caches
def test_the_longest_cached_prefix_goes_first_and_of_equals_the_first_to_come(mode: PrefixCache) -> None:
    space = lab_space(40, mode)
    know(space, [*HOT, 0], [*WARM, 0])
    scheduler = one_at_a_time(space)
    prompts = {"cold": [90] * 9, "warm": [*WARM, 91], "hot": [*HOT, 92], "hot too": [*HOT, 93], "warm too": [*WARM, 94]}
    for seq, prompt in prompts.items():
        scheduler.add(seq, prompt)
    assert admitted(scheduler) == ["hot", "hot too", "warm", "warm too", "cold"]


@caches
def test_what_is_cached_counts_in_tokens_and_not_as_a_share_of_the_prompt(mode: PrefixCache) -> None:
    space = lab_space(40, mode)
    know(space, [*HOT, 0], [*WARM, 0])
    scheduler = one_at_a_time(space)
    scheduler.add("all but one of 5", [*WARM, 1])
    scheduler.add("8 of 48", [*HOT, *range(100, 140)])
    assert admitted(scheduler) == ["8 of 48", "all but one of 5"]


@caches
def test_a_prompt_that_is_being_served_makes_room_for_those_that_go_on_from_it(mode: PrefixCache) -> None:
    scheduler = one_at_a_time(lab_space(40, mode))
    for seq, prompt in {"a": [*HOT, 1], "b": [*WARM, 1], "a too": [*HOT, 2], "b too": [*WARM, 2]}.items():
        scheduler.add(seq, prompt)
    assert admitted(scheduler) == ["a", "a too", "b", "b too"]


@each_mode
def test_where_nothing_is_cached_they_go_as_they_came(mode: PrefixCache) -> None:
    scheduler = one_at_a_time(lab_space(40, mode))
    for seq in range(6):
        scheduler.add(seq, [seq] * 6)
    assert admitted(scheduler) == list(range(6))


def test_without_a_cache_both_orders_are_that_of_arrival() -> None:
    for order in ("arrival", "prefix"):
        scheduler = one_at_a_time(lab_space(40, PrefixCache.NONE), order)
        for seq, prompt in enumerate([HOT, WARM, HOT, WARM]):
            scheduler.add(seq, prompt)
        assert admitted(scheduler) == [0, 1, 2, 3]


@caches
def test_only_what_a_request_may_share_counts_for_it(mode: PrefixCache) -> None:
    space = lab_space(40, mode)
    space.allocate("before", [*HOT, 0], ("acme",))
    space.release("before", [*HOT, 0])
    scheduler = one_at_a_time(space)
    for seq, keys in {"nobody's": (), "globex": ("globex",), "acme": ("acme",)}.items():
        scheduler.add(seq, [*HOT, 1], keys)
    step = scheduler.next_step()
    assert step.admitted == [("acme", 8)]


@caches
def test_one_that_does_not_fit_keeps_its_turn(mode: PrefixCache) -> None:
    """Nobody is admitted past it, whoever it is that waits for room."""
    space = lab_space(8, mode)
    know(space, [*HOT, 0])
    scheduler = one_at_a_time(space, max_running=4)
    scheduler.add("runs", [50] * 12)
    scheduler.next_step()
    scheduler.add("cold and small", [60])
    scheduler.add("hot and large", [*HOT, *range(70, 86)])
    assert scheduler.next_step().admitted == []
    scheduler.end("runs")
    assert [seq for seq, _ in scheduler.next_step().admitted] == ["hot and large", "cold and small"]


@caches
def test_so_many_in_front_are_looked_at(mode: PrefixCache) -> None:
    space = lab_space(40, mode)
    know(space, [*HOT, 0])
    scheduler = one_at_a_time(space)
    for seq in range(WINDOW):
        scheduler.add(seq, [90])
    scheduler.add("hot", [*HOT, 1])
    assert [seq for seq, _ in scheduler.next_step().admitted] == [0]
    scheduler.end(0)
    assert [seq for seq, _ in scheduler.next_step().admitted] == ["hot"]


# ---------------------------------------------------------------- patience


@caches
def test_nobody_is_passed_over_for_ever(mode: PrefixCache) -> None:
    space = lab_space(40, mode)
    know(space, [*HOT, 0])
    scheduler = one_at_a_time(space)
    scheduler.add("cold", [90])
    scheduler.add("cold too", [91])
    for seq in range(2 * PATIENCE):
        scheduler.add(seq, [*HOT, seq])
    order = admitted(scheduler)
    assert order == [*range(PATIENCE), "cold", "cold too", *range(PATIENCE, 2 * PATIENCE)]


@few
@given(st.integers(0, 10**6), st.integers(0, 5), st.sampled_from([PrefixCache.HASH, PrefixCache.RADIX]))
def test_at_random_nobody_is_passed_over_more_often_than_that(seed: int, patience: int, mode: PrefixCache) -> None:
    choose, came, passed = seeded(seed), list[int](), Counter[int]()
    scheduler = one_at_a_time(lab_space(12, mode), max_running=2)
    prefixes = [[place] * length for place, length in enumerate((4, 8, 12, 4))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scheduling, "PATIENCE", patience)
        name = 0
        while name < 40 or not scheduler.idle:
            for _ in range(choose.randrange(4) if name < 40 else 0):
                scheduler.add(name, [*choose.choice(prefixes), 100 + name])
                came.append(name)
                name += 1
            step = scheduler.next_step()
            for seq, _ in step.admitted:
                came.remove(int(seq))
                passed.update(waiting for waiting in came if waiting < int(seq))
            for seq, _ in scheduler.took(step, [0] * len(step.chunks)):
                if choose.random() < 0.7:
                    scheduler.end(seq)
            for seq in scheduler.running:
                if choose.random() < 0.5:
                    scheduler.end(seq)
            came = [seq for seq in came if seq in scheduler.waiting]
            for seq in step.preempted:
                came.append(int(seq))
            came.sort()
            if name >= 40 and not scheduler.running and not scheduler.waiting:
                break
    assert all(times <= patience for times in passed.values())


def test_a_preempted_one_is_next_whatever_is_cached() -> None:
    space = lab_space(5, PrefixCache.HASH)
    know(space, [*HOT, 0])
    scheduler = one_at_a_time(space, max_running=3)
    scheduler.add("old", [50, 51, 52, 53])
    scheduler.add("young", [60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71])
    step = scheduler.next_step()
    scheduler.took(step, [1] * len(step.chunks))
    scheduler.add("hot", [*HOT, 1])
    step = scheduler.next_step()
    scheduler.took(step, [1] * len(step.chunks))
    preempted = scheduler.next_step() if not step.preempted else step
    assert preempted.preempted == ["young"] and scheduler.waiting == ("young", "hot")
    scheduler.end("old")
    assert scheduler.next_step().admitted[0][0] == "young"


# ---------------------------------------------------------------- who may ask for it


class Plain:
    """A block space of the contract, without the lab's calls; prompts of one block each."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def allocate(self, *args: Any) -> Allocation:
        self.asked.append(args)
        return Allocation(0, (len(self.asked),))

    def release(self, seq: SeqId, computed: list[int]) -> None:
        return None

    def block_table(self, seq: SeqId) -> list[int]:
        return [1]


def test_a_space_that_cant_look_is_refused_in_the_order_of_prefixes_alone() -> None:
    with pytest.raises(ValueError, match="asks for `cached_prefix`, and Plain has none"):
        one_at_a_time(Plain(), "prefix")
    scheduler = one_at_a_time(Plain(), "arrival")
    scheduler.add("a", [1, 2])
    assert admitted(scheduler) == ["a"]


def test_the_courses_own_manager_serves_in_the_order_of_arrival_and_says_why_not_otherwise() -> None:
    names = reference(find("L10.4")).names
    pool = names["KvPool"](8, B)
    manager = names["BlockManager"](pool, PrefixCache.HASH)
    config = EngineConfig(block_size=B, n_blocks=8)
    with pytest.raises(ValueError, match="cached_prefix"):
        Engine(CHECKSUM.runner(pool), manager, replace(config, order="prefix"))
    engine = Engine(CHECKSUM.runner(pool), manager, config)
    request = engine.add(HOT, 3)
    engine.run_until_idle()
    assert engine.records[request].tokens == greedy(HOT, 3)


def test_without_extra_keys_a_space_is_asked_as_the_contract_says() -> None:
    space = Plain()
    scheduler = one_at_a_time(space, "arrival", max_running=2)
    scheduler.add("a", [1])
    scheduler.add("b", [2], ("tenant",))
    scheduler.next_step()
    assert space.asked == [("a", [1]), ("b", [2], ("tenant",))]


def test_an_order_that_there_is_not_is_refused_wherever_it_is_asked_for() -> None:
    with pytest.raises(ValueError, match="no order 'random': there are arrival, prefix"):
        one_at_a_time(lab_space(4, PrefixCache.HASH), "random")
    with pytest.raises(ConfigError, match='order = "random" must be one of arrival, prefix'):
        load_config(order="random")
    assert load_config().order == "arrival" and load_config(order="prefix").order == "prefix"


# ---------------------------------------------------------------- what stays


@few
@given(st.lists(runs, min_size=1, max_size=12), runs, st.sampled_from(list(PrefixCache)), st.integers(2, 12))
def test_a_look_finds_what_admission_finds_and_changes_nothing(
    served: list[list[int]], prompt: list[int], mode: PrefixCache, n_blocks: int
) -> None:
    pool = kv_pool.KvPool(n_blocks, 2)
    manager = production.BlockManager(pool, mode)
    for name, tokens in enumerate(tokens for tokens in served if 0 < len(tokens) <= 2 * n_blocks):
        assert manager.allocate(name, tokens) is not None
        manager.release(name, tokens)
    before = picture(pool, manager)
    found = manager.cached_prefix(prompt)
    assert picture(pool, manager) == before
    assert found == 0 or len(prompt) > 1
    if 0 < len(prompt) <= 2 * n_blocks:
        allocation = manager.allocate("now", prompt)
        assert allocation is not None and allocation.cached_tokens == found


def picture(pool: Any, manager: production.BlockManager) -> Any:
    blocks = range(pool.n_blocks)
    tree = manager._radix.tree
    return (
        [(pool.refcount(block), pool.fill(block)) for block in blocks],
        (pool.n_free, pool.n_used, pool.n_cached, pool.n_named, list(pool._cached)),
        (manager.stats, manager._radix.stats, list(tree.walk()), dict(tree._uses), list(tree._leaves)),
    )


@each_mode
@pytest.mark.parametrize("publish", ["release", "prefill"])
def test_answers_are_the_same_in_both_orders(mode: PrefixCache, publish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random traffic with stops and cancellations, in a pool that is short: every answer is held against the truth."""
    monkeypatch.setattr(engine_traffic, "SHORT", replace(engine_traffic.SHORT, order="prefix"))
    manager = partial(production.BlockManager, publish=publish)
    subject = Subject(find("L10.4"), {"KvPool": kv_pool.KvPool, "BlockManager": manager})
    traffic = engine_traffic.Traffic(CHECKSUM, seed=4)
    happened = engine_traffic.serve(subject, CHECKSUM, mode, [traffic.wanted() for _ in range(60)], seed=4)
    assert happened["steps with a queue"] > 20 and happened["Preempted"] > 0
    assert (happened["hit tokens"] > 0) == (mode is not PrefixCache.NONE)


def backlog(order: str, mode: PrefixCache) -> tuple[list[list[int]], int]:
    """Six requests for each of four prefixes, mixed, in a pool for one prefix; their answers, and what was computed."""
    choose = seeded(9)
    prompts = [[*([10 * prefix] * 16), prefix, own] for prefix in range(4) for own in range(6)]
    choose.shuffle(prompts)
    config = EngineConfig(block_size=B, n_blocks=10, max_batch_tokens=32, max_running=1, prefix_cache=mode, order=order)
    pool = kv_pool.KvPool(10, B)
    engine = Engine(CHECKSUM.runner(pool), production.BlockManager(pool, mode), config)
    for name, prompt in enumerate(prompts):
        engine.add(prompt, 2, request_id=name)
    engine.run_until_idle()
    records = [engine.records[name] for name in range(len(prompts))]
    return [record.tokens for record in records], sum(record.prefill_tokens for record in records)


@caches
def test_a_backlog_computes_each_prefix_once_in_the_order_of_prefixes(mode: PrefixCache) -> None:
    (answers, arrival), (same_answers, prefix) = (backlog(order, mode) for order in ("arrival", "prefix"))
    assert answers == same_answers
    assert prefix == 4 * 18 + 20 * 2 < arrival

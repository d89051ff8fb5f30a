"""No answer depends on the cache: the engine on real models, held to the bit against runs of one sequence alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from autograder.implementations import flat, reference
from autograder.stories import seeded
from autograder.subject import Subject
from autograder.tests.test_block_manager import caching_changes_no_answer, prefill_starts_at_the_hits_end
from course.contract import PrefixCache
from course.engine.config import EngineConfig
from course.engine.engine import PromptTooLong, start
from course.engine.models import ModelUnavailable, load_model
from course.engine.requests import Preempted
from course.lab_models import on_threads
from course.modules import bound, find
from tests.byte_served import Served, ToTheBit
from tests.engine_traffic import Traffic, engine_over, serve

MODULE = find("L10.4")
RIGHT = {"reference": reference(MODULE), "flat model": flat(MODULE)}
N_BYTES = 256

each_right_one = pytest.mark.parametrize("subject", RIGHT.values(), ids=RIGHT)
each_mode = pytest.mark.parametrize("mode", PrefixCache, ids=lambda mode: mode.value)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """On a busy machine two threads wait for one another far longer than they work on steps as small as these."""
    with on_threads(1):
        yield


@pytest.fixture(scope="module")
def tiny() -> Served:
    return Served(load_model("byte-tiny"))


# ---------------------------------------------------------------- the named tests, on a model


@each_right_one
def test_the_named_tests_of_the_engine_hold_on_the_byte_model(subject: Subject, tiny: Served) -> None:
    prefill_starts_at_the_hits_end(subject, tiny)
    caching_changes_no_answer(subject, tiny)


# ---------------------------------------------------------------- random traffic


@each_mode
def test_a_thousand_random_requests_in_a_pool_that_is_short(tiny: Served, mode: PrefixCache) -> None:
    traffic = Traffic(tiny, seed=8, n_ids=N_BYTES)
    happened = serve(RIGHT["reference"], tiny, mode, [traffic.wanted() for _ in range(1000)], seed=9)
    assert happened["Finished"] == 1000 == happened["length"] + happened["stop"] + happened["cancelled"]
    assert min(happened["cancelled"], happened["stop"], happened["Preempted"]) > 50
    assert (happened["hit tokens"] > 2000) is (happened["evictions"] > 500) is (mode is not PrefixCache.NONE)


# ---------------------------------------------------------------- to the bit


N_NEW = 4


class Scene:
    """One engine, and phases of traffic over five chats that share a long prefix."""

    def __init__(self, served: ToTheBit, mode: PrefixCache, budget: int) -> None:
        choose = seeded(42)
        shared = choose.choices(range(N_BYTES), k=150)
        self.chats = [shared + choose.choices(range(N_BYTES), k=length) for length in (1, 10, 23, 37, 50)]
        self.others = [choose.choices(range(N_BYTES), k=210) for _ in range(4)]
        self.served = served
        config = EngineConfig(n_blocks=58, max_batch_tokens=budget, max_running=5, prefix_cache=mode)
        self.engine, self.pool, self.manager = engine_over(RIGHT["reference"], served, config)
        self.names = count()

    def serve(self, prompts: list[list[int]], n_new: int = N_NEW) -> int:
        """Serve these at the same time; how many were preempted. The runner compares on the way."""
        names = [f"r{next(self.names)}" for _ in prompts]
        for name, prompt in zip(names, prompts, strict=True):
            self.served.prompts[name] = prompt
            self.engine.add(prompt, n_new, request_id=name)
        before = self.served.compared
        events = self.engine.run_until_idle()
        assert self.served.compared - before >= n_new * len(prompts)
        for name, prompt in zip(names, prompts, strict=True):
            assert self.engine.records[name].tokens == self.served.greedy(prompt, n_new)
        return sum(isinstance(event, Preempted) for event in events)


def same_to_the_bit(served: ToTheBit, mode: PrefixCache, budget: int) -> None:
    """Alone and five at once, cold and on hits, before and after blocks were evicted and requests preempted."""
    scene = Scene(served, mode, budget)
    assert scene.serve(scene.chats[:1]) == scene.serve(scene.chats[:1]) == scene.serve(scene.chats) == 0
    assert scene.manager.stats.evictions == 0
    assert scene.serve(scene.others, n_new=40) > 0
    assert (scene.manager.stats.evictions > 0) is (mode is not PrefixCache.NONE)
    scene.serve(scene.chats[:1])
    scene.serve(scene.chats)
    assert (scene.manager.stats.hit_tokens > 1000) is (mode is not PrefixCache.NONE)


@pytest.fixture(scope="module")
def byte() -> ToTheBit:
    return ToTheBit(load_model("byte-tiny"))


each_budget = pytest.mark.parametrize("budget", (16, 32, 64, 256))


@each_mode
@each_budget
def test_the_byte_models_logits_are_the_same_to_the_bit(byte: ToTheBit, mode: PrefixCache, budget: int) -> None:
    same_to_the_bit(byte, mode, budget)


@pytest.fixture(scope="module")
def smollm2() -> ToTheBit:
    try:
        return ToTheBit(load_model("smollm2"))
    except ModelUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
@each_mode
@each_budget
def test_smollm2s_logits_are_the_same_to_the_bit(smollm2: ToTheBit, mode: PrefixCache, budget: int) -> None:
    same_to_the_bit(smollm2, mode, budget)


# ---------------------------------------------------------------- an engine from a configuration


def test_an_engine_is_made_from_a_configuration_over_the_modules_that_are_bound(tiny: Served) -> None:
    seen: list[Any] = []
    config = EngineConfig(model="byte-tiny", block_size=8, n_blocks=6, prefix_cache=PrefixCache.HASH)
    with bound(RIGHT["reference"].names):
        engine = start(tiny.loaded, config, watchers=[seen.extend])
    request = engine.add([1, 2, 3], 2)
    assert engine.run_until_idle() == seen
    assert engine.records[request].tokens == tiny.greedy([1, 2, 3], 2)
    with pytest.raises(ValueError, match="the model knows 0 to"):
        engine.add([100_000], 1)


def test_an_engine_is_made_over_the_manager_it_is_given(tiny: Served) -> None:
    made: list[Any] = []

    def make_manager(pool: Any, mode: PrefixCache) -> Any:
        made.append((pool.n_blocks, pool.block_size, mode))
        return RIGHT["flat model"].BlockManager(pool, mode)

    engine = start(tiny.loaded, EngineConfig(n_blocks=400), make_manager, RIGHT["flat model"].KvPool)
    assert [*engine.stream([1, 2, 3], 4)] == tiny.greedy([1, 2, 3], 4)
    assert made == [(400, 16, PrefixCache.RADIX)]
    with pytest.raises(PromptTooLong, match="and the model has 4096"):
        engine.add([1] * 4096, 2)

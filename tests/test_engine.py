"""The engine: requests, their events and their ends, with a checksum in place of a language model."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from autograder.implementations import flat, reference
from autograder.stand_in import ChecksumModel, greedy
from autograder.subject import Subject
from course.contract import PrefixCache
from course.engine.config import EngineConfig
from course.engine.engine import Engine, PromptTooLong
from course.engine.requests import Admitted, Finished, FirstToken, Preempted, Prefilled, Token
from course.modules import find
from tests.engine_traffic import SHORT, Traffic, engine_over, serve

MODULE = find("L10.4")
RIGHT = {"reference": reference(MODULE), "flat model": flat(MODULE)}
CHECKSUM = ChecksumModel()
SMALL = EngineConfig(block_size=4, n_blocks=8, max_batch_tokens=6, max_running=3, max_new_tokens=5)
PROMPT = list(range(1, 11))

each_right_one = pytest.mark.parametrize("subject", RIGHT.values(), ids=RIGHT)
each_mode = pytest.mark.parametrize("mode", PrefixCache, ids=lambda mode: mode.value)


def small(**changes: Any) -> tuple[Engine, Any, Any]:
    """An engine of 8 blocks of 4 over the flat models, its pool and its manager."""
    return engine_over(flat(MODULE), CHECKSUM, EngineConfig(**{**vars(SMALL), **changes}))


# ---------------------------------------------------------------- one request


def test_a_request_is_told_step_by_step() -> None:
    engine, _, _ = small()
    request = engine.add(PROMPT, 2)
    first, second = greedy(PROMPT, 2)
    assert engine.step() == [Admitted(request, 0), Prefilled(request, 0, 6)]
    ttft = engine.step()[1]
    assert isinstance(ttft, FirstToken) and ttft.ttft == engine.records[request].ttft
    assert engine.step() == [Token(request, second), Finished(request, "length")]
    assert (engine.step(), engine.idle, engine.records[request].tokens) == ([], True, [first, second])


def test_a_record_says_what_a_request_took() -> None:
    engine, _, _ = small(prefix_cache="hash")
    before = engine.add(PROMPT, 5)
    engine.run_until_idle()
    after = engine.add([*PROMPT, *engine.records[before].tokens, 3], 1)
    engine.run_until_idle()
    record = engine.forget(after)
    assert (record.n_prompt, record.cached_tokens, record.prefill_tokens, record.preemptions) == (16, 12, 4, 0)
    assert (engine.records[before].cached_tokens, engine.records[before].prefill_tokens) == (0, 10)
    with pytest.raises(KeyError):
        engine.forget(after)


def test_the_time_to_the_first_token_includes_the_wait() -> None:
    clock = count(100.0)
    config = EngineConfig(**{**vars(SMALL), "max_running": 1})
    pool = flat(MODULE).KvPool(8, 4)
    manager = flat(MODULE).BlockManager(pool, PrefixCache.NONE)
    engine = Engine(CHECKSUM.runner(pool), manager, config, clock=lambda: next(clock))
    first, second = engine.add([1], 2), engine.add([2], 2)
    assert engine.records[first].ttft is None
    engine.run_until_idle()
    assert [(record.arrived, record.first_token, record.ttft) for record in engine.records.values()] == [
        (100.0, 102.0, 2.0),
        (101.0, 103.0, 2.0),
    ]
    assert [engine.records[first].reason, engine.records[second].reason] == ["length", "length"]


def test_a_stop_token_ends_an_answer_and_is_no_part_of_it() -> None:
    engine, pool, _ = small(prefix_cache="none")
    truth = greedy(PROMPT, 4)
    request = engine.add(PROMPT, 5, stop_ids=[truth[2], 999_999])
    events = engine.run_until_idle()
    assert (engine.records[request].tokens, engine.records[request].reason) == (truth[:2], "stop")
    assert events[-1] == Finished(request, "stop")
    assert pool.n_free == 8


def test_a_stop_token_may_come_first() -> None:
    engine, _, _ = small()
    request = engine.add(PROMPT, 5, stop_ids=greedy(PROMPT, 1))
    events = engine.run_until_idle()
    assert (engine.records[request].tokens, engine.records[request].reason) == ([], "stop")
    assert any(isinstance(event, FirstToken) for event in events) and engine.records[request].ttft is not None


def test_the_configuration_says_how_long_answers_are_unless_a_request_does() -> None:
    engine, _, _ = small()
    default, own = engine.add(PROMPT), engine.add(PROMPT, 7)
    engine.run_until_idle()
    assert (engine.records[default].tokens, engine.records[own].tokens) == (greedy(PROMPT, 5), greedy(PROMPT, 7))


# ---------------------------------------------------------------- what is refused


def test_a_request_that_can_never_fit_is_refused_at_once() -> None:
    engine, _, manager = small()
    with pytest.raises(PromptTooLong, match="30 tokens and up to 4 new ones need 9 blocks of 4, and the pool has 8"):
        engine.add([1] * 30, 4)
    assert (engine.idle, engine.records, manager.available_blocks) == (True, {}, 8)
    request = engine.add([1] * 30, 3)
    engine.run_until_idle()
    assert engine.records[request].tokens == greedy([1] * 30, 3)


def test_a_request_beyond_the_models_positions_is_refused() -> None:
    pool = flat(MODULE).KvPool(8, 4)
    engine = Engine(
        CHECKSUM.runner(pool), flat(MODULE).BlockManager(pool, PrefixCache.NONE), SMALL, max_positions=12, vocabulary=50
    )
    engine.add([1] * 10, 3)
    with pytest.raises(PromptTooLong, match="need 13 positions, and the model has 12"):
        engine.add([1] * 10, 4)
    for token in (-1, 50):
        with pytest.raises(ValueError, match=f"token {token} at place 1: the model knows 0 to 49"):
            engine.add([49, token], 1)


@pytest.mark.parametrize("prompt, n_new", [([], 1), ([1], 0), ([1], -1)])
def test_nothing_asked_and_nothing_wanted_are_refused(prompt: list[int], n_new: int) -> None:
    engine, _, _ = small()
    with pytest.raises(ValueError, match="a request has a prompt and asks for a token"):
        engine.add(prompt, n_new)


def test_an_id_is_used_once_until_it_is_forgotten() -> None:
    engine, _, _ = small()
    assert engine.add([1], 1, request_id=0) == 0
    assert engine.add([1], 1) == 1
    with pytest.raises(ValueError, match="request 0 is there already"):
        engine.add([1], 1, request_id=0)
    with pytest.raises(ValueError, match="request 0 is not finished"):
        engine.forget(0)
    engine.run_until_idle()
    assert engine.forget(0).tokens == greedy([1], 1)
    assert engine.add([1], 1, request_id=0) == 0


# ---------------------------------------------------------------- streaming and cancelling


def test_a_stream_gives_each_token_when_it_is_there() -> None:
    engine, _, _ = small()
    other = engine.add([5, 6], 5)
    tokens = engine.stream(PROMPT, 3, request_id="mine")
    assert next(tokens) == greedy(PROMPT, 1)[0]
    assert engine.records["mine"].reason is None
    assert [*tokens] == greedy(PROMPT, 3)[1:]
    assert engine.records["mine"].reason == "length"
    engine.run_until_idle()
    assert engine.records[other].tokens == greedy([5, 6], 5)


def test_streams_take_turns() -> None:
    engine, _, _ = small()
    streams = [engine.stream([n], 4) for n in (1, 2, 3)]
    assert [*zip(*streams, strict=True)] == [*zip(*(greedy([n], 4) for n in (1, 2, 3)), strict=True)]


def test_a_stream_refuses_when_it_is_asked_for_not_when_it_is_read() -> None:
    engine, _, _ = small()
    with pytest.raises(PromptTooLong):
        engine.stream([1] * 40)


def test_a_closed_stream_is_a_cancelled_request() -> None:
    engine, pool, _ = small(prefix_cache="none")
    tokens = engine.stream(PROMPT, 5, request_id="mine")
    next(tokens)
    tokens.close()  # type: ignore[attr-defined]
    assert (engine.records["mine"].reason, engine.idle, pool.n_free) == ("cancelled", True, 8)
    assert Finished("mine", "cancelled") in engine.step()


@each_mode
@pytest.mark.parametrize("steps", range(5))
def test_a_cancelled_request_gives_its_blocks_back(mode: PrefixCache, steps: int) -> None:
    """Before it runs, in the middle of its prefill, and while it answers."""
    engine, pool, manager = small(prefix_cache=mode)
    request = engine.add(PROMPT, 5)
    for _ in range(steps):
        engine.step()
    assert engine.cancel(request) and not engine.cancel(request)
    assert engine.step() == [Finished(request, "cancelled")]
    assert (engine.idle, manager.available_blocks) == (True, 8)
    assert pool.n_used == (manager.cached_blocks if mode is PrefixCache.RADIX else 0)
    computed = (0, 6, 10, 11, 12)[steps]
    assert manager.cached_blocks == (0 if mode is PrefixCache.NONE else computed // 4)
    assert engine.records[request].tokens == greedy(PROMPT, 5)[: max(0, steps - 1)]


def test_a_request_that_is_not_there_cannot_be_cancelled() -> None:
    engine, _, _ = small()
    with pytest.raises(KeyError):
        engine.cancel("nobody")


# ---------------------------------------------------------------- short of blocks


@each_mode
@each_right_one
def test_a_preempted_request_is_answered_as_if_nothing_had_happened(subject: Subject, mode: PrefixCache) -> None:
    config = EngineConfig(**{**vars(SMALL), "prefix_cache": mode, "max_batch_tokens": 32})
    engine, _, _ = engine_over(subject, CHECKSUM, config)
    old, young = engine.add([1] * 13, 12), engine.add([2] * 13, 12)
    events = engine.run_until_idle()
    assert Preempted(young) in events and Preempted(old) not in events
    record = engine.records[young]
    assert record.preemptions >= 1 and record.cached_tokens == 0
    assert (record.prefill_tokens > 13) and engine.records[old].prefill_tokens == 13
    for request, prompt in ((old, [1] * 13), (young, [2] * 13)):
        assert engine.records[request].tokens == greedy(prompt, 12)
        answered = [event.token for event in events if isinstance(event, Token) and event.request == request]
        assert answered == greedy(prompt, 12)
    assert sum(isinstance(event, FirstToken) for event in events) == 2


def test_a_runner_that_fails_once_can_be_tried_again() -> None:
    class Fails:
        def __init__(self, runner: Any) -> None:
            self.runner, self.left = runner, 3

        def run(self, chunks: Any) -> Any:
            self.left -= 1
            if self.left in (0, 1):
                raise RuntimeError("no luck")
            return self.runner.run(chunks)

    pool = flat(MODULE).KvPool(8, 4)
    engine = Engine(Fails(CHECKSUM.runner(pool)), flat(MODULE).BlockManager(pool, PrefixCache.RADIX), SMALL)
    request = engine.add([1, 2, 3, 4], 5)
    engine.step()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no luck"):
            engine.step()
    engine.run_until_idle()
    assert engine.records[request].tokens == greedy([1, 2, 3, 4], 5)


@each_mode
@each_right_one
def test_a_thousand_random_requests_in_a_pool_that_is_short(subject: Subject, mode: PrefixCache) -> None:
    traffic = Traffic(CHECKSUM, seed=5)
    happened = serve(subject, CHECKSUM, mode, [traffic.wanted() for _ in range(1000)], seed=6)
    assert happened["Finished"] == 1000 == happened["length"] + happened["stop"] + happened["cancelled"]
    assert min(happened["cancelled"], happened["stop"], happened["Preempted"]) > 50
    assert happened["steps with a queue"] > 0.8 * happened["steps"]
    assert (happened["hit tokens"] > 2000) is (happened["evictions"] > 500) is (mode is not PrefixCache.NONE)


def test_the_traffic_needs_the_whole_pool() -> None:
    """Else it would not be short."""
    traffic = Traffic(CHECKSUM, seed=5)
    sizes = [len(wanted.prompt) + len(wanted.truth) for wanted in (traffic.wanted() for _ in range(200))]
    assert max(sizes) > 0.9 * SHORT.n_blocks * SHORT.block_size

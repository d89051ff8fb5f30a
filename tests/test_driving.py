"""Engines under load, on clocks that a stand-in for the model turns: a second a step, and no time in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from autograder.benchmarks.serving import best_names
from course.contract import PrefixCache
from course.engine.config import EngineConfig
from course.engine.driving import Clock, Done, Request, Site, drive, first_site, new_site
from course.engine.engine import Engine, PromptTooLong
from course.engine.step import Chunk

SMALL = EngineConfig(block_size=4, n_blocks=16, max_batch_tokens=16, max_running=4)
STOP = 99


@dataclass
class Seconds:
    """A timer that only steps turn: each takes so many seconds. The answer to a chunk is its end."""

    step: float = 1.0
    now: float = 0.0
    sizes: list[int] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def run(self, chunks: Sequence[Chunk]) -> list[int]:
        self.now += self.step
        self.sizes.append(sum(len(chunk.tokens) for chunk in chunks))
        return [chunk.end for chunk in chunks]


def site(config: EngineConfig = SMALL, step: float = 1.0, name: str = "engine") -> Site:
    names, timer = best_names(), Seconds(step)
    pool = names["KvPool"](config.n_blocks, config.block_size)
    manager = names["BlockManager"](pool, config.prefix_cache)
    clock = Clock(timer=timer)
    return Site(name, Engine(timer, manager, config, clock=clock), pool, manager, clock, timer)


@dataclass
class Listed:
    """Traffic that is known from the start, and what follows an answer."""

    requests: Sequence[Request]
    follows: Callable[[Request, Sequence[int], float], Request | None] = lambda request, answer, now: None

    def first(self) -> Sequence[Request]:
        return self.requests

    def then(self, request: Request, answer: Sequence[int], now: float) -> Request | None:
        return self.follows(request, answer, now)


def request(name: str, at: float, n_prompt: int = 6, n_new: int = 3, **more: object) -> Request:
    return replace(Request(name, tuple(range(n_prompt)), n_new, at), **more)  # type: ignore[arg-type]


def named(done: Sequence[Done]) -> dict[str, Done]:
    return {each.request.name: each for each in done}


# ---------------------------------------------------------------- time


def test_the_clock_jumps_over_idle_time_and_counts_the_steps() -> None:
    here = site()
    done = named(drive([here], Listed([request("b", 100.0), request("a", 5.0)])))
    assert (done["a"].first_token, done["a"].finished, done["a"].ttft) == (6.0, 8.0, 1.0)
    assert (done["b"].arrived, done["b"].first_token, done["b"].finished) == (100.0, 101.0, 103.0)
    assert here.busy == 6.0 and here.clock.now == 103.0


def test_what_comes_in_the_middle_of_a_step_waits_for_its_end_and_the_wait_counts() -> None:
    done = named(drive([site()], Listed([request("a", 0.0), request("b", 0.25)])))
    assert done["b"].arrived == 0.25 and done["b"].first_token == 2.0 and done["b"].ttft == 1.75


def test_seconds_a_token_are_those_after_the_first() -> None:
    done = drive([site()], Listed([request("a", 0.0, n_new=5), request("b", 50.0, n_new=1)]))
    assert [each.per_token for each in done] == [1.0, None]
    assert [each.tokens for each in done] == [(6, 7, 8, 9, 10), (6,)]


def test_a_stop_token_is_no_part_of_the_answer_but_it_took_its_time() -> None:
    (done,) = drive([site()], Listed([request("a", 0.0, n_new=5, stop_ids=frozenset({8}))]))
    assert done.tokens == (6, 7) and done.n_computed == 3
    assert done.finished == 3.0 and done.per_token == 1.0


def test_a_clock_says_the_time_in_the_middle_of_a_step() -> None:
    timer = Seconds(now=40.0)
    clock = Clock(7.0, timer)
    with clock.running():
        timer.now += 2.0
        assert (clock(), clock.now) == (9.0, 7.0)
    timer.now += 30.0
    assert clock() == clock.now == 9.0


# ---------------------------------------------------------------- what follows


def test_what_follows_an_answer_comes_at_its_time_with_the_answer_in_it() -> None:
    def again(asked: Request, answer: Sequence[int], now: float) -> Request | None:
        if asked.name == "second":
            return None
        return replace(asked, name="second", prompt=(*asked.prompt, *answer, 1), at=now + 10)

    first, second = drive([site()], Listed([request("first", 1.0)], again))
    assert second.request.at == first.finished + 10 == 14.0 and second.first_token == 15.0
    assert second.request.prompt == (*range(6), 6, 7, 8, 1)
    assert second.cached_tokens == 8 and second.prefill_tokens == 2


# ---------------------------------------------------------------- several sites


def test_two_sites_are_two_machines() -> None:
    sites = [site(name="left"), site(step=0.5, name="right")]
    traffic = Listed([request("a", 0.0), request("b", 0.0)])
    done = named(drive(sites, traffic, lambda asked: int(asked.name == "b")))
    assert (done["a"].site, done["a"].finished) == ("left", 3.0)
    assert (done["b"].site, done["b"].finished) == ("right", 1.5)
    assert [len(each.done) for each in sites] == [1, 1]


def test_a_request_is_routed_when_it_arrives_and_not_before() -> None:
    sites = [site(), site(step=0.5)]
    seen = []

    def route(asked: Request) -> int:
        seen.append((asked.name, [each.engine.idle for each in sites]))
        return int(asked.name == "b")

    drive(sites, Listed([request("c", 2.0), request("b", 0.0), request("a", 0.0)]), route)
    assert seen == [("b", [True, True]), ("a", [True, False]), ("c", [False, True])], "by 2.0 b is answered"


# ---------------------------------------------------------------- what is noted


def test_samples_follow_the_managers_counters() -> None:
    here = site(replace(SMALL, max_running=1))
    drive([here], Listed([request("a", 0.0, 9), request("b", 0.0, 9)]))
    assert [(sample.time, sample.hit_tokens, sample.query_tokens, sample.present) for sample in here.samples] == [
        (1.0, 0, 9, 2), (3.0, 0, 9, 1), (4.0, 8, 18, 1), (6.0, 8, 18, 0),
    ]  # fmt: skip


def test_preemptions_are_counted_and_their_prefill_is_computed_again() -> None:
    config = replace(SMALL, n_blocks=4, prefix_cache=PrefixCache.NONE)
    here = site(config)
    done = drive([here], Listed([request("a", 0.0, 7, 6), request("b", 0.0, 7, 6)]))
    assert here.preemptions == sum(each.preemptions for each in done) >= 1
    assert sum(each.prefill_tokens for each in done) > 14
    assert [each.tokens for each in done] == [tuple(range(7, 13))] * 2


def test_it_tells_how_far_it_is() -> None:
    heard: list[tuple[float, int, int]] = []
    drive([site()], Listed([request("a", 0.0), request("b", 1.0)]), first_site, lambda *far: heard.append(far))
    assert heard == [(1.0, 0, 1), (2.0, 0, 2), (3.0, 1, 1), (4.0, 2, 0)]


def test_what_was_done_before_an_exception_stays_with_the_site() -> None:
    here = site()

    def interrupt(now: float, done: int, open_: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive([here], Listed([request("a", 0.0), request("b", 50.0)]), first_site, interrupt)
    assert [each.request.name for each in here.done] == ["a"]


def test_a_request_that_can_never_be_served_is_an_error() -> None:
    with pytest.raises(PromptTooLong):
        drive([site()], Listed([request("a", 0.0, 100)]))


# ---------------------------------------------------------------- on a model


def test_new_sites_share_a_model_and_answer_alike_in_every_mode() -> None:
    from course.engine.models import load_model

    loaded = load_model("byte-tiny")
    answers = []
    for mode in PrefixCache:
        here = new_site(loaded, replace(SMALL, prefix_cache=mode), best_names(), mode.value)
        done = named(drive([here], Listed([request("a", 0.0, 30), request("b", 1e9, 30)])))
        assert here.name == done["a"].site == mode.value and here.runner.model is loaded.model
        assert 0 < done["a"].ttft and done["a"].first_token <= done["a"].finished < 1e9
        assert done["b"].cached_tokens == (0 if mode is PrefixCache.NONE else 28)
        answers.append([each.tokens for each in done.values()])
    assert answers[0] == answers[1] == answers[2]

"""Random traffic for an engine: prompts that share prefixes, stops and cancellations, in a pool that is short.

It knows what a user may do and what must hold after every step. Which model answers it does not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from autograder.stand_in import ServedModel
from autograder.stories import seeded
from autograder.subject import Subject
from course.contract import PrefixCache
from course.engine.config import EngineConfig
from course.engine.engine import Engine
from course.engine.requests import RequestId

LONGEST = 40
"""Positions of the longest request: as many as the pool holds."""

SHORT = EngineConfig(block_size=4, n_blocks=LONGEST // 4, max_batch_tokens=14, max_running=5)
"""A pool for one long request or a few short ones, while five may run."""


def engine_over(subject: Subject, model: ServedModel, config: EngineConfig) -> tuple[Engine, Any, Any]:
    """An engine over a new pool and manager of a subject, and these two."""
    pool = subject.KvPool(config.n_blocks, config.block_size)
    manager = subject.BlockManager(pool, config.prefix_cache)
    return Engine(model.runner(pool), manager, config), pool, manager


@dataclass
class Wanted:
    """A request and its true answer."""

    prompt: list[int]
    truth: list[int]
    stop_ids: frozenset[int]

    @property
    def answer(self) -> list[int]:
        """The truth up to the first stop token."""
        ends = [place for place, token in enumerate(self.truth) if token in self.stop_ids]
        return self.truth[: ends[0]] if ends else self.truth


@dataclass
class Traffic:
    """Seeded requests of tokens below `n_ids`; the same seed gives the same ones."""

    model: ServedModel
    seed: int
    n_ids: int = 200
    finished: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.choose = seeded(self.seed)
        self.prefixes = [self.choose.choices(range(self.n_ids), k=length) for length in (6, 9, 17)]

    def wanted(self) -> Wanted:
        """The next request: a shared prefix or what an earlier one said, and something new."""
        begin = self.choose.choice(self.finished if self.finished and self.choose.random() < 0.3 else self.prefixes)
        prompt = (begin + self.choose.choices(range(self.n_ids), k=self.choose.randrange(1, 8)))[: LONGEST - 12]
        truth = self.model.greedy(prompt, self.choose.randrange(1, 13))
        self.finished = [*self.finished[-5:], prompt + truth]
        stops = {self.choose.choice(truth)} if self.choose.random() < 0.3 else set()
        return Wanted(prompt, truth, frozenset(stops))


def serve(
    subject: Subject, model: ServedModel, mode: PrefixCache, requests: Sequence[Wanted], seed: int
) -> Counter[str]:
    """Serve requests that arrive, and are cancelled, at random; how often what happened. Checks every step."""
    config = EngineConfig(**{**vars(SHORT), "prefix_cache": mode})
    engine, pool, manager = engine_over(subject, model, config)
    choose, asked, happened = seeded(seed), dict[RequestId, Wanted](), Counter[str]()
    left = list(reversed(requests))
    while left or not engine.idle:
        if left and len(engine.scheduler.waiting) < 6 and choose.random() < 0.7:
            wanted = left.pop()
            asked[engine.add(wanted.prompt, len(wanted.truth), wanted.stop_ids)] = wanted
        if asked and choose.random() < 0.05:
            happened["cancelled"] += engine.cancel(choose.choice(list(asked)))
        happened.update(type(event).__name__ for event in engine.step())
        assert pool.n_free + pool.n_used + pool.n_cached == pool.n_blocks
        happened["steps with a queue"] += bool(engine.scheduler.waiting)
        happened["steps"] += 1
        for request in [name for name in asked if engine.records[name].reason]:
            _check_answer(engine, request, asked.pop(request), happened)
    happened["hit tokens"], happened["evictions"] = manager.stats.hit_tokens, manager.stats.evictions
    assert manager.available_blocks == pool.n_blocks
    assert pool.n_used == (manager.cached_blocks if mode is PrefixCache.RADIX else 0)
    assert not engine.records
    return happened


def _check_answer(engine: Engine, request: RequestId, wanted: Wanted, happened: Counter[str]) -> None:
    record = engine.forget(request)
    happened[str(record.reason)] += record.reason != "cancelled"
    if record.reason == "cancelled":
        assert record.tokens == wanted.answer[: len(record.tokens)]
    else:
        assert record.tokens == wanted.answer
        assert record.reason == ("length" if wanted.answer == wanted.truth else "stop")

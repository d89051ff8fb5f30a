"""bench_order: a backlog over several prefixes, admitted as it came or by what is cached (L10.4, its last section).

`ol bench order`. Requests that share a few prefixes wait in a mixed order, all at once, and the pool has no room for
every prefix. In the order of arrival a prefix is often evicted before it is used again; in the order of prefixes
those that share one follow each other. It knows what is measured and what follows. How it is shown, and whose
classes these are, it does not know.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from autograder.benchmarks.serving import Names, new_server
from course.contract import PrefixCache
from course.engine.scheduler import ORDERS
from course.percentiles import percentile
from course.progress import Tell, silent

if TYPE_CHECKING:
    from course.engine.config import EngineConfig
    from course.engine.models import LoadedModel

BLOCK_SIZE = 16


@dataclass(frozen=True)
class Plan:
    """What waits, and for what.

    Attributes:
        n_prefixes: how many prefixes there are.
        n_each: requests for each of them.
        n_prefix, n_suffix: tokens of a prefix, and of a request's own after it.
        n_new: tokens of an answer.
        room: prefixes that the pool holds beside the requests that run.
        max_running: requests that run at the same time.
        chunk: positions in a step, at most.
        mode: the prefix cache.
        repeats: how often each order is measured, each time with another mixture.
    """

    n_prefixes: int = 6
    n_each: int = 8
    n_prefix: int = 384
    n_suffix: int = 48
    n_new: int = 4
    room: int = 1
    max_running: int = 2
    chunk: int = 256
    mode: str = "radix"
    repeats: int = 3

    @property
    def n_requests(self) -> int:
        """Requests in the backlog."""
        return self.n_prefixes * self.n_each

    @property
    def n_blocks(self) -> int:
        """Blocks of the pool: what runs, and `room` prefixes."""
        longest = self.n_prefix + self.n_suffix + self.n_new
        return self.max_running * -(-longest // BLOCK_SIZE) + self.room * -(-self.n_prefix // BLOCK_SIZE)

    @property
    def best_hit_rate(self) -> float:
        """The hit rate when every prefix is computed once."""
        shared = self.n_prefix // BLOCK_SIZE * BLOCK_SIZE
        return (self.n_each - 1) * shared / (self.n_each * (self.n_prefix + self.n_suffix))


@dataclass(frozen=True)
class Run:
    """A backlog, served in one order.

    Attributes:
        ttfts: seconds to the first token, by request in the order of arrival.
        hit_rate: hit tokens over query tokens.
        prefill_tokens: positions computed as prefill.
        preemptions: how often a request had to give its blocks back.
        answers: by request.
    """

    ttfts: tuple[float, ...]
    hit_rate: float
    prefill_tokens: int
    preemptions: int
    answers: tuple[tuple[int, ...], ...]

    @property
    def mean(self) -> float:
        """Mean time to first token, seconds."""
        return statistics.fmean(self.ttfts)

    def at(self, percent: int) -> float:
        """A percentile of the times to first token, seconds."""
        return percentile(self.ttfts, percent)


@dataclass(frozen=True)
class Result:
    """What was measured: by order, a run for each repeat."""

    plan: Plan
    runs: Mapping[str, tuple[Run, ...]]

    @property
    def same_answers(self) -> bool:
        """Whether every request got one answer, whatever the order."""
        by_order = [[run.answers for run in runs] for runs in self.runs.values()]
        return all(answers == by_order[0] for answers in by_order)

    @property
    def ttfts(self) -> dict[str, list[tuple[float, ...]]]:
        """Seconds to the first token, by order and repeat."""
        return {order: [run.ttfts for run in runs] for order, runs in self.runs.items()}

    def median(self, order: str, of: Callable[[Run], float]) -> float:
        """A figure of this order: the median of its repeats."""
        return statistics.median(map(of, self.runs[order]))


# ---------------------------------------------------------------- measuring


def measure(loaded: LoadedModel, names: Names, plan: Plan, tell: Tell = silent) -> Result:
    """Serve each repeat's backlog in both orders, in turn.

    Args:
        loaded: the model.
        names: the classes to run, `KvPool` and a `BlockManager` that can look a prefix up without taking it.
        plan: what waits.
        tell: hears how far it is.

    Raises:
        ValueError: the manager has no `cached_prefix`.
    """
    runs: dict[str, list[Run]] = {order: [] for order in ORDERS}
    n_ids = min(256, loaded.model.config.vocab_size)
    _run(loaded, names, plan, ORDERS[0], backlog(plan, n_ids, plan.repeats)[:2])  # warms up, and is not counted
    for repeat in range(plan.repeats):
        prompts = backlog(plan, n_ids, repeat)
        for place in range(len(ORDERS)):
            order = ORDERS[(place + repeat) % len(ORDERS)]  # none of them always profits from its place
            tell(f"order of {order}", repeat * len(ORDERS) + place, plan.repeats * len(ORDERS))
            runs[order].append(_run(loaded, names, plan, order, prompts))
    return Result(plan, {order: tuple(each) for order, each in runs.items()})


def backlog(plan: Plan, n_ids: int, seed: int) -> list[list[int]]:
    """The prompts in the order of arrival, mixed at random, of ids below `n_ids`."""
    source = random.Random(seed)

    def drawn(n: int) -> list[int]:
        return [source.randrange(n_ids) for _ in range(n)]

    prefixes = [drawn(plan.n_prefix) for _ in range(plan.n_prefixes)]
    prompts = [prefix + drawn(plan.n_suffix) for prefix in prefixes for _ in range(plan.n_each)]
    source.shuffle(prompts)
    return prompts


def _run(loaded: LoadedModel, names: Names, plan: Plan, order: str, prompts: Sequence[Sequence[int]]) -> Run:
    server = new_server(loaded, _config(loaded, plan, order), names)
    engine = server.engine
    records = [engine.records[engine.add(prompt, plan.n_new)] for prompt in prompts]
    engine.run_until_idle()
    return Run(
        tuple(record.ttft or 0.0 for record in records),
        server.manager.hit_rate,
        sum(record.prefill_tokens for record in records),
        sum(record.preemptions for record in records),
        tuple(tuple(record.tokens) for record in records),
    )


def _config(loaded: LoadedModel, plan: Plan, order: str) -> EngineConfig:
    from course.engine.config import EngineConfig

    return EngineConfig(
        model=loaded.name,
        prefix_cache=PrefixCache(plan.mode),
        order=order,
        block_size=BLOCK_SIZE,
        n_blocks=plan.n_blocks,
        max_batch_tokens=plan.chunk,
        max_running=plan.max_running,
    )


def as_data(result: Result) -> dict[str, object]:
    """A result for programs: seconds, tokens and shares in plain values."""
    return {
        "benchmark": "bench_order",
        "plan": {**asdict(result.plan), "n_blocks": result.plan.n_blocks},
        "same_answers": result.same_answers,
        "best_hit_rate": result.plan.best_hit_rate,
        "orders": {
            order: {
                "ttft_s": {
                    "mean": result.median(order, lambda run: run.mean),
                    "p50": result.median(order, lambda run: run.at(50)),
                    "p95": result.median(order, lambda run: run.at(95)),
                    "max": result.median(order, lambda run: max(run.ttfts)),
                },
                "hit_rate": [run.hit_rate for run in runs],
                "prefill_tokens": [run.prefill_tokens for run in runs],
                "preemptions": [run.preemptions for run in runs],
                "ttfts_s": [list(run.ttfts) for run in runs],
            }
            for order, runs in result.runs.items()
        },
    }

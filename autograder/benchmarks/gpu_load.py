"""A short serving run for `ol bench gpu`: requests that come at random times, in each mode.

It knows what comes, and what is noted of it; how a run is driven course/engine/driving.py knows. `ol bench serve` is
the one for figures on serving.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autograder.benchmarks.serving import Names
from autograder.benchmarks.shared_prefix_ttft import BLOCK_SIZE, Plan
from course.contract import PrefixCache
from course.engine.config import EngineConfig
from course.engine.driving import Done, Request, drive, new_site
from course.engine.loaded import LoadedModel
from course.progress import Tell

N_NEW = 4


@dataclass(frozen=True)
class Load:
    """One mode under load: seconds to the first token of each request, and what the cache found."""

    ttft: tuple[float, ...]
    hit_rate: float
    answers: tuple[tuple[int, ...], ...]

    @property
    def median(self) -> float:
        """Median TTFT in seconds."""
        return statistics.median(self.ttft)


@dataclass(frozen=True)
class _Arrivals:
    requests: tuple[Request, ...]

    def first(self) -> Sequence[Request]:
        return self.requests

    def then(self, request: Request, answer: Sequence[int], now: float) -> Request | None:
        return None


def serve_load(
    loaded: LoadedModel, names: Names, plan: Plan, chunk: int, rate: float, n_requests: int, tell: Tell
) -> Mapping[str, Load]:
    """Serve requests that arrive at a mean of `rate` a second and share the plan's prefix; all modes get the same ones.

    The first fills the cache: it comes alone, and is not among what is told.
    """
    requests = _requests(loaded, plan, rate, n_requests)
    loads = {}
    for place, mode in enumerate(PrefixCache):
        tell(f"under load, {mode.value}", place, len(PrefixCache))
        loads[mode.value] = _one_mode(loaded, names, plan, chunk, mode, requests)
    return loads


def _requests(loaded: LoadedModel, plan: Plan, rate: float, n: int) -> tuple[Request, ...]:
    source, n_ids, now, made = random.Random(11), min(256, loaded.model.config.vocab_size), 0.0, []
    for number in range(n + 1):
        own = tuple(source.randrange(n_ids) for _ in range(plan.n_suffix))
        made.append(Request(f"{number:03}", (*plan.prefix, *own), N_NEW, now))
        now += source.expovariate(rate) if number else 0.0
    return tuple(made)


def _one_mode(
    loaded: LoadedModel, names: Names, plan: Plan, chunk: int, mode: PrefixCache, requests: tuple[Request, ...]
) -> Load:
    each = -(-(plan.n_prompt + N_NEW) // BLOCK_SIZE)
    config = EngineConfig(
        model=loaded.name,
        prefix_cache=mode,
        block_size=BLOCK_SIZE,
        n_blocks=8 * each,
        max_batch_tokens=chunk,
        max_running=4,
    )
    site = new_site(loaded, config, names)
    drive([site], _Arrivals(requests[:1]))
    begun = site.clock.now
    later = tuple(Request(one.name, one.prompt, one.n_new, one.at + begun) for one in requests[1:])
    done: list[Done] = sorted(drive([site], _Arrivals(later)), key=lambda one: one.request.name)
    hits, asked = sum(one.cached_tokens for one in done), sum(one.n_prompt for one in done)
    return Load(tuple(one.ttft for one in done), hits / asked, tuple(one.tokens for one in done))

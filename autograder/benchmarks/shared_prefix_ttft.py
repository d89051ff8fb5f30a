"""bench_shared_prefix_ttft: how much sooner the first token comes when a prefix is cached (L10.4, section 4).

`ol bench L10.4`. Requests that share a system prompt are served one after another without a cache, with the
hash cache and with the radix cache, in turn within one run. The budget: TTFT none / TTFT hash >= 2. The
limit is the same ratio of prefill tokens: where compute decides, a cache can save no more time than that.
It knows what is measured and what follows. How it is shown, and whose classes these are, it does not know.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from autograder.benchmarks.serving import Names, Served, best_names, new_server, serve
from course.charts import BUDGET
from course.contract import PrefixCache
from course.progress import Tell, silent
from course.workloads import shared_system_prompt

if TYPE_CHECKING:
    from course.engine.config import EngineConfig
    from course.engine.models import LoadedModel

NONE, HASH, RADIX = (mode.value for mode in PrefixCache)

BLOCK_SIZE = 16
SUFFIX_TOKENS = 112
"""Tokens of a request's own. With fewer, a row costs more on a hit than in a long chunk, and compute decides less."""

CHUNK_SIZES = (64, 128, 256, 512)
CHUNK_ROUNDS = 3
NEW_TOKENS = 4
"""Enough to see that a wrong K or V was read; only the first one is timed."""


@dataclass(frozen=True)
class Plan:
    """What is served: a shared prefix, suffixes of `n_suffix` tokens, and how often.

    Attributes:
        prefix: the token ids that every request begins with.
        n_suffix: tokens of a request's own.
        chunk_sizes: prefill chunks that none may choose from.
        n_requests: requests timed in a repeat, after a first one that fills the cache.
        repeats: how often each mode is timed.
    """

    prefix: tuple[int, ...]
    n_suffix: int = SUFFIX_TOKENS
    chunk_sizes: tuple[int, ...] = CHUNK_SIZES
    n_requests: int = 5
    repeats: int = 7

    @property
    def n_prompt(self) -> int:
        """Tokens of a request."""
        return len(self.prefix) + self.n_suffix


@dataclass(frozen=True)
class Result:
    """What was measured; times in seconds, by mode where there is one.

    Attributes:
        plan: what was served.
        chunk_times: TTFT of none for each chunk size; `chunk` is the fastest, and what all modes ran with.
        ttft: a median for each repeat.
        prefill_tokens: computed in all timed requests of one repeat, as the engine counts them.
        same_answers: whether every mode answered as none did.
        served: every request of each repeat by mode, the first one too, which fills the cache and isn't timed.
    """

    plan: Plan
    chunk_times: Mapping[int, float]
    chunk: int
    ttft: Mapping[str, tuple[float, ...]]
    prefill_tokens: Mapping[str, int]
    same_answers: bool
    served: Mapping[str, tuple[tuple[Served, ...], ...]] = field(default_factory=dict)

    def ratio(self, mode: str) -> float:
        """TTFT none / TTFT of this mode: the median over repeats, each compared within itself."""
        return statistics.median(a / b for a, b in zip(self.ttft[NONE], self.ttft[mode], strict=True))

    def limit(self, mode: str) -> float:
        """Prefill tokens of none over those of this mode: the ratio that compute alone would give."""
        return self.prefill_tokens[NONE] / self.prefill_tokens[mode]

    def share(self, mode: str) -> float:
        """How much of the limit is reached."""
        return self.ratio(mode) / self.limit(mode)

    @property
    def within_budget(self) -> bool:
        """Whether the budget is met, by answers that are right."""
        return self.same_answers and self.ratio(HASH) >= BUDGET


# ---------------------------------------------------------------- choosing what is served


def plan_for(loaded: LoadedModel) -> Plan:
    """The plan of the chapter: the shared system prompt of 224 bytes, whatever tokens that is.

    A request's own part is at most half as long, so that a hit computes whole blocks, a third of all: 112 bytes.
    """
    prefix = tuple(loaded.tokenizer.encode(shared_system_prompt()))
    computed = max(len(prefix) // 2 // BLOCK_SIZE, 1) * BLOCK_SIZE
    return Plan(prefix, computed - len(prefix) % BLOCK_SIZE)


def scaled_plan(loaded: LoadedModel, smallest: int = SUFFIX_TOKENS, largest: int = 2_048) -> Plan:
    """A plan as large as a device needs for compute to decide, in the chapter's proportion of prefix to suffix.

    A GPU computes 16 tokens of a small model in the time of 256, and a cache can't save what costs nothing.
    So the suffix is doubled until twice the tokens cost nearly twice the time, by a quick measurement.
    """
    text = loaded.tokenizer.encode(shared_system_prompt())
    n_suffix = settled(lambda n: _step_seconds(loaded, n), smallest, largest)
    n_prefix = n_suffix * len(text) // SUFFIX_TOKENS // BLOCK_SIZE * BLOCK_SIZE
    prefix = (text * -(-n_prefix // len(text)))[:n_prefix]
    whole = n_prefix + n_suffix
    return Plan(tuple(prefix), n_suffix, tuple(sorted({n_suffix, 2 * n_suffix, 4 * n_suffix, whole})))


def long_plan(loaded: LoadedModel, n_prefix: int, smallest: int = SUFFIX_TOKENS, n_suffix: int | None = None) -> Plan:
    """A plan with a shared prefix of exactly so many tokens, the system prompt over and over.

    Args:
        loaded: the model.
        n_prefix: tokens of the prefix.
        smallest: the shortest suffix to try; the longest is half of the prefix, the chapter's proportion.
        n_suffix: tokens of a request's own; by default as few as it takes for compute to decide, measured here.
    """
    text = loaded.tokenizer.encode(shared_system_prompt())
    prefix = (text * -(-n_prefix // len(text)))[:n_prefix]
    own = n_suffix or settled(lambda n: _step_seconds(loaded, n), smallest, max(smallest, n_prefix // 2))
    sizes = {size for size in (own, 2 * own, 4 * own) if size < n_prefix + own}
    return Plan(tuple(prefix), own, (*sorted(sizes), n_prefix + own))


def settled(cost: Callable[[int], float], smallest: int, largest: int, enough: float = 1.8) -> int:
    """The least of smallest, twice that and so on whose double costs `enough` times as much; at most `largest`."""
    n = smallest
    while n < largest and cost(2 * n) < enough * cost(n):
        n *= 2
    return min(n, largest)


def _step_seconds(loaded: LoadedModel, n_tokens: int) -> float:
    """TTFT of a prompt that is computed in one step: the best of three, after one that warms up."""
    plan = Plan((), n_tokens, chunk_sizes=(n_tokens,))
    server = new_server(loaded, _config(loaded, plan, NONE, n_tokens), best_names())
    return min([serve(server, prompt, 1).ttft for prompt in _prompts(loaded, plan, 4, 0)][1:])


# ---------------------------------------------------------------- measuring


def measure(
    loaded: LoadedModel,
    names: Names,
    baseline: Names,
    plan: Plan,
    tell: Tell = silent,
    go_on: Callable[[], bool] = lambda: True,
) -> Result:
    """Measure the three modes in turn, several times.

    Args:
        loaded: the model.
        names: the classes under test, for hash and radix.
        baseline: the classes that none is measured with.
        plan: what is served.
        tell: hears how far it is.
        go_on: asked before each repeat but the first; where it says no, the plan of the result has fewer repeats.
    """
    chunk_times = _chunk_times(loaded, baseline, plan, tell)
    chunk = min(chunk_times, key=lambda size: chunk_times[size])
    whose = {NONE: baseline, HASH: names, RADIX: names}
    ttft: dict[str, list[float]] = {mode: [] for mode in whose}
    prefill: dict[str, int] = {}
    every: dict[str, list[tuple[Served, ...]]] = {mode: [] for mode in whose}
    same, done = True, 0
    for repeat in range(plan.repeats):
        if repeat and not go_on():
            break
        done, answers = repeat + 1, {}
        for place, (mode, classes) in enumerate(_rotated(whose, repeat)):
            tell(mode, repeat * len(whose) + place, plan.repeats * len(whose))
            first, *served = _one_repeat(loaded, classes, plan, mode, chunk, repeat)
            every[mode].append((first, *served))
            ttft[mode].append(statistics.median(each.ttft for each in served))
            prefill[mode] = sum(each.prefill_tokens for each in served)
            answers[mode] = [each.tokens for each in served]
        same = same and all(answer == answers[NONE] for answer in answers.values())
    times = {mode: tuple(medians) for mode, medians in ttft.items()}
    requests = {mode: tuple(repeats) for mode, repeats in every.items()}
    return Result(replace(plan, repeats=done), chunk_times, chunk, times, prefill, same, requests)


def _chunk_times(loaded: LoadedModel, baseline: Names, plan: Plan, tell: Tell) -> dict[int, float]:
    """The TTFT of none with each chunk size, all sizes in turn: the median of the rounds."""
    times: dict[int, list[float]] = {size: [] for size in plan.chunk_sizes}
    short = replace(plan, n_requests=2)
    for round_ in range(CHUNK_ROUNDS):
        for size in times:
            tell(f"none, chunks of {size}", round_, CHUNK_ROUNDS)
            served = _one_repeat(loaded, baseline, short, NONE, size, round_)[1:]
            times[size].append(min(each.ttft for each in served))
    return {size: statistics.median(taken) for size, taken in times.items()}


def _rotated(whose: Mapping[str, Names], by: int) -> list[tuple[str, Names]]:
    """All modes, each repeat beginning with another, so that none always profits from its place."""
    pairs = list(whose.items())
    by %= len(pairs)
    return pairs[by:] + pairs[:by]


def _one_repeat(loaded: LoadedModel, names: Names, plan: Plan, mode: str, chunk: int, seed: int) -> list[Served]:
    """The requests of one repeat on a new server: one that fills its cache, and after it those that are timed."""
    server = new_server(loaded, _config(loaded, plan, mode, chunk), names)
    return [serve(server, prompt, NEW_TOKENS) for prompt in _prompts(loaded, plan, plan.n_requests + 1, seed)]


def _config(loaded: LoadedModel, plan: Plan, mode: str, chunk: int) -> EngineConfig:
    from course.engine.config import EngineConfig

    longest = plan.n_prompt + NEW_TOKENS
    n_blocks = 2 * -(-longest // BLOCK_SIZE) + (plan.n_requests + 1) * -(-(plan.n_suffix + NEW_TOKENS) // BLOCK_SIZE)
    return EngineConfig(
        model=loaded.name,
        prefix_cache=PrefixCache(mode),
        block_size=BLOCK_SIZE,
        n_blocks=n_blocks,
        max_batch_tokens=chunk,
        max_running=1,
    )


def _prompts(loaded: LoadedModel, plan: Plan, n: int, seed: int) -> list[list[int]]:
    """The prefix, and after it ids drawn at random: every request ends in its own way."""
    source = random.Random(seed)
    n_ids = min(256, loaded.model.config.vocab_size)
    return [[*plan.prefix, *(source.randrange(n_ids) for _ in range(plan.n_suffix))] for _ in range(n)]


def as_data(result: Result) -> dict[str, object]:
    """A result for programs: seconds, tokens and ratios in plain values."""
    cached: Sequence[str] = (HASH, RADIX)
    return {
        "benchmark": "bench_shared_prefix_ttft",
        "budget": BUDGET,
        "within_budget": result.within_budget,
        "same_answers": result.same_answers,
        "prefix_tokens": len(result.plan.prefix),
        "suffix_tokens": result.plan.n_suffix,
        "chunk": result.chunk,
        "none_ttft_s_by_chunk": {str(size): seconds for size, seconds in result.chunk_times.items()},
        "ttft_s": {mode: list(times) for mode, times in result.ttft.items()},
        "prefill_tokens": dict(result.prefill_tokens),
        "ratio": {mode: result.ratio(mode) for mode in cached},
        "limit": {mode: result.limit(mode) for mode in cached},
        "share_of_limit": {mode: result.share(mode) for mode in cached},
    }

"""Runs of serving under load: what is noted of each, and what follows from them.

It knows modes, times and counts, and when a mode is saturated. How a run came about, or is shown, it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from course.charts import BUDGET, Spread
from course.contract import PrefixCache
from course.engine.driving import Done, Sample
from course.percentiles import percentile
from course.traffic import ideal_hits

NONE, HASH, RADIX = MODES = tuple(mode.value for mode in PrefixCache)

SATURATED = 0.95
"""A mode that is busy for more than this share of the time is saturated."""

PERCENTS = (50, 95, 99)


@dataclass(frozen=True)
class Run:
    """One mode over the sessions of one seed. Times are in seconds.

    Attributes:
        mode, seed: which mode, and whose sessions.
        seconds: how long sessions arrived.
        before: the requests that were served before the start, and count in no time.
        done: the requests, in the order of their ends.
        samples: the manager's counters over time.
        busy: how long the engine computed, until all was answered.
        preemptions, evictions: how often a request gave its blocks back, a cached block was given up.
        complete: False if it was interrupted.
    """

    mode: str
    seed: int
    seconds: float
    before: tuple[Done, ...]
    done: tuple[Done, ...]
    samples: tuple[Sample, ...]
    busy: float
    preemptions: int
    evictions: int
    complete: bool = True

    @property
    def ttfts(self) -> list[float]:
        """Time to first token of each request."""
        return [each.ttft for each in self.done]

    @property
    def per_token(self) -> float:
        """Seconds for a token after the first, over all of them."""
        after = sum(each.n_computed - 1 for each in self.done)
        return sum(each.finished - each.first_token for each in self.done) / after if after else 0.0

    @property
    def ended(self) -> float:
        """When the last request was answered."""
        return max(each.finished for each in self.done)

    @property
    def tokens_per_second(self) -> float:
        """Output tokens, from the start until all is answered."""
        return sum(len(each.tokens) for each in self.done) / self.ended

    @property
    def requests_per_second(self) -> float:
        """Requests answered, from the start until all are."""
        return len(self.done) / self.ended

    @property
    def hit_rate(self) -> float:
        """The manager's at the end, over all that it has served."""
        last = self.samples[-1]
        return last.hit_tokens / last.query_tokens

    @property
    def prefill_tokens(self) -> int:
        """Positions computed as prefill."""
        return sum(each.prefill_tokens for each in self.done)

    @property
    def busy_share(self) -> float:
        """The share of the time in which it had something to do, from the first arrival until no more sessions came."""
        first = min(each.arrived for each in self.done)
        there = [(each.arrived, min(each.finished, self.seconds)) for each in self.done if each.arrived < self.seconds]
        return _covered(there) / (self.seconds - first)

    @property
    def saturated(self) -> bool:
        """Whether it had next to no time to spare: then the queue grows for as long as sessions come."""
        return self.busy_share > SATURATED

    def under_way(self, at: float) -> int:
        """How many requests had come by then and were not answered."""
        return sum(each.arrived <= at < each.finished for each in self.done)


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """How long it is that at least one of these spans lasts."""
    covered, reached = 0.0, 0.0
    for start, end in sorted(spans):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


# ---------------------------------------------------------------- what follows


def by_mode(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The complete runs that answered something, by mode, none first."""
    there = [run for run in runs if run.complete and run.done]
    found = {mode: [run for run in there if run.mode == mode] for mode in MODES}
    return {mode: of_mode for mode, of_mode in found.items() if of_mode}


def spread(runs: Sequence[Run], percent: int) -> Spread:
    """This percentile of the TTFT over the repeats of a mode."""
    return Spread.of([percentile(run.ttfts, percent) for run in runs])


def ratio(runs: Sequence[Run], cached: str = HASH) -> float | None:
    """TTFT p95 of none over that of a cache, medians of the repeats; None where one of them was not measured."""
    modes = by_mode(runs)
    if not {NONE, cached} <= set(modes):
        return None
    return spread(modes[NONE], 95).median / spread(modes[cached], 95).median


def saturated(runs: Sequence[Run]) -> list[str]:
    """The modes that were saturated in most of their repeats."""
    return [mode for mode, own in by_mode(runs).items() if sum(run.saturated for run in own) * 2 > len(own)]


def differing(runs: Sequence[Run]) -> list[str]:
    """The requests that got another answer than in the first mode of `by_mode`, or another prompt."""
    complete = [run for own in by_mode(runs).values() for run in own]
    truth: dict[int, Run] = {}
    found = []
    for run in complete:
        first = truth.setdefault(run.seed, run)
        wanted, got = _answers(first), _answers(run)
        names = [name for name in wanted if got.get(name) != wanted[name]]
        found += [f"{name} of seed {run.seed}, {run.mode} beside {first.mode}" for name in names]
    return found


def _answers(run: Run) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    return {each.request.name: (each.request.prompt, each.tokens) for each in run.done}


def within_budget(runs: Sequence[Run]) -> bool:
    """Whether the ratio of p95 is at least the budget, by right answers, while none is not saturated."""
    measured = ratio(runs)
    return measured is not None and measured >= BUDGET and not differing(runs) and NONE not in saturated(runs)


Samples = Sequence[tuple[float, int, int]]
"""(time, hit tokens so far, query tokens so far)."""


def hits_over_time(runs: Sequence[Run], block_size: int) -> tuple[dict[str, list[Samples]], list[Samples]]:
    """What a chart of hit rates draws: each mode's repeats, and what an endless cache would find in the same."""
    modes = by_mode(runs)
    counted: dict[str, list[Samples]] = {
        mode: [[(each.time, each.hit_tokens, each.query_tokens) for each in run.samples] for run in own]
        for mode, own in modes.items()
    }
    last = list(modes.values())[-1]
    ideal: list[Samples] = [ideal_hits([*run.before, *run.done], block_size) for run in last]
    return counted, ideal


# ---------------------------------------------------------------- for programs


def run_data(run: Run) -> dict[str, Any]:
    """A run in plain values: seconds, tokens and ratios."""
    return {
        "mode": run.mode,
        "seed": run.seed,
        "complete": run.complete,
        **(_figures(run) if run.done else {}),
        "requests_before": [_request_data(each) for each in run.before],
        "requests": [_request_data(each) for each in run.done],
        "samples": [asdict(each) for each in run.samples],
    }


def _figures(run: Run) -> dict[str, Any]:
    return {
        "ttft_s": {f"p{percent}": percentile(run.ttfts, percent) for percent in PERCENTS},
        "s_per_token": run.per_token,
        "output_tokens_per_s": run.tokens_per_second,
        "requests_per_s": run.requests_per_second,
        "hit_rate": run.hit_rate,
        "prefill_tokens": run.prefill_tokens,
        "preemptions": run.preemptions,
        "evictions": run.evictions,
        "busy_share": run.busy_share,
        "computing_s": run.busy,
        "saturated": run.saturated,
        "under_way_at_half": run.under_way(run.seconds / 2),
        "under_way_at_end_of_arrivals": run.under_way(run.seconds),
        "last_answer_at": run.ended,
    }


def _request_data(done: Done) -> dict[str, Any]:
    return {
        "name": done.request.name,
        "arrived": done.arrived,
        "first_token": done.first_token,
        "finished": done.finished,
        "n_prompt": done.n_prompt,
        "cached_tokens": done.cached_tokens,
        "prefill_tokens": done.prefill_tokens,
        "preemptions": done.preemptions,
        "tokens": list(done.tokens),
    }

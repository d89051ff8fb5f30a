"""bench_serve: chat sessions arrive at an engine at random, without a cache, with the hash cache and the radix cache.

`ol bench serve`. The same sessions come in every mode. How many come a second is chosen so that the engine without a
cache is busy for some share of the time; that is measured first. It knows what is served and measured. What follows
from it, and whose classes these are, it does not know.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from autograder.benchmarks import load_runs
from autograder.benchmarks.load_runs import MODES, NONE, Run
from course.charts import BUDGET
from course.contract import PrefixCache
from course.engine.driving import Clock, Done, Site, drive, first_site, new_site
from course.progress import Tell, silent
from course.traffic import MEAN_TURNS, NEW_TOKENS, Chats, at_once, greetings, help_desks, sessions

if TYPE_CHECKING:
    from course.engine.config import EngineConfig
    from course.engine.models import LoadedModel

LOAD = 0.7
"""How busy the engine is without a cache, were it to serve one request after another. Together they take less time."""

CHUNK_SIZES = (64, 128, 256, 512)
CHUNK_ROUNDS = 2
SESSIONS_ALONE = 3
OTHER_SEED = 1_000
"""Added to the seed of the sessions that are served one by one: others than those that are served."""


@dataclass(frozen=True)
class Plan:
    """What is served, on what.

    Attributes:
        seconds: how long sessions arrive.
        load: how busy the engine would be without a cache, one request after another, where `rate` says nothing.
        rate: sessions a second; None to derive it from `load`.
        seed: of the first repeat's sessions; each further one has the next seed.
        repeats: how often each mode is measured.
        modes: which are.
        cold: whether the cache is empty at the start; else each system prompt was served once before.
        new_tokens: tokens of an answer, at most.
        chunk: positions in a step, at most; None for the one that is fastest without a cache.
        n_blocks, block_size, max_running: the engine's sizes.
        cpu_time: whether the clocks count this process's CPU time, not the time on the wall.
        options: more keys of the engine's configuration, such as publish and order.
    """

    seconds: float = 60.0
    load: float = LOAD
    rate: float | None = None
    seed: int = 0
    repeats: int = 1
    modes: tuple[str, ...] = MODES
    cold: bool = False
    new_tokens: int = NEW_TOKENS
    chunk: int | None = None
    n_blocks: int = 512
    block_size: int = 16
    max_running: int = 8
    cpu_time: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def clock(self) -> Clock:
        """A clock that begins at 0."""
        return Clock(timer=time.process_time if self.cpu_time else time.perf_counter)


@dataclass(frozen=True)
class Setting:
    """What was settled by measuring before anything is served.

    Attributes:
        chunk: positions in a step, at most.
        chunk_times: TTFT of one prompt without a cache for each chunk size that was tried, in seconds.
        alone: seconds that a request takes without a cache, with nothing else going on; None if not measured.
        rate: sessions a second.
    """

    chunk: int
    chunk_times: Mapping[int, float]
    alone: float | None
    rate: float


# ---------------------------------------------------------------- measuring


def settle(loaded: LoadedModel, names: Mapping[str, Any], plan: Plan, tell: Tell = silent) -> Setting:
    """Find the fastest chunk without a cache, and how long a request takes then; both warm the model up, too."""
    times = _chunk_times(loaded, names, plan, tell)
    chunk = min(times, key=lambda size: times[size])
    if plan.rate is not None:
        return Setting(chunk, times, None, plan.rate)
    alone = _alone(loaded, names, plan, chunk, tell)
    return Setting(chunk, times, alone, plan.load / (alone * MEAN_TURNS))


def _chunk_times(loaded: LoadedModel, names: Mapping[str, Any], plan: Plan, tell: Tell) -> dict[int, float]:
    sizes = CHUNK_SIZES if plan.chunk is None else (plan.chunk,)
    prompt = Chats(loaded, at_once(help_desks(), 1, plan.seed + OTHER_SEED), new_tokens=1).first()[0]
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for round_ in range(CHUNK_ROUNDS):
        for place, size in enumerate(sizes):
            tell(f"none, chunks of {size}", round_ * len(sizes) + place, CHUNK_ROUNDS * len(sizes))
            engine = new_site(loaded, _config(loaded, plan, NONE, size), names).engine
            engine.add(prompt.prompt, 1, request_id="timed")
            clock = plan.clock()
            with clock.running():
                engine.run_until_idle()
            times[size].append(clock.now)
    return {size: min(taken) for size, taken in times.items()}


def _alone(loaded: LoadedModel, names: Mapping[str, Any], plan: Plan, chunk: int, tell: Tell) -> float:
    """Seconds for a request without a cache: those of a few sessions, one after another."""
    one_at_a_time = replace(_config(loaded, plan, NONE, chunk), max_running=1)
    site = new_site(loaded, one_at_a_time, names, clock=plan.clock())
    come = at_once(help_desks(), SESSIONS_ALONE, plan.seed + OTHER_SEED)
    n = sum(len(session.says) for session in come)
    chats = Chats(loaded, come, plan.new_tokens)
    done = drive([site], chats, first_site, lambda _, done, open_: tell("none, one by one", done, n))
    return site.busy / len(done)


def measure(
    loaded: LoadedModel,
    names: Mapping[str, Any],
    baseline: Mapping[str, Any],
    plan: Plan,
    setting: Setting,
    tell: Tell = silent,
) -> Iterator[Run]:
    """Serve the sessions of each seed in each mode, one run after another, each repeat beginning with another mode.

    `names` are the classes under test, for hash and radix; `baseline` those that none is measured with.
    A run that is interrupted (KeyboardInterrupt) is given as far as it came, before the interrupt goes on.
    """
    for repeat in range(plan.repeats):
        seed = plan.seed + repeat
        come = sessions(help_desks(), setting.rate, plan.seconds, seed)
        for mode in _rotated(plan.modes, repeat):
            whose = baseline if mode == NONE else names
            site = new_site(loaded, _config(loaded, plan, mode, setting.chunk), whose, mode, plan.clock())
            before = () if plan.cold else _warmed(loaded, site)
            try:
                drive(
                    [site],
                    Chats(loaded, come, plan.new_tokens),
                    first_site,
                    _by_the_second(tell, f"{mode}, seed {seed}", plan),
                )
            except KeyboardInterrupt:
                yield _run(site, mode, seed, plan, before, complete=False)
                raise
            yield _run(site, mode, seed, plan, before)


def _by_the_second(tell: Tell, what: str, plan: Plan) -> Callable[[float, int, int], None]:
    def told(now: float, done: int, open_: int) -> None:
        tell(f"{what}: {done} answered, {open_} under way, second", min(int(now), int(plan.seconds)), int(plan.seconds))

    return told


def _rotated(modes: Sequence[str], by: int) -> Sequence[str]:
    by %= len(modes)
    return (*modes[by:], *modes[:by])


def _warmed(loaded: LoadedModel, site: Site) -> tuple[Done, ...]:
    """Serve a question to each desk, then set clock and counts back to the start: what a server keeps is its cache."""
    before = drive([site], Chats(loaded, greetings(help_desks()), 1))
    site.clock.now = site.busy = 0.0
    site.preemptions = 0
    site.samples.clear()
    site.done.clear()
    return tuple(before)


def _run(site: Site, mode: str, seed: int, plan: Plan, before: tuple[Done, ...] = (), complete: bool = True) -> Run:
    return Run(
        mode=mode,
        seed=seed,
        seconds=plan.seconds,
        before=before,
        done=tuple(site.done),
        samples=tuple(site.samples),
        busy=site.busy,
        preemptions=site.preemptions,
        evictions=site.manager.stats.evictions,
        complete=complete,
    )


def _config(loaded: LoadedModel, plan: Plan, mode: str, chunk: int) -> EngineConfig:
    from course.engine.config import EngineConfig

    return EngineConfig(
        model=loaded.name,
        prefix_cache=PrefixCache(mode),
        block_size=plan.block_size,
        n_blocks=plan.n_blocks,
        max_batch_tokens=chunk,
        max_running=plan.max_running,
        **plan.options,
    )


def as_data(plan: Plan, setting: Setting, runs: Sequence[Run]) -> dict[str, Any]:
    """All that was measured, for programs, in plain values: seconds, tokens and ratios."""
    return {
        "benchmark": "bench_serve",
        "budget": BUDGET,
        "within_budget": load_runs.within_budget(runs),
        "ttft_p95_ratio": {mode: load_runs.ratio(runs, mode) for mode in MODES[1:]},
        "answers_differ": load_runs.differing(runs),
        "saturated": load_runs.saturated(runs),
        "plan": asdict(plan),
        "setting": asdict(setting),
        "runs": [load_runs.run_data(run) for run in runs],
    }

"""Engines under load: requests that arrive at their times, served by engines that each have a clock of their own.

A clock runs while its engine computes a step, and jumps over the time in which it has nothing to do. So two engines on
one machine count as two machines, and a minute of light traffic takes as long as its steps take. It knows arrivals,
clocks and what is noted of each request. Where requests come from, and where they are sent, its callers say.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from course.engine.config import EngineConfig
from course.engine.engine import Engine
from course.engine.requests import Admitted, Finished, Preempted, Record, RequestId

if TYPE_CHECKING:
    from course.engine.models import LoadedModel


# ---------------------------------------------------------------- what comes and goes


@dataclass(frozen=True)
class Request:
    """A request that is still to come.

    Attributes:
        name: its id, unlike that of any other.
        prompt: its token ids.
        n_new: tokens of its answer, at most.
        at: when it arrives, in seconds from the start.
        session: whose it is, for whoever routes it.
        extra_keys: what tells equal tokens apart (a tenant's salt, an adapter's id).
        stop_ids: tokens that end the answer and are no part of it.
    """

    name: str
    prompt: tuple[int, ...]
    n_new: int
    at: float
    session: str = ""
    extra_keys: tuple[int | str, ...] = ()
    stop_ids: frozenset[int] = frozenset()


class Traffic(Protocol):
    """Where requests come from."""

    def first(self) -> Sequence[Request]:
        """The requests whose arrival is known from the start, in any order."""

    def then(self, request: Request, answer: Sequence[int], now: float) -> Request | None:
        """What follows the answer that was complete at `now`, and arrives no sooner; None if nothing does."""


@dataclass(frozen=True)
class Done:
    """A request that was answered, and what that took; times in seconds from the start.

    Attributes:
        request: what was asked.
        site: the name of the site that answered.
        arrived, first_token, finished: when it came, and when its first and its last token did.
        n_prompt: tokens of its prompt.
        cached_tokens: those of them that were found in the cache when it was first admitted.
        prefill_tokens: positions computed as prefill, those of a preempted request again each time.
        preemptions: how often it had to give its blocks back.
        tokens: the answer.
        n_computed: tokens computed for the answer: one more where a stop token ended it.
    """

    request: Request
    site: str
    arrived: float
    first_token: float
    finished: float
    n_prompt: int
    cached_tokens: int
    prefill_tokens: int
    preemptions: int
    tokens: tuple[int, ...]
    n_computed: int

    @property
    def ttft(self) -> float:
        """Time to first token in seconds, the wait in the queue included."""
        return self.first_token - self.arrived

    @property
    def per_token(self) -> float | None:
        """Seconds for each token after the first; None where there is none."""
        after = self.n_computed - 1
        return (self.finished - self.first_token) / after if after else None


# ---------------------------------------------------------------- sites


@dataclass
class Clock:
    """An engine's clock, in seconds from the start: `now` is when its last step ended, or when it was last idle."""

    now: float = 0.0
    timer: Callable[[], float] = time.perf_counter
    _begun: float | None = field(default=None, repr=False)

    def __call__(self) -> float:
        """The time, in the middle of a step too."""
        return self.now if self._begun is None else self.now + self.timer() - self._begun

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the clock go on while the `with` block runs."""
        self._begun = self.timer()
        try:
            yield
        finally:
            self.now, self._begun = self(), None


@dataclass(frozen=True)
class Sample:
    """A manager's counters at one moment, and how many requests were at its site, waiting or running."""

    time: float
    hit_tokens: int
    query_tokens: int
    present: int


@dataclass
class Site:
    """An engine as a machine of its own, and what was noted while it was driven.

    Attributes:
        samples: one after each step that admitted or finished a request.
        done: the requests that it has answered, in the order of their ends.
        busy: seconds in which it computed.
        preemptions: how often a request had to give its blocks back.
    """

    name: str
    engine: Engine
    pool: Any
    manager: Any
    clock: Clock
    runner: Any = None
    loaded: LoadedModel | None = field(default=None, repr=False)
    samples: list[Sample] = field(default_factory=list, repr=False)
    done: list[Done] = field(default_factory=list, repr=False)
    busy: float = 0.0
    preemptions: int = 0


def new_site(
    loaded: LoadedModel,
    config: EngineConfig,
    names: Mapping[str, Any],
    name: str = "engine",
    clock: Clock | None = None,
) -> Site:
    """A site with empty blocks, of the sizes and in the mode of the configuration.

    Args:
        loaded: the model; sites may share one, each has K and V of its own.
        config: sizes, mode and limits.
        names: the classes to use, by their contract's name: `KvPool` and `BlockManager`.
        name: what it is called.
        clock: its clock; by default one that begins at 0.
    """
    from course.engine.runner import Runner

    clock = clock or Clock()
    pool = names["KvPool"](config.n_blocks, config.block_size)
    manager = names["BlockManager"](pool, config.prefix_cache, **config.manager_options)
    runner = Runner(loaded.model, pool, config.n_blocks, config.block_size)
    engine = Engine(
        runner,
        manager,
        config,
        max_positions=loaded.model.config.max_positions,
        vocabulary=loaded.model.config.vocab_size,
        clock=clock,
    )
    return Site(name, engine, pool, manager, clock, runner, loaded)


# ---------------------------------------------------------------- driving

Route = Callable[[Request], int]
"""Which site a request is sent to, by its place in the list; asked when it arrives.

A site that is computing a step then is seen as it is after that step."""

Tell = Callable[[float, int, int], None]
"""Hears after each step what time it is at that site, how many requests are answered, how many are under way."""


def first_site(_request: Request) -> int:
    """Every request goes to the first site."""
    return 0


def quiet(_now: float, _done: int, _open: int) -> None:
    """Tells nobody."""


def drive(sites: Sequence[Site], traffic: Traffic, route: Route = first_site, tell: Tell = quiet) -> list[Done]:
    """Serve traffic to its end; the requests answered, in the order in which that was noticed.

    Of the sites that have work the one whose clock is earliest steps next, and whatever arrives before that is
    delivered first. What was done before an exception stands in each site's `done`.

    Raises:
        ValueError: its engine refuses a request, for a reason that `Engine.add` names.
    """
    return _Drive(sites, traffic, route, tell).run()


class _Drive:
    """One run over the sites: what is still to come, and what is under way."""

    def __init__(self, sites: Sequence[Site], traffic: Traffic, route: Route, tell: Tell) -> None:
        self._sites, self._traffic, self._route, self._tell = sites, traffic, route, tell
        self._coming: list[tuple[float, int, Request]] = []  # a heap; numbers keep requests that come together in order
        self._numbers = count()
        self._open: dict[RequestId, Request] = {}
        self._done: list[Done] = []

    def run(self) -> list[Done]:
        for request in self._traffic.first():
            self._expect(request)
        while self._coming or self._open:
            site = min((site for site in self._sites if not site.engine.idle), key=_now, default=None)
            if site is None or (self._coming and self._coming[0][0] <= site.clock.now):
                self._deliver(heapq.heappop(self._coming)[2])
            else:
                self._step(site)
        return self._done

    def _expect(self, request: Request) -> None:
        heapq.heappush(self._coming, (request.at, next(self._numbers), request))

    def _deliver(self, request: Request) -> None:
        site = self._sites[self._route(request)]
        if site.engine.idle:
            site.clock.now = max(site.clock.now, request.at)
        more: dict[str, Any] = {"extra_keys": request.extra_keys} if request.extra_keys else {}
        site.engine.add(request.prompt, request.n_new, request.stop_ids, request.name, **more)
        site.engine.records[request.name].arrived = request.at  # it may have come while a step was being computed
        self._open[request.name] = request

    def _step(self, site: Site) -> None:
        begun = site.clock.now
        with site.clock.running():
            events = site.engine.step()
        site.busy += site.clock.now - begun
        site.preemptions += sum(isinstance(event, Preempted) for event in events)
        ended = [event.request for event in events if isinstance(event, Finished)]
        for name in ended:
            self._finish(site, name)
        if ended or any(isinstance(event, Admitted) for event in events):
            _sample(site)
        self._tell(site.clock.now, len(self._done), len(self._open))

    def _finish(self, site: Site, name: RequestId) -> None:
        request = self._open.pop(name)
        done = _done(request, site, site.engine.forget(name))
        site.done.append(done)
        self._done.append(done)
        following = self._traffic.then(request, done.tokens, site.clock.now)
        if following is not None:
            self._expect(following)


def _now(site: Site) -> float:
    return site.clock.now


def _sample(site: Site) -> None:
    stats, scheduler = site.manager.stats, site.engine.scheduler
    present = len(scheduler.waiting) + len(scheduler.running)
    site.samples.append(Sample(site.clock.now, stats.hit_tokens, stats.query_tokens, present))


def _done(request: Request, site: Site, record: Record) -> Done:
    assert record.first_token is not None, "a request that is finished has had its first token"
    return Done(
        request=request,
        site=site.name,
        arrived=request.at,
        first_token=record.first_token,
        finished=site.clock.now,
        n_prompt=record.n_prompt,
        cached_tokens=record.cached_tokens,
        prefill_tokens=record.prefill_tokens,
        preemptions=record.preemptions,
        tokens=tuple(record.tokens),
        n_computed=len(record.tokens) + (record.reason == "stop"),
    )

"""Two engines and a router, measured: the same chats, sent to the engines in different ways.

It knows the chats, the ways, and what is worth noting of each. How a router decides, and how blocks get from one
engine to the other, it does not know. Importing it is cheap: torch and a model load with the first call.

Both engines run here, one step at a time, each with a clock of its own, so that they count as two machines. On a
CPU a clock counts the time that this thread computes, and so not what else the machine does. What is sent between
them takes as long as copying it took, and as long as its bytes need on a network of a given rate.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from course import lab
from course.charts.routing import RoutingFigures, WayFigures
from course.contract import PrefixCache
from course.engine.tokenizer import N_BYTES
from course.lab_models import LAB_THREADS, on_threads, ready_model
from course.percentiles import percentile
from course.progress import Tell, silent
from course.routing_chats import Plan, TokenChats
from course.traffic import ideal_hits

if TYPE_CHECKING:
    from course.engine.driving import Done, Route, Site
    from course.engine.loaded import LoadedModel
    from course.engine.router import Asked
    from course.engine.transfer import Sent

Names = Mapping[str, Any]
"""Implementations by their contract's name: `KvPool`, `kv_block_hash` and `BlockManager` are used here."""


# ---------------------------------------------------------------- the ways

ROUND_ROBIN, HIT_RATIO, BLOCK_NAMES, WITH_BLOCKS = "round robin", "hit ratio", "block names", "names + transfer"
WAYS = (ROUND_ROBIN, HIT_RATIO, BLOCK_NAMES, WITH_BLOCKS)
"""In turn; where the hit ratio is high and the queue short; where this prompt's blocks are; and bringing them along."""


@dataclass
class Mover:
    """Sends blocks between two sites; the request that waits for them, and the site, lose the time that it takes."""

    sites: Sequence[Site]
    network: float
    moved: list[Sent] = field(default_factory=list)

    def __call__(self, source: int, target: int, asked: Asked) -> None:
        """Send what the source has of a prompt and the target has not."""
        from course.engine.transfer import send_blocks

        clock = self.sites[target].clock
        clock.now = max(clock.now, asked.request.at)
        with clock.running():
            sent = send_blocks(self.sites[source], self.sites[target], asked.names)
        clock.now += sent.n_bytes / self.network
        self.moved.append(sent)


def _route(way: str, sites: Sequence[Site], names: Names, mover: Mover) -> Route:
    from course.engine.router import RoundRobin, by_block_names, by_hit_ratio, router_over

    if way == ROUND_ROBIN:
        return RoundRobin(len(sites)).route
    expect = by_hit_ratio if way == HIT_RATIO else by_block_names
    return router_over(sites, expect, mover if way == WITH_BLOCKS else None, names["kv_block_hash"]).route


# ---------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Routed:
    """One way of routing, and what came of it.

    Attributes:
        way: its name.
        ttft: seconds to the first token of each request, in order of the requests' names.
        answers: the tokens of each, in the same order.
        requests: how many each engine served.
        hit_rates: hit tokens over query tokens of each engine, as it exports them.
        hit_rate: the same over both.
        prefill_tokens: positions computed as prefill.
        n_moves: how often blocks were offered by one engine to the other.
        n_had: blocks that were there already, and were not sent.
        n_sent: blocks that were sent.
        n_bytes: bytes of those.
    """

    way: str
    ttft: tuple[float, ...]
    answers: tuple[tuple[int, ...], ...]
    requests: tuple[int, ...]
    hit_rates: tuple[float, ...]
    hit_rate: float
    prefill_tokens: int
    n_moves: int = 0
    n_had: int = 0
    n_sent: int = 0
    n_bytes: int = 0

    @property
    def p50(self) -> float:
        """Seconds within which half of the first tokens came."""
        return percentile(self.ttft, 50)

    @property
    def p95(self) -> float:
        """Seconds within which 95 % of the first tokens came."""
        return percentile(self.ttft, 95)

    @property
    def mean_ttft(self) -> float:
        """Seconds to the first token, in the mean."""
        return statistics.fmean(self.ttft)


@dataclass(frozen=True)
class Routing:
    """All ways over the same chats; `ideal` is the hit rate of a cache that both share and that forgets nothing."""

    plan: Plan
    gap: float
    ideal: float
    ways: Mapping[str, Routed]

    @property
    def same_answers(self) -> bool:
        """Whether every way gave every request the same answer."""
        first, *others = (routed.answers for routed in self.ways.values())
        return all(answers == first for answers in others)


def compare_routes(
    loaded: LoadedModel, names: Names, plan: Plan, ways: Sequence[str] = WAYS, tell: Tell = silent
) -> Routing:
    """Serve the same chats in each way, on engines whose caches are empty.

    Args:
        loaded: the model of both engines.
        names: pool, manager, and what names a block.
        plan: chats and engines.
        ways: some of `WAYS`.
        tell: hears how far it is.
    """
    cold = _seconds_cold(loaded, names, plan)
    gap = cold * plan.n_turns / (2 * plan.load)
    routed, ideal = {}, 0.0
    for way in ways:
        done, routed[way] = _measure(
            loaded, names, plan, TokenChats(plan, _vocabulary(loaded), gap, 4 * gap), way, tell
        )
        if not ideal:
            _, hits, asked = ideal_hits(done, plan.block_size)[-1]
            ideal = hits / asked
    return Routing(plan, gap, ideal, routed)


def _vocabulary(loaded: LoadedModel) -> int:
    """Ids below this are ordinary tokens: bytes of a byte model, and most of any other's."""
    return N_BYTES if loaded.name.startswith("byte") else loaded.model.config.vocab_size


def _new_sites(loaded: LoadedModel, names: Names, plan: Plan, n: int = 2) -> list[Site]:
    from course.engine.config import EngineConfig
    from course.engine.driving import Clock, new_site

    on_cpu = loaded.model.device.type == "cpu"
    timer = time.thread_time if on_cpu else time.perf_counter
    config = EngineConfig(
        model=loaded.name,
        prefix_cache=PrefixCache.HASH,
        block_size=plan.block_size,
        n_blocks=plan.n_blocks,
        max_batch_tokens=plan.chunk,
        max_running=plan.at_once,
        publish=plan.publish,
    )
    return [new_site(loaded, config, names, f"engine {number + 1}", Clock(timer=timer)) for number in range(n)]


def _seconds_cold(loaded: LoadedModel, names: Names, plan: Plan) -> float:
    """How long an engine takes for one request of the first turn without any hit: the median of three."""
    from course.engine.driving import drive

    alone = replace(plan, n_chats=1, n_turns=1)
    times = []
    for number in range(3):
        (site,) = _new_sites(loaded, names, plan, 1)
        with on_threads(LAB_THREADS):
            drive([site], TokenChats(replace(alone, seed=number), _vocabulary(loaded), 1.0, 1.0))
        times.append(site.busy)
    return statistics.median(times)


def _measure(
    loaded: LoadedModel, names: Names, plan: Plan, chats: TokenChats, way: str, tell: Tell
) -> tuple[list[Done], Routed]:
    from course.engine.driving import drive

    sites = _new_sites(loaded, names, plan)
    mover = Mover(sites, plan.network)
    with on_threads(LAB_THREADS):
        done = drive(
            sites,
            chats,
            _route(way, sites, names, mover),
            lambda _now, n_done, _open: tell(way, n_done, plan.n_requests),
        )
    return done, _noted(way, sites, done, mover.moved)


def _noted(way: str, sites: Sequence[Site], done: Sequence[Done], moved: Sequence[Sent]) -> Routed:
    in_order = sorted(done, key=lambda each: each.request.name)
    stats = [site.manager.stats for site in sites]
    asked = sum(each.query_tokens for each in stats)
    return Routed(
        way=way,
        ttft=tuple(each.ttft for each in in_order),
        answers=tuple(each.tokens for each in in_order),
        requests=tuple(len(site.done) for site in sites),
        hit_rates=tuple(site.manager.hit_rate for site in sites),
        hit_rate=sum(each.hit_tokens for each in stats) / asked if asked else 0.0,
        prefill_tokens=sum(each.prefill_tokens for each in done),
        n_moves=len(moved),
        n_had=sum(each.n_had for each in moved),
        n_sent=sum(each.n_sent for each in moved),
        n_bytes=sum(each.n_bytes for each in moved),
    )


# ---------------------------------------------------------------- as a chart, and in a notebook


def routing_figures(repeats: Sequence[Routing]) -> RoutingFigures:
    """What `course.charts.routing` draws, of one or more repeats of the same ways. Raises ValueError for none."""
    if not repeats:
        raise ValueError("there is nothing to draw: measure at least once")
    ways = {
        way: WayFigures(
            p50=tuple(each.ways[way].p50 for each in repeats),
            p95=tuple(each.ways[way].p95 for each in repeats),
            hit_rate=tuple(each.ways[way].hit_rate for each in repeats),
            engines=tuple(each.ways[way].hit_rates for each in repeats),
        )
        for way in repeats[0].ways
    }
    return RoutingFigures(ways, statistics.median(each.ideal for each in repeats))


NOTEBOOK = Plan(n_chats=12)
"""Few enough chats for a notebook's page."""


def two_engines(model: str = "byte", names: Names | None = None, plan: Plan = NOTEBOOK) -> Routing:
    """Every way of routing over the same chats, with the classes that are in use in this notebook.

    Draw it with `shown(routing_chart, routing_text, routing_figures([measured]), plan_told(measured.plan))`.

    Args:
        model: "byte" or "smollm2", as in `course.lab.server`.
        names: what to use in place of those.
        plan: chats and engines.

    Raises:
        RuntimeError: there is no pool or no manager here.
    """
    return compare_routes(ready_model(model), names or _names_in_use(), plan)


def _names_in_use() -> Names:
    return {name: lab.class_in_use(name) for name in ("KvPool", "kv_block_hash", "BlockManager")}

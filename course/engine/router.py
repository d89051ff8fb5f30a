"""A router in front of several engines: where is a prompt's prefix warm, and is it worth the wait there (gw.05)?

It knows what engines say of themselves and what it has sent to each. It does not know how an engine finds a
prefix, or what computes there.

Everything is weighed in tokens. A request costs an engine the prompt tokens that it must compute, and waits for
what was sent there before; the engine where both together are least gets it. So a warm engine is worth a queue
as long as the prefix it saves, and no longer: one hot prefix does not pile everything up on one engine.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from course.contract import KvBlockHash, PrefixCache, SeqId

if TYPE_CHECKING:
    from course.engine.driving import Request, Site

REMEMBERED = 1_024
"""Requests under way that a router remembers for each engine, at most; beyond that it forgets the oldest."""

MOVE_PRICE = 0.75
"""What a token costs to move, in tokens to compute. The network is quick; but what lies on both takes room from others,
and in the lab a price below a half loses as many hits as it brings."""


@dataclass(frozen=True)
class Asked:
    """A request as the router looks at it: `names` are those of the full blocks that it could reuse, front first."""

    request: Request
    names: tuple[int, ...]
    block_size: int

    @classmethod
    def of(cls, request: Request, names: Sequence[int], block_size: int) -> Asked:
        """A request with the names of all its full blocks; the last token is always computed (L10.4, section 2.1)."""
        return cls(request, tuple(names[: (len(request.prompt) - 1) // block_size]), block_size)

    @property
    def n_prompt(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.prompt)


class Backend(Protocol):
    """An engine as a router knows it. It is asked and never told: every answer may be out of date when it is used."""

    @property
    def hit_rate(self) -> float:
        """Its hit ratio so far, as it exports it (tl_engine_prefix_cache_hit_ratio)."""

    def warm(self, asked: Asked) -> int:
        """How many tokens of the prompt it would find cached now."""

    def under_way(self) -> Collection[SeqId]:
        """The names of requests that it has and that are not finished."""


# ---------------------------------------------------------------- round robin


class RoundRobin:
    """The engines in turn, whatever is asked: each gets as many requests, and each cache meets every prefix."""

    def __init__(self, n_engines: int) -> None:
        if n_engines < 1:
            raise ValueError(f"there is nowhere to send a request: {n_engines} engines")
        self._n, self._next = n_engines, 0

    def route(self, _request: Request) -> int:
        """Which engine gets this request."""
        place, self._next = self._next, (self._next + 1) % self._n
        return place


# ---------------------------------------------------------------- what was sent where


@dataclass(frozen=True)
class _Sent:
    cost: int
    names: frozenset[int]


@dataclass
class Ledger:
    """What a router has sent to one engine and is not finished there: what it will cost, and what it will leave.

    A prompt's blocks have no name before they are computed, so an engine does not tell of them. The router can:
    until the request is finished, it counts its prefix as warm where it went.
    """

    backend: Backend
    remembered: int = REMEMBERED
    _sent: OrderedDict[SeqId, _Sent] = field(default_factory=OrderedDict)

    def note(self, asked: Asked, hits: int) -> None:
        """A request is on its way there, and this many tokens of it are expected to be found."""
        cost = asked.n_prompt - hits + asked.request.n_new
        self._sent[asked.request.name] = _Sent(cost, frozenset(asked.names))
        while len(self._sent) > self.remembered:
            self._sent.popitem(last=False)

    def forget_finished(self) -> None:
        """Forget what the engine does not have any more: for those it speaks itself."""
        there = set(self.backend.under_way())
        for name in [name for name in self._sent if name not in there]:
            del self._sent[name]

    @property
    def load(self) -> int:
        """Tokens that it has still to compute for others, answers included, at most."""
        return sum(sent.cost for sent in self._sent.values())

    def on_its_way(self, asked: Asked) -> int:
        """How many tokens of a prompt are a prefix of something that is under way there."""
        names = frozenset[int]().union(*(sent.names for sent in self._sent.values()))
        n_front = next((place for place, name in enumerate(asked.names) if name not in names), len(asked.names))
        return n_front * asked.block_size


Expect = Callable[[Ledger, Asked], int]
"""How many prompt tokens an engine is expected to find in its cache."""


def by_hit_ratio(engine: Ledger, asked: Asked) -> int:
    """As large a part of the prompt as of all earlier ones there: knows that a cache is warm, and not what is in it."""
    return int(engine.backend.hit_rate * asked.n_prompt)


def by_block_names(engine: Ledger, asked: Asked) -> int:
    """What it says that it has of this very prompt, or what will be there once it is through with what it got."""
    return max(engine.backend.warm(asked), engine.on_its_way(asked))


# ---------------------------------------------------------------- the router


@dataclass(frozen=True)
class Choice:
    """One way to serve a request, in tokens.

    Attributes:
        place: the engine.
        hits: prompt tokens that it is expected to find.
        cost: what is before it there, what must be computed for it, and what moving blocks costs.
        source: the engine whose blocks are brought along; None if nothing is moved.
    """

    place: int
    hits: int
    cost: float
    source: int | None = None


NamesOf = Callable[["Request"], Sequence[int]]
"""The names of a prompt's full blocks."""

Move = Callable[[int, int, Asked], object]
"""Brings a prompt's blocks from one engine to another, before the request gets there."""


class Router:
    """Sends each request where it costs least.

    Args:
        backends: the engines.
        names_of: names a prompt's blocks, as the engines do.
        block_size: tokens in a block.
        expect: how many tokens an engine will find: `by_block_names` or `by_hit_ratio`.
        move: brings blocks along; by default none are.
        move_price: what a token costs to move, in tokens to compute.
    """

    def __init__(
        self,
        backends: Sequence[Backend],
        names_of: NamesOf,
        block_size: int,
        expect: Expect = by_block_names,
        move: Move | None = None,
        move_price: float = MOVE_PRICE,
    ) -> None:
        if not backends:
            raise ValueError("there is nowhere to send a request: no engine")
        self._engines = [Ledger(backend) for backend in backends]
        self._names_of, self._block_size = names_of, block_size
        self._expect, self._move, self._move_price = expect, move, move_price
        self._order = list(range(len(backends)))  # the one that waits longest for a request in front

    def route(self, request: Request) -> int:
        """Which engine gets this request; its blocks are there when this returns, if any had to be moved."""
        asked = Asked.of(request, self._names_of(request), self._block_size)
        best = self.choose(asked)
        if best.source is not None and self._move is not None:
            self._move(best.source, best.place, asked)
        self._engines[best.place].note(asked, best.hits)
        self._order.remove(best.place)
        self._order.append(best.place)
        return best.place

    def choose(self, asked: Asked) -> Choice:
        """The cheapest choice; of equal ones the engine that waits longest for a request. Nothing is sent."""
        for engine in self._engines:
            engine.forget_finished()
        choices = [self._stay(place, asked) for place in self._order]
        if self._move is not None:
            choices += self._moves(asked, choices)
        return min(choices, key=lambda choice: choice.cost)

    def _stay(self, place: int, asked: Asked) -> Choice:
        engine = self._engines[place]
        hits = self._expect(engine, asked)
        return Choice(place, hits, engine.load + asked.n_prompt - hits)

    def _moves(self, asked: Asked, choices: Sequence[Choice]) -> list[Choice]:
        """Each engine with the blocks of the one that has most of them: what is still computed can't be moved."""
        warm = {place: self._engines[place].backend.warm(asked) for place in self._order}
        source = max(warm, key=lambda place: warm[place])
        return [
            Choice(stay.place, warm[source], stay.cost - gain + self._move_price * gain, source)
            for stay in choices
            if (gain := warm[source] - stay.hits) > 0
        ]


# ---------------------------------------------------------------- engines of one's own


@dataclass(frozen=True)
class SiteBackend:
    """A site of `course.engine.driving` as a backend. It is asked by block names, or else through its manager."""

    site: Site

    @property
    def hit_rate(self) -> float:
        """Its manager's, which the metrics export."""
        return float(self.site.manager.hit_rate)

    def warm(self, asked: Asked) -> int:
        """By the names that its pool has in mode hash; in others what `cached_prefix` says, where it is there."""
        from course.engine.transfer import HasBlocks, has_blocks

        if self.site.manager.mode is PrefixCache.HASH:
            return has_blocks(self.site.pool, HasBlocks(asked.names)).n_front * asked.block_size
        cached_prefix = getattr(self.site.manager, "cached_prefix", None)
        if cached_prefix is None:
            return 0
        more = {"extra_keys": asked.request.extra_keys} if asked.request.extra_keys else {}
        return int(cached_prefix(asked.request.prompt, **more))

    def under_way(self) -> Collection[SeqId]:
        """Those that its scheduler has, waiting or running."""
        scheduler = self.site.engine.scheduler
        return (*scheduler.waiting, *scheduler.running)


def router_over(
    sites: Sequence[Site],
    expect: Expect = by_block_names,
    move: Move | None = None,
    block_hash: KvBlockHash | None = None,
) -> Router:
    """A router over sites with equal block sizes; its `route` fits `drive`.

    `block_hash` is what the sites name blocks with: `course.modules.kv_block_hash`, unless given.
    """
    from course.engine.transfer import block_names

    pool = sites[0].pool
    return Router(
        [SiteBackend(site) for site in sites],
        lambda request: block_names(pool, request.prompt, request.extra_keys, block_hash),
        pool.block_size,
        expect,
        move,
    )

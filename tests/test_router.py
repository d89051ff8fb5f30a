"""The router: made-up engines say what they have and what is under way, and each request goes where it costs least."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pytest

from course.contract import PrefixCache, SeqId
from course.engine import router as routing
from course.engine.driving import Clock, Done, Request, Site, drive
from course.engine.router import (
    Asked,
    Choice,
    Ledger,
    RoundRobin,
    Router,
    SiteBackend,
    by_block_names,
    by_hit_ratio,
    router_over,
)
from course.engine.transfer import block_names
from solutions.kv_pool import KvPool

B = 4
HOT, OTHER = tuple(range(100, 140)), tuple(range(200, 240))  # ten blocks each
NAMES = KvPool(1, B)
numbers = count()


def request(prompt: Sequence[int], n_new: int = 0, name: str = "") -> Request:
    return Request(name or f"request {next(numbers)}", tuple(prompt), n_new, 0.0)


def names_of(asked: Request) -> Sequence[int]:
    return block_names(NAMES, asked.prompt)


def look(prompt: Sequence[int], n_new: int = 0) -> Asked:
    made = request(prompt, n_new)
    return Asked.of(made, names_of(made), B)


@dataclass
class MadeUp:
    """An engine that says what it is told to say."""

    has: set[int] = field(default_factory=set)
    rate: float = 0.0
    open: list[SeqId] = field(default_factory=list)

    def holds(self, *prompts: Sequence[int]) -> MadeUp:
        self.has.update(name for prompt in prompts for name in block_names(NAMES, prompt))
        return self

    @property
    def hit_rate(self) -> float:
        return self.rate

    def warm(self, asked: Asked) -> int:
        there = [name in self.has for name in asked.names]
        return B * (*there, False).index(False)

    def under_way(self) -> Collection[SeqId]:
        return tuple(self.open)


def over(*engines: MadeUp, **options: Any) -> Router:
    return Router(engines, names_of, B, **options)


def send(router: Router, engines: Sequence[MadeUp], prompt: Sequence[int], n_new: int = 0) -> int:
    """Route a request, and let it be under way where it went."""
    made = request(prompt, n_new)
    place = router.route(made)
    engines[place].open.append(made.name)
    return place


def busy(engine: MadeUp, router: Router, place: int, tokens: int) -> None:
    asked = look([3] * tokens)
    router._engines[place].note(asked, 0)
    engine.open.append(asked.request.name)


# ---------------------------------------------------------------- round robin


def test_in_turn_whatever_is_asked() -> None:
    turns = RoundRobin(3)
    assert [turns.route(request(HOT)) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_there_is_at_least_one_engine() -> None:
    for nothing in (lambda: RoundRobin(0), lambda: over()):
        with pytest.raises(ValueError, match="nowhere to send"):
            nothing()


# ---------------------------------------------------------------- what is asked


def test_the_last_token_is_always_computed_so_its_block_is_no_hit() -> None:
    assert [len(look(HOT[:n]).names) for n in (1, 4, 5, 8, 9)] == [0, 0, 1, 1, 2]


def test_an_engines_own_answer_ends_at_the_first_block_that_is_missing() -> None:
    engine = MadeUp().holds(HOT)
    assert by_block_names(Ledger(engine), look([*HOT, 1])) == 40
    assert by_block_names(Ledger(engine), look([*HOT[:10], 1, 1, 1])) == 8
    assert by_block_names(Ledger(engine), look([1, *HOT])) == 0


def test_the_hit_ratio_says_how_warm_and_not_for_what() -> None:
    engine = Ledger(MadeUp(rate=0.5).holds(HOT))
    assert by_hit_ratio(engine, look([*HOT, 1, 1])) == by_hit_ratio(engine, look([*OTHER, 1, 1])) == 21


# ---------------------------------------------------------------- affinity against load


def test_a_prefix_is_sent_where_it_is_warm() -> None:
    engines = MadeUp().holds(OTHER), MadeUp().holds(HOT)
    router = over(*engines)
    assert router.route(request([*HOT, 1])) == 1
    assert router.route(request([*OTHER, 1])) == 0


def test_a_prompt_that_nobody_knows_goes_where_nothing_waits() -> None:
    engines = MadeUp(), MadeUp()
    router = over(*engines)
    assert [send(router, engines, [n] * 20) for n in range(4)] == [0, 1, 0, 1]


@pytest.mark.parametrize(("waits", "place"), [(0, 0), (39, 0), (40, 0), (41, 1), (400, 1)])
def test_a_queue_is_worth_as_many_tokens_as_the_prefix_saves(waits: int, place: int) -> None:
    engines = MadeUp().holds(HOT), MadeUp()
    router = over(*engines)
    busy(engines[0], router, 0, waits)
    assert router.route(request([*HOT, 1])) == place


def test_one_hot_prefix_does_not_pile_up_on_one_engine() -> None:
    engines = MadeUp().holds(HOT), MadeUp()
    router = over(*engines)
    places = [send(router, engines, [*HOT, *[n] * 8]) for n in range(40)]
    assert places[:5] == [0] * 5 and 15 <= places.count(1) <= 20


def test_answers_that_are_still_to_be_written_count_as_load() -> None:
    engines = MadeUp(), MadeUp()
    router = over(*engines)
    send(router, engines, [1] * 5, n_new=50)
    assert [send(router, engines, [n] * 5) for n in (2, 3, 4)] == [1, 1, 1]


def test_a_finished_request_is_no_load_any_more() -> None:
    engines = MadeUp(), MadeUp()
    router = over(*engines)
    assert send(router, engines, [1] * 50) == 0
    assert send(router, engines, [2] * 5) == 1
    engines[0].open.clear()
    assert send(router, engines, [3] * 5) == 0


# ---------------------------------------------------------------- what is under way


def test_a_prefix_that_is_still_computed_has_no_name_yet_and_is_remembered() -> None:
    engines = MadeUp().holds(HOT[:20]), MadeUp()
    router = over(*engines)
    assert send(router, engines, [*HOT, 1]) == 0
    assert router.choose(look([*HOT, 2])) == Choice(0, 40, 21 + 1)


def test_what_is_finished_is_remembered_no_longer_the_engine_speaks_for_itself() -> None:
    engines = MadeUp(), MadeUp()
    router = over(*engines)
    first = send(router, engines, [*HOT, 1])
    engines[first].open.clear()  # finished, and evicted since: the engine does not say that it has it
    assert router.choose(look([*HOT, 2])) == Choice(1 - first, 0, 41)


def test_what_is_remembered_is_bounded() -> None:
    engine = MadeUp()
    ledger = Ledger(engine, remembered=3)
    for n in range(10):
        ledger.note(look([n] * 9), 0)
    assert len(ledger._sent) == 3 and ledger.load == 27
    assert ledger.on_its_way(look([9] * 9)) == 8 and ledger.on_its_way(look([6] * 9)) == 0


def test_a_request_of_a_name_that_comes_again_counts_once() -> None:
    ledger = Ledger(MadeUp())
    for n_new in (1, 2):
        asked = look([1] * 9)
        ledger.note(replace(asked, request=replace(asked.request, name="same", n_new=n_new)), 0)
    assert ledger.load == 11


# ---------------------------------------------------------------- by the ratio alone


def test_by_the_ratio_alone_the_warmer_cache_gets_what_it_has_never_seen() -> None:
    engines = MadeUp(rate=0.2).holds(HOT), MadeUp(rate=0.8)
    assert over(*engines, expect=by_hit_ratio).route(request([*HOT, 1])) == 1
    assert over(*engines).route(request([*HOT, 1])) == 0


# ---------------------------------------------------------------- bringing blocks along


@dataclass
class Moves:
    done: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, source: int, target: int, _asked: Asked) -> None:
        self.done.append((source, target))


@pytest.mark.parametrize(("waits", "place", "moved"), [(0, 0, []), (20, 0, []), (31, 1, [(0, 1)]), (200, 1, [(0, 1)])])
def test_the_cold_engine_gets_blocks_once_the_warm_one_is_busy_enough(
    waits: int, place: int, moved: list[tuple[int, int]]
) -> None:
    """Moving 40 tokens costs as much as computing 30 of them, so a queue of 30 is worth it, and computing 40 is not."""
    engines, moves = (MadeUp().holds(HOT), MadeUp()), Moves()
    router = over(*engines, move=moves, move_price=0.75)
    busy(engines[0], router, 0, waits)
    assert router.route(request([*HOT, 1])) == place
    assert moves.done == moved


def test_only_what_is_missing_is_paid_for() -> None:
    engines, moves = (MadeUp().holds(HOT), MadeUp().holds(HOT[:32])), Moves()
    router = over(*engines, move=moves, move_price=0.75)
    busy(engines[0], router, 0, 7)
    assert router.choose(look([*HOT, 1])) == Choice(1, 40, 1 + 6.0, 0)


def test_what_is_still_computed_cant_be_moved() -> None:
    engines, moves = (MadeUp(), MadeUp()), Moves()
    router = over(*engines, move=moves)
    assert send(router, engines, [*HOT, 1], n_new=300) == 0
    assert router.route(request([*HOT, 2])) == 1
    assert moves.done == []


def test_after_a_move_the_request_counts_as_a_hit_where_it_went() -> None:
    engines, moves = (MadeUp().holds(HOT), MadeUp()), Moves()
    router = over(*engines, move=moves)
    busy(engines[0], router, 0, 100)
    assert router.route(request([*HOT, 1])) == 1
    assert router._engines[1].load == 1


def test_nothing_moves_unless_it_can() -> None:
    engines = MadeUp().holds(HOT), MadeUp()
    router = over(*engines)
    busy(engines[0], router, 0, 39)
    assert router.choose(look([*HOT, 1])) == Choice(0, 40, 40)


# ---------------------------------------------------------------- sites


class Runner:
    """Computes nothing, and lets a clock that is not real go on."""

    def __init__(self) -> None:
        self.now = 0.0

    def timer(self) -> float:
        return self.now

    def run(self, chunks: Sequence[Any]) -> list[int]:
        self.now += 0.001 * sum(len(chunk.tokens) for chunk in chunks)
        return [chunk.end % 97 for chunk in chunks]


def site(mode: str = "hash", manager: Any = None, n_blocks: int = 64, name: str = "one") -> Site:
    from course.engine.config import EngineConfig
    from course.engine.engine import Engine
    from solutions.block_manager import BlockManager

    config = EngineConfig(
        prefix_cache=PrefixCache(mode), block_size=B, n_blocks=n_blocks, max_batch_tokens=16, max_running=2
    )
    runner, pool = Runner(), KvPool(n_blocks, B)
    clock, made = Clock(timer=runner.timer), (manager or BlockManager)(pool, PrefixCache(mode))
    return Site(name, Engine(runner, made, config, clock=clock), pool, made, clock, runner)


def lab_manager() -> Any:
    from autograder.benchmarks.serving import lab_names

    return lab_names()["BlockManager"]


def ask(at: Site, asked: Request) -> None:
    more: dict[str, Any] = {"extra_keys": asked.extra_keys} if asked.extra_keys else {}
    at.engine.add(asked.prompt, 2, (), asked.name, **more)
    at.engine.run_until_idle()


def test_a_site_in_hash_mode_is_asked_by_name() -> None:
    at = site()
    ask(at, request(HOT))
    assert SiteBackend(at).warm(look([*HOT, 1])) == 40
    assert SiteBackend(at).warm(look([*HOT[:6], 1, 1, 1])) == 4
    assert SiteBackend(at).hit_rate == at.manager.hit_rate == 0.0
    ask(at, request(HOT))
    assert SiteBackend(at).hit_rate == at.manager.hit_rate == 36 / 80


@pytest.mark.parametrize("mode", ["hash", "radix", "none"])
def test_a_manager_that_looks_without_taking_is_asked_in_every_mode(mode: str) -> None:
    at = site(mode, lab_manager())
    ask(at, request(HOT))
    before = at.manager.stats
    assert SiteBackend(at).warm(look([*HOT, 1])) == (0 if mode == "none" else 40)
    assert at.manager.stats == before


@pytest.mark.parametrize("mode", ["hash", "radix"])
def test_extra_keys_keep_equal_prompts_apart_here_too(mode: str) -> None:
    at = site(mode, lab_manager())
    ask(at, replace(request(HOT), extra_keys=("tenant", 1)))
    for keys, found in ((("tenant", 1), 40), (("tenant", 2), 0), ((), 0)):
        made = replace(request([*HOT, 1]), extra_keys=keys)
        asked = Asked.of(made, block_names(at.pool, made.prompt, keys), B)
        assert SiteBackend(at).warm(asked) == found


def test_a_plain_manager_in_radix_mode_cant_say_and_the_ledger_still_knows_what_is_under_way() -> None:
    sites = [site("radix"), site("radix")]
    ask(sites[0], request(HOT))
    assert SiteBackend(sites[0]).warm(look([*HOT, 1])) == 0
    router = router_over(sites)
    first = router.route(made := request([*HOT, 1]))
    sites[first].engine.add(made.prompt, 2, (), made.name)
    assert by_block_names(router._engines[first], look([*HOT, 2])) == 40
    assert by_block_names(router._engines[1 - first], look([*HOT, 2])) == 0


def test_waiting_and_running_requests_are_under_way_and_finished_ones_not() -> None:
    at = site()
    for n in range(4):
        at.engine.add([n] * 20, 2, (), f"request {n}")
    at.engine.step()
    assert set(SiteBackend(at).under_way()) == {f"request {n}" for n in range(4)}
    at.engine.run_until_idle()
    assert list(SiteBackend(at).under_way()) == []


@dataclass
class Fixed:
    requests: Sequence[Request]

    def first(self) -> Sequence[Request]:
        return self.requests

    def then(self, *_: object) -> None:
        return None


def served(way: str, prompts: Sequence[Sequence[int]]) -> tuple[list[Site], list[Done]]:
    sites = [site(name="one", n_blocks=18), site(name="two", n_blocks=18)]
    asked = [Request(f"{n:03}", tuple(prompt), 2, n * 0.1) for n, prompt in enumerate(prompts)]
    route = RoundRobin(2).route if way == "in turn" else router_over(sites).route
    return sites, drive(sites, Fixed(asked), route)


def test_driven_over_sites_it_keeps_prefixes_apart_and_finds_more_than_in_turn() -> None:
    """Neither pool holds both prefixes beside what runs."""
    source = [HOT, OTHER, OTHER, HOT, HOT, HOT, OTHER, HOT, OTHER, OTHER] * 4
    prompts = [[*prefix, *[n] * 10] for n, prefix in enumerate(source)]
    (in_turn, answers), (routed, same) = served("in turn", prompts), served("by names", prompts)

    def hits(sites: Sequence[Site]) -> int:
        return sum(at.manager.stats.hit_tokens for at in sites)

    assert hits(routed) > 1.5 * hits(in_turn)
    assert hits(routed) == 40 * (len(prompts) - 2), "all but the first of each"
    assert {each.request.name: each.tokens for each in answers} == {each.request.name: each.tokens for each in same}


def test_a_router_loads_no_model() -> None:
    import subprocess
    import sys

    told = f"import sys, {routing.__name__}; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True).stdout == "False\n"

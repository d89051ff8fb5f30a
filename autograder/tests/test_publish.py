"""The named tests of publishing early: a block manager whose blocks are found before their request ends.

They go on where those of L10.4 end (`autograder.tests.test_block_manager`), with its prompts and pools, and ask
for a manager that has the call `publish` and takes the option of that name. What the scheduler does with it, the
engine shows. No test knows which implementation it runs on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from autograder.catalogue import named
from autograder.expect import holds, refuses, same
from autograder.implementations import flat
from autograder.judging import hold
from autograder.judging_block_manager import served_rightly
from autograder.stand_in import ChecksumModel
from autograder.stories import seeded
from autograder.subject import NotDefined, Subject
from autograder.tests.test_block_manager import CACHES, HASH, MODES, NONE, RADIX, A, B, admit, counts, other, seen
from autograder.workload_block_manager import publishing_story
from course.contract import Allocation, PrefixCache, Publish
from course.engine.config import EngineConfig
from course.engine.engine import Engine
from course.engine.requests import Admitted
from course.modules import find
from course.tokens import TOKEN_LIMIT

WHEN: tuple[Publish, ...] = ("release", "prefill")


def start(subject: Subject, mode: PrefixCache, n_blocks: int = 8, when: Publish = "prefill") -> tuple[Any, Any]:
    """A pool of blocks of 4 tokens, and a manager over it that publishes then."""
    pool = subject.KvPool(n_blocks, 4)
    with _said('it takes no option of that name, BlockManager(pool, mode, publish="release")'):
        manager = subject.BlockManager(pool, mode, publish=when)
    with _said("there is no call publish(seq, computed)"), contextlib.suppress(LookupError, ValueError):
        manager.publish("a sequence that there is not", [])
    return pool, manager


@contextlib.contextmanager
def _said(what: str) -> Iterator[None]:
    """What a manager lacks that is not extended yet."""
    try:
        yield
    except (AttributeError, TypeError) as problem:
        if "publish" in str(problem):
            raise NotDefined(f"BlockManager has no publish: {what}") from None
        raise


def again(manager: Any, tokens: Sequence[int]) -> int:
    """How much of a prompt is found now; it is admitted with one token more, and ends with nothing computed."""
    cached = admit(manager, "again", [*tokens, 50_000]).cached_tokens
    manager.release("again", [])
    return cached


def rho(pool: Any, blocks: Sequence[int]) -> list[int]:
    """How many references are held on each of these blocks."""
    return [pool.refcount(block) for block in blocks]


def state(pool: Any, manager: Any) -> dict[str, Any]:
    """All that can be seen of both, but for the counters."""
    return {**seen(pool, manager), "stats": None}


def nothing_is_held(pool: Any, manager: Any, mode: PrefixCache) -> None:
    """With no sequence running, references are the cache's: none (hash), or one on each block that it has (radix)."""
    rule = f"Mode {mode.value}: when all requests have ended, only the radix cache holds references, one on each block."
    same(pool.n_used, manager.cached_blocks if mode is RADIX else 0, rule)
    same(sum(counts(pool).values()), pool.n_blocks, "free + used + cached is the number of blocks.")
    same(manager.available_blocks, pool.n_blocks, "When all requests have ended, every block is available.")
    most = [0, 1] if mode is RADIX else [0]
    holds(all(n in most for n in rho(pool, range(pool.n_blocks))), rule, rho=rho(pool, range(pool.n_blocks)))


# ---------------------------------------------------------------- when blocks are found


@named(
    "unit",
    checks="without the option, and with release, publish changes nothing that can be seen",
    why="a scheduler calls it after every chunk, whatever the manager was made for",
)
def test_nothing_is_published_unless_asked_for(subject: Subject) -> None:
    for mode in MODES:
        start(subject, mode)  # to tell a manager that has no such call
        for options in ((), ("release",)):
            pool = subject.KvPool(8, 4)
            manager = subject.BlockManager(pool, mode, *options)
            table = list(admit(manager, "A", A).blocks)
            before = seen(pool, manager)
            for end in (4, 8, 10):
                manager.publish("A", A[:end])
            rule = f"Mode {mode.value}: a manager that publishes on release does nothing when a chunk is computed."
            same((seen(pool, manager), manager.block_table("A")), (before, table), rule)
            same(again(manager, A[:8]), 0, f"Mode {mode.value}: on release means not before.")
            manager.release("A", A)
            kept = 0 if mode is NONE else 8
            same(again(manager, A[:8]), kept, f"Mode {mode.value}: when A has ended, its two full blocks are found.")


@named(
    "unit",
    checks="published blocks are hits for another prompt while their own request runs",
    why="requests with one system prompt overlap: the second need not wait for the first one's answer",
)
def test_published_blocks_are_found_before_their_request_ends(subject: Subject) -> None:
    for mode in CACHES:
        _, manager = start(subject, mode)
        first = admit(manager, "A", A)
        manager.publish("A", A)
        rule = f"Mode {mode.value}: A has two full blocks, so two can be found; its third is partial, and its own."
        same((manager.cached_blocks, manager.available_blocks), (2, 5), rule)
        second = admit(manager, "B", B)
        rule = f"Mode {mode.value}: B begins with A's 8 tokens, which A has published: they are found while A runs."
        same((second.cached_tokens, second.blocks[:2]), (8, first.blocks[:2]), rule)
        rule = f"Mode {mode.value}: A keeps its table."
        same(manager.block_table("A"), list(first.blocks), rule)
        same(manager.available_blocks, 4, f"Mode {mode.value}: A and B hold 4 blocks together.")
        manager.release("A", A)
        manager.publish("B", B)
        same(admit(manager, "A again", A).blocks[:2], second.blocks[:2], "After A has ended they are found, too.")


@named(
    "unit",
    checks="references on published blocks: the request's alone (hash), the cache's and the request's (radix)",
    why="a reference that nobody holds frees a block that is still named; one too many loses it for good",
)
def test_the_cache_holds_what_is_published_itself(subject: Subject) -> None:
    for mode, holders in ((HASH, 1), (RADIX, 2)):
        pool, manager = start(subject, mode)
        blocks = admit(manager, "A", A).blocks
        manager.publish("A", A)
        whose = "its request" if mode is HASH else "its request and the cache"
        rule = f"Mode {mode.value}: a reference on each published block has {whose}; the partial one has its request's."
        same(rho(pool, blocks), [holders, holders, 1], rule)
        admit(manager, "B", B)
        rule = f"Mode {mode.value}: a request that finds them takes one more."
        same(rho(pool, blocks), [holders + 1, holders + 1, 1], rule)
        manager.release("A", A)
        rule = f"Mode {mode.value}: when A ends, its references go, and no other does."
        same(rho(pool, blocks), [holders, holders, 0], rule)
        manager.release("B", B[:8])
        same((manager.cached_blocks, pool.n_free), (2, 6), f"Mode {mode.value}: A's two blocks stay cached.")
        nothing_is_held(pool, manager, mode)
        new = admit(manager, "new", other(24))
        rule = f"Mode {mode.value}: a block that is cached is not handed out while others are free."
        same(sorted({*new.blocks, *blocks[:2]}), list(range(8)), rule)
        same(again(manager, A[:4]), 4, f"Mode {mode.value}: what was cached is still found.")


@named(
    "boundary",
    checks="after n computed tokens n // 4 blocks are found, for n from 0 to 10",
    why="a block that is not computed yet holds another request's K and V",
)
def test_only_full_computed_blocks_are_published(subject: Subject) -> None:
    for mode in CACHES:
        for n in range(11):
            pool, manager = start(subject, mode)
            admit(manager, "A", A)
            manager.publish("A", A[:n])
            rule = f"Mode {mode.value}: of {n} computed tokens of A, {n} // 4 blocks are full: no other is published."
            same((manager.cached_blocks, again(manager, A[:8])), (n // 4, n // 4 * 4), rule)
            manager.release("A", A[:n])
            same(manager.cached_blocks, n // 4, f"Mode {mode.value}: A ended there, so nothing is added.")
            nothing_is_held(pool, manager, mode)


@named(
    "unit",
    checks="a prompt published chunk by chunk, with chunks that end inside a block",
    why="a long prompt is prefilled in many steps, and each makes more of it reusable",
)
def test_every_chunk_adds_its_blocks(subject: Subject) -> None:
    prompt = other(26)
    for mode in CACHES:
        pool, manager = start(subject, mode, n_blocks=14)
        table = list(admit(manager, "long", prompt).blocks)
        for end in (3, 7, 13, 16, 17, 26):
            manager.publish("long", prompt[:end])
            full = end // 4
            rule = f"Mode {mode.value}: after {end} of 26 tokens {full} blocks are found, in the order of the table."
            found = admit(manager, "other", [*prompt[:24], 0])
            same((found.cached_tokens, list(found.blocks[:full])), (full * 4, table[:full]), rule)
            manager.release("other", [])
            holders = 1 if mode is HASH else 2
            rule = f"Mode {mode.value}: each chunk's blocks get their references once."
            same(rho(pool, table), [holders] * full + [1] * (7 - full), rule)
        manager.release("long", prompt)
        same((manager.cached_blocks, again(manager, prompt[:24])), (6, 24), "All six full blocks stay cached.")
        nothing_is_held(pool, manager, mode)


@named(
    "unit",
    checks="publishing the same again, or fewer tokens than before",
    why="the scheduler calls it after every step, also where no block became full",
)
def test_publishing_again_or_less_changes_nothing(subject: Subject) -> None:
    for mode in CACHES:
        pool, manager = start(subject, mode)
        admit(manager, "A", A)
        manager.publish("A", A)
        before = seen(pool, manager)
        for end in (10, 8, 9, 5, 4, 0, 10):
            manager.publish("A", A[:end])
            rule = f"Mode {mode.value}: 8 tokens are published already, so {end} tokens add and take nothing."
            same(seen(pool, manager), before, rule)
        manager.release("A", A)
        nothing_is_held(pool, manager, mode)


@named(
    "unit",
    checks="blocks that hold generated tokens are published too, also with prompt tokens in the same block",
    why="another branch of a conversation finds an answer that is still being written",
)
def test_answers_are_published_as_they_grow(subject: Subject) -> None:
    history = other(15)
    for mode in CACHES:
        pool, manager = start(subject, mode)
        admit(manager, "turn", history[:6])
        manager.publish("turn", history[:6])
        for end in range(7, 16):
            same(manager.append_slot("turn"), True, "There is room for 15 positions.")
            manager.publish("turn", history[:end])
            rule = f"Mode {mode.value}: 6 prompt tokens and {end - 6} generated ones have {end // 4} full blocks."
            same((manager.cached_blocks, again(manager, history[:12])), (end // 4, end // 4 * 4), rule)
        manager.release("turn", history)
        same(again(manager, history[:12]), 12, f"Mode {mode.value}: after its end they are found, too.")
        nothing_is_held(pool, manager, mode)


# ---------------------------------------------------------------- twins


def twins(subject: Subject, mode: PrefixCache, n_blocks: int = 8) -> tuple[Any, Any, Allocation, Allocation]:
    """Two requests admitted before either has computed anything; the first publishes first."""
    pool, manager = start(subject, mode, n_blocks)
    first, second = admit(manager, "first", A), admit(manager, "second", B)
    same((first.cached_tokens, second.cached_tokens), (0, 0), "Nothing is computed yet, so both compute it.")
    manager.publish("first", A)
    manager.publish("second", B)
    return pool, manager, first, second


@named(
    "unit",
    checks="two requests compute one prefix at the same time: the later one's blocks stay in its table until it ends",
    why="a runner works through that table: a block that is swapped or freed under it is another's next",
)
def test_a_racing_twin_keeps_its_own_blocks(subject: Subject) -> None:
    for mode in CACHES:
        for order in (("first", "second"), ("second", "first")):
            pool, manager, first, second = twins(subject, mode)
            rule = f"Mode {mode.value}: a table never changes, also where another request has published the same."
            same(manager.block_table("second"), list(second.blocks), rule)
            same(manager.block_table("first"), list(first.blocks), rule)
            rule = f"Mode {mode.value}: the twin's blocks are its own: one reference, and nobody finds them."
            same((rho(pool, second.blocks), manager.cached_blocks), ([1, 1, 1], 2), rule)
            found = admit(manager, "third", [*A[:8], 50])
            same(found.blocks[:2], first.blocks[:2], f"Mode {mode.value}: who published first is found.")
            manager.release("third", [])
            for seq in order:
                manager.release(seq, {"first": A, "second": B}[seq])
                nobody = list(second.blocks) if seq == "second" else [first.blocks[2]]
                rule = f"Mode {mode.value}: when {seq} has ended, one copy of the prefix stays; all else of it is free."
                same((rho(pool, nobody), manager.cached_blocks), ([0] * len(nobody), 2), rule)
            same((pool.n_free, manager.available_blocks), (6, 8), "Of 8 blocks 2 are kept.")
            found = admit(manager, "again", B)
            same(found.blocks[:2], first.blocks[:2], f"Mode {mode.value}: the copy that stays is the first one's.")
            manager.release("again", [])
            nothing_is_held(pool, manager, mode)


@named(
    "boundary",
    checks="a prompt that is published whole, to its last token: its last block is computed anew, and stays its own",
    why="the last token is always computed, so two blocks hold the same: only one of them may be found",
)
def test_a_prompt_that_is_wholly_published_keeps_its_last_block(subject: Subject) -> None:
    for mode in CACHES:
        pool, manager = start(subject, mode)
        first = admit(manager, "A", A)
        manager.publish("A", A)
        late = admit(manager, "late", A[:8])
        same(late.cached_tokens, 4, f"Mode {mode.value}: of 8 published tokens a prompt of the same 8 reuses 4.")
        manager.publish("late", A[:8])
        same(manager.block_table("late"), list(late.blocks), f"Mode {mode.value}: a table never changes.")
        rule = f"Mode {mode.value}: its last block is a second copy, which nobody else holds, and which nobody finds."
        same((rho(pool, late.blocks[1:]), manager.cached_blocks), ([1], 2), rule)
        same(manager.available_blocks, 4, f"Mode {mode.value}: A and the late one hold 4 blocks together.")
        manager.release("late", A[:8])
        same(rho(pool, late.blocks[1:]), [0], f"Mode {mode.value}: when it has ended, its copy is free.")
        manager.release("A", A)
        found = admit(manager, "again", A)
        same(found.blocks[:2], first.blocks[:2], f"Mode {mode.value}: the copy that stays is the first one's.")
        manager.release("again", [])
        nothing_is_held(pool, manager, mode)


@named(
    "fault",
    checks="a twin whose first holder has ended and is evicted, if it can be: the prefix is found once the twin ends",
    why="a prefix that a running request has computed would be computed a third time",
)
def test_a_twin_makes_up_for_a_first_one_that_is_gone(subject: Subject) -> None:
    for mode in CACHES:
        pool, manager, *_ = twins(subject, mode)
        manager.release("first", A)
        rule = f"Mode {mode.value}: as many blocks as are available can be had."
        holds(manager.allocate("press", other(4 * manager.available_blocks)) is not None, rule, **counts(pool))
        manager.release("press", [])
        manager.release("second", B)
        rule = f"Mode {mode.value}: the twin has computed and published these 8 tokens, so they are found after it."
        same((again(manager, B[:8]), manager.cached_blocks), (8, 2), rule)
        nothing_is_held(pool, manager, mode)


@named(
    "fault",
    checks="a twin that goes on alone grows until every block of the pool is its own",
    why="a request is let in if an empty pool has room for it, and when it runs alone nobody can be preempted for it",
)
def test_a_twin_that_runs_alone_can_have_the_whole_pool(subject: Subject) -> None:
    prompts = {"first": other(12), "second": [*other(8), *other(4, first=5000)]}
    for mode in CACHES:
        pool, manager = start(subject, mode, n_blocks=6)
        for seq, prompt in prompts.items():
            admit(manager, seq, prompt)
        for seq, prompt in prompts.items():
            manager.publish(seq, prompt)
        manager.release("first", prompts["first"])
        rule = f"Mode {mode.value}: the first one's blocks are used by nobody, so the second can have their room."
        same(manager.available_blocks, 3, rule)
        for position in range(12, 24):
            holds(manager.append_slot("second"), rule, position=position, **counts(pool))
        same(manager.append_slot("second"), False, "All 6 blocks are the second one's.")
        manager.release("second", [*prompts["second"], *other(12, first=6000)])
        nothing_is_held(pool, manager, mode)


@named(
    "fault",
    checks="the same twin goes on and publishes more after its first holder is gone",
    why="what it adds hangs on a prefix that must still be there, or be its own",
)
def test_a_twin_goes_on_after_the_first_one_is_gone(subject: Subject) -> None:
    grown = [*B, 7, 8, 9, 10, 11]
    for mode in CACHES:
        pool, manager, *_ = twins(subject, mode)
        manager.release("first", A)
        press = manager.allocate("press", other(4 * manager.available_blocks))
        holds(press is not None, "As many blocks as are available can be had.", mode=mode.value)
        manager.release("press", [])
        for end in range(len(B) + 1, len(grown) + 1):
            manager.append_slot("second")
            manager.publish("second", grown[:end])
        manager.release("second", grown)
        rule = f"Mode {mode.value}: the twin's prefix and what it added later, 16 tokens, are found after it."
        same((again(manager, grown), manager.cached_blocks), (16, 4), rule)
        nothing_is_held(pool, manager, mode)


# ---------------------------------------------------------------- eviction, and the end


@named(
    "fault",
    checks="blocks of a running request are neither available nor evicted, published or not; after its end they are",
    why="the request reads them in every step",
)
def test_published_blocks_in_use_are_not_evicted(subject: Subject) -> None:
    for mode in CACHES:
        pool, manager = start(subject, mode)
        table = list(admit(manager, "A", A).blocks)
        for end in (4, 10):
            manager.publish("A", A[:end])
            rule = f"Mode {mode.value}: A's 3 blocks are in use, so 5 of 8 are available, whatever is published."
            same(manager.available_blocks, 5, rule)
        rule = f"Mode {mode.value}: 6 blocks can't be had while A holds 3 of 8."
        same(manager.allocate("too much", other(24)), None, rule)
        admit(manager, "rest", other(20))
        same(manager.available_blocks, 0, f"Mode {mode.value}: both hold all 8 blocks.")
        same(manager.append_slot("rest"), False, f"Mode {mode.value}: for one more block none of A's is evicted.")
        same(manager.block_table("A"), table, "A keeps its table.")
        manager.release("rest", [])
        same(again(manager, A[:8]), 8, f"Mode {mode.value}: nothing of A was evicted.")
        manager.release("A", A)
        same(manager.available_blocks, 8, f"Mode {mode.value}: when A has ended, all blocks are available.")
        holds(manager.allocate("whole", other(32)) is not None, "Then all can be had.", **counts(pool))
        manager.release("whole", [])
        rule = f"Mode {mode.value}: for that prompt A's blocks were evicted, and now every block is free."
        same(counts(pool), {"free": 8, "used": 0, "cached": 0}, rule)


@named(
    "fault",
    checks="a request that ends after less than it has published, with hits of its own, or is admitted again",
    why="a preempted request gives its blocks back in the middle, and computes again later",
)
def test_a_preempted_request_gives_everything_back(subject: Subject) -> None:
    for mode in CACHES:
        for kept in (0, 3, 4, 8, 10):
            pool, manager = start(subject, mode)
            admit(manager, "A", A)
            manager.publish("A", A)
            manager.release("A", A[:kept])
            rule = f"Mode {mode.value}: A has published 8 tokens, so they stay, although it ends with {kept} of them."
            same((manager.cached_blocks, pool.n_free), (2, 6), rule)
            nothing_is_held(pool, manager, mode)
            back = admit(manager, "A", [*A, 11, 12, 13])
            same(back.cached_tokens, 8, f"Mode {mode.value}: admitted again, it finds what it has published itself.")
            manager.publish("A", [*A, 11, 12, 13])
            same(manager.cached_blocks, 3, f"Mode {mode.value}: behind its hits, the block that it fills is new.")
            manager.release("A", [*A, 11])
            same((manager.cached_blocks, pool.n_free), (3, 5), f"Mode {mode.value}: three full blocks stay.")
            nothing_is_held(pool, manager, mode)


@named(
    "unit",
    checks="lookups, query tokens, hit tokens and evictions are as before a call of publish",
    why="counters are about admitted prompts: a hit rate that moves without one misleads",
)
def test_publishing_counts_nothing(subject: Subject) -> None:
    for mode in MODES:
        _, manager = start(subject, mode)
        admit(manager, "A", A)
        before = manager.stats
        for end in (4, 8, 10):
            manager.publish("A", A[:end])
            rule = f"Mode {mode.value}: publishing is no lookup and no hit."
            same((manager.stats, manager.hit_rate), (before, 0.0), rule)
        hits = 0 if mode is NONE else 8
        admit(manager, "B", B)
        rule = f"Mode {mode.value}: B counts once, with the {hits} tokens that it found."
        same((manager.stats.lookups, manager.stats.query_tokens, manager.stats.hit_tokens), (2, 21, hits), rule)


@named("unit", checks="in mode none nothing is published, whatever the option says", why="the baseline mode")
def test_none_mode_publishes_nothing(subject: Subject) -> None:
    pool, manager = start(subject, NONE)
    admit(manager, "A", A)
    before = seen(pool, manager)
    manager.publish("A", A)
    same(seen(pool, manager), before, "Mode none keeps nothing, so there is nothing to publish.")
    same((again(manager, A[:8]), pool.n_named, manager.cached_blocks), (0, 0, 0), "Mode none never hits.")
    manager.release("A", A)
    same(counts(pool), {"free": 8, "used": 0, "cached": 0}, "Mode none: every block is free after a request.")


@named(
    "fault",
    checks="an unknown option, unknown sequences, more tokens than slots, tokens out of range",
    why="a scheduler's mistake is an error at once, not a wrong answer later",
)
def test_wrong_calls_of_publish_change_nothing(subject: Subject) -> None:
    for mode in MODES:
        pool, manager = start(subject, mode)
        for when in ("sometimes", "", "PREFILL"):
            with refuses(ValueError, f"publish is release or prefill, and {when!r} is neither: ValueError."):
                subject.BlockManager(pool, mode, publish=when)
        admit(manager, "held", A)
        manager.publish("held", A[:4])
        before, table = seen(pool, manager), manager.block_table("held")
        for seq in ("unknown", 7):
            with refuses(KeyError, f"Mode {mode.value}: a sequence that is not held is unknown: KeyError."):
                manager.publish(seq, A)
        with refuses(ValueError, f"Mode {mode.value}: 10 slots can't hold 11 computed tokens: ValueError."):
            manager.publish("held", [*A, 0])
        for token in (-1, TOKEN_LIMIT):
            for place in (0, 5, 8):
                rule = f"Mode {mode.value}: token {token} at place {place} is out of range: ValueError."
                with refuses(ValueError, rule):
                    manager.publish("held", [*A[:place], token, *A[place + 1 :]])
        rule = f"Mode {mode.value}: a call that raises changes nothing."
        same((seen(pool, manager), manager.block_table("held")), (before, table), rule)
        manager.publish("held", A)
        manager.release("held", A)
        with refuses(KeyError, f"Mode {mode.value}: a sequence that has ended is unknown: KeyError."):
            manager.publish("held", A)
        nothing_is_held(pool, manager, mode)


# ---------------------------------------------------------------- the engine


def engine_over(
    subject: Subject, mode: PrefixCache, when: Publish, n_blocks: int = 60, budget: int = 14
) -> tuple[Any, Any, Engine]:
    """An engine over a new pool and manager, which answers with a checksum of what it reads in the blocks."""
    pool, manager = start(subject, mode, n_blocks, when)
    config = EngineConfig(block_size=4, n_blocks=n_blocks, max_batch_tokens=budget, prefix_cache=mode)
    return pool, manager, Engine(ChecksumModel().runner(pool), manager, config)


@named(
    "differential",
    checks="four requests with one prompt, admitted while the first still runs: the answers of a cold run in every "
    "mode, and hits as soon as the first chunk is computed",
    why="publishing early changes when blocks are found, never what is in them",
)
def test_twins_are_served_as_if_alone(subject: Subject) -> None:
    prompt, model = other(22, first=100), ChecksumModel()
    right = model.greedy(prompt, 9)
    for mode in MODES:
        for when in WHEN:
            pool, manager, engine = engine_over(subject, mode, when, budget=16)
            events = []
            for name in ("first", "second", "third", "fourth"):
                engine.add(prompt, 9, request_id=name)
                events += engine.step()
            events += engine.run_until_idle()
            admitted = {each.request: each.cached_tokens for each in events if isinstance(each, Admitted)}
            for seq, record in engine.records.items():
                rule = f"Mode {mode.value}, publish={when}: {seq} gets the answer of a cold run."
                same(record.tokens, right, rule)
            early = mode is not NONE and when == "prefill"
            found = "The second request comes one step later and finds them." if early else "Nobody finds them yet."
            rule = f"Mode {mode.value}, publish={when}: the first chunk is 16 of 22 tokens. {found}"
            same((admitted["first"], admitted["second"]), (0, 16 if early else 0), rule)
            nothing_is_held(pool, manager, mode)


@named(
    "differential",
    checks="30 overlapping requests, release against prefill: the same answers, as many hits or more, and exactly "
    "those of the flat model",
    why="the option is worth its cost only if more is found",
)
def test_more_is_found_while_requests_overlap(subject: Subject) -> None:
    oracle = flat(find("publish"))
    for mode in CACHES:
        found = {when: _traffic(subject, mode, when) for when in WHEN}
        rule = f"Mode {mode.value}: publishing early changes no answer."
        same(found["prefill"][0], found["release"][0], rule)
        expected = {when: _traffic(oracle, mode, when)[1] for when in WHEN}
        hits = {when: hit_tokens for when, (_, hit_tokens) in found.items()}
        rule = f"Mode {mode.value}: hit tokens of 30 overlapping requests with room for all, by publish."
        same(hits, expected, rule)
        rule = f"Mode {mode.value}: more is found where blocks are published as soon as they are computed."
        holds(hits["prefill"] > hits["release"], rule, **hits)


def _traffic(subject: Subject, mode: PrefixCache, when: Publish) -> tuple[list[list[int]], int]:
    """Requests that begin with one of three prefixes, about one a step: their answers, and the tokens found cached."""
    choose = seeded(71)
    prefixes = [choose.choices(range(100), k=length) for length in (21, 34, 45)]
    pool, manager, engine = engine_over(subject, mode, when, n_blocks=500, budget=20)
    for n in range(30):
        engine.add(choose.choice(prefixes) + choose.choices(range(3), k=choose.randrange(1, 6)), 6, request_id=f"{n}")
        engine.step()
    engine.run_until_idle()
    nothing_is_held(pool, manager, mode)
    return [record.tokens for record in engine.records.values()], manager.stats.hit_tokens


@named(
    "property",
    checks="overlapping requests in a small pool and a large one, all modes: exact outputs, the pool invariant, what "
    "is available, nothing held at the end, hits counted",
    why="no leak over weeks of traffic, and no block evicted that somebody reads",
)
def test_references_balance_while_requests_overlap(subject: Subject) -> None:
    oracle = flat(find("publish")).names
    for mode in MODES:
        for n_blocks, n_requests in ((18, 16), (200, 20)):
            start(subject, mode)
            story = publishing_story(oracle, mode, "prefill", n_blocks, n_requests, seed=7)
            intro = f"Mode {mode.value}, publish=prefill: {n_requests} overlapping requests, {n_blocks} blocks."
            hold(story, subject.names, served_rightly(oracle), intro)

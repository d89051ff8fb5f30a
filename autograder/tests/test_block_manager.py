"""The named tests of the block manager (L10.4): the chapter's ten, then those for the rules of the contract.

Pools have blocks of 4 tokens. Two tests run the engine, with the checksum of
`autograder.stand_in` in place of a language model, which takes no time and tells wrong blocks by wrong answers.
No test knows which implementation it runs on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograder.catalogue import named
from autograder.expect import holds, refuses, same
from autograder.implementations import flat
from autograder.judging import hold
from autograder.judging_block_manager import served_rightly
from autograder.stand_in import ChecksumModel, ServedModel
from autograder.subject import Subject
from autograder.workload_block_manager import workload_story
from course.contract import Allocation, BlockStats, PrefixCache
from course.engine.config import EngineConfig
from course.engine.engine import Engine
from course.engine.requests import Prefilled
from course.modules import find
from course.tokens import TOKEN_LIMIT

NONE, HASH, RADIX = PrefixCache.NONE, PrefixCache.HASH, PrefixCache.RADIX
CACHES = (HASH, RADIX)
MODES = (NONE, HASH, RADIX)

A = list(range(1, 11))
B = [*range(1, 9), 99, 98, 97]
C = list(range(1, 9))
D = [5, 6, 7, 8, 20]
"""The prompts of section 3."""


def start(subject: Subject, mode: PrefixCache, n_blocks: int = 8) -> tuple[Any, Any]:
    """A pool of blocks of 4 tokens, and a manager over it."""
    pool = subject.KvPool(n_blocks, 4)
    return pool, subject.BlockManager(pool, mode)


def admit(manager: Any, seq: str, tokens: Sequence[int]) -> Allocation:
    """Allocate for a prompt that there is room for."""
    allocation = manager.allocate(seq, list(tokens))
    rule = "A prompt is admitted when the blocks it needs are free, or cached and not pinned."
    holds(allocation is not None, rule, mode=manager.mode.value, tokens=list(tokens))
    return allocation  # type: ignore[no-any-return]


def serve(manager: Any, seq: str, tokens: Sequence[int]) -> Allocation:
    """Admit a prompt, and end it once all of it is computed."""
    allocation = admit(manager, seq, tokens)
    manager.release(seq, list(tokens))
    return allocation


def other(n: int, first: int = 1000) -> list[int]:
    """n tokens that begin like no other prompt here."""
    return list(range(first, first + n))


def counts(pool: Any) -> dict[str, int]:
    """How many blocks are in each state."""
    return {"free": pool.n_free, "used": pool.n_used, "cached": pool.n_cached}


def seen(pool: Any, manager: Any) -> dict[str, Any]:
    """All that a refused call must leave as it was."""
    blocks = range(pool.n_blocks)
    return {
        **counts(pool),
        "named": pool.n_named,
        "rho": [pool.refcount(block) for block in blocks],
        "fill": [pool.fill(block) for block in blocks],
        "available": manager.available_blocks,
        "reusable": manager.cached_blocks,
        "stats": manager.stats,
    }


# ---------------------------------------------------------------- the chapter's ten


@named(
    "unit",
    checks="section 3 for A and B in both caches: 8 cached tokens, shared block ids, the hit rate",
    why="the worked example",
)
def test_hand_example_prefix_hit(subject: Subject) -> None:
    for mode in CACHES:
        pool, manager = start(subject, mode)
        same(manager.hit_rate, 0.0, "Before the first prompt the hit rate is 0.0.")
        first = admit(manager, "A", A)
        same(
            (first.cached_tokens, len(first.blocks)), (0, 3), "A finds an empty cache: 0 cached tokens, 3 fresh blocks."
        )
        manager.release("A", A)
        rule = f"Mode {mode.value}: A leaves its 2 full blocks in the cache; the third is partial and free again."
        same((manager.cached_blocks, pool.n_free), (2, 6), rule)
        if mode is HASH:
            _named_by_chain(subject, pool, first)
        second = admit(manager, "B", B)
        rule = f"Mode {mode.value}: B shares its first 8 tokens, two full blocks, with A."
        same((second.cached_tokens, len(second.blocks)), (8, 3), rule)
        same(second.blocks[:2], first.blocks[:2], "The first blocks of B's table are A's, in order.")
        same(
            manager.block_table("B"), list(second.blocks), "block_table is what allocate gave: hits, then fresh blocks."
        )
        holders = 1 if mode is HASH else 2
        rule = f"Mode {mode.value}: {holders} hold a reused block: the request, and in radix mode the cache."
        same([pool.refcount(block) for block in second.blocks[:2]], [holders] * 2, rule)
        same(
            manager.stats, BlockStats(2, 21, 8, 0), "Two prompts of 10 and 11 tokens, 8 of them hits, nothing evicted."
        )
        same(manager.hit_rate, 8 / 21, "The hit rate is hit tokens over query tokens: 8 / (10 + 11).")


def _named_by_chain(subject: Subject, pool: Any, first: Allocation) -> None:
    h0 = subject.kv_block_hash(0, A[:4])
    h1 = subject.kv_block_hash(h0, A[4:8])
    rule = "Hash mode names a block by its parent's name (0 for the first) and its tokens: h0, then FNV(h0, 5 6 7 8)."
    same([pool.find(h0), pool.find(h1)], list(first.blocks[:2]), rule)


@named("unit", checks="no hits; every block free after each request", why="the baseline mode")
def test_none_mode_never_shares(subject: Subject) -> None:
    pool, manager = start(subject, NONE)
    for seq in ("A", "A again"):
        same(admit(manager, seq, A).cached_tokens, 0, "Mode none never hits, not even on a prompt it has just seen.")
        same(
            counts(pool), {"free": 5, "used": 3, "cached": 0}, "A 10-token prompt takes ceil(10 / 4) = 3 fresh blocks."
        )
        manager.release(seq, A)
        rule = "Mode none keeps nothing: every block is free after a request, and none has a name."
        same((pool.n_free, pool.n_named, manager.cached_blocks), (8, 0, 0), rule)
    rule = "Mode none counts lookups and query tokens as the caches do, with 0 hits."
    same((manager.stats, manager.hit_rate), (BlockStats(2, 20, 0, 0), 0.0), rule)


@named("boundary", checks="C reuses 4 tokens, not 8", why="the first new token always has logits")
def test_last_token_is_always_computed(subject: Subject) -> None:
    for mode in CACHES:
        _, manager = start(subject, mode)
        first = serve(manager, "A", A)
        third = admit(manager, "C", C)
        rule = f"Mode {mode.value}: C is A's two full blocks: (8 - 1) // 4 = 1 is reused, the last is computed anew."
        same((third.cached_tokens, third.blocks[0]), (4, first.blocks[0]), rule)
        holds(third.blocks[1] != first.blocks[1], "C computes its last block into one of its own.", A=first, C=third)
        manager.release("C", C)
        for n in range(1, 11):
            rule = f"Mode {mode.value}: a {n}-token prompt over 8 cached tokens reuses (n - 1) // B * B of them."
            same(serve(manager, f"{n} tokens", A[:n]).cached_tokens, (n - 1) // 4 * 4, rule)


@named("boundary", checks="D gets no hit", why="stale K and V would be served otherwise")
def test_same_tokens_at_another_position_do_not_hit(subject: Subject) -> None:
    for mode in CACHES:
        _, manager = start(subject, mode)
        serve(manager, "A", A)
        rule = f"Mode {mode.value}: a block is reusable only when every block before it matches too."
        same(serve(manager, "D", D).cached_tokens, 0, f"{rule} 5 6 7 8 came second in A and come first in D.")
        cached = serve(manager, "E", [9, 9, 9, 9, 5, 6, 7, 8, 0]).cached_tokens
        same(cached, 0, f"{rule} 5 6 7 8 come second here too, but after other tokens.")
        cached = serve(manager, "F", [1, 2, 3, 4, 1, 2, 3, 4, 0]).cached_tokens
        same(cached, 4, f"{rule} 1 2 3 4 is cached as a first block, not as a second.")


@named(
    "property",
    checks="three shared prefixes, a small pool, all modes: exact outputs, the pool invariant, nothing held at the "
    "end, hits counted",
    why="no leak over weeks of traffic",
)
def test_refcounts_balance_under_random_workload(subject: Subject) -> None:
    oracle = flat(find("L10.4")).names
    for mode in MODES:
        story = workload_story(oracle, mode, n_blocks=16, n_requests=18, seed=104)
        intro = f"Mode {mode.value}: an engine serves 18 requests with three shared prefixes from a pool of 16 blocks."
        hold(story, subject.names, served_rightly(oracle), intro)


@named(
    "fault",
    checks="a pool full of cached prefixes admits new unrelated requests",
    why="the cache is spare capacity, not a leak",
)
def test_eviction_reclaims_cached_blocks(subject: Subject) -> None:
    for mode in CACHES:
        pool, manager = start(subject, mode)
        for turn in range(4):
            serve(manager, f"old {turn}", other(8, first=100 * turn))
        same(
            (manager.cached_blocks, pool.n_free), (8, 0), "Four prompts of two full blocks fill the pool with prefixes."
        )
        same(manager.available_blocks, 8, "Cached blocks that nobody reads are available.")
        new = manager.allocate("new", other(16))
        rule = f"Mode {mode.value}: a pool full of cached prefixes admits a prompt of 4 blocks by evicting."
        holds(new is not None, rule, available_blocks=manager.available_blocks)
        same((new.cached_tokens, len(new.blocks)), (0, 4), "An unrelated prompt has no hits.")
        same(manager.stats.evictions, 4, "4 blocks were short, so 4 were evicted.")
        manager.release("new", [])
        for turn, kept in ((3, 8), (2, 8), (1, 0), (0, 0)):
            cached = serve(manager, f"again {turn}", [*other(8, first=100 * turn), 0]).cached_tokens
            same(cached, kept, f"Mode {mode.value}: the prefixes used longest ago are evicted: 0 and 1 of 0 1 2 3.")


@named(
    "property",
    checks="after B reuses A's blocks, a request needing the whole pool fits",
    why="references taken on hits are given back",
)
def test_shared_blocks_return_to_free_after_eviction(subject: Subject) -> None:
    for mode in CACHES:
        pool, manager = start(subject, mode)
        for turn in range(3):
            serve(manager, "A", A)
            admit(manager, "B", B)
            admit(manager, "B too", B)
            manager.release("B", B)
            manager.release("B too", B)
            rule = f"Mode {mode.value}: once all requests have ended, nobody pins a block."
            same(manager.available_blocks, 8, rule)
            whole = manager.allocate("whole", other(32, first=1000 * turn))
            rule = f"Mode {mode.value}: references taken on hits are given back, so a prompt of the whole pool fits."
            holds(whole is not None, rule, turn=turn, **counts(pool))
            manager.release("whole", [])
            rule = f"Mode {mode.value}: that prompt evicted every prefix and cached none, so all blocks are free."
            same(counts(pool), {"free": 8, "used": 0, "cached": 0}, rule)


@named(
    "fault",
    checks="a request too big for the pool does not pin its hits",
    why="all-or-nothing includes the hits",
)
def test_failed_allocation_returns_its_cache_hits(subject: Subject) -> None:
    for mode in CACHES:
        pool, manager = start(subject, mode)
        serve(manager, "A", A)
        before = seen(pool, manager)
        for _ in range(2):
            same(manager.allocate("big", [*A[:8], *other(40)]), None, "12 blocks can't be had from a pool of 8.")
            rule = f"Mode {mode.value}: a refused prompt gives back the references it took on its hits."
            same(seen(pool, manager), before, rule)
        admit(manager, "whole", other(32))
        rule = f"Mode {mode.value}: the hits of a prompt that was refused can be evicted for another."
        same((pool.n_free, manager.cached_blocks), (0, 0), rule)


def engine_over(subject: Subject, mode: PrefixCache, n_blocks: int, budget: int, model: ServedModel) -> Engine:
    """An engine over a new pool and manager."""
    pool, manager = start(subject, mode, n_blocks)
    config = EngineConfig(block_size=4, n_blocks=n_blocks, max_batch_tokens=budget, prefix_cache=mode)
    return Engine(model.runner(pool), manager, config)


def prefill_starts_at_the_hits_end(subject: Subject, model: ServedModel) -> None:
    """B after A, whatever model answers: its prefill starts at position 8, with the tokens of a cold one."""
    for mode, chunks in ((NONE, [(0, 4), (4, 8), (8, 11)]), (HASH, [(8, 11)]), (RADIX, [(8, 11)])):
        engine = engine_over(subject, mode, n_blocks=8, budget=4, model=model)
        engine.add(A, 1, request_id="A")
        engine.run_until_idle()
        engine.add(B, 2, request_id="B")
        prefilled = [(event.start, event.end) for event in engine.run_until_idle() if isinstance(event, Prefilled)]
        rule = f"Mode {mode.value}: B's prefill starts where its cached tokens end: at position 8, or 0 without any."
        same(prefilled, chunks, rule)
        rule = f"Mode {mode.value}: a prefill that starts late gives the same tokens."
        same(engine.records["B"].tokens, model.greedy(B, 2), rule)


def caching_changes_no_answer(subject: Subject, model: ServedModel) -> None:
    """Four requests with one system prompt, whatever model answers: the tokens of a cold run, 60 prefilled fewer."""
    system = other(22, first=100)
    prompts = {f"user {n}": [*system, *range(n, n + 3 + n)] for n in range(4)}
    answers = {seq: model.greedy(prompt, 11) for seq, prompt in prompts.items()}
    prefilled = {}
    for mode in MODES:
        engine = engine_over(subject, mode, n_blocks=40, budget=8, model=model)
        for n, (seq, prompt) in enumerate(prompts.items()):
            engine.add(prompt, 11, request_id=seq)
            if n == 0:
                engine.run_until_idle()
        engine.run_until_idle()
        for seq, answer in answers.items():
            rule = f"Mode {mode.value}: the cache changes how much is computed, never what, also past block borders."
            same(engine.records[seq].tokens, answer, rule)
        prefilled[mode] = sum(record.prefill_tokens for record in engine.records.values())
    same(prefilled[NONE], sum(map(len, prompts.values())), "Without a cache every prompt token is computed.")
    for mode in CACHES:
        rule = f"Mode {mode.value}: three requests skip the 5 full blocks of the system prompt: 60 tokens fewer."
        same(prefilled[NONE] - prefilled[mode], 60, rule)


@named("unit", checks="the scheduler's first chunk starts at position 8", why="the saving is real work skipped")
def test_prefix_hit_skips_prefill_tokens(subject: Subject) -> None:
    prefill_starts_at_the_hits_end(subject, ChecksumModel())


@named(
    "differential",
    checks="four requests with a shared system prompt: the same greedy tokens in all modes, at least 60 fewer prefill "
    "tokens with a cache",
    why="caching never changes answers",
)
def test_identical_outputs_with_and_without_cache(subject: Subject) -> None:
    caching_changes_no_answer(subject, ChecksumModel())


# ---------------------------------------------------------------- admission


@named(
    "unit",
    checks="refused prompts leave lookups, query tokens and hit tokens as they were, in every mode",
    why="a scheduler retries a refused prompt every step: retries must not inflate the hit rate",
)
def test_refused_attempts_count_nothing(subject: Subject) -> None:
    for mode in MODES:
        _, manager = start(subject, mode)
        serve(manager, "A", A)
        admit(manager, "runs", other(20))
        before = manager.stats
        for _ in range(3):
            rule = f"Mode {mode.value}: 5 blocks for 20 tokens can't be had while 5 of 8 are in use."
            same(manager.allocate("B", [*B, *other(9)]), None, rule)
            same(manager.stats, before, f"Mode {mode.value}: a refused attempt counts nothing.")
        manager.release("runs", [])
        hits = admit(manager, "B", [*B, *other(9)]).cached_tokens
        rule = f"Mode {mode.value}: an admitted prompt counts once, however often it was refused before."
        same(manager.stats, BlockStats(3, 50, hits, 0), rule)


@named(
    "fault",
    checks="hits that nobody else holds are not counted as room for the fresh blocks",
    why="a table with one block at two places would overwrite its own prefix",
)
def test_a_hit_is_not_also_spare_room(subject: Subject) -> None:
    for mode in CACHES:
        pool, manager = start(subject, mode, n_blocks=4)
        serve(manager, "A", A)
        admit(manager, "runs", other(4))
        before = seen(pool, manager)
        rule = f"Mode {mode.value}: of 3 available blocks 2 are the prompt's own hits, so 2 fresh ones can't be had."
        same(manager.allocate("long", [*A[:8], *other(8, first=50)]), None, rule)
        same(seen(pool, manager), before, "A refused prompt changes nothing.")
        fits = admit(manager, "fits", [*A[:8], *other(4, first=50)])
        same((fits.cached_tokens, len(set(fits.blocks))), (8, 3), "Two hits and the one free block do fit.")
        same(manager.available_blocks, 0, f"Mode {mode.value}: hits of a running request are not available.")


@named(
    "unit",
    checks="free blocks are used first, and exactly as many cached ones go as are missing",
    why="every block evicted too early is a prefix computed twice",
)
def test_only_what_is_short_is_evicted(subject: Subject) -> None:
    for mode in CACHES:
        pool, manager = start(subject, mode)
        for turn in range(4):
            serve(manager, f"old {turn}", other(4, first=100 * turn))
        admit(manager, "first", other(14))
        rule = f"Mode {mode.value}: blocks that hold nothing reusable are used before any cached one."
        same((manager.stats.evictions, manager.cached_blocks, pool.n_free), (0, 4, 0), rule)
        manager.release("first", other(2))
        admit(manager, "second", other(24))
        rule = f"Mode {mode.value}: 6 blocks were needed and 4 were free, so exactly 2 are evicted."
        same((manager.stats.evictions, manager.cached_blocks, pool.n_free), (2, 2, 0), rule)


@named(
    "unit",
    checks="a cached prefix loses its last blocks first; what two prompts share outlives what one of them added",
    why="a prefix whose head is gone can't hit: the rest of it is wasted memory",
)
def test_pressure_shortens_a_prefix_from_its_end(subject: Subject) -> None:
    _, manager = start(subject, HASH)
    serve(manager, "long", other(24))
    serve(manager, "press", other(16, first=50))
    rule = "Hash mode: of a prefix of 6 blocks 2 are evicted, its last ones, so its first 4 still hit."
    same(admit(manager, "again", [*other(24), 0]).cached_tokens, 16, rule)
    for mode in CACHES:
        _, manager = start(subject, mode)
        serve(manager, "trunk and first branch", [*other(12), *other(4, first=50)])
        serve(manager, "trunk and second branch", [*other(12), *other(4, first=70)])
        serve(manager, "press", other(16, first=90))
        cached = serve(manager, "second", [*other(12), *other(4, first=70), 0]).cached_tokens
        same(cached, 16, f"Mode {mode.value}: a trunk and its newer branch stay when one block is short.")
        cached = serve(manager, "first", [*other(12), *other(4, first=50), 0]).cached_tokens
        same(cached, 12, f"Mode {mode.value}: the branch used longest ago goes, and the trunk before it stays.")


# ---------------------------------------------------------------- growth and the end


@named(
    "boundary",
    checks="a slot past a block border takes a block, evicting if it must; with none left append_slot is False",
    why="a running request outranks a cached prefix; a False tells the scheduler to preempt",
)
def test_growth_takes_a_block_at_the_border(subject: Subject) -> None:
    for mode in MODES:
        pool, manager = start(subject, mode, n_blocks=3)
        serve(manager, "A", A)
        table = list(admit(manager, "grows", other(3)).blocks)
        for slots in range(4, 13):
            same(
                manager.append_slot("grows"),
                True,
                f"Mode {mode.value}: position {slots - 1} needs no more than 3 blocks.",
            )
            grown = manager.block_table("grows")
            same(len(grown), -(-slots // 4), f"Mode {mode.value}: {slots} slots are ceil({slots} / 4) blocks.")
            same(grown[: len(table)], table, "A table grows at its end.")
            table = grown
        before = seen(pool, manager)
        same(manager.append_slot("grows"), False, f"Mode {mode.value}: a 13th slot needs a 4th block of a pool of 3.")
        same((seen(pool, manager), manager.block_table("grows")), (before, table), "A refused slot changes nothing.")
        with refuses(ValueError, "A refused slot is none: 13 tokens can't have been computed in 12 slots."):
            manager.release("grows", other(13))
        manager.release("grows", other(12))


@named(
    "boundary",
    checks="blocks of 1, 2, 3 and 5 tokens: tables, growth and hits follow the block size",
    why="the block size is the engine's choice, and 4 is only this chapter's",
)
def test_any_block_size_will_do(subject: Subject) -> None:
    for mode in MODES:
        for size in (1, 2, 3, 5):
            where = f"Mode {mode.value}, blocks of {size}:"
            manager = subject.BlockManager(subject.KvPool(16, size), mode)
            same(
                len(admit(manager, "first", other(7)).blocks), -(-7 // size), f"{where} 7 tokens take ceil(7 / {size})."
            )
            for slots in range(8, 15):
                same(manager.append_slot("first"), True, f"{where} there is room for {slots} slots.")
                rule = f"{where} {slots} slots are ceil({slots} / {size}) blocks."
                same(len(manager.block_table("first")), -(-slots // size), rule)
            manager.release("first", other(14))
            usable = 0 if mode is NONE else 13 // size * size
            rule = f"{where} of 14 cached tokens a prompt of the same 14 reuses whole blocks, and never its last token."
            same(admit(manager, "second", other(14)).cached_tokens, usable, rule)


@named(
    "unit",
    checks="generated tokens are cached like prompt tokens, also in a block that holds both",
    why="a conversation sends back the whole history, answers included",
)
def test_answers_are_cached_too(subject: Subject) -> None:
    history = other(15)
    for mode in CACHES:
        pool, manager = start(subject, mode)
        first = admit(manager, "turn 1", history[:6])
        for _ in history[6:]:
            manager.append_slot("turn 1")
        table = manager.block_table("turn 1")
        manager.release("turn 1", history)
        same(manager.cached_blocks, 3, f"Mode {mode.value}: 6 prompt and 9 generated tokens fill 3 blocks.")
        second = admit(manager, "turn 2", [*history, 0])
        rule = (
            f"Mode {mode.value}: the second block holds prompt and answer, the third only answer; all three are reused."
        )
        same((second.cached_tokens, list(second.blocks[:3])), (12, table[:3]), rule)
        same(table[:2], list(first.blocks), "A table grows at its end.")
        for _ in range(4):
            manager.append_slot("turn 2")
        manager.release("turn 2", [*history, 0, 1, 2, 3, 4])
        cached = admit(manager, "turn 3", [*history, 0, 1, 2, 3, 4]).cached_tokens
        same(cached, 16, f"Mode {mode.value}: a request that reused blocks adds those it filled itself.")
        manager.release("turn 3", [])
        admit(manager, "short", D[:2])
        for _ in range(7):
            manager.append_slot("short")
        manager.release("short", [*D, *A[:4]])
        cached = admit(manager, "long", [*D, *A[:4]]).cached_tokens
        same(cached, 8, f"Mode {mode.value}: a prompt shorter than a block is found again with its answer.")
        same(sum(counts(pool).values()), 8, "free + used + cached is the number of blocks.")


@named(
    "fault",
    checks="a sequence released with part of its prompt computed, with less than its hits, or with nothing",
    why="a preempted or cancelled request ends in the middle of its prefill",
)
def test_an_unfinished_request_gives_everything_back(subject: Subject) -> None:
    for mode in CACHES:
        pool, manager = start(subject, mode)
        for computed, full in ((0, 0), (3, 0), (6, 1), (8, 2)):
            admit(manager, "preempted", A)
            manager.release("preempted", A[:computed])
            rule = f"Mode {mode.value}: {computed} tokens leave {full} full blocks, and all others free."
            same((manager.cached_blocks, pool.n_free, manager.available_blocks), (full, 8 - full, 8), rule)
        before = seen(pool, manager)
        for computed in (0, 3, 4, 8, 10):
            same(admit(manager, "again", B).cached_tokens, 8, f"Mode {mode.value}: the two full blocks are reused.")
            manager.release("again", B[:computed])
            rule = (
                f"Mode {mode.value}: a request with 8 cached tokens that ends after {computed} adds and takes nothing."
            )
            same({**seen(pool, manager), "stats": None}, {**before, "stats": None}, rule)


@named(
    "unit",
    checks="two requests compute one prefix at the same time: the first to end keeps its blocks, the other's are free",
    why="requests with one system prompt often arrive together, before any has finished",
)
def test_a_prefix_computed_twice_is_kept_once(subject: Subject) -> None:
    for mode in CACHES:
        pool, manager = start(subject, mode)
        first, second = admit(manager, "first", A), admit(manager, "second", B)
        same((first.cached_tokens, second.cached_tokens), (0, 0), "Only released blocks are found: both compute it.")
        manager.release("second", B)
        manager.release("first", A)
        rule = f"Mode {mode.value}: one copy of each block is kept, and the other copy's blocks are free."
        same((manager.cached_blocks, pool.n_free, manager.available_blocks), (2, 6, 8), rule)
        rule = f"Mode {mode.value}: the request that ended first keeps its blocks."
        same(admit(manager, "third", B).blocks[:2], second.blocks[:2], rule)


@named(
    "differential",
    checks="the same requests in both caches, in a pool where nothing need be evicted: the hits of the flat model",
    why="the choice between the caches is about cost, not about what is found",
)
def test_both_caches_find_the_same_hits(subject: Subject) -> None:
    oracle = flat(find("L10.4")).names
    for mode in CACHES:
        story = workload_story(oracle, mode, n_blocks=200, n_requests=24, seed=204)
        hold(
            story, subject.names, served_rightly(oracle), f"Mode {mode.value}: 24 requests and room for all they leave."
        )


# ---------------------------------------------------------------- counts and mistakes


@named(
    "unit",
    checks="available and reusable blocks while requests run, wait and end, in every mode",
    why="the scheduler admits by the one, and /metrics shows the other",
)
def test_counts_follow_every_block(subject: Subject) -> None:
    for mode, kept in ((NONE, 0), (HASH, 2), (RADIX, 2)):
        _, manager = start(subject, mode)
        same(manager.mode, mode, "mode is the mode the manager was made with.")
        same((manager.available_blocks, manager.cached_blocks), (8, 0), "At first every block is available.")
        admit(manager, "A", A)
        rule = f"Mode {mode.value}: a running request's 3 blocks are not available, and nothing of it is reusable yet."
        same((manager.available_blocks, manager.cached_blocks), (5, 0), rule)
        manager.release("A", A)
        rule = f"Mode {mode.value}: after A all blocks are available, {kept} of them with reusable content."
        same((manager.available_blocks, manager.cached_blocks), (8, kept), rule)
        admit(manager, "B", B)
        rule = f"Mode {mode.value}: B uses 3 blocks; content in use is reusable too."
        same((manager.available_blocks, manager.cached_blocks), (5, kept), rule)


@named(
    "fault",
    checks="unknown and repeated sequences, empty prompts, tokens out of range, more computed tokens than slots",
    why="a scheduler's mistake is an error at once, not a wrong answer later",
)
def test_mistakes_are_refused_and_change_nothing(subject: Subject) -> None:
    for mode in MODES:
        pool, manager = start(subject, mode)
        serve(manager, "ended", A)
        table = list(admit(manager, "held", B).blocks)
        before = seen(pool, manager)
        for call in (manager.append_slot, manager.block_table):
            with refuses(KeyError, "A sequence that has ended is unknown: KeyError."):
                call("ended")
        with refuses(KeyError, "A sequence that has ended is unknown: KeyError."):
            manager.release("ended", [])
        with refuses(ValueError, "An empty prompt has no position to compute: ValueError."):
            manager.allocate("empty", [])
        with refuses(ValueError, "A sequence is allocated once, until it is released: ValueError."):
            manager.allocate("held", other(3))
        with refuses(ValueError, "11 slots can't hold 12 computed tokens: ValueError."):
            manager.release("held", [*B, 0])
        for token in (-1, TOKEN_LIMIT):
            for place in (0, 5, 9):
                rule = f"Mode {mode.value}: token {token} at place {place} is out of range: ValueError."
                wrong = [*B[:place], token, *B[place + 1 : 10]]
                with refuses(ValueError, rule):
                    manager.allocate("wrong", wrong)
                with refuses(ValueError, rule):
                    manager.release("held", wrong)
        rule = f"Mode {mode.value}: a call that raises changes nothing."
        same((seen(pool, manager), manager.block_table("held")), (before, table), rule)
        manager.release("held", B)
        with refuses(KeyError, "A sequence can be released once: KeyError."):
            manager.release("held", B)

"""The named tests of L8.4, the radix prefix cache: the chapter's eight (section 4).

They know the contract's calls and, for the two long ones, an engine's traffic. Where nothing is said, B is 2.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from autograder.catalogue import named
from autograder.engine_steps import drained_story
from autograder.expect import RuleBroken, refuses, same
from autograder.golden import Trace, golden_trace
from autograder.judging import hold
from autograder.judging_radix_cache import conserved, recorded_in
from autograder.stories import Story
from autograder.subject import Subject
from course.contract import ROOT, PrefixStats, RadixCache

LAST_TOKEN = "A match covers at most (n - 1) // B * B tokens of a prompt: its last token is always left to compute."
FULL_BLOCKS = "insert takes exactly one block for each full block of tokens, len(tokens) // B of them: else ValueError."
IN_RANGE = "A token below 0, or 2**32 or more, is a ValueError, wherever in the prompt it stands."
UNCHANGED = "A call that raises changes nothing."


def _match(cache: RadixCache, tokens: list[int], n: int, blocks: tuple[int, ...], rule: str) -> Any:
    """Match, and compare the tokens covered and the blocks; gives the node."""
    found = cache.match_prefix(tokens)
    same((found.matched_tokens, found.blocks), (n, blocks), rule)
    return found.node


def _insert(cache: RadixCache, tokens: list[int], blocks: list[int], duplicates: tuple[int, ...], rule: str) -> None:
    """Insert, and compare what comes back. A ValueError here would be a misread rule, not a mistyped call."""
    try:
        inserted = cache.insert(tokens, blocks)
    except ValueError as error:
        raise RuleBroken(f"{rule}\n  expected: duplicates {duplicates}\n  got:      ValueError: {error}") from error
    same(inserted.duplicates, duplicates, rule)


def _with_a_bad_token(n: int) -> list[list[int]]:
    """Prompts of n tokens with one below the range, or above it, at every place in turn."""
    return [[*range(at), bad, *range(at + 1, n)] for at in range(n) for bad in (-1, 2**32)]


@named(
    "unit",
    checks="section 3 by hand: the matches cover 4, 2 and 0 tokens; the counters and the hit rate follow",
    why="you and the tests agree on the rules",
)
def test_hand_example_shared_system_prompt(subject: Subject) -> None:
    cache = subject.RadixCache(2)
    same(cache.block_size, 2, "block_size is the number of tokens in a block, as the cache was made with.")
    same(cache.hit_rate, 0.0, "Before the first lookup the hit rate is 0.0.")
    same(cache.stats, PrefixStats(), "A new cache has counted nothing.")
    full = "5 tokens hold 2 full blocks of 2: insert stores these two, and as nothing was cached, none comes back."
    _insert(cache, [1, 2, 3, 4, 5], [10, 11], (), full)
    same(cache.cached_blocks, 2, "5 tokens hold 2 full blocks of 2; the partial third stays the request's own.")
    same(cache.cached_tokens, 4, "cached_tokens counts tokens: 2 blocks of 2 hold 4.")
    same(cache.tree.granule, 2, "The tree has one block id for each B tokens: its granule is B.")
    same(cache.tree.n_values, 2, "The tree holds the block ids, one for each cached block.")

    long = "B's 6-token prompt may reuse 4 tokens, and both of their blocks are cached."
    _match(cache, [1, 2, 3, 4, 9, 9], 4, (10, 11), long)
    whole = "A match never covers the last prompt token: a 4-token prompt over 4 cached tokens matches 2 tokens."
    _match(cache, [1, 2, 3, 4], 2, (10,), whole)
    node = _match(cache, [7, 7, 7], 0, (), "Nothing cached begins with 7 7, so nothing is matched.")
    same(node == ROOT, True, "Where nothing matched, the node is ROOT.")

    counters = "Query tokens are all tokens of the prompts, 6 + 4 + 3; hit tokens those that matched, 4 + 2 + 0."
    same(cache.stats, PrefixStats(lookups=3, query_tokens=13, hit_tokens=6, inserted_blocks=2), counters)
    same(cache.hit_rate, 6 / 13, "The hit rate is hit tokens over query tokens, over every lookup.")


@named(
    "boundary",
    checks="prompts of 0 to 7 tokens over 6 cached tokens match 0, 0, 0, 2, 2, 4, 4, 6; a bad token is refused",
    why="prefill always has a token to run",
)
def test_the_last_prompt_token_is_never_covered(subject: Subject) -> None:
    cache = subject.RadixCache(2)
    cache.insert([1, 2, 3, 4, 5, 6], [20, 21, 22])
    for n, covered in enumerate((0, 0, 0, 2, 2, 4, 4, 6)):
        _match(
            cache,
            [1, 2, 3, 4, 5, 6, 7][:n],
            covered,
            (20, 21, 22)[: covered // 2],
            f"{LAST_TOKEN} Here n is {n} and B is 2.",
        )
    seen = PrefixStats(lookups=8, query_tokens=28, hit_tokens=18, inserted_blocks=3)
    same(cache.stats, seen, "Every lookup counts, the one of an empty prompt and those that match nothing too.")

    ones = subject.RadixCache(1)
    ones.insert([1, 2], [20, 21])
    for n, covered in enumerate((0, 0, 1, 2)):
        _match(ones, [1, 2, 3][:n], covered, (20, 21)[:covered], f"{LAST_TOKEN} Here n is {n} and B is 1.")

    for size, n in ((2, 3), (3, 8)):
        new = subject.RadixCache(size)
        for tokens in _with_a_bad_token(n):
            with refuses(ValueError, IN_RANGE):
                new.match_prefix(tokens)
        same(new.stats, PrefixStats(), UNCHANGED)


@named(
    "boundary",
    checks="a block for the partial tail, or one too few, is refused, as are bad tokens, sizes and amounts",
    why="a block that still grows is never shared",
)
def test_insert_takes_exactly_the_full_blocks(subject: Subject) -> None:
    cache = subject.RadixCache(2)
    for tokens, blocks in (([1, 2, 3], [10, 11]), ([1], [10]), ([1, 2, 3, 4], [10]), ([], [10])):
        with refuses(ValueError, FULL_BLOCKS):
            cache.insert(tokens, blocks)
    same((cache.cached_blocks, cache.stats), (0, PrefixStats()), UNCHANGED)

    for size, n in ((2, 3), (3, 8)):
        new = subject.RadixCache(size)
        for tokens in _with_a_bad_token(n):
            with refuses(ValueError, IN_RANGE):
                new.insert(tokens, [10, 11][: n // size])
        same((new.cached_blocks, new.stats), (0, PrefixStats()), UNCHANGED)

    _insert(cache, [1], [], (), "A run without a full block takes no block and stores nothing.")
    same(cache.insert([1], []).node == ROOT, True, "The node of a run that stores nothing is ROOT.")
    _insert(cache, [1, 2, 3], [10], (), "A run with a partial tail is stored up to its last full block.")
    same(cache.cached_tokens, 2, "The partial tail is not stored: 3 tokens hold one full block of 2.")
    _match(cache, [1, 2, 3, 9, 9], 2, (10,), "The partial tail is not stored, so it can't be found.")

    for size in (0, -1):
        with refuses(ValueError, "A block size below 1 is a ValueError."):
            subject.RadixCache(size)
    with refuses(ValueError, "A negative number of blocks to evict is a ValueError."):
        cache.evict(-1)
    same(cache.cached_blocks, 1, UNCHANGED)


@named(
    "unit",
    checks="a racing request's blocks come back as duplicates, the cached ids themselves do not",
    why="the block manager frees the duplicates, and only them",
)
def test_a_prefix_computed_twice_is_kept_once(subject: Subject) -> None:
    cache = subject.RadixCache(2)
    racing = "Where the cache holds another block already, the one passed comes back, in order, and is not stored."
    own = "The cached ids themselves don't come back: the caller would free blocks that the cache still holds."
    _insert(cache, [1, 2, 3, 4], [10, 11], (), "Nothing was cached before, so no block comes back.")
    _insert(cache, [1, 2, 3, 4, 5, 6], [20, 21, 22], (20, 21), racing)
    same(cache.cached_blocks, 3, "Of a prefix computed twice each position is kept once.")

    spanning = "A match gives the blocks of its whole prefix, from every node on the way, and the first owner's ids."
    _match(cache, [1, 2, 3, 4, 5, 6, 7], 6, (10, 11, 22), spanning)
    _insert(cache, [1, 2, 3, 4, 5, 6], [10, 11, 22], (), own)
    _insert(cache, [1, 2, 3, 4, 5, 6, 7, 8], [10, 31, 22, 33], (31,), own)
    _insert(cache, [1, 2, 3, 4, 5, 6, 7, 8], [40, 11, 42, 33], (40, 42), own)
    _insert(cache, [1, 2, 9, 9], [50, 51], (50,), racing)
    _match(cache, [1, 2, 3, 4, 5, 6, 7, 8, 9], 8, (10, 11, 22, 33), spanning)

    same(cache.cached_blocks, 5, "Of a prefix computed twice each position is kept once.")
    long = list(range(1000, 1600))
    _insert(cache, long, list(range(1000, 1300)), (), "A prompt of 300 blocks is stored like a short one.")
    equal = f"{own} Ids are compared by value, with ==: two equal ints above 256 need not be the same object."
    _insert(cache, long, list(range(1000, 1300)), (), equal)
    same(cache.stats.inserted_blocks, 305, "inserted_blocks counts the blocks that the cache took, not those passed.")


@named(
    "unit",
    checks="an eviction frees only unlocked blocks until the request unlocks, and the counts follow",
    why="running requests keep their K and V",
)
def test_a_locked_prefix_survives_eviction(subject: Subject) -> None:
    cache = subject.RadixCache(2)
    cache.insert([1, 2, 3, 4], [10, 11])
    cache.insert([1, 2, 5, 6, 7, 8], [10, 12, 13])
    miss = cache.match_prefix([9, 9, 9]).node
    cache.lock(miss)
    same(cache.evictable_blocks, 4, "Locking ROOT, the node of a miss, pins nothing.")

    running = _match(cache, [1, 2, 3, 4, 9], 4, (10, 11), "The prefix is cached in two nodes, a block in each.")
    cache.lock(running)
    same(cache.evictable_blocks, 2, "A lock pins the whole prefix: only the 2 other blocks can be evicted.")
    leaf = "A leaf is evicted whole: asked for 1 block, a leaf of 2 blocks gives both."
    same(cache.evict(1), [12, 13], leaf)
    same(cache.evict(9), [], "A locked block is never evicted: a running request reads it.")
    counts = (cache.cached_blocks, cache.evictable_blocks)
    same(counts, (2, 0), "Both blocks that are left are locked, so neither is evictable.")
    same(cache.stats.evicted_blocks, 2, "evicted_blocks counts every block that an eviction gave.")

    cache.lock(running)
    cache.unlock(running)
    same(cache.evict(9), [], "Of two requests that locked a prefix one still runs: two locks need two unlocks.")
    cache.insert([1, 2, 3, 4, 5, 6], [10, 11, 14])
    same(cache.evict(9), [14], "What was stored below a locked prefix is not locked.")
    cache.unlock(running)
    cache.unlock(miss)
    same(cache.evictable_blocks, 2, "After the unlock the prefix can be evicted again.")
    same(cache.evict(9), [11, 10], "A node whose last child is evicted is a leaf, and goes in the same call.")
    same((cache.cached_tokens, cache.evictable_blocks), (0, 0), "Nothing is left once everything is evicted.")
    same(cache.stats.evicted_blocks, 5, "evicted_blocks counts every block that an eviction gave.")


@named(
    "unit",
    checks="of three prompts, one used again, the other two go first, the oldest first, each whole",
    why="hot prompts stay cached",
)
def test_eviction_frees_the_least_recently_used_first(subject: Subject) -> None:
    cache = subject.RadixCache(2)
    oldest = "The leaf that was used longest ago goes first, whole: the first prompt was matched again, the second not."
    for first, blocks in ((1, [10, 11]), (3, [20, 21]), (5, [30, 31])):
        cache.insert([first, 2, 3, 4], blocks)
    _match(cache, [1, 2, 3, 4, 9], 4, (10, 11), "A cached prompt is found.")
    same(cache.evict(0), [], "An eviction of 0 blocks gives none.")
    same(cache.evict(1), [20, 21], oldest)
    _match(cache, [3, 2, 3, 4, 9], 0, (), "An evicted prompt is found no more.")
    same(cache.evict(1), [30, 31], oldest)
    _match(cache, [1, 2, 3, 4, 9], 4, (10, 11), "The prompt that was used last is still there.")

    cache.insert([3, 2, 3, 4], [20, 21])
    cache.insert([1, 2, 3, 4], [10, 11])
    same(cache.evict(3), [20, 21, 10, 11], "Inserting is a use too; leaves go on going until there are enough blocks.")


@cache
def _golden() -> Trace:
    return golden_trace()


@named(
    "golden",
    checks="300 recorded operations give the matches, duplicates, eviction order and counts of an independent model",
    why="your cache and the oracle agree on every rule at once",
)
def test_golden_reference_trace(subject: Subject) -> None:
    trace = _golden()
    hold(trace.story, subject.names, recorded_in(trace), "The cache answers a recorded run of an engine differently.")


ENGINE_SEED = 840
ENGINE_STEPS = 3000


@cache
def _engine_at_work() -> Story:
    return drained_story(ENGINE_SEED, ENGINE_STEPS, ("cached_blocks",))


@named(
    "property",
    checks="3,000 engine steps over 64 blocks: each in one place, no locked one evicted, all 64 back at the end",
    why="the accounting that the block manager builds on",
)
def test_blocks_are_conserved_and_locked_prefixes_stay(subject: Subject) -> None:
    hold(_engine_at_work(), subject.names, conserved, "A block gets lost, or is in two places, while an engine works.")

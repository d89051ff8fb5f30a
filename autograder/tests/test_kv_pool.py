"""The named tests of the KV block pool (L10.1).

The chapter L10.4 uses this pool and says how (sections 2.1 and 2.2); the contract states its rules in full
(course/contract.py, `KvPool` and `KvBlockHash`). Which free block is handed out is the pool's own choice, so
no test expects one. No test knows which implementation it runs on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograder.catalogue import named
from autograder.expect import holds, refuses, same
from autograder.implementations import flat
from autograder.judging import hold
from autograder.judging_kv_pool import (
    counted,
    counts,
    everything,
    like_the_flat_pool,
    pool_story,
    take,
    take_cached,
    take_named,
)
from autograder.subject import Subject
from course.contract import BlockStateError, PoolExhausted
from course.modules import find

VECTORS = Path(__file__).parents[2] / "fixtures" / "L10.1" / "block_hash_vectors.json"

STORIES = ((3, 1, 101), (5, 2, 102), (8, 4, 103))
"""(n_blocks, block_size, seed) of the random calls; with these seeds they meet every planted bug of the pool."""

# ---------------------------------------------------------------- block names


@named(
    "unit",
    checks="the names of [1, 2, 3, 4] and then [5, 6, 7, 8] (L10.4, section 3)",
    why="a prompt hits a cached block only if both sides compute the same name",
)
def test_hand_example_block_names(subject: Subject) -> None:
    name = subject.kv_block_hash
    first = name(0, [1, 2, 3, 4])
    rule = "A first block is named by FNV-1a 64 over 8 zero bytes, then its ids as 4 little-endian bytes each."
    same(first, 9112394090187407297, rule)
    rule = "A later block is named by FNV-1a 64 over its parent's name as 8 little-endian bytes, then its ids."
    same(name(first, [5, 6, 7, 8]), 7843985218987431810, rule)
    rule = "The parent is part of the name: the same tokens at the start of a prompt are another block."
    same(name(0, [5, 6, 7, 8]), 1972688538883944393, rule)
    same(name(0, (1, 2, 3, 4)), first, "Tokens are any sequence of ints: a tuple has the same name as a list.")


@named(
    "golden",
    checks="recorded names: no tokens, 1, 4, 16 and 5,000, the largest ids and parents, each byte's place",
    why="caches of two engines, and of two languages, must agree on every name",
)
def test_block_names_match_the_vectors(subject: Subject) -> None:
    for vector in json.loads(VECTORS.read_text(encoding="utf-8")):
        if vector["name"] != 1:
            rule = f"kv_block_hash({vector['parent']}, {vector['tokens']}): {vector['shows']}."
            same(subject.kv_block_hash(vector["parent"], vector["tokens"]), vector["name"], rule)
    tokens = list(range(5000))
    rule = "A block of any size has a name: here one of 5,000 tokens."
    same(subject.kv_block_hash(0, tokens), flat(find("kv_pool")).kv_block_hash(0, tokens), rule)


@named(
    "boundary",
    checks="three blocks of which FNV-1a gives 0 are called 1",
    why="0 is the parent of first blocks: a block called 0 would make its successor look like a prompt's beginning",
)
def test_a_name_is_never_0(subject: Subject) -> None:
    zeros = [vector for vector in json.loads(VECTORS.read_text(encoding="utf-8")) if vector["name"] == 1]
    for vector in zeros:
        rule = f"A result of 0 becomes 1: FNV-1a over parent {vector['parent']} and tokens {vector['tokens']} gives 0."
        same(subject.kv_block_hash(vector["parent"], vector["tokens"]), 1, rule)


@named(
    "fault",
    checks="tokens -1 and 2**32, parents -1 and 2**64",
    why="an id cut to 32 bits would give two different prompts one name",
)
def test_ids_out_of_range_are_refused(subject: Subject) -> None:
    for token in (-1, 2**32, 2**40):
        with refuses(ValueError, f"A token is 0 to 2**32 - 1: kv_block_hash refuses {token} with ValueError."):
            subject.kv_block_hash(0, [1, token, 2])
    for parent in (-1, 2**64):
        with refuses(ValueError, f"A parent is 0 to 2**64 - 1: kv_block_hash refuses {parent} with ValueError."):
            subject.kv_block_hash(parent, [1, 2])


# ---------------------------------------------------------------- handing out


@named(
    "unit",
    checks="a pool of 3 blocks of 4 positions, before anything is done; sizes below 1",
    why="whoever is handed a pool reads its sizes from it",
)
def test_a_new_pool_is_free(subject: Subject) -> None:
    pool = subject.KvPool(3, 4)
    same((pool.n_blocks, pool.block_size), (3, 4), "n_blocks and block_size are readable, as properties.")
    same(counts(pool), counted(3, 0, 0, 0, 0), "Every block of a new pool is free; nothing is named or evicted.")
    same([pool.refcount(block) for block in range(3)], [0, 0, 0], "A free block has rho 0.")
    same([pool.fill(block) for block in range(3)], [0, 0, 0], "A free block has fill 0.")
    same(pool.find(7), None, "A new pool has no names.")
    for sizes in ((0, 4), (3, 0), (-1, 4), (3, -1)):
        with refuses(ValueError, f"A pool has at least 1 block of 1 position: KvPool{sizes} is a ValueError."):
            subject.KvPool(*sizes)


@named(
    "unit",
    checks="alloc of 2, 0 and 3 blocks out of 5: different ids, each at rho 1 and fill 0",
    why="two sequences that get one block overwrite each other's K and V",
)
def test_alloc_hands_out_each_block_once(subject: Subject) -> None:
    pool = subject.KvPool(5, 4)
    first = take(pool, 2)
    same(counts(pool), counted(3, 2, 0, 0, 0), "A block handed out is used, and no longer free.")
    same(pool.alloc(0), [], "alloc(0) is an empty list.")
    kept = list(first)
    second = take(pool, 3)
    same(first, kept, "alloc returns a new list each time: an earlier result stays as it was.")
    same(sorted(first + second), [0, 1, 2, 3, 4], "Block ids are 0 to n_blocks - 1, and each is handed out once.")
    same([pool.refcount(block) for block in range(5)], [1] * 5, "A block is handed out at rho 1.")
    same([pool.fill(block) for block in range(5)], [0] * 5, "A block is handed out at fill 0.")
    same(counts(pool), counted(0, 5, 0, 0, 0), "free + used + cached is n_blocks: here all 5 are used.")
    same(pool.alloc(0), [], "alloc(0) is an empty list even if the pool has nothing left.")


@named(
    "fault",
    checks="4 blocks asked for where 1 is free and 2 are cached; then a negative number",
    why="a request that got half of its blocks would hold them while it waits for the rest",
)
def test_alloc_is_all_or_nothing(subject: Subject) -> None:
    pool = subject.KvPool(5, 2)
    take(pool, 2)
    take_cached(pool, 7, 8)
    before = everything(pool, 7, 8)
    rule = "alloc raises PoolExhausted if free and cached blocks together are too few."
    with refuses(PoolExhausted, rule):
        pool.alloc(4)
    same(everything(pool, 7, 8), before, "An alloc that can't give all blocks gives none and evicts none.")
    try:
        pool.alloc(9)
    except PoolExhausted as error:
        rule = "PoolExhausted says how many blocks were needed, and how many were available (free and cached together)."
        same((error.needed, error.available), (9, 3), rule)
    with refuses(ValueError, "A negative amount is a ValueError: alloc(-1)."):
        pool.alloc(-1)
    same(everything(pool, 7, 8), before, "A call that raises changes nothing.")
    take(pool, 3)
    same(counts(pool), counted(0, 5, 0, 0, 2), "All that is available can be handed out: free blocks and cached ones.")


@named(
    "unit",
    checks="3 references on one block, given back one by one, beside a block with 1",
    why="a shared prefix stays as long as any sequence reads it",
)
def test_references_are_counted(subject: Subject) -> None:
    pool = subject.KvPool(2, 4)
    shared, other = take(pool, 2)
    pool.retain(shared)
    pool.retain(shared)
    same((pool.refcount(shared), pool.refcount(other)), (3, 1), "retain adds one reference, to its block alone.")
    for left in (2, 1):
        pool.release(shared)
        same((pool.refcount(shared), pool.refcount(other)), (left, 1), "release gives one reference back, not all.")
        same(counts(pool), counted(0, 2, 0, 0, 0), "A block is used until its last reference is given back.")
    pool.release(shared)
    same(counts(pool), counted(1, 1, 0, 0, 0), "A block without a name is free when its last reference is given back.")
    same(take(pool, 1), [shared], "A block that is free again is handed out again.")


@named(
    "unit",
    checks="a block with 3 of 4 positions written, and a full one without a name, are released and handed out anew",
    why="what another request wrote must not count as written",
)
def test_a_freed_block_loses_its_fill(subject: Subject) -> None:
    pool = subject.KvPool(2, 4)
    first, second = take(pool, 2)
    pool.set_fill(first, 3)
    pool.set_fill(second, 4)
    pool.retain(first)
    pool.release(first)
    same((pool.fill(first), pool.fill(second)), (3, 4), "A block keeps its fill while a reference is left.")
    pool.release(first)
    pool.release(second)
    same(counts(pool), counted(2, 0, 0, 0, 0), "A block without a name becomes free, full or not.")
    same((pool.fill(first), pool.fill(second)), (0, 0), "A block that becomes free loses its fill.")
    same([pool.fill(block) for block in take(pool, 2)], [0, 0], "A block is handed out at fill 0.")


# ---------------------------------------------------------------- fill and names


@named(
    "boundary",
    checks="fills of 0, 3 and 4 of 4 positions; -1 and 5; blocks that are free, named or cached",
    why="a named block is shared: what it holds no longer changes",
)
def test_fill_is_set_on_used_unnamed_blocks_only(subject: Subject) -> None:
    pool = subject.KvPool(3, 4)
    (named_block,) = take_named(pool, 7)
    block, free = take(pool, 2)
    for n in (3, 4, 0, 2):
        pool.set_fill(block, n)
        same(pool.fill(block), n, f"set_fill({n}) says that {n} positions are written, whatever was said before.")
    same(pool.fill(free), 0, "set_fill changes its own block alone.")
    for n in (-1, 5):
        with refuses(BlockStateError, f"A fill is 0 to B: set_fill({n}) at B = 4 is a BlockStateError."):
            pool.set_fill(block, n)
    pool.release(free)
    with refuses(BlockStateError, "set_fill on a free block is a BlockStateError: nobody may write there."):
        pool.set_fill(free, 1)
    for n in (1, 4):
        with refuses(BlockStateError, f"set_fill({n}) on a named block is a BlockStateError: its content is fixed."):
            pool.set_fill(named_block, n)
    pool.release(named_block)
    with refuses(BlockStateError, "set_fill on a cached block is a BlockStateError."):
        pool.set_fill(named_block, 4)
    rule = "A set_fill that raises changes nothing."
    same((pool.fill(block), pool.fill(free), pool.fill(named_block)), (2, 0, 4), rule)
    same(counts(pool), counted(1, 1, 1, 1, 0), rule)


@named(
    "boundary",
    checks="a block is offered a name at fill 0, 3 and 4 of 4, and again when it has one",
    why="a block that still grows must not be found by others",
)
def test_only_full_blocks_take_a_name(subject: Subject) -> None:
    pool = subject.KvPool(2, 4)
    (block,) = take(pool, 1)
    for n in (0, 3):
        pool.set_fill(block, n)
        same(pool.register(block, 7), False, f"register returns False for a block with {n} of 4 positions written.")
        same((pool.find(7), pool.n_named), (None, 0), "A register that returns False changes nothing.")
    pool.set_fill(block, 4)
    same(pool.register(block, 7), True, "register names a full, used block and returns True.")
    same((pool.find(7), pool.n_named), (block, 1), "A block that was named is found by its name.")
    same(counts(pool), counted(1, 1, 0, 1, 0), "A named block is used as long as somebody holds it.")
    rule = "A block has one name: register returns False for a block that has a name, and changes nothing."
    same([pool.register(block, 7), pool.register(block, 8)], [False, False], rule)
    same((pool.find(7), pool.find(8), pool.n_named, pool.refcount(block)), (block, None, 1, 1), rule)


@named(
    "unit",
    checks="two blocks of the same content are registered under one name, and the second is given back",
    why="two requests may compute one prefix at the same time; one copy is enough",
)
def test_the_first_holder_keeps_a_name(subject: Subject) -> None:
    pool = subject.KvPool(3, 2)
    (first,) = take_named(pool, 7)
    (second,) = take(pool, 1)
    pool.set_fill(second, 2)
    same(pool.register(second, 7), False, "register returns False if another block has the name.")
    same((pool.find(7), pool.n_named), (first, 1), "The first holder keeps a name.")
    pool.release(second)
    same(counts(pool), counted(2, 1, 0, 1, 0), "A block whose name was taken has none: given back, it is free.")
    pool.release(first)
    same(pool.find(7), first, "A name stays with its holder when that is cached.")
    (third,) = take(pool, 1)
    pool.set_fill(third, 2)
    same(pool.register(third, 7), False, "A cached block holds its name too: it is taken.")
    same(pool.register(third, 8), True, "After a refusal a block can still take a name that is free.")
    same((pool.find(7), pool.find(8)), (first, third), "Each name leads to its own block.")


# ---------------------------------------------------------------- cached blocks


@named(
    "unit",
    checks="a named block is released, found, and taken again by lookup and by retain",
    why="reuse after the first request has ended is the point of the cache",
)
def test_a_released_named_block_is_cached(subject: Subject) -> None:
    pool = subject.KvPool(2, 4)
    (block,) = take_named(pool, 7)
    pool.retain(block)
    pool.release(block)
    same(counts(pool), counted(1, 1, 0, 1, 0), "A named block is used, not cached, while a reference is left.")
    for how in ("lookup", "retain"):
        pool.release(block)
        rule = "A named block becomes cached, not free, when its last reference is given back."
        same(counts(pool), counted(1, 0, 1, 1, 0), rule)
        same(
            (pool.refcount(block), pool.fill(block), pool.find(7)),
            (0, 4, block),
            "A cached block keeps its name and fill.",
        )
        if how == "lookup":
            same(pool.lookup(7), block, "lookup gives the block of a name, cached or used.")
        else:
            pool.retain(block)
        same(pool.refcount(block), 1, f"{how} takes a reference on a cached block: rho is 1.")
        same(counts(pool), counted(1, 1, 0, 1, 0), f"{how} makes a cached block used again, with its name.")


@named(
    "unit",
    checks="lookup and find of a used block and of a name nobody has",
    why="a hit without a reference can be evicted while the request reads it",
)
def test_lookup_takes_a_reference_and_find_takes_none(subject: Subject) -> None:
    pool = subject.KvPool(2, 4)
    block, other = take_named(pool, 7, 8)
    same(pool.find(7), block, "find gives the block of a name.")
    same(pool.refcount(block), 1, "find takes no reference.")
    same([pool.lookup(7), pool.lookup(7)], [block, block], "lookup gives the block of a name.")
    same((pool.refcount(block), pool.refcount(other)), (3, 1), "Each lookup that hits takes one reference.")
    before = everything(pool, 7, 8)
    same((pool.lookup(9), pool.find(9)), (None, None), "A name that no block has gives None.")
    same(everything(pool, 7, 8), before, "A miss changes nothing.")
    for _ in range(3):
        pool.release(block)
    same(pool.find(7), block, "find gives a cached block too.")
    same(counts(pool), counted(0, 1, 1, 2, 0), "find leaves a cached block cached.")


# ---------------------------------------------------------------- eviction


@named(
    "unit",
    checks="2 free and 2 cached blocks: alloc(2), then alloc(1)",
    why="content that may be used again goes last",
)
def test_free_blocks_go_before_cached_ones(subject: Subject) -> None:
    pool = subject.KvPool(4, 2)
    cached = take_cached(pool, 7, 8)
    first = take(pool, 2)
    holds(not set(first) & set(cached), "alloc takes free blocks as long as there are any.", got=first, cached=cached)
    same(counts(pool), counted(0, 2, 2, 2, 0), "Handing out a free block evicts nothing.")
    same(take(pool, 1), cached[:1], "When no block is free, a cached one is handed out.")
    same(counts(pool), counted(0, 3, 1, 1, 1), "Handing out a cached block is one eviction.")
    pool.release(first[0])
    same(sorted(take(pool, 2)), sorted([first[0], cached[1]]), "What the free blocks are short of is evicted.")
    same(counts(pool), counted(0, 4, 0, 0, 2), "evictions counts the cached blocks handed out, and no others.")


@named(
    "unit",
    checks="blocks released in the order c, a, d, b are evicted in that order",
    why="a block manager releases a table tail first, so that a cached prefix is shortened from its end",
)
def test_the_order_of_release_is_the_order_of_eviction(subject: Subject) -> None:
    pool = subject.KvPool(4, 1)
    a, b, c, d = take_named(pool, 1, 2, 3, 4)
    for block in (c, a, d, b):
        pool.release(block)
    rule = "The least recently used cached block goes first: the one whose last reference was given back first."
    same(take(pool, 1), [c], rule)
    same(sorted(take(pool, 2)), sorted([a, d]), rule)
    same(take(pool, 1), [b], rule)
    same(pool.evictions, 4, "evictions counts blocks, not calls: 1 + 2 + 1.")


@named(
    "unit",
    checks="of cached a, b, c and d, a is hit by lookup and b by retain, and both are given back",
    why="hot prompts stay cached",
)
def test_a_hit_makes_a_block_the_most_recently_used(subject: Subject) -> None:
    pool = subject.KvPool(4, 1)
    a, b, c, d = take_cached(pool, 1, 2, 3, 4)
    same(pool.lookup(1), a, "lookup gives the block of a name.")
    pool.retain(b)
    same(take(pool, 1), [c], "A block that is used again can't be evicted: here a and b.")
    pool.release(b)
    pool.release(a)
    rule = "A block given back is the most recently used cached one, whatever its place was before: d, then b, then a."
    same([take(pool, 1) for _ in range(3)], [[d], [b], [a]], rule)


@named(
    "unit",
    checks="looking at the oldest of two cached blocks with find, refcount and fill",
    why="whoever only reports on a cache must not change what it keeps",
)
def test_looking_is_no_use(subject: Subject) -> None:
    pool = subject.KvPool(2, 1)
    old, young = take_cached(pool, 1, 2)
    before = everything(pool)
    rule = "find gives a cached block and leaves it at rho 0; refcount and fill only look."
    same((pool.find(1), pool.refcount(old), pool.fill(old)), (old, 0, 1), rule)
    same(everything(pool), before, "find takes no reference.")
    same([take(pool, 1), take(pool, 1)], [[old], [young]], "find is no use: the block stays the first to be evicted.")


@named(
    "unit",
    checks="a block that was evicted is looked for, and its name is given to another",
    why="a name that outlives its content gives a request someone else's K and V",
)
def test_an_evicted_block_loses_name_and_fill(subject: Subject) -> None:
    pool = subject.KvPool(1, 4)
    (block,) = take_cached(pool, 7)
    same(take(pool, 1), [block], "A cached block is handed out when no block is free.")
    same((pool.find(7), pool.lookup(7)), (None, None), "A block that is handed out anew loses its name.")
    same((pool.refcount(block), pool.fill(block)), (1, 0), "A block is handed out at rho 1 and fill 0, evicted or not.")
    same(counts(pool), counted(0, 1, 0, 0, 1), "An evicted block is used and has no name.")
    pool.set_fill(block, 4)
    same(pool.register(block, 8), True, "A block that lost its name can take another.")
    pool.release(block)
    take_cached(pool, 7)
    same((pool.find(7), pool.find(8)), (block, None), "A name that was lost can be given again.")
    same(counts(pool), counted(0, 0, 1, 1, 2), "evictions counts every one since the pool was made.")


# ---------------------------------------------------------------- faults, and everything at once


@named(
    "fault",
    checks="release, retain and register on blocks whose state doesn't allow it, and ids out of range in every call",
    why="a reference given back twice frees a block that another sequence reads",
)
def test_wrong_calls_are_refused_and_change_nothing(subject: Subject) -> None:
    pool = subject.KvPool(5, 1)
    used, free, *_ = take(pool, 3)
    pool.set_fill(used, 1)
    old, young = take_cached(pool, 1, 2)
    pool.release(free)
    before = everything(pool, 1, 2, 3)
    wrong: list[tuple[str, Callable[..., Any], tuple[int, ...]]] = [
        ("A free block has no reference to give back", pool.release, (free,)),
        ("A cached block has no reference to give back", pool.release, (old,)),
        ("A free block can't be retained: there is nothing in it", pool.retain, (free,)),
        ("Only a used block takes a name: this one is free", pool.register, (free, 3)),
        ("Only a used block takes a name: this one is cached", pool.register, (old, 3)),
    ]
    for block in (-1, 5):
        for call in (pool.release, pool.retain, pool.refcount, pool.fill):
            wrong.append((f"Block {block} is not in a pool of 5", call, (block,)))
        wrong.append((f"Block {block} is not in a pool of 5", pool.set_fill, (block, 1)))
        wrong.append((f"Block {block} is not in a pool of 5", pool.register, (block, 3)))
    for why, call, args in wrong:
        with refuses(BlockStateError, f"{why}: BlockStateError."):
            call(*args)
        same(everything(pool, 1, 2, 3), before, f"{why}. A call that raises changes nothing.")
    take(pool, 1)
    same([take(pool, 1), take(pool, 1)], [[old], [young]], "A call that raises does not change the order of eviction.")


@named(
    "property",
    checks="450 random calls on three pools, all counts read after each, beside a flat pool",
    why="no leak over weeks of traffic",
)
def test_random_calls_agree_with_a_flat_pool(subject: Subject) -> None:
    oracle = flat(find("kv_pool")).names
    rule = "A pool that keeps plain lists and takes the same free blocks gives another result for the last call."
    for n_blocks, block_size, seed in STORIES:
        intro = f"Random calls on a pool of {n_blocks} blocks, B = {block_size}."
        story = pool_story(oracle, n_blocks, block_size, seed, steps=150)
        hold(story, subject.names, like_the_flat_pool(oracle, rule), intro)

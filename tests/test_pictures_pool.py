"""Pictures of a pool: the grid, a block table over it, a hash chain; and what they say of half-finished classes."""

from __future__ import annotations

from typing import Any

import pytest
from drawings import is_a_sentence, svg_of, tags_of, words

from autograder.implementations import flat, reference
from course import modules
from course.modules import find
from course.pictures import draw_block_table, draw_chain, draw_pool

MAKERS = pytest.mark.parametrize("make", [reference, flat], ids=["reference", "flat model"])
A = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def after_a(make: Any) -> tuple[Any, list[int]]:
    """The pool of L10.4's worked example once A has ended, and the names of A's two full blocks."""
    module = make(find("L10.1"))
    pool, block_hash = module.KvPool(8, 4), module.kv_block_hash
    names = [block_hash(0, A[:4])]
    names.append(block_hash(names[0], A[4:8]))
    table = pool.alloc(3)
    for block, fill in zip(table, (4, 4, 2), strict=True):
        pool.set_fill(block, fill)
    for block, name in zip(table, names, strict=False):
        assert pool.register(block, name)
    for block in reversed(table):
        pool.release(block)
    return pool, names


def lines(picture: Any, start: str) -> list[str]:
    return [line for line in str(picture).splitlines() if line.startswith(start)]


# ---------------------------------------------------------------- the grid


@MAKERS
def test_free_used_and_cached_blocks_are_told_apart_in_words(make: Any) -> None:
    pool, names = after_a(make)
    hit = pool.lookup(names[0])
    pool.retain(hit)
    own = pool.alloc(1)[0]
    pool.set_fill(own, 3)
    picture = draw_pool(pool, "B runs", names)
    assert str(picture).startswith("B runs\nblock")
    assert lines(picture, f"block {hit:2}") == [
        f"block {hit:2}  ████    4 of 4 written  references: 2  used  0x7e75ba…"
    ]
    assert lines(picture, f"block {own:2}") == [f"block {own:2}  ███·    3 of 4 written  references: 1  used"]
    cached = pool.find(names[1])
    assert lines(picture, f"block {cached:2}") == [
        f"block {cached:2}  ████    4 of 4 written  references: 0  cached  0x6cdb6e…"
    ]
    assert lines(picture, "n_free") == ["n_free 5, n_used 2, n_cached 1, n_named 2, evictions 0"]
    shown = words(picture)
    assert [shown.count(word) for word in ("free", "used", "cached")] == [5, 2, 1]
    assert {"ρ 2", "ρ 1", "4/4", "3/4", "0x7e75ba…", "0x6cdb6e…"} <= set(shown)


@MAKERS
def test_looking_changes_nothing(make: Any) -> None:
    pool, names = after_a(make)
    before = str(draw_pool(pool, "", names))
    draw_block_table(pool, [0, 1], "", names)
    assert str(draw_pool(pool, "", names)) == before
    assert pool.n_cached == 2


def test_each_state_has_a_line_of_its_own() -> None:
    pool, _ = after_a(reference)
    pool.alloc(1)
    cells = [rect.attrib for rect in svg_of(draw_pool(pool)).iter() if rect.attrib.get("rx") == "6"]
    looks = [(cell.get("stroke-dasharray", "solid"), cell.get("stroke-width", "1")) for cell in cells]
    assert {look: looks.count(look) for look in looks} == {("solid", "3"): 1, ("5 4", "1"): 5, ("2 3", "2"): 2}


def test_written_positions_are_slots_and_one_bar_in_a_large_block() -> None:
    KvPool = reference(find("L10.1")).KvPool
    for size, parts in ((4, 4), (16, 16), (64, 2)):
        pool = KvPool(1, size)
        pool.set_fill(pool.alloc(1)[0], size // 2)
        rects = [rect for rect in svg_of(draw_pool(pool)).iter() if rect.attrib.get("height") == "8"]
        assert len(rects) == parts


def test_small_names_are_shown_as_they_are() -> None:
    pool = reference(find("L10.1")).KvPool(2, 1)
    block = pool.alloc(1)[0]
    pool.set_fill(block, 1)
    pool.register(block, 7)
    assert "7" in words(draw_pool(pool, names=[7, 8]))


def test_a_large_pool_says_what_it_leaves_out() -> None:
    pool = reference(find("L10.1")).KvPool(1000, 16)
    picture = draw_pool(pool)
    assert "… and 936 more blocks, not shown" in str(picture)
    assert words(picture).count("free") == 64
    assert float(svg_of(picture).attrib["width"]) < 900


# ---------------------------------------------------------------- a block table


@MAKERS
def test_a_block_table_shows_positions_and_what_is_shared(make: Any) -> None:
    pool, names = after_a(make)
    table = [pool.lookup(names[0]), pool.lookup(names[1]), *pool.alloc(1)]
    pool.retain(table[0])
    picture = draw_block_table(pool, table, "B's table", names)
    assert lines(picture, "table") == [
        f"table 0: positions 0 to 3 in block {table[0]} (shared, 2 references)",
        f"table 1: positions 4 to 7 in block {table[1]}",
        f"table 2: positions 8 to 11 in block {table[2]}",
    ]
    shown = words(picture)
    assert shown.count("shared, ρ 2") == 1 and shown.count("own") == 2
    assert f"8–11 → {table[2]}" in shown and shown.count("table 2") == 2
    assert f"block {table[0]:2}  ████    4 of 4 written  references: 2  used" in str(picture)


def test_a_long_table_and_a_large_pool_stay_readable() -> None:
    pool = reference(find("L10.1")).KvPool(200, 16)
    picture = draw_block_table(pool, pool.alloc(150))
    assert "… and further blocks of the table, not shown" in str(picture)
    assert len(lines(picture, "table")) == 64


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ([], "The table is empty."),
        ([9], "Block 9 is not in this pool: 0 to 7."),
        ([-1], "Block -1 is not in this pool: 0 to 7."),
        ([0, 1, 0], "Block 0 stands 2 times in the table."),
        ([7], "Block 7 is in the table, but no reference is held on it."),
    ],
)
def test_an_odd_table_is_drawn_and_said_to_be_odd(table: list[int], said: str) -> None:
    pool = reference(find("L10.1")).KvPool(8, 4)
    pool.alloc(2)
    picture = draw_block_table(pool, table)
    assert said in str(picture) and "svg" in tags_of(picture)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (None, "The table is None, not a list of block ids (TypeError"),
        (3, "The table is 3, not a list of block ids"),
        ([0, None], "The table holds None; it should hold block ids."),
        (["<0>"], "The table holds <0>; it should hold block ids."),
    ],
)
def test_what_is_no_table_gets_a_sentence(table: Any, said: str) -> None:
    picture = draw_block_table(reference(find("L10.1")).KvPool(8, 4), table, "Mine")
    assert str(picture).startswith("Mine\n") and said in str(picture) and is_a_sentence(picture)


# ---------------------------------------------------------------- half-finished pools


class Pool:
    """A pool whose answers a test sets; a value that is an exception is raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"n_blocks": 2, "block_size": 4, "refcount": 0, "fill": 0, **answers}

    def __getattr__(self, name: str) -> Any:
        if name not in self.__dict__["answers"]:
            raise AttributeError(f"'Pool' object has no attribute {name!r}")
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return (lambda _: answer) if name in ("refcount", "fill", "find") else answer


COUNTS = {"n_free": 2, "n_used": 0, "n_cached": 0, "n_named": 0, "evictions": 0}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, "Pool has no n_free, n_used, n_cached, n_named, evictions, find yet."),
        (
            {"fill": NotImplementedError("step 2: fill")},
            "fill(0) can't be asked yet (NotImplementedError: step 2: fill).",
        ),
        ({"refcount": None}, "refcount(0) gives None, which is no number of 0 or more."),
        ({"refcount": [1]}, "refcount(0) gives a value of type list, which is no number of 0 or more."),
        ({"n_free": -1}, "n_free gives -1, which is no number of 0 or more."),
        ({"find": "x"}, "find(5) gives x, which is no number of 0 or more."),
        ({"find": RuntimeError()}, "find(5) can't be asked yet (RuntimeError)."),
        ({**COUNTS, "n_free": 1}, "n_free is 1, but 2 of the blocks drawn are free."),
        ({**COUNTS, "n_used": 1, "fill": 4}, "n_used is 1, but 0 of the blocks drawn are used."),
        ({"fill": 9}, "block  0          9 of 4 written  references: 0  ?"),
    ],
)
def test_a_half_finished_pool_is_drawn_as_far_as_it_goes(answers: dict[str, Any], said: str) -> None:
    picture = draw_pool(Pool(**answers), "Mine", names=[5])
    assert said in str(picture) and "svg" in tags_of(picture)
    assert said in svg_of(picture).attrib["aria-label"]


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (Pool(n_blocks=NotImplementedError("step 1: __init__")), "NotImplementedError: step 1: __init__"),
        (Pool(n_blocks=None), "n_blocks is None, and it should be a number of blocks."),
        (Pool(n_blocks=0), "The pool has no blocks."),
        (object(), "object can't be drawn yet: it has no n_blocks"),
        (None, "NoneType can't be drawn yet"),
    ],
)
def test_a_pool_that_cant_be_counted_gets_a_sentence(pool: Any, said: str) -> None:
    for picture in (draw_pool(pool, "Mine"), draw_block_table(pool, [0], "Mine")):
        assert str(picture).startswith("Mine\n") and said in str(picture) and is_a_sentence(picture)


def test_a_pool_that_lacks_a_single_count_stays_whole_and_is_not_said_to_disagree() -> None:
    answers = {name: value for name, value in COUNTS.items() if name != "n_used"}
    text = str(draw_pool(Pool(**answers)))
    assert "n_used ?" in text and "but" not in text


# ---------------------------------------------------------------- a hash chain


def test_a_chain_goes_from_name_to_name_and_leaves_the_tail_unnamed() -> None:
    block_hash = reference(find("L10.1")).kv_block_hash
    picture = draw_chain(A, 4, "A's names", name_of=block_hash)
    first = block_hash(0, A[:4])
    assert str(picture).splitlines() == [
        "A's names",
        f"block 0: parent 0 + tokens 1 2 3 4 gives {first:#x}",
        f"block 1: parent {first:#x} + tokens 5 6 7 8 gives {block_hash(first, A[4:8]):#x}",
        "tokens 9 10 fill no block: no name",
    ]
    shown = words(picture)
    assert {"block 0", "1 2 3 4", "0x7e75ba…", "0x6cdb6e…", "9 10", "not full: no name"} <= set(shown)
    assert shown.count("parent") == 2


def test_a_chain_uses_the_bound_hash() -> None:
    with modules.bound({"kv_block_hash": lambda parent, tokens: parent + sum(tokens)}):
        assert "parent 3 + tokens 3 4 gives 10" in str(draw_chain([1, 2, 3, 4], 2))


def test_a_long_chain_says_what_it_leaves_out() -> None:
    picture = draw_chain(list(range(1600)), 16, name_of=lambda parent, tokens: parent + 1)
    assert "… and 88 more blocks, not shown" in str(picture)
    assert "tokens 0 1 2 3 4 5 … 15 gives 1" in str(picture)


def unwritten(parent: int, tokens: Any) -> int:
    raise NotImplementedError("step 1: kv_block_hash")


@pytest.mark.parametrize(
    ("name_of", "said"),
    [
        (unwritten, "A block can't be named yet (NotImplementedError: step 1: kv_block_hash)."),
        (lambda parent, tokens: None, "A block's name is None; it should be a number of 0 or more."),
        (lambda parent, tokens: -1, "A block's name is -1"),
        (lambda parent: 1, "A block can't be named yet (TypeError"),
    ],
)
def test_a_chain_without_names_shows_its_blocks(name_of: Any, said: str) -> None:
    picture = draw_chain(A, 4, name_of=name_of)
    assert said in str(picture) and {"1 2 3 4", "5 6 7 8"} <= set(words(picture))
    assert "block 1: parent ? + tokens 5 6 7 8 gives ?" in str(picture)


@pytest.mark.parametrize(
    ("tokens", "size", "said"),
    [
        (None, 4, "The prompt is None, not a list of tokens"),
        ([1, "<b>"], 4, "The prompt holds <b>"),
        ([1], 0, "The block size is 0; a block has 1 token or more."),
        ([1], None, "The block size is None"),
    ],
)
def test_what_is_no_prompt_gets_a_sentence(tokens: Any, size: Any, said: str) -> None:
    picture = draw_chain(tokens, size, "Mine", name_of=unwritten)
    assert str(picture).startswith("Mine\n") and said in str(picture) and is_a_sentence(picture)


def test_no_tokens_make_no_block() -> None:
    assert str(draw_chain([], 4, name_of=unwritten)) == "No tokens, no block."


# ---------------------------------------------------------------- all of them


def test_what_a_class_or_a_caption_says_is_escaped() -> None:
    pool = Pool(fill=RuntimeError("<script>&"), n_free="<b>")
    for picture in (
        draw_pool(pool, "<i>"),
        draw_block_table(pool, [0], "<i>"),
        draw_chain([1, 2], 2, "<i>", name_of=lambda parent, tokens: "<b>"),
    ):
        assert not {"script", "b", "i"} & tags_of(picture)
        assert "<i>" in str(picture)

"""The pictures: what a drawing of a tree shows, in both forms, and what it says when there is nothing to draw."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from drawings import svg_of, words

from autograder.implementations import flat, reference
from course.modules import find
from course.pictures import draw_tree

MAKERS = pytest.mark.parametrize("make", [reference, flat], ids=["reference", "flat model"])


def a_cache(make: Any) -> Any:
    cache = make(find("L8.4")).RadixCache(2)
    cache.insert([1, 2, 3, 4, 5], [10, 11])
    cache.insert([1, 2, 8, 8, 6, 6], [10, 20, 21])
    cache.lock(cache.match_prefix([1, 2, 8, 8, 7]).node)
    return cache


@MAKERS
def test_the_text_form_shows_tokens_blocks_locks_and_recency(make: Any) -> None:
    assert str(draw_tree(a_cache(make), "Now")).splitlines() == [
        "Now",
        "root",
        "└─ [1 2]=10  (newest, 1 lock)",
        "   └─ [3 4]=11  (oldest, evicted first)",
        "   └─ [8 8]=20  (newest, 1 lock)",
        "      └─ [6 6]=21  (2nd newest)",
    ]


@MAKERS
def test_the_drawing_shows_what_the_text_says(make: Any) -> None:
    picture = draw_tree(a_cache(make), "Now")
    shown = words(picture)
    assert {"root", "1 2", "10", "3 4", "11", "8 8", "20", "6 6", "21"} <= set(shown)
    assert shown.count("newest · 1 lock") == 2 and "oldest · evicted first" in shown
    assert "[8 8]=20" in svg_of(picture).attrib["aria-label"]


def test_colours_never_speak_alone() -> None:
    picture = draw_tree(a_cache(reference))
    for element in svg_of(picture).iter():
        if element.tag.endswith("text"):
            assert element.attrib["fill"] == "currentColor", "text takes the colour of the page, light or dark"
    assert "#fff" not in picture.html and "white;" not in picture.html and "black" not in picture.html


def test_a_block_that_the_next_eviction_takes_is_the_one_marked() -> None:
    chance = random.Random(3)
    cache = reference(find("L8.4")).RadixCache(2)
    for start in range(0, 60, 3):
        prompt = [chance.randrange(3) for _ in range(8)]
        cache.insert(prompt, [start * 10 + i for i in range(4)])
    while cache.cached_blocks:
        marked = [line for line in str(draw_tree(cache)).splitlines() if "evicted first" in line]
        assert len(marked) == 1
        assert all(f"={block}" in marked[0] for block in cache.evict(1))


def test_drawing_changes_nothing() -> None:
    cache = a_cache(reference)
    before = (list(cache.tree.walk()), cache.stats)
    draw_tree(cache)
    assert (list(cache.tree.walk()), cache.stats) == before


def test_nothing_overlaps() -> None:
    cache = reference(find("L8.4")).RadixCache(1)
    chance = random.Random(1)
    for prompt in ([chance.randrange(3) for _ in range(5)] for _ in range(12)):
        cache.insert(prompt, [chance.randrange(10**6) for _ in prompt])
    svg = svg_of(draw_tree(cache))
    rows: dict[float, list[tuple[float, float]]] = {}
    for element in svg.iter():
        if element.tag.endswith("rect") and float(element.attrib["height"]) == 42:
            x, y, width = (float(element.attrib[name]) for name in ("x", "y", "width"))
            rows.setdefault(y, []).append((x, x + width))
            assert x + width <= float(svg.attrib["width"]) and y + 42 <= float(svg.attrib["height"])
    assert len(rows) > 3
    for spans in rows.values():
        spans.sort()
        assert all(left[1] < right[0] for left, right in pairwise(spans))


def test_a_big_tree_says_what_it_leaves_out() -> None:
    cache = reference(find("L8.4")).RadixCache(1)
    for first in range(50):
        cache.insert([first, *range(1000, 1020)], list(range(21)))
    picture = draw_tree(cache)
    assert "… and 10 more nodes" in str(picture) and "10 more nodes not shown" in picture.html
    assert "… 14 more …" in str(picture)


def test_a_deep_tree_is_drawn_without_recursion() -> None:
    cache = reference(find("L8.4")).RadixCache(1)
    for length in range(1, 1200):
        cache.insert([1] * length, list(range(length)))
    assert "… and 1159 more nodes" in str(draw_tree(cache))


# ---------------------------------------------------------------- half-finished classes


class Rows:
    """A tree whose walk gives what a test wants."""

    def __init__(self, *rows: Any) -> None:
        self.rows = rows

    def walk(self) -> Iterator[Any]:
        yield from self.rows


class Endless(Rows):
    def walk(self) -> Iterator[Any]:
        node = 0
        while True:
            node += 1
            yield node, node - 1, (1,), (1,), 0, 1


class Unwritten:
    def walk(self) -> Iterator[Any]:
        raise NotImplementedError("step 3: walk")


class NoTree:
    pass


GOOD = (1, 0, (1, 2), (10,), 0, 1)


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (Rows(), "The tree is empty."),
        (Unwritten(), "walk() fails (NotImplementedError: step 3: walk)"),
        (NoTree(), "NoTree has no tree to draw yet"),
        (Endless(), "it never ends"),
        (Rows(None), "walk() gives None; a row is (node, parent"),
        (Rows((1, 0, (1, 2), (10,), 0)), "a row is (node, parent, tokens, values, locks, last_used)"),
        (Rows((1, 0, (1, 2, 3), (10, 11), 0, 1)), "3 tokens and 2 values: one value for each granule"),
        (Rows((1, 0, (1, 2), (), 0, 1)), "2 tokens and 0 values"),
        (Rows((1, 0, (1, 2), (10,), None, 1)), "a row is (node, parent"),
        (Rows(([1], 0, (1, 2), (10,), 0, 1)), "unhashable"),
        (Rows(GOOD, GOOD), "gives node 1 twice"),
        (Rows((0, 0, (1, 2), (10,), 0, 1)), "the root not at all"),
        (Rows((2, 1, (3, 4), (11,), 0, 1), GOOD), "gives node 2 before its parent 1"),
    ],
)
def test_a_half_finished_tree_gets_a_sentence(tree: Any, said: str) -> None:
    picture = draw_tree(tree, "Mine")
    assert str(picture).startswith("Mine\n") and said in str(picture)
    assert "<svg" not in picture.html


def test_what_a_class_says_is_escaped() -> None:
    picture = draw_tree(Rows((1, 0, (1,), ("<b>&",), 0, 1)), "<i>caption</i>")
    assert "<b>" not in picture.html and "<i>" not in picture.html
    assert "<b>&" in words(picture)


def test_a_notebook_gets_both_forms() -> None:
    picture = draw_tree(Rows(GOOD))
    assert picture._repr_mimebundle_() == {"text/html": picture.html, "text/plain": str(picture)}
    assert repr(picture) == str(picture)

"""Pictures of measured numbers, and two pictures side by side: both forms, and what is said where nothing fits."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from drawings import is_a_sentence, svg_of, tags_of, words

from autograder.implementations import reference
from course.modules import find
from course.pictures import Picture, before_and_after, draw_hit_rate, draw_tree, draw_ttft

RATES = {"none": [0, 0, 0], "hash": [0.0, 0.4, 0.625], "radix": [0.0, 0.4, 0.625]}
TIMES = {"none": [41, 43, 39], "hash": [12.5, 13, 11.5], "radix": [12.4, 14, 12]}

# ---------------------------------------------------------------- hit rate


def test_hit_rates_are_told_in_numbers_and_a_finding() -> None:
    picture = draw_hit_rate(RATES, "Three requests")
    assert str(picture).splitlines() == [
        "Three requests",
        "After 3 requests, 62% of all prompt tokens came from the cache",
        " none  0% 0% 0%",
        " hash  0% 40% 62%",
        "radix  0% 40% 62%",
    ]
    assert {"none 0%", "hash and radix 62%", "requests answered", "100%", "1", "3"} <= set(words(picture))


def test_without_a_caption_the_finding_is_the_title() -> None:
    text = str(draw_hit_rate({"mine": [0.0, 0.5]}))
    assert text.splitlines() == ["After 2 requests, 50% of all prompt tokens came from the cache", "mine  0% 50%"]


def test_lines_are_told_apart_without_colours() -> None:
    lines = [e.attrib for e in svg_of(draw_hit_rate(RATES)).iter() if e.attrib.get("stroke-width") == "2.5"]
    assert len({line.get("stroke-dasharray", "solid") for line in lines}) == 3


def test_labels_at_the_ends_never_stand_on_each_other() -> None:
    picture = draw_hit_rate({f"cache {n}": [0.0, n / 200] for n in range(6)})
    heights = sorted(float(e.attrib["y"]) for e in svg_of(picture).iter() if e.text and e.text.startswith("cache "))
    assert len(heights) == 6 and all(b - a >= 14.9 for a, b in pairwise(heights))


def test_many_requests_are_told_in_short() -> None:
    rates = [n / 1000 for n in range(1000)]
    row = str(draw_hit_rate({"mine": rates})).splitlines()[-1]
    assert row.startswith("mine  0% 5%") and row.endswith(" 100%") and len(row.split()) <= 22


# ---------------------------------------------------------------- time to first token


def test_times_are_told_with_their_range_and_the_budget() -> None:
    picture = draw_ttft(TIMES, "TTFT")
    assert str(picture).splitlines() == [
        "TTFT",
        "With the hash cache the first token comes 3.3 times sooner",
        " none  41 ms (39 ms to 43 ms)",
        " hash  12.5 ms (11.5 ms to 13 ms)",
        "radix  12.4 ms (12 ms to 14 ms)",
        "budget: 20.5 ms, half of none",
    ]
    assert {"none", "hash", "radix", "41 ms", "12.5 ms", "budget: 20.5 ms, half of none"} <= set(words(picture))


def test_bars_and_budget_are_as_long_as_their_times() -> None:
    svg = svg_of(draw_ttft({"none": [40.0], "hash": [10.0]}, budget=4))
    bars = [float(e.attrib["width"]) for e in svg.iter() if e.attrib.get("height") == "18"]
    assert bars[0] == 4 * bars[1]
    assert "budget: 10 ms, none / 4" in str(draw_ttft({"none": [40.0], "hash": [10.0]}, budget=4))


def test_without_none_there_is_no_budget_to_draw() -> None:
    picture = draw_ttft({"mine": [12.0]})
    assert str(picture) == "mine  12 ms (12 ms to 12 ms)"
    assert not [word for word in words(picture) if "budget" in word]


@pytest.mark.parametrize("value", [0, 0.0])
def test_a_time_of_nothing_is_drawn(value: float) -> None:
    assert "none  0 ms" in str(draw_ttft({"none": [value], "hash": [value]}))


@pytest.mark.parametrize("draw", [draw_hit_rate, draw_ttft])
@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (None, "There is nothing to draw"),
        ({}, "There is nothing to draw"),
        ([0.5], "There is nothing to draw"),
        ({"mine": None}, "mine: a list of one"),
        ({"mine": []}, "mine: a list of one"),
        ({"mine": 0.5}, "mine: a list of one"),
        ({"mine": [0.5, None]}, "mine: value 2 is None"),
        ({"mine": ["<b>"]}, "mine: value 1 is <b>"),
        ({"mine": [True]}, "mine: value 1 is True"),
        ({"mine": [-0.5]}, "mine: value 1 is -0.5"),
        ({"mine": [math.nan]}, "mine: value 1 is nan"),
        ({"mine": [math.inf]}, "mine: value 1 is inf"),
    ],
)
def test_what_are_no_numbers_gets_a_sentence(draw: Any, numbers: Any, said: str) -> None:
    picture = draw(numbers, "<i>Mine")
    assert str(picture).startswith("<i>Mine\n") and said in str(picture) and is_a_sentence(picture)


def test_a_hit_rate_is_at_most_1_and_a_budget_is_a_number() -> None:
    assert "value 1 is 1.5; a hit rate is a number from 0 to 1." in str(draw_hit_rate({"mine": [1.5]}))
    assert "budget: value 1 is -1" in str(draw_ttft(TIMES, budget=-1))


def test_labels_are_escaped() -> None:
    for picture in (draw_hit_rate({"<b>": [0.5]}), draw_ttft({"<b>": [0.5]})):
        assert "b" not in tags_of(picture) and [word for word in words(picture) if word.startswith("<b>")]


# ---------------------------------------------------------------- side by side


def test_before_and_after_keep_what_each_picture_says() -> None:
    cache = reference(find("L8.4")).RadixCache(2)
    cache.insert([1, 2, 3, 4], [10, 11])
    cache.insert([1, 2, 5, 6], [10, 12])
    before = draw_tree(cache)
    cache.evict(1)
    picture = before_and_after(before, draw_tree(cache), "evict(1)")
    text = str(picture)
    assert text.startswith("evict(1)\nBefore:\nroot\n") and "\nAfter:\nroot\n" in text
    start, end = text.split("After:")
    assert "[3 4]=11" in start and "[3 4]=11" not in end and "[5 6]=12" in end
    assert picture.html.count("<svg") == 2 and "svg" in tags_of(picture)


def test_a_side_that_is_no_picture_gets_a_sentence() -> None:
    picture = before_and_after(Picture("<p>drawn</p>", "drawn"), None, "<i>")  # type: ignore[arg-type]
    assert str(picture).splitlines() == [
        "<i>",
        "Before:",
        "drawn",
        "After:",
        "None is no picture: draw one first, such as draw_tree(cache).",
    ]
    assert "i" not in tags_of(picture)

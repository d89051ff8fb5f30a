"""Charts of serving under load, and the percentiles in them: sentences that fit the data, and PNGs that show it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from course.charts.load import (
    Samples,
    Ttfts,
    _labels,
    load_chart,
    load_finding,
    load_hits_chart,
    load_hits_finding,
    load_hits_text,
    load_text,
)
from course.charts.style import BAR
from course.percentiles import percentile

EVEN = [place / 100 for place in range(1, 102)]
"""101 times from 0.01 to 1.01 s: p50 is 0.51, p95 0.96, p99 1.0."""

TTFTS: Ttfts = {"none": [EVEN], "hash": [[value / 4 for value in EVEN]], "radix": [[value / 5 for value in EVEN]]}
RISING: Samples = [(1.0, 0, 100), (2.0, 80, 200), (4.0, 240, 300)]
FLAT: Samples = [(0.5, 0, 100), (6.0, 0, 300)]


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n") and path.stat().st_size > 10_000


# ---------------------------------------------------------------- percentiles


def test_a_percentile_lies_between_its_neighbours() -> None:
    assert [percentile(EVEN, percent) for percent in (50, 95, 99)] == pytest.approx([0.51, 0.96, 1.0])
    assert percentile([1.0, 2.0], 25) == 1.25 and percentile([2.0, 1.0], 25) == 1.25
    assert percentile([3.0], 99) == 3.0


@pytest.mark.parametrize(("values", "percent"), [((), 50), ((1.0,), 0), ((1.0, 2.0), 100)])
def test_a_percentile_of_nothing_or_out_of_range_is_refused(values: Sequence[float], percent: int) -> None:
    with pytest.raises(ValueError, match="a percentile from 1 to 99"):
        percentile(values, percent)


# ---------------------------------------------------------------- first tokens


@pytest.mark.parametrize(
    ("ttfts", "finding"),
    [
        (TTFTS, "TTFT p95 is 4.0 times shorter with the hash cache"),
        (
            {"none": [EVEN], "radix": TTFTS["radix"]},
            "TTFT p95 is 5.0 times shorter with the radix cache",
        ),
        ({"none": TTFTS["hash"], "hash": [EVEN]}, "TTFT p95 is 4.0 times longer with the hash cache"),
        ({"none": [EVEN], "hash": [EVEN]}, "TTFT p95 is no shorter with the hash cache"),
        ({"none": [EVEN]}, "Without a cache 95% of first tokens come within 960 ms"),
        ({"radix": [EVEN]}, "With the radix cache 95% of first tokens come within 960 ms"),
    ],
)
def test_the_title_says_what_was_found(ttfts: Ttfts, finding: str) -> None:
    assert load_finding(ttfts) == finding
    assert load_text(ttfts).startswith(finding)


def test_repeats_count_by_their_median() -> None:
    slow = [[10 * value for value in EVEN]]
    assert load_finding({"none": [EVEN, EVEN, *slow], "hash": TTFTS["hash"]}).startswith("TTFT p95 is 4.0")


def test_the_text_has_each_mode_on_one_scale_with_its_percentiles() -> None:
    none, hash_, _, budget, scale = load_text(TTFTS).splitlines()[1:]
    assert none.endswith("p50 510, p95 960, p99 1,000 ms") and hash_.endswith("p50 128, p95 240, p99 250 ms")
    assert none.index("●") > hash_.index("┫") > hash_.index("●")
    assert budget.endswith("p95 480 ms at most") and hash_.index("┫") < budget.index("│") < none.index("┫")
    assert scale.split() == ["2", "ms", "1,010", "ms"] and len(scale) == 7 + BAR


def test_the_chart_shows_what_it_is_given(tmp_path: Path) -> None:
    one = load_chart(TTFTS, tmp_path / "new" / "one.png", "a note")
    assert is_png(one)
    assert one.read_bytes() == load_chart(TTFTS, tmp_path / "same.png", "a note").read_bytes()
    other = {**TTFTS, "hash": [[value / 4 for value in EVEN[:-1]] + [0.9]]}
    assert one.read_bytes() != load_chart(other, tmp_path / "other.png", "a note").read_bytes()


@pytest.mark.parametrize(
    "ttfts",
    [
        {"none": [[0.5]]},
        {"none": [[0.5, 0.5, 0.5]], "hash": [[0.5, 0.5, 0.5]]},
        {"none": [EVEN, EVEN[:7], EVEN[50:]], "hash": [[0.0001], [7.0], [90.0]]},
        {"none": [EVEN], "a mode with a name that is longer than a title": [EVEN]},
    ],
    ids=["one request", "all alike", "far apart", "a long name"],
)
def test_odd_data_can_be_drawn_and_told(ttfts: Ttfts, tmp_path: Path) -> None:
    assert is_png(load_chart(ttfts, tmp_path / "chart.png"))
    assert len(load_text(ttfts).splitlines()) == len(ttfts) + 2 + (len(ttfts) > 1), "a budget where there are two"
    assert len(load_finding(ttfts)) <= 62


@pytest.mark.parametrize(
    "ttfts", [{}, {"none": []}, {"none": [[]]}, {"none": [EVEN], "hash": [EVEN, []]}, {"none": [[0.0]]}]
)
def test_nothing_to_show_is_refused_before_a_file_is_there(ttfts: Ttfts, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a request in each repeat"):
        load_chart(ttfts, tmp_path / "chart.png")
    assert not (tmp_path / "chart.png").exists()


# ---------------------------------------------------------------- hits


def test_the_finding_has_the_best_rate_and_the_ideal() -> None:
    assert load_hits_finding({"none": [FLAT], "hash": [RISING]}) == "80% of prompt tokens came from the cache"
    both = load_hits_finding({"hash": [RISING]}, ideal=[[(3.0, 270, 300)]])
    assert both == "80% of prompt tokens came from the cache, of 90% at best"
    assert load_hits_finding({"none": [FLAT]}) == "0% of prompt tokens came from the cache"


def test_the_text_follows_time() -> None:
    title, none, hash_, ideal = load_hits_text({"none": [FLAT], "hash": [RISING]}, ideal=[RISING]).splitlines()
    assert title.endswith("of 80% at best") and none.split() == ["none", "0%"]
    line = hash_[8 : 8 + BAR]
    assert line == " " * 11 + "▃" * 12 + "▆" * 13, "nothing until 2 s of 6, 40 % until 4 s, 80 % from there"
    assert ideal.endswith(f"at best {line} 80%")


def test_labels_of_equal_rates_are_one_and_others_keep_apart() -> None:
    near: Samples = [(1.0, 79, 100)]
    labels = _labels({"none": [FLAT], "hash": [RISING], "radix": [RISING]}, [near])
    assert [(names, rate) for _, names, rate in labels] == [
        (["none"], 0.0), (["at best"], 0.79), (["hash", "radix"], 0.8),
    ]  # fmt: skip
    same = _labels({"hash": [RISING]}, [RISING])
    assert [names for _, names, _ in same] == [["hash"], ["at best"]] and same[1][0] - same[0][0] > 0.06
    top: Samples = [(1.0, 100, 100)]
    full = [place for place, _, _ in _labels({"hash": [top], "radix": [[(1.0, 99, 100)]]}, [top])]
    assert max(full) <= 1.0 and all(after - before > 0.06 for before, after in itertools.pairwise(full))
    places = [place for place, _, _ in labels]
    assert min(after - before for before, after in itertools.pairwise(places)) > 0.06


def test_the_hit_chart_shows_what_it_is_given(tmp_path: Path) -> None:
    samples = {"none": [FLAT, FLAT], "hash": [RISING, FLAT], "radix": [RISING]}
    one = load_hits_chart(samples, tmp_path / "one.png", "a note", ideal=[RISING], arrivals_end=3.0)
    assert is_png(one)
    same = load_hits_chart(samples, tmp_path / "same.png", "a note", ideal=[RISING], arrivals_end=3.0)
    assert one.read_bytes() == same.read_bytes()
    without = load_hits_chart(samples, tmp_path / "without.png", "a note", arrivals_end=3.0)
    assert one.read_bytes() != without.read_bytes()
    assert is_png(load_hits_chart({"none": [[(0.5, 0, 100)]]}, tmp_path / "least.png"))


@pytest.mark.parametrize("samples", [{}, {"none": []}, {"none": [[]]}])
def test_no_sample_is_refused(samples: dict[str, list[Samples]], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        load_hits_chart(samples, tmp_path / "chart.png")
    with pytest.raises(ValueError, match="at least one sample"):
        load_hits_text(samples)

"""Charts: a PNG and a text of the same numbers, titles that say what was found, colours that can be told apart."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from course import charts
from course.charts import Spread, style

TTFT = {"none": (0.12, 0.13, 0.14), "hash": (0.04, 0.036, 0.05), "radix": (0.041, 0.043, 0.045)}
RATES = {"none": (0.0, 0.0, 0.0), "hash": (0.0, 0.4, 0.6), "radix": (0.0, 0.4, 0.6)}


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n") and path.stat().st_size > 10_000


def test_both_charts_are_written_into_folders_that_are_not_there_yet(tmp_path: Path) -> None:
    ttft = charts.ttft_chart(TTFT, tmp_path / "a" / "ttft.png", "a note")
    hits = charts.hit_rate_chart(RATES, tmp_path / "b" / "hits.png", "a note")
    assert is_png(ttft) and is_png(hits)


def test_a_chart_shows_what_it_is_given(tmp_path: Path) -> None:
    one = charts.ttft_chart(TTFT, tmp_path / "one.png").read_bytes()
    assert one == charts.ttft_chart(TTFT, tmp_path / "again.png").read_bytes()
    wider = {**TTFT, "hash": (0.04, 0.036, 0.09)}
    assert one != charts.ttft_chart(wider, tmp_path / "wider.png").read_bytes(), "the range of repeats is drawn"


def test_charts_load_matplotlib_when_they_draw_and_no_sooner() -> None:
    told = "import sys, course.charts; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("seconds", "finding"),
    [
        (TTFT, "With the hash cache the first token comes 3.2 times sooner"),
        ({"none": (0.1,), "radix": (0.05,)}, "With the radix cache the first token comes 2.0 times sooner"),
        ({"none": (0.1,), "hash": (0.2,)}, "With the hash cache the first token comes 2.0 times later"),
        ({"none": (0.1,)}, "Without a cache the first token takes 100 ms"),
    ],
)
def test_the_title_says_what_was_found(seconds: Mapping[str, Sequence[float]], finding: str) -> None:
    assert charts.ttft_finding(seconds) == finding
    assert charts.ttft_text(seconds).startswith(finding)


def test_the_ttft_text_has_absolute_times_ranges_and_the_budget() -> None:
    none, hash_, _, budget = charts.ttft_text(TTFT).splitlines()[1:]
    assert none.endswith("130 ms (120 to 140)") and hash_.endswith("40 ms (36 to 50)")
    assert budget.endswith("65 ms, half of none")
    assert none.count("█") == style.BAR and hash_.count("█") == round(style.BAR * 40 / 130)
    assert budget.index("│") - none.index("█") == style.BAR // 2


def test_the_hit_rate_text_has_a_column_for_each_request_and_the_last_rate() -> None:
    title, none, hash_, radix = charts.hit_rate_text(RATES).splitlines()
    assert title == "After 3 requests, 60% of all prompt tokens came from the cache"
    assert none.split() == ["none", "0%"] and hash_.split()[-1] == radix.split()[-1] == "60%"
    assert len(hash_.split()[1]) == 2  # an empty column for the first request, and two that are not


def test_many_requests_still_fit_a_terminal() -> None:
    rates = {"hash": [place / 1_000 for place in range(1_000)]}
    assert all(len(line) <= 80 for line in charts.hit_rate_text(rates).splitlines())


def test_what_cant_be_drawn_is_refused_before_a_file_is_there(tmp_path: Path) -> None:
    path = tmp_path / "chart.png"
    with pytest.raises(ValueError, match="none"):
        charts.ttft_chart({"hash": (0.1,)}, path)
    with pytest.raises(ValueError, match="at least one measurement"):
        charts.ttft_chart({"none": ()}, path)
    with pytest.raises(ValueError, match="at least one request"):
        charts.hit_rate_chart({"none": ()}, path)
    assert not path.exists()


def test_a_spread_is_the_median_and_the_range() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)


@pytest.mark.parametrize(("seconds", "text"), [(0.0396, "39.6"), (0.4, "400"), (1.2345, "1,234"), (10.18, "10,180")])
def test_milliseconds_read_as_numbers(seconds: float, text: str) -> None:
    assert charts.milliseconds(seconds) == text


def lightness(colour: str) -> float:
    """Relative luminance of a colour, 0 to 1."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_every_mode_stands_out_from_the_page_and_has_its_own_marker_and_dash() -> None:
    for colour in style.COLOURS.values():
        assert 1.05 / (lightness(colour) + 0.05) >= 3, "WCAG 2 asks for 3 to 1 for shapes that carry meaning"
    for look in (style.COLOURS, style.MARKERS, style.DASHES):
        assert set(look) == set(TTFT)
        assert all(a != b for a, b in itertools.combinations(look.values(), 2))

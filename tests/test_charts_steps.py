"""The chart of a step's time: its sentence for any data, its text, and that it can be drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from course.charts import style
from course.charts.steps import Times, steps_chart, steps_finding, steps_text

FLAT = {16: (0.010, 0.011, 0.010), 64: (0.010,), 256: (0.011,), 1024: (0.030,), 4096: (0.090,)}
SLOPE = {n: (n * 1e-4,) for n in (16, 64, 256)}


@pytest.mark.parametrize(
    ("times", "finding"),
    [
        ({"plain": FLAT}, "256 tokens take 1.1 times as long as 16, 4,096 take 9.0 times"),
        ({"plain": SLOPE, "other": FLAT}, "256 tokens take 16 times as long as 16"),
        ({"plain": {512: (0.1,), 2048: (0.05,)}}, "2,048 tokens take 0.5 times as long as 512"),
        ({"plain": {16: (0.004,)}}, "A step of 16 tokens takes 4 ms"),
    ],
)
def test_the_title_says_what_these_times_say(times: Times, finding: str) -> None:
    assert steps_finding(times) == finding
    assert steps_text(times).startswith(finding)


def test_the_text_has_a_row_for_each_size_with_a_time_a_token() -> None:
    rows = steps_text({"plain": FLAT}).splitlines()[1:]
    assert len(rows) == len(FLAT)
    assert rows[0].endswith("10 ms, 625 us a token") and rows[-1].count("█") == style.BAR
    both = steps_text({"plain": FLAT, "pieces": SLOPE}).splitlines()
    assert both[1] == "plain" and "pieces" in both


@pytest.mark.parametrize("times", [{"plain": FLAT}, {"plain": FLAT, "pieces": SLOPE}, {"plain": {16: (0.004,)}}])
def test_it_is_drawn_and_equal_data_give_equal_files(times: Times, tmp_path: Path) -> None:
    first = steps_chart(times, tmp_path / "new" / "one.png", "a note").read_bytes()
    assert first.startswith(b"\x89PNG") and len(first) > 5_000
    assert steps_chart(times, tmp_path / "two.png", "a note").read_bytes() == first


def test_the_range_of_repeats_is_drawn(tmp_path: Path) -> None:
    wider = {**FLAT, 16: (0.010, 0.020, 0.010)}
    files = [steps_chart({"plain": times}, tmp_path / "c.png").read_bytes() for times in (FLAT, wider)]
    assert files[0] != files[1]


@pytest.mark.parametrize("times", [{}, {"plain": {}}, {"plain": {16: (0.1, 0.0)}}])
def test_no_times_are_refused_before_a_file_is_there(times: Times, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"at least one measurement|more than 0 seconds"):
        steps_chart(times, tmp_path / "c.png")
    assert not list(tmp_path.iterdir())

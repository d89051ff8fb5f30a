"""The chart of ways of routing: a PNG and a text of the same numbers, and a title that says what was found."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from course.charts.routing import RoutingFigures, WayFigures, routing_chart, routing_finding, routing_text

IN_TURN = WayFigures((0.028, 0.03, 0.025), (0.129, 0.14, 0.12), (0.62, 0.6, 0.66), ((0.6, 0.64),) * 3)
BY_NAMES = WayFigures((0.0155, 0.016, 0.017), (0.1, 0.104, 0.11), (0.84, 0.85, 0.86), ((0.8, 0.9),) * 3)
BOTH = RoutingFigures({"in turn": IN_TURN, "by names": BY_NAMES}, 0.87)


def flat(time: float, rate: float) -> WayFigures:
    return WayFigures((time,), (time,), (rate,), ((rate, rate),))


def test_a_chart_is_written_into_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    made = routing_chart(BOTH, tmp_path / "a" / "b.png", "a note")
    assert made.read_bytes().startswith(b"\x89PNG\r\n\x1a\n") and made.stat().st_size > 10_000


def test_equal_data_give_equal_charts_and_the_range_and_the_ideal_are_drawn(tmp_path: Path) -> None:
    one = routing_chart(BOTH, tmp_path / "one.png").read_bytes()
    assert one == routing_chart(BOTH, tmp_path / "again.png").read_bytes()
    wider = replace(BOTH, ways={**BOTH.ways, "by names": replace(BY_NAMES, p95=(0.1, 0.104, 0.2))})
    for other in (wider, replace(BOTH, ideal=0.95)):
        assert one != routing_chart(other, tmp_path / "other.png").read_bytes()


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        (BOTH, "With by names, 85% of prompt tokens are found, 62% with in turn: median TTFT 16 ms, not 28"),
        (
            RoutingFigures({"in turn": flat(0.028, 0.5), "by names": flat(0.028, 0.6)}, 1.0),
            "With by names, 60% of prompt tokens are found, 50% with in turn: median TTFT 28 ms in both",
        ),
        (
            RoutingFigures({"in turn": flat(0.028, 0.6), "by names": flat(0.01, 0.2)}, 1.0),
            "60% of prompt tokens are found; nothing finds more than in turn: median TTFT 28 ms",
        ),
        (
            RoutingFigures({"in turn": flat(0.028, 0.0), "by names": flat(0.01, 0.0)}, 0.0),
            "0% of prompt tokens are found; nothing finds more than in turn: median TTFT 28 ms",
        ),
        (
            RoutingFigures({"in turn": flat(1.5, 0.25)}, 1.0),
            "25% of prompt tokens are found with in turn: median TTFT 1,500 ms",
        ),
    ],
)
def test_the_title_says_what_was_found(data: RoutingFigures, finding: str) -> None:
    assert routing_finding(data) == finding
    assert routing_text(data).startswith(finding + "\n")


def test_the_text_has_a_row_for_each_way_and_the_ideal() -> None:
    _, in_turn, by_names, ideal = routing_text(BOTH).splitlines()
    assert in_turn.endswith("62% found (engines 60%, 64%); TTFT p50 28 ms, p95 129 ms")
    assert by_names.endswith("85% found (engines 80%, 90%); TTFT p50 16 ms, p95 104 ms")
    assert "87% found by one cache" in ideal
    assert (in_turn.count("█"), by_names.count("█"), ideal.count("█")) == (12, 17, 17)
    assert all(len(line) <= 100 for line in routing_text(BOTH).splitlines())


@pytest.mark.parametrize(
    "data",
    [
        RoutingFigures({"in turn": flat(0.0, 0.0)}, 0.0),
        RoutingFigures({"a way with a very long name that needs several lines": flat(9.0, 1.0)}, 1.0),
        RoutingFigures({f"way {n}": flat(0.01 * n, 0.1 * n) for n in range(1, 9)}, 0.9),
    ],
)
def test_odd_data_can_be_drawn(data: RoutingFigures, tmp_path: Path) -> None:
    assert routing_chart(data, tmp_path / "odd.png").stat().st_size > 10_000


def test_what_cant_be_drawn_is_refused_before_a_file_is_there(tmp_path: Path) -> None:
    for data in (RoutingFigures({}, 0.5), RoutingFigures({"in turn": replace(IN_TURN, p50=())}, 0.5)):
        with pytest.raises(ValueError, match="at least one"):
            routing_chart(data, tmp_path / "chart.png")
    with pytest.raises(ValueError, match="at least one"):
        routing_chart(RoutingFigures({"in turn": replace(IN_TURN, p95=())}, 0.5), tmp_path / "chart.png")
    assert not (tmp_path / "chart.png").exists()


def test_the_chart_loads_matplotlib_when_it_draws_and_no_sooner() -> None:
    told = "import sys, course.charts.routing; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True).stdout == "False\n"

"""The chart of hit rates by capacity: its sentence is right for any data, and nothing that is measured goes unsaid."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from course.charts import style
from course.charts.capacity import (
    Capacities,
    Curve,
    _apart,
    _looks,
    capacity_chart,
    capacity_finding,
    capacity_text,
    tokens_text,
)

RATES = {500_000: 0.04, 3_000_000: 0.13, 50_000_000: 0.363, 100_000_000: 0.366}
MARKS = {3_000_000: "paper: under half", 50_000_000: "paper: nearly all"}


def curves(**rates: Mapping[int, float]) -> tuple[Curve, ...]:
    return tuple(Curve(name, each) for name, each in rates.items())


def scaled(by: float) -> dict[int, float]:
    return {tokens: rate * by for tokens, rate in RATES.items()}


BOTH = Capacities(curves(hash=RATES, radix=scaled(0.999)), 0.366, MARKS)


def test_the_chart_is_a_png_in_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    path = capacity_chart(BOTH, tmp_path / "a" / "chart.png", "a note")
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n") and path.stat().st_size > 10_000


def test_equal_data_give_equal_files_and_other_data_others(tmp_path: Path) -> None:
    one = capacity_chart(BOTH, tmp_path / "one.png").read_bytes()
    assert one == capacity_chart(BOTH, tmp_path / "again.png").read_bytes()
    for other in (
        Capacities(BOTH.curves, 0.4, MARKS),
        Capacities(BOTH.curves, 0.366),
        Capacities(BOTH.curves[:1], 0.366, MARKS),
        Capacities(curves(hash={**RATES, 500_000: 0.1}, radix=RATES), 0.366, MARKS),
    ):
        assert one != capacity_chart(other, tmp_path / "other.png").read_bytes()


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        (BOTH, "Room for 3M tokens gives 36% of the ideal hit rate, room for 50M 99%"),
        (
            Capacities(curves(hash=RATES), 0.366),
            "Room for 500k tokens gives 11% of the ideal hit rate, room for 100M 100%",
        ),
        (Capacities(curves(radix={3_000_000: 0.2}), 0.4), "Room for 3M tokens gives 50% of the ideal hit rate"),
        (
            Capacities(curves(radix=scaled(0.5), hash=RATES), 0.366),
            "With hash, room for 500k tokens gives 11% of the ideal hit rate, room for 100M 100%",
        ),
        (
            Capacities(curves(radix=scaled(0.5), none=scaled(0.0)), 0.366),
            "With radix, room for 500k tokens gives 5% of the ideal hit rate, room for 100M 50%",
        ),
        (
            Capacities(curves(hash={1_000: 0.3659, 9: 0.0001}), 0.366),
            "Room for 9 tokens gives under 1% of the ideal hit rate, room for 1k over 99%",
        ),
        (
            Capacities(curves(none=scaled(0.0)), 0.366, MARKS),
            "Room for 3M tokens gives 0% of the ideal hit rate, room for 50M 0%",
        ),
        (Capacities(curves(hash=scaled(0.0)), 0.0, MARKS), "Even an infinite cache finds nothing again here"),
    ],
)
def test_the_sentence_says_what_was_found(data: Capacities, finding: str) -> None:
    assert capacity_finding(data) == finding
    assert capacity_text(data).splitlines()[0] == capacity_finding(data)


def test_the_text_has_every_capacity_of_every_line_and_the_ideal() -> None:
    _, head, *rows, ideal = capacity_text(BOTH).splitlines()
    assert head == "hash and radix: hit rate, and its share of the ideal"
    assert [row.split()[0] for row in rows] == ["500k", "3M", "50M", "100M"]
    assert rows[1].split()[-5:] == ["13.0%", "36%", "paper:", "under", "half"]
    assert ideal.split()[0] == "ideal" and ideal.endswith("36.6%")
    assert ideal.count("█") == style.BAR and rows[1].count("█") == round(style.BAR * 0.13 / 0.366)


def test_lines_that_part_are_told_apart() -> None:
    apart = Capacities(curves(hash=RATES, radix=RATES, other=scaled(0.7)), 0.366)
    heads = [row for row in capacity_text(apart).splitlines() if "share" in row]
    assert [head.partition(":")[0] for head in heads] == ["hash and radix", "other"]


@pytest.mark.parametrize(
    "data",
    [
        Capacities(curves(hash=RATES), 0.366, MARKS),
        Capacities(curves(radix={3_000_000: 0.2}), 0.4),
        Capacities(curves(hash={1: 0.0, 10**9: 0.9}), 1.0),
        Capacities(curves(hash=scaled(0.0), none=scaled(0.0)), 0.0, MARKS),
        Capacities(curves(hash=scaled(2.0)), 0.366, MARKS),
        Capacities(
            tuple(Curve(f"policy {n} " + "of a very long name " * 9, scaled(1 / n)) for n in range(1, 6)), 0.366
        ),
    ],
)
def test_any_data_can_be_drawn_and_fit_a_terminal(data: Capacities, tmp_path: Path) -> None:
    assert capacity_chart(data, tmp_path / "chart.png").stat().st_size > 10_000
    rows = [
        line for line in capacity_text(data).splitlines() if line.split()[0].rstrip("kMG").replace(".", "").isdigit()
    ]
    assert rows and all(len(row) <= 80 for row in rows)


def test_what_cant_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one capacity"):
        Capacities((), 0.3)
    with pytest.raises(ValueError, match="at least one capacity"):
        Capacities(curves(hash=RATES, radix={}), 0.3)
    with pytest.raises(ValueError, match="7 tokens is marked, and was not measured"):
        Capacities(curves(hash=RATES), 0.3, {7: "something"})


def test_labels_stand_apart_and_above_the_floor() -> None:
    assert _apart([5.0, 3.0], [1.0, 1.0], 0.0) == [5.0, 3.0]
    assert _apart([5.0, 4.8], [1.0, 1.0], 0.0) == [5.0, 4.0]
    assert _apart([9.0, 0.5, 0.5], [1.0, 1.0, 1.0], 0.0) == [9.0, 2.0, 1.0]


def test_every_mode_keeps_its_look_and_others_get_one_that_no_mode_has() -> None:
    looks = list(_looks([Curve(name, RATES) for name in ("radix", "radix, lfu", "hash", "radix, depth")]))
    assert looks[0] == (style.COLOURS["radix"], style.MARKERS["radix"], style.DASHES["radix"])
    assert looks[2][0] == style.COLOURS["hash"]
    assert len({look[:2] for look in looks}) == 4
    assert {looks[1][1], looks[3][1]}.isdisjoint(style.MARKERS.values())


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (9, "9"),
        (999, "999"),
        (1_000, "1k"),
        (999_400, "999k"),
        (999_900, "1M"),
        (2_999_808, "3M"),
        (3 * 10**12, "3,000G"),
    ],
)
def test_capacities_are_short(tokens: int, text: str) -> None:
    assert tokens_text(tokens) == text


def test_policies_are_told_apart_where_they_part_most() -> None:
    curves = [Curve("lru", {1_000: 0.10, 2_000: 0.20}), Curve("lfu", {1_000: 0.11, 2_000: 0.25})]
    assert capacity_finding(Capacities(curves, 0.5)) == (
        "They part most with room for 2k tokens: lfu finds 25.0% of blocks, lru 20.0%"
    )
    alike = [curves[0], Curve("mine", {1_000: 0.101, 2_000: 0.20})]
    assert "part" not in capacity_finding(Capacities(alike, 0.5))

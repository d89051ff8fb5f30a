"""The chart of a backlog in two orders: its sentence is true of any data, and its labels keep apart."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes

from course.charts.order import Times, order_chart, order_finding, order_text

SOONER: Times = {"arrival": [(1.0, 2.0, 6.0), (1.0, 2.0, 3.0)], "prefix": [(0.5, 1.0, 1.5), (0.5, 1.0, 3.0)]}


@pytest.mark.parametrize(
    ("times", "finding"),
    [
        (SOONER, "In the order of prefixes the first token comes 2.0 times sooner, on average, than in"),
        (dict(arrival=[[1.0]], prefix=[[3.0]]), "In the order of prefixes the first token comes 3.0 times later,"),
        (
            dict(arrival=[[1.0]], prefix=[[0.96]]),
            "The order of prefixes brings the first token as soon, on average, as",
        ),
        (dict(arrival=[[0.0]], prefix=[[0.0]]), "The order of prefixes brings the first token as soon"),
        (dict(arrival=[[2.0]], prefix=[[0.0]]), "In the order of prefixes the first token comes far sooner,"),
        (dict(arrival=[[0.0]], prefix=[[2.0]]), "In the order of prefixes the first token comes far later,"),
        (dict(prefix=[[2.0, 4.0]]), "In the order of prefixes the first token takes 3 s on average"),
        (dict(arrival=[[2_000.0]]), "In the order of arrival the first token takes 2,000 s on average"),
    ],
)
def test_the_finding_is_what_was_found(times: Times, finding: str) -> None:
    assert order_finding(times).startswith(finding)
    assert order_text(times).startswith(order_finding(times))


def test_the_text_has_a_bar_and_the_figures_of_each_order() -> None:
    _, arrival, prefix = order_text(SOONER).splitlines()
    assert arrival.split() == ["arrival", "█" * 36, *["mean", "2.5", "s,", "p50", "2", "s,", "p95", "4.25", "s"]]
    assert prefix.split() == ["prefix", "█" * 18, *["mean", "1.25", "s,", "p50", "1", "s,", "p95", "2.12", "s"]]


@pytest.mark.parametrize("times", [{}, {"arrival": []}, {"arrival": [[]]}, {"arrival": [[1.0]], "prefix": [[1.0], []]}])
def test_what_has_no_request_is_refused_before_a_file_is_there(times: Times, tmp_path: Path) -> None:
    for call in (lambda: order_chart(times, tmp_path / "x.png"), lambda: order_text(times)):
        with pytest.raises(ValueError, match="at least one request"):
            call()
    assert not list(tmp_path.iterdir())


def test_repeats_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="the repeats of prefix do not have as many requests each"):
        order_text({"arrival": [[1.0], [1.0]], "prefix": [[1.0], [1.0, 2.0]]})


def test_equal_data_gives_equal_files_and_other_data_others(tmp_path: Path) -> None:
    first = order_chart(SOONER, tmp_path / "new folder" / "a.png", "a note").read_bytes()
    assert first.startswith(b"\x89PNG") and len(first) > 10_000
    assert order_chart(SOONER, tmp_path / "b.png", "a note").read_bytes() == first
    wider = {**SOONER, "prefix": [(0.5, 1.0, 1.5), (0.5, 1.0, 3.3)]}
    assert order_chart(wider, tmp_path / "c.png", "a note").read_bytes() != first


@pytest.mark.parametrize(
    "times",
    [
        dict(arrival=[[1.0, 2.0]], prefix=[[1.0, 2.0]]),
        dict(arrival=[[0.0]], prefix=[[0.0]]),
        dict(arrival=[[1.0]], prefix=[[0.01]]),
        {"arrival": [[3.0]], "prefix": [[4.0]], "the order of a very long name": [[3.9]]},
    ],
)
def test_labels_keep_apart_and_within_the_chart(times: Times, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels: list[tuple[Axes, str, float]] = []
    annotate = Axes.annotate

    def noted(axes: Axes, text: str, xy: tuple[float, float], **more: Any) -> Any:
        labels.append((axes, text, xy[1]))
        return annotate(axes, text, xy, **more)

    monkeypatch.setattr(Axes, "annotate", noted)
    order_chart(times, tmp_path / "chart.png")
    shares = sorted(height / axes.get_ylim()[1] for axes, _, height in labels)
    assert shares[0] >= 0.08 and shares[-1] <= 0.92
    assert all(b - a >= 0.169 for a, b in itertools.pairwise(shares))
    assert all(len(line) <= 14 for _, text, _ in labels for line in text.splitlines())

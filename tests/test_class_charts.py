"""What pages are drawn and counted from: charts, blame by module, and the budget's series."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from paged import CACHE, SERIES, TREE, class_page, result, sound

from autograder.blame import footing, settled
from autograder.budget import Budget, _series
from autograder.catalogue import catalogue
from autograder.classroom.pages import charts, class_charts
from autograder.classroom.pages.results import Blame, blamed
from autograder.reading import Submission
from autograder.running import Status, Verdict
from autograder.work import Limits, Work
from course.modules import Module

# ---------------------------------------------------------------- blame


def submission(module: Module, name: str) -> Submission:
    return Submission(module, name, (), is_notebook=True)


def test_blame_is_read_from_what_blame_py_writes() -> None:
    """A tree of an odd name that is at fault for one test, and another that does not pass its own."""
    late = catalogue(CACHE)[3].name
    work = Work(
        submission(CACHE, "radix_cache.ipynb"), Limits(), {"radix_tree": submission(TREE, "my and (tree).ipynb")}
    )

    def on_flat(again: Work, tests: Sequence[str]) -> Iterator[Verdict]:
        return (Verdict(test, Status.PASSED) for test in tests)

    def lost(again: Work, tests: Sequence[str]) -> Iterator[Verdict]:
        return (Verdict(test, Status.FAILED, "no") for test in tests)

    _, at_fault = settled(work, [Verdict(late, Status.FAILED, "no")], on_flat)
    unsound = footing({"radix_tree": submission(TREE, "radix_tree.ipynb")}, Limits(), lost).remarks
    tree = result("ada", TREE, submission="ada/my and (tree).ipynb")
    assert blamed([tree, result("ada", CACHE, remarks=at_fault)]) == (Blame("ds.07", "L8.4", unsound=False),)
    assert blamed([result("ben", CACHE, remarks=unsound)]) == (Blame("ds.07", "L8.4", unsound=True),)
    assert blamed([result("cem", CACHE, remarks=("radix_cache.ipynb, cell 4: a stub is left.",))]) == ()


def test_blame_by_module_counts_students(tmp_path: Path) -> None:
    remark = "Your own radix_tree.ipynb does not pass ds.07 yet (x), so a flat model took its place: see ol check."
    results = [result(name, CACHE, remarks=(remark,)) for name in ("ada", "ben")]
    assert "ds.07 L8.4 2 0" in sound(class_page(tmp_path, *results)).text


# ---------------------------------------------------------------- charts


def test_a_full_score_stands_in_the_last_bar_and_a_zero_in_the_first() -> None:
    counts = [bar.count for bar in class_charts.histogram([0.0, 0.7, 1.0, 1.0, 0.8999999999]).bars]
    assert counts == [1, 0, 0, 0, 0, 0, 0, 1, 0, 3]


@pytest.mark.parametrize("most", [0.0, 0.04, 0.3, 1.0, 3.0, 31.0, 97.9, 250.0, 1234.0])
def test_an_axis_holds_its_largest_value_in_round_steps(most: float) -> None:
    end, labels = charts.ticks(most)
    assert end >= most and 2 <= len(labels) <= 6 and labels[0] == (0.0, "0")
    assert all(len(label) <= 5 for _, label in labels)


def test_a_time_is_where_its_axis_says() -> None:
    chart = charts.ttft(SERIES["ttft_ms"])
    assert chart is not None
    half = (charts.LEFT + charts.RIGHT) / 2
    at_50 = next(tick.at for tick in chart.ticks if tick.label == "50")
    assert at_50 == half and [dot.cold for dot in chart.rows[1].dots] == [True, False, False]
    assert charts.ttft({"hash": [1.0]}) is None and charts.ttft({}) is None and charts.hit_rate({}, {}) is None


def test_dots_of_a_class_stay_in_the_drawing_and_apart() -> None:
    ratios = [(f"s{n}", 1.0 + (n % 7) / 3, n % 2 == 0) for n in range(300)]
    chart = class_charts.spread(ratios)
    assert chart is not None and len({(dot.x, dot.y) for dot in chart.dots}) == 300
    assert all(0 < dot.x < charts.WIDTH and 0 < dot.y < chart.height for dot in chart.dots)


def test_the_budgets_series_are_plain_data_of_each_request() -> None:
    from autograder.benchmarks import shared_prefix_ttft as ttft
    from autograder.benchmarks.serving import best_names
    from course.engine.models import load_model

    loaded = load_model("byte-tiny")
    plan = replace(ttft.plan_for(loaded), n_suffix=32, chunk_sizes=(256,), n_requests=2, repeats=2)
    measured = ttft.measure(loaded, best_names(), best_names(), plan)
    budget = Budget(True, "", **_series(measured, "none"))
    assert json.loads(json.dumps(vars(budget))) == vars(budget)
    whole = len(plan.prefix) // 16 * 16
    assert budget.hit_tokens == {"hash": [0, whole, whole], "radix": [0, whole, whole]}
    assert budget.query_tokens == {mode: [plan.n_prompt] * 3 for mode in ("hash", "radix")}
    times = budget.ttft_ms
    assert all(len(row) == 3 and min(row) > 0 for row in times.values()) and set(times) == {"none", "hash", "radix"}

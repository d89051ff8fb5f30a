"""The benchmark of grading: which class it makes, what it counts, and its whole path. Times decide nothing here."""

from __future__ import annotations

import io
import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from autograder import reading
from autograder.benchmarks import grading
from autograder.benchmarks.grading import Autograde, Costs, Run
from autograder.benchmarks.grading_table import grading_view
from autograder.classroom.rows import Result, State
from autograder.cli import app
from autograder.planted import planted_bugs
from course import modules
from course.modules import MODULES

ONE, TWO = Run(1, 10, 20.0, by_module={"L10.1": 1.5}), Run(2, 10, 12.0)


def test_all_modules_come_in_turn_and_every_other_submission_is_wrong() -> None:
    made = grading.ordinary(100)
    assert Counter(each.module for each in made) == dict.fromkeys(MODULES, 25)
    assert len({(each.student, each.module) for each in made}) == 100
    assert 48 <= sum(bool(each.bug) for each in made) <= 52
    for module in MODULES:
        bugs = [each.bug for each in made if each.module is module and each.bug]
        assert len(set(bugs)) == min(len(bugs), len(planted_bugs(module)))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.id)
def test_the_notebooks_can_be_read_and_a_bug_is_in_the_wrong_one(module: modules.Module, tmp_path: Path) -> None:
    made = [each for each in grading.ordinary(8) if each.module is module]
    grading.write(made, tmp_path)
    sources = []
    for each in made:
        read = reading.read(tmp_path / each.student / module.name / f"{module.name}.ipynb", module)
        assert read.has_own_tests and not any(cell.problem for cell in read.cells)
        sources.append("\n".join(cell.source for cell in read.for_named_tests))
    right, wrong = sources if made[1].bug else reversed(sources)
    bug = next(bug for bug in planted_bugs(module) if bug.id in {each.bug for each in made})
    assert bug.put.strip() in wrong and bug.put.strip() not in right


def told(module: str, seconds: float, status: str = "passed") -> Result:
    report: dict[str, Any] = {"seconds": seconds, "named_tests": [{"status": "passed"}, {"status": status}]}
    return Result("ada", module, "a.ipynb", State.GRADED, report=report)


def test_what_timed_out_is_counted_apart() -> None:
    run = grading.run_of([told("L10.1", 2.0), told("L10.1", 4.0), told("ds.07", 30.0, "timed out")], 2, 21.0)
    assert run == Run(2, 3, 21.0, 1, 30.0, {"L10.1": 3.0})
    assert run.each == (21.0 - 30.0 / 2) / 2


def test_the_limit_holds_for_the_most_workers() -> None:
    costs = Costs((ONE, TWO), Autograde(4, 9.6))
    assert (costs.each, costs.within_limit, costs.scaling) == (1.2, True, pytest.approx(2 / 1.2))
    assert not Costs((ONE,)).within_limit and Costs((ONE,)).scaling is None
    assert grading.as_data(costs)["nbgrader"] == {"notebooks": 4, "seconds": 9.6, "seconds_each": 2.4, "ratio": 2.0}
    assert grading.as_data(Costs((TWO,)))["nbgrader"] is None


def test_the_table_has_a_row_for_each_run() -> None:
    out = io.StringIO()
    Console(file=out, width=120).print(grading_view(Costs((ONE, TWO), Autograde(4, 9.6))))
    assert "--workers 1" in out.getvalue() and "1.67 times as fast" in out.getvalue()
    assert "L10.1 1.50" in out.getvalue() and "1.5 s each are asked for: met" in out.getvalue()


def test_nbgraders_failure_is_told(tmp_path: Path) -> None:
    with pytest.raises(grading.NbgraderFailed, match="nbgrader autograde ended"):
        grading._nbgrader(tmp_path, "autograde", "no_such_assignment")


@pytest.mark.slow
def test_nbgrader_runs_the_same_notebooks(tmp_path: Path) -> None:
    """Else the time beside ours would be that of something else: the right one has points, the wrong one fewer."""
    made = [each for each in grading.ordinary(8) if each.module.name == "radix_cache"]
    grading.write(made, tmp_path / "submitted")
    beside = grading._autograded(made, tmp_path, lambda *far: None)
    assert beside.notebooks == 2 and beside.each > 0
    with sqlite3.connect(tmp_path / "gradebook.db") as book:
        rows = book.execute(
            "select s.student_id, sum(coalesce(g.manual_score, g.auto_score, 0)) from grade g "
            "join submitted_notebook n on g.notebook_id = n.id "
            "join submitted_assignment s on n.assignment_id = s.id group by n.id"
        ).fetchall()
    points = dict(rows)
    right, wrong = sorted(made, key=lambda each: each.bug)
    assert points[right.student] > points[wrong.student] > 0


@pytest.mark.slow
def test_the_command_measures_and_the_exit_code_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["bench", "grade", "--n", "2", "--workers", "1", "--no-nbgrader", "--json", "--assert"]
    monkeypatch.setattr(grading, "LIMIT_S", 1e9)
    ran = CliRunner().invoke(app, arguments)
    data = json.loads(ran.stdout)
    assert ran.exit_code == 0 and data["within_limit"] and data["runs"][0]["submissions"] == 2
    assert list(data["runs"][0]["by_module"]) == ["L10.1", "ds.07"]
    monkeypatch.setattr(grading, "LIMIT_S", 0.0)
    monkeypatch.setattr(grading, "measure", lambda *_: Costs((ONE, TWO)))
    assert CliRunner().invoke(app, arguments).exit_code == 1

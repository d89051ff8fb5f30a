"""Two rooms: verdicts as in one process, one test's end takes no other's with it, and what a room is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autograder import implementations, samples
from autograder.catalogue import catalogue
from autograder.cli import app
from autograder.grading import grade
from autograder.judging import BY_CHANCE
from autograder.planted import PlantedBug, plant, planted_bugs
from autograder.reading import read
from autograder.remote import RoomDied, RoomTimeout, WireBroken
from autograder.rooms import Rooms, job_of, told
from autograder.running import Status, run_named
from autograder.sandbox import Sandbox, problem_here
from autograder.subject import Subject, load
from autograder.work import Limits, Remarks, Work
from course import modules
from course.modules import MODULES, Module

L84 = modules.find("L8.4")
FAST = Limits(test_s=20.0)


def notebook(path: Path, *sources: str) -> Path:
    cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")
    return path


def statuses(work: Work) -> dict[str, Status]:
    tests = [test.name for test in catalogue(work.submission.module)]
    verdicts = list(Rooms().verdicts(work, tests, Remarks()))
    assert not [verdict for verdict in verdicts if BY_CHANCE in verdict.message]
    return {verdict.test: verdict.status for verdict in verdicts}


# ---------------------------------------------------------------- the same verdicts as in one process


def in_process(subject: Subject) -> dict[str, Status]:
    return {test.name: run_named(test, subject).status for test in catalogue(subject.module)}


def pairs() -> Iterator[Any]:
    """Every planted bug; all but each module's first are marked slow."""
    for module in MODULES:
        for place, bug in enumerate(planted_bugs(module)):
            marks = [pytest.mark.slow] if place > 0 else []
            yield pytest.param(module, bug, id=f"{module.id} {bug.id}", marks=marks)


@pytest.mark.parametrize(("module", "bug"), list(pairs()))
def test_a_planted_bug_handed_in_has_the_verdicts_it_has_in_one_process(
    tmp_path: Path, module: Module, bug: PlantedBug
) -> None:
    source = plant(bug, implementations.reference_source(module))
    path = notebook(tmp_path / f"{module.name}.ipynb", source)
    found = statuses(Work(read(path, module), FAST))
    assert found == in_process(load(module, source, implementations.flat_below(module)))
    assert {test for test, status in found.items() if status is Status.FAILED} >= set(bug.caught_by)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.id)
def test_a_reference_handed_in_passes(tmp_path: Path, module: Module) -> None:
    path = notebook(tmp_path / f"{module.name}.ipynb", implementations.reference_source(module))
    assert set(statuses(Work(read(path, module), FAST)).values()) == {Status.PASSED}


# ---------------------------------------------------------------- what a room is told


def test_a_room_gets_cells_and_flat_models_and_no_model_of_the_module_itself(tmp_path: Path) -> None:
    path = notebook(tmp_path / "radix_cache.ipynb", "class RadixCache: pass", "y = = 1")
    job = job_of(Work(read(path, L84)))
    assert [part.module.name for part in job.parts] == ["radix_tree", "radix_cache"]
    assert [cell.place for cell in job.parts[0].cells] == ["flat model of radix_tree"]
    assert [cell.source for cell in job.parts[1].cells] == ["class RadixCache: pass"]


def test_earlier_work_takes_the_place_of_a_flat_model(tmp_path: Path) -> None:
    tree = read(notebook(tmp_path / "radix_tree.ipynb", "class RadixTree: pass"), modules.find("radix_tree"))
    path = notebook(tmp_path / "radix_cache.ipynb", "class RadixCache: pass")
    job = job_of(Work(read(path, L84), earlier={"radix_tree": tree}))
    assert [cell.source for cell in job.parts[0].cells] == ["class RadixTree: pass"]


@pytest.mark.parametrize(
    ("trouble", "status", "sentence"),
    [
        (RoomTimeout(2.0), Status.TIMED_OUT, "No end within 2 s."),
        (RoomDied(Status.OUT_OF_MEMORY, "Memory ran out"), Status.OUT_OF_MEMORY, "Memory ran out."),
        (WireBroken("the process answered out of turn"), Status.DIED, "The process answered out of turn."),
    ],
)
def test_a_rooms_end_is_a_verdict(trouble: Any, status: Status, sentence: str) -> None:
    assert told(trouble) == (status, sentence)


# ---------------------------------------------------------------- isolation


def test_a_report_says_whether_the_room_was_isolated() -> None:
    sample = samples.samples()[0].path
    assert "not isolated" in grade(sample, L84, room=Rooms(Sandbox.OFF)).isolation
    isolated = grade(sample, L84).isolation
    assert isolated.startswith("not isolated" if problem_here() else "isolated")


def test_without_isolation_where_it_is_required_nothing_is_graded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.sandbox.problem_here", lambda: "bubblewrap is not installed (the program bwrap)")
    sample = str(samples.samples()[0].path)
    ran = CliRunner().invoke(app, ["check", "L8.4", sample, "--sandbox", "require"])
    assert ran.exit_code == 2 and "bubblewrap is not installed" in ran.stderr and "Nothing was graded" in ran.stderr


def test_the_time_for_all_tests_ends_all(tmp_path: Path) -> None:
    path = notebook(
        tmp_path / "radix_cache.ipynb", "class RadixCache:\n    def __init__(self, n):\n        while True: pass"
    )
    work = Work(read(path, L84), Limits(test_s=1.0, total_s=2.5))
    tests = [test.name for test in catalogue(L84)]
    verdicts = list(Rooms().verdicts(work, tests, Remarks()))
    assert {verdict.status for verdict in verdicts} == {Status.TIMED_OUT} and len(verdicts) == len(tests)
    assert verdicts[-1].message == "The 2.5 s for the whole submission were used up."


# ---------------------------------------------------------------- what a check loads


def test_a_check_without_a_budget_loads_no_torch() -> None:
    program = (
        "import sys; from pathlib import Path; from autograder.grading import grade; from course import modules; "
        f"grade(Path({str(samples.samples()[0].path)!r}), modules.find('L8.4'), with_budget=True); "
        "print('torch' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=implementations.SOLUTIONS.parent
    )
    assert ran.stdout.strip() == "False", ran.stderr

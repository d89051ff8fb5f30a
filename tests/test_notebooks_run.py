"""The notebooks in a kernel: the instructor's edition from top to bottom, the student's up to the first exercise."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from editions import GRADED, NAMES, ROOT, built, code_of, nbgrader_of, run, shown, students, up_to_the_first_exercise
from nbclient.exceptions import CellExecutionError

from autograder.planted import planted_bugs
from course import modules

EXAMPLE = "radix_cache"
"""The one notebook that is run with the quick tests; the others run with the slow ones."""


def slow_but(names: list[str], *quick: str) -> list[Any]:
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_instructors_edition_runs_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    ran = run(built(name), tmp_path)
    outputs = {cell["id"]: cell["outputs"] for cell in ran.cells if cell["cell_type"] == "code"}
    assert not [output for given in outputs.values() for output in given if output.get("name") == "stderr"]
    if name in GRADED:
        bugs = len(planted_bugs(modules.find(name)))
        score = outputs["check-own-tests"]
        assert f"{bugs} of {bugs} planted bugs" in score[0]["data"]["text/plain"]
        assert score[-1]["output_type"] == "execute_result" and float(score[-1]["data"]["text/plain"]) == 20


@pytest.mark.parametrize("name", slow_but(list(NAMES), EXAMPLE))
def test_the_students_edition_runs_up_to_the_first_exercise(name: str, tmp_path: Path) -> None:
    notebook = up_to_the_first_exercise(students(name))
    text = shown(run(notebook, tmp_path))
    guesses = sum(cell["source"].count("\ncompare(") for cell in code_of(notebook))
    assert text.count("A guess first, right or wrong, helps to remember.") == guesses
    assert "can't be drawn" not in text and "can't be asked yet" not in text
    if name == EXAMPLE:
        for answer in ("It is 4.", "It is 2.", "It is (30, 31).", "It is [32].", "It is [11].", "[3 4]=11", "1 lock"):
            assert answer in text


def first_step(name: str) -> dict[str, Any]:
    """The student's edition cut down to its first cell, its first step and the look at it."""
    notebook = students(name)
    begin = next(cell for cell in code_of(notebook) if "begin(" in cell["source"])
    wanted = [cell for cell in notebook["cells"] if nbgrader_of(cell).get("grade_id") in ("step_1", "look_1")]
    return {**notebook, "cells": [begin, *wanted]}


@pytest.mark.parametrize("name", slow_but(GRADED, EXAMPLE))
def test_a_check_on_a_stub_fails_the_cell_with_a_helpful_sentence(name: str, tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match=r"CheckFailed: .*\w+: Not written yet: step 1: \w+\."):
        run(first_step(name), tmp_path)


@pytest.mark.parametrize("name", slow_but(GRADED, EXAMPLE))
def test_no_tests_are_no_valid_tests(name: str, tmp_path: Path) -> None:
    notebook = students(name)
    begin = next(cell for cell in code_of(notebook) if "begin(" in cell["source"])
    score = next(cell for cell in code_of(notebook) if nbgrader_of(cell).get("grade_id") == "check_own_tests")
    with pytest.raises(CellExecutionError, match="There are no tests"):
        run({**notebook, "cells": [begin, score]}, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_nbgrader_makes_the_students_edition(name: str, tmp_path: Path) -> None:
    course = tmp_path / "course"
    leave = shutil.ignore_patterns(".git", ".venv", ".*cache*", "__pycache__", "tests", "fixtures", "release")
    shutil.copytree(ROOT, course, ignore=leave)
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", name]
    made = subprocess.run(command, cwd=course, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    released = course / "release" / name
    assert [path.name for path in released.iterdir()] == [f"{name}.ipynb"]

    theirs, ours = nbformat.read(released / f"{name}.ipynb", as_version=4), students(name)
    for cell, expected in zip(theirs.cells, ours["cells"], strict=True):
        for added in ("checksum", "cell_type"):
            cell.metadata.get("nbgrader", {}).pop(added, None)
        assert (cell.id, cell.source, cell.metadata) == (expected["id"], expected["source"], expected["metadata"])

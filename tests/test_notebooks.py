"""The notebooks: built from their text, sound for nbgrader, and run from top to bottom."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbgrader.nbgraderformat.v3 import MetadataValidatorV3

from autograder.catalogue import catalogue
from autograder.implementations import flat_below
from autograder.planted import planted_bugs
from autograder.running import run_named
from autograder.subject import load
from course import modules
from notebooks import build, sources, stubs

ROOT = Path(__file__).resolve().parent.parent
NAMES = build.names()
GRADED = [name for name in NAMES if name in {module.name for module in modules.MODULES}]

each = pytest.mark.parametrize("name", NAMES)
each_graded = pytest.mark.parametrize("name", GRADED)


def nbgrader_of(cell: dict[str, Any]) -> dict[str, Any]:
    return cell["metadata"].get("nbgrader", {})


def solution_of(notebook: dict[str, Any], but: str = "") -> str:
    """What a submission's solution cells hold, one after the other, without one of them."""
    cells = (cell for cell in notebook["cells"] if nbgrader_of(cell).get("solution"))
    return "\n\n".join(cell["source"] for cell in cells if nbgrader_of(cell)["grade_id"] != but)


def run(notebook: dict[str, Any], folder: Path) -> Any:
    """Execute a notebook in a fresh kernel, in a folder of its own."""
    node = nbformat.from_dict(notebook)
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (str(ROOT), before) if part)
    try:
        NotebookClient(node, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    finally:
        os.environ["PYTHONPATH"] = before
    return node


def until(notebook: dict[str, Any], grade_id: str) -> dict[str, Any]:
    """The notebook up to and with this cell."""
    place = next(i for i, cell in enumerate(notebook["cells"]) if nbgrader_of(cell).get("grade_id") == grade_id)
    return {**notebook, "cells": notebook["cells"][: place + 1]}


def test_there_is_the_notebook_of_l8_4() -> None:
    assert "radix_cache" in GRADED


# ---------------------------------------------------------------- built as the text says


@each
def test_the_built_notebook_is_what_its_text_gives(name: str) -> None:
    written = build.notebook_path(name).read_text(encoding="utf-8")
    assert written == build.as_text(build.build(name)), "run python -m notebooks.build"


@each
def test_a_built_notebook_is_valid_and_without_outputs(name: str) -> None:
    notebook = build.build(name)
    nbformat.validate(nbformat.from_dict(notebook))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None


@each
def test_nbgrader_finds_nothing_to_object_to(name: str) -> None:
    for edition in (build.build(name), build.student_notebook(name)):
        MetadataValidatorV3().validate_nb(nbformat.from_dict(edition))


@each
def test_ids_are_unique_and_those_of_nbgraders_cells_are_their_grade_ids(name: str) -> None:
    cells = build.build(name)["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        if "nbgrader" in cell["metadata"]:
            assert cell["id"] == nbgrader_of(cell)["grade_id"].replace("_", "-")


def test_ids_stay_when_the_text_around_them_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (build.HERE / "radix_cache" / "radix_cache.md").read_text(encoding="utf-8")
    monkeypatch.setattr(build, "HERE", tmp_path)
    (tmp_path / "radix_cache").mkdir()
    source = tmp_path / "radix_cache" / "radix_cache.md"
    source.write_text(text, encoding="utf-8")
    before = [cell["id"] for cell in build.build("radix_cache")["cells"]]
    source.write_text(text.replace("## 1. Why now\n", "## 0. New\n\nMore.\n\n+++\n\n## 1. Why now\n\nMore.\n"))
    after = [cell["id"] for cell in build.build("radix_cache")["cells"]]
    assert set(before) < set(after) and set(after) - set(before) == {"0-new-1"}


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (":grade_id: a\n:role: answer\n\npass", "role 'answer' is none of"),
        (":grade_id: a\n:role: solution\n:point: 3\n\npass", "unknown options point"),
        (":points: 3\n\npass", "needs a grade_id"),
        ("{{ step 1: RadixCache.matchprefix }}", "does not define RadixCache.matchprefix"),
        ("{{ step 1: Cache.insert }}", "does not define Cache.insert"),
        ("{{ own tests: test_nothing }}", "does not define test_nothing"),
        ("{{ steps: RadixCache.insert }}", "not a reference"),
    ],
)
def test_a_text_that_cant_be_built_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cell: str, said: str
) -> None:
    monkeypatch.setattr(build, "HERE", tmp_path)
    (tmp_path / "radix_cache").mkdir()
    head = "---\njupytext:\n  text_representation:\n    extension: .md\n    format_name: myst\n---\n\n"
    (tmp_path / "radix_cache" / "radix_cache.md").write_text(f"{head}```{{code-cell}} ipython3\n{cell}\n```\n")
    with pytest.raises(build.BadSource, match=re.escape(said)):
        build.build("radix_cache")


def test_check_writes_nothing_and_says_what_is_out_of_date(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(build.HERE / "radix_cache", tmp_path / "radix_cache", ignore=shutil.ignore_patterns(".*"))
    monkeypatch.setattr(build, "HERE", tmp_path)
    assert build.main(["--check"]) == 0
    built = tmp_path / "radix_cache" / "radix_cache.ipynb"
    built.write_text("{}")
    assert build.main(["--check"]) == 1 and built.read_text() == "{}"
    assert "radix_cache: out of date" in capsys.readouterr().out
    assert build.main([]) == 0 and build.main(["--check"]) == 0


# ---------------------------------------------------------------- solutions and stubs


@each_graded
def test_the_solution_cells_are_a_right_implementation(name: str) -> None:
    module = modules.find(name)
    subject = load(module, solution_of(build.build(name), but="own_tests"), flat_below(module))
    verdicts = [run_named(test, subject) for test in catalogue(module)]
    assert [verdict for verdict in verdicts if not verdict.passed] == []


@each_graded
def test_the_stubs_pass_no_test_and_name_their_step(name: str) -> None:
    module = modules.find(name)
    source = solution_of(build.student_notebook(name), but="own_tests")
    subject = load(module, source, flat_below(module))
    assert [test.name for test in catalogue(module) if run_named(test, subject).passed] == []
    raised = re.findall(r"raise NotImplementedError\((.*)\)", source)
    assert raised and all(re.fullmatch(r'"step \d+: \w+"', what) for what in raised)


@each_graded
def test_no_line_of_a_solution_is_left_in_the_students_edition(name: str) -> None:
    student = json.dumps(build.student_notebook(name))
    solution = solution_of(build.build(name), but="own_tests")
    bodies = re.findall(r"### BEGIN SOLUTION.*?\n(.*?)### END SOLUTION", solution, re.DOTALL)
    lines = {line.strip() for body in bodies for line in body.splitlines() if len(line.strip()) > 30}
    assert len(lines) > 10
    assert [line for line in lines if json.dumps(line)[1:-1] in student] == []
    assert "SOLUTION" not in student


def test_regions_are_cleared_where_they_stand() -> None:
    region = stubs.marked("return 1\n\nreturn 2", "step 2: insert")
    source = f"class A:\n    def insert(self):\n        {region.replace(chr(10), chr(10) + '        ')}\n\n    x = 1"
    assert stubs.cleared(source) == (
        "class A:\n    def insert(self):\n        # YOUR CODE HERE\n"
        '        raise NotImplementedError("step 2: insert")\n\n    x = 1'
    )
    assert stubs.cleared(stubs.marked("def test_a(): pass")) == "# YOUR CODE HERE"


def test_a_reference_keeps_signature_and_docstring_outside_the_region() -> None:
    filled = sources.filled("class RadixCache:\n    {{ step 4: RadixCache.unlock }}", "radix_cache")
    head, _, body = filled.partition("        ### BEGIN SOLUTION step 4: unlock\n")
    assert 'def unlock(self, node: NodeId) -> None:\n        """' in head and head.startswith("class RadixCache:\n")
    assert body == "        self.tree.unlock(node)\n        ### END SOLUTION"


# ---------------------------------------------------------------- points and contents


@each_graded
def test_points_sum_to_100_and_every_named_test_has_a_cell(name: str) -> None:
    graded = {nbgrader_of(c)["grade_id"]: c for c in build.build(name)["cells"] if nbgrader_of(c).get("grade")}
    assert sum(nbgrader_of(cell)["points"] for cell in graded.values()) == 100
    tests = [test.name for test in catalogue(modules.find(name))]
    assert set(graded) == {f"check_{test}" for test in tests} | {"check_own_tests"}
    for test in tests:
        assert graded[f"check_{test}"]["source"] == f'check("{test}")'
    points = nbgrader_of(graded["check_own_tests"])["points"]
    assert graded["check_own_tests"]["source"] == f"score_own_tests(points={points})"


@each_graded
def test_the_pitfalls_are_the_planted_bugs(name: str) -> None:
    prose = "\n".join(cell["source"] for cell in build.build(name)["cells"] if cell["cell_type"] == "markdown")
    assert [
        bug.title for bug in planted_bugs(modules.find(name)) if f"| {bug.title} | {bug.symptom} |" not in prose
    ] == []


# ---------------------------------------------------------------- run


@each
def test_the_instructors_edition_runs_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    ran = run(build.build(name), tmp_path)
    outputs = {cell["id"]: cell["outputs"] for cell in ran.cells if cell["cell_type"] == "code"}
    assert not [output for shown in outputs.values() for output in shown if output.get("name") == "stderr"]
    score = outputs["check-own-tests"]
    assert "12 of 12 planted bugs" in score[0]["data"]["text/plain"]
    assert score[-1]["output_type"] == "execute_result" and float(score[-1]["data"]["text/plain"]) == 20


def test_the_students_edition_runs_up_to_the_first_exercise(tmp_path: Path) -> None:
    notebook = until(build.student_notebook("radix_cache"), "own_tests")
    ran = run(notebook, tmp_path)
    text = "\n".join(
        output["data"]["text/plain"] for cell in ran.cells for output in cell.get("outputs", []) if "data" in output
    )
    for shown in ("It is 4.", "It is 2.", "It is (30, 31).", "It is [32].", "It is [11].", "[3 4]=11", "1 lock"):
        assert shown in text
    with pytest.raises(CellExecutionError, match="There are no tests"):
        run(until(build.student_notebook("radix_cache"), "check_own_tests"), tmp_path)


def test_a_check_on_a_stub_fails_the_cell_with_a_helpful_sentence(tmp_path: Path) -> None:
    notebook = build.student_notebook("radix_cache")
    notebook["cells"] = [c for c in notebook["cells"] if nbgrader_of(c).get("grade_id") != "check_own_tests"]
    with pytest.raises(
        CellExecutionError, match="CheckFailed: a_new_cache_is_empty: Not written yet: step 1: __init__"
    ):
        run(until(notebook, "look_1"), tmp_path)


@pytest.mark.slow
def test_nbgrader_makes_the_students_edition(tmp_path: Path) -> None:
    course = tmp_path / "course"
    leave = shutil.ignore_patterns(".git", ".venv", ".*cache*", "__pycache__", "tests", "fixtures", "release")
    shutil.copytree(ROOT, course, ignore=leave)
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", "radix_cache"]
    made = subprocess.run(command, cwd=course, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    released = course / "release" / "radix_cache"
    assert [path.name for path in released.iterdir()] == ["radix_cache.ipynb"]

    theirs, ours = nbformat.read(released / "radix_cache.ipynb", as_version=4), build.student_notebook("radix_cache")
    for cell, expected in zip(theirs.cells, ours["cells"], strict=True):
        for added in ("checksum", "cell_type"):
            cell.metadata.get("nbgrader", {}).pop(added, None)
        assert (cell.id, cell.source, cell.metadata) == (expected["id"], expected["source"], expected["metadata"])

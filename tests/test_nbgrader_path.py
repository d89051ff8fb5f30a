"""nbgrader's whole path in a fresh folder, command by command, and the fixture class in its gradebook."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory

from autograder import implementations
from autograder.classroom import points, store
from autograder.classroom.rows import State
from autograder.planted import plant, planted_bugs
from course.modules import MODULES
from notebooks import build
from tests.nbgrader_at_hand import CACHE, CLASS, ROOT, config_of, converted, release, scores_of

GRADED = [module for module in MODULES if module.name in build.names()]

pytestmark = pytest.mark.slow


def in_shell(folder: Path, home: Path, *words: str, fails: bool = False) -> str:
    """What a command says, run in a folder by somebody with this home. Its exit code must be 0, or `fails` 1."""
    env = {**os.environ, "HOME": str(home), "JUPYTER_CONFIG_DIR": str(home / "jupyter"), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-m", *words], cwd=folder, env=env, capture_output=True, text=True)
    assert ran.returncode == int(fails), f"{words}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout + ran.stderr


@pytest.fixture
def course(tmp_path: Path) -> Path:
    folder = tmp_path / "course"
    folder.mkdir()
    return folder


def answered(released: dict[str, Any]) -> dict[str, Any]:
    """The released notebook, with an answer that never releases what a request has locked."""
    bug = next(bug for bug in planted_bugs(CACHE) if bug.id == "s08")
    answers = {"step_1": plant(bug, implementations.reference_source(CACHE))}
    own = {cell["metadata"]["nbgrader"]["grade_id"]: cell for cell in build.build(CACHE.name)["cells"] if _label(cell)}
    for cell in released["cells"]:
        name = _label(cell).get("grade_id", "")
        if _label(cell).get("solution"):
            given = own[name]["source"] if name.startswith("own_tests") else ""
            cell["source"] = answers.get(name, given)
    return released


def _label(cell: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = cell["metadata"].get("nbgrader", {})
    return found


def test_from_a_fresh_folder_to_the_exported_table(course: Path, tmp_path: Path) -> None:
    exchange, student = tmp_path / "exchange", tmp_path / "student"
    for folder in (exchange, student):
        folder.mkdir()
    exchange.chmod(0o777)
    shutil.copy(ROOT / "nbgrader_config.py", course)
    shutil.copytree(ROOT / "notebooks", course / "notebooks")

    def nbgrader(*words: str, by: Path = course) -> str:
        return in_shell(by, tmp_path, "nbgrader", *words, f"--Exchange.root={exchange}")

    nbgrader("generate_assignment", "radix_cache")
    nbgrader("release_assignment", "radix_cache")
    nbgrader("fetch_assignment", "radix_cache", "--course", "kv-cache-course", by=student)
    work = student / "radix_cache" / "radix_cache.ipynb"
    fetched = json.loads(work.read_text(encoding="utf-8"))
    assert "NotImplementedError" in json.dumps(fetched) and "BEGIN SOLUTION" not in json.dumps(fetched)
    work.write_text(json.dumps(answered(fetched)), encoding="utf-8")
    nbgrader("submit", "radix_cache", "--course", "kv-cache-course", by=student)
    nbgrader("collect", "radix_cache")
    nbgrader("autograde", "radix_cache")
    nbgrader("generate_feedback", "radix_cache")
    nbgrader("release_feedback", "radix_cache")
    nbgrader("fetch_feedback", "radix_cache", "--course", "kv-cache-course", by=student)
    nbgrader("export")

    (name,) = (path.name for path in (course / "submitted").iterdir())
    result = store.read(course / "grades")[0][name, CACHE.id]
    assert 0 < result.score < 100 and result.points["own_tests"] == result.worth["own_tests"]
    assert scores_of(course, name, CACHE) == result.points
    (page,) = (student / "radix_cache" / "feedback").rglob("*.html")
    text = page.read_text(encoding="utf-8")
    assert "a_locked_prefix_survives_eviction: failed" in text and "planted bugs (100%, 80% needed)" in text
    with (course / "grades.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["student_id"], float(row["score"]), float(row["max_score"])) == (name, result.score, result.most)


def test_what_one_command_graded_the_other_does_not_grade_again(course: Path, tmp_path: Path) -> None:
    shutil.copytree(CLASS / "hostile-equal", course / "submitted" / "hostile-equal")
    release(course, ["radix_cache"])
    in_shell(course, tmp_path, "autograder.cli", "grade", "submitted", "--module", "L8.4", "--no-pages")
    verdicts = (course / "grades" / "verdicts.jsonl").read_bytes()
    in_shell(course, tmp_path, "nbgrader", "autograde", "radix_cache")
    assert (course / "grades" / "verdicts.jsonl").read_bytes() == verdicts
    assert scores_of(course, "hostile-equal", CACHE)


def test_the_command_fails_where_a_submission_could_not_be_graded(course: Path, tmp_path: Path) -> None:
    shutil.copytree(CLASS / "hostile-equal", course / "submitted" / "hostile-equal")
    release(course, ["radix_cache"])
    (course / "grades").mkdir()
    (course / "grades" / "verdicts.jsonl").symlink_to(tmp_path / "elsewhere")
    said = in_shell(course, tmp_path, "nbgrader", "autograde", "radix_cache", fails=True)
    assert "verdicts.jsonl can't be opened" in said and not list((course / "autograded").rglob("*.ipynb"))


def test_the_whole_class_has_the_scores_of_ol_grade_in_the_gradebook(course: Path, tmp_path: Path) -> None:
    shutil.copytree(CLASS, course / "submitted")
    release(course, [module.name for module in GRADED])
    asked = [word for module in GRADED for word in ("--module", module.id)]
    # Files that can't be read are in the class, and the exit code says so.
    in_shell(course, tmp_path, "autograder.cli", "grade", "submitted", "--no-pages", *asked, fails=True)
    results, _ = store.read(course / "grades")
    for module in GRADED:
        converted("Autograde", course, module.name)
        rows = {result.student: result for (_, name), result in results.items() if name == module.id}
        for student, result in rows.items():
            try:
                assert scores_of(course, student, module) == result.points, student
            except MissingEntry:  # nbgrader knows nothing of who has no notebook
                assert result.state is State.NOT_SUBMITTED and result.score == 0
        config = config_of(course)
        shown = NbGraderAPI(CourseDirectory(config=config), config=config).get_submissions(module.name)
        told = {row["student"]: (row["score"], row["max_score"]) for row in shown if row["autograded"]}
        most = sum(points.worth(module).values())
        assert told == {student: (pytest.approx(rows[student].score), most) for student in told}
        assert {student for student, row in rows.items() if row.score} <= set(told)
        converted("GenerateFeedback", course, module.name)
        pages = {path.parent.parent.name for path in (course / "feedback").glob(f"*/{module.name}/*.html")}
        assert pages == set(told)
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        assert not any(submission.needs_manual_grade for submission in gradebook.db.query(_submissions()))


def _submissions() -> Any:
    from nbgrader.api import SubmittedAssignment

    return SubmittedAssignment

"""Through nbgrader's own steps: whatever was handed in, each check has its score in the gradebook and its reason."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook
from nbgrader.converters.base import NbGraderException

from autograder import nbgrader_outputs, nbgrader_plugin
from autograder.catalogue import catalogue
from autograder.classroom import points
from autograder.classroom.executors import Crew
from autograder.classroom.tasks import Outcome, Task, grade_task
from autograder.nbgrader_outputs import is_check
from course.modules import find
from notebooks import build
from tests.class_at_hand import here
from tests.nbgrader_at_hand import (
    CACHE,
    CLASS,
    autograded,
    converted,
    hand_in,
    release,
    report_of,
    scores_of,
    text_of,
    verdict,
)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course folder with the radix cache released, and nobody's work."""
    folder = tmp_path_factory.mktemp("course")
    release(folder, ["radix_cache"])
    return folder


@pytest.fixture
def course(released: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(released, tmp_path / "course"))


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Crew:
    """Grades everything alike: one named test is lost, 9 of 12 bugs are caught."""
    crew = here(verdict)
    monkeypatch.setattr(nbgrader_plugin.SubmissionExporter, "crew", crew)
    return crew


def without(book: dict[str, Any], *, labels: bool) -> dict[str, Any]:
    """A notebook without its checks, or with nothing but text."""
    cells = [cell for cell in book["cells"] if labels or not is_check(cell)]
    return {**book, "cells": [{**cell, "metadata": {}} if labels else cell for cell in cells]}


def tampered(book: dict[str, Any]) -> dict[str, Any]:
    """Every check is an answer, is worth 1000 points, has been passed, and is followed by a copy of itself."""
    cells = []
    for cell in book["cells"]:
        if is_check(cell):
            marks = {**cell["metadata"]["nbgrader"], "grade": False, "solution": True, "locked": False, "points": 1000}
            value = {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": {"text/plain": "1"}}
            cell = {**cell, "metadata": {"nbgrader": marks}, "outputs": [value], "source": "pass"}
            cells.append(cell)
        cells.append(cell)
    return {**book, "cells": cells}


def half_a_character(book: dict[str, Any]) -> dict[str, Any]:
    extra = {"cell_type": "code", "metadata": {}, "source": ["text = '\ud800'"], "outputs": [], "execution_count": 1}
    odd = {"cell_type": "heading", "metadata": "none", "source": "### BEGIN HIDDEN TESTS"}
    return {**book, "cells": [extra, odd, *book["cells"]]}


HANDED_IN = {
    "as it was released": (lambda book: book, ""),
    "without checks": (lambda book: without(book, labels=False), ""),
    "without labels": (lambda book: without(book, labels=True), ""),
    "tampered with": (tampered, ""),
    "half a character": (half_a_character, ""),
    "of an older format": (
        lambda book: {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": book["cells"]}]},
        "",
    ),
    "under another name": (lambda book: book, "Kopie von radix_cache (2).ipynb"),
}


@pytest.mark.parametrize("how", HANDED_IN)
def test_each_check_gets_its_score_whatever_became_of_the_notebook(course: Path, crew: Crew, how: str) -> None:
    change, name = HANDED_IN[how]
    hand_in(course, "ann", CACHE, change(build.student_notebook("radix_cache")), name)
    converted("Autograde", course, "radix_cache")
    expected = points.points(CACHE, report_of(CACHE, [catalogue(CACHE)[0].name], caught=9))
    assert scores_of(course, "ann", CACHE) == expected and len(crew.executor.calls) == 1  # type: ignore[attr-defined]
    converted("GenerateFeedback", course, "radix_cache")
    page = (course / "feedback" / "ann" / "radix_cache" / "radix_cache.html").read_text(encoding="utf-8")
    assert f"why {catalogue(CACHE)[0].name} is lost" in page and "a bug that got away" in page


@pytest.mark.parametrize("text", ["", '{"cells": [', "[]", '{"nbformat": 4, "cells": [1]}', '{"nbformat": 99}'])
def test_a_file_that_can_not_be_read_gets_nothing_and_says_why(course: Path, crew: Crew, text: str) -> None:
    hand_in(course, "ann", CACHE, text)
    converted("Autograde", course, "radix_cache")
    assert set(scores_of(course, "ann", CACHE).values()) == {0.0}
    assert "radix_cache.ipynb" in text_of(autograded(course, "ann", CACHE).cells[0])


def test_a_link_is_not_followed(course: Path, crew: Crew, tmp_path: Path) -> None:
    secret = tmp_path / "solution.ipynb"
    secret.write_text(build.as_text(build.build("radix_cache")).replace("RadixCache", "SecretCache"))
    hand_in(course, "ann", CACHE, "")
    work = course / "submitted" / "ann" / "radix_cache" / "radix_cache.ipynb"
    work.unlink()
    work.symlink_to(secret)
    converted("Autograde", course, "radix_cache")
    shown = autograded(course, "ann", CACHE)
    assert set(scores_of(course, "ann", CACHE).values()) == {0.0}
    assert "is a link" in text_of(shown.cells[0]) and "SecretCache" not in str(shown)


def test_a_files_name_is_shown_as_text(course: Path, crew: Crew) -> None:
    hand_in(course, "ann", CACHE, "{", "<img src=x onerror=alert(1)> radix_cache.ipynb")
    converted("Autograde", course, "radix_cache")
    converted("GenerateFeedback", course, "radix_cache")
    page = (course / "feedback" / "ann" / "radix_cache" / "radix_cache.html").read_text(encoding="utf-8")
    assert "&lt;img src=x" in page and "<img" not in page


def test_what_is_known_is_not_graded_again_and_a_late_penalty_and_a_graders_score_stay(
    course: Path, crew: Crew
) -> None:
    hand_in(course, "ann", CACHE, build.student_notebook("radix_cache"))
    converted("Autograde", course, "radix_cache")
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        notebook = gradebook.find_submission_notebook("radix_cache", "radix_cache", "ann")
        notebook.late_submission_penalty = 5.0
        grade = gradebook.find_grade("check_own_tests", "radix_cache", "radix_cache", "ann")
        grade.manual_score = 20.0
        gradebook.db.commit()
    shutil.rmtree(course / "autograded")
    converted("Autograde", course, "radix_cache")
    assert len(crew.executor.calls) == 1  # type: ignore[attr-defined]
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        grade = gradebook.find_grade("check_own_tests", "radix_cache", "radix_cache", "ann")
        assert (grade.score, grade.needs_manual_grade) == (20.0, True)


def test_a_submission_stands_on_the_same_students_earlier_assignments(course: Path, crew: Crew) -> None:
    hand_in(course, "ann", find("radix_tree"), {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []})
    hand_in(course, "ann", CACHE, build.student_notebook("radix_cache"))
    hand_in(course, "bo", CACHE, build.student_notebook("radix_cache"))
    converted("Autograde", course, "radix_cache")
    ann, bo = crew.executor.calls  # type: ignore[attr-defined]
    assert set(ann.earlier) == {"radix_tree"} and set(bo.earlier) == set()


def test_a_submission_that_could_not_be_graded_is_no_zero_and_the_command_fails(
    course: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def dies(task: Task) -> Outcome:
        if b"ill-fated" in task.work.data:
            raise RuntimeError("the machine went away")
        return verdict(task)

    monkeypatch.setattr(nbgrader_plugin.SubmissionExporter, "crew", here(dies))
    book = build.student_notebook("radix_cache")
    hand_in(course, "ann", CACHE, {**book, "metadata": {"ill-fated": 1}})
    hand_in(course, "bo", CACHE, book)
    with caplog.at_level(logging.ERROR), pytest.raises(NbGraderException):
        converted("Autograde", course, "radix_cache")
    assert "the machine went away" in caplog.text
    assert not (course / "autograded" / "ann" / "radix_cache").exists()
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        grades = gradebook.find_submission_notebook("radix_cache", "radix_cache", "ann").grades
        assert {grade.auto_score for grade in grades} == {None}
    assert sum(score or 0.0 for score in scores_of(course, "bo", CACHE).values()) > 0


def test_an_assignment_that_is_no_module_is_neither_run_nor_given_points(course: Path, crew: Crew) -> None:
    folder = course / "notebooks" / "extra"
    folder.mkdir()
    shutil.copy(build.notebook_path("radix_cache"), folder / "extra.ipynb")
    converted("GenerateAssignment", course, "extra", student_id=".")
    place = course / "submitted" / "ann" / "extra"
    place.mkdir(parents=True)
    shutil.copy(folder / "extra.ipynb", place)
    with pytest.raises(NbGraderException):
        converted("Autograde", course, "extra")
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        assert gradebook.find_submission("extra", "ann").score == 0
    assert crew.executor.calls == []  # type: ignore[attr-defined]


# ---------------------------------------------------------------- with real verdicts

QUICK = ("unreadable", "hostile-equal", "two attempts")


@pytest.fixture(scope="module")
def some_graded(released: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    course = Path(shutil.copytree(released, tmp_path_factory.mktemp("graded") / "course"))
    for student in QUICK:
        shutil.copytree(CLASS / student, course / "submitted" / student)
    converted("Autograde", course, "radix_cache")
    yield course


def test_the_gradebook_has_the_scores_of_ol_grade(some_graded: Path) -> None:
    from autograder.classroom.grading_run import Settings, grade_class

    crew = here(lambda task: pytest.fail("graded again") if task.work.data else grade_task(task))
    graded = grade_class(some_graded / "submitted", some_graded / "grades", [CACHE], Settings(), crew)
    for result in graded.results:
        assert scores_of(some_graded, result.student, CACHE) == result.points
    totals = {result.student: result.score for result in graded.results}
    assert totals["unreadable"] == totals["hostile-equal"] == 0 and totals["two attempts"] == 100


def test_the_page_with_feedback_has_the_reason(some_graded: Path) -> None:
    converted("GenerateFeedback", some_graded, "radix_cache")
    reasons = {"unreadable": "is empty", "hostile-equal": "It checks: ", "two attempts": "radix_cache-attempt1.ipynb"}
    for student, reason in reasons.items():
        page = some_graded / "feedback" / student / "radix_cache" / "radix_cache.html"
        text = page.read_text(encoding="utf-8")
        assert reason in text and nbgrader_outputs.HEADING.removeprefix("# ") in text

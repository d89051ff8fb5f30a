"""`ol demo grade`: what is shown of the sample class, and that a verdict that should not be is noticed."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autograder import class_demo, class_samples
from autograder.class_demo import found_wrong
from autograder.class_samples import ACCEPTED, Piece, Student
from autograder.classroom.rows import Class, Result, State
from autograder.cli import app

STUDENTS, MODULES = class_samples.chosen()


def report(piece: Piece) -> dict[str, Any]:
    """A report as class.toml wants it."""
    expects = piece.expects
    named = [
        {"test": test, "status": expects.status, "message": expects.says}
        for test in (*expects.fails, "some_other_test")
    ]
    own = {
        "passed": expects.own == ACCEPTED,
        "valid": expects.own != "invalid",
        "reason": "",
        "caught": 3,
        "planted": 12,
    }
    return {"named_tests": named, "own_tests": own, "remarks": [], "passed": False}


def result(student: Student, module: str) -> Result:
    """A result as class.toml wants it."""
    piece = next((each for each in reversed(student.pieces) if each.module.id == module), None)
    bare = Result(student.id, module, "", State.NOT_SUBMITTED, points={"a": 1.0}, worth={"a": 2.0})
    if piece is None:
        return bare
    if piece.on_disk:
        return replace(bare, state=State.UNREADABLE, notes=(piece.expects.says,))
    return replace(bare, state=State.GRADED, report=report(piece))


def as_it_should_be() -> Class:
    ids = tuple(module.id for module in MODULES)
    return Class("class", ids, tuple(result(student, module) for student in STUDENTS for module in ids))


def test_the_part_that_is_shown_has_every_kind_in_it() -> None:
    shown = [piece for student in STUDENTS for piece in student.pieces if piece.module in MODULES]
    assert 8 <= len(shown) <= 14
    assert any(piece.bug for piece in shown) and any(piece.hostile for piece in shown)
    assert {"passed", "failed", "timed out", "died", "can't be read"} <= {piece.expects.status for piece in shown}


def test_a_verdict_that_should_not_be_is_noticed() -> None:
    graded = as_it_should_be()
    assert found_wrong(graded, STUDENTS) == []
    first, *others = graded.results
    assert first.student == STUDENTS[0].id and first.state is State.GRADED
    for wrong, said in (
        (replace(first, state=State.NOT_SUBMITTED), "should be graded: not submitted"),
        (replace(first, report={**first.report, "named_tests": []}), "should pass every named test"),
    ):
        (problem,) = found_wrong(replace(graded, results=(wrong, *others)), STUDENTS)
        assert problem.startswith(f"{first.student}, {first.module}: ") and said in problem
    assert found_wrong(replace(graded, results=tuple(others)), STUDENTS) == [
        f"{first.student}, {first.module}: has no result"
    ]


def test_what_can_not_be_read_must_say_so() -> None:
    graded = as_it_should_be()
    silent = tuple(replace(each, notes=()) for each in graded.results)
    problems = found_wrong(replace(graded, results=silent), STUDENTS)
    assert len(problems) == 2 and all(problem.startswith("unreadable, ") for problem in problems)


@pytest.mark.parametrize("well", [True, False])
def test_what_is_shown(well: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graded = as_it_should_be() if well else replace(as_it_should_be(), results=as_it_should_be().results[1:])
    monkeypatch.setattr(class_demo, "_graded", lambda *_: graded)
    ran = CliRunner().invoke(app, ["demo", "grade", "--out", str(tmp_path)])
    assert ran.exit_code == (0 if well else 1), ran.output
    assert ("Every verdict is as it should be." if well else "Not as it should be: right-1, L10.1") in ran.stdout
    shown = " ".join(ran.stdout.split())
    for student in STUDENTS:
        assert student.id in shown
    assert str(tmp_path / "class" / "class.html") in ran.stdout.replace("\n", "")
    assert "\x1b" not in ran.stdout


def test_another_word_is_refused() -> None:
    ran = CliRunner().invoke(app, ["demo", "class"])
    assert ran.exit_code == 2 and "there is no demo called class" in ran.stderr


@pytest.mark.slow
def test_the_demo_grades_a_part_of_the_class_and_shows_it(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["demo", "grade", "--out", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    out = tmp_path / "class"
    rows = list(csv.DictReader((out / "grades.csv").read_text(encoding="utf-8-sig").splitlines()))
    assert len(rows) == len(STUDENTS)
    assert "<html" in (out / "class.html").read_text(encoding="utf-8")
    assert len(list((out / "students").glob("*.html"))) == len(STUDENTS)

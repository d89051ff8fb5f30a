"""The sample class: its files are what class.toml gives, and each comes out as class.toml says."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from autograder import class_notebooks, class_samples, class_suites, samples
from autograder.class_samples import ACCEPTED, FOLDER, INVALID, SHORT, Piece, surprise
from autograder.grading import grade
from autograder.report import as_data
from autograder.sandbox import problem_here
from autograder.work import Limits
from course.modules import MODULES, find

SHORT_LIMITS = Limits(test_s=2.0)
"""For what never ends: each test that meets it takes all of its time."""

MEGABYTE = 1 << 20
LEAST_PITFALLS = 8

QUICK = (
    ("right-flat", "L8.4"),
    ("right-helpers", "L10.1"),
    ("right-classes", "L8.4"),
    ("tests-weak", "L10.1"),
    ("tests-invalid", "L8.4"),
    ("pitfall-last-token", "L10.4"),
    ("pitfall-first-owner", "ds.07"),
    ('<b>Zoë<br> & "co"', "L8.4"),
    ("unfinished", "L10.1"),
    ("unreadable", "ds.07"),
    ("hostile-exit", "L10.1"),
)


def known(piece: Piece) -> str:
    return f"{piece.student} {piece.module.id} {piece.file}"


def graded(piece: Piece) -> dict[str, Any]:
    endless = piece.hostile or piece.expects.status == "timed out" or piece.more_tests == "endless"
    return as_data(grade(piece.path, piece.module, SHORT_LIMITS if endless else Limits()))


# ---------------------------------------------------------------- the files


def test_the_folder_holds_what_class_toml_gives() -> None:
    wanted = class_samples.files()
    there = {path.relative_to(FOLDER) for path in FOLDER.rglob("*") if path.is_file()}
    assert there == set(wanted), "run python -m autograder.samples"
    stale = [str(path) for path, data in wanted.items() if (FOLDER / path).read_bytes() != data]
    assert not stale, f"run python -m autograder.samples: {stale}"


def test_the_three_samples_are_what_the_notebook_gives() -> None:
    from notebooks import build

    finished = build.build(samples.MODULE.name)
    for sample in samples.samples():
        assert sample.path.read_text(encoding="utf-8") == samples.text_of(sample, finished), sample.name


def test_the_folder_is_small() -> None:
    sizes = [path.stat().st_size for path in class_samples.SUBMISSIONS.rglob("*") if path.is_file()]
    assert len(sizes) > 90 and sum(sizes) < 5 * MEGABYTE


def test_a_readable_file_is_a_small_notebook() -> None:
    """nbgrader's metadata is there unless it was lost, and there is no prose but the title."""
    for piece in class_samples.pieces():
        if piece.on_disk:
            continue
        cells = json.loads(piece.path.read_text(encoding="utf-8"))["cells"]
        assert [cell["cell_type"] for cell in cells].count("markdown") == 1, known(piece)
        labels = [cell["metadata"]["nbgrader"]["grade_id"] for cell in cells if cell["metadata"].get("nbgrader")]
        assert bool(labels) != ("no metadata" in piece.damage), known(piece)
        assert len({cell["id"] for cell in cells}) == len(cells), known(piece)


@pytest.mark.slow
def test_notebooks_are_valid_to_nbformat() -> None:
    import nbformat

    for piece in class_samples.pieces():
        if not piece.on_disk:
            nbformat.validate(nbformat.read(piece.path, as_version=4))  # type: ignore[no-untyped-call]


# ---------------------------------------------------------------- who is in the class


def test_the_class_is_mixed() -> None:
    students = class_samples.students()
    ids = [student.id for student in students]
    assert len(set(ids)) == len(ids) >= 24
    assert not [name for name in ids if "/" in name or name.strip(" .") != name]
    whole = [student for student in students if {piece.module for piece in student.pieces} == set(MODULES)]
    assert len(whole) > len(students) / 2
    assert any(student.empty for student in students) and any(student.beside for student in students)
    assert 2 in Counter((piece.student, piece.module) for piece in class_samples.pieces()).values()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_every_module_has_its_pitfalls(module: Any) -> None:
    bugs = {piece.bug for piece in class_samples.pieces() if piece.module == module and piece.bug}
    assert len(bugs) >= LEAST_PITFALLS


def test_nothing_that_is_described_is_left_unused() -> None:
    pieces = class_samples.pieces()
    assert {piece.base for piece in pieces} | {"step by step"} == set(class_notebooks.BASES)
    assert {piece.tests for piece in pieces} == set(class_suites.SUITES) == set(class_samples.COMES_OUT)
    assert {name for piece in pieces for name in piece.damage} == set(class_notebooks.DAMAGE)
    data = class_samples._data()
    assert {name for piece in pieces for name in piece.cells} == set(data["cells"])
    for kind in ("edits", "more_tests"):
        described = {(module, name) for module, rows in data[kind].items() for name in rows}
        field = {"edits": "edit", "more_tests": "more_tests"}[kind]
        assert {(piece.module.name, getattr(piece, field)) for piece in pieces if getattr(piece, field)} == described


def test_every_edit_makes_another_notebook() -> None:
    for piece in class_samples.pieces():
        if piece.bug or piece.edit:
            changed = class_samples.book_of(piece).solutions
            unchanged = class_samples.book_of(replace(piece, bug="", edit="")).solutions
            assert changed != unchanged, known(piece)


# ---------------------------------------------------------------- what it comes out as


@pytest.mark.parametrize(("student", "module"), QUICK, ids=lambda value: str(value))
def test_a_few_come_out_as_they_should(student: str, module: str) -> None:
    piece = class_samples.find(student, module)
    assert surprise(piece, graded(piece)) == ""


ALONE = ("hostile-fork",)
"""Who would do harm to this machine where rooms are plain processes."""


@pytest.mark.slow
@pytest.mark.parametrize("piece", class_samples.pieces(), ids=known)
def test_everything_comes_out_as_it_should(piece: Piece) -> None:
    if piece.student in ALONE and problem_here():
        pytest.skip("without bubblewrap nothing is kept from a room")
    assert surprise(piece, graded(piece)) == ""


def row(test: str, status: str) -> dict[str, str]:
    return {"test": test, "status": status, "message": ""}


RIGHT = {
    "named_tests": [row("a", "passed")],
    "own_tests": {"passed": True, "valid": True, "reason": ""},
    "remarks": ["cell 3 is doubled"],
}
WEAK = {"passed": False, "valid": True, "reason": "few"}


@pytest.mark.parametrize(
    ("expected", "found", "said"),
    [
        ({}, {}, ""),
        ({"says": "cell 3"}, {}, ""),
        ({"says": "cell 4"}, {}, "should be told: cell 4"),
        ({"own": SHORT}, {}, "own tests that should be short, and they are accepted"),
        ({"own": INVALID}, {"own_tests": WEAK}, "they are short: few"),
        ({"status": "died"}, {}, "should have a named test that is died, and has only passed"),
        ({}, {"named_tests": [row("a", "failed")]}, "does not: a failed"),
        (
            {"status": "failed", "fails": ("b",)},
            {"named_tests": [row("a", "failed"), row("b", "passed")]},
            "not pass b",
        ),
        ({"status": "failed", "fails": ("c",)}, {"named_tests": [row("a", "failed")]}, "should not pass c"),
    ],
)
def test_a_surprise_is_noticed(expected: dict[str, Any], found: dict[str, Any], said: str) -> None:
    expects = replace(class_samples.Expects("passed", (), ACCEPTED), **expected)
    told = surprise(Piece("a", find("L8.4"), "", expects), {**RIGHT, **found})
    assert said in told if said else told == ""

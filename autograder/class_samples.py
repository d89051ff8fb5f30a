"""The sample class: who hands in what for each module, what should come of it, and the files that hold it.

Who hands in what stands once, in fixtures/submissions/class.toml; `python -m autograder.samples` writes the notebooks
in fixtures/submissions/class from it, and a test fails if they no longer agree. That folder belongs to the
instructor's side: reference solutions and planted bugs can be read in it, and the student edition leaves it out.
How a notebook is made autograder/class_notebooks.py knows; how it is graded this file does not know.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autograder import class_notebooks
from autograder.class_notebooks import BASES, DAMAGE, Book, Edit
from autograder.planted import planted_bugs
from course import modules
from course.modules import MODULES, Module

SUBMISSIONS = Path(__file__).parent.parent / "fixtures" / "submissions"
FOLDER = SUBMISSIONS / "class"
"""`<student>/<module>/<module>.ipynb`, as nbgrader files what it collects."""

DATA = SUBMISSIONS / "class.toml"

ACCEPTED, SHORT, INVALID = "accepted", "short", "invalid"
"""What own tests come out as: good enough, valid but not good enough, or not valid."""

COMES_OUT = {"good": ACCEPTED, "in a class": ACCEPTED, "weak": SHORT, "skipped": INVALID, "none": INVALID}


@dataclass(frozen=True)
class Expects:
    """What should come of a piece of work.

    `status` is the status that some named test has ("passed": every one), `fails` are named tests that don't pass,
    `own` is what the own tests come out as, and `says` stands somewhere in the report.
    """

    status: str
    fails: tuple[str, ...]
    own: str
    says: str = ""


@dataclass(frozen=True)
class Piece:
    """One file of a student's for a module: how it is made, and what should come of it.

    `base` is how the solution is written, `bug` a planted bug, `edit` an edit of class.toml, `tests` the kind of own
    tests and `more_tests` what stands below them, `cells` the student's own cells at the top, `damage` what happened
    to the notebook, `on_disk` what happened to the file, `hostile` a source of tests/hostile that takes the place of
    all of these.
    """

    student: str
    module: Module
    file: str
    expects: Expects
    base: str = "step by step"
    bug: str = ""
    edit: str = ""
    tests: str = "good"
    more_tests: str = ""
    cells: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    on_disk: str = ""
    hostile: str = ""

    @property
    def path(self) -> Path:
        """Where its file stands."""
        return FOLDER / self.student / self.module.name / self.file


@dataclass(frozen=True)
class Student:
    """One member of the class: the folder's name, what is to be seen on them, and what they hand in."""

    id: str
    what: str
    pieces: tuple[Piece, ...]
    empty: tuple[str, ...] = ()
    beside: Mapping[str, str] | None = None


# ---------------------------------------------------------------- reading class.toml


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


def students() -> tuple[Student, ...]:
    """The class.

    Raises:
        KeyError, TypeError: class.toml names a field, module, bug or edit that there is not.
    """
    return tuple(_student(row) for row in _data()["student"])


def pieces() -> tuple[Piece, ...]:
    """Everything that is handed in and named as a submission."""
    return tuple(piece for student in students() for piece in student.pieces)


def find(student: str, module: str) -> Piece:
    """A student's work for a module, the last attempt where there are two. Raises KeyError if there is none."""
    found = [piece for piece in pieces() if piece.student == student and module in (piece.module.id, piece.module.name)]
    if not found:
        raise KeyError(f"{student} hands in nothing for {module}")
    return found[-1]


def chosen() -> tuple[tuple[Student, ...], tuple[Module, ...]]:
    """The students and the modules that `ol demo grade` shows."""
    wanted = _data()["demo"]
    by_id = {student.id: student for student in students()}
    found = {modules.find(name) for name in wanted["modules"]}
    return tuple(by_id[name] for name in wanted["students"]), tuple(each for each in MODULES if each in found)


def edits(module: Module, name: str) -> tuple[Edit, ...]:
    """An edit of class.toml: texts of the reference, each with what takes its place."""
    return tuple((find, put) for find, put in _data()["edits"][module.name][name])


def _student(row: Mapping[str, Any]) -> Student:
    made = []
    for module in MODULES:
        rows = row.get(module.name, [])
        made += [_piece(row["id"], module, each) for each in (rows if isinstance(rows, list) else [rows])]
    return Student(row["id"], row["what"], tuple(made), tuple(row.get("empty", ())), row.get("beside"))


def _piece(student: str, module: Module, row: Mapping[str, Any]) -> Piece:
    """A piece, with what should come of it worked out where class.toml does not say it."""
    made: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    told = {name: made.pop(name) for name in ("status", "fails", "own", "says") if name in made}
    caught = next((bug.caught_by for bug in planted_bugs(module) if bug.id == row.get("bug")), ())
    expects = Expects(
        status=told.get("status", "failed" if caught or told.get("fails") else "passed"),
        fails=told.get("fails", caught),
        own=told.get("own", INVALID if row.get("more_tests") else COMES_OUT[row.get("tests", "good")]),
        says=told.get("says", ""),
    )
    return Piece(student, module, made.pop("file", f"{module.name}.ipynb"), expects, **made)


# ---------------------------------------------------------------- the files


def files() -> dict[Path, bytes]:
    """Every file of the class, by its path below FOLDER."""
    return {path: data for student in students() for path, data in files_of(student)}


def files_of(student: Student) -> Iterator[tuple[Path, bytes]]:
    """A student's files; git keeps no empty folder, so one of those holds a `.gitkeep`."""
    for piece in student.pieces:
        yield piece.path.relative_to(FOLDER), content(piece)
    for name in student.empty:
        yield Path(student.id, name, ".gitkeep"), b""
    for name, text in (student.beside or {}).items():
        yield Path(student.id, name), text.encode()


def content(piece: Piece) -> bytes:
    """A piece's file."""
    from notebooks import build

    book = {
        "cells": class_notebooks.numbered(book_of(piece).cells),
        "metadata": build.METADATA,
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    text = build.as_text(book)
    return {
        "": text.encode(),
        "cut short": text.encode()[: len(text.encode()) // 2],
        "not UTF-8": text.replace("# ", "# é ", 1).encode("latin-1", "replace"),
        "empty": b"",
    }[piece.on_disk]


def book_of(piece: Piece) -> Book:
    """A piece's notebook."""
    if piece.hostile:
        return class_notebooks.hostile(piece.module, piece.hostile)
    book = class_notebooks.right(piece.module)
    BASES[piece.base](book)
    if piece.bug:
        class_notebooks.with_bug(book, piece.bug)
    for edit in edits(piece.module, piece.edit) if piece.edit else ():
        class_notebooks.edit(book, *edit)
    more = _data()["more_tests"][piece.module.name][piece.more_tests] if piece.more_tests else ""
    class_notebooks.with_suite(book, piece.tests, more)
    for name in piece.cells:
        book.insert(1, _data()["cells"][name])
    for name in piece.damage:
        DAMAGE[name](book)
    return book


def write() -> int:
    """Write the whole class anew. Returns how many files it has."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    made = files()
    for path, data in made.items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_bytes(data)
    return len(made)


# ---------------------------------------------------------------- what should come of it


def surprise(piece: Piece, report: Mapping[str, Any]) -> str:
    """How a report, as `autograder.report.as_data` gives it, is not what it should be; nothing if it is."""
    expects, own = piece.expects, report["own_tests"]
    status = {row["test"]: row["status"] for row in report["named_tests"]}
    if expects.status == "passed" and set(status.values()) != {"passed"}:
        lost = [f"{test} {how}" for test, how in status.items() if how != "passed"]
        return f"should pass every named test, and does not: {', '.join(lost)}"
    if expects.status not in status.values():
        found = ", ".join(sorted(set(status.values())))
        return f"should have a named test that is {expects.status}, and has only {found}"
    if passed := [test for test in expects.fails if status.get(test, "passed") == "passed"]:
        return f"should not pass {', '.join(passed)}"
    came_out = ACCEPTED if own["passed"] else SHORT if own["valid"] else INVALID
    if came_out != expects.own:
        return f"has own tests that should be {expects.own}, and they are {came_out}: {own['reason']}"
    return "" if expects.says in _told(report) else f"should be told: {expects.says}"


def _told(report: Mapping[str, Any]) -> str:
    messages = [row["message"] for row in report["named_tests"]]
    return "\n".join([*report["remarks"], report["own_tests"]["reason"], *messages])

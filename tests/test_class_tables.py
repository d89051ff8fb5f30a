"""A class as CSV and JSON: every student a row, whatever their names hold, and the same class read back."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from autograder.classroom import tables
from autograder.classroom.rows import OWN_TESTS, Class, Result, State
from autograder.classroom.store import VERDICTS, Damaged, Store
from autograder.classroom.tables import NoGrades

REPORT: dict[str, Any] = {
    "named_tests": [{"test": "a", "status": "passed"}, {"test": "b", "status": "timed out"}],
    "own_tests": {"valid": True, "graded": True, "caught": 7, "planted": 12},
}


def graded(student: str, module: str = "L8.4", notes: tuple[str, ...] = (), **own: Any) -> Result:
    return Result(
        student,
        module,
        f"{student}/radix_cache.ipynb",
        State.GRADED,
        notes,
        points={"a": 40.0, "b": 0.0, OWN_TESTS: 14.58},
        worth={"a": 40.0, "b": 40.0, OWN_TESTS: 20.0},
        hidden=("b",),
        report={**REPORT, "own_tests": {**REPORT["own_tests"], **own}},
        key="submission:1/earlier:2/grader:3/settings:4",
    )


def absent(student: str, module: str, state: State = State.NOT_SUBMITTED, note: str = "") -> Result:
    worth = {"a": 80.0, OWN_TESTS: 20.0}
    return Result(student, module, "", state, (note,) if note else (), dict.fromkeys(worth, 0.0), worth, attempts=0)


def rows(cls: Class) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(tables.as_csv(cls), newline="")))


def alone(student: str, **own: Any) -> Class:
    return Class("spring", ("L8.4",), (graded(student, **own),))


CLASS = Class(
    "spring",
    ("L10.1", "L8.4"),
    (
        absent("alice", "L10.1"),
        graded("alice", notes=("Two files.", "Renamed.")),
        absent("bob", "L10.1", State.UNREADABLE, "It is a link."),
        absent("bob", "L8.4", State.NOT_GRADED),
    ),
)


# ---------------------------------------------------------------- CSV


def test_a_row_a_student_with_every_module() -> None:
    alice, bob = rows(CLASS)
    assert alice == {
        "student": "alice",
        "total": "54.58",
        "most": "200.0",
        "L10.1 score": "0.0",
        "L10.1 state": "not submitted",
        "L10.1 named tests passed": "",
        "L10.1 own tests caught": "",
        "L10.1 notes": "",
        "L8.4 score": "54.58",
        "L8.4 state": "graded",
        "L8.4 named tests passed": "1",
        "L8.4 own tests caught": "7",
        "L8.4 notes": "Two files. Renamed.",
    }
    assert (bob["total"], bob["L10.1 state"], bob["L10.1 notes"]) == ("0.0", "can't be read", "It is a link.")
    assert bob["L8.4 state"] == "could not be graded"


def test_own_tests_that_are_not_valid_or_not_graded_are_no_number() -> None:
    assert rows(alone("alice", valid=False))[0]["L8.4 own tests caught"] == "not valid"
    assert rows(alone("alice", graded=False))[0]["L8.4 own tests caught"] == ""
    assert rows(alone("alice", caught=0))[0]["L8.4 own tests caught"] == "0"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_no_cell_is_a_formula(start: str) -> None:
    cls = Class("spring", ("L8.4",), (graded(f"{start}1+1", notes=(f"{start}HYPERLINK()",)),))
    (row,) = rows(cls)
    assert row["student"] == f"'{start}1+1"
    assert row["L8.4 notes"] == f"'{start}HYPERLINK()"


@pytest.mark.parametrize(
    "student", ['a,b;"c"', "two\nlines", "two\rlines", "🦊 fox", "<b>&", "Zoë", " spaces ", "'quoted'"]
)
def test_other_ids_are_told_as_they_are(student: str) -> None:
    assert rows(alone(student))[0]["student"] == student


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("student", ["alice", "two\nlines", "🦊", os.fsdecode(b"caf\xe9"), "\u2028", '"', "=1"])
def test_a_class_comes_back_as_it_was_written(tmp_path: Path, student: str) -> None:
    cls = Class(f"spring {student}", ("L10.1", "L8.4"), (absent(student, "L10.1"), graded(student, notes=(student,))))
    tables.write(cls, tmp_path / "new")
    assert tables.load(tmp_path / "new") == cls
    for name in (tables.CSV, tables.JSON):
        (tmp_path / "new" / name).read_bytes().decode("utf-8")
    assert sorted(each.name for each in (tmp_path / "new").iterdir()) == [tables.CSV, tables.JSON]


def test_json_has_totals_for_programs(tmp_path: Path) -> None:
    tables.write(CLASS, tmp_path)
    data = json.loads((tmp_path / tables.JSON).read_text(encoding="utf-8"))
    assert (data["class"], data["modules"]) == ("spring", ["L10.1", "L8.4"])
    assert [(each["student"], each["total"], each["most"]) for each in data["students"]] == [
        ("alice", 54.58, 200.0),
        ("bob", 0.0, 200.0),
    ]
    result = data["students"][0]["results"][1]
    assert (result["score"], result["most"], result["state"], result["points"]["b"]) == (54.58, 100.0, "graded", 0.0)


def test_a_class_of_nobody_is_a_table_without_rows(tmp_path: Path) -> None:
    tables.write(Class("spring", ("L8.4",), ()), tmp_path)
    assert tables.load(tmp_path).results == ()
    assert (tmp_path / tables.CSV).read_text(encoding="utf-8").startswith("student,total,most,L8.4 score,L8.4 state,")


# ---------------------------------------------------------------- reading back


def test_without_tables_the_verdicts_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "autumn"
    with Store(folder) as store:
        for result in (graded("bob"), graded("alice"), absent("bob", "L10.1"), graded("alice", notes=("Again.",))):
            store.keep(result)
    cls = tables.load(folder)
    assert (cls.name, cls.modules) == ("autumn", ("L10.1", "L8.4"))
    assert [(each.student, each.module, each.state) for each in cls.results] == [
        ("alice", "L10.1", State.NOT_GRADED),
        ("alice", "L8.4", State.GRADED),
        ("bob", "L10.1", State.NOT_SUBMITTED),
        ("bob", "L8.4", State.GRADED),
    ]
    assert cls.results[0].notes == ("The run ended before it came to this.",)
    assert cls.results[1].notes == ("Again.",)


def test_tables_go_before_verdicts(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.keep(graded("carol"))
    tables.write(CLASS, tmp_path)
    assert tables.load(tmp_path) == CLASS


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"class": "a", "modules": [], "students": [3]}', b"\xff"]
)
def test_tables_that_are_none_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / tables.JSON).write_bytes(content)
    with pytest.raises(NoGrades, match=r"grades\.json holds no grades"):
        tables.load(tmp_path)


def test_a_folder_without_grades_is_refused_with_what_to_give(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NoGrades, match="give a folder that ol grade wrote"):
            tables.load(folder)
    (tmp_path / VERDICTS).write_bytes(b"rubbish\n")
    with pytest.raises(Damaged, match="give a folder that ol grade wrote"):
        tables.load(tmp_path)
    (tmp_path / tables.JSON).mkdir()
    with pytest.raises(NoGrades, match="can't be opened"):
        tables.load(tmp_path)

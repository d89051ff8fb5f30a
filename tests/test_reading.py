"""Reading submissions: the part of every cell, and what is said about files and cells that can't be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autograder import reading
from autograder.reading import Role, Unreadable
from course import modules

MODULE = modules.find("L8.4")


@pytest.fixture(autouse=True)
def no_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    """These notebooks are cut down to what is looked at: no cell of the course's own is missed."""
    monkeypatch.setattr(reading, "_expected", lambda module: ())


def cell(source: str, grade_id: str = "", grade: bool = False, solution: bool = False, locked: bool = False) -> Any:
    label = {"grade_id": grade_id, "grade": grade, "solution": solution, "locked": locked, "schema_version": 3}
    metadata = {"nbgrader": label} if grade_id else {}
    return {"cell_type": "code", "metadata": metadata, "source": source.splitlines(keepends=True)}


def saved(folder: Path, *cells: Any, **changes: Any) -> Path:
    path = folder / "work.ipynb"
    book = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | changes
    path.write_text(json.dumps(book), encoding="utf-8")
    return path


def read(path: Path) -> reading.Submission:
    return reading.read(path, MODULE)


# ---------------------------------------------------------------- parts


def test_cells_have_the_part_that_nbgrader_gave_them(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        {"cell_type": "markdown", "metadata": {}, "source": "# Text"},
        cell("import math"),
        cell("class RadixCache: pass", "step_1", solution=True),
        cell("assert False", "check_1", grade=True, locked=True),
        cell("def test_a(): pass", "own_tests", grade=True, solution=True),
        cell("look = 1", "look_1", locked=True),
    )
    submission = read(path)
    assert [(each.place, each.role) for each in submission.cells] == [
        ("work.ipynb, cell 2", Role.HELPER),
        ("work.ipynb, cell 3", Role.SOLUTION),
        ("work.ipynb, cell 4", Role.TEST),
        ("work.ipynb, cell 5", Role.OWN_TESTS),
        ("work.ipynb, cell 6", Role.HELPER),
    ]
    assert [each.place[-1] for each in submission.for_named_tests] == ["2", "3", "6"]
    assert [each.place[-1] for each in submission.for_own_tests] == ["2", "5", "6"]
    assert [each.given for each in submission.cells] == [False, False, True, False, True]
    assert submission.remarks == ()


def test_a_solution_in_a_new_cell_is_a_solution(tmp_path: Path) -> None:
    path = saved(tmp_path, cell("x = 1", "step_1", solution=True), cell("class RadixCache: pass"))
    assert [each.role for each in read(path).cells] == [Role.SOLUTION, Role.SOLUTION]


def test_without_metadata_cells_are_told_apart_by_what_they_define(tmp_path: Path) -> None:
    path = saved(tmp_path, cell("x = 1"), cell("class RadixCache: pass"), cell("def test_a(): pass"))
    submission = read(path)
    assert [each.role for each in submission.cells] == [Role.HELPER, Role.SOLUTION, Role.OWN_TESTS]
    assert "lost its nbgrader metadata" in submission.remarks[0]


def test_a_duplicated_cell_is_remarked_on(tmp_path: Path) -> None:
    path = saved(tmp_path, cell("x = 1", "step_1", solution=True), cell("x = 2", "step_1", solution=True))
    (remark,) = read(path).remarks
    assert "cells 1, 2: all carry the grade_id step_1" in remark


def test_metadata_that_makes_no_sense_is_no_metadata(tmp_path: Path) -> None:
    path = saved(tmp_path, {"cell_type": "code", "metadata": {"nbgrader": "yes"}, "source": "x = 1"})
    assert [each.role for each in read(path).cells] == [Role.HELPER]


def test_a_python_file_finds_its_tests_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("class RadixCache: pass", encoding="utf-8")
    assert not read(path).has_own_tests
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_radix_cache.py").write_text("def test_a(): pass", encoding="utf-8")
    submission = read(path)
    assert [(each.place, each.role) for each in submission.cells] == [
        ("mine.py", Role.SOLUTION),
        ("test_radix_cache.py", Role.OWN_TESTS),
    ]
    assert not submission.is_notebook


# ---------------------------------------------------------------- what can't be read


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "work.ipynb is empty"),
        (b" \n ", "work.ipynb is empty"),
        (b'{"cells": [],\n"nbformat": 4', "work.ipynb, line 2, column 14: this is not valid JSON"),
        (b'{"a":\n"caf\xe9"}', "work.ipynb, line 2: byte 0xe9 is not UTF-8"),
        (b"[]", "no notebook: it has no nbformat number"),
        (b'{"nbformat": 2, "worksheets": []}', "has notebook format 2, and 4 is needed"),
        (b'{"nbformat": 3}', "has no list of cells"),
        (b'{"nbformat": 4}', "has no list of cells"),
        (b'{"nbformat": 4, "cells": [3]}', "work.ipynb, cell 1: this is no cell"),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": [1]}]}', "cell 1: its source is not text"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "work.ipynb"
    path.write_bytes(data)
    with pytest.raises(Unreadable) as refused:
        read(path)
    assert message in str(refused.value)


def test_a_name_in_capitals_is_a_name(tmp_path: Path) -> None:
    path = saved(tmp_path, cell("x = 1")).rename(tmp_path / "WORK.IPYNB")
    assert read(path).cells[0].source == "x = 1"


def test_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"work\.txt is neither a notebook"):
        read(tmp_path / "work.txt")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "work.py")


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = saved(tmp_path, cell("x = 1"))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [each.source for each in read(path).cells] == ["x = 1"]


def test_a_syntax_error_keeps_its_cell_and_names_the_line(tmp_path: Path) -> None:
    path = saved(tmp_path, cell("x = 1"), cell("y = 2\nif y\n    pass"))
    good, bad = read(path).cells
    assert good.problem == ""
    assert bad.problem == "work.ipynb, cell 2, line 2: SyntaxError: expected ':': if y"


# ---------------------------------------------------------------- IPython's own syntax


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("if True:\n    !ls -l\nx = 1", "if True:\n    pass\nx = 1"),
        ("files = !ls\nx = 1", "pass\nx = 1"),
        ("RadixCache?\nx = 1", "pass\nx = 1"),
        ("%%bash\nls | wc -l", "pass\n"),
        ("%%time\nx = 1", "pass\nx = 1"),
    ],
)
def test_magics_become_pass_line_for_line(tmp_path: Path, source: str, plain: str) -> None:
    (only,) = read(saved(tmp_path, cell(source))).cells
    assert (only.source, only.problem) == (plain, "")


def test_python_that_looks_like_a_magic_is_left_alone(tmp_path: Path) -> None:
    source = "x = (7\n%4)"
    assert read(saved(tmp_path, cell(source))).cells[0].source == source

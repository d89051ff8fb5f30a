"""Reading what was handed in: a notebook or a Python file, as cells in order, each with its part in the work.

It knows the notebook format, nbgrader's metadata, and how to say what is wrong and where. Nothing is
run here, and what a cell is worth this file does not know.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from course.modules import Module

OWN_TESTS = "own_tests"
"""How the grade_id of a cell with the student's own tests begins."""

OLDEST_FORMAT = 4


class Unreadable(Exception):
    """What was handed in can't be read; the message names the file, the place and what to do."""


class Role(StrEnum):
    """A code cell's part: helpers and solutions run, own tests are kept apart, test cells never run."""

    HELPER = "helper"
    SOLUTION = "solution"
    OWN_TESTS = "own tests"
    TEST = "test"


@dataclass(frozen=True)
class Cell:
    """One code cell, or a whole Python file.

    `place` says where it stands, `problem` why it can't run, `given` that it is the course's, not the student's.
    """

    role: Role
    source: str
    place: str
    problem: str = ""
    given: bool = False


@dataclass(frozen=True)
class Submission:
    """One piece of work for one module, not run yet.

    `remarks` are what a student should know about the file, whatever its verdict.
    """

    module: Module
    name: str
    cells: tuple[Cell, ...]
    is_notebook: bool = True
    remarks: tuple[str, ...] = ()

    @property
    def for_named_tests(self) -> tuple[Cell, ...]:
        """The cells that make up the implementation."""
        return tuple(cell for cell in self.cells if cell.role in (Role.HELPER, Role.SOLUTION))

    @property
    def for_own_tests(self) -> tuple[Cell, ...]:
        """The cells that make up the student's own tests, and the helper cells they may use.

        A Python file's tests stand in a file of their own, which needs no helper cell.
        """
        wanted = (Role.HELPER, Role.OWN_TESTS) if self.is_notebook else (Role.OWN_TESTS,)
        return tuple(cell for cell in self.cells if cell.role in wanted)

    @property
    def has_own_tests(self) -> bool:
        """Whether anything was handed in as own tests."""
        return any(cell.role is Role.OWN_TESTS for cell in self.cells)


def read(path: Path, module: Module) -> Submission:
    """A submission for a module from a notebook (.ipynb) or a Python file (.py).

    Raises:
        FileNotFoundError: there is no such file.
        Unreadable: the file as a whole can't be read. A cell that can't be read is kept, with its problem.
    """
    if path.suffix == ".ipynb":
        return _notebook(path, module)
    if path.suffix == ".py":
        return _python_file(path, module)
    raise Unreadable(f"{path.name} is neither a notebook (.ipynb) nor a Python file (.py).")


def _text(path: Path) -> str:
    data = path.read_bytes()
    if not data.strip():
        raise Unreadable(f"{path.name} is empty: save your work again and hand in the file that has it.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise Unreadable(
            f"{path.name}, line {line}: byte 0x{data[problem.start]:02x} is not UTF-8. "
            "Save the file with the encoding UTF-8 and hand it in again."
        ) from None


# ---------------------------------------------------------------- Python files


def _python_file(path: Path, module: Module) -> Submission:
    cells = [_cell(Role.SOLUTION, _text(path), path.name)]
    if tests := tests_beside(path, module):
        cells.append(_cell(Role.OWN_TESTS, _text(tests), tests.name))
    return Submission(module, path.name, tuple(cells), is_notebook=False)


def tests_beside(path: Path, module: Module) -> Path | None:
    """The file with a Python file's own tests: `test_<module>.py` beside it, or in `tests/` beside it."""
    name = f"test_{module.name}.py"
    return next((place for place in (path.parent / name, path.parent / "tests" / name) if place.exists()), None)


# ---------------------------------------------------------------- notebooks


def _notebook(path: Path, module: Module) -> Submission:
    rows = _rows(path)
    labelled = any(_nbgrader(row) for row in rows)
    cells, ids = [], defaultdict(list)
    for number, row in enumerate(rows, start=1):
        place = f"{path.name}, cell {number}"
        source = _source(row, place)
        if row.get("cell_type") != "code":
            continue
        ids[_nbgrader(row).get("grade_id")].append(number)
        cell = _cell(Role.HELPER, source, place)
        role, given = _role(row, cell.source, module, labelled), bool(_nbgrader(row).get("locked"))
        cells.append(replace(cell, role=role, given=given))
    ids.pop(None, None)
    remarks = [
        f"{path.name}: cells {', '.join(map(str, numbers))} all carry the grade_id {name}. "
        "They run in this order, and the last one counts."
        for name, numbers in ids.items()
        if len(numbers) > 1
    ]
    if not labelled:
        remarks.insert(0, f"{path.name} has lost its nbgrader metadata: cells are told apart by what they define.")
    return Submission(module, path.name, tuple(cells), remarks=tuple(remarks))


def _rows(path: Path) -> Sequence[Mapping[str, Any]]:
    """The cells of a notebook's JSON, each a dict."""
    try:
        book = json.loads(_text(path))
    except json.JSONDecodeError as problem:
        raise Unreadable(
            f"{path.name}, line {problem.lineno}, column {problem.colno}: this is not valid JSON ({problem.msg}), "
            "so the file is no notebook or was cut short. Save it again from JupyterLab."
        ) from None
    except RecursionError:
        raise Unreadable(f"{path.name} is nested too deeply to be a notebook.") from None
    if not isinstance(book, dict) or not isinstance(book.get("nbformat"), int):
        raise Unreadable(f"{path.name} is JSON but no notebook: it has no nbformat number.")
    if book["nbformat"] != OLDEST_FORMAT:
        raise Unreadable(
            f"{path.name} has notebook format {book['nbformat']}, and {OLDEST_FORMAT} is needed: "
            "open it in JupyterLab and save it again."
        )
    rows = book.get("cells")
    if not isinstance(rows, list):
        raise Unreadable(f"{path.name} has no list of cells.")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise Unreadable(f"{path.name}, cell {number}: this is no cell.")
    return rows


def _source(row: Mapping[str, Any], place: str) -> str:
    source = row.get("source", "")
    lines = source if isinstance(source, list) else [source]
    if not all(isinstance(line, str) for line in lines):
        raise Unreadable(f"{place}: its source is not text.")
    return "".join(lines)


def _nbgrader(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A cell's nbgrader metadata; empty where there is none, or none that makes sense."""
    metadata = row.get("metadata")
    found = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def _role(row: Mapping[str, Any], source: str, module: Module, labelled: bool) -> Role:
    label = _nbgrader(row)
    if label.get("grade") and not label.get("solution"):
        return Role.TEST
    if label.get("solution"):
        return Role.OWN_TESTS if str(label.get("grade_id", "")).startswith(OWN_TESTS) else Role.SOLUTION
    defined = _defined(source)
    if defined & set(module.exports):
        return Role.SOLUTION
    if not labelled and any(name.startswith("test_") for name in defined):
        return Role.OWN_TESTS
    return Role.HELPER


def _defined(source: str) -> set[str]:
    """The functions and classes that a cell defines at its top level."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return set()
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


# ---------------------------------------------------------------- cells


def _cell(role: Role, source: str, place: str) -> Cell:
    """A cell that is known to run as Python, or says why it doesn't."""
    problem = _problem(source, place)
    if problem and not _problem(ordinary(source), place):
        return Cell(role, ordinary(source), place)
    return Cell(role, source, place, problem)


def _problem(source: str, place: str) -> str:
    try:
        compile(source, place, "exec", dont_inherit=True)
    except SyntaxError as problem:
        line = f", line {problem.lineno}" if problem.lineno else ""
        text = f": {problem.text.strip()}" if problem.text else ""
        return f"{place}{line}: {type(problem).__name__}: {problem.msg}{text}"
    except (ValueError, RecursionError, MemoryError) as problem:
        return f"{place}: this is no Python text: {problem}"
    return ""


MAGIC = re.compile(r"^(?P<indent>\s*)(?:(?:[\w., ]+=\s*)?[%!]|\?|[\w.]+\?{1,2}\s*$)")
RUNS_ITS_BODY = re.compile(r"^%%(?:time|timeit|capture|prun)\b")


def ordinary(source: str) -> str:
    """A cell without IPython's own syntax: magics and shell commands become `pass`, line for line."""
    if source.lstrip().startswith("%%") and not RUNS_ITS_BODY.match(source.lstrip()):
        return "pass" + "\n" * source.count("\n")
    return "\n".join(f"{magic['indent']}pass" if (magic := MAGIC.match(line)) else line for line in source.split("\n"))

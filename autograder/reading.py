"""Reading what was handed in: a notebook or a Python file, as cells in order, each with its part in the work.

It knows the notebook format, nbgrader's metadata, and how to say what is wrong and where. Nothing is
run here, and what a cell is worth this file does not know.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from autograder import edition
from autograder.files import FORMAT, File, Unreadable, book_in, bytes_of, rows_of, source_of, text_of
from autograder.overlooked import Found, body_of, overlooked, solution_cells
from course.modules import Module

OWN_TESTS = "own_tests"
"""How the grade_id of a cell with the student's own tests begins."""

ASSIGNMENTS = edition.ASSIGNMENTS
"""Where the course's own notebooks stand, `<module>/<module>.ipynb`."""


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
    return read_file(opened(path, module), module)


def opened(path: Path, module: Module) -> File:
    """What a submission is read from, in memory: the file, and beside a Python file the one with its tests.

    Raises:
        FileNotFoundError: there is no such file.
        Unreadable: it can't be opened, or is neither a notebook nor a Python file.
    """
    _reader(path.name)
    tests = tests_beside(path, module) if path.suffix.lower() == ".py" else None
    data = bytes_of(path)
    return File(path.name, data, File(tests.name, bytes_of(tests)) if tests else None)


def read_file(file: File, module: Module) -> Submission:
    """A submission from a file in memory. Raises Unreadable as `read` does."""
    return _reader(file.name)(file, module)


def _reader(name: str) -> Callable[[File, Module], Submission]:
    """What reads a file of this name."""
    if name.lower().endswith(".ipynb"):
        return _notebook
    if name.lower().endswith(".py"):
        return _python_file
    raise Unreadable(f"{name} is neither a notebook (.ipynb) nor a Python file (.py).")


# ---------------------------------------------------------------- Python files


def _python_file(file: File, module: Module) -> Submission:
    cells = [_cell(Role.SOLUTION, text_of(file), file.name)]
    if file.tests:
        cells.append(_cell(Role.OWN_TESTS, text_of(file.tests), file.tests.name))
    return Submission(module, file.name, tuple(cells), is_notebook=False)


def tests_beside(path: Path, module: Module) -> Path | None:
    """The file with a Python file's own tests: `test_<module>.py` beside it, or in `tests/` beside it."""
    name = f"test_{module.name}.py"
    return next((place for place in (path.parent / name, path.parent / "tests" / name) if place.exists()), None)


# ---------------------------------------------------------------- notebooks


def _notebook(file: File, module: Module) -> Submission:
    book = book_in(file)
    rows = rows_of(book, file)
    found = [_found(file.name, number, row) for number, row in enumerate(rows, start=1)]
    labelled = any(_nbgrader(row) for row in rows)
    marked = any(
        _labelled_own_tests(row) and _defines_tests(cell.source) for row, cell in zip(rows, found, strict=True)
    )
    cells = [
        replace(
            _cell(Role.HELPER, each.source, f"{file.name}, cell {each.number}"),
            role=_role(row, each.source, module, own_tests_are_marked=marked),
            given=bool(_nbgrader(row).get("locked")) or (not labelled and _is_the_courses(each.source, module)),
        )
        for row, each in zip(rows, found, strict=True)
        if each.is_code
    ]
    remarks = overlooked(file.name, found, module.exports, _expected(module) if labelled else ())
    if not labelled:
        remarks.insert(0, f"{file.name} has lost its nbgrader metadata: cells are told apart by what they define.")
    if book["nbformat"] != FORMAT:
        remarks.insert(
            0, f"{file.name} has notebook format {book['nbformat']}: open it in JupyterLab and save it again."
        )
    return Submission(module, file.name, tuple(cells), remarks=tuple(remarks))


def _found(name: str, number: int, row: Mapping[str, Any]) -> Found:
    place, label, is_code = f"{name}, cell {number}", _nbgrader(row), row.get("cell_type") == "code"
    source, grade_id = source_of(row, place), label.get("grade_id")
    return Found(
        number,
        _cell(Role.HELPER, source, place).source if is_code else source,
        grade_id if isinstance(grade_id, str) else "",
        is_code,
        is_solution=bool(label.get("solution")),
        is_test=_is_test(label),
    )


@cache
def _expected(module: Module) -> tuple[str, ...]:
    """The solution cells of the course's own notebook for a module; none where there is no such notebook."""
    path = ASSIGNMENTS / module.name / f"{module.name}.ipynb"
    return solution_cells(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else ()


def _nbgrader(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A cell's nbgrader metadata; empty where there is none, or none that makes sense."""
    metadata = row.get("metadata")
    found = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def _is_test(label: Mapping[str, Any]) -> bool:
    return bool(label.get("grade")) and not label.get("solution")


def _labelled_own_tests(row: Mapping[str, Any]) -> bool:
    label = _nbgrader(row)
    return bool(label.get("solution")) and str(label.get("grade_id", "")).startswith(OWN_TESTS)


def _role(row: Mapping[str, Any], source: str, module: Module, own_tests_are_marked: bool) -> Role:
    """A cell's part by its label; without one, by what it defines."""
    label = _nbgrader(row)
    if _is_test(label):
        return Role.TEST
    if label.get("solution"):
        return Role.OWN_TESTS if _labelled_own_tests(row) else Role.SOLUTION
    if _defined(source) & set(module.exports):
        return Role.SOLUTION
    return Role.OWN_TESTS if not own_tests_are_marked and _defines_tests(source) else Role.HELPER


def _is_the_courses(source: str, module: Module) -> bool:
    """Whether an unlabelled cell is one of the course's own: it works with the autograder and defines no answer."""
    imports = [node for node in body_of(source) if isinstance(node, ast.ImportFrom)]
    return any((node.module or "").startswith("autograder.") for node in imports) and not (
        _defined(source) & set(module.exports)
    )


def _defines_tests(source: str) -> bool:
    return any(name.startswith(("test_", "Test")) for name in _defined(source))


def _defined(source: str) -> set[str]:
    """The functions and classes that a cell defines at its top level."""
    return {node.name for node in body_of(source) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


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

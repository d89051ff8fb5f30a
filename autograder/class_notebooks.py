"""How a notebook of the sample class is made: a right one, then edits, own tests of some kind, noise and damage.

It knows the course's notebooks, the reference solutions, the flat models, the planted bugs and the hostile sources
of tests/hostile, so it belongs to the instructor's side: no student's edition has it. Which student hands in what,
and what should come of it, it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autograder import implementations
from autograder.class_suites import SUITES, pieces
from autograder.planted import plant, planted_bugs
from course.modules import Module

HERE = Path(__file__).parent
HOSTILE = HERE.parent / "tests" / "hostile"

Cell = dict[str, Any]
Edit = tuple[str, str]
"""The text to replace, and what takes its place."""

MARKER = re.compile(r"^ *### (?:BEGIN|END) SOLUTION.*\n?", re.MULTILINE)
"""nbgrader's marks around a solution, which no student's notebook has."""

TOLD = 'FOLDERS, MARK, PORT = ["/srv/nbgrader", "/home"], "left-behind", 9\n'
"""What a hostile source is told: folders to try, a name for what it leaves behind, a port to call."""


@dataclass
class Book:
    """A notebook for a module, on its way to a file."""

    module: Module
    cells: list[Cell]

    @property
    def solutions(self) -> list[Cell]:
        """The cells with the student's solution."""
        return [cell for cell in self.cells if _label(cell).get("solution") and cell not in self.own]

    @property
    def own(self) -> list[Cell]:
        """The cells with the student's own tests."""
        return [cell for cell in self.cells if str(_label(cell).get("grade_id", "")).startswith("own_tests")]

    def solve(self, source: str) -> None:
        """Put a whole solution into the first solution cell, and nothing into the others."""
        first, *others = self.solutions
        first["source"] = source
        for cell in others:
            cell["source"] = "# all of it stands in one cell above"

    def insert(self, place: int, source: str, label: str = "") -> None:
        """A code cell more; without a label it is one of the student's own."""
        self.cells.insert(place, _code(source, label))


def _label(cell: Cell) -> dict[str, Any]:
    found: dict[str, Any] = cell["metadata"].get("nbgrader", {})
    return found


def _code(source: str, grade_id: str = "") -> Cell:
    marks = {
        "grade": False,
        "grade_id": grade_id,
        "locked": False,
        "schema_version": 3,
        "solution": True,
        "task": False,
    }
    metadata = {"nbgrader": marks} if grade_id else {}
    return {"cell_type": "code", "execution_count": None, "metadata": metadata, "outputs": [], "source": source}


def _title(module: Module) -> Cell:
    return {"cell_type": "markdown", "metadata": {}, "source": f"# {module.id} · {module.title}"}


# ---------------------------------------------------------------- a right notebook


def right(module: Module) -> Book:
    """The course's notebook for a module, solved, with its prose and examples left out."""
    return Book(module, deepcopy(_right_cells(module)))


@cache
def _right_cells(module: Module) -> list[Cell]:
    from notebooks import build

    return [_title(module), *(_solved(cell) for cell in build.build(module.name)["cells"] if _stays(cell))]


def _solved(cell: Cell) -> Cell:
    plain = {name: value for name, value in cell.items() if name != "id"}
    return {**plain, "source": MARKER.sub("", cell["source"])}


def _stays(cell: Cell) -> bool:
    return cell["cell_type"] == "code" and bool(_label(cell) or "\nbegin(" in cell["source"])


# ---------------------------------------------------------------- right in another way


def _in_one_cell(book: Book) -> None:
    book.solve(implementations.reference_source(book.module))


def _as_the_flat_model(book: Book) -> None:
    source = (HERE / "flat" / f"{book.module.name}.py").read_text(encoding="utf-8")
    book.solve(source)


def _with_helper_cells(book: Book) -> None:
    """All but the names asked for stands in a cell of the student's own."""
    helpers, asked = "", ""
    for node, text in pieces(implementations.reference_source(book.module)):
        if getattr(node, "name", "") in book.module.exports:
            asked += text
        else:
            helpers += text
    book.solve(asked.lstrip("\n"))
    book.insert(book.cells.index(book.solutions[0]), helpers)


BASES: dict[str, Callable[[Book], None]] = {
    "step by step": lambda book: None,
    "one cell": _in_one_cell,
    "flat model": _as_the_flat_model,
    "helper cells": _with_helper_cells,
}
"""How a solution is written: the reference step by step or otherwise, or another algorithm."""


# ---------------------------------------------------------------- wrong in one way


def edit(book: Book, find: str, put: str) -> None:
    """Replace a text that stands once in the solution; where no single cell holds it, in the reference as one cell.

    Raises:
        ValueError: it is not there exactly once.
    """
    places = [cell for cell in book.solutions if find in cell["source"]]
    if not places:
        source = implementations.reference_source(book.module)
        if source.count(find) != 1:
            raise ValueError(f"{book.module.name}: the text to replace is there {source.count(find)} times: {find}")
        book.solve(source.replace(find, put))
    elif len(places) == 1 and places[0]["source"].count(find) == 1:
        places[0]["source"] = places[0]["source"].replace(find, put)
    else:
        raise ValueError(f"{book.module.name}: the text to replace is there more than once: {find}")


def with_bug(book: Book, bug_id: str) -> None:
    """Plant one of the module's bugs in the solution."""
    bug = next(bug for bug in planted_bugs(book.module) if bug.id == bug_id)
    plant(bug, implementations.reference_source(book.module))  # raises where the edit does not fit any more
    edit(book, bug.find, bug.put)


# ---------------------------------------------------------------- own tests


def with_suite(book: Book, suite: str, more: str = "") -> None:
    """Give a notebook own tests of this kind, and `more` below them."""
    first, *others = book.own
    source = "\n\n\n".join(cell["source"] for cell in book.own)
    if suite != "good" or more:
        first["source"] = SUITES[suite](source) + (f"\n\n\n{more}" if more else "")
        for cell in others:
            cell["source"] = ""


# ---------------------------------------------------------------- damage


def _unfinished(book: Book) -> None:
    """The last step as it was released."""
    from notebooks import build

    last = book.solutions[-1]
    released = {_label(cell).get("grade_id"): cell for cell in build.student_notebook(book.module.name)["cells"]}
    last["source"] = released[_label(last)["grade_id"]]["source"]


def _syntax_error(book: Book) -> None:
    book.solutions[-1]["source"] += "\n    def size(self:\n        return 0\n"


def _duplicated(book: Book) -> None:
    last = book.solutions[-1]
    book.cells.insert(book.cells.index(last), deepcopy(last))


def _no_checks(book: Book) -> None:
    book.cells = [cell for cell in book.cells if not _label(cell).get("grade")]


def _no_metadata(book: Book) -> None:
    for cell in book.cells:
        cell["metadata"] = {}


DAMAGE: dict[str, Callable[[Book], None]] = {
    "unfinished": _unfinished,
    "syntax error": _syntax_error,
    "duplicated": _duplicated,
    "no checks": _no_checks,
    "no metadata": _no_metadata,
}
"""What else may have happened to a notebook."""


# ---------------------------------------------------------------- hostile


def hostile(module: Module, name: str) -> Book:
    """A source of tests/hostile as a notebook. Raises ValueError for a kind of cell that such a source can't have."""
    text = (HOSTILE / f"{name}.py").read_text(encoding="utf-8")
    _, *parts = re.split(r"^# %% ?(.*)\n", text, flags=re.MULTILINE)
    cells = [_title(module), _code(TOLD)]
    for kind, source in zip(parts[::2], parts[1::2], strict=True):
        cells.append(_code(_opening(kind, module) + source.rstrip("\n"), LABELS[kind]))
    return Book(module, cells)


LABELS = {"": "", "right": "step_1", "wrong": "step_1", "own tests": "own_tests"}


def _opening(kind: str, module: Module) -> str:
    if kind == "right":
        return implementations.reference_source(module)
    return (HOSTILE / "wrong.py").read_text(encoding="utf-8") if kind == "wrong" else ""


def numbered(cells: Sequence[Cell]) -> list[Cell]:
    """The cells with the ids that the notebook format asks for."""
    return [{**cell, "id": f"cell-{number}"} for number, cell in enumerate(cells, start=1)]

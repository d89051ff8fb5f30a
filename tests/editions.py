"""What the tests of notebooks share: which there are, what stands in their cells, and how one is executed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from course.modules import MODULES
from notebooks import build

ROOT = Path(__file__).resolve().parent.parent
NAMES = build.names()
GRADED = [module.name for module in MODULES if module.name in NAMES]
UNGRADED = ["serving_lab", "tour"]


@cache
def built(name: str) -> dict[str, Any]:
    """The instructor's edition of a notebook, to be read and not changed: building takes a moment."""
    return build.build(name)


@cache
def students(name: str) -> dict[str, Any]:
    """The student's edition of a notebook, to be read and not changed."""
    return build.student_notebook(name)


def nbgrader_of(cell: dict[str, Any]) -> dict[str, Any]:
    """A cell's metadata for nbgrader; empty for a cell that is not nbgrader's."""
    found: dict[str, Any] = cell["metadata"].get("nbgrader", {})
    return found


def code_of(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The code cells."""
    return (cell for cell in notebook["cells"] if cell["cell_type"] == "code")


def prose_of(notebook: dict[str, Any]) -> str:
    """All that is no code."""
    return "\n".join(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "markdown")


def solution_of(notebook: dict[str, Any], but: str = "") -> str:
    """What a submission's solution cells hold, one after the other, without one of them."""
    cells = (cell for cell in notebook["cells"] if nbgrader_of(cell).get("solution"))
    return "\n\n".join(cell["source"] for cell in cells if nbgrader_of(cell)["grade_id"] != but)


def until(notebook: dict[str, Any], grade_id: str) -> dict[str, Any]:
    """The notebook up to and with this cell."""
    place = next(i for i, cell in enumerate(notebook["cells"]) if nbgrader_of(cell).get("grade_id") == grade_id)
    return {**notebook, "cells": notebook["cells"][: place + 1]}


def up_to_the_first_exercise(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook up to and with the first cell that a student fills in; all of it if there is none."""
    ids = [nbgrader_of(cell)["grade_id"] for cell in notebook["cells"] if nbgrader_of(cell).get("solution")]
    return until(notebook, ids[0]) if ids else notebook


def run(notebook: dict[str, Any], folder: Path) -> Any:
    """Execute a notebook in a fresh kernel, in a folder of its own."""
    node = nbformat.from_dict(notebook)
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (str(ROOT), before) if part)
    try:
        NotebookClient(node, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    finally:
        os.environ["PYTHONPATH"] = before
    return node


def shown(ran: Any) -> str:
    """The text form of everything that an executed notebook shows."""
    outputs = (output for cell in ran.cells for output in cell.get("outputs", []))
    return "\n".join(output["data"]["text/plain"] for output in outputs if "data" in output)

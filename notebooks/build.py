"""Builds each notebook, `<name>/<name>.ipynb`, from its text, `<name>/<name>.md`, and from the solutions.

    python -m notebooks.build            write every notebook
    python -m notebooks.build --check    write nothing; exit 1 if one is not what its text gives

It knows the text's form: MyST Markdown, in which a code cell's options give its place in nbgrader
(`:grade_id:`, `:role:`, `:points:`) and a line `{{ step 2: RadixCache.insert }}` stands for the source of
methods in `solutions/` (see `notebooks.sources`). What the notebooks say, it does not know.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jupytext

from notebooks import sources, stubs

HERE = Path(__file__).parent

ROLES: Mapping[str, Mapping[str, bool]] = {
    "solution": {"grade": False, "solution": True, "locked": False},
    "check": {"grade": True, "solution": False, "locked": True},
    "read only": {"grade": False, "solution": False, "locked": True},
}
"""What a cell is to nbgrader: the student's answer, a check that is worth points, or a cell to leave as it is."""

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class BadSource(Exception):
    """A notebook's text that can't be built; the message names the file and the place."""


def names() -> tuple[str, ...]:
    """The notebooks there are: the folders that hold a text of their own name."""
    return tuple(sorted(path.stem for path in HERE.glob("*/*.md") if path.stem == path.parent.name))


def notebook_path(name: str) -> Path:
    """Where a built notebook stands."""
    return HERE / name / f"{name}.ipynb"


def build(name: str) -> dict[str, Any]:
    """The instructor's edition of a notebook: solutions in place, no outputs.

    Raises:
        BadSource: an option, a role or a reference to a solution that is none.
    """
    text = (HERE / name / f"{name}.md").read_text(encoding="utf-8")
    ids = _Ids()
    try:
        cells = [_cell(cell, ids, name) for cell in jupytext.reads(text, fmt="md:myst").cells]
    except (sources.NoSuchSource, ValueError) as problem:
        raise BadSource(f"{name}.md: {problem}") from problem
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def student_notebook(name: str) -> dict[str, Any]:
    """The student's edition: what `nbgrader generate_assignment` makes of the notebook, checksums aside."""
    made = build(name)
    for cell in made["cells"]:
        role = cell["metadata"].get("nbgrader", {})
        if role.get("solution"):
            cell["source"] = stubs.cleared(cell["source"])
        if role.get("grade"):
            cell["source"] = stubs.without_hidden(cell["source"])
        if role.get("solution") or role.get("locked"):
            cell["metadata"]["deletable"] = False
        if role.get("locked"):
            cell["metadata"]["editable"] = False
    return made


def as_text(notebook: Mapping[str, Any]) -> str:
    """A notebook as it is written to a file."""
    return json.dumps(_in_lines(notebook), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _in_lines(notebook: Mapping[str, Any]) -> dict[str, Any]:
    cells = [{**cell, "source": cell["source"].splitlines(keepends=True)} for cell in notebook["cells"]]
    return {**notebook, "cells": cells}


# ---------------------------------------------------------------- one cell


class _Ids:
    """Cell ids that stay the same while a text is edited elsewhere: a grade_id, or the heading and a number."""

    def __init__(self) -> None:
        self.heading = "start"
        self.used: Counter[str] = Counter()

    def next(self, source: str, grade_id: str) -> str:
        if heading := re.search(r"^#+ (.+)$", source, re.MULTILINE) if not grade_id else None:
            self.heading = _slug(heading[1])
        wanted = _slug(grade_id) if grade_id else self.heading
        self.used[wanted] += 1
        if grade_id and self.used[wanted] > 1:
            raise ValueError(f"two cells have the grade_id {grade_id!r}")
        return wanted if grade_id else f"{wanted}-{self.used[wanted]}"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:56]


def _cell(cell: Any, ids: _Ids, name: str) -> dict[str, Any]:
    options = dict(cell.metadata)
    if cell.cell_type == "markdown":
        prose = sources.told(cell.source, name)
        return {"cell_type": "markdown", "id": ids.next(prose, ""), "metadata": {}, "source": prose}
    grade_id = options.get("grade_id", "")
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": ids.next("", grade_id),
        "metadata": {"nbgrader": _nbgrader(options)} if grade_id else _only_ungraded(options),
        "outputs": [],
        "source": sources.filled(cell.source, name),
    }


def _nbgrader(options: dict[str, Any]) -> dict[str, Any]:
    """The cell's metadata for nbgrader, schema version 3."""
    grade_id, role = options.pop("grade_id"), options.pop("role", None)
    if role not in ROLES:
        raise ValueError(f"cell {grade_id}: role {role!r} is none of {', '.join(ROLES)}")
    meta = {"grade_id": grade_id, "schema_version": 3, "task": False, **ROLES[role]}
    if meta["grade"]:
        meta["points"] = options.pop("points")
    if options:
        raise ValueError(f"cell {grade_id}: unknown options {', '.join(options)}")
    return meta


def _only_ungraded(options: dict[str, Any]) -> dict[str, Any]:
    if set(options) - {"tags"}:
        raise ValueError(f"a cell with options {', '.join(options)} needs a grade_id")
    return options


# ---------------------------------------------------------------- the command


def main(arguments: list[str]) -> int:
    """Write or check every notebook. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m notebooks.build", description="Build the notebooks.")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a notebook is out of date")
    checking = parser.parse_args(arguments).check
    stale = [name for name in names() if not _is_current(name)]
    for name in stale:
        if not checking:
            notebook_path(name).write_text(as_text(build(name)), encoding="utf-8")
        print(f"{name}: {'out of date, run python -m notebooks.build' if checking else 'written'}")
    return 1 if checking and stale else 0


def _is_current(name: str) -> bool:
    path = notebook_path(name)
    return path.exists() and path.read_text(encoding="utf-8") == as_text(build(name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

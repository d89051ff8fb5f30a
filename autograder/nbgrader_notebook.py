"""A submitted notebook made whole for nbgrader: its own cells, with the course's labels and checks back in place.

It knows the cells that the course's notebook has, and what may have happened to them: lost, copied, edited, without
their labels. What nbgrader does with the result, and what the checks came to, it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.files import Unreadable, book_in, rows_of, source_of, text_of

PUT_BACK = "*Missing from the notebook that was handed in, and put back to be graded:*"
NO_CELLS = "*No cell of the work can be shown:*"

FENCE = "~"
"""What fences a student's prose. A fence of one more than any run of them in it can't be ended from within."""


@dataclass(frozen=True)
class Marked:
    """A cell of the course's notebook with nbgrader's label.

    Attributes:
        grade_id: its name.
        kind: code or markdown.
        source: its text as the course has it.
        label: its nbgrader metadata.
    """

    grade_id: str
    kind: str
    source: str
    label: Mapping[str, Any]

    @property
    def is_given(self) -> bool:
        """Whether its text is the course's, whatever a student made of it."""
        return bool(self.label["locked"]) and not self.label["solution"]


@dataclass(frozen=True)
class Row:
    """A cell that was handed in: code or another kind, its text, and its grade_id, "" where it has none."""

    kind: str
    source: str
    grade_id: str = ""


def rows_in(path: Path | None) -> tuple[Row, ...]:
    """The cells of the file that was handed in; a Python file is one cell, no file has none.

    Raises:
        Unreadable: it is no notebook, or can't be read.
    """
    if path is None:
        return ()
    try:
        if path.suffix.lower() == ".py":
            return (Row("code", text_of(path)),)
        rows = rows_of(book_in(path), path)
    except OSError as problem:
        raise Unreadable(f"{path.name} can't be opened: {problem.strerror or 'it is gone'}.") from None
    return tuple(_row(row, f"{path.name}, cell {number}") for number, row in enumerate(rows, start=1))


def _row(row: Mapping[str, Any], place: str) -> Row:
    metadata = row.get("metadata")
    label = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = label.get("grade_id") if isinstance(label, dict) else None
    kind = "code" if row.get("cell_type") == "code" else "markdown" if row.get("cell_type") == "markdown" else "raw"
    return Row(kind, storable(source_of(row, place)), grade_id if isinstance(grade_id, str) else "")


def storable(text: str) -> str:
    """A text that can be written as UTF-8: JSON can hold halves of characters."""
    return text.encode("utf-8", "replace").decode("utf-8")


# ---------------------------------------------------------------- made whole


def made_whole(rows: Sequence[Row], marked: Sequence[Marked], prose: frozenset[str]) -> list[dict[str, Any]]:
    """Notebook cells for what was handed in, each of the course's checks among them exactly once.

    A cell is known by its grade_id, the last one where several carry it; one without a label by its text. Whatever
    a label or a check said that the course's does not, is gone. Outputs are left out: nothing here was run.

    Args:
        rows: what was handed in.
        marked: the course's cells with labels, in the notebook's order.
        prose: the texts of the course's markdown cells: these are shown as they are. A student's own are shown as
            text, as markdown may hold a script, which would run with the rights of whoever looks at it.
    """
    names = _names(rows, {each.grade_id: each for each in marked})
    course = {each.grade_id: each for each in marked}
    cells = [
        (name, _marked(course[name], row.source) if name else _own(row, prose))
        for row, name in zip(rows, names, strict=True)
    ]
    _put_back(cells, marked)
    return [{**cell, "id": f"cell-{number}"} for number, (_, cell) in enumerate(cells, start=1)]


def _names(rows: Sequence[Row], course: Mapping[str, Marked]) -> list[str]:
    """For each row the course's cell that it is, "" for the student's own."""
    last = {row.grade_id: number for number, row in enumerate(rows) if row.grade_id in course}
    names = [row.grade_id if last.get(row.grade_id) == number else "" for number, row in enumerate(rows)]
    unlabelled = {each.source.strip(): name for name, each in course.items() if name not in last}
    for number, row in enumerate(rows):
        if not row.grade_id and row.kind == "code":
            names[number] = unlabelled.pop(row.source.strip(), "")
    return names


def _put_back(cells: list[tuple[str, dict[str, Any]]], marked: Sequence[Marked]) -> None:
    """Add the checks that are not there, each behind the cell that it follows in the course's notebook."""
    before, added = "", ""
    for each in marked:
        places = [name for name, _ in cells]
        if each.grade_id not in places:
            if not each.label["grade"]:
                continue
            at = places.index(before) + 1 if before else len(cells)
            note = [] if before and before == added else [("", _markdown(PUT_BACK))]
            cells[at:at] = [*note, (each.grade_id, _marked(each, each.source))]
            added = each.grade_id
        before = each.grade_id


def _marked(each: Marked, source: str) -> dict[str, Any]:
    text = each.source if each.is_given else source
    cell = _code(text) if each.kind == "code" else _markdown(text)
    return {**cell, "metadata": {"nbgrader": dict(each.label)}}


def _own(row: Row, prose: frozenset[str]) -> dict[str, Any]:
    if row.kind == "code":
        return _code(row.source)
    return _markdown(row.source if row.source.strip() in prose else fenced(row.source))


def fenced(text: str) -> str:
    """Markdown that shows a text as it is, whatever is in it."""
    longest = max((len(run) for run in re.findall(f"{FENCE}+", text)), default=0)
    fence = FENCE * max(longest + 1, 3)
    return f"{fence}\n{text}\n{fence}"


def _code(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def _markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


# ---------------------------------------------------------------- the course's own notebook


def prose_of(book: Mapping[str, Any]) -> frozenset[str]:
    """The texts of the markdown cells of the course's notebook."""
    return frozenset(source_of(row, "").strip() for row in book["cells"] if row["cell_type"] == "markdown")


def order_of(book: Mapping[str, Any]) -> Iterator[str]:
    """The grade_ids of the course's notebook, in order."""
    labels = (row["metadata"].get("nbgrader") for row in book["cells"])
    return (label["grade_id"] for label in labels if label)

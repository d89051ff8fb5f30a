"""Opening what was handed in: text files and the JSON of notebooks, and what is wrong with them and where.

It knows encodings and the notebook formats, of files on a disk or already in memory. What a cell is for this
file does not know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMAT, OLDEST_FORMAT = 4, 3
"""The notebook format that JupyterLab writes, and the oldest that is read: its cells are turned into today's."""

LARGEST_MB = 64
"""A larger file is not read: a notebook of the course with all its outputs has a few."""


class Unreadable(Exception):
    """What was handed in can't be read; the message names the file, the place and what to do."""


@dataclass(frozen=True)
class File:
    """A file in memory: its name, what is in it, and where it is a Python file, the one with its tests."""

    name: str
    data: bytes
    tests: File | None = None


def text_of(where: Path | File) -> str:
    """The text in a file. Raises FileNotFoundError, and Unreadable for what is no UTF-8 text."""
    file = where if isinstance(where, File) else File(where.name, bytes_of(where))
    if not file.data.strip():
        raise Unreadable(f"{file.name} is empty: save your work again and hand in the file that has it.")
    try:
        return file.data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = file.data.count(b"\n", 0, problem.start) + 1
        raise Unreadable(
            f"{file.name}, line {line}: byte 0x{file.data[problem.start]:02x} is not UTF-8. "
            "Save the file with the encoding UTF-8 and hand it in again."
        ) from None


def bytes_of(path: Path) -> bytes:
    """What is in a file. Only ordinary files are opened: reading anything else may never end.

    Raises:
        FileNotFoundError: there is no such file.
        Unreadable: it is no ordinary file, too large, or can't be opened.
    """
    if path.is_symlink():  # it could lead to what the grader may read and the student may not
        raise Unreadable(f"{path.name} is a link to another file: hand in the file itself.")
    if not path.exists():
        raise FileNotFoundError(path)
    if not path.is_file():
        raise Unreadable(f"{path.name} is {'a folder' if path.is_dir() else 'no ordinary file'}.")
    try:
        if path.stat().st_size > LARGEST_MB << 20:
            raise Unreadable(
                f"{path.name} has more than {LARGEST_MB} MB: clear the outputs of its cells and save it again."
            )
        return path.read_bytes()
    except OSError as problem:
        raise Unreadable(f"{path.name} can't be opened: {problem.strerror}.") from None


# ---------------------------------------------------------------- notebooks


def book_in(file: Path | File) -> dict[str, Any]:
    """A notebook's JSON, known to be one of a format that can be read."""
    try:
        book = json.loads(text_of(file))
    except json.JSONDecodeError as problem:
        raise Unreadable(
            f"{file.name}, line {problem.lineno}, column {problem.colno}: this is not valid JSON ({problem.msg}), "
            "so the file is no notebook or was cut short. Save it again from JupyterLab."
        ) from None
    except ValueError as problem:
        raise Unreadable(f"{file.name} is no notebook: {problem}.") from None
    except RecursionError:
        raise Unreadable(f"{file.name} is nested too deeply to be a notebook.") from None
    if not isinstance(book, dict) or not isinstance(book.get("nbformat"), int):
        raise Unreadable(f"{file.name} is JSON but no notebook: it has no nbformat number.")
    if not OLDEST_FORMAT <= book["nbformat"] <= FORMAT:
        raise Unreadable(
            f"{file.name} has notebook format {book['nbformat']}, and {FORMAT} is needed: "
            "open it in JupyterLab and save it again."
        )
    return book


def rows_of(book: Mapping[str, Any], file: Path | File) -> Sequence[Mapping[str, Any]]:
    """The cells of a notebook's JSON, each a dict."""
    rows = book.get("cells") if book["nbformat"] == FORMAT else _cells_of_worksheets(book)
    if not isinstance(rows, list):
        raise Unreadable(f"{file.name} has no list of cells.")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise Unreadable(f"{file.name}, cell {number}: this is no cell.")
    return rows


def _cells_of_worksheets(book: Mapping[str, Any]) -> list[Any] | None:
    """The cells of a notebook of format 3, where they stood in worksheets and a code cell's text was its input."""
    sheets = book.get("worksheets")
    if not isinstance(sheets, list):
        return None
    cells: list[Any] = []
    for sheet in sheets:
        rows = sheet.get("cells") if isinstance(sheet, dict) else None
        cells += rows if isinstance(rows, list) else []
    return [{**row, "source": row["input"]} if isinstance(row, dict) and "input" in row else row for row in cells]


def source_of(row: Mapping[str, Any], place: str) -> str:
    """A cell's text. Raises Unreadable where it has none."""
    source = row.get("source", "")
    lines = source if isinstance(source, list) else [source]
    if not all(isinstance(line, str) for line in lines):
        raise Unreadable(f"{place}: its source is not text.")
    return "".join(lines)

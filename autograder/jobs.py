"""What a room is to run before it serves: cells by module, and what running them brought to light.

It knows how a job is written down for the room, and how to find a student's line in a dump of a stack.
How the room is started it does not know.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from dataclasses import dataclass

from autograder.room.cells import filename_of
from autograder.wire import Message
from course.modules import Module


@dataclass(frozen=True)
class Cell:
    """One cell to run: `place` is how it is named to its author, `given` that a student did not write it.

    Where its source is not at hand, `sealed` is its code, marshalled by this version of Python.
    """

    source: str
    place: str
    given: bool = False
    sealed: bytes = b""


@dataclass(frozen=True)
class Part:
    """Cells that define one module's names, run in a namespace of their own."""

    module: Module
    cells: tuple[Cell, ...]
    is_notebook: bool = True


@dataclass(frozen=True)
class Job:
    """What a room runs before it serves: parts lowest first; the last one is the module under test.

    `own_tests` makes the last part's cells own tests: its names are bound to stand-ins before they run
    (autograder/room/own.py). `warm` names modules to import before any student's code; `compiled` are cells
    that forks will run, compiled once for all of them.
    """

    parts: tuple[Part, ...]
    own_tests: bool = False
    warm: tuple[str, ...] = ()
    compiled: tuple[Cell, ...] = ()

    def message(self, cell_s: float) -> Message:
        """The job as the room's first message."""
        parts = [
            {"module": part.module.name, "is_notebook": part.is_notebook, "cells": written(part.cells)}
            for part in self.parts
        ]
        rest = {"own_tests": self.own_tests, "warm": list(self.warm), "compiled": written(self.compiled)}
        return {"parts": parts, **rest, "cell_s": cell_s}

    def line(self, dump: str) -> str:
        """The innermost line of a student's cell in a dump of a stack: its place, number and text; "" if none."""
        sources = {
            filename_of(cell.place).encode("ascii", "backslashreplace").decode(): cell
            for part in self.parts
            for cell in part.cells
            if not cell.given
        }
        for found in FRAME.finditer(dump):
            if cell := sources.get(found["file"]):
                lines, number = cell.source.splitlines(), int(found["line"])
                text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
                return f"{cell.place}, line {number}{': ' + text if text else ''}"
        return ""


def written(cells: Iterable[Cell]) -> list[Message]:
    """Cells as a room is told of them."""
    return [
        {
            "source": cell.source,
            "place": cell.place,
            "given": cell.given,
            "sealed": base64.b64encode(cell.sealed).decode(),
        }
        for cell in cells
    ]


FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d{1,9}) in ', re.MULTILINE)


@dataclass(frozen=True)
class Opening:
    """What running the cells brought to light: errors by cell in order, and exported names that are missing."""

    raised: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def explained(place: str, error: BaseException) -> str:
    """What a cell raised, as one line for its author."""
    text = str(error).strip()
    at = getattr(error, "at", None)
    where = f" ({at[0]}, line {at[1]}{': ' + at[2] if at[2] else ''})" if at else ""
    return f"{place}: {type(error).__name__}{': ' + text if text else ''}{where}"

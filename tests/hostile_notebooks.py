"""Hostile submissions as notebooks, and what a grading may have left on this machine.

The sources stand in tests/hostile/, each a few cells of Python. A cell `# %% right` or `# %% wrong` stands for
a whole cache; needles are written backwards, so that a search of memory does not find the searcher.
"""

from __future__ import annotations

import json
import os
import re
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from autograder import implementations
from autograder.catalogue import catalogue
from course import modules

MODULE = modules.find("L8.4")
TESTS = [test.name for test in catalogue(MODULE)]
FOLDER = Path(__file__).parent / "hostile"
SECRET = "the-graders-own-secret"


@dataclass(frozen=True)
class Setting:
    """What a submission is told: folders that it may try, a name for what it leaves behind, a port to call."""

    folder: Path
    mark: str
    port: int = 9

    def cell(self) -> str:
        folders = [str(self.folder), str(FOLDER.parent.parent), str(Path.home())]
        return f"FOLDERS, MARK, PORT = {folders!r}, {self.mark!r}, {self.port}"


# ---------------------------------------------------------------- from a source to a notebook


def notebook(name: str, setting: Setting) -> str:
    """A source of tests/hostile as the text of a notebook."""
    head, *parts = re.split(r"^# %% ?(.*)\n", (FOLDER / f"{name}.py").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert head.startswith('"""'), f"{name}.py does not say what it tries"
    cells = [_cell(setting.cell(), "")]
    for kind, text in zip(parts[::2], parts[1::2], strict=True):
        cells.append(_cell({"right": right, "wrong": wrong, "needles": _needles}.get(kind, lambda: "")() + text, kind))
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})


def _cell(source: str, kind: str) -> dict[str, object]:
    label = {"own tests": "own_tests", "right": "step_1", "wrong": "step_1"}.get(kind, "")
    marks = {"grade": False, "grade_id": label, "locked": False, "schema_version": 3, "solution": True, "task": False}
    return {"cell_type": "code", "metadata": {"nbgrader": marks} if label else {}, "source": source}


def right() -> str:
    return implementations.reference_source(MODULE)


def wrong() -> str:
    return (FOLDER / "wrong.py").read_text(encoding="utf-8")


@cache
def _needles() -> str:
    """What no submission may find: names of tests, lines of the reference and of the flat model, a secret."""
    flat = (Path(implementations.__file__).parent / "flat" / f"{MODULE.name}.py").read_text(encoding="utf-8")
    public = "".join(path.read_text(encoding="utf-8") for path in Path(modules.__file__).parent.rglob("*.py"))
    longest = [_longest(text, public) for text in (right(), flat)]
    places = [f"{folder}{MODULE.name}" for folder in ("solutions/", "flat/", "bugs/", "tests/test_")]
    return f"NEEDLES = {[word[::-1] for word in [*TESTS, *longest, *places, SECRET]]!r}\n"


def _longest(source: str, public: str) -> str:
    lines = [line.strip() for line in source.splitlines()]
    return max((line for line in lines if line not in public and '"' not in line), key=len)


def as_notebook(source: str) -> str:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [_cell(source, "right")]})


# ---------------------------------------------------------------- what is left


def left() -> tuple[set[int], int, int]:
    return _descendants(), threading.active_count(), len(os.listdir("/proc/self/fd"))


def _descendants() -> set[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":  # who has ended and only waits for us to hear of it does nothing any more
            parents[int(path.parent.name)] = int(parent)
    found, waiting = set[int](), {os.getpid()}
    while waiting:
        waiting = {pid for pid, parent in parents.items() if parent in waiting}
        found |= waiting
    return found

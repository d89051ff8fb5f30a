"""Folders of a class for the tests: files written in a line, and what is found in them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from autograder import files
from autograder.classroom.handed_in import HandedIn, find
from course.modules import MODULES, Module

KV, TREE, CACHE, MANAGER = MODULES


def notebook(path: Path, *sources: str, checks: tuple[str, ...] = ()) -> Path:
    cells: list[dict[str, Any]] = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]
    for check in checks:
        label = {"grade_id": f"check_{check}", "grade": True}
        cells.append({"cell_type": "code", "metadata": {"nbgrader": label}, "source": f'check("{check}")'})
    return text(path, json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


def text(path: Path, content: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def older(path: Path, seconds: float) -> Path:
    os.utime(path, (time.time() - seconds, time.time() - seconds))
    return path


def one(folder: Path, module: Module = CACHE) -> HandedIn:
    (entry,) = find(folder, [module])
    return entry


def by_student(entries: tuple[HandedIn, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in entries:
        found.setdefault(entry.student, []).extend([entry.module.id] * (entry.path is not None))
    return found


def refused(path: Path | None) -> str:
    assert path is not None
    with pytest.raises(files.Unreadable) as problem:
        files.text_of(path)
    return str(problem.value)

"""The student edition made once for all tests of it, and how to work in it as a student does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autograder.cli import app
from course.modules import MODULES
from notebooks import build

NAMES = build.names()
GRADED = [name for name in NAMES if name in {module.name for module in MODULES}]

each_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.id)
each_notebook = pytest.mark.parametrize("name", NAMES)


@cache
def released(base: Path) -> Path:
    """The edition's folder, made by the command below a folder for all tests; the zip is beside it."""
    folder = base / "released" / "kv-cache-course"
    ran = CliRunner().invoke(app, ["release", str(folder)])
    assert ran.exit_code == 0, ran.output
    return folder


def environment(edition: Path) -> dict[str, str]:
    """One in which Python finds the edition, and nothing of the repository."""
    return {**os.environ, "PYTHONPATH": str(edition), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def python(edition: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=cwd or edition, env=environment(edition), capture_output=True, text=True)


def ol(edition: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return python(edition, "-m", "autograder.cli", *words, cwd=cwd)


def files(edition: Path) -> dict[str, bytes]:
    """What was released; what tests leave beside it is not."""
    with zipfile.ZipFile(edition.with_name(f"{edition.name}.zip")) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def solved(name: str) -> dict[str, Any]:
    """A student's notebook with the solutions written into its cells."""
    answers = {cell["id"]: cell["source"] for cell in build.build(name)["cells"]}
    notebook = build.student_notebook(name)
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("solution"):
            cell["source"] = re.sub(r" *### (BEGIN|END) SOLUTION.*\n?", "", answers[cell["id"]])
    return notebook


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def commands_of(readme: str) -> list[str]:
    """The first commands that a README tells to type."""
    return [line.partition("#")[0].strip() for line in readme.split("```")[1].strip().splitlines()]

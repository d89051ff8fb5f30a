"""Which module a file is for, and whose it is: by its name, else by what is in it.

It knows how files are called when they are renamed, copied and downloaded, and what shows a notebook's module:
the named tests that its check cells carry, the module it begins with, the classes it defines. Nothing is run,
and no link or pipe is opened.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from autograder.catalogue import catalogue
from autograder.files import Unreadable, book_in, rows_of
from course.modules import EXTENSIONS, MODULES, Module

SUFFIXES = (".ipynb", ".py")

NO_WORK = frozenset({"__init__", "conftest", "setup", "nbgrader_config"})
"""Python files that belong to a folder, not to a student; tests beside a Python file (test_*.py) do neither."""

HEAD_BYTES = 1 << 20
"""As much of a file that can't be read as a notebook is looked through for signs of its module."""

COPY = re.compile(r"(?:\s*\(\d+\)|[\s_-]+copy(?:[\s_-]?\d+)?)+$", re.IGNORECASE)
"""What browsers, JupyterLab and desktops put behind a name: (1), -Copy1, ' - Copy', ' copy 2'."""

NUMBERED = re.compile(r"(?:^|-)\d{1,2}$")
"""What students and learning platforms put behind the name of a file that is handed in again: 2, -1."""

BETWEEN = " _-.,+"


def is_work(name: str) -> bool:
    """Whether a file of this name can be a submission at all."""
    stem, suffix = os.path.splitext(name)
    if suffix.lower() not in SUFFIXES:
        return False
    return suffix.lower() == ".ipynb" or not (stem in NO_WORK or stem.startswith("test_"))


# ---------------------------------------------------------------- by name


@cache
def _pattern(module: Module) -> re.Pattern[str]:
    name = r"[\W_]*".join(module.name.split("_"))
    identity = re.escape(module.id)
    return re.compile(rf"{name}(?![^\W\d_])|(?<![^\W_]){identity}(?![^\W_])", re.IGNORECASE)


def named_after(text: str) -> Module | None:
    """The one module that a file's stem or a folder's name mentions; None where it mentions none, or several."""
    found = [module for module in MODULES if _pattern(module).search(text)]
    return found[0] if len(found) == 1 else None


def is_called(text: str, module: Module) -> bool:
    """Whether a name is the module's name or id, and nothing else but for case and separators."""
    return _pattern(module).fullmatch(text.strip(BETWEEN)) is not None


def student_in(stem: str) -> str:
    """Whose a file in a flat folder is: what its stem says besides the module, or the stem where that is nothing."""
    kept = COPY.sub("", stem)
    module = named_after(kept)
    if module is None:
        return kept.strip() or stem
    before, after = _pattern(module).split(kept, maxsplit=1)
    if before.strip(BETWEEN):
        after = NUMBERED.sub("", after)
    rest = [piece for piece in (before.rstrip(BETWEEN), after.lstrip(BETWEEN)) if piece.strip(BETWEEN)]
    return "_".join(rest).strip() or stem


def is_copy(stem: str) -> bool:
    """Whether a name says that the file is a copy or another attempt."""
    return bool(COPY.search(stem))


# ---------------------------------------------------------------- by what is in it


CHECK = re.compile(r"(?<![\w.])check_(\w+)")
BEGIN = re.compile(r"^\s*begin\(\s*[\"']([\w.-]+)[\"']", re.MULTILINE)


def told_by(path: Path) -> tuple[Module, ...]:
    """The modules that the work in a file is for; none where nothing in it says so, or it can't be looked into.

    Check cells or the first cell name one module. Where a file has lost them, it counts for every module of which
    it defines a class or function. Work on an extension of a module is not graded, and counts for none.
    """
    if path.suffix.lower() == ".ipynb":
        labels, source = _signs(path)
    else:
        labels, source = "", _head(path)
    begun = [module for module in (*MODULES, *EXTENSIONS) if {module.id, module.name} & set(BEGIN.findall(source))]
    if one := _most_checks(labels) or (begun if len(begun) == 1 else []):
        return tuple(module for module in one if module in MODULES)
    return tuple(module for module in MODULES if _definition(module).search(source))


def _most_checks(labels: str) -> list[Module]:
    named = set(CHECK.findall(labels))
    counts = {module: len(named & _tests(module)) for module in MODULES}
    most = max(counts.values())
    best = [module for module, count in counts.items() if count == most]
    return best if most and len(best) == 1 else []


@cache
def _tests(module: Module) -> frozenset[str]:
    return frozenset(test.name for test in catalogue(module))


@cache
def _definition(module: Module) -> re.Pattern[str]:
    return re.compile(rf"^(?:class|def) +(?:{'|'.join(module.exports)})\b", re.MULTILINE)


def _signs(path: Path) -> tuple[str, str]:
    """A notebook's grade_ids and the text of its code cells; from a torn one, what can be made out."""
    try:
        rows = rows_of(book_in(path), path)
    except (Unreadable, OSError):
        text = _head(path).replace("\\n", "\n").replace('\\"', "'").replace('"', "\n")
        return text, text
    return "\n".join(map(_grade_id, rows)), "\n".join(map(_source, rows))


def _grade_id(row: Mapping[str, Any]) -> str:
    metadata = row.get("metadata")
    label = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return str(label.get("grade_id", "")) if isinstance(label, dict) else ""


def _source(row: Mapping[str, Any]) -> str:
    source = row.get("source", "")
    if row.get("cell_type") != "code":
        return ""
    lines = source if isinstance(source, list) else [source]
    return "".join(line for line in lines if isinstance(line, str))


def _head(path: Path) -> str:
    """The first part of an ordinary file, with whatever is no text replaced; "" for anything else."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return ""
        return opened.read(HEAD_BYTES).decode("utf-8", "replace")

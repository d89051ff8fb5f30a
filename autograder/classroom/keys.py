"""The key of a verdict: what it hangs on, so that the same key means the same verdict.

It has four parts, each a hash that can be compared by itself: the submission, the student's earlier modules it
stands on, the grader, and the settings. How a verdict comes about this file does not know.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from autograder.classroom import points
from course.modules import Module

ROOT = Path(__file__).parent.parent.parent

DECIDE = ("autograder", "course", "solutions", "fixtures")
"""Folders that verdicts hang on: tests and rooms, the contract, the references, the golden trace."""

DECIDE_NOTHING = ("autograder/classroom/pages", "fixtures/submissions")
"""How verdicts are shown, and what is graded: a mended page is no reason to grade a class again."""

PACKAGES = ("pytest", "hypothesis")
"""What runs the students' own tests."""

SUBMISSION, EARLIER, GRADER, SETTINGS = "submission", "earlier", "grader", "settings"

HEX_DIGITS = 32


def key(module: Module, files: Mapping[str, bytes], settings: Mapping[str, Any]) -> str:
    """The key of a verdict, `submission:…/earlier:…/grader:…/settings:…`.

    Args:
        module: what is graded.
        files: by module name, the work itself and the student's earlier modules; a Python file's own tests under
            `test_<module>`. Files that the verdict doesn't hang on may be among them.
        settings: limits, sandbox and whatever else changes a verdict: plain values.
    """
    own = (module.name, f"test_{module.name}")
    parts = {
        SUBMISSION: _hash(_named(files, own)),
        EARLIER: _hash(_named(files, module.needs)),
        GRADER: _hash([grader(ROOT).encode(), _marks(module)]),
        SETTINGS: _hash([json.dumps(settings, sort_keys=True, default=str).encode()]),
    }
    return "/".join(f"{name}:{value}" for name, value in parts.items())


def parts(key: str) -> dict[str, str]:
    """The parts of a key by name; empty for a result that has none."""
    return dict(part.split(":", 1) for part in key.split("/") if ":" in part)


def _named(files: Mapping[str, bytes], names: Iterable[str]) -> Iterator[bytes]:
    """Names and contents of those files that there are."""
    for name in names:
        if name in files:
            yield name.encode()
            yield files[name]


def _hash(pieces: Iterable[bytes]) -> str:
    """A hash of pieces one after the other; where one ends and the next begins counts."""
    made = hashlib.sha256()
    for piece in pieces:
        made.update(len(piece).to_bytes(8, "little"))
        made.update(piece)
    return made.hexdigest()[:HEX_DIGITS]


def _marks(module: Module) -> bytes:
    """The points of a module's checks: kept with a verdict, so that they are part of what it hangs on."""
    return json.dumps([points.worth(module), points.hidden(module)]).encode()


# ---------------------------------------------------------------- the grader


@cache
def grader(root: Path) -> str:
    """The version of the grader whose folders lie in `root`: its files, the Python and the packages it runs with."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    pieces = [text.encode() for text in (f"Python {platform.python_version()}", *versions)]
    for path in sorted(_files(root)):
        pieces += [path.relative_to(root).as_posix().encode(), path.read_bytes()]
    return _hash(pieces)


def _files(root: Path) -> Iterator[Path]:
    left_out = [root / folder for folder in DECIDE_NOTHING]
    for folder in DECIDE:
        for path in (root / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and not _is_in(path, left_out):
                yield path


def _is_in(path: Path, folders: Iterable[Path]) -> bool:
    return any(folder in path.parents for folder in folders)

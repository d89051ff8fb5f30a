"""Sealed code: references, planted bugs and flat models as bytecode, for an edition that must not show their source.

Sealing keeps an exercise from being spoilt by a search or a glance; it is a deterrent and no secret, and no mark
depends on it. Docstrings are left out, line numbers and names of variables are not. Bytecode fits one version of
Python: there is a file for each that it was sealed for, `cpython-311.sealed` and so on.

    python sealed.py FOLDER < sources.json      seals for the Python that runs this; needs nothing but its library

It knows the files' format, both ways. What is sealed, and who asks for it, it does not know.
"""

from __future__ import annotations

import ast
import json
import marshal
import re
import sys
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType

SUFFIX = ".sealed"

PLAIN_FORMAT = 2
"""The marshal format without references between objects: the same code gives the same bytes every time."""


class WrongPython(Exception):
    """The code is sealed for other versions of Python; the message names them, and says what to do."""

    def _render_traceback_(self) -> list[str]:
        # in a notebook a traceback through the autograder would only hide what to do
        return [f"{type(self).__name__}: {self}"]


# ---------------------------------------------------------------- sealing


def seal(sources: Mapping[str, tuple[str, str]], folder: Path) -> Path:
    """Write source texts into a folder as code for the running Python.

    Args:
        sources: for each name, the file name that its code is to carry, and its text.
        folder: where the file goes; it must be there.
    """
    parts = {name: _as_bytes(_without_docstrings(text, filename)) for name, (filename, text) in sorted(sources.items())}
    file = folder / f"{sys.implementation.cache_tag}{SUFFIX}"
    file.write_bytes(MAGIC_NUMBER + zlib.compress(marshal.dumps(parts, PLAIN_FORMAT), 9))
    return file


def _without_docstrings(text: str, filename: str) -> CodeType:
    """A text as code. Unlike under -OO, assert statements stay: a planted bug may be one that trips over them."""
    tree = ast.parse(text, filename)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body[:1] = [] if len(node.body) > 1 else [ast.copy_location(ast.Pass(), node.body[0])]
    return compile(tree, filename, "exec", dont_inherit=True, optimize=0)


def _as_bytes(code: CodeType) -> bytes:
    try:
        return marshal.dumps(code, PLAIN_FORMAT)
    except ValueError:  # from 3.14 on, a constant slice needs a later format
        return marshal.dumps(code)


# ---------------------------------------------------------------- opening


def opened(folder: Path) -> Mapping[str, bytes]:
    """Everything sealed in a folder, by name, each as marshalled code for the running Python.

    Raises:
        WrongPython: nothing there is sealed for it.
    """
    file = folder / f"{sys.implementation.cache_tag}{SUFFIX}"
    data = file.read_bytes() if file.exists() else b""
    if data[: len(MAGIC_NUMBER)] != MAGIC_NUMBER:
        raise WrongPython(_wrong(versions(folder)))
    parts: dict[str, bytes] = marshal.loads(zlib.decompress(data[len(MAGIC_NUMBER) :]))
    return parts


def versions(folder: Path) -> tuple[str, ...]:
    """The versions of Python that a folder has sealed code for, such as "3.11"."""
    tags = [re.fullmatch(r"cpython-(\d)(\d+)", file.stem) for file in folder.glob(f"*{SUFFIX}")]
    found = sorted((int(tag[1]), int(tag[2])) for tag in tags if tag)
    return tuple(f"{major}.{minor}" for major, minor in found)


def _wrong(there: Iterable[str]) -> str:
    """What to do where there is nothing for the running Python."""
    wanted, here = list(there), "{}.{}.{}".format(*sys.version_info)
    return (
        f"this edition of the course works with Python {' or '.join(wanted) or '(none)'}, and this is Python {here}. "
        "Its planted bugs and flat models are code for that version: without them own tests can't be scored, nothing "
        f"can be lent and --ref-deps can't be used. Set it up again: make setup PYTHON=python{(wanted or ['3'])[-1]}"
    )


_opened = cache(opened)


def marshalled(folder: Path, name: str) -> bytes:
    """One sealed text's code, marshalled. Raises WrongPython, and KeyError where nothing goes by that name."""
    return _opened(folder)[name]


def code(folder: Path, name: str) -> CodeType:
    """One sealed text's code, to be run. Raises as `marshalled` does."""
    found: CodeType = marshal.loads(marshalled(folder, name))
    return found


if __name__ == "__main__":
    seal(json.load(sys.stdin), Path(sys.argv[1]))

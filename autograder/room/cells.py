"""Running cells in one namespace, as a notebook does, without a notebook.

It knows what a cell may ask of a kernel, and answers with something that does nothing. What the cells
are for it does not know.
"""

from __future__ import annotations

import base64
import contextlib
import linecache
import marshal
import sys
import types
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from typing import Any

from course import modules

Raised = Callable[[str, BaseException], None]
"""Hears what a cell raised: its place, and the exception."""


class Nothing:
    """What a check cell or a picture gets here, whatever it asks for: something that does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Nothing:
        """Do nothing, and give something that does nothing."""
        return self

    def __getitem__(self, key: Any) -> Nothing:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0


QUIET = ("autograder.notebook", "course.lab")
"""What does nothing while grading: checks, predictions and lent classes, and prompts served by the engine."""


class Quiet(types.ModuleType):
    """Stands for a module of QUIET here."""

    __path__: MutableSequence[str] = []  # noqa: RUF012 - a package to the import system

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(Nothing(), name)


def quiet() -> dict[str, types.ModuleType]:
    """A stand-in for each module of QUIET."""
    return {name: Quiet(name) for name in QUIET}


@contextlib.contextmanager
def in_place(stand_ins: Mapping[str, types.ModuleType]) -> Iterator[None]:
    """Let these modules be the ones that are imported, for the length of a `with` block."""
    before = {name: sys.modules.get(name) for name in stand_ins}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


class Standing(types.ModuleType):
    """Stands for the student's own file in its tests: `from radix_cache import RadixCache`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(modules, name)


def filename_of(place: str) -> str:
    """The file name that a cell's code carries in tracebacks."""
    return f"<{place}>"


def place(filename: str) -> str | None:
    """The place of the cell that this file name stands for; None if no cell has it."""
    return _places.get(filename)


_places: dict[str, str] = {}
_compiled: dict[tuple[str, str], types.CodeType] = {}


def compile_for_forks(cells: Sequence[Mapping[str, Any]]) -> None:
    """Compile cells, and run none: forks need not do it then. What can't be compiled is left to them."""
    for cell in cells:
        filename = filename_of(cell["place"])
        with contextlib.suppress(Exception):
            _compiled[filename, cell["source"]] = _code(cell, filename)


def _code(cell: Mapping[str, Any], filename: str) -> types.CodeType:
    if sealed := cell.get("sealed"):
        code: types.CodeType = marshal.loads(base64.b64decode(sealed))
        return code
    found = _compiled.get((filename, cell["source"]))
    return found or compile(cell["source"], filename, "exec", dont_inherit=True)


def run_cells(
    cells: Sequence[Mapping[str, Any]], space: dict[str, Any], begin: Callable[[str], None], raised: Raised
) -> None:
    """Run cells one after another, as a notebook does; one that raises is reported, and the next one runs.

    Args:
        cells: each has a source, a place, whether it is given, and where there is no source, its code.
        space: the namespace they share.
        begin: hears the place of each before it runs.
        raised: hears what a student's cell raised, other than that a part is not written yet.
    """
    for cell in cells:
        begin(cell["place"])
        filename = filename_of(cell["place"])
        lines = cell["source"].splitlines(keepends=True)
        linecache.cache[filename] = (len(cell["source"]), None, lines, filename)
        if not cell["given"]:
            _places[filename] = cell["place"]
        try:
            exec(_code(cell, filename), space)
        except NotImplementedError:
            pass  # a part that is not written yet: the named tests say so
        except BaseException as error:
            if not cell["given"]:  # what the course wrote may lack what it needs here; that is no news to a student
                raised(cell["place"], error)


def space_for(module_name: str, is_notebook: bool) -> dict[str, Any]:
    """The namespace cells run in: that of the main module for a notebook, of a module for a file."""
    sys.modules.update(quiet())
    name = "__main__" if is_notebook else module_name
    sys.modules[name] = module = types.ModuleType(name)
    if is_notebook:
        vars(module).update(display=Nothing(), get_ipython=Nothing())
    return vars(module)

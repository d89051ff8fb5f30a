"""Flat models: for each module a second implementation, slow and plainly right.

They are written from the contract with dicts, lists and scans, apart from the reference solutions. So they
can stand for a module that a student has not passed, be the second right answer that students' tests must
accept, and write the golden traces. This file knows how to load one of them with the others underneath it;
what they do, and who asks, it does not know.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType

from autograder import edition, sealed
from course.modules import bound, find


def flat_exports(module_name: str) -> dict[str, object]:
    """The names that a module exports (`{"RadixCache": <class>}`), from its flat model.

    The flat model is loaded anew, with flat models of all its needs underneath, and what is bound in
    `course.modules` stays as it was.

    Args:
        module_name: a module's name or its id, such as "radix_cache" or "L8.4".

    Raises:
        KeyError: there is no such module.
        WrongPython: this edition has it sealed, for another version of Python (autograder/sealed.py).
    """
    module = find(module_name)
    underneath: dict[str, object] = {}
    for need in module.needs:  # lowest first, so each finds its own needs bound
        underneath |= load_over(need, underneath)
    return load_over(module.name, underneath)


def flat_source(module_name: str) -> str:
    """The source text of a module's flat model, where it is not sealed."""
    return (Path(__file__).parent / f"{module_name}.py").read_text(encoding="utf-8")


def load_over(module_name: str, underneath: Mapping[str, object]) -> dict[str, object]:
    """A module's flat model, loaded anew over these names; raises as `flat_exports` does."""
    loaded, run = _unloaded(module_name)
    with bound(underneath), _listed(loaded.__name__, loaded):
        run()
    return {name: getattr(loaded, name) for name in find(module_name).exports}


def _unloaded(module_name: str) -> tuple[ModuleType, Callable[[], None]]:
    """A flat model as an empty module, and what fills it."""
    name = f"{__name__}.{module_name}"
    if edition.IS_STUDENTS:
        loaded = ModuleType(name)
        return loaded, partial(exec, sealed.code(edition.SEALED, f"flat/{module_name}"), vars(loaded))
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(f"the flat model of {module_name} is not installed here")
    loaded = importlib.util.module_from_spec(spec)
    return loaded, partial(spec.loader.exec_module, loaded)


@contextlib.contextmanager
def _listed(name: str, module: ModuleType) -> Iterator[None]:
    # dataclasses look up their module in sys.modules while the class is made
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before

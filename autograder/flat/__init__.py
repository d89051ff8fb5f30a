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
from collections.abc import Iterator, Mapping
from types import ModuleType

from course.modules import bound, find


def flat_exports(module_name: str) -> dict[str, object]:
    """The names that a module exports (`{"RadixCache": <class>}`), from its flat model.

    The flat model is loaded anew, with flat models of all its needs underneath, and what is bound in
    `course.modules` stays as it was.

    Args:
        module_name: a module's name or its id, such as "radix_cache" or "L8.4".

    Raises:
        KeyError: there is no such module.
    """
    module = find(module_name)
    underneath: dict[str, object] = {}
    for need in module.needs:  # lowest first, so each finds its own needs bound
        underneath |= _load(need, underneath)
    return _load(module.name, underneath)


def _load(module_name: str, underneath: Mapping[str, object]) -> dict[str, object]:
    spec = importlib.util.find_spec(f"{__name__}.{module_name}")
    if spec is None or spec.loader is None:
        raise ImportError(f"the flat model of {module_name} is not installed here")
    loaded = importlib.util.module_from_spec(spec)
    with bound(underneath), _listed(spec.name, loaded):
        spec.loader.exec_module(loaded)
    return {name: getattr(loaded, name) for name in find(module_name).exports}


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

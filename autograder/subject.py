"""The implementation under test, whatever it is: a reference, a flat model, a planted bug, a submission.

It knows how to turn source text into the names that a module exports, with the names it stands on
bound for the length of the load. It does not know where the text comes from or what is tested.
"""

from __future__ import annotations

import linecache
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from course import modules
from course.modules import Module

_compiled = lru_cache(256)(compile)


class NotDefined(Exception):
    """The code under test does not define a name that its module exports."""


@dataclass(frozen=True)
class Subject:
    """The names a test may use: those under test, and those of the modules underneath.

    `subject.RadixCache` is the class under test. `label` says in reports what this is.
    """

    module: Module
    names: Mapping[str, Any] = field(repr=False)
    label: str = "submission"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self.names[name]
        except KeyError:
            raise NotDefined(f"{name} is not defined in this {self.label}") from None


def load(module: Module, source: str | types.CodeType, below: Mapping[str, Any], label: str = "submission") -> Subject:
    """Run a module's source with the names it stands on bound, and collect what it exports.

    Args:
        module: which module the source implements.
        source: Python text, or code that was compiled from it.
        below: an implementation for each name that the module's needs export.
        label: what this is, for reports; also the file name in tracebacks.
    """
    # One of each name is kept: whoever grades a class loads the same planted bugs a thousand times.
    space = types.ModuleType(f"subject_{module.name}_{label}")
    space.__file__ = filename = f"<{label}: {module.name}>"
    if isinstance(source, str):
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        source = _compiled(source, filename, "exec")
    sys.modules[space.__name__] = space
    with modules.bound(below):
        exec(source, space.__dict__)
    return subject_of(module, vars(space), below, label)


def subject_of(module: Module, space: Mapping[str, Any], below: Mapping[str, Any], label: str) -> Subject:
    """The subject that a namespace defines, over the implementations underneath."""
    exported = {name: space[name] for name in module.exports if name in space}
    return Subject(module, {**below, **exported}, label)

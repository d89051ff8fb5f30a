"""Plain values: what may cross from a submission into a comparison, rebuilt as exact built-in types.

It knows the contract's result classes and Python's plain types. It knows nothing of tests. A
comparison is only worth something between plain values: an object with its own `__eq__` can equal
everything.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from course import contract

RESULTS = (
    contract.Match,
    contract.Insertion,
    contract.PrefixMatch,
    contract.Inserted,
    contract.PrefixStats,
    contract.Allocation,
    contract.BlockStats,
)
"""The result classes of the contract, the only ones that may be returned."""

SCALARS = (int, float, str, bytes, bool, type(None))
_SCALARS = frozenset(SCALARS)


class NotPlain(Exception):
    """A value that is no plain one; the message says what to do about it."""


def plain(value: Any) -> Any:
    """The same value, rebuilt from exact built-in types and contract results.

    Raises:
        NotPlain: anything else, with a sentence that says how to mend it.
    """
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is list or kind is tuple:
        return kind(value) if set(map(type, value)) <= _SCALARS else kind([plain(item) for item in value])
    if kind is dict:
        return {plain(key): plain(item) for key, item in value.items()}
    if kind is contract.PrefixCache:
        return value
    if kind in RESULTS:
        return _plain_result(value)
    raise NotPlain(_advice(kind))


def _plain_result(value: Any) -> Any:
    fields = {}
    for field in dataclasses.fields(value):
        item = object.__getattribute__(value, field.name)
        if field.name in ("values", "present", "blocks", "duplicates") and type(item) is not tuple:
            raise NotPlain(f"{type(value).__name__}.{field.name} is a {type(item).__name__}: make it a tuple")
        fields[field.name] = item if field.name == "node" else plain(item)
    return type(value)(**fields)


def _advice(kind: type) -> str:
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    if hasattr(kind, "__index__"):
        return f"returned {name}: wrap it in int()"
    for base in (list, tuple, dict, str, float):
        if issubclass(kind, base):
            return f"returned {name}: wrap it in {base.__name__}()"
    if hasattr(kind, "__next__"):
        return f"returned {name}: wrap it in list()"
    if kind.__name__ in {result.__name__ for result in RESULTS}:
        return f"returned {name}, a class of its own: use {kind.__name__} of course.contract"
    return f"returned {name}: return plain values or the results of course.contract"

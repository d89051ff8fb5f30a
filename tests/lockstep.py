"""What the lockstep tests of flat models and references share: both sets of implementations, and how results compare.

Blocks and nodes are compared by what they stand for, not by their ids: which free block `alloc` hands out, and
what a node is called, the contract leaves open.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st

from autograder.flat import flat_exports
from course import modules
from course.contract import ROOT, PoolExhausted

few = settings(
    derandomize=True,
    max_examples=60,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],  # what explains a failure takes minutes here
)
FLAT: dict[str, Any] = {}
for _module in modules.MODULES:
    FLAT |= flat_exports(_module.name)


def load(package: str, module: str, underneath: Mapping[str, object]) -> Any:
    """A fresh copy of an implementation's file, with these names bound while it is loaded."""
    spec = importlib.util.find_spec(f"{package}.{module}")
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    before = sys.modules.get(spec.name)
    sys.modules[spec.name] = loaded
    try:
        with modules.bound(underneath):
            spec.loader.exec_module(loaded)
    finally:
        del sys.modules[spec.name]
        if before is not None:
            sys.modules[spec.name] = before
    return loaded


REFERENCE: dict[str, Any] = {}
for _module in modules.MODULES:
    _loaded = load("solutions", _module.name, REFERENCE)
    REFERENCE |= {name: getattr(_loaded, name) for name in _module.exports}


@dataclass(frozen=True)
class Raised:
    """A call's end by an exception: its exact type, and what a PoolExhausted carries."""

    type: type[BaseException]
    needed: int | None = None
    available: int | None = None


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    """What a call gives, or how it raises."""
    try:
        return call(*args)
    except (ValueError, KeyError, PoolExhausted) as error:
        return Raised(type(error), getattr(error, "needed", None), getattr(error, "available", None))


def same(results: Iterable[Any]) -> Any:
    """The one result that all of these are."""
    first, *others = results
    for other in others:
        assert other == first
    return first


def ranked(times: Iterable[int]) -> dict[int, int]:
    """Times of use as ranks: the contract fixes their order, not the clock."""
    return {time: rank for rank, time in enumerate(sorted(set(times)))}


runs = st.integers(0, 9).flatmap(lambda n: st.lists(st.integers(0, 1), min_size=n, max_size=n))
"""Short runs of two tokens, so that they share much."""


def tree_picture(tree: Any) -> dict[tuple[int, ...], Any]:
    """A tree as its nodes by path: the path's parent, values, locks and the rank of the time of use."""
    rows = list(tree.walk())
    rank = ranked(row[5] for row in rows)
    path: dict[Any, tuple[int, ...]] = {ROOT: ()}
    picture = {}
    for node, parent, tokens, values, locks, last_used in rows:
        path[node] = path[parent] + tokens  # a KeyError here: a parent that did not come first
        assert len(values) * tree.granule == len(tokens) > 0
        picture[path[node]] = (path[parent], values, locks, rank[last_used])
    assert len(picture) == len(rows) == tree.n_nodes
    assert sum(len(row[1]) for row in picture.values()) == tree.n_values
    assert sum(len(row[1]) for row in picture.values() if not row[2]) == tree.n_evictable
    return picture

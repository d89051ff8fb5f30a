"""The one list of the course's modules, and the one place where their names are bound.

`from course.modules import KvPool` gives whatever implementation stands for `KvPool` where the code
runs: the references in the project's tests, a student's own class once it passes, else a flat model.
This file knows the names; who binds them, and to what, it does not know.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course import contract

    KvPool: type[contract.KvPool]
    kv_block_hash: contract.KvBlockHash
    RadixTree: type[contract.RadixTree]
    RadixCache: type[contract.RadixCache]
    BlockManager: type[contract.BlockManager]


@dataclass(frozen=True)
class Module:
    """One module of the course: its id (`L8.4`), its name in files, what it exports and what it stands on.

    An extension `extends` another module, whose reference and flat model are its own too, by the optional calls
    that it `adds`; named tests and planted bugs it has under its own name.
    """

    id: str
    name: str
    title: str
    exports: tuple[str, ...]
    needs: tuple[str, ...] = ()
    extends: str = ""
    adds: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The name of the files that hold its reference and its flat model."""
        return self.extends or self.name


MODULES = (
    Module("L10.1", "kv_pool", "KV block pool", ("KvPool", "kv_block_hash")),
    Module("ds.07", "radix_tree", "Radix tree", ("RadixTree",)),
    Module("L8.4", "radix_cache", "Radix prefix cache", ("RadixCache",), ("radix_tree",)),
    Module(
        "L10.4",
        "block_manager",
        "Block manager with prefix cache",
        ("BlockManager",),
        ("kv_pool", "radix_tree", "radix_cache"),
    ),
)
"""Every module, in the order in which a student meets them; `needs` names all those underneath, lowest first."""

EXTENSIONS = (
    Module(
        "L10.4-publish",
        "publish",
        "Block manager that publishes blocks early",
        ("BlockManager",),
        ("kv_pool", "radix_tree", "radix_cache"),
        "block_manager",
        ("publish",),
    ),
)
"""What the lab adds to a module. It can be checked, and is no part of a class's grades."""

PRODUCTION = Module(
    "lab",
    "production",
    "What production systems add",
    ("RadixTree", "RadixCache", "BlockManager"),
    ("kv_pool", "radix_tree", "radix_cache", "block_manager"),
)
"""The lab's own classes, which extend the references. Nobody is asked to write them."""

_bound: dict[str, object] = {}
_offered: list[str] = []


def find(wanted: str) -> Module:
    """The module of this id or name. Raises KeyError, naming the modules there are."""
    for module in (*MODULES, *EXTENSIONS):
        if wanted in (module.id, module.name):
            return module
    known = ", ".join(f"{module.id} ({module.name})" for module in (*MODULES, *EXTENSIONS))
    raise KeyError(f"no module {wanted!r}; there are {known}")


def bind(names: Mapping[str, object]) -> None:
    """Let these names stand for these implementations from now on."""
    for name in names:
        _owner(name)
    _bound.update(names)


@contextlib.contextmanager
def bound(names: Mapping[str, object]) -> Iterator[None]:
    """Bind these names for the length of a `with` block, then as before."""
    before = dict(_bound)
    bind(names)
    try:
        yield
    finally:
        _bound.clear()
        _bound.update(before)


def is_bound(name: str) -> bool:
    """Whether this name stands for anything now, bound or offered."""
    try:
        __getattr__(name)
    except ImportError:
        return False
    return True


def offer(package: str) -> None:
    """Let `package.kv_pool` and its sisters stand for names that nobody has bound."""
    if package not in _offered:
        _offered.append(package)


def _owner(name: str) -> Module:
    for module in MODULES:
        if name in module.exports:
            return module
    raise AttributeError(f"course.modules has no name {name!r}")


def __getattr__(name: str) -> Any:
    module = _owner(name)
    if name in _bound:
        return _bound[name]
    for package in _offered:
        return getattr(importlib.import_module(f"{package}.{module.name}"), name)
    raise ImportError(f"{name} ({module.id}) is not bound here: pass {module.id} first, or bind a stand-in")

"""A student's own modules under the engine: found beside the lab, tried, and bound in this kernel where they pass.

It knows where a student's notebooks stand, asks the grading machinery which of them are sound, and runs the cells
of those in this process. What is served with them, and how fast it is, it does not know. Nothing here is a mark.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from autograder import flat, reading
from autograder.benchmarks.serving import lab_names
from autograder.benchmarks.submitted import run_here
from autograder.blame import Footing, footing
from autograder.files import Unreadable
from autograder.reading import Submission
from autograder.rooms import Rooms
from autograder.work import Limits, Remarks
from course import lab, modules
from course.lab_views import table
from course.modules import MODULES, Module
from course.pictures import Picture

LIMITS = Limits(test_s=10.0, total_s=60.0)
"""Seconds for each named test, and for all those of a module."""


def use_lent() -> Picture:
    """Let finished, slow implementations stand for every name of `course.modules` that nobody has bound.

    Returns:
        What is lent, in a sentence.
    """
    lent = {name: value for name, value in flat_models().items() if not modules.is_bound(name)}
    modules.bind(lent)
    owners = [module for module in MODULES if set(module.exports) & lent.keys()]
    what = ", ".join(f"{' and '.join(module.exports)} ({module.id})" for module in owners)
    return table((), (), f"Ready. The course lends you {what}: slow, and right." if lent else "Ready.", "")


def lend_to_the_engine() -> None:
    """Let `course.lab` serve with finished implementations where nobody has bound others, and bind nothing."""
    lab.lend(flat_models())


def use_own_work(folder: Path | None = None) -> Picture:
    """Bind the student's own modules that pass all of their named tests, and flat models for the others.

    Args:
        folder: where the lab stands; the running notebook's folder unless another is given. The other notebooks
            are looked for in it and beside it, as `../kv_pool/kv_pool.ipynb`.

    Returns:
        A table that says of every module whose it is now, and why.
    """
    found = _found(Path.cwd() if folder is None else folder)
    room = Rooms()
    base = footing(found, LIMITS, lambda work, tests: room.verdicts(work, tests, Remarks()))
    names: dict[str, Any] = {}
    for module in MODULES:
        own = base.earlier.get(module.name)
        names.update(_loaded(own, names) if own is not None else flat.load_over(module.name, names))
    modules.bind(names)
    lend_for_options()
    return _told(found, base)


def lend_for_options() -> None:
    """Let the lab's own manager serve where an option is asked for that a manager of the course doesn't have."""
    lab.lend_for_options({"BlockManager": lab_names()["BlockManager"]})


# ---------------------------------------------------------------- what is there


def _found(folder: Path) -> dict[str, Submission]:
    """The student's work by module name, lowest first; what can't be read is left out."""
    return {module.name: read for module in MODULES if (read := _read(folder, module)) is not None}


def _read(folder: Path, module: Module) -> Submission | None:
    for place in (folder, folder.resolve().parent / module.name):
        for suffix in (".ipynb", ".py"):
            try:
                return reading.read(place / f"{module.name}{suffix}", module)
            except (Unreadable, OSError):
                continue
    return None


def _told(found: Mapping[str, Submission], base: Footing) -> Picture:
    rows = [(module.id, " and ".join(module.exports), *_whose(module, found, base)) for module in MODULES]
    head = ("module", "names", "whose", "why")
    return table(head, rows, "What the engine runs on in this notebook", " ".join(base.remarks))


def _whose(module: Module, found: Mapping[str, Submission], base: Footing) -> tuple[str, str]:
    if module.name in base.earlier:
        return "your own", f"{found[module.name].name} passes all of its named tests"
    if module.name in found:
        return "lent", f"{found[module.name].name} does not pass all of its named tests yet"
    return "lent", f"no {module.name}.ipynb beside this notebook that can be read"


# ---------------------------------------------------------------- classes, in this process


def flat_models() -> Mapping[str, Any]:
    """The flat model of every name there is."""
    names: dict[str, Any] = {}
    for module in MODULES:
        names.update(flat.load_over(module.name, names))
    return names


def _loaded(own: Submission, below: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the cells of sound work define, over these names."""
    with modules.bound(below), redirect_stdout(io.StringIO()):
        space = run_here(own, f"own_{own.module.name}", lambda place, error: None)
    return {name: space[name] for name in own.module.exports}

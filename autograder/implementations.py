"""Where implementations come from: the references, the flat models, and the planted bugs, as subjects.

It knows the folders they stand in, and under which names they are sealed in a student's edition. It does not know
how they are tested or what a student handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from autograder import edition, sealed
from autograder.flat import flat_exports, flat_source
from autograder.planted import PlantedBug, plant, planted_bugs
from autograder.subject import Subject, load, subject_of
from course import modules
from course.modules import Module

SOLUTIONS = Path(__file__).parent.parent / "solutions"


class NoReference(Exception):
    """The reference solutions are not here: this is a student's edition."""


def reference_source(module: Module) -> str:
    """The source text of a module's reference. Raises NoReference where there is none."""
    path = SOLUTIONS / f"{module.file}.py"
    if not path.exists():
        raise NoReference(f"{path.name} is not here: the reference solutions stay with the instructor")
    return path.read_text(encoding="utf-8")


def has_reference(module: Module) -> bool:
    """Whether a module's reference can be run here, and planted bugs with it: from its source, or sealed."""
    return edition.IS_STUDENTS or (SOLUTIONS / f"{module.file}.py").exists()


@cache
def reference(module: Module) -> Subject:
    """The reference of a module, over the references underneath.

    Raises:
        NoReference: there is none, sealed or not.
        WrongPython: it is sealed for another version of Python (autograder/sealed.py).
    """
    return load(module, _reference(module), below(module), "reference")


def _reference(module: Module) -> str | CodeType:
    return sealed.code(edition.SEALED, f"reference/{module.file}") if edition.IS_STUDENTS else reference_source(module)


def below(module: Module) -> Mapping[str, Any]:
    """The reference of every name that a module stands on."""
    names: dict[str, Any] = {}
    for need in module.needs:
        names.update(reference(modules.find(need)).names)
    return names


@cache
def production() -> Mapping[str, Any]:
    """The classes that the lab measures: the references, extended by what production systems add.

    Raises as `reference` does.
    """
    return reference(modules.PRODUCTION).names


@cache
def flat(module: Module) -> Subject:
    """The flat model of a module, over the flat models underneath."""
    return subject_of(module, flat_exports(module.file), flat_below(module), "flat model")


def flat_below(module: Module) -> Mapping[str, Any]:
    """The flat model of every name that a module stands on."""
    names: dict[str, Any] = {}
    for need in module.needs:
        names.update(flat_exports(need))
    return names


def buggy(module: Module, bug: PlantedBug) -> Subject:
    """A module's reference with one bug planted in it, over the references underneath. Raises as `reference` does."""
    return load(module, _buggy(module, bug), below(module), f"planted bug {bug.id}")


def _buggy(module: Module, bug: PlantedBug) -> str | CodeType:
    if edition.IS_STUDENTS:
        return sealed.code(edition.SEALED, f"bug/{module.name}/{bug.id}")
    return plant(bug, reference_source(module))


def to_seal(module: Module) -> dict[str, tuple[str, str]]:
    """A module's reference, its planted bugs and its flat model, what it has of them, by their sealed names.

    Returns:
        For each the file name that its code carries in tracebacks, and its source text.
    """
    source = reference_source(module)
    bugs = () if module is modules.PRODUCTION else planted_bugs(module)
    texts = {f"bug/{module.name}/{bug.id}": (f"planted bug {bug.id}", plant(bug, source)) for bug in bugs}
    if not module.extends:
        texts[f"reference/{module.name}"] = ("reference", source)
    if module in modules.MODULES:
        texts[f"flat/{module.name}"] = ("flat model", flat_source(module.name))
    return {name: (f"<{label}: {module.name}>", text) for name, (label, text) in texts.items()}

"""Where implementations come from: the references, the flat models, and the planted bugs, as subjects.

It knows the folders they stand in. It does not know how they are tested or what a student handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from autograder.flat import flat_exports
from autograder.planted import PlantedBug, plant
from autograder.subject import Subject, load, subject_of
from course import modules
from course.modules import Module

SOLUTIONS = Path(__file__).parent.parent / "solutions"


class NoReference(Exception):
    """The reference solutions are not here: this is a student's edition."""


def reference_source(module: Module) -> str:
    """The source text of a module's reference. Raises NoReference where there is none."""
    path = SOLUTIONS / f"{module.name}.py"
    if not path.exists():
        raise NoReference(f"{path.name} is not here: the reference solutions stay with the instructor")
    return path.read_text(encoding="utf-8")


@cache
def reference(module: Module) -> Subject:
    """The reference of a module, over the references underneath."""
    return load(module, reference_source(module), below(module), "reference")


def below(module: Module) -> Mapping[str, Any]:
    """The reference of every name that a module stands on."""
    names: dict[str, Any] = {}
    for need in module.needs:
        names.update(reference(modules.find(need)).names)
    return names


@cache
def flat(module: Module) -> Subject:
    """The flat model of a module, over the flat models underneath."""
    return subject_of(module, flat_exports(module.name), flat_below(module), "flat model")


def flat_below(module: Module) -> Mapping[str, Any]:
    """The flat model of every name that a module stands on."""
    names: dict[str, Any] = {}
    for need in module.needs:
        names.update(flat_exports(need))
    return names


def buggy(module: Module, bug: PlantedBug) -> Subject:
    """A module's reference with one bug planted in it, over the references underneath."""
    return load(module, plant(bug, reference_source(module)), below(module), f"planted bug {bug.id}")

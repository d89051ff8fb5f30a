"""Planted bugs: each a plausible misconception, written as one edit of the reference.

It knows how a bug is written down (`autograder/bugs/<module>.toml`) and how it is planted in a
source text. It does not know which tests catch it: that is measured.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from course.modules import Module

FOLDER = Path(__file__).parent / "bugs"


class BadBug(Exception):
    """A planted bug that is not well written; the message names the file and the bug."""


@dataclass(frozen=True)
class PlantedBug:
    """One misconception.

    `title` and `symptom` are what a student may read; `find` and `put` are the edit; `caught_by` are
    the named tests that must catch it, as the chapter's table of pitfalls says; `reread` is the place
    to go back to; a `required` bug must be caught by a student's own tests whatever their score.
    """

    id: str
    title: str
    symptom: str
    reread: str
    caught_by: tuple[str, ...]
    find: str
    put: str
    required: bool = False


def planted_bugs(module: Module) -> tuple[PlantedBug, ...]:
    """A module's planted bugs, in the order of its file.

    Raises:
        BadBug: a bug with a missing or unknown field, or two of one id.
    """
    path = FOLDER / f"{module.name}.toml"
    bugs: dict[str, PlantedBug] = {}
    for row in tomllib.loads(path.read_text(encoding="utf-8"))["bug"]:
        try:
            bug = PlantedBug(**{**row, "caught_by": tuple(row["caught_by"])})
        except (TypeError, KeyError) as problem:
            raise BadBug(f"{path.name}, bug {row.get('id', '?')}: {problem}") from None
        if bug.id in bugs:
            raise BadBug(f"{path.name}: two bugs are called {bug.id}")
        bugs[bug.id] = bug
    return tuple(bugs.values())


def plant(bug: PlantedBug, reference: str) -> str:
    """The reference's source with this bug in it.

    Raises:
        BadBug: the edit's place is not there exactly once, or the edit changes nothing.
    """
    times = reference.count(bug.find)
    if times != 1:
        raise BadBug(f"bug {bug.id} ({bug.title}): the text it replaces is there {times} times, not once")
    if bug.find == bug.put:
        raise BadBug(f"bug {bug.id} ({bug.title}): the edit changes nothing")
    return reference.replace(bug.find, bug.put)

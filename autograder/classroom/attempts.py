"""One student's files: which of them is graded for a module, and what is said about the others.

It knows the order among several files for one module: ordinary ones first, then those that are called and placed
as expected, then the newest. Where the files come from this file does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autograder import files
from autograder.classroom import recognising
from autograder.classroom.printable import listed, printable
from course.modules import MODULES, Module

EXPECTED = 3
"""Ranks below this one are names and places that a file is expected to have."""


@dataclass(frozen=True)
class File:
    """A file of a student's, or what stands in its place.

    Attributes:
        path: where it lies.
        place: the same as it is named in notes, relative to the student's folder.
        ordinary: false for links, pipes, folders of a file's name and what can't be looked into.
        within: the module that a folder around it is called after.
        flat: whether it lies among other students' files.
    """

    path: Path
    place: str
    ordinary: bool = True
    within: Module | None = None
    flat: bool = False

    @property
    def stem(self) -> str:
        """Its name without the suffix."""
        return self.path.stem

    @property
    def is_work(self) -> bool:
        """Whether it is called like a submission."""
        return recognising.is_work(self.path.name)

    @cached_property
    def modules(self) -> tuple[Module, ...]:
        """The modules it is for, by its name, else by what is in it; none where nothing says so."""
        if not self.is_work:
            return tuple(module for module in MODULES if not self.ordinary and _is_called(self.path.name, module))
        named = recognising.named_after(self.stem)
        if named is not None and self.within in (None, named):
            return (named,)
        told = recognising.told_by(self.path)
        if self.within is not None and self.within in told:
            return (self.within,)
        return told or ((named,) if named else ())

    def called(self, module: Module) -> int:
        """How far its name and place are from what is expected; 0 is exactly so."""
        if self.flat:
            return 2 * EXPECTED if recognising.is_copy(self.stem) else int(recognising.named_after(self.stem) != module)
        if self.stem == module.name and self.within in (None, module):
            return (self.path.suffix != ".ipynb") * 2 + (self.within is None)
        return EXPECTED + (not _is_called(self.stem, module))

    @property
    def changed(self) -> float:
        """When it was last written, in seconds since 1970; 0 for what is gone."""
        try:
            return self.path.lstat().st_mtime
        except OSError:
            return 0.0


@dataclass(frozen=True)
class Choice:
    """What is graded for a module, or None, how many files there were to choose from, and what is said of it."""

    path: Path | None
    attempts: int
    notes: tuple[str, ...]


def _is_called(name: str, module: Module) -> bool:
    return recognising.is_called(name, module)


# ---------------------------------------------------------------- the choice


def choose(theirs: Sequence[File], module: Module, only: bool) -> Choice:
    """The file to grade for a module.

    Args:
        theirs: every file of one student.
        module: what it should be for.
        only: whether no other module is asked for, so that a file that says nothing can only be for this one.
    """
    found = sorted((file for file in theirs if module in file.modules), key=lambda file: _rank(file, module))
    if found:
        return Choice(found[0].path, len(found), tuple(_told(found, module)) + _beside(theirs, found, module))
    silent = [file for file in theirs if file.is_work and not file.modules and file.within in (None, module)]
    placed = [file for file in silent if only or file.within is module]
    taken = sorted(placed or filter(_is_unreadable, silent), key=lambda file: _rank(file, module))
    if taken:
        doubt = f"Nothing in {printable(taken[0].place)} says which module it is for, so it is taken for this one."
        return Choice(taken[0].path, len(taken), (doubt, *_told(taken, module)[1:], *_beside(theirs, taken, module)))
    return Choice(None, 0, _why_nothing(theirs, silent, module))


def _rank(file: File, module: Module) -> tuple[bool, int, float, str]:
    return not file.ordinary, file.called(module), -file.changed, file.place


def _is_unreadable(file: File) -> bool:
    try:
        if file.path.suffix.lower() == ".ipynb":
            files.rows_of(files.book_in(file.path), file.path)
        else:
            files.text_of(file.path)
    except (files.Unreadable, OSError):
        return True
    return False


# ---------------------------------------------------------------- what is said of it


def _told(found: Sequence[File], module: Module) -> list[str]:
    """Under which name it was handed in, where that is not as expected; and which others there were."""
    first, *others = found
    renamed = not first.flat and first.called(module) >= EXPECTED
    notes = [f"Handed in as {printable(first.place)}, not as {module.name}.ipynb." if renamed else ""]
    if others:
        graded = f"{printable(first.place)} is graded, as {_reason(found, module)}"
        rest = listed([other.place for other in others])
        notes.append(f"{len(found)} files are for this module: {graded}; not graded: {rest}.")
    return [note for note in notes if note]


def _reason(found: Sequence[File], module: Module) -> str:
    first, *others = found
    rivals = [other for other in others if other.ordinary]
    if not rivals:
        return "it alone is an ordinary file" if first.ordinary else "it comes first"
    if first.called(module) < min(other.called(module) for other in rivals):
        return "its name fits best"
    return "it is the newest"


def _beside(theirs: Sequence[File], found: Sequence[File], module: Module) -> tuple[str, ...]:
    """A sentence on other files in the module's folder."""
    tests = found[0].path.suffix.lower() == ".py"
    extra = [
        file.place
        for file in theirs
        if file.within is module and not file.modules and file not in found and not (tests and _is_tests(file, module))
    ]
    return (f"Not graded, but in the folder: {listed(extra)}.",) if extra else ()


def _is_tests(file: File, module: Module) -> bool:
    return file.path.name == f"test_{module.name}.py"


def _why_nothing(theirs: Sequence[File], silent: Sequence[File], module: Module) -> tuple[str, ...]:
    if silent:
        return (f"Nothing says which module these files are for: {listed([file.place for file in silent])}.",)
    other = [file for file in theirs if file.within is module and file.is_work]
    if other:
        return (f"In the folder is work for another module: {listed([file.place for file in other])}.",)
    return _beside(theirs, [File(Path(), "")], module)


def unplaced(theirs: Sequence[File]) -> tuple[str, ...]:
    """A sentence on the files that lie in no module's folder, and are for none."""
    extra = [file.place for file in theirs if file.within is None and not file.modules and not file.is_work]
    kept = [place for place in extra if not place.rpartition("/")[2].startswith("test_")]
    return (f"Not graded: {listed(kept)}.",) if kept else ()

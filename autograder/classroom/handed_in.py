"""Who handed in what: one entry for each student and module, whatever is in a class's folder.

It knows nbgrader's layout, `<student>/<module>/<module>.ipynb`, and a flat folder of files such as
`alice_radix_cache.ipynb`. A file whose place and name say all is not opened, and no link is followed: it could lead
to what the grader may read and the student may not. Whether a file can be read as a submission this file does not
know.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.classroom import recognising
from autograder.classroom.attempts import Choice, File, choose, unplaced
from autograder.classroom.printable import listed, printable
from course.modules import MODULES, Module

NO_STUDENTS = frozenset({"__pycache__", "__MACOSX"})
IGNORED = frozenset({"timestamp.txt", "Thumbs.db", "desktop.ini"})
"""What nbgrader and desktops leave behind."""

DEEPEST = 6
MOST_FILES = 1_000
"""A student's folder is looked through so deep, and so many files of it."""

SUBMITTED = "submitted"
"""What nbgrader calls the folder of a class."""


@dataclass(frozen=True)
class HandedIn:
    """What one student handed in for one module.

    Attributes:
        student: the name of the student's folder, or what a file's name says besides the module.
        module: the module asked for.
        path: the file to grade; None where nothing was handed in. Whatever is there and can't be read (a link, a
            folder of the file's name, a pipe) is a path, too: reading it says what is wrong.
        notes: a sentence each: what an instructor should know about the files.
        attempts: how many files there are for this module.
    """

    student: str
    module: Module
    path: Path | None
    notes: tuple[str, ...] = ()
    attempts: int = 1


class NothingThere(Exception):
    """There is nobody's work in a folder; the message says what is wrong, and what to do."""


def find(folder: Path, modules: Sequence[Module]) -> tuple[HandedIn, ...]:
    """Exactly one entry for each student and each of these modules, sorted by student, modules in the course's order.

    Raises:
        NothingThere: there is no such folder, or no student in it.
    """
    people = _people(folder)
    wanted = [module for module in MODULES if module in modules]
    alike = _alike(people)
    return tuple(
        entry for name in sorted(people) for entry in _entries(people[name], wanted, tuple(alike.get(name, ())))
    )


@dataclass(frozen=True)
class _Person:
    """A student: their files, and their folder where they have one; `trouble` where it can't be looked into."""

    name: str
    files: tuple[File, ...]
    folder: Path | None = None
    trouble: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def has_work(self) -> bool:
        return any(file.is_work for file in self.files)


def _entries(person: _Person, wanted: Sequence[Module], said: tuple[str, ...]) -> Iterator[HandedIn]:
    """One entry a module; what is said of the student as a whole stands at the first."""
    if not person.trouble:
        said = (*said, *person.remarks, *_emptiness(person), *unplaced(person.files))
    for module in wanted:
        choice = _choice(person, module, only=len(wanted) == 1)
        yield HandedIn(person.name, module, choice.path, (*choice.notes, *said), choice.attempts)
        said = ()


def _choice(person: _Person, module: Module, only: bool) -> Choice:
    if person.trouble:
        return Choice(person.folder, 1, (person.trouble,))
    return choose(person.files, module, only)


def _emptiness(person: _Person) -> tuple[str, ...]:
    if not person.files:
        return ("The student's folder is empty.",)
    return () if person.has_work else ("There is no notebook in the student's folder.",)


# ---------------------------------------------------------------- a class's folder


def _people(folder: Path) -> Mapping[str, _Person]:
    folders, loose = _top(folder)
    people = {entry.name: _in_a_folder(entry) for entry in folders}
    if people:
        loose = [
            entry for entry in loose if entry.name.lower().endswith(".ipynb") or File(Path(entry.path), "").modules
        ]
    has_work = [person for person in people.values() if person.has_work]
    if loose and not has_work:
        people = {}  # a flat folder: what else lies in it is nobody's
    if not loose:
        _refuse_other_levels(folder, has_work)
    for entry in loose:
        name = recognising.student_in(Path(entry.name).stem)
        file = File(Path(entry.path), entry.name, entry.is_file(follow_symlinks=False), flat=True)
        people[name] = _with(people.get(name, _Person(name, ())), file)
    if not people:
        raise NothingThere(
            f"{printable(str(folder))} holds nobody's work. Expected is a folder for each student, as in nbgrader's "
            "submitted/: alice/radix_cache/radix_cache.ipynb, or files such as alice_radix_cache.ipynb."
        )
    return people


def _with(person: _Person, file: File) -> _Person:
    """A student with one more file. One whose folder can't be looked into is graded by what lies loose."""
    remarks = (*person.remarks, *[person.trouble] * bool(person.trouble))
    return replace(person, files=(*person.files, file), trouble="", remarks=remarks)


def _top(folder: Path) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    """The students' folders and the files that lie loose in a class's folder."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        raise NothingThere(f"There is no folder {printable(str(folder))}.") from None
    except NotADirectoryError:
        raise NothingThere(
            f"{printable(str(folder))} is a file: give the folder of a class, or grade one file with ol check."
        ) from None
    except OSError as problem:
        raise NothingThere(f"{printable(str(folder))} can't be opened: {problem.strerror}.") from None
    seen = [entry for entry in entries if not _is_ignored(entry.name)]
    loose = [entry for entry in seen if recognising.is_work(entry.name) and not entry.is_dir(follow_symlinks=False)]
    return [entry for entry in seen if entry not in loose and _is_students(entry)], loose


def _is_ignored(name: str) -> bool:
    return name.startswith(".") or name in NO_STUDENTS | IGNORED


def _is_students(entry: os.DirEntry[str]) -> bool:
    """A folder, or a link to one or to nowhere; a link to a file is as little a student as the file."""
    if entry.is_symlink():
        return not os.path.isfile(entry.path)
    return entry.is_dir(follow_symlinks=False)


def _alike(people: Mapping[str, _Person]) -> Mapping[str, tuple[str]]:
    """A sentence for every student beside whom there is one whose id differs in upper and lower case only."""
    by_letters: dict[str, list[str]] = {}
    for name in sorted(people):
        by_letters.setdefault(name.casefold(), []).append(name)
    pairs = [(name, names) for names in by_letters.values() if len(names) > 1 for name in names]
    return {name: (_alike_sentence([other for other in names if other != name]),) for name, names in pairs}


def _alike_sentence(others: Sequence[str]) -> str:
    return f"There is also a student {listed(others)}: if that is the same person, two rows hold one person's work."


# ---------------------------------------------------------------- a student's folder


def _in_a_folder(entry: os.DirEntry[str]) -> _Person:
    folder = Path(entry.path)
    if entry.is_symlink():
        trouble = f"{printable(entry.name)} is a link: links are not followed. Put the student's own folder there."
        return _Person(entry.name, (), folder, trouble)
    found: list[File] = []
    remarks: list[str] = []
    try:
        for file in _walk(folder, "", None, DEEPEST, remarks):
            found.append(file)
            if len(found) == MOST_FILES:
                remarks.append(f"There are very many files: only {MOST_FILES:,} of them were looked at.")
                break
    except OSError as problem:
        return _Person(entry.name, (), folder, f"{printable(entry.name)} can't be opened: {problem.strerror}.")
    return _Person(entry.name, tuple(found), folder, remarks=tuple(remarks))


def _walk(folder: Path, place: str, within: Module | None, deeper: int, remarks: list[str]) -> Iterator[File]:
    """The files of a folder and those underneath, by name; what can't be looked into is no ordinary file."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if _is_ignored(entry.name):
            continue
        here, path = place + entry.name, Path(entry.path)
        if not entry.is_dir(follow_symlinks=False):
            yield File(path, here, entry.is_file(follow_symlinks=False), within)
            continue
        if recognising.is_work(entry.name):
            yield File(path, here, ordinary=False, within=within)
        if not deeper:
            remarks.append(f"{printable(here)} lies too deep to be looked into.")
            continue
        try:
            yield from _walk(path, f"{here}/", _module_called(entry.name) or within, deeper - 1, remarks)
        except OSError as problem:
            remarks.append(f"{printable(here)} can't be opened: {problem.strerror}.")
            yield File(path, here, ordinary=False, within=within)


def _module_called(name: str) -> Module | None:
    return next((module for module in MODULES if recognising.is_called(name, module)), None)


# ---------------------------------------------------------------- the wrong folder


def _refuse_other_levels(folder: Path, people: Sequence[_Person]) -> None:
    """Say so where the folder that was given lies one level above a class's, or one below it."""
    shown = printable(str(folder))
    below = [person for person in people if person.name == SUBMITTED]
    if not below and all(map(_holds_a_class, people)):
        below = list(people)
    if below:
        raise NothingThere(
            f"In {shown} the students lie one level lower: give {listed([str(folder / each.name) for each in below])}."
        )
    if people and all(_module_called(person.name) for person in people):
        raise NothingThere(
            f"The folders in {shown} are called after modules, so it looks like one student's: give the folder above "
            "it. In a class's folder each student has a folder: alice/radix_cache/radix_cache.ipynb."
        )


def _holds_a_class(person: _Person) -> bool:
    """Whether what should be one student's folder holds several students' folders, or files called after several."""
    parts = [(file, file.place.split("/")) for file in person.files if file.is_work]
    if any(len(place) == 2 or (len(place) > 2 and not _module_called(place[1])) for _, place in parts):
        return False
    if any(len(place) > 2 for _, place in parts):
        return len({place[0] for _, place in parts if len(place) > 2}) > 1
    stems = [file.stem for file, _ in parts if not recognising.is_copy(file.stem)]
    names = {recognising.student_in(stem) for stem in stems if not _module_called(stem)}
    labelled = {recognising.student_in(stem) for stem in stems if recognising.named_after(stem)} & names
    return len(labelled) > 1 or len(names) > 2

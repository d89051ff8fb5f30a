"""Where a student's own earlier modules stand, for a submission that builds on them.

It knows two places: beside the submission, and nbgrader's `submitted/<student>/<assignment>/<notebook>`,
where the sibling folder of the same student has the earlier assignment; or it is given the files. Whether
the work found there is any good it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from autograder import reading
from autograder.files import File, Unreadable
from autograder.reading import Submission
from course import modules
from course.modules import Module


def earlier_work(path: Path, module: Module) -> Mapping[str, Submission]:
    """The student's own work for the modules that this one stands on, by module name, lowest first.

    Work that is not there, that can't be read or that has a cell that can't be is left out: that module's
    own report says so.
    """
    found = {need: read for need in module.needs if (read := _read(path, module, modules.find(need)))}
    return {need: submission for need, submission in found.items() if _whole(submission)}


def earlier_among(files: Mapping[str, File], module: Module) -> Mapping[str, Submission]:
    """The same from files in memory, by module name."""
    found = {need: read for need in module.needs if need in files and (read := _read_file(files[need], need))}
    return {need: submission for need, submission in found.items() if _whole(submission)}


def _read_file(file: File, need: str) -> Submission | None:
    try:
        return reading.read_file(file, modules.find(need))
    except Unreadable:
        return None


def _read(path: Path, module: Module, need: Module) -> Submission | None:
    for place in _places(path, module, need.name):
        try:
            return reading.read(place, need)
        except (Unreadable, OSError):
            continue
    return None


def _places(path: Path, module: Module, need: str) -> Iterator[Path]:
    folders = [path.parent]
    if path.parent.name == module.name:
        folders.append(path.parent.parent / need)
    return (folder / f"{need}{suffix}" for folder in folders for suffix in (".ipynb", ".py"))


def _whole(submission: Submission) -> bool:
    return not any(cell.problem for cell in submission.for_named_tests)

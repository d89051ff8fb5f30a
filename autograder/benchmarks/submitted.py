"""A submission's classes, ready to be measured: its cells run in this process, as a notebook runs them.

It knows how a submission is read and run, and how its errors are told. What is measured it does not
know. Nothing here keeps student code from anything: a benchmark is for one's own machine and never a verdict.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autograder import implementations, reading
from autograder.files import Unreadable
from autograder.room import cells
from autograder.running import explained
from autograder.subject import subject_of
from course import modules
from course.modules import Module


class SubmissionFailed(Exception):
    """A submission that can't be measured; the message says why, and names the line of its code."""


@contextmanager
def submission(path: Path, module: Module, passes: tuple[type[Exception], ...] = ()) -> Iterator[Mapping[str, Any]]:
    """A submission's classes and those underneath, by name; they stay bound while the `with` block runs.

    Args:
        path: a notebook or a Python file.
        module: what it should implement.
        passes: errors of whoever measures, that are none of the submission's.

    Raises:
        SubmissionFailed: it can't be read, does not define its class, or raises while it is measured.
    """
    try:
        work = reading.read(path, module)
        if problem := next((cell.problem for cell in work.for_named_tests if cell.problem), ""):
            raise SubmissionFailed(problem)
        below = _below(module)
        with modules.bound(below):
            yield _run(work, below)
    except FileNotFoundError:
        raise SubmissionFailed(f"There is no {path}.") from None
    except (Unreadable, OSError) as problem:
        raise SubmissionFailed(str(problem)) from None
    except (SubmissionFailed, KeyboardInterrupt):
        raise
    except BaseException as error:  # sys.exit() in a method, too, is the submission's end and not ours
        if isinstance(error, passes):
            raise
        raise SubmissionFailed(explained(error)) from error


def _below(module: Module) -> Mapping[str, Any]:
    try:
        return implementations.below(module)
    except implementations.NoReference:
        return implementations.flat_below(module)


def _run(work: reading.Submission, below: Mapping[str, Any]) -> Mapping[str, Any]:
    told: list[str] = []

    def raised(place: str, error: BaseException) -> None:
        told.append(f"{place}: {explained(error)}")

    space = run_here(work, "submission", raised)
    subject = subject_of(work.module, space, below, "submission")
    for name in work.module.exports:
        if name not in space:
            raise SubmissionFailed("\n  ".join([f"{name} is not defined in {work.name}.", *told]))
    return subject.names


def run_here(work: reading.Submission, name: str, raised: cells.Raised) -> dict[str, Any]:
    """Run a submission's cells in this process, over what is bound; the namespace that they leave.

    Args:
        work: what was read.
        name: the module that its classes say they are of.
        raised: hears what a cell raises.
    """
    space = types.ModuleType(name)
    rows = [{"place": cell.place, "source": cell.source, "given": cell.given} for cell in work.for_named_tests]
    if work.is_notebook:
        vars(space).update(display=cells.Nothing(), get_ipython=cells.Nothing())
    with cells.in_place({space.__name__: space, **cells.quiet()}):
        cells.run_cells(rows, vars(space), lambda place: None, raised)
    return vars(space)

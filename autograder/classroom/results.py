"""From what was handed in and what came of grading it to a result: its state, its notes and its points.

It knows what a result holds. How anything is graded or kept it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from autograder.classroom import points
from autograder.classroom.executors import WorkerDied
from autograder.classroom.handed_in import HandedIn
from autograder.classroom.rows import Result, State


def bare(handed: HandedIn, folder: Path, state: State) -> Result:
    """A result without a verdict, and without points; `folder` is the class's."""
    worth = points.worth(handed.module)
    return Result(
        handed.student,
        handed.module.id,
        handed.path.relative_to(folder).as_posix() if handed.path else "",
        state,
        handed.notes,
        dict.fromkeys(worth, 0.0),
        worth,
        points.hidden(handed.module),
        attempts=handed.attempts,
    )


def graded(handed: HandedIn, folder: Path, key: str, report: Mapping[str, Any]) -> Result:
    """The result of a report, as `autograder.report.as_data` gives it."""
    won = points.points(handed.module, report)
    return replace(bare(handed, folder, State.GRADED), key=key, points=won, report=report)


def unreadable(handed: HandedIn, folder: Path, reason: str) -> Result:
    """The result of a file that can't be read."""
    return replace(bare(handed, folder, State.UNREADABLE), notes=(*handed.notes, reason))


def not_graded(handed: HandedIn, folder: Path, problem: Exception, tries: int) -> Result:
    """The result of work that could not be graded, which says why."""
    what = "the process that graded it" if isinstance(problem, WorkerDied) else type(problem).__name__
    reason = (
        f"This could not be graded in {tries} tries, the second one with nothing else running: {what}: {problem}. "
        "The same command tries it again."
    )
    return replace(bare(handed, folder, State.NOT_GRADED), notes=(*handed.notes, reason))

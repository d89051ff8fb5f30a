"""What it costs to grade a class of ordinary submissions, with one worker and with two, beside nbgrader alone.

It knows how such a class is made, and how the time is taken. What an ordinary submission is: a right one, or one
with a planted bug in it, each with good tests of its author's own. How anything is graded, or shown, it does not know.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from autograder import class_notebooks
from autograder.classroom.executors import local
from autograder.classroom.grading_run import Progress, Settings, grade_class
from autograder.classroom.rows import Result
from autograder.planted import planted_bugs
from autograder.running import Status
from course.modules import MODULES, Module
from course.progress import Tell

LIMIT_S = 1.5
"""Seconds a submission and module, at most, with as many workers as there were most."""

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class HandedIn:
    """One submission of the class. `bug` is the planted bug in it, or nothing."""

    student: str
    module: Module
    bug: str = ""


@dataclass(frozen=True)
class Run:
    """One run over the class: seconds of wall clock in all, and those that went into submissions that timed out.

    `by_module` has the mean seconds that one submission takes its worker, by module id.
    """

    workers: int
    submissions: int
    seconds: float
    timed_out: int = 0
    timed_out_s: float = 0.0
    by_module: Mapping[str, float] = field(default_factory=dict)

    @property
    def each(self) -> float:
        """Seconds of wall clock a submission and module; those that timed out are counted apart."""
        ordinary = self.submissions - self.timed_out
        return (self.seconds - self.timed_out_s / self.workers) / ordinary if ordinary else 0.0


@dataclass(frozen=True)
class Autograde:
    """`nbgrader autograde` over the notebooks of the same class that it can grade: seconds of wall clock in all."""

    notebooks: int
    seconds: float

    @property
    def each(self) -> float:
        """Seconds a notebook."""
        return self.seconds / self.notebooks


@dataclass(frozen=True)
class Costs:
    """What was measured: a run for each number of workers, and nbgrader beside them, if it was run."""

    runs: tuple[Run, ...]
    nbgrader: Autograde | None = None

    @property
    def each(self) -> float:
        """Seconds a submission and module, with the most workers."""
        return max(self.runs, key=lambda run: run.workers).each

    @property
    def within_limit(self) -> bool:
        """Whether that is no more than LIMIT_S."""
        return self.each <= LIMIT_S

    @property
    def scaling(self) -> float | None:
        """How many times as fast the most workers are as the fewest; None where there is one run only."""
        fewest, most = (pick(self.runs, key=lambda run: run.workers) for pick in (min, max))
        return fewest.each / most.each if fewest.workers < most.workers else None


class NbgraderFailed(Exception):
    """nbgrader did not grade the notebooks; the message is what it said last."""


def measure(
    submissions: int, workers: Sequence[int], with_budget: bool, with_nbgrader: bool, tell: Tell = lambda *far: None
) -> Costs:
    """Make a class and grade it once for each number of workers, then with nbgrader.

    Args:
        submissions: how many there are, all modules together.
        workers: numbers of workers to grade with.
        with_budget: whether the TTFT budget of L10.4 is measured, too, as `ol grade` does.
        with_nbgrader: whether nbgrader grades the same notebooks.
        tell: hears what is done, how much of it, and of how much.

    Raises:
        NbgraderFailed: nbgrader did not grade the notebooks.
    """
    handed_in = ordinary(submissions)
    with TemporaryDirectory(prefix="bench-grade-") as place:
        folder = Path(place, "submitted")
        write(handed_in, folder)
        settings = Settings(with_budget=with_budget)
        runs = tuple(_graded(folder, Path(place, f"by-{n}"), n, len(handed_in), settings, tell) for n in workers)
        return Costs(runs, _autograded(handed_in, Path(place), tell) if with_nbgrader else None)


# ---------------------------------------------------------------- the class


def ordinary(submissions: int) -> tuple[HandedIn, ...]:
    """So many submissions, all modules in turn, every other one with a planted bug, and each time another one."""
    made = []
    for number in range(submissions):
        student, place = divmod(number, len(MODULES))
        module = MODULES[place]
        bugs = planted_bugs(module)
        wrong = (student + place) % 2
        made.append(HandedIn(f"student-{student:03}", module, bugs[student // 2 % len(bugs)].id if wrong else ""))
    return tuple(made)


def write(handed_in: Sequence[HandedIn], folder: Path) -> None:
    """Write a class to a folder, as nbgrader collects it."""
    for each in handed_in:
        path = folder / each.student / each.module.name / f"{each.module.name}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(notebook(each), encoding="utf-8")


def notebook(handed_in: HandedIn) -> str:
    """The notebook of a submission."""
    from notebooks import build

    book = class_notebooks.right(handed_in.module)
    if handed_in.bug:
        class_notebooks.with_bug(book, handed_in.bug)
    cells = class_notebooks.numbered(book.cells)
    return build.as_text({"cells": cells, "metadata": build.METADATA, "nbformat": 4, "nbformat_minor": 5})


# ---------------------------------------------------------------- this autograder


def _graded(folder: Path, out: Path, workers: int, submissions: int, settings: Settings, tell: Tell) -> Run:
    doing = f"grading with {workers} worker{'s' * (workers != 1)}"

    def told(far: Progress) -> None:
        tell(doing, far.graded, submissions)

    start = time.perf_counter()
    with local(workers) as crew:
        graded = grade_class(folder, out, MODULES, settings, crew, told)
    seconds = time.perf_counter() - start
    return run_of([each for each in graded.results if each.report], workers, seconds)


def run_of(results: Sequence[Result], workers: int, seconds: float) -> Run:
    """A run as it is told of, from its results and its seconds in all."""
    late = [each for each in results if _timed_out(each)]
    taken = defaultdict(list)
    for each in results:
        if not _timed_out(each):
            taken[each.module].append(float(each.report["seconds"]))
    means = {module.id: fmean(taken[module.id]) for module in MODULES if taken[module.id]}
    late_s = sum(float(each.report["seconds"]) for each in late)
    return Run(workers, len(results), seconds, len(late), late_s, means)


def _timed_out(result: Result) -> bool:
    return any(test["status"] == Status.TIMED_OUT for test in result.report["named_tests"])


# ---------------------------------------------------------------- nbgrader alone

CONFIG = """\
c = get_config()
c.CourseDirectory.course_id = "bench"
c.Exchange.root = "exchange"
"""


def _autograded(handed_in: Sequence[HandedIn], place: Path, tell: Tell) -> Autograde:
    """Let nbgrader grade the notebooks for which the course has a source: it runs their check cells, nothing else."""
    from notebooks import build

    (place / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
    counted, seconds = 0, 0.0
    names = [module.name for module in MODULES if module.name in build.names()]
    for done, name in enumerate(names):
        students = [each.student for each in handed_in if each.module.name == name]
        if not students:
            continue
        tell(f"nbgrader autograde {name}", done, len(names))
        source = place / "source" / name / f"{name}.ipynb"
        source.parent.mkdir(parents=True)
        source.write_text(build.as_text(build.build(name)), encoding="utf-8")
        _nbgrader(place, "generate_assignment", name)
        start = time.perf_counter()
        _nbgrader(place, "autograde", name)
        seconds += time.perf_counter() - start
        counted += _count(place / "autograded", name, students)
    if not counted:
        raise NbgraderFailed("there is no notebook that nbgrader could grade: take more submissions")
    return Autograde(counted, seconds)


def _count(folder: Path, name: str, students: Sequence[str]) -> int:
    missing = [each for each in students if not (folder / each / name / f"{name}.ipynb").is_file()]
    if missing:
        raise NbgraderFailed(f"nbgrader graded {name} of all but {', '.join(missing)}")
    return len(students)


def _nbgrader(place: Path, *command: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "nbgrader", *command],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise NbgraderFailed(f"nbgrader {command[0]} ended with code {ran.returncode}: {ran.stderr[-2000:].strip()}")


# ---------------------------------------------------------------- in plain values


def as_data(costs: Costs) -> dict[str, Any]:
    """What was measured, in plain values."""
    beside = costs.nbgrader
    nbgrader = {**asdict(beside), "seconds_each": beside.each, "ratio": beside.each / costs.each} if beside else None
    return {
        "runs": [{**asdict(run), "seconds_each": run.each} for run in costs.runs],
        "nbgrader": nbgrader,
        "scaling": costs.scaling,
        "limit_s": LIMIT_S,
        "within_limit": costs.within_limit,
    }

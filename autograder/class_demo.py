"""`ol demo grade`: a part of the sample class graded, its table, and where its pages are.

It knows which part is shown, and that each verdict must be as autograder/class_samples.py says. How a class is
graded, kept and put on pages it does not know.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from autograder import class_samples
from autograder.class_samples import Student, surprise
from autograder.classroom.rows import Class, Result, State
from autograder.terminal import give_up, progress
from course.modules import Module

TEST_S = 2.0
"""A right test here ends in a fraction of a second, and one that loops should not keep anybody waiting."""

WORKERS = 2

WIDE = 110
"""Columns of a terminal that has room for all of the table."""


def class_demo(console: Console, out: Path) -> bool:
    """Grade a part of the sample class, and write its tables and pages. Returns whether all is as it should be.

    Args:
        console: where to print, with progress on a terminal.
        out: the folder for the tables and the pages, in a folder `class` of its own. What it knows of an earlier
            run is not graded again.
    """
    from autograder.classroom.store import Damaged, InUse

    students, modules = class_samples.chosen()
    names = " and ".join(f"{module.id} ({module.title})" for module in modules)
    console.print(f"Grading {len(students)} students of the sample class for {names}.", markup=False)
    console.print(f"Some loop without end, so a test may take {TEST_S:g} s at most.\n")
    try:
        graded = _graded(console, students, modules, out / "class")
    except (InUse, Damaged) as refusal:
        give_up(f"{str(refusal).rstrip('.')}. Nothing was graded.")
    console.print(_table(graded, students, wide=console.width >= WIDE))
    _say_where(console, out / "class")
    surprises = list(found_wrong(graded, students))
    for problem in surprises:
        console.print(f"Not as it should be: {problem}", style="bold red", markup=False)
    if not surprises:
        console.print("Every verdict is as it should be.", style="bold green")
    return not surprises


def _graded(console: Console, students: Sequence[Student], modules: Sequence[Module], out: Path) -> Class:
    from autograder.classroom import executors, pages, tables
    from autograder.classroom.grading_run import Settings, grade_class
    from autograder.grade_command import in_words

    out.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="ol-") as folder,
        executors.local(WORKERS) as crew,
        progress("grading", out=console) as tell,
    ):
        part = Path(folder) / "class"
        _copy(students, modules, part)
        settings = Settings(TEST_S, with_budget=False)
        graded = grade_class(
            part, out, modules, settings, crew, lambda far: tell(in_words(far), far.modules_done, far.modules)
        )
    tables.write(graded, out)
    pages.write(graded, out)
    return graded


def _copy(students: Sequence[Student], modules: Sequence[Module], folder: Path) -> None:
    """The chosen part of the class as a class of its own."""
    for student in students:
        (folder / student.id).mkdir(parents=True)
        for module in modules:
            theirs = class_samples.FOLDER / student.id / module.name
            if theirs.exists():
                shutil.copytree(theirs, folder / student.id / module.name)


# ---------------------------------------------------------------- the table


def _table(graded: Class, students: Sequence[Student], wide: bool) -> RenderableType:
    """A row for each student: points and verdicts by module, and what there is to see, below where it is narrow."""
    what = {student.id: student.what for student in students}
    table = Table(title=f"{graded.name}: points", title_justify="left", title_style="bold")
    table.add_column("student", no_wrap=True)
    for module in graded.modules:
        table.add_column(module, justify="right", no_wrap=True)
        table.add_column("named, own", justify="right")
    if wide:
        table.add_column("what they handed in")
    for student, results in graded.students():
        cells = [cell for result in results for cell in (Text(f"{result.score:g} of {result.most:g}"), _how(result))]
        table.add_row(Text(student), *cells, *[Text(what[student])] * wide)
    below = [] if wide else [Text.assemble((f"{student.id}: ", "bold"), student.what) for student in students]
    return Group(table, *below)


def _how(result: Result) -> Text:
    """Named tests passed and planted bugs caught; or why there are none."""
    if result.state is not State.GRADED:
        return Text(result.state.value, "yellow")
    verdicts, own = result.report["named_tests"], result.report["own_tests"]
    passed = [row["status"] for row in verdicts].count("passed")
    tests = f"{own['caught']}/{own['planted']}" if own["valid"] else "not valid"
    return Text(f"{passed}/{len(verdicts)}, {tests}", "green" if result.report["passed"] else "red")


def _say_where(console: Console, out: Path) -> None:
    near = os.path.relpath(out)
    place = out if near.startswith("..") else Path(near)
    console.print(f"\n{place / 'class.html'}: the class at a glance, and a page for each student", markup=False)
    console.print(f"{place / 'grades.csv'}: the same as a table; grades.json for programs", markup=False)
    console.print("Run this again, and nothing that is known is graded anew.\n")


# ---------------------------------------------------------------- as it should be


def found_wrong(graded: Class, students: Sequence[Student]) -> list[str]:
    """A sentence for each result that is not what class.toml says."""
    results = {(result.student, result.module): result for result in graded.results}
    problems = []
    for student in students:
        for module in graded.modules:
            # of two attempts the last one counts
            piece = next((each for each in reversed(student.pieces) if each.module.id == module), None)
            result = results.get((student.id, module))
            problem = "has no result" if result is None else _wrong(result, piece)
            problems += [f"{student.id}, {module}: {problem}"] * bool(problem)
    return problems


def _wrong(result: Result, piece: class_samples.Piece | None) -> str:
    """How a result is not what it should be; nothing if it is."""
    if piece is None:
        return "" if result.state is State.NOT_SUBMITTED else f"should be not submitted, and is {result.state.value}"
    if piece.expects.status == State.UNREADABLE.value and piece.on_disk:
        told = result.state is State.UNREADABLE and piece.expects.says in "\n".join(result.notes)
        return "" if told else f"should be {State.UNREADABLE.value}, and is {result.state.value}"
    if result.state is not State.GRADED:
        return f"should be graded: {result.state.value} {'; '.join(result.notes)}"
    return surprise(piece, result.report)

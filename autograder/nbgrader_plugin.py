"""What takes the place of nbgrader's own steps: a submission is read whatever it is, and its verdicts come from rooms.

`nbgrader autograde` runs three of these, in this order. The hook says which file is graded, also where it has another
name than the course's. The exporter reads it, and makes the notebook whole that nbgrader goes on with. The
preprocessor, in the place of Execute, grades what was handed in, the file under `submitted/` itself, as `ol grade`
does, and writes each verdict where nbgrader looks for it. `nbgrader generate_feedback` runs the last one, which
keeps hidden tests hidden.

It knows nbgrader's interfaces and the folders of a course. How work is graded it does not know.
"""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbconvert.preprocessors import Preprocessor
from nbformat.notebooknode import NotebookNode
from nbgrader.api import Gradebook
from traitlets import Bool, Enum, Float, Unicode

from autograder.classroom import handed_in, points
from autograder.classroom.executors import Crew, Processes
from autograder.classroom.grading_run import Settings, grade_class
from autograder.classroom.rows import Result, State
from autograder.classroom.store import InUse
from autograder.files import Unreadable
from autograder.nbgrader_notebook import NO_CELLS, Marked, fenced, made_whole, order_of, prose_of, rows_in, storable
from autograder.nbgrader_outputs import NoSuchCheck, is_check, with_verdicts
from autograder.sandbox import Sandbox
from course.modules import MODULES, Module

PATIENCE_S = 3600.0
"""So long to wait for another run that works on the same verdicts; a class may take as long."""

HIDDEN, END_HIDDEN = points.HIDDEN, points.HIDDEN.replace("BEGIN", "END")

Resources = Any
"""nbconvert's resources: a nested mapping that it passes from step to step."""


class NotGraded(Exception):
    """There is no verdict on a submission; the message says why. nbgrader keeps no score, and exits with 1."""


def module_of(assignment: str) -> Module | None:
    """The module that an assignment is for: it is called like it. None for a tour or a lab, which have no points."""
    return next((module for module in MODULES if module.name == assignment), None)


def take_what_was_handed_in(assignment: str, student: str, notebooks: list[str]) -> None:
    """nbgrader's pre_convert_hook: put the course's name for the notebook in place of the names in a student's folder.

    nbgrader skips a notebook under another name, and gives up a student who has no other.

    Args:
        assignment: what was asked for.
        student: whose work was asked for, a pattern.
        notebooks: paths of one student's notebooks for one assignment, changed in place.
    """
    folder = Path(notebooks[0]).parent
    if module_of(folder.name):
        notebooks[:] = [str(folder / f"{folder.name}.ipynb")]


# ---------------------------------------------------------------- reading


class SubmissionExporter(NotebookExporter):
    """Reads what a student handed in, and writes notebooks that nbgrader can go on with.

    It lives as long as one nbgrader command, and so does the process that grades for it.
    """

    def from_filename(self, filename: str, resources: Resources = None, **kw: Any) -> tuple[Any, Resources]:
        """A submission made whole, and put through nbgrader's steps; in the second round the notebook it was made."""
        resources = {**(resources or {}), "metadata": {"name": Path(filename).stem, "path": str(Path(filename).parent)}}
        place = resources["nbgrader"]
        if _is_in(filename, self._folder(self._course.submitted_directory, place)):
            notebook = self._whole(Path(filename), place)
        else:
            notebook = nbformat.read(filename, as_version=4)  # type: ignore[no-untyped-call]
        written: tuple[str, Resources]
        written = self.from_notebook_node(notebook, resources=resources, **kw)  # type: ignore[no-untyped-call]
        return written

    @property
    def _course(self) -> Any:
        converter: Any = self.parent
        return converter.coursedir

    @property
    def root(self) -> Path:
        """The course's folder."""
        return Path(self._course.root)

    @property
    def submitted(self) -> Path:
        """The class's folder: of each student one with what they handed in for each assignment."""
        return Path(self.root, self._course.submitted_directory)

    @cached_property
    def crew(self) -> Crew:
        """One process that grades, as any process may die of a submission; it is started when it is first needed."""
        processes = Processes(1)
        weakref.finalize(self, processes.end)
        return Crew(processes, lambda: 1)

    def _folder(self, step: str, place: Mapping[str, str]) -> Path:
        return Path(self._course.format_path(step, place["student"], place["assignment"]))

    def _whole(self, path: Path, place: Mapping[str, str]) -> NotebookNode:
        module = module_of(place["assignment"])
        marked, prose = self._course_cells(place)
        try:
            rows = rows_in(_handed_in(self.submitted, place["student"], module) if module else path)
            cells = made_whole(rows, marked, prose)
        except Unreadable as problem:
            cells = [_note(str(problem)), *made_whole((), marked, prose)]
        metadata = {"language_info": {"name": "python"}}
        book = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}
        return nbformat.from_dict(book)  # type: ignore[no-any-return, no-untyped-call]

    def _course_cells(self, place: Mapping[str, str]) -> tuple[list[Marked], frozenset[str]]:
        """The labelled cells of the course's notebook as the gradebook has them, and the texts of its prose."""
        folder = Path(self._course.format_path(self._course.source_directory, ".", place["assignment"]))
        book = json.loads((folder / f"{place['notebook']}.ipynb").read_text(encoding="utf-8"))
        with Gradebook(place["db_url"]) as gradebook:
            marked = _in_gradebook(gradebook.find_notebook(place["notebook"], place["assignment"]))
        order = {name: number for number, name in enumerate(order_of(book))}
        return sorted(marked, key=lambda each: order.get(each.grade_id, len(order))), prose_of(book)


def _is_in(filename: str, folder: Path) -> bool:
    """Whether a file lies in a folder. Where it leads to if it is a link, is not asked: no link is followed."""
    return Path(filename).parent.resolve() == folder.resolve()


def _handed_in(folder: Path, student: str, module: Module) -> Path | None:
    """The file that is graded for a module: the same one that `ol grade` takes."""
    entries = handed_in.find(folder, [module])
    return next((entry.path for entry in entries if entry.student == student), None)


def _in_gradebook(notebook: Any) -> list[Marked]:
    """nbgrader's records of a notebook's cells as labels."""
    worth = {cell.name: cell.max_score for cell in (*notebook.grade_cells, *notebook.task_cells)}
    grades, solutions, tasks = (
        {cell.name for cell in cells} for cells in (notebook.grade_cells, notebook.solution_cells, notebook.task_cells)
    )
    found = []
    for cell in notebook.source_cells:
        label: dict[str, Any] = {
            "schema_version": 3,
            "grade_id": cell.name,
            "grade": cell.name in grades,
            "solution": cell.name in solutions,
            "task": cell.name in tasks,
            "locked": bool(cell.locked),
            "checksum": cell.checksum,
            "cell_type": cell.cell_type,
        }
        most = {"points": worth[cell.name]} if cell.name in worth else {}
        found.append(Marked(cell.name, cell.cell_type, cell.source, {**label, **most}))
    return found


def _note(reason: str) -> dict[str, Any]:
    text = f"{NO_CELLS}\n\n{fenced(storable(reason))}"
    return {"id": "unreadable", "cell_type": "markdown", "metadata": {}, "source": text}


# ---------------------------------------------------------------- grading


class GradeInRooms(Preprocessor):
    """Takes the place of nbgrader's Execute: nothing of the notebook is run here, its work is graded in rooms.

    Its settings are those of `ol grade`, and so are its verdicts, which both keep in the same folder: what one of
    them has graded, and has not changed since, the other does not grade again.
    """

    enabled = Bool(True, help="Whether to grade at all.").tag(config=True)
    verdicts = Unicode("grades", help="Where verdicts are kept, seen from the course's folder.").tag(config=True)
    test_s = Float(Settings.test_s, help="Seconds that one test may take.").tag(config=True)
    sandbox = Enum(
        [each.value for each in Sandbox],
        Settings.sandbox.value,
        help="Isolate submissions if bubblewrap is there (auto), or else don't grade (require), or never (off).",
    ).tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Resources) -> tuple[NotebookNode, Resources]:
        """The notebook with a verdict in each check cell.

        Raises:
            NotGraded: the work could not be graded, so that there is no verdict on it.
            NoSuchCheck: a cell has points, and no named test is called like it.
        """
        place = resources["nbgrader"]
        module = module_of(place["assignment"])
        if module is None:
            _refuse_points(nb, place["assignment"])
            return nb, resources
        self._compare_points(nb, module)
        result = self._result(place["student"], module)
        if result.state is State.NOT_GRADED:
            raise NotGraded(result.notes[-1])
        cells = [*nb.cells]
        with_verdicts(cells, result)
        nb.cells = [nbformat.from_dict(cell) for cell in cells]  # type: ignore[no-untyped-call]
        return nb, resources

    def _compare_points(self, nb: NotebookNode, module: Module) -> None:
        """Say so where the gradebook has other points than the course's notebook: `ol grade` takes the latter."""
        worth = points.worth(module)
        for cell in filter(is_check, nb.cells):
            label = cell["metadata"]["nbgrader"]
            most = worth.get(label["grade_id"].removeprefix(points.CHECK))
            if most not in (None, label["points"]):
                self.log.warning(
                    "%s gives %g points in the gradebook and %g in the course's notebook: run nbgrader "
                    "generate_assignment %s again, then autograde again.",
                    label["grade_id"],
                    label["points"],
                    most,
                    module.name,
                )

    def _result(self, student: str, module: Module) -> Result:
        exporter: Any = self.parent
        out = exporter.root / self.verdicts
        settings = Settings(self.test_s, Sandbox(self.sandbox))

        def run() -> Result:
            graded = grade_class(
                exporter.submitted, out, [module], settings, exporter.crew, say=self.log.warning, only=[student]
            )
            return graded.results[0]

        return self._patiently(run)

    def _patiently(self, run: Callable[[], Result]) -> Result:
        """What a run gives, once no other one works on the same verdicts."""
        ends = time.monotonic() + PATIENCE_S
        while True:
            try:
                return run()
            except InUse as problem:
                if time.monotonic() > ends:
                    raise
                self.log.warning("Waiting: %s", problem)


def _refuse_points(nb: NotebookNode, assignment: str) -> None:
    """Nothing is run here, so a check that no module knows would count as passed."""
    for cell in nb.cells:
        if is_check(cell):
            name = cell["metadata"]["nbgrader"]["grade_id"]
            raise NoSuchCheck(f"{name} has points, and {assignment} is not called like a module of the course.")


# ---------------------------------------------------------------- feedback


class HideHiddenTests(Preprocessor):
    """Takes hidden tests out of the check cells of a page with feedback. nbgrader put them back to grade."""

    enabled = Bool(True, help="Whether to take them out.").tag(config=True)

    def preprocess_cell(self, cell: NotebookNode, resources: Resources, index: int) -> tuple[NotebookNode, Resources]:
        """The cell without the lines between nbgrader's marks; a student's own cells are left alone."""
        if is_check(cell) and HIDDEN in cell.source:
            before, _, rest = cell.source.partition(HIDDEN)
            _, _, after = rest.partition(END_HIDDEN)
            cell.source = f"{before.rstrip()}\n# A hidden check stands here.\n{after.lstrip()}".strip()
        return cell, resources

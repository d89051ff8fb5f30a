"""A course folder for tests with nbgrader's own steps in this process, and verdicts out of thin air."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config, PyFileConfigLoader

from autograder import reading
from autograder.catalogue import catalogue
from autograder.classroom import points
from autograder.classroom.rows import Result, State
from autograder.classroom.tasks import Outcome, Task
from autograder.files import Unreadable
from course.modules import Module, find
from notebooks import build

ROOT = Path(__file__).resolve().parent.parent
CLASS = ROOT / "fixtures" / "submissions" / "class"
CACHE = find("radix_cache")

# ---------------------------------------------------------------- a course folder, and nbgrader's commands


def config_of(folder: Path) -> Config:
    """This course's settings, as if `folder` were the course's."""
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    config = PyFileConfigLoader("nbgrader_config.py", path=str(folder)).load_config()
    config.CourseDirectory.root = str(folder)
    return config


def converted(name: str, folder: Path, assignment: str, **settings: str) -> None:
    """What `nbgrader generate_assignment`, `autograde` or `generate_feedback` does. Raises where it exits with 1."""
    from nbgrader import converters

    config = config_of(folder)
    config.CourseDirectory.assignment_id = assignment
    config.CourseDirectory.update(settings)
    course = CourseDirectory(config=config)
    getattr(converters, name)(coursedir=course, config=config).start()


def release(folder: Path, names: Sequence[str]) -> None:
    """Put these of the course's notebooks into a course folder, and release them."""
    for name in names:
        (folder / "notebooks" / name).mkdir(parents=True)
        shutil.copy(build.notebook_path(name), folder / "notebooks" / name)
        converted("GenerateAssignment", folder, name, student_id=".")


def hand_in(course: Path, student: str, module: Module, book: Any, name: str = "") -> None:
    folder = course / "submitted" / student / module.name
    folder.mkdir(parents=True)
    text = book if isinstance(book, str) else json.dumps(book)
    (folder / (name or f"{module.name}.ipynb")).write_text(text, encoding="utf-8")


def scores_of(course: Path, student: str, module: Module) -> dict[str, float | None]:
    """The gradebook's automatic scores of a student, by the names that points have."""
    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        grades = gradebook.find_submission_notebook(module.name, module.name, student).grades
        assert not any(grade.needs_manual_grade for grade in grades)
        return {grade.name.removeprefix(points.CHECK): grade.auto_score for grade in grades}


def autograded(course: Path, student: str, module: Module) -> Any:
    return nbformat.read(course / "autograded" / student / module.name / f"{module.name}.ipynb", as_version=4)


def text_of(cell: Any) -> str:
    """What a reader sees below a cell."""
    told = []
    for output in cell["outputs"]:
        told += [output.get("text", ""), *output.get("traceback", []), *output.get("data", {}).values()]
    return "\n".join(told)


# ---------------------------------------------------------------- verdicts out of thin air


def report_of(module: Module, lost: Sequence[str] = (), caught: int = 12, **own: Any) -> dict[str, Any]:
    """A report in which these named tests failed, and so many of 12 planted bugs were caught."""
    rows = [
        {"test": test.name, "status": "failed" if test.name in lost else "passed", "message": "", "story": None}
        for test in catalogue(module)
    ]
    for row in rows:
        row["message"] = f"why {row['test']} is lost" if row["test"] in lost else ""
    score = {"valid": True, "graded": True, "passed": caught >= 10, "reason": "", "caught": caught, "planted": 12}
    more = {"share": caught / 12, "missed": ["a bug that got away"] * (caught < 12), "required_missed": []}
    return {
        "named_tests": rows,
        "own_tests": {**score, **more, **own},
        "diagnosis": [],
        "remarks": ["a remark"],
        "lost_first": "",
    }


def result_of(module: Module, report: Mapping[str, Any], state: State = State.GRADED, **more: Any) -> Result:
    worth = points.worth(module)
    return Result("ann", module.id, "", state, points=points.points(module, report), worth=worth, report=report, **more)


def verdict(task: Task) -> Outcome:
    module = find(task.module)
    try:
        reading.read_file(task.work, module)
    except Unreadable as problem:
        return Outcome(unreadable=str(problem))
    return Outcome(report_of(module, [catalogue(module)[0].name], caught=9))

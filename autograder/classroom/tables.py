"""A class as tables: grades.csv for a spreadsheet, grades.json with everything, and reading a class back.

It knows the columns, and what a spreadsheet would do to a cell that a student can write. How results came about
this file does not know.
"""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder.classroom import atomic, store
from autograder.classroom.printable import printable
from autograder.classroom.rows import Class, Result, State, as_data, from_data, total
from autograder.running import Status
from course.modules import MODULES

CSV, JSON = "grades.csv", "grades.json"

CALCULATES = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A spreadsheet takes a cell that begins so for a formula, and runs it."""


class NoGrades(store.Damaged):
    """A folder holds no grades that can be read, neither tables nor verdicts; the message says why."""


def write(cls: Class, folder: Path) -> None:
    """Write grades.csv and grades.json into a folder, each whole or not at all. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write(folder / CSV, as_csv(cls))
    atomic.write(folder / JSON, json.dumps(as_json(cls), indent=1) + "\n")


# ---------------------------------------------------------------- for a spreadsheet


def as_csv(cls: Class) -> str:
    """A row for each student: total and most, then for each module what came of it."""
    text = io.StringIO()
    rows = csv.writer(text)  # with line ends that make it quote both \r and \n
    rows.writerow(columns(cls.modules))
    for student, results in cls.students():
        rows.writerow([_harmless(cell) for cell in _cells(student, results)])
    return text.getvalue()


def columns(modules: Sequence[str]) -> list[str]:
    """The names of the columns."""
    return ["student", "total", "most", *(f"{module} {what}" for module in modules for what in PER_MODULE)]


PER_MODULE = ("score", "state", "named tests passed", "own tests caught", "notes")


def _cells(student: str, results: Sequence[Result]) -> Iterator[str | float]:
    yield student
    yield total(result.score for result in results)
    yield total(result.most for result in results)
    for result in results:
        yield from (result.score, result.state.value, _named(result), _caught(result), " ".join(result.notes))


def _named(result: Result) -> int | str:
    """How many named tests passed; nothing where none ran."""
    if result.state is not State.GRADED:
        return ""
    return [each["status"] for each in result.report.get("named_tests", ())].count(Status.PASSED.value)


def _caught(result: Result) -> int | str:
    """How many planted bugs the own tests caught, or why that is no number."""
    own = result.report.get("own_tests")
    if result.state is not State.GRADED or not own or not own["graded"]:
        return ""
    return int(own["caught"]) if own["valid"] else "not valid"


def _harmless(cell: str | float) -> str | float:
    """A cell that a spreadsheet shows and does not run; wide forms of = + - @ count as these do."""
    if isinstance(cell, str) and unicodedata.normalize("NFKC", cell[:1]).startswith(CALCULATES):
        return f"'{cell}"
    return cell


# ---------------------------------------------------------------- for programs


def as_json(cls: Class) -> dict[str, Any]:
    """Everything that is known of a class, in plain values."""
    students = [
        {
            "student": student,
            "total": total(result.score for result in results),
            "most": total(result.most for result in results),
            "results": [{**as_data(result), "score": result.score, "most": result.most} for result in results],
        }
        for student, results in cls.students()
    ]
    return {"class": cls.name, "modules": list(cls.modules), "students": students}


def load(folder: Path) -> Class:
    """The class whose grades an earlier run left in a folder: its grades.json, else its verdicts.

    Raises:
        NoGrades: there are neither, or they can't be read.
    """
    path = folder / JSON
    try:
        data = json.loads(path.read_bytes())
        results = tuple(_result(row) for each in data["students"] for row in each["results"])
        return Class(data["class"], tuple(data["modules"]), results)
    except FileNotFoundError:
        return _from_verdicts(folder)
    except OSError as problem:
        raise NoGrades(f"{printable(str(path))} can't be opened: {problem.strerror}.") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise NoGrades(f"{printable(str(path))} holds no grades: it is not what ol grade wrote.") from None


def _result(row: Mapping[str, Any]) -> Result:
    return from_data({name: value for name, value in row.items() if name not in ("score", "most")})


def _from_verdicts(folder: Path) -> Class:
    """The class of a run that came to no end; what it did not come to is marked so."""
    try:
        known, _ = store.read(folder)
    except store.Damaged:
        known = {}
    if not known:
        raise NoGrades(
            f"In {printable(str(folder))} there is neither a {JSON} nor a {store.VERDICTS}: "
            "give a folder that ol grade wrote."
        )
    graded = {module for _, module in known}
    modules = tuple(module.id for module in MODULES if module.id in graded)
    students = sorted({student for student, _ in known})
    pairs = [(student, module) for student in students for module in modules]
    return Class(folder.resolve().name, modules, tuple(known.get(pair) or _not_reached(*pair) for pair in pairs))


def _not_reached(student: str, module: str) -> Result:
    return Result(student, module, "", State.NOT_GRADED, ("The run ended before it came to this.",), attempts=0)

"""A class on pages: `class.html` and a page a student, each a single file that needs nothing else.

It knows where pages go, and that each one is written whole or not at all. What stands on them
`overview` and `student` say, how it looks the templates.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from autograder.classroom import atomic
from autograder.classroom.pages import overview, student
from autograder.classroom.pages.naming import PAGE, page_name, seen, without_controls
from autograder.classroom.rows import Class
from autograder.scoring import THRESHOLD

CLASS_PAGE, STUDENTS = "class.html", "students"
TEMPLATES = Path(__file__).parent / "templates"

KINDS = {
    "passed": ("p", "✓"),
    "failed": ("f", "✗"),
    "timed out": ("x", "T"),
    "out of memory": ("x", "M"),
    "died": ("x", "D"),
    "not defined": ("n", "·"),
    "can't be read": ("n", "?"),
    "not submitted": ("n", "–"),
    "caught": ("p", "✓"),
    "missed": ("f", "✗"),
    "no tests": ("n", "–"),
}
"""What happened, as a class in the style sheet and as a sign that needs no colour."""


def write(cls: Class, folder: Path) -> None:
    """Write every page of a class into a folder; pages of students who are no longer in it go.

    A page that is there stays as it was until the new one is whole.
    """
    students = folder / STUDENTS
    students.mkdir(parents=True, exist_ok=True)
    written = {page_name(name) for name, _ in cls.students()}
    for name, results in cls.students():
        atomic.write(students / page_name(name), _rendered("student.html", student.page(cls.name, name, results)))
    atomic.write(folder / CLASS_PAGE, _rendered("class.html", overview.page(cls)))
    for path in students.iterdir():
        if PAGE.fullmatch(path.name) and path.name not in written:
            path.unlink()


# ---------------------------------------------------------------- templates


def _rendered(template: str, page: Any) -> str:
    return without_controls(_environment().get_template(template).render(page=page))


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"seen": seen, "page": page_name, "points": points, "percent": "{:.0%}".format}
    made.filters |= {"code": code, "breakable": breakable}
    cells = {kind: Markup(f'<td class="{style}">{sign}</td>') for kind, (style, sign) in KINDS.items()}
    made.globals |= {"KINDS": KINDS, "CELLS": cells, "THRESHOLD": THRESHOLD}
    return made


def points(value: float) -> str:
    """Points with as many digits as they need, two at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def code(text: str) -> Markup:
    """A text in which what stands between backticks is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def breakable(name: str) -> Markup:
    """A name that may go on in the next line after each underscore."""
    return Markup("_<wbr>").join(name.split("_"))

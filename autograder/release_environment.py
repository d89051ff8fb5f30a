"""What the student edition says about itself and needs from a machine: README, Makefile, requirements, settings.

It knows the texts in `autograder/student_edition/` and fills them in: the requirements are the course's own, without
what only instructors need, and each stands at the version in `requirements.lock`. Which files go in besides, it does
not know.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autograder.edition import ROOT
from course.modules import MODULES

TEMPLATES = Path(__file__).parent / "student_edition"

FILLED = {"README.md": "README.md", "Makefile": "Makefile", "pyproject.toml": "pyproject.in"}
"""The texts with places to fill in, by their names in the edition."""

AS_THEY_ARE = ("LICENSE", "runtime.toml", "docs/students.md")

INSTRUCTORS = frozenset({"dask", "distributed", "jinja2", "jupytext", "nbconvert", "nbformat"})
"""Direct requirements that no command or notebook of a student's imports."""

BUILD = "setuptools"
"""What installing the edition itself needs: without it pip would fetch it once more."""


class NotInstalled(Exception):
    """A package of the lock is not installed here, so what it needs is not known; the message names it."""


def files(books: Mapping[str, bytes], pythons: Sequence[str]) -> dict[str, bytes]:
    """The edition's files outside its code and data, by path.

    Args:
        books: the notebooks as students get them, by path.
        pythons: the versions of Python that the edition works with, such as "3.11", oldest first.

    Raises:
        NotInstalled: the requirements can't be told.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    direct = [line for line in project["dependencies"] if canonicalize_name(Requirement(line).name) not in INSTRUCTORS]
    words = {
        "VERSION": project["version"],
        "DEPENDENCIES": "\n".join(f'    "{line}",' for line in direct),
        "VERSIONS": " ".join(pythons),
        "COMMANDS": " ".join(f"python{version}" for version in pythons),
        "PYTHONS": f"Python {' or '.join(pythons)}",
        "PYTHON": f"python{pythons[-1]}",
        "NOTEBOOKS": "\n".join(_table(books)),
    }
    made = {name: _filled(TEMPLATES / template, words).encode() for name, template in FILLED.items()}
    made["jupyter/labconfig/page_config.json"] = (TEMPLATES / "page_config.json").read_bytes()
    made["requirements.lock"] = "".join(f"{line}\n" for line in _lock([*direct, BUILD])).encode()
    return made | {name: (ROOT / name).read_bytes() for name in AS_THEY_ARE}


def _filled(template: Path, words: Mapping[str, str]) -> str:
    text = template.read_text(encoding="utf-8")
    for word, meaning in words.items():
        text = text.replace(f"@{word}@", meaning)
    return text


# ---------------------------------------------------------------- requirements


def _lock(direct: Iterable[str]) -> Iterator[str]:
    """The lines of the course's lock that these requirements lead to."""
    pins = [line for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines() if "==" in line]
    pinned = {canonicalize_name(line.partition("==")[0]): line for line in pins}
    wanted = _needed(direct, frozenset(pinned))
    yield "# Every package of the environment, at the version that the course is tested with."
    yield from (line for name, line in pinned.items() if name in wanted)


def _needed(direct: Iterable[str], pinned: frozenset[str]) -> set[str]:
    """The names of these requirements and of all that they require here, as far as they are pinned."""
    waiting = [Requirement(line) for line in direct]
    seen: set[tuple[str, str]] = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        for extra in ("", *wanted.extras):
            if name in pinned and (name, extra) not in seen:
                seen.add((name, extra))
                waiting += _required_by(name, extra)
    return {name for name, _ in seen}


def _required_by(name: str, extra: str) -> Iterator[Requirement]:
    try:
        lines = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        raise NotInstalled(f"{name} is in requirements.lock and is not installed here: run make setup first") from None
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


# ---------------------------------------------------------------- the README's table


def _table(books: Mapping[str, bytes]) -> Iterator[str]:
    """The notebooks in the order in which they are met: those that are no module's before and after."""
    names = sorted({Path(name).stem for name in books if name.endswith(".ipynb")}, key=_place)
    yield from ("| Folder | Notebook | Time |", "|---|---|---|")
    for name in names:
        prose = "\n".join(_prose(books[f"{name}/{name}.ipynb"]))
        title = re.search(r"^# (.+)$", prose, re.MULTILINE)
        time = re.search(r"^\| *\*\*Time\*\* *\| *(.+?) *\|", prose, re.MULTILINE)
        yield f"| `notebooks/{name}` | {title[1] if title else name} | {time[1] if time else ''} |"


def _place(name: str) -> tuple[int, str]:
    order = ["tour", *(module.name for module in MODULES)]
    return (order.index(name) if name in order else len(order)), name


def _prose(book: bytes) -> Iterator[str]:
    for cell in json.loads(book)["cells"]:
        if cell["cell_type"] == "markdown":
            yield "".join(cell["source"])

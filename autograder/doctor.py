"""`ol doctor`: what is installed, what is missing and what to do about it, and whether the references pass here, or in
a student's edition, whether the sealed ones can be run.

It knows what the course needs from a machine. It does not install anything.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata

from autograder import edition, implementations, sealed
from autograder.grading import grade
from autograder.report import duration
from course.modules import EXTENSIONS, MODULES, Module
from course.progress import Tell, silent

DISTRIBUTION = "kv-cache-course"
SECONDS = 20


class State(StrEnum):
    """Whether a thing is there; `OPTIONAL` is missing and can be done without, at a price."""

    GOOD = "ok"
    OPTIONAL = "without"
    BAD = "missing"


@dataclass(frozen=True)
class Finding:
    """One thing looked at; `advice` says what to do where it is not good."""

    what: str
    state: State
    detail: str
    advice: str = ""


def findings(tell: Tell = silent) -> Iterator[Finding]:
    """Look at everything, one thing at a time."""
    yield python()
    yield packages()
    yield sandbox()
    if edition.IS_STUDENTS:
        yield sealed_code()
        return
    yield browser()
    every = (*MODULES, *EXTENSIONS)
    for done, module in enumerate(every):
        tell(f"the reference of {module.id}", done, len(every))
        yield reference(module)


def python() -> Finding:
    """The interpreter that runs this."""
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 11)
    return Finding(
        "Python", State.GOOD if good else State.BAD, version, "" if good else "Python 3.11 or newer is needed."
    )


# ---------------------------------------------------------------- packages


def packages() -> Finding:
    """The packages that the course needs, at the versions it was written with."""
    problems, pins = [], list(requirements())
    for name, version in pins:
        try:
            found = metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            found = "none"
        if found != version:
            problems.append(f"{name} {version} (here: {found})")
    if not problems:
        return Finding("packages", State.GOOD, f"all {len(pins)} at the versions the course pins")
    return Finding(
        "packages", State.BAD, "not as pinned: " + ", ".join(problems), "Run: pip install -r requirements.lock"
    )


def requirements() -> Iterator[tuple[str, str]]:
    """(name, version) of each direct requirement, from pyproject.toml or from the installed course."""
    project = edition.ROOT / "pyproject.toml"
    if project.exists():
        lines = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
    else:
        lines = [line for line in metadata.requires(DISTRIBUTION) or [] if "extra ==" not in line]
    for line in lines:
        name, _, version = re.split(r"(==)", line, maxsplit=1)
        yield name.strip(), version.strip()


# ---------------------------------------------------------------- programs


def sandbox() -> Finding:
    """bubblewrap, and whether it may make namespaces here."""
    program = shutil.which("bwrap")
    price = "Grading works without it, in a plain child process that is not isolated."
    if program is None:
        return Finding("bubblewrap", State.OPTIONAL, "not installed", f"{price} Install the package bubblewrap.")
    tried = _run(program, "--ro-bind", "/", "/", "--unshare-all", "true")
    if tried is None or tried.returncode:
        said = tried.stderr.strip() if tried else "it did not end"
        return Finding("bubblewrap", State.OPTIONAL, f"can't be used here: {said}", price)
    return Finding("bubblewrap", State.GOOD, _version(program))


def browser() -> Finding:
    """A Chromium, which the project's own tests of the notebooks drive."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        return Finding(
            "Chromium", State.OPTIONAL, "not installed", "Only the project's own tests in a browser need it."
        )
    return Finding("Chromium", State.GOOD, _version(program))


def _version(program: str) -> str:
    ran = _run(program, "--version")
    lines = ran.stdout.strip().splitlines() if ran else []
    return lines[0] if lines else program


def _run(*command: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None


# ---------------------------------------------------------------- references


def sealed_code() -> Finding:
    """Whether the planted bugs and flat models of a student's edition can be run by this Python."""
    what, fits = "planted bugs", " and ".join(sealed.versions(edition.SEALED))
    try:
        sealed.opened(edition.SEALED)
    except sealed.WrongPython as problem:
        return Finding(what, State.BAD, f"compiled for Python {fits}", f"{str(problem)[:1].upper()}{str(problem)[1:]}")
    return Finding(what, State.GOOD, f"compiled for Python {fits}")


def reference(module: Module) -> Finding:
    """Whether a module's reference passes its named tests here, and its own tests what they should."""
    what = f"{module.name if module.extends else module.id} reference"
    path = implementations.SOLUTIONS / f"{module.file}.py"
    if not path.exists():
        return Finding(what, State.OPTIONAL, "not in this edition", "The reference solutions stay with the instructor.")
    report = grade(path, module)
    lost = [verdict.test for verdict in report.verdicts if not verdict.passed]
    detail = f"{report.n_passed} of {len(report.verdicts)} named tests pass"
    if report.own.valid:
        detail += f", its own tests catch {len(report.own.caught)} of {report.own.n_bugs} planted bugs"
    advice = f"Look at: ol check {module.id} --reference" if lost else ""
    return Finding(what, State.BAD if lost else State.GOOD, f"{detail}, {duration(report.seconds)}", advice)

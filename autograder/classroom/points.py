"""What each check is worth, and what a report gets of it.

It knows where the points stand: at the check cells of the course's own notebook, as nbgrader reads them. Which
verdict a test deserves it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from autograder import reading
from autograder.catalogue import catalogue
from autograder.classroom.rows import OWN_TESTS
from autograder.running import Status
from autograder.scoring import credit
from course.modules import Module

CHECK = "check_"
"""How the grade_id of a cell with points begins; the rest is the named test, or OWN_TESTS."""

HIDDEN = "### BEGIN HIDDEN TESTS"
"""nbgrader's mark of what students don't get to see."""

NAMED_SHARE, OWN_SHARE = 80, 20
"""What all named tests and the own tests are worth where no notebook says so."""


def worth(module: Module) -> dict[str, float]:
    """The points of each named test in the catalogue's order, then of the own tests."""
    cells = _checks(module)
    names = [test.name for test in catalogue(module)]
    if not cells:
        return {**_shared(NAMED_SHARE, names), OWN_TESTS: float(OWN_SHARE)}
    return {name: cells[name][0] for name in (*names, OWN_TESTS) if name in cells}


def _shared(most: int, names: Sequence[str]) -> dict[str, float]:
    """Equal shares in whole hundredths: they add up to `most`, also as they are printed."""
    ends = [round(100 * most * n / len(names)) for n in range(len(names) + 1)]
    return {name: (end - start) / 100 for name, start, end in zip(names, ends, ends[1:], strict=False)}


def hidden(module: Module) -> tuple[str, ...]:
    """The named tests whose reasons and stories no student may see."""
    return tuple(name for name, (_, source) in _checks(module).items() if HIDDEN in source and name != OWN_TESTS)


def points(module: Module, report: Mapping[str, Any]) -> dict[str, float]:
    """What a report gets for each check, by the names of `worth`.

    A named test gives all of its points or none. Own tests give the share of planted bugs caught over the share
    that is needed, at most all; a suite that misses a required bug gets less than all (L8.4, section 4).

    Args:
        module: whose report it is.
        report: as `autograder.report.as_data` gives it.
    """
    parts = shares(module, report)
    return {name: of(most, parts[name]) for name, most in worth(module).items()}


def shares(module: Module, report: Mapping[str, Any]) -> dict[str, float]:
    """The part of its points that each check gets, from 0.0 to 1.0: see `points`."""
    passed = {each["test"] for each in report.get("named_tests", ()) if each["status"] == Status.PASSED.value}
    parts = {test.name: float(test.name in passed) for test in catalogue(module)}
    return {**parts, OWN_TESTS: _own_part(report.get("own_tests", {}))}


def of(most: float, part: float) -> float:
    """A part of so many points, in whole hundredths."""
    return round(most * part, 2) + 0.0


def _own_part(own: Mapping[str, Any]) -> float:
    """From 0.0 to 1.0: how much of their points own tests get."""
    if not own or not own["valid"] or not own["graded"]:
        return 0.0
    return credit(int(own["caught"]), int(own["planted"]), bool(own["required_missed"]))


# ---------------------------------------------------------------- the course's own notebook


def _checks(module: Module) -> Mapping[str, tuple[float, str]]:
    """Points and source of each cell with points, by named test; empty where there is no notebook."""
    path = reading.ASSIGNMENTS / module.name / f"{module.name}.ipynb"
    return _checks_in(path, path.stat().st_mtime_ns) if path.is_file() else {}


@lru_cache(maxsize=32)
def _checks_in(path: Path, changed: int) -> Mapping[str, tuple[float, str]]:
    found = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        label = cell["metadata"].get("nbgrader", {})
        if label.get("grade") and label["grade_id"].startswith(CHECK):
            source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
            found[label["grade_id"].removeprefix(CHECK)] = (float(label.get("points", 0)), source)
    return found

"""What checks are worth, what reports get, and what the key of a verdict hangs on."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from autograder import reading
from autograder.catalogue import catalogue
from autograder.classroom import keys, points
from autograder.classroom.rows import OWN_TESTS, total
from autograder.running import Status
from course.modules import MODULES, Module, find

CACHE = find("L8.4")
NAMES = [test.name for test in catalogue(CACHE)]
WORTH = points.worth(CACHE)


def report(passed: tuple[str, ...] = (), **own: Any) -> dict[str, Any]:
    tests = [{"test": name, "status": (Status.PASSED if name in passed else Status.FAILED).value} for name in NAMES]
    suite = {"valid": True, "graded": True, "planted": 12, "caught": 12, "required_missed": []} | own
    return {"named_tests": tests, "own_tests": suite}


def notebook(folder: Path, *cells: tuple[str, float, str]) -> None:
    """The course's own notebook for L8.4, cut down to check cells."""
    rows = [
        {"metadata": {"nbgrader": {"grade_id": f"check_{name}", "grade": True, "points": most}}, "source": [source]}
        for name, most, source in cells
    ]
    (folder / "radix_cache").mkdir(parents=True, exist_ok=True)
    text = json.dumps({"cells": [*rows, {"metadata": {}, "source": "# prose"}]})
    (folder / "radix_cache" / "radix_cache.ipynb").write_text(text, encoding="utf-8")


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(reading, "ASSIGNMENTS", tmp_path)
    return tmp_path


# ---------------------------------------------------------------- what checks are worth


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.id)
def test_every_named_test_and_the_own_tests_are_worth_something(module: Module) -> None:
    worth = points.worth(module)
    assert list(worth) == [*(test.name for test in catalogue(module)), OWN_TESTS]
    assert min(worth.values()) > 0 and total(worth.values()) == 100


def test_points_stand_at_the_check_cells(own_folder: Path) -> None:
    notebook(own_folder, (NAMES[1], 3, ""), ("own_tests", 8, ""), (NAMES[0], 2.5, ""))
    assert points.worth(CACHE) == {NAMES[0]: 2.5, NAMES[1]: 3.0, OWN_TESTS: 8.0}
    assert points.points(CACHE, report(passed=tuple(NAMES))) == {NAMES[0]: 2.5, NAMES[1]: 3.0, OWN_TESTS: 8.0}


def test_a_changed_notebook_is_read_again(own_folder: Path) -> None:
    notebook(own_folder, (NAMES[0], 1, ""))
    assert points.worth(CACHE) == {NAMES[0]: 1.0}
    path = own_folder / "radix_cache" / "radix_cache.ipynb"
    path.write_text(path.read_text(encoding="utf-8").replace('"points": 1', '"points": 2'), encoding="utf-8")
    assert points.worth(CACHE) == {NAMES[0]: 2.0}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.id)
def test_without_a_notebook_the_named_tests_share_80(own_folder: Path, module: Module) -> None:
    *named, own = points.worth(module).values()
    assert own == 20
    assert total(named) == 80 and total(round(each, 2) for each in named) == 80, "printed points add up, too"
    assert max(named) - min(named) < 0.011


def test_hidden_tests_are_known_by_nbgraders_mark(own_folder: Path) -> None:
    notebook(
        own_folder,
        (NAMES[0], 1, f"check('a')\n{points.HIDDEN}\ncheck('b')"),
        (NAMES[1], 1, ""),
        ("own_tests", 1, points.HIDDEN),
    )
    assert points.hidden(CACHE) == (NAMES[0],)


# ---------------------------------------------------------------- what a report gets


def test_a_named_test_gives_all_of_its_points_or_none() -> None:
    got = points.points(CACHE, report(passed=(NAMES[0], NAMES[3]), valid=False))
    assert got == {**dict.fromkeys(NAMES, 0.0), NAMES[0]: WORTH[NAMES[0]], NAMES[3]: WORTH[NAMES[3]], OWN_TESTS: 0.0}


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PASSED])
def test_no_other_end_is_a_pass(status: Status) -> None:
    ended = report(passed=tuple(NAMES))
    ended["named_tests"][0]["status"] = status.value
    assert points.points(CACHE, ended)[NAMES[0]] == 0.0


@pytest.mark.parametrize(
    ("own", "got"),
    [
        ({}, 20.0),
        ({"caught": 10}, 20.0),
        ({"caught": 9}, 18.75),
        ({"caught": 1}, 2.08),
        ({"caught": 0}, 0.0),
        ({"caught": 11, "required_missed": ["one"]}, 18.75),
        ({"caught": 4, "required_missed": ["one"]}, 8.33),
        ({"caught": 5, "planted": 5, "required_missed": ["one"]}, 15.0),
        ({"valid": False}, 0.0),
        ({"graded": False}, 0.0),
        ({"caught": 0, "planted": 0}, 0.0),
    ],
)
def test_own_tests_give_the_share_of_what_is_needed(own: dict[str, Any], got: float) -> None:
    assert points.points(CACHE, report(**own))[OWN_TESTS] == got


def test_nothing_gives_nothing_and_no_check_is_left_out() -> None:
    for nothing in ({}, report(valid=False)):
        got = points.points(CACHE, nothing)
        assert list(got) == list(points.worth(CACHE))
        assert str(total(got.values())) == "0.0"


def test_a_test_that_the_report_lacks_is_lost(own_folder: Path) -> None:
    notebook(own_folder, (NAMES[0], 1, ""), (NAMES[1], 1, ""))
    short = report(passed=tuple(NAMES))
    short["named_tests"] = short["named_tests"][1:]
    assert points.points(CACHE, short) == {NAMES[0]: 0.0, NAMES[1]: 1.0}


def test_without_points_for_own_tests_none_are_given(own_folder: Path) -> None:
    notebook(own_folder, (NAMES[0], 1, ""))
    assert points.points(CACHE, report(passed=tuple(NAMES))) == {NAMES[0]: 1.0}


# ---------------------------------------------------------------- keys

FILES: Mapping[str, bytes] = {"radix_cache": b"mine", "radix_tree": b"below"}
SETTINGS = {"test_s": 10.0, "sandbox": "auto"}


def changed(files: Mapping[str, bytes] = FILES, settings: Mapping[str, Any] = SETTINGS) -> set[str]:
    """The parts of a key that differ from those of FILES and SETTINGS."""
    before, after = keys.parts(keys.key(CACHE, FILES, SETTINGS)), keys.parts(keys.key(CACHE, files, settings))
    return {name for name in before if before[name] != after[name]}


def test_a_key_has_four_parts_and_is_the_same_for_the_same() -> None:
    assert list(keys.parts(keys.key(CACHE, FILES, SETTINGS))) == ["submission", "earlier", "grader", "settings"]
    assert changed(dict(sorted(FILES.items(), reverse=True)), dict(sorted(SETTINGS.items()))) == set()
    assert keys.parts("") == {}


def test_each_part_follows_what_it_is_about() -> None:
    assert changed({**FILES, "radix_cache": b"mended"}) == {"submission"}
    assert changed({**FILES, "test_radix_cache": b"own tests"}) == {"submission"}
    assert changed({**FILES, "radix_tree": b"mended"}) == {"earlier"}
    assert changed({"radix_cache": b"mine"}) == {"earlier"}
    assert changed(settings={**SETTINGS, "test_s": 20.0}) == {"settings"}
    assert changed({**FILES, "kv_pool": b"not underneath", "block_manager": b"above"}) == set()


def test_where_one_file_ends_and_the_next_begins_counts() -> None:
    manager = find("L10.4")
    one = keys.key(manager, {"kv_pool": b"ab", "radix_tree": b"c"}, {})
    assert one != keys.key(manager, {"kv_pool": b"abradix_treec"}, {})
    assert keys.key(manager, {"kv_pool": b"a"}, {}) != keys.key(manager, {"radix_tree": b"a"}, {})
    assert keys.key(CACHE, {"radix_cache": b""}, {}) != keys.key(CACHE, {}, {})


def test_points_and_hidden_marks_are_part_of_the_grader(own_folder: Path) -> None:
    found = set()
    for most, source in ((1, ""), (2, ""), (2, points.HIDDEN)):
        notebook(own_folder, (NAMES[0], most, source))
        found.add(keys.parts(keys.key(CACHE, FILES, SETTINGS))["grader"])
    assert len(found) == 3


@pytest.fixture
def house(tmp_path: Path) -> Path:
    for name in ("autograder/rooms.py", "autograder/bugs/a.toml", "course/contract.py", "solutions/kv_pool.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1", encoding="utf-8")
    return tmp_path


def version(house: Path) -> str:
    keys.grader.cache_clear()
    return keys.grader(house)


@pytest.mark.parametrize(
    "place", ["autograder/rooms.py", "autograder/bugs/a.toml", "course/contract.py", "solutions/kv_pool.py"]
)
def test_the_graders_version_follows_its_files(house: Path, place: str) -> None:
    before = version(house)
    assert version(house) == before
    (house / place).write_text("x = 2", encoding="utf-8")
    mended = version(house)
    (house / place).rename(house / f"{place}.py")
    assert len({before, mended, version(house)}) == 3


def test_the_golden_trace_is_part_of_the_grader(house: Path) -> None:
    before = version(house)
    (house / "fixtures" / "L8.4").mkdir(parents=True)
    (house / "fixtures" / "L8.4" / "radix_trace.txt").write_text("hit", encoding="utf-8")
    assert version(house) != before


@pytest.mark.parametrize(
    "place",
    ["autograder/__pycache__/rooms.pyc", "autograder/classroom/pages/page.html", "fixtures/submissions/a.ipynb"],
)
def test_what_decides_nothing_is_no_part_of_the_grader(house: Path, place: str) -> None:
    before = version(house)
    (house / place).parent.mkdir(parents=True)
    (house / place).write_text("new", encoding="utf-8")
    assert version(house) == before


@pytest.mark.parametrize("package", keys.PACKAGES)
def test_a_new_release_of_what_runs_own_tests_is_a_new_grader(
    house: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, installed = version(house), importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0" if name == package else installed(name))
    assert version(house) != before

"""Hostile submissions: wrong code stays wrong whatever it tries, its neighbour stays right, and nothing leaks or stays.

The submissions stand in tests/hostile/; tests/hostile_notebooks.py makes notebooks of them.
"""

from __future__ import annotations

import ctypes
import json
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_notebooks import FOLDER, MODULE, SECRET, TESTS, Setting, as_notebook, left, notebook, right, wrong

from autograder import implementations, samples
from autograder.catalogue import catalogue
from autograder.earlier import earlier_work
from autograder.grading import Report, grade
from autograder.reading import read
from autograder.rooms import Rooms
from autograder.running import Status
from autograder.sandbox import problem_here
from autograder.work import Limits, Remarks, Work
from course import modules

QUICK = [test.name for test in catalogue(MODULE) if test.kind not in ("golden", "property")]
PATIENT = Limits(test_s=10.0, cell_s=20.0, memory_mb=512)
SHORT = Limits(test_s=0.7, cell_s=3.0, memory_mb=512)
"""For what never ends: each test that meets it takes all of its time."""

isolated = pytest.mark.skipif(bool(problem_here()), reason="without bubblewrap nothing is kept from a room")
ISOLATED_ONLY = {"kill_everybody", "fork_bomb", "disk_flood"}
"""What would do harm to this machine where rooms are plain processes."""


# ---------------------------------------------------------------- grading, and what must be as before


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    """A class's folder: other students' work, a gradebook, and nothing of this machine."""
    for student in ("alice", "mallory"):
        (tmp_path / "submitted" / student / MODULE.id).mkdir(parents=True)
    (tmp_path / "submitted" / "alice" / MODULE.id / "radix_cache.ipynb").write_text(as_notebook(right()))
    (tmp_path / "gradebook.db").write_text("alice 100")
    return Setting(tmp_path, f"left-{secrets.token_hex(4)}")


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After a test no process, thread, open file or temporary file of its grading is left, nor a change of ours."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: who loses its parent comes to us
    temporary = tmp_path_factory.mktemp("temporary")
    temporary.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("GRADERS_SECRET", SECRET)
    before = left()
    yield
    assert left() == before
    assert not list(temporary.iterdir())


def handed_in(name: str, setting: Setting, limits: Limits = PATIENT) -> Report:
    """Grade one hostile source as a student's notebook."""
    path = setting.folder / "submitted" / "mallory" / MODULE.id / "radix_cache.ipynb"
    path.write_text(notebook(name, setting), encoding="utf-8")
    return grade(path, MODULE, limits)


def the_neighbour_is_right(setting: Setting) -> None:
    """Right work that is graded next, in the same process, is right as ever."""
    path = setting.folder / "submitted" / "alice" / MODULE.id / "radix_cache.ipynb"
    verdicts = list(Rooms().verdicts(Work(read(path, MODULE)), QUICK, Remarks()))
    assert [verdict.test for verdict in verdicts if verdict.passed] == QUICK, verdicts


def ends(report: Report) -> dict[str, Status]:
    return {verdict.test: verdict.status for verdict in report.verdicts}


def told(report: Report) -> str:
    return "\n".join([report.own.reason, *report.remarks, *(verdict.message for verdict in report.verdicts)])


def stays_wrong(report: Report, *expected: Status) -> None:
    """No named test passes, each ends in an expected way, and the own tests are worth nothing."""
    assert list(ends(report)) == TESTS
    assert set(ends(report).values()) <= set(expected), report.verdicts
    assert not report.passed and not report.own.passed and not report.own.caught
    assert not re.search(r"\d: LEAKED", told(report)), told(report)


# ---------------------------------------------------------------- the measure: no trick at all


def plain(tmp_path: Path, source: str) -> Report:
    path = tmp_path / "plain.ipynb"
    path.write_text(as_notebook(source), encoding="utf-8")
    return grade(path, MODULE, PATIENT)


EVICTING = {
    "insert_takes_exactly_the_full_blocks",
    "a_locked_prefix_survives_eviction",
    "eviction_frees_the_least_recently_used_first",
    "golden_reference_trace",
    "blocks_are_conserved_and_locked_prefixes_stay",
}
"""The named tests that call `evict`, where most tricks in right code stand: the others must pass."""


def test_without_a_trick_wrong_is_wrong_and_only_tests_that_evict_see_a_bad_evict(tmp_path: Path) -> None:
    stays_wrong(plain(tmp_path, wrong()), Status.FAILED)
    spoilt = "\n\nclass RadixCache(RadixCache):\n    def evict(self, n_blocks):\n        raise RuntimeError\n"
    report = plain(tmp_path, right() + spoilt)
    assert {test for test, status in ends(report).items() if status is Status.FAILED} == EVICTING


def test_every_source_is_tried() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    names = {path.stem for path in FOLDER.glob("*.py")} - {"wrong"}
    assert names and not [name for name in sorted(names) if f'"{name}"' not in here]


# ---------------------------------------------------------------- wrong code, with a trick

WRONG: dict[str, tuple[Status, ...]] = {
    # os._exit(0) anywhere
    "exit_at_import": (Status.DIED,),
    "exit_in_constructor": (Status.DIED,),
    "exit_in_del": (Status.FAILED, Status.DIED),
    "exit_at_exit": (Status.FAILED, Status.DIED),
    # equal to everything
    "equal_object": (Status.FAILED,),
    "equal_int": (Status.FAILED,),
    "equal_list": (Status.FAILED,),
    "equal_tuple": (Status.FAILED,),
    "equal_dataclass": (Status.FAILED,),
    "equal_in_disguise": (Status.FAILED,),
    "equal_fields": (Status.FAILED,),
    "huge_numbers": (Status.FAILED, Status.TIMED_OUT, Status.DIED),
    # patched
    "patched_pytest": (Status.FAILED,),
    "patched_assert": (Status.FAILED, Status.DIED),
    "patched_json": (Status.FAILED, Status.DIED),
    "patched_builtins": (Status.FAILED, Status.DIED, Status.NOT_DEFINED, Status.TIMED_OUT),
    # results and signs of success
    "exit_codes": (Status.FAILED, Status.DIED),
    "printed_verdicts": (Status.FAILED, Status.DIED),
    # the wire
    "wire_from_cells": (Status.FAILED, Status.DIED, Status.NOT_DEFINED),
    "wire_from_a_thread": (Status.FAILED, Status.DIED),
    "wire_forged_status": (Status.DIED, Status.TIMED_OUT),
    "wire_through_the_server": (Status.FAILED, Status.DIED),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_code_stays_wrong(name: str, setting: Setting) -> None:
    stays_wrong(handed_in(name, setting), *WRONG[name])
    the_neighbour_is_right(setting)


SEARCHES = (
    "search_memory",
    "search_raw_memory",
    "search_frames",
    "search_modules",
    "search_files",
    "search_environment",
    "search_arguments",
    "import_answers",
    "read_others",
)


@isolated
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_finds_nothing(name: str, setting: Setting) -> None:
    report = handed_in(name, setting)
    stays_wrong(report, Status.FAILED)
    found = re.search(r"(?:searched|tried) (\d+): nothing there", told(report))
    assert found and int(found[1]) > 5, told(report)
    the_neighbour_is_right(setting)


@isolated
@pytest.mark.parametrize("name", SEARCHES[:-2])
def test_a_search_would_find_what_is_there(name: str, setting: Setting) -> None:
    planted = json.loads(notebook("search_planted", setting))["cells"]
    book = json.loads(notebook(name, setting))
    path = setting.folder / "radix_cache.ipynb"
    path.write_text(json.dumps({**book, "cells": [*planted, *book["cells"]]}), encoding="utf-8")
    (verdict,) = Rooms().verdicts(Work(read(path, MODULE), PATIENT), TESTS[:1], Remarks())
    assert f": LEAKED {TESTS[0][::-1]!r}" in verdict.message


@isolated
def test_there_is_no_network(setting: Setting) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind("\0" + setting.mark)
        local.listen()
        report = handed_in("network", Setting(setting.folder, setting.mark, server.getsockname()[1]))
        stays_wrong(report, Status.FAILED)
        assert "tried 4: no way out" in told(report)
        for line in (server, local):
            line.settimeout(0)
            with pytest.raises(BlockingIOError):
                line.accept()
    the_neighbour_is_right(setting)


@pytest.mark.parametrize("module", ["radix_cache", "radix_tree"], ids=["the work", "an earlier module"])
def test_a_link_to_other_work_is_not_followed(module: str, setting: Setting) -> None:
    alice, mallory = (setting.folder / "submitted" / name / MODULE.id for name in ("alice", "mallory"))
    source = implementations.reference_source(modules.find(module))
    (alice / "theirs.ipynb").write_text(as_notebook(source), encoding="utf-8")
    (mallory / f"{module}.ipynb").symlink_to(alice / "theirs.ipynb")
    if module == MODULE.name:
        report = grade(mallory / "radix_cache.ipynb", MODULE, PATIENT)
        stays_wrong(report, Status.UNREADABLE)
        assert "is a link to another file" in told(report)
    else:
        assert not earlier_work(mallory / "radix_cache.ipynb", MODULE)
        (mallory / f"{module}.ipynb").unlink()
        shutil.copy(alice / "theirs.ipynb", mallory / f"{module}.ipynb")
        assert set(earlier_work(mallory / "radix_cache.ipynb", MODULE)) == {module}
    the_neighbour_is_right(setting)


@isolated
def test_result_files_reach_nobody(setting: Setting) -> None:
    before = _files(setting.folder)
    stays_wrong(handed_in("result_files", setting), Status.FAILED)
    assert _files(setting.folder) - before <= {setting.folder / "submitted/mallory/L8.4/radix_cache.ipynb"}
    assert not [path for place in ("/tmp", "/dev/shm", "/") for path in Path(place).glob("verdict.json")]
    the_neighbour_is_right(setting)


def _files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


# ---------------------------------------------------------------- planted beside the notebook

PLANTED = {
    "conftest.py": "TOUCH\ndef pytest_pyfunc_call(pyfuncitem): return True\n",
    "pytest.ini": "[pytest]\naddopts = --collect-only -p conftest\n",
    "tox.ini": "[pytest]\npython_functions = nothing\n",
    "setup.cfg": "[tool:pytest]\naddopts = --collect-only\n",
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--collect-only"\n',
    **{
        f"{name}.py": "TOUCH\n"
        for name in ("sitecustomize", "usercustomize", "json", "socket", "random", "pytest", "hypothesis", "course")
    },
    "autograder/__init__.py": "TOUCH\n",
    "autograder/room/__init__.py": "TOUCH\n",
    "autograder/room/server.py": "TOUCH\n",
    "solutions/__init__.py": "TOUCH\n",
    "planted.pth": "import sys; TOUCH\n",
}


@pytest.mark.parametrize("how", ["in this process", "from the command"])
def test_what_lies_beside_the_notebook_is_not_run(how: str, setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = setting.folder / "submitted" / "mallory" / MODULE.id
    touched = setting.folder / "touched"
    for name, text in PLANTED.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("TOUCH", f"open({str(touched)!r}, 'a').write({name!r})"))
    monkeypatch.chdir(folder)
    if how == "in this process":
        stays_wrong(handed_in("planted_files", setting), Status.FAILED)
        the_neighbour_is_right(setting)
    else:
        (folder / "radix_cache.ipynb").write_text(notebook("planted_files", setting), encoding="utf-8")
        ran = _ol("check", MODULE.id, "radix_cache.ipynb", "--json")
        assert ran.returncode == 1, ran.stderr
        assert {row["status"] for row in json.loads(ran.stdout)["named_tests"]} == {"failed"}
    assert not touched.exists(), touched.read_text()


def _ol(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as it is installed: a script beside the interpreter, not in this folder."""
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from autograder.cli import main; main()"
    command = [sys.executable, "-P", "-c", code, str(FOLDER.parent.parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


# ---------------------------------------------------------------- right code, with a trick in one method

RIGHT: dict[str, tuple[Status, ...]] = {
    "exit_in_method": (Status.DIED,),
    "kill_everybody": (Status.DIED,),
    "patched_clock": (Status.TIMED_OUT,),
    "fork_bomb": (Status.TIMED_OUT, Status.DIED),
    "memory_flood": (Status.OUT_OF_MEMORY, Status.FAILED),
    "disk_flood": (Status.FAILED,),
    "wire_rubbish": (Status.DIED,),
    "wire_closed": (Status.DIED,),
    "wire_flood": (Status.DIED,),
    "wire_nested": (Status.DIED, Status.FAILED),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[isolated] * (name in ISOLATED_ONLY)) for name in RIGHT])
def test_a_trick_in_one_method_ends_the_tests_that_call_it_and_no_other(name: str, setting: Setting) -> None:
    report = handed_in(name, setting, SHORT if Status.TIMED_OUT in RIGHT[name] else PATIENT)
    assert list(ends(report)) == TESTS
    assert {status for test, status in ends(report).items() if test in EVICTING} <= set(RIGHT[name]), report.verdicts
    assert {test for test, status in ends(report).items() if status is Status.PASSED} == set(TESTS) - EVICTING
    assert not report.passed
    the_neighbour_is_right(setting)


@pytest.mark.parametrize("name", ["wire_early_answer", "wire_two_answers", "fork_that_answers"])
def test_answers_that_nobody_asked_for_end_the_test(name: str, setting: Setting) -> None:
    """A test whose last call gets one answer too many has heard all it wanted to: every other one has died."""
    report = handed_in(name, setting)
    assert {status for test, status in ends(report).items() if test in EVICTING} <= {Status.DIED, Status.PASSED}
    assert {status for test, status in ends(report).items() if test not in EVICTING} == {Status.PASSED}
    died = [verdict for verdict in report.verdicts if verdict.status is Status.DIED]
    assert len(died) >= 2 and "out of turn" in died[0].message
    the_neighbour_is_right(setting)


@isolated
def test_a_flood_of_files_meets_its_limit(setting: Setting) -> None:
    free = shutil.disk_usage(setting.folder).free
    messages = told(handed_in("disk_flood", setting))
    assert re.search(r"\d+ MB, then (No space left on device|File too large|Disk quota exceeded)", messages), messages
    assert shutil.disk_usage(setting.folder).free > free - (1 << 30)


def test_a_flood_of_output_does_right_code_no_harm(setting: Setting) -> None:
    report = handed_in("output_flood", setting)
    assert report.named_passed, report.verdicts
    the_neighbour_is_right(setting)


@isolated
def test_forks_do_not_outlive_the_test(setting: Setting) -> None:
    report = handed_in("fork_that_stays", setting)
    assert {status for test, status in ends(report).items() if test not in EVICTING} == {Status.PASSED}
    assert not [path for path in Path("/proc").glob("[0-9]*/comm") if _first_line(path) == setting.mark]
    the_neighbour_is_right(setting)


def _first_line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


# ---------------------------------------------------------------- and after all of it


def test_right_work_passes_with_its_own_tests_after_all_that_was_tried_here() -> None:
    assert grade(samples.FOLDER / "right.ipynb", MODULE).passed

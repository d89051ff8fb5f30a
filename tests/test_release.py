"""The student edition: what is in it, and that it works by itself, away from here."""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader import utils
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

from autograder import implementations, release, sealed
from autograder.cli import app
from autograder.edition import ROOT
from autograder.planted import planted_bugs
from course.modules import Module, find
from notebooks import build
from tests.edition_at_hand import (
    GRADED,
    NAMES,
    commands_of,
    each_module,
    each_notebook,
    environment,
    files,
    ol,
    released,
    solved,
    write,
)

TAG = sys.implementation.cache_tag


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The student edition, with its zip beside it."""
    return released(tmp_path_factory.getbasetemp())


# ---------------------------------------------------------------- what is in it


def test_the_folder_and_the_zip_hold_the_same(made: Path) -> None:
    inside = files(made)
    assert all((made / name).read_bytes() == data for name, data in inside.items())
    assert list(inside) == sorted(inside)
    for wanted in ("README.md", "Makefile", "course/contract.py", "autograder/tests/test_radix_cache.py", "LICENSE"):
        assert wanted in inside


def test_the_instructors_side_is_not_in_it(made: Path) -> None:
    side = "classroom|class_|samples|release|grade_command|nbgrader|flat/[a-z]|benchmarks/(manager|grading)"
    left_out = re.compile(rf"^(solutions|tests|autograder/({side}))|\.md$|submissions|gradebook")
    assert [name for name in files(made) if left_out.search(name)] == ["README.md", "docs/students.md"]


def test_the_same_course_gives_the_same_zip(made: Path, tmp_path: Path) -> None:
    again = release.release(tmp_path / made.name)
    assert again.zip is not None and filecmp.cmp(again.zip, made.with_name(f"{made.name}.zip"), shallow=False)
    assert (again.n_files, again.pythons) == (len(files(made)), sealed.versions(made / "autograder" / "sealed_code"))


def test_what_is_there_already_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    write(tmp_path / "mine" / "work.ipynb", "{}")
    ran = CliRunner().invoke(app, ["release", str(tmp_path / "mine")])
    assert ran.exit_code == 2 and "is there already: remove it, or name another" in " ".join(ran.stderr.split())
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "work.ipynb"]


def test_no_path_of_this_machine_is_in_it(made: Path) -> None:
    parts = sealed.opened(made / "autograder" / "sealed_code").items()
    for name, data in [*files(made).items(), *parts]:
        assert str(ROOT).encode() not in data, name


@each_notebook
def test_notebooks_carry_nbgraders_checksums(made: Path, name: str) -> None:
    book = nbformat.reads(files(made)[f"notebooks/{name}/{name}.ipynb"].decode(), as_version=4)
    marked = [cell for cell in book.cells if cell.metadata.get("nbgrader")]
    assert [cell.metadata.nbgrader["checksum"] for cell in marked] == [utils.compute_checksum(cell) for cell in marked]
    assert files(made)[f"autograder/assignments/{name}/{name}.ipynb"] == files(made)[f"notebooks/{name}/{name}.ipynb"]


@pytest.mark.slow
@each_notebook
def test_notebooks_are_those_that_nbgrader_makes(made: Path, name: str, tmp_path: Path) -> None:
    course = tmp_path / "course"
    leave = shutil.ignore_patterns(".git", ".venv", ".*cache*", "__pycache__", "tests", "fixtures", "release")
    shutil.copytree(ROOT, course, ignore=leave)
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", name]
    ran = subprocess.run(command, cwd=course, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    theirs = nbformat.read(course / "release" / name / f"{name}.ipynb", as_version=4)
    ours = nbformat.reads(files(made)[f"notebooks/{name}/{name}.ipynb"].decode(), as_version=4)
    assert theirs.cells == ours.cells


def test_requirements_are_pins_of_the_courses_own_lock(made: Path) -> None:
    inside = files(made)
    lock = inside["requirements.lock"].decode().splitlines()[1:]
    assert set(lock) < set((ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines())
    direct = tomllib.loads(inside["pyproject.toml"].decode())["project"]["dependencies"]
    spelled = {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in lock}
    assert "torch==2.13.0" in direct and "dask" not in spelled
    assert [line for line in direct if spelled.get(line.partition("==")[0]) != line.partition("==")[2]] == []


def test_the_readme_names_every_notebook_and_no_place_is_left_to_fill_in(made: Path) -> None:
    inside = files(made)
    texts = [inside[name].decode() for name in ("README.md", "Makefile", "pyproject.toml")]
    assert not re.search(r"@[A-Z]+@", "".join(texts))
    assert all(f"`notebooks/{name}`" in texts[0] for name in NAMES)
    assert commands_of(texts[0]) == ["make setup", "make lab"]
    assert all(re.search(rf"^{command.split()[1]}:", texts[1], re.MULTILINE) for command in commands_of(texts[0]))


# ---------------------------------------------------------------- it works by itself

IMPORT_ALL = """
import importlib, json, sys
for name in json.load(sys.stdin):
    importlib.import_module(name)
print("\\n".join(str(module.__file__) for module in list(sys.modules.values()) if getattr(module, "__file__", "")))
"""


def test_nothing_it_imports_comes_from_the_repository(made: Path) -> None:
    python_files = [name for name in files(made) if name.endswith(".py")]
    names = [name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in python_files]
    command = [sys.executable, "-c", IMPORT_ALL]
    ran = subprocess.run(
        command, cwd=made, env=environment(made), capture_output=True, text=True, input=json.dumps(names)
    )
    assert ran.returncode == 0, ran.stderr
    loaded = [Path(line) for line in ran.stdout.splitlines()]
    assert len([path for path in loaded if path.is_relative_to(made)]) >= len(names)
    ours = [ROOT / folder for folder in ("autograder", "course", "solutions", "notebooks", "tests", "fixtures")]
    assert [path for path in loaded if any(path.is_relative_to(folder) for folder in ours)] == []


def test_a_check_on_the_stub_says_what_is_to_be_written(made: Path) -> None:
    ran = ol(made, "check", "L8.4", "notebooks/radix_cache/radix_cache.ipynb")
    assert ran.returncode == 1, ran.stderr
    assert "0 of 8 passed" in ran.stdout and "Not written yet: step 1: __init__" in ran.stdout
    assert "There are no tests: write functions whose names begin with test_." in ran.stdout
    assert ol(made, "check", "L8.4").stdout.splitlines()[0] == ran.stdout.splitlines()[0]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "radix_cache")) for name in GRADED]
)
def test_a_notebook_with_the_solution_in_it_passes(made: Path, name: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"{name}.ipynb", build.as_text(solved(name)))
    ran = ol(made, "check", find(name).id, path, "--ref-deps", "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = json.loads(ran.stdout)
    assert told["below"] == "" or "flat model" in told["below"]
    assert told["own_tests"]["caught"] == told["own_tests"]["planted"] == len(planted_bugs(find(name)))


@pytest.mark.slow
@each_module
def test_own_tests_meet_every_planted_bug(made: Path, module: Module, tmp_path: Path) -> None:
    path = shutil.copy(ROOT / "solutions" / f"{module.name}.py", tmp_path)
    shutil.copy(ROOT / "solutions" / "tests" / f"test_{module.name}.py", tmp_path)
    ran = ol(made, "check", module.id, str(path), "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = json.loads(ran.stdout)["own_tests"]
    assert told["caught"] == told["planted"] == len(planted_bugs(module))


IN_A_NOTEBOOK = """
import json, sys
from autograder.notebook import begin, check, lend, replay, score_own_tests
space = {"__name__": "__main__", "display": print}
begin("L8.4", space)
cache = lend("RadixCache")(2)
cache.insert([1, 2, 3, 4, 5], [10, 11])
assert cache.cached_tokens == 4
for source in json.load(sys.stdin):
    exec(compile(source, "<cell>", "exec"), space)
check("golden_reference_trace", "hand_example_shared_system_prompt")
print("points", score_own_tests(20))
"""


def test_own_tests_are_scored_and_classes_lent_in_a_notebook(made: Path) -> None:
    cells = [cell["source"] for cell in solved("radix_cache")["cells"] if is_answer(cell)]
    ran = subprocess.run(
        [sys.executable, "-c", IN_A_NOTEBOOK],
        cwd=made,
        env=environment(made),
        capture_output=True,
        text=True,
        input=json.dumps(cells),
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "12 of 12 planted bugs" in ran.stdout and "points 20.0" in ran.stdout


def is_answer(cell: Mapping[str, Any]) -> bool:
    return bool(cell["metadata"].get("nbgrader", {}).get("solution"))


def test_a_failure_is_diagnosed_and_replayed(made: Path, tmp_path: Path) -> None:
    bug = planted_bugs(find("L8.4"))[0]
    text = implementations.reference_source(find("L8.4")).replace(bug.find, bug.put)
    path = write(tmp_path / "radix_cache.py", text)
    report = ol(made, "check", "L8.4", path, "--json")
    assert report.returncode == 1 and bug.title in report.stdout
    write(tmp_path / "report.json", report.stdout)
    failed = [row["test"] for row in json.loads(report.stdout)["named_tests"] if row["status"] != "passed"]
    ran = ol(made, "replay", str(tmp_path / "report.json"), "golden_reference_trace")
    assert "golden_reference_trace" in failed and ran.returncode == 0 and "match_prefix" in ran.stdout


def test_the_other_commands_work(made: Path, tmp_path: Path) -> None:
    assert "A lock pins nothing (required)" in ol(made, "tests", "L8.4").stdout
    looked = ol(made, "doctor")
    assert looked.returncode == 0, looked.stdout
    assert re.search(
        rf"planted bugs +compiled for Python.*{sys.version_info.major}\.{sys.version_info.minor}", looked.stdout
    )
    notebook = tmp_path / "radix_cache" / "radix_cache.ipynb"
    write(notebook, "mine")
    started = ol(made, "start", "L8.4", str(notebook.parent))
    assert started.returncode == 0 and (notebook.parent / "radix_cache.ipynb.bak-1").read_text() == "mine"
    assert notebook.read_bytes() == files(made)["autograder/assignments/radix_cache/radix_cache.ipynb"]
    anew = ol(made, "start", "L8.4", cwd=tmp_path)
    assert "notebooks/radix_cache/radix_cache.ipynb is there already" in "".join(anew.stdout.split("\n"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["grade", "submitted", "--out", "grades"], "ol grade is the instructor's"),
        (["release"], "ol release is the instructor's"),
        (["demo", "grade"], "ol demo grade is the instructor's"),
        (["diff", "L8.4"], "they stay with the instructor"),
        (["check", "L8.4", "--reference"], "they stay with the instructor"),
    ],
)
def test_what_is_the_instructors_says_so(made: Path, words: list[str], said: str) -> None:
    ran = ol(made, *words)
    assert ran.returncode == 2 and said in ran.stderr and "Traceback" not in ran.stderr


def test_on_another_python_it_says_which_one_is_needed(made: Path, tmp_path: Path) -> None:
    edition = Path(shutil.copytree(made, tmp_path / "edition"))
    (edition / "autograder" / "sealed_code" / f"{TAG}.sealed").rename(
        edition / "autograder" / "sealed_code" / "cpython-399.sealed"
    )
    for words in (["check", "L8.4", "--ref-deps"], ["check", "L10.1", str(ROOT / "solutions" / "kv_pool.py")]):
        ran = ol(edition, *words)
        assert ran.returncode == 2 and "Traceback" not in ran.stderr
        assert "works with Python 3.99, and this is Python 3." in ran.stderr
        assert "own tests can't be scored" in ran.stderr and "--ref-deps can't be used" in ran.stderr
        assert "make setup PYTHON=python3.99" in ran.stderr
    looked = ol(edition, "doctor")
    assert looked.returncode == 1 and "compiled for Python 3.99" in looked.stdout


# ---------------------------------------------------------------- installed as its README says


@pytest.mark.slow
def test_it_installs_and_runs_from_its_readme(made: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(made.with_name(f"{made.name}.zip")) as archive:
        archive.extractall(tmp_path)
    edition = tmp_path / made.name
    setup, lab = commands_of((edition / "README.md").read_text(encoding="utf-8"))
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    ran = subprocess.run(setup.split(), cwd=edition, env=plain, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert jupyter_answers(
        edition, [*lab.split(), "LAB=jupyter lab --no-browser --allow-root --ServerApp.port=0"], plain
    )

    command = str(edition / ".venv" / "bin" / "ol")
    stub = subprocess.run([command, "check", "L8.4"], cwd=edition, env=plain, capture_output=True, text=True)
    assert stub.returncode == 1 and "Not written yet: step 1: __init__" in stub.stdout, stub.stderr
    write(edition / "notebooks" / "radix_cache" / "radix_cache.ipynb", build.as_text(solved("radix_cache")))
    right = subprocess.run([command, "check", "L8.4"], cwd=edition, env=plain, capture_output=True, text=True)
    assert right.returncode == 0, right.stdout + right.stderr
    served = subprocess.run(
        [command, "demo", "--model", "byte-tiny"], cwd=edition, env=plain, capture_output=True, text=True
    )
    assert served.returncode == 0, served.stdout + served.stderr


def jupyter_answers(edition: Path, command: list[str], env: Mapping[str, str]) -> bool:
    """Whether JupyterLab comes up, and says where; it is ended again."""
    log = edition / "lab.log"
    with log.open("wb") as out:
        server = subprocess.Popen(command, cwd=edition, env=env, stdout=out, stderr=out, start_new_session=True)
    try:
        for _ in range(240):
            if re.search(rb"http://[\w.]+:\d+/lab", log.read_bytes()):
                return True
            time.sleep(0.5)
        return False
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)

"""The command `ol`: exit codes, what is said where nothing can be done, and what is written."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from autograder import demo, doctor, implementations, report, samples, starting
from autograder.catalogue import catalogue
from autograder.cli import app, exit_code
from autograder.grading import Report
from autograder.planted import planted_bugs
from autograder.running import Status, Verdict
from autograder.scoring import OwnScore
from course import modules
from course.modules import MODULES, Module

L84 = modules.find("L8.4")
ids = [module.id for module in MODULES]


def ol(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


# ---------------------------------------------------------------- help and mistakes


def test_help_names_every_command_and_module() -> None:
    told = ol("--help").output
    for word in ("start", "tests", "check", "bench", "doctor", "demo", *ids):
        assert word in told


@pytest.mark.parametrize("command", ["start", "tests", "check"])
def test_an_unknown_module_lists_those_there_are(command: str) -> None:
    ran = ol(command, "L9.9")
    assert ran.exit_code == 2 and "there is no module L9.9" in ran.stderr
    assert all(module.id in ran.stderr for module in MODULES)


@pytest.mark.parametrize("wanted", ["l8.4", "radix_cache", "Radix_Cache"])
def test_a_module_goes_by_its_id_or_its_name_in_any_case(wanted: str) -> None:
    assert json.loads(ol("tests", wanted, "--json").stdout)["module"] == "L8.4"


def test_what_is_not_there_is_said_and_leaves_with_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "nothing.py is not there" in ol("check", "L8.4", "nothing.py").stderr
    assert ". is a folder" in ol("check", "L8.4", ".").stderr
    monkeypatch.setattr(implementations, "SOLUTIONS", tmp_path / "nowhere")
    bare = ol("check", "L8.4")
    assert bare.exit_code == 2 and "begin: ol start L8.4" in bare.stderr
    assert "stay with the instructor" in ol("check", "L8.4", "--reference").stderr


# ---------------------------------------------------------------- tests


@pytest.mark.parametrize("module", MODULES, ids=ids)
def test_the_catalogue_shows_every_test_and_every_bug_and_no_edit(module: Module) -> None:
    listed = json.loads(ol("tests", module.id, "--json").stdout)
    assert [row["name"] for row in listed["tests"]] == [test.name for test in catalogue(module)]
    shown = ol("tests", module.id).stdout
    for test in catalogue(module):
        assert test.name in shown and test.kind in shown
    for bug in planted_bugs(module):
        assert bug.title in shown
    assert [set(row) for row in listed["planted_bugs"]] == [{"title", "required"}] * len(planted_bugs(module))


def test_a_narrow_terminal_gets_a_list() -> None:
    narrow = Console(width=60, force_terminal=True, record=True, file=io.StringIO())
    narrow.print(report.catalogue_view(L84, catalogue(L84), planted_bugs(L84), narrow.width))
    lines = narrow.export_text().splitlines()
    assert max(map(len, lines)) <= 60 and any(line.startswith("blocks_are_conserved_and") for line in lines)


# ---------------------------------------------------------------- check


def test_check_of_the_reference_passes_with_0_and_says_what_it_ran_on() -> None:
    ran = ol("check", "L8.4", "--reference")
    assert ran.exit_code == 0, ran.output
    assert "8 of 8 passed" in ran.stdout and "12 of 12 planted bugs caught" in ran.stdout
    assert "solated" in ran.stdout and "On the reference radix_tree.py." in ran.stdout and "\x1b" not in ran.stdout


def test_check_of_a_pitfall_leaves_with_1_and_says_which_rule_broke() -> None:
    path = samples.FOLDER / "matched_whole.ipynb"
    ran = ol("check", "L8.4", str(path))
    assert ran.exit_code == 1
    assert "A match never covers the last prompt token" in ran.stdout and "is not passed" in ran.stdout


def test_check_as_json_is_json_and_nothing_else() -> None:
    ran = ol("check", "L8.4", str(samples.FOLDER / "matched_whole.ipynb"), "--ref-deps", "--json")
    told = json.loads(ran.stdout)
    assert ran.exit_code == 1 and told["passed"] is False and told["below"] == "the flat model of radix_tree"
    statuses = {row["test"]: row["status"] for row in told["named_tests"]}
    assert statuses["the_last_prompt_token_is_never_covered"] == "failed"
    assert statuses["insert_takes_exactly_the_full_blocks"] == "passed"
    assert told["own_tests"]["caught"] == told["own_tests"]["planted"] == 12


def test_without_a_path_the_work_in_this_folder_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("radix_cache.py").write_text("x = 1", encoding="utf-8")
    ran = ol("check", "L8.4")
    assert ran.exit_code == 1 and "RadixCache is not defined" in ran.stdout


def test_where_own_tests_cant_be_graded_the_verdict_is_open() -> None:
    passed = (Verdict("a", Status.PASSED),)
    ungraded = OwnScore(True, "The planted bugs are not in this edition.", graded=False)
    assert exit_code(Report(L84, "work.py", passed, ungraded, "", "")) == 2
    failed = (Verdict("a", Status.FAILED),)
    assert exit_code(Report(L84, "work.py", failed, ungraded, "", "")) == 1


# ---------------------------------------------------------------- start


@pytest.mark.parametrize("module", MODULES, ids=ids)
def test_start_writes_what_check_can_grade_and_no_test_passes(
    module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ol("start", module.id).exit_code == 0
    told = json.loads(ol("check", module.id, "--json").stdout)
    assert {row["status"] for row in told["named_tests"]} == {"failed"}
    assert not told["own_tests"]["valid"] and "no tests" in told["own_tests"]["reason"]


@pytest.mark.parametrize("module", MODULES, ids=ids)
def test_stubs_have_every_name_of_the_contract_and_are_clean(module: Module, tmp_path: Path) -> None:
    path = tmp_path / f"{module.name}.py"
    path.write_text(starting.stubs(module), encoding="utf-8")
    space: dict[str, object] = {}
    with modules.bound(implementations.flat_below(module)):
        exec(compile(path.read_text(encoding="utf-8"), path.name, "exec"), space)
    for name, flat in implementations.flat(module).names.items():
        if name in module.exports:
            wanted = {member for member in dir(flat) if not member.startswith("_")}
            promised = {member for member in dir(space[name]) if not member.startswith("_")}
            assert promised <= wanted if isinstance(flat, type) else callable(space[name])
            assert (space[name].__doc__ or "").strip()
    linted = subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--isolated",
            "--select",
            "E,F,I",
            "--ignore",
            "F401",
            "--line-length",
            "120",
            str(path),
        ],
        capture_output=True,
        text=True,
    )
    assert linted.returncode == 0, linted.stdout


def test_start_never_writes_over_work(tmp_path: Path) -> None:
    path = tmp_path / "radix_tree.py"
    for text in ("first", "second"):
        path.write_text(text, encoding="utf-8")
        ran = ol("start", "ds.07", str(path))
        assert "is now in radix_tree.py.bak-" in ran.stdout
    assert (tmp_path / "radix_tree.py.bak-1").read_text(encoding="utf-8") == "first"
    assert (tmp_path / "radix_tree.py.bak-2").read_text(encoding="utf-8") == "second"
    assert "stays as it is" in ol("start", "ds.07", str(path)).stdout
    assert len(list(tmp_path.glob("*.bak-*"))) == 2


def test_start_keeps_a_file_of_tests_that_is_there(tmp_path: Path) -> None:
    tests = tmp_path / "test_radix_tree.py"
    tests.write_text("mine", encoding="utf-8")
    ol("start", "ds.07", str(tmp_path / "radix_tree.py"))
    assert tests.read_text(encoding="utf-8") == "mine" and (tmp_path / "radix_tree.py").exists()


def test_start_writes_the_students_edition_of_the_notebook(tmp_path: Path) -> None:
    ol("start", "L8.4", str(tmp_path / "mine.ipynb"))
    text = (tmp_path / "mine.ipynb").read_text(encoding="utf-8")
    assert "NotImplementedError" in text and "BEGIN SOLUTION" not in text


def test_start_says_where_it_cant_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    ran = ol("start", "ds.07", str(tmp_path / "file" / "deeper"))
    assert ran.exit_code == 2 and "can't write" in ran.stderr


# ---------------------------------------------------------------- doctor and demo


def test_doctor_says_what_is_missing_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor, "requirements", lambda: iter([("rich", "0.1"), ("no-such-package", "1")]))
    packages, sandbox, browser = doctor.packages(), doctor.sandbox(), doctor.browser()
    assert packages.state is doctor.State.BAD and "pip install -r requirements.lock" in packages.advice
    assert f"rich 0.1 (here: {metadata.version('rich')})" in packages.detail
    assert "no-such-package 1 (here: none)" in packages.detail
    assert sandbox.state is browser.state is doctor.State.OPTIONAL and "not isolated" in sandbox.advice


def test_doctor_tries_the_references() -> None:
    finding = doctor.reference(L84)
    assert finding.state is doctor.State.GOOD and finding.detail.startswith("8 of 8 named tests pass")


def test_doctor_does_without_references_in_a_students_edition(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(implementations, "SOLUTIONS", tmp_path)
    assert doctor.reference(L84).state is doctor.State.OPTIONAL


def test_the_pins_that_doctor_reads_are_the_projects() -> None:
    assert dict(doctor.requirements())["pytest"] == metadata.version("pytest")


def test_a_demo_that_surprises_is_no_success() -> None:
    right, wrong, _ = samples.samples()
    own = OwnScore(True, caught=("s01",))
    passed = Report(L84, "x", (Verdict("a", Status.PASSED),), own, "", "")
    failed = Report(L84, "x", (Verdict("a", Status.DIED),), own, "", "")
    assert demo.surprise(right, passed) == "" and "should not pass" in demo.surprise(wrong, passed)
    assert "should pass" in demo.surprise(right, failed) and "that failed" in demo.surprise(wrong, failed)


def test_in_a_students_edition_the_demo_leaves_own_tests_open() -> None:
    right = samples.samples()[0]
    ungraded = OwnScore(True, "The planted bugs are not in this edition.", graded=False)
    held = Report(L84, "x", (Verdict("a", Status.PASSED),), ungraded, "", "")
    assert demo.surprise(right, held) == ""
    lost = Report(L84, "x", (Verdict("a", Status.FAILED),), ungraded, "", "")
    assert str(report.verdict_line(lost)) == "L8.4 is not passed: 1 named test of 1 did not pass."

"""`ol grade`: exit codes, what is written and what is said, and how it is stopped."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from autograder import grade_command
from autograder.classroom import grading_run, store
from autograder.classroom.grading_run import ClusterLost, Progress
from autograder.cli import app
from autograder.grade_command import about, in_words
from tests import class_at_hand as at_hand
from tests.class_at_hand import POOL, hand_in, right

ROOT = Path(__file__).parent.parent


def ol(*words: object) -> Result:
    return CliRunner().invoke(app, ["grade", *map(str, words)])


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Right, wrong, and not there; graded in this process."""
    folder = tmp_path / "submitted"
    hand_in(folder, "ann", POOL, right(POOL))
    hand_in(folder, "bo", POOL, "class KvPool: pass")
    (folder / "cy").mkdir()
    monkeypatch.setattr("autograder.classroom.executors.local", lambda n: _Here())
    monkeypatch.chdir(tmp_path)
    return folder


class _Here:
    def __enter__(self) -> object:
        return at_hand.here()

    def __exit__(self, *_: object) -> None:
        pass


def test_a_class_is_graded_and_its_tables_and_pages_are_written(three: Path) -> None:
    ran = ol(three, "--module", "kv_pool")
    assert ran.exit_code == 0, ran.output
    assert "submitted: 3 students, 2 graded, 1 not submitted." in ran.stdout
    out = Path("grades")
    rows = list(csv.DictReader((out / "grades.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["student"] for row in rows] == ["ann", "bo", "cy"]
    assert [float(row["total"]) for row in rows] == [80.0, 0.0, 0.0]
    assert (out / "class.html").exists() and len(list((out / "students").glob("*.html"))) == 3


def test_json_is_what_the_table_holds_and_nothing_else_is_printed(three: Path) -> None:
    ran = ol(three, "--module", "L10.1", "--json", "--no-pages", "--out", "elsewhere")
    assert ran.exit_code == 0
    assert json.loads(ran.stdout) == json.loads(Path("elsewhere/grades.json").read_text(encoding="utf-8"))
    assert not Path("elsewhere/class.html").exists()


def test_who_cant_be_read_is_named_and_makes_it_1(three: Path) -> None:
    hand_in(three, "di [bold]", POOL, b"\xff")
    ran = ol(three, "--module", "L10.1", "--no-pages")
    assert ran.exit_code == 1
    assert "  di [bold], L10.1 can't be read: kv_pool.py, line 1: byte 0xff is not UTF-8." in ran.stdout


def test_compare_says_who_changes(three: Path) -> None:
    assert ol(three, "--module", "L10.1", "--no-pages", "--out", "old").exit_code == 0
    hand_in(three, "bo", POOL, right(POOL))
    ran = ol(three, "--module", "L10.1", "--no-pages", "--compare", "old")
    assert ran.exit_code == 0 and "bo" in ran.stdout
    changes = json.loads(ol(three, "--module", "L10.1", "--no-pages", "--compare", "old", "--json").stdout)["changes"]
    assert "bo" in json.dumps(changes) and "ann" not in json.dumps(changes)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["nowhere"], "nowhere"),
        (["empty"], "empty"),
        (["submitted", "--compare", "empty"], "empty"),
        (["submitted", "--module", "L9"], "there is no module L9"),
        (["submitted", "--scheduler", "tcp://127.0.0.1:9"], "no Dask scheduler"),
        (["submitted", "--out", "file"], "file"),
    ],
)
def test_where_nothing_can_be_done_it_is_said_and_the_exit_code_is_2(
    three: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], reason: str
) -> None:
    monkeypatch.setattr("autograder.classroom.executors.PATIENCE_S", 0.5)
    Path("empty").mkdir()
    Path("file").write_text("")
    ran = ol(*words)
    assert ran.exit_code == 2 and ran.stderr.startswith("ol: ") and reason in ran.stderr, ran.output
    assert not Path("grades", "grades.csv").exists()


def test_two_runs_on_one_folder_are_refused(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PATIENCE_S", 0.1)
    with store.Store(Path("grades")):
        ran = ol(three)
    assert ran.exit_code == 2 and "Another run is working on grades" in ran.stderr


def test_no_sandbox_where_one_is_required_grades_nobody(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.sandbox.problem_here", lambda: "bubblewrap is not installed")
    ran = ol(three, "--sandbox", "require")
    assert ran.exit_code == 2 and ran.stderr == "ol: bubblewrap is not installed. Nothing was graded.\n"


@pytest.mark.parametrize(("error", "code"), [(ClusterLost("the scheduler is gone"), 1), (KeyboardInterrupt(), 130)])
def test_a_run_that_is_cut_short_says_how_to_go_on(
    three: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def stop(*_: object) -> None:
        raise error

    monkeypatch.setattr(grading_run, "grade_class", stop)
    ran = ol(three)
    assert ran.exit_code == code
    assert "kept in grades/verdicts.jsonl: the same command goes on from there." in ran.stderr


def test_ctrl_c_keeps_what_is_known_and_leaves_nothing_running(tmp_path: Path) -> None:
    folder = at_hand.class_of(19, tmp_path / "submitted")
    (tmp_path / "tmp").mkdir()
    words = ["grade", str(folder), "--out", str(tmp_path / "out"), "--module", "L10.1", "--workers", "2"]
    command = subprocess.Popen(
        [sys.executable, "-m", "autograder.cli", *words],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    verdicts = tmp_path / "out" / store.VERDICTS
    while not verdicts.exists() or verdicts.read_bytes().count(b"\n") < 3:
        assert command.poll() is None, "it ended before it could be interrupted"
        time.sleep(0.02)
    family = at_hand.descendants(command.pid)
    os.killpg(command.pid, signal.SIGINT)  # as a terminal does: to the command and to its workers
    told = command.communicate(timeout=30)[1]
    assert command.returncode == 130 and "the same command goes on from there" in told and "Traceback" not in told
    assert at_hand.until(lambda: not at_hand.alive(family), 10.0)
    assert not any((tmp_path / "tmp").iterdir())
    assert len(store.read(tmp_path / "out")[0]) >= 3


# ---------------------------------------------------------------- progress


def test_progress_in_words() -> None:
    assert in_words(Progress(0, 40, 0, 160, 0, 0.1)) == "students 0 of 40 · modules 0 of 160"
    assert in_words(Progress(3, 40, 16, 160, 16, 32.0)).endswith("modules 16 of 160 · about 5 min left")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "about 1 s"), (61, "about 61 s"), (600, "about 10 min"), (9000, "about 2.5 h")]
)
def test_time_left_is_as_exact_as_it_can_be(seconds: float, words: str) -> None:
    assert about(seconds) == words


def test_without_a_terminal_a_line_comes_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(grade_command, "EVERY_S", 0.0)
    with grade_command._progress() as tell:
        tell(Progress(1, 2, 3, 8, 0, 1.0))
    assert capsys.readouterr().err == "students 1 of 2 · modules 3 of 8\n"
    monkeypatch.setattr(grade_command, "EVERY_S", 60.0)
    with grade_command._progress() as tell:
        tell(Progress(1, 2, 3, 8, 0, 1.0))
    assert capsys.readouterr().err == ""

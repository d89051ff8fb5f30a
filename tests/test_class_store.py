"""The verdicts on disk: nothing that was kept is lost, whatever a killed run left, and one run at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from autograder.classroom import atomic, store
from autograder.classroom.rows import Result, State, as_data, total
from autograder.classroom.store import VERDICTS, Damaged, InUse, Store

ODD_IDS = ["two\nlines", "🦊 fox", os.fsdecode(b"caf\xe9"), '"quoted"', "<b>&", "=1+1", "../..", "\u2028\u2029\x85\x0c"]


def result(student: str = "alice", score: float = 1.0, module: str = "L8.4") -> Result:
    return Result(
        student, module, f"{student}/radix_cache.ipynb", State.GRADED, notes=("A note.",), points={"a": score},
        worth={"a": 2.0}, hidden=("a",), report={"named_tests": [{"test": "a", "story": None}]}, key="k:1", attempts=2,
    )  # fmt: skip


def kept(folder: Path, *results: Result) -> Path:
    with Store(folder) as opened:
        for each in results:
            opened.keep(each)
    return folder / VERDICTS


def students(folder: Path) -> list[str]:
    with Store(folder) as opened:
        return [student for student, _ in opened.known]


# ---------------------------------------------------------------- keeping


@pytest.mark.parametrize("student", ODD_IDS)
def test_what_was_kept_comes_back_the_same(tmp_path: Path, student: str) -> None:
    path = kept(tmp_path / "new" / "folder", result(student))
    with Store(path.parent) as opened:
        assert opened.known == {(student, "L8.4"): result(student)}
        assert opened.problems == ()
    assert path.read_bytes().count(b"\n") == 1 and path.read_bytes().isascii()


def test_the_latest_of_a_student_and_module_counts_and_the_earlier_stays(tmp_path: Path) -> None:
    path = kept(tmp_path, result(score=1.0), result(module="L10.4"), result(score=0.0))
    with Store(tmp_path) as opened:
        assert opened.known == {("alice", "L8.4"): result(score=0.0), ("alice", "L10.4"): result(module="L10.4")}
    assert [json.loads(line)["points"]["a"] for line in path.read_bytes().splitlines()] == [1.0, 1.0, 0.0]


def test_a_result_is_known_as_soon_as_it_is_kept(tmp_path: Path) -> None:
    with Store(tmp_path) as opened:
        opened.keep(result())
        assert opened.known == {("alice", "L8.4"): result()}
        assert store.read(tmp_path) == (opened.known, ())


def test_each_line_is_one_write_and_then_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    really_write, really_flush = os.write, os.fsync

    def write(file: int, data: bytes) -> int:
        done.append("write")
        return really_write(file, data)

    def flush(file: int) -> None:
        done.append("flush")
        really_flush(file)

    with Store(tmp_path) as opened:
        monkeypatch.setattr(os, "write", write)
        monkeypatch.setattr(os, "fsync", flush)
        opened.keep(result())
        assert done == ["write", "flush"]
        monkeypatch.undo()


def test_a_full_disk_is_an_error_and_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with Store(tmp_path) as opened:
        opened.keep(result("alice"))
        monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:20]))
        with pytest.raises(OSError, match="No space left"):
            opened.keep(result("bob"))
        monkeypatch.undo()
        assert ("bob", "L8.4") not in opened.known
        opened.keep(result("carol"))
    assert students(tmp_path) == ["alice", "carol"]


# ---------------------------------------------------------------- what a killed run left


def test_a_torn_last_line_is_cut_off_wherever_it_was_torn(tmp_path: Path) -> None:
    path = kept(tmp_path, result("alice"), result("bob"))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for torn in range(first, len(whole)):
        path.write_bytes(whole[:torn])
        with Store(tmp_path) as opened:
            assert (list(opened.known), opened.problems) == ([("alice", "L8.4")], ())
            opened.keep(result("carol"))
        assert students(tmp_path) == ["alice", "carol"]


def test_a_tail_of_zero_bytes_is_a_torn_line(tmp_path: Path) -> None:
    path = kept(tmp_path, result("alice"))
    path.write_bytes(path.read_bytes() + bytes(512))
    kept(tmp_path, result("bob"))
    assert students(tmp_path) == ["alice", "bob"]


@pytest.mark.parametrize(
    "line",
    [b"rubbish", b"\xff\xfe", b"", b"[]", b"3", b"{}", b'{"student": "x"}', b"[" * 100_000, b'{"state": "lost"}'],
)
def test_a_line_that_is_no_verdict_is_said_and_costs_no_other(tmp_path: Path, line: bytes) -> None:
    path = kept(tmp_path, result("alice"), result("bob"))
    first, second, _ = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([first, line, second, b""]))
    with Store(tmp_path) as opened:
        assert [student for student, _ in opened.known] == ["alice", "bob"]
        assert opened.problems == ("verdicts.jsonl, line 2: this is no verdict; what it was about is graded again.",)
    assert line in path.read_bytes(), "nothing that stands in the file is taken out of it"


def test_a_state_that_there_is_not_is_no_verdict(tmp_path: Path) -> None:
    path = kept(tmp_path, result("alice"))
    path.write_text(json.dumps(as_data(result("bob")) | {"state": "lost"}) + "\n", encoding="utf-8")
    with Store(tmp_path) as opened:
        assert len(opened.problems) == 1


KILLED = """
import sys
from pathlib import Path
from autograder.classroom.rows import Result, State
from autograder.classroom.store import Store
with Store(Path(sys.argv[1])) as opened:
    for n in range(1_000_000):
        opened.keep(Result(f"student {n}", "L8.4", "", State.GRADED, report={"filler": "x" * 20_000}))
        print(n, flush=True)
"""


def test_nothing_that_was_kept_is_lost_by_a_kill(tmp_path: Path) -> None:
    run = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    told = [int(run.stdout.readline()) for _ in range(20)]
    run.send_signal(signal.SIGKILL)
    told += [int(line) for line in run.stdout.read().split("\n")[:-1]]
    run.wait()
    found = students(tmp_path)
    assert found == [f"student {n}" for n in range(len(found))]
    assert told[-1] < len(found)


# ---------------------------------------------------------------- one run at a time


def test_a_second_run_on_the_same_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PATIENCE_S", 0.0)
    with Store(tmp_path) as first:
        first.keep(result("alice"))
        with pytest.raises(InUse, match="Another run is working on"):
            Store(tmp_path)
        with Store(tmp_path / "other"):
            pass
        first.keep(result("bob"))
    assert students(tmp_path) == ["alice", "bob"]


def test_a_run_that_is_about_to_end_is_waited_for(tmp_path: Path) -> None:
    first = Store(tmp_path)
    threading.Timer(0.2, first.close).start()
    assert students(tmp_path) == []


def test_a_forked_worker_does_not_hold_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PATIENCE_S", 0.0)
    reading, writing = os.pipe()
    opened = Store(tmp_path)
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    opened.close()
    try:
        assert students(tmp_path) == []
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def test_a_store_can_be_closed_twice(tmp_path: Path) -> None:
    opened = Store(tmp_path)
    opened.close()
    opened.close()
    assert students(tmp_path) == []


# ---------------------------------------------------------------- files that can't be used


def test_a_folder_that_cannot_hold_verdicts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a" / VERDICTS).mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / VERDICTS).symlink_to("/etc/hostname")
    (tmp_path / "c").mkdir()
    os.mkfifo(tmp_path / "c" / VERDICTS)
    (tmp_path / "d").write_text("a file", encoding="utf-8")
    for name in "abcd":
        with pytest.raises(Damaged, match=VERDICTS):
            Store(tmp_path / name)
    with pytest.raises(Damaged, match="No such file"):
        store.read(tmp_path)


# ---------------------------------------------------------------- files written whole


def test_a_file_is_put_in_its_place_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grades.csv"
    atomic.write(path, "old")
    seen: list[tuple[str, str]] = []
    replace = Path.replace

    def watched(half: Path, target: Path) -> Path:
        seen.append((path.read_text(encoding="utf-8"), half.read_text(encoding="utf-8")))
        return replace(half, target)

    monkeypatch.setattr(Path, "replace", watched)
    atomic.write(path, "new caf\udce9")
    assert seen == [("old", r"new caf\udce9")]
    assert [each.name for each in tmp_path.iterdir()] == ["grades.csv"]


def test_a_file_that_cannot_be_put_in_its_place_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "grades.csv" / "full").mkdir(parents=True)
    with pytest.raises(OSError):
        atomic.write(tmp_path / "grades.csv", "text")
    assert [each.name for each in tmp_path.iterdir()] == ["grades.csv"]


def test_what_a_killed_run_left_half_written_goes_with_the_next(tmp_path: Path) -> None:
    (tmp_path / "students").mkdir()
    halves = [tmp_path / f".1{atomic.HALF}", tmp_path / "students" / f".2{atomic.HALF}"]
    others = [tmp_path / "grades.csv", tmp_path / ".hidden", tmp_path / f"mine{atomic.HALF}"]
    for path in halves + others:
        path.touch()
    kept(tmp_path)
    assert [path.exists() for path in halves + others] == [False] * 2 + [True] * 3


def test_points_add_up_and_nothing_stays_nothing() -> None:
    assert total([10 / 3] * 3) == 10.0
    assert str(total([])) == "0.0" and str(total([-0.0])) == "0.0"

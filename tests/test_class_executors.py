"""Workers: one that dies takes no other's task, and all end with whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.classroom.executors import NoCluster, Processes, WorkerDied, local, on_cluster
from autograder.sandbox import Sandbox
from tests import class_at_hand as at_hand
from tests.class_at_hand import alive, descendants, until
from tests.rooms_at_hand import BOTH

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    with local(2) as crew:
        assert crew.width() == 2 and isinstance(crew.executor, Processes)
        yield crew.executor


# ---------------------------------------------------------------- this machine


def test_calls_run_elsewhere_and_a_worker_goes_on_with_the_next(two: Processes) -> None:
    ran = [two.submit(at_hand.pid).result(30) for _ in range(6)]
    assert os.getpid() not in ran and len(set(ran)) <= 2
    assert two.submit(sorted, [3, 1, 2], reverse=True).result(30) == [3, 2, 1]


def test_errors_come_back_as_they_are_or_as_what_they_say(two: Processes) -> None:
    with pytest.raises(ZeroDivisionError):
        two.submit(divmod, 1, 0).result(30)
    with pytest.raises(RuntimeError, match="Odd: odd"):
        two.submit(at_hand.raise_odd).result(30)


def test_a_worker_that_dies_takes_only_its_own_task(two: Processes) -> None:
    futures = [two.submit(call) for call in (at_hand.pid, at_hand.die, at_hand.pid, at_hand.leave, at_hand.pid)]
    with pytest.raises(WorkerDied, match="SIGKILL"):
        futures[1].result(30)
    with pytest.raises(WorkerDied, match="ended by itself with exit code 7"):
        futures[3].result(30)
    assert all(future.result(30) for future in futures[::2])


def test_a_call_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.classroom.executors.LONGEST_S", 3.0)
    with local(1) as crew, pytest.raises(WorkerDied, match="no end within"):
        crew.executor.submit(at_hand.touch, str(tmp_path), "began").result(30)


def test_ending_waits_for_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    with local(2) as crew:
        futures = [crew.executor.submit(at_hand.touch, str(tmp_path), str(number)) for number in range(3)]
        begun = [tmp_path / "0", tmp_path / "1"]
        assert until(lambda: all(file.exists() and file.read_text() for file in begun))
        workers = {each for file in begun for each in descendants(int(file.read_text()))}
        assert len(alive(workers)) == 2
    assert not alive(workers) and futures[2].cancelled()
    assert all(isinstance(future.exception(), WorkerDied) for future in futures[:2])
    with pytest.raises(RuntimeError):
        crew.executor.submit(at_hand.pid)


def test_one_at_a_time_is_measured_on_a_machine(two: Processes, tmp_path: Path) -> None:
    first, second, go_on = (str(tmp_path / name) for name in ("first", "second", "go_on"))
    one = two.submit(at_hand.measure, first, go_on)
    assert until(Path(first).exists)
    other = two.submit(at_hand.measure, second, go_on)
    assert not until(Path(second).exists, 1.0)
    Path(go_on).touch()
    assert one.result(30) and other.result(30) and Path(second).exists()


PARENT = """
import sys
from pathlib import Path
from autograder.classroom.executors import local
from autograder.sandbox import Sandbox
from tests import class_at_hand as at_hand

if __name__ == "__main__":
    folder, sandbox = sys.argv[1:]
    with local(2) as crew:
        calls = [crew.executor.submit(at_hand.room_that_never_opens, folder, Sandbox(sandbox), n) for n in "01"]
        calls[0].result()
"""


@pytest.mark.parametrize("sandbox", BOTH)
def test_killing_the_run_ends_workers_and_rooms_that_run_a_submission(tmp_path: Path, sandbox: Sandbox) -> None:
    """A room in an endless cell can't hear that its wire is closed."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT, encoding="utf-8")
    (tmp_path / "tmp").mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")}
    parent = subprocess.Popen([sys.executable, script, tmp_path, sandbox], env=environment)
    try:
        assert until(lambda: _busy(parent.pid) >= 2), "no room came to its cell"
        family = descendants(parent.pid)
        assert len(family) >= 5
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert until(lambda: not alive(family), 10.0), alive(family)
    assert until(lambda: not any((tmp_path / "tmp").iterdir()), 10.0)


def _busy(pid: int) -> int:
    """How many descendants run the room's server and use their processor."""
    return sum(_is_a_busy_room(each) for each, _ in descendants(pid))


def _is_a_busy_room(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
        ticks = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[11])
    except OSError:  # it has just ended
        return False
    return "starter.py" in command and "bwrap" not in command and ticks > 20


# ---------------------------------------------------------------- a cluster


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://x", "no address"])
def test_a_cluster_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr("autograder.classroom.executors.PATIENCE_S", 0.5)
    with pytest.raises(NoCluster, match=f"no Dask scheduler at {address}"), on_cluster(address):
        pass

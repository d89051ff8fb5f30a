"""The sandbox: each limit bites, and what is not there can't be read."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from autograder import bubble, sandbox
from autograder.remote import Bounds, NoSandbox, RoomClient, RoomDied, RoomTimeout, Sandbox
from autograder.running import Status
from tests.rooms_at_hand import BOTH, PLACE, asked, new_tree, room_over, tree_job

isolated = pytest.mark.skipif(bool(sandbox.problem_here()), reason="no bubblewrap here")
own_user = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a room a user of its own")


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("kind", BOTH)
def test_a_loop_ends_at_the_wall_clock_and_its_line_is_named(kind: Sandbox) -> None:
    body = """
        while True:
            try:
                len(tokens)
            except BaseException:
                pass
    """
    with room_over(body, kind, seconds=1.0) as (client, tree):
        with pytest.raises(RoomTimeout) as caught:
            tree.match_prefix([1])
        assert caught.value.where.startswith(f"{PLACE}, line ") and caught.value.seconds == 1.0
        assert client.failure is caught.value
        client.restart()
        assert new_tree(client).evict(2) == ["right", "right"]


@pytest.mark.parametrize("kind", BOTH)
def test_cpu_time_runs_out_before_the_clock_does(kind: Sandbox) -> None:
    body = """
        import threading
        def burn():
            sum(range(10**12))
        threading.Thread(target=burn).start()
        time.sleep(60)
    """
    with room_over(body, kind, Bounds(cpu_s=1), seconds=30.0) as (_, tree):
        with pytest.raises(RoomDied, match="CPU time") as caught:
            tree.match_prefix([1])
        assert caught.value.status is Status.TIMED_OUT


@pytest.mark.parametrize("kind", BOTH)
def test_cpu_time_ends_one_who_ignores_the_signal_too(kind: Sandbox) -> None:
    top = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)"
    room = room_over("while True: pass", kind, Bounds(cpu_s=1), top, seconds=30.0)
    with room as (_, tree), pytest.raises(RoomDied, match="CPU time"):
        tree.match_prefix([1])


@pytest.mark.parametrize("kind", BOTH)
def test_cpu_time_ends_a_loop_in_a_cell_too(kind: Sandbox) -> None:
    client = RoomClient(tree_job("return 1", top="while True: pass"), Bounds(cpu_s=1), kind)
    with client, pytest.raises(RoomDied, match=f", in {PLACE}"):
        client.start()


@pytest.mark.parametrize("kind", BOTH)
def test_memory_runs_out_as_a_memory_error(kind: Sandbox) -> None:
    body = """
        hoard = []
        while True:
            hoard.append(bytearray(10_000_000))
    """
    with room_over(body, kind, Bounds(memory_mb=400)) as (_, tree):
        with pytest.raises(MemoryError) as caught:
            tree.match_prefix([1])
        assert caught.value.at[0] == PLACE  # type: ignore[attr-defined]
        assert tree.evict(1) == ["right"]


BOMB = """
    made = 0
    try:
        while made < 500:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            made += 1
    except OSError:
        pass
    return made
"""


@isolated
def test_a_fork_bomb_ends_at_the_limit_for_each_room() -> None:
    others = 0 if os.geteuid() == 0 else sandbox._running()  # a room without a user of its own is counted with them
    with room_over(BOMB, Sandbox.REQUIRE, Bounds(processes=20)) as (client, tree):
        made = tree.match_prefix([1])
        assert 10 <= made < 20 + others
        client.end()
        assert new_tree(client).match_prefix([1]) >= 10, "those of the first test are gone"


@pytest.mark.parametrize("kind", BOTH)
def test_a_file_ends_at_its_largest_size(kind: Sandbox) -> None:
    body = """
        try:
            with open(os.environ["HOME"] + "/large", "wb") as file:
                for _ in range(8):
                    file.write(bytes(1 << 20))
        except OSError:
            return os.stat(os.environ["HOME"] + "/large").st_size
    """
    assert asked(body, kind, Bounds(file_mb=2)) == 2 << 20


@isolated
def test_all_files_together_end_at_the_size_of_tmp() -> None:
    body = """
        written = 0
        for folder in ("/tmp", "/dev/shm"):
            try:
                for number in range(40):
                    with open(f"{folder}/{number}", "wb") as file:
                        written += file.write(bytes(1 << 20))
            except OSError:
                pass
        return written
    """
    assert (4 << 20) - 1 <= asked(body, Sandbox.REQUIRE, Bounds(tmp_mb=5)) <= 6 << 20


@pytest.mark.parametrize("kind", BOTH)
def test_floods_of_output_reach_nobody(kind: Sandbox, capfd: pytest.CaptureFixture[str]) -> None:
    body = """
        for number in range(300_000):
            print(number)
        os.write(1, b"x" * 10**7)
        os.write(2, b"x" * 10**7)
        print("warning", file=sys.stderr)
        return "right"
    """
    assert asked(body, kind) == "right"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", BOTH)
def test_nothing_can_be_read_from_stdin(kind: Sandbox) -> None:
    with room_over("return input()", kind) as (_, tree), pytest.raises(EOFError):
        tree.match_prefix([1])


# ---------------------------------------------------------------- what is not there

LOOKS = """
    found = []
    for folder, folders, files in os.walk("/"):
        if folder.startswith(("/proc", "/usr", "/lib", "/sys")):
            folders.clear()
            continue
        found += [folder + "/" + file for file in files]
    return found
"""


@isolated
def test_no_test_no_answer_and_no_home_lies_in_the_room() -> None:
    found = asked(LOOKS, Sandbox.REQUIRE)
    assert any(name.endswith("course/contract.py") for name in found)
    ours = [name for name in found if name.startswith("/room/")]
    allowed = ("/room/course/", "/room/autograder/room/", "/room/autograder/__pycache__/")
    beside = {name for name in ours if not name.startswith(allowed)}
    assert beside == {f"/room/autograder/{name}.py" for name in bubble.PLAIN_MODULES}
    root = str(bubble.ROOT)
    assert not [name for name in found if name.startswith((f"{root}/", "/home/", "/var/", "/etc/passwd"))]
    assert not [name for name in found if any(f"site-packages/{ours}/" in name for ours in bubble.OURS)]
    text = "".join(Path(root, name.removeprefix("/room/")).read_text() for name in ours if name.endswith(".py"))
    assert "BUG = " not in text and "import solutions" not in text


@isolated
@pytest.mark.parametrize("name", ["solutions", "autograder.tests", "autograder.flat", "autograder.planted", "tests"])
def test_what_judges_can_not_be_imported(name: str) -> None:
    with room_over(f"import {name}", Sandbox.REQUIRE) as (_, tree), pytest.raises(ModuleNotFoundError):
        tree.match_prefix([1])


@isolated
def test_the_home_of_the_grader_is_out_of_sight() -> None:
    assert asked(f"return os.path.exists({str(Path(__file__))!r})", Sandbox.REQUIRE) is False
    names = asked(f"try:\n    return os.listdir({str(Path.home())!r})\nexcept OSError:\n    return []", Sandbox.REQUIRE)
    assert set(names) <= {".pyenv", ".local", ".conda", "miniconda3", "anaconda3"}, "no more than leads to Python"


@isolated
def test_the_network_can_not_be_reached() -> None:
    body = """
        import socket
        try:
            socket.create_connection(("127.0.0.1", tokens[0]), 1)
        except OSError as error:
            return type(error).__name__
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert asked(body, Sandbox.REQUIRE, tokens=[listening.getsockname()[1]]) in (
            "ConnectionRefusedError",
            "OSError",
        )
        listening.settimeout(0)
        with pytest.raises(BlockingIOError):
            listening.accept()


@pytest.mark.parametrize("kind", BOTH)
def test_the_environment_is_empty(kind: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_GRADER", "hunter2")
    names = asked("return sorted(os.environ)", kind)
    assert set(names) <= {*bubble.ENVIRONMENT, "TMPDIR", "PWD", "LC_CTYPE"}
    assert asked("return sys.argv", kind) == [""]


@isolated
def test_the_room_sees_only_its_own_processes() -> None:
    body = "return sorted(int(name) for name in os.listdir('/proc') if name.isdigit())"
    assert len(asked(body, Sandbox.REQUIRE)) == 2


@isolated
@own_user
def test_the_room_runs_as_a_user_of_its_own_for_good() -> None:
    body = """
        try:
            os.setuid(0)
        except OSError:
            pass
        wanted = ("CapEff", "CapPrm", "NoNewPrivs")
        caps = [line for line in open("/proc/thread-self/status") if line.startswith(wanted)]
        return [os.getuid(), os.geteuid(), os.getgid(), os.getgroups(), [line.split()[1].lstrip("0") for line in caps]]
    """
    first, second = asked(body, Sandbox.REQUIRE), asked(body, Sandbox.REQUIRE)
    assert first[0] == first[1] == first[2] > 60_000 and first[3:] == [[], ["", "", "1"]]
    assert first[0] != second[0]


@pytest.mark.parametrize("kind", BOTH)
def test_no_file_of_the_grader_is_open_in_the_room(kind: Sandbox, tmp_path: Path) -> None:
    """What is open: nothing three times, the wire of this test, and the pipe that says which line hangs."""
    body = """
        import stat
        modes = []
        for number in range(200):
            try:
                modes.append(os.fstat(number).st_mode)
            except OSError:
                pass
        kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISCHR, stat.S_ISSOCK, stat.S_ISFIFO)
        return [sum(map(bool, map(kind, modes))) for kind in kinds]
    """
    secret = tmp_path / "answers"
    secret.write_text("right")
    with open(secret) as file:
        os.set_inheritable(file.fileno(), True)
        assert asked(body, kind) == [0, 0, 3, 1, 1]


@isolated
def test_nothing_but_tmp_can_be_written() -> None:
    body = """
        written = []
        for folder in ("/", "/room", "/room/course", "/dev", "/usr", "/tmp", sys.prefix, "/proc"):
            try:
                open(folder + "/planted.py", "w").close()
                written.append(folder)
            except OSError:
                pass
        return written
    """
    assert asked(body, Sandbox.REQUIRE) == ["/tmp"]


# ---------------------------------------------------------------- what is left over

LEAVES = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
open(os.environ["HOME"] + "/note", "w").close()
return "right"
"""


@isolated
def test_processes_and_files_of_one_test_are_gone_in_the_next() -> None:
    top = "def seen():\n    return [sum(name.isdigit() for name in os.listdir('/proc')), os.listdir('/tmp')]"
    body = f"if not tokens:\n    return seen()\n{LEAVES}"
    with room_over(body, Sandbox.REQUIRE, top=top) as (client, tree):
        assert tree.match_prefix([1]) == "right"
        assert tree.match_prefix([]) == [3, ["note"]]
        client.end()
        assert new_tree(client).match_prefix([]) == [2, []]


def test_processes_that_a_plain_room_leaves_are_ended_too() -> None:
    top = "import subprocess"
    body = """
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        return child.pid
    """
    with room_over(body, Sandbox.OFF, top=top) as (client, tree):
        pid = tree.match_prefix([1])
        assert Path(f"/proc/{pid}").exists()
        client.end()
        assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("kind", BOTH)
def test_a_closed_room_leaves_no_process(kind: Sandbox) -> None:
    with room_over("time.sleep(600)", kind) as (client, _):
        started = client._started
        assert started is not None
        pid = started.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert children
    deadline = time.monotonic() + 10
    while any(runs(each) for each in (pid, *children)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not [each for each in (pid, *children) if runs(each)]


def runs(pid: int | str) -> bool:
    """Whether there is such a process, and not only its entry in a table."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def test_a_closed_plain_room_takes_those_along_that_left_its_session() -> None:
    body = """
        import subprocess
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True).pid
    """
    with room_over(body, Sandbox.OFF) as (_, tree):
        pid = tree.match_prefix([1])
        assert runs(pid)
    assert not runs(pid)


# ---------------------------------------------------------------- which of the two


def test_the_room_says_how_well_it_is_kept_apart() -> None:
    client = RoomClient(tree_job("return 1"), sandbox=Sandbox.OFF)
    with client:
        client.start()
        assert client.isolation.startswith("not isolated") and not client.sandboxed


def test_isolation_that_is_required_and_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "problem_here", lambda: "bubblewrap is not installed (the program bwrap)")
    with pytest.raises(NoSandbox, match="not installed"):
        RoomClient(tree_job("return 1"), sandbox=Sandbox.REQUIRE).start()
    with RoomClient(tree_job("return 1"), sandbox=Sandbox.AUTO) as client:
        client.start()
        assert client.isolation.startswith("not isolated")


@isolated
def test_a_room_is_isolated_where_it_can_be() -> None:
    with RoomClient(tree_job("return 1"), sandbox=Sandbox.AUTO) as client:
        client.start()
        assert client.sandboxed and client.isolation.startswith("isolated by bubblewrap")

"""Starting the process of a room: in a sandbox where bubblewrap is installed, else a plain one with limits.

It knows what a room may use, which user it runs as, and how to end it. What it sees there is in `bubble`;
what is said to the room, and what runs in it, it does not know.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import IO, Any

from autograder import bubble, keeper
from autograder.bubble import ENVIRONMENT, INSIDE, ROOT

FIRST_UID = 2_000_000_000
"""Users for rooms are counted down from here: far above accounts and what containers are given."""


class Sandbox(StrEnum):
    """Whether to isolate: where it is possible, or else not at all, or never."""

    AUTO = "auto"
    REQUIRE = "require"
    OFF = "off"


class NoSandbox(Exception):
    """Isolation was asked for, and there is none here; the message says why."""


ISOLATED = "isolated by bubblewrap: no network, no home, a private /tmp"
NOT_ISOLATED = "not isolated: a plain process with limits"


@dataclass(frozen=True)
class Bounds:
    """What a room may use: seconds of wall clock for a cell, CPU seconds for all cells, MiB, and processes."""

    cell_s: float = 30.0
    cpu_s: int = 120
    memory_mb: int = 1024
    processes: int = 16
    file_mb: int = 16
    tmp_mb: int = 64
    files: int = 128

    @property
    def limits(self) -> dict[str, int]:
        """As the room's process takes them (autograder/room/processes.py)."""
        return {
            "memory": self.memory_mb << 20,
            "cpu": self.cpu_s,
            "processes": self.processes,
            "file": self.file_mb << 20,
            "files": self.files,
        }


@dataclass
class Started:
    """A room's process: the control wire, the pipe on which it says what hangs, and how to end it."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    where: int
    errors: IO[bytes]
    isolation: str
    inner: int | None = None
    folder: tempfile.TemporaryDirectory[str] | None = None
    kept: int | None = None
    _closed: list[bool] = field(default_factory=list)

    def end(self) -> None:
        """End the process and, in a sandbox, everything in it."""
        if self._closed:
            return
        self._closed.append(True)
        with contextlib.suppress(OSError):
            if self.inner is not None:
                signal.pidfd_send_signal(self.inner, signal.SIGKILL)
            else:
                end_family(self.process.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2)
        self.process.kill()
        self.process.wait()
        self.control.close()
        os.close(self.where)
        if self.inner is not None:
            os.close(self.inner)
        self.errors.close()
        if self.folder is not None:
            self.folder.cleanup()
        if self.kept is not None:
            keeper.forget(self.kept)

    @property
    def last_words(self) -> str:
        """What the process wrote to stderr before it served, the last lines."""
        self.errors.seek(0)
        return self.errors.read()[-2000:].decode("utf-8", "replace").strip()


def end_family(pid: int) -> None:
    """End a process and all that descend from it: stopped first, it can't lose sight of any meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        for _ in range(100):
            family = [each for each in _descendants(pid) if each != pid]
            if not family:
                break
            for each in family:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _descendants(pid: int) -> Iterator[int]:
    """The living descendants of a process, and itself, as far as the system lists them."""
    children: dict[int, list[int]] = {}
    for file in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = Path(file).read_bytes().rpartition(b")")[2].split()[:2]
            if state != b"Z":
                children.setdefault(int(parent), []).append(int(file.split("/")[2]))
    family = [pid]
    for each in family:
        family += children.get(each, [])
    yield from family


def start(bounds: Bounds, sandbox: Sandbox = Sandbox.AUTO) -> Started:
    """Start a room.

    Raises:
        NoSandbox: isolation is required, and there is none here.
    """
    problem = "" if sandbox is Sandbox.OFF else problem_here()
    if sandbox is Sandbox.REQUIRE and problem:
        raise NoSandbox(problem)
    return _start(bounds, isolated=sandbox is not Sandbox.OFF and not problem)


@cache
def problem_here() -> str:
    """Why there is no isolation on this machine; nothing if there is."""
    if sys.platform != "linux":
        return "bubblewrap runs on Linux only"
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is not installed (the program bwrap)"
    tried = subprocess.run(
        [program, *bubble.namespaces(), "--ro-bind", "/", "/", "--proc", "/proc", "true"],
        capture_output=True,
        check=False,
    )
    return "" if tried.returncode == 0 else f"bubblewrap can't isolate here: {tried.stderr.decode().strip()}"


def _start(bounds: Bounds, isolated: bool) -> Started:
    ours, theirs = socket.socketpair()
    where, says = os.pipe()
    os.set_blocking(where, False)
    os.set_blocking(says, False)
    folder = None if isolated else tempfile.TemporaryDirectory(prefix="room-")
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the room
    fds = [theirs.fileno(), says]
    settings = _settings(bounds, isolated, theirs.fileno(), says, folder.name if folder else "/tmp")
    python = [_python(), "-P", "-s", "-S", "-B", _starter(isolated), json.dumps(settings)]
    info, tells = os.pipe() if isolated else (-1, -1)
    command = [*bubble.command(bounds.tmp_mb, tells), "--", *python] if isolated else python
    process = subprocess.Popen(
        command,
        cwd=folder.name if folder else "/",
        env=ENVIRONMENT | ({"HOME": folder.name, "TMPDIR": folder.name} if folder else {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        pass_fds=[*fds, tells] if isolated else fds,
        start_new_session=True,
    )
    theirs.close()
    os.close(says)
    inner = None
    if isolated:
        os.close(tells)
        inner = _inner(info)
    isolation = ISOLATED if isolated else NOT_ISOLATED
    return Started(process, ours, where, errors, isolation, inner, folder, _kept(process, inner, folder))


def _kept(
    process: subprocess.Popen[bytes], inner: int | None, folder: tempfile.TemporaryDirectory[str] | None
) -> int | None:
    """Have this process's keeper end the room with it; its number there, or None where nothing is to be kept."""
    if inner is not None:
        return keeper.keep(inner)
    if folder is None or not hasattr(os, "pidfd_open"):
        return None
    plain = os.pidfd_open(process.pid)
    try:
        return keeper.keep(plain, folder.name)
    finally:
        os.close(plain)


def _inner(info: int) -> int | None:
    """A descriptor of the first process inside, as bubblewrap tells its number; None if it never started."""
    with os.fdopen(info) as file:
        try:
            return os.pidfd_open(json.load(file)["child-pid"])
        except (ValueError, KeyError, OSError):
            return None


def _settings(bounds: Bounds, isolated: bool, control: int, says: int, folder: str) -> dict[str, Any]:
    return {
        "path": [INSIDE, *bubble.packages_inside()] if isolated else [str(ROOT), *bubble.site_packages()],
        "uid": _next_uid() if os.geteuid() == 0 and isolated else None,
        "isolated": isolated,
        "limits": bounds.limits | ({} if os.geteuid() == 0 else {"processes": bounds.processes + _running()}),
        "control": control,
        "where": says,
        "folder": folder,
    }


# ---------------------------------------------------------------- users

_serial = itertools.count()


def _next_uid() -> int:
    """A user of its own for each room: the limit on processes counts by user."""
    top = min(FIRST_UID, _highest_uid())
    return top - 1000 - (os.getpid() * 64 + next(_serial)) % (30_000 if top < 1_000_000 else 100_000_000)


def _running() -> int:
    """Threads that this user has now: where a room has no user of its own, its limit comes on top of them."""
    total = 0
    for status in glob.glob("/proc/[0-9]*/status"):
        with contextlib.suppress(OSError):
            fields = dict(line.split(":", 1) for line in Path(status).read_text().splitlines() if ":" in line)
            mine = int(fields["Uid"].split()[0]) == os.getuid()
            total += int(fields["Threads"]) if mine else 0
    return total


def _highest_uid() -> int:
    """The highest user id there is here: in a container there may be few."""
    try:
        rows = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    except OSError:
        return 65_535
    return max(int(first) + int(count) - 1 for first, _, count in rows)


def _python() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def _starter(isolated: bool) -> str:
    return f"{INSIDE if isolated else ROOT}/autograder/room/starter.py"

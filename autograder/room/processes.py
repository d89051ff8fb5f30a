"""The processes of a room: limits put on, what is left over ended, and folders emptied.

It knows the operating system. Every function that is used after a submission's code has run was taken
before: patching `os` later changes nothing here.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import stat
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

_kill, _wait4, _getpid, _scandir, _unlink, _rmdir = os.kill, os.wait4, os.getpid, os.scandir, os.unlink, os.rmdir
_chmod, _open, _close, _read, _sleep, _listdir = os.chmod, os.open, os.close, os.read, time.sleep, os.listdir
_KILL, _NOHANG = signal.SIGKILL, os.WNOHANG

LIMITS: Mapping[str, int] = {
    "memory": resource.RLIMIT_AS,
    "cpu": resource.RLIMIT_CPU,
    "processes": resource.RLIMIT_NPROC,
    "file": resource.RLIMIT_FSIZE,
    "files": resource.RLIMIT_NOFILE,
}


def limit(limits: Mapping[str, int]) -> None:
    """Put limits on this process and its children, by the names in `LIMITS`; no core file is written.

    Between the soft and the hard limit on CPU time lies one second: who ignores the first signal is killed.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, value in limits.items():
        most = resource.getrlimit(LIMITS[name])[1]
        hard = value + (name == "cpu")
        if most != resource.RLIM_INFINITY:
            hard = min(hard, most)
        with contextlib.suppress(ValueError, OSError):  # a system without this limit goes without it
            resource.setrlimit(LIMITS[name], (min(value, hard), hard))


def limit_cpu(seconds: int) -> None:
    """Let this process, just forked, use so many seconds of CPU time and no more."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    soft = seconds if most == resource.RLIM_INFINITY else max(min(seconds, most - 1), 1)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (soft, soft + 1))


def drop_to(uid: int) -> None:
    """Become this user, of a group of the same number and no other, for good."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if 0 in (*os.getresuid(), *os.getresgid()):
        raise PermissionError("still root")


def bind_to_parent(adopt: bool) -> None:
    """End with the parent, and, if `adopt`, become the parent of orphans further down (Linux)."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, _KILL, 0, 0, 0)
        if adopt:
            libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def is_alone() -> bool:
    """Whether this is the first process of a process namespace of its own: only then may it end all others."""
    return _getpid() == 1


@dataclass
class Ended:
    """A child's end: its wait status, and the seconds of CPU time that it used."""

    status: int = 0
    cpu_s: float = 0.0
    seen: bool = False


def end_all_others(child: int, alone: bool) -> Ended:
    """End a child and every process it left behind.

    Alone in a process namespace, that is everything but this process. Elsewhere it is every descendant
    that the system can still name.
    """
    ended = Ended()
    for _ in range(1000):
        if alone:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                _kill(-1, _KILL)
        else:
            _end_children(child if not ended.seen else 0)
        if not _reap(child, ended):
            break
        _sleep(0.001)
    return ended


def _reap(child: int, ended: Ended) -> bool:
    """Collect everything that has ended, and note the child's end; whether any child is left."""
    while True:
        try:
            pid, status, used = _wait4(-1, _NOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        if pid == child:
            ended.status, ended.cpu_s, ended.seen = status, used.ru_utime + used.ru_stime, True


def _end_children(child: int) -> None:
    """End this child and every other; grandchildren become children then, as this process adopts them."""
    for pid in {*children(), *([child] if child else [])}:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            _kill(pid, _KILL)


def children() -> list[int]:
    """The process ids of this process's children; [] where the system does not list them."""
    me = _getpid()
    try:
        return [pid for pid in map(int, filter(str.isdigit, _listdir("/proc"))) if _parent(pid) == me]
    except OSError:
        return []


def _parent(pid: int) -> int:
    try:
        file = _open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            return int(_read(file, 4096).rpartition(b")")[2].split()[1])
        finally:
            _close(file)
    except (OSError, IndexError, ValueError):
        return -1


def empty(folder: str) -> None:
    """Remove everything in a folder, as far as this user may."""
    try:
        entries = list(_scandir(folder))
    except OSError:
        return
    for entry in entries:
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                _chmod(entry.path, stat.S_IRWXU)
                empty(entry.path)
                _rmdir(entry.path)
            else:
                _unlink(entry.path)

"""Who ends rooms when the process that started them is killed: a small process beside it that outlives it by a moment.

A sandbox can't do that by itself where root started it: the signal that would end a room with its grader comes from
a process without rights, for another user, and is refused. A room in an endless cell would go on. The keeper hears
of each room, as a descriptor of its first process and a folder to remove; when its wire closes, it ends what is left.
It knows nothing else. It runs as a script with the standard library alone.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys

SEEN_OFF_S = 5.0
"""Seconds that a killed room has to be gone before its folder is removed."""

_wire: socket.socket | None = None
_numbers = itertools.count(1)

# ---------------------------------------------------------------- in the grader


def begin() -> None:
    """Have a keeper for the rooms that this process starts from now on (Linux); a second time does nothing."""
    global _wire
    if _wire is not None or sys.platform != "linux":
        return
    _wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd="/",
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    atexit.register(_end, keeper, _wire)


def _end(keeper: subprocess.Popen[bytes], wire: socket.socket) -> None:
    wire.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        keeper.wait(SEEN_OFF_S)


def keep(process: int, folder: str = "") -> int:
    """Let the keeper know of a room, if there is one.

    Args:
        process: a descriptor (os.pidfd_open) of the process that the room ends with.
        folder: to remove after it.

    Returns:
        A number to `forget` the room by.
    """
    number = next(_numbers)
    _tell({"room": number, "folder": folder}, [process])
    return number


def forget(number: int) -> None:
    """Let the keeper know that a room has ended, and its folder is gone."""
    _tell({"room": number}, [])


def _tell(message: dict[str, int | str], fds: list[int]) -> None:
    if _wire is not None:
        with contextlib.suppress(OSError):  # grading goes on without a keeper
            socket.send_fds(_wire, [json.dumps(message).encode("ascii")], fds)


# ---------------------------------------------------------------- in the keeper


def watch(wire: socket.socket) -> None:
    """Hear of rooms until the wire closes, then end those that are left."""
    rooms: dict[int, tuple[int, str]] = {}
    while True:
        data, fds, _, _ = socket.recv_fds(wire, 1 << 16, 1)
        if not data:
            break
        message = json.loads(data)
        if fds:
            rooms[message["room"]] = fds[0], message["folder"]
        elif message["room"] in rooms:
            os.close(rooms.pop(message["room"])[0])
    for process, _ in rooms.values():
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
    for process, folder in rooms.values():
        select.select([process], [], [], SEEN_OFF_S)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    watch(socket.socket(fileno=int(sys.argv[1])))

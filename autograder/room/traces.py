"""What a process can leave behind in its room besides files and processes: kernel objects, and limits of its parent.

It knows the places and compares them with how they were. What is done about a trace it does not know.
"""

from __future__ import annotations

import contextlib
import os
import resource
from typing import Any

LISTS = ("/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg", "/proc/keys")
LIMITS = {
    name: getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_CPU"
}


def no_queues() -> None:
    """Take away the right to make message queues: no list would show them."""
    with contextlib.suppress(AttributeError, ValueError, OSError):  # Linux only
        resource.setrlimit(resource.RLIMIT_MSGQUEUE, (0, 0))


def traces() -> Any:
    """What a process could have changed for those that come after it; the same as long as none did."""
    if not hasattr(os, "sched_getaffinity") or not _namespaced():
        return None
    limits = [(name, resource.getrlimit(number)) for name, number in LIMITS.items()]
    order = (os.nice(0), sorted(os.sched_getaffinity(0)), os.sched_getscheduler(0))
    return [_lines(path) for path in LISTS], limits, order


def _namespaced() -> bool:
    """Whether this is the first process of a namespace, or its child: elsewhere others leave traces, too."""
    return 1 in (os.getpid(), os.getppid())


def _lines(path: str) -> int:
    try:
        with open(path, "rb") as file:
            return file.read().count(b"\n")
    except OSError:
        return 0

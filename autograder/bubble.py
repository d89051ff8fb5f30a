"""What a sandboxed room sees, and what keeps it in: the command line of bubblewrap.

It knows the folders of the Python runtime and the files of the room's own code. What runs in the room,
and with which limits besides the size of its /tmp, it does not know.
"""

from __future__ import annotations

import glob
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
INSIDE = "/room"
"""Where the room's code lies inside the sandbox."""

PACKAGES = "/packages"
"""Where installed packages lie inside: at a place of their own, since theirs may be below a hidden /tmp."""

PLAIN_MODULES = ("__init__", "codec", "stories", "values", "wire")
"""The modules of this package, beside `room/`, that a room needs. None knows a test."""

OURS = ("autograder", "course", "fixtures", "notebooks", "solutions", "tests")
"""Packages of this project: hidden where they are installed among others."""

SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives")

ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}
"""All of a room's environment: nothing of the grader's own."""


def namespaces() -> list[str]:
    """The options that give a room namespaces of its own, ended with whoever started it."""
    return [
        *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *("--die-with-parent", "--new-session", "--as-pid-1"),
    ]


def command(tmp_mb: int, info: int) -> list[str]:
    """The sandbox's command, up to the program to run in it.

    Args:
        tmp_mb: size of its /tmp in MiB.
        info: descriptor on which bubblewrap tells the number of the first process inside.
    """
    rights = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"] if os.geteuid() == 0 else []
    return [
        shutil.which("bwrap") or "bwrap",
        *namespaces(),
        *rights,
        *("--info-fd", str(info), "--hostname", "room"),
        *("--clearenv", *(word for pair in ENVIRONMENT.items() for word in ("--setenv", *pair))),
        *_binds(),
        *("--proc", "/proc", "--dev", "/dev", "--size", "4096", "--perms", "0755", "--tmpfs", "/dev/shm"),
        *("--perms", "1777", "--size", str(tmp_mb << 20), "--tmpfs", "/tmp"),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"),
    ]


@cache
def _binds() -> tuple[str, ...]:
    """What is there to read, each at its own path except the room's code; nothing of it can be written."""
    words: list[str] = []
    places: list[str] = []
    for path in (*SYSTEM, *_runtime()):
        if os.path.islink(path) and not path.startswith("/etc"):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            words += ["--ro-bind", path, path]
            places.append(path)
    for folder, place in zip(site_packages(), packages_inside(), strict=True):
        words += ["--ro-bind", folder, place, *_hiding(folder, place)]
        places.append(place)
    for folder in glob.glob(f"{os.path.realpath(sys.base_prefix)}/lib/python3*/site-packages"):
        words += _hiding(folder, folder)
    for source, place in _code():
        words += ["--ro-bind", str(source), f"{INSIDE}/{place}"]
        places.append(f"{INSIDE}/{place}")
    return (*_folders_above(places), *words)


def packages_inside() -> tuple[str, ...]:
    """Where each folder of installed packages lies inside."""
    return tuple(f"{PACKAGES}/{number}" for number, _ in enumerate(site_packages()))


def _hiding(folder: str, place: str) -> list[str]:
    """Cover packages of this project among others."""
    hidden = [name for name in OURS if os.path.isdir(os.path.join(folder, name))]
    return [word for name in hidden for word in ("--size", "4096", "--tmpfs", f"{place}/{name}")]


def _folders_above(paths: Iterable[str]) -> Iterator[str]:
    """Make the folders on the way to these paths: left to itself, bubblewrap closes them to any other user."""
    parents = {str(parent) for path in paths for parent in Path(path).parents} - {"/", *SYSTEM}
    bound = (*SYSTEM, *_runtime())
    for parent in sorted(parents):
        if not parent.startswith(tuple(f"{path}/" for path in bound)) and parent not in bound:
            yield from ("--perms", "0755", "--dir", parent)


def _runtime() -> list[str]:
    """The folder of the running Python, if it does not lie in a system folder."""
    return [path for path in (os.path.realpath(sys.base_prefix),) if not path.startswith("/usr/")]


@cache
def site_packages() -> tuple[str, ...]:
    """The folders of installed packages."""
    found = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    return tuple(path for path in found if os.path.isdir(path))


def _code() -> Iterator[tuple[Path, str]]:
    """The room's code: files here, and their places inside. Compiled forms save the time to compile."""
    yield ROOT / "course", "course"
    yield ROOT / "autograder" / "room", "autograder/room"
    for name in PLAIN_MODULES:
        source = ROOT / "autograder" / f"{name}.py"
        yield source, f"autograder/{name}.py"
        compiled = source.parent / "__pycache__" / f"{name}.{sys.implementation.cache_tag}.pyc"
        if compiled.exists():
            yield compiled, f"autograder/__pycache__/{compiled.name}"

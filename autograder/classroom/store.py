"""The verdicts of a class on disk: a line each, added as soon as it is known, never changed.

It knows how to add a line so that a killed run loses none, how to read what an earlier run left, torn or damaged
lines included, and how to keep a second run out. What a verdict means this file does not know.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from autograder.classroom import atomic
from autograder.classroom.printable import printable
from autograder.classroom.rows import Result, as_data, from_data

VERDICTS = "verdicts.jsonl"

PATIENCE_S = 2.0
"""So long a killed run's last processes may take to be gone."""

Key = tuple[str, str]
"""A student, and a module's id."""


class InUse(Exception):
    """Another run works on the same folder; the message says so."""


class Damaged(Exception):
    """The file of verdicts can't be used at all; the message says why."""


class Store:
    """The verdicts in a folder, for one run at a time. A context manager.

    Args:
        folder: the output folder; it is made where there is none.

    Raises:
        InUse: another run holds the folder.
        Damaged: the file of verdicts is none, or can't be opened. A line that is no verdict is no such case: see
            `problems`.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / VERDICTS
        self._file = _opened(self.path)
        try:
            _locked(self._file, folder)
            atomic.sweep(folder)
            kept = _heal(self._file)
        except BaseException:
            os.close(self._file)
            raise
        self._known, self.problems = _parsed(kept, self.path)
        _stores.add(self)

    @property
    def known(self) -> Mapping[Key, Result]:
        """The latest result of each student and module."""
        return self._known

    def keep(self, result: Result) -> None:
        """Add a result; it is on the disk when this returns. Raises OSError: then it is as if it had not been added."""
        line = json.dumps(as_data(result)).encode("ascii") + b"\n"
        before = os.fstat(self._file).st_size
        written = os.write(self._file, line)
        if written != len(line):
            os.ftruncate(self._file, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        os.fsync(self._file)
        self._known[result.student, result.module] = result

    def close(self) -> None:
        """Let go of the folder; a second time does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read(folder: Path) -> tuple[dict[Key, Result], tuple[str, ...]]:
    """The results that a folder's file holds, and a sentence for each line that is none. Nothing is changed or held.

    Raises:
        Damaged: there is no such file, or it can't be opened.
    """
    path = folder / VERDICTS
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise Damaged(f"{printable(str(path))} can't be opened: {problem.strerror}.") from None
    return _parsed(data[: data.rfind(b"\n") + 1], path)


# ---------------------------------------------------------------- opening


_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _let_go_in_a_child() -> None:
    """A forked worker shares the lock for as long as it has the file open, even when the run itself was killed."""
    for store in _stores:
        store.close()


os.register_at_fork(after_in_child=_let_go_in_a_child)


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as problem:
        raise Damaged(f"{printable(str(path))} can't be opened: {problem.strerror}.") from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise Damaged(f"{printable(str(path))} is no ordinary file: give another folder for the results.")
    _flush_folder(path.parent)
    return file


def _flush_folder(folder: Path) -> None:
    """Let a new file's name be on the disk, too."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # some file systems know no such thing
            os.fsync(opened)
    finally:
        os.close(opened)


def _locked(file: int, folder: Path) -> None:
    ends = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > ends:
                raise InUse(
                    f"Another run is working on {printable(str(folder))}: wait for it to end, or give another folder "
                    "for the results."
                ) from None
            time.sleep(0.05)


def _heal(file: int) -> bytes:
    """Everything up to the last whole line; a torn one behind it is cut off, so that the next begins on its own."""
    data = b""
    while piece := os.pread(file, 1 << 30, len(data)):
        data += piece
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.ftruncate(file, whole)
        os.fsync(file)
    return data[:whole]


# ---------------------------------------------------------------- reading


def _parsed(data: bytes, path: Path) -> tuple[dict[Key, Result], tuple[str, ...]]:
    """The latest results, and a sentence for each line that holds none: that work is graded again."""
    known: dict[Key, Result] = {}
    problems: list[str] = []
    for number, line in _lines(data):
        try:
            result = from_data(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            problems.append(f"{path.name}, line {number}: this is no verdict; what it was about is graded again.")
        else:
            known[result.student, result.module] = result
    return known, tuple(problems)


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    return ((number, line) for number, line in enumerate(data.split(b"\n")[:-1], start=1))

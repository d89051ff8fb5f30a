"""A plain child process for each submission, watched from here: time limits, and what its end means.

It knows how to start the child, read its records, and go on with the next test in a new child when one
was lost. The child can reach whatever its user can: this is a guard against accidents, not against
intent, and reports say so. What the verdicts add up to this file does not know.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.reading import Cell, Submission
from autograder.running import Status, Verdict
from autograder.scoring import TIMED_OUT, Did, Ran, Round

ROOT = Path(__file__).parent.parent
GLANCE_S = 0.2
"""How often, in seconds, the child is looked after while it says nothing."""


@dataclass(frozen=True)
class Limits:
    """What a submission may use: seconds for each test, for each cell, and for all of it, and memory."""

    test_s: float = 10.0
    cell_s: float = 30.0
    total_s: float = 300.0
    memory_mb: int = 4096


@dataclass(frozen=True)
class Work:
    """What is to be run: a submission over the references underneath, or over flat models."""

    submission: Submission
    flat_below: bool = False
    limits: Limits = field(default_factory=Limits)


@dataclass
class Remarks:
    """What came to light while the cells ran: errors by cell, and names that are missing at the end."""

    raised: dict[str, None] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


class PlainChild:
    """Runs work in a child process without isolation."""

    isolation = "not isolated: a plain child process with time limits"

    def verdicts(self, work: Work, tests: Sequence[str], remarks: Remarks) -> Iterator[Verdict]:
        """A verdict for each named test, in order. Whatever one test does to the child, the next has a new one."""
        waiting = list(tests)
        deadline = time.monotonic() + work.limits.total_s
        while waiting:
            job = _job(work, "named", work.submission.for_named_tests)
            job |= {"tests": waiting, "below": "flat" if work.flat_below else "reference"}
            at, begun = "", time.monotonic()
            for record in _talk(job, work.limits, deadline):
                at = record.get("at", record.get("cell", at))
                begun = time.monotonic() if "at" in record else begun
                _note(record, remarks)
                if "verdict" in record:
                    yield _verdict(record["verdict"])
                    waiting.remove(record["verdict"]["test"])
                elif "end" in record or "done" in record:
                    for verdict in _lost(waiting, at, time.monotonic() - begun, record):
                        yield verdict
                        waiting.remove(verdict.test)

    def rounds(self, work: Work, order: Sequence[str], remarks: Remarks) -> Iterator[Round]:
        """A round of the student's own tests for each implementation, in order.

        Raises:
            Broken: the tests can't be collected.
        """
        waiting = list(order)
        deadline = time.monotonic() + work.limits.total_s
        while waiting:
            job = _job(work, "own", work.submission.for_own_tests) | {"rounds": waiting}
            at = ""
            for record in _talk(job, work.limits, deadline):
                at = record.get("at", record.get("cell", at))
                _note(record, remarks)
                if "broken" in record:
                    raise Broken(record["broken"])
                if "round" in record:
                    round_ = _round(record["round"])
                    waiting.pop(0)
                    yield round_
                elif "end" in record or "done" in record:
                    for implementation in waiting[:1] if "end" in record and not record["all"] else list(waiting):
                        yield Round(implementation, (), cut_off=record.get("end", Status.DIED), at=at)
                        waiting.pop(0)


class Broken(Exception):
    """The student's own tests can't be collected; the message says why."""


def _job(work: Work, what: str, cells: Sequence[Cell]) -> dict[str, Any]:
    return {
        "work": what,
        "module": work.submission.module.name,
        "is_notebook": work.submission.is_notebook,
        "cells": [
            {"source": cell.source, "place": cell.place, "given": cell.given} for cell in cells if not cell.problem
        ],
        "memory_mb": work.limits.memory_mb,
    }


def _lost(waiting: Sequence[str], at: str, seconds: float, record: Mapping[str, Any]) -> list[Verdict]:
    """Verdicts for the tests that a child's end takes with it: the one at hand, or all if none can begin."""
    status = Status(record.get("end", Status.DIED))
    reason = record.get("reason", "The process said that it was done, and gave no verdict")
    if at in waiting and not record.get("all"):
        return [Verdict(at, status, f"{reason}.", seconds)]
    where = f", in {at}" if at and at not in waiting else ""
    return [Verdict(test, status, f"{reason}{where}.") for test in waiting]


def _note(record: Mapping[str, Any], remarks: Remarks) -> None:
    if "raised" in record:
        remarks.raised[record["raised"]] = None
    if "missing" in record:
        remarks.missing = tuple(record["missing"])


def _verdict(row: Mapping[str, Any]) -> Verdict:
    return Verdict(row["test"], Status(row["status"]), row["message"], row["seconds"])


def _round(row: Mapping[str, Any]) -> Round:
    ran = tuple(Ran(each["test"], Did(each["did"]), each["message"]) for each in row["ran"])
    return Round(row["implementation"], ran, row["seconds"])


# ---------------------------------------------------------------- one child


def _talk(job: Mapping[str, Any], limits: Limits, deadline: float) -> Iterator[dict[str, Any]]:
    """Run one job in a child and give its records as they come.

    A child that does not come to its end gets one more record, from here: `end` is a status, `reason`
    the sentence for it, and `all` true where no further child should be tried.
    """
    with tempfile.TemporaryFile("w+") as job_file, tempfile.TemporaryDirectory(prefix="submission-") as folder:
        json.dump(job, job_file)
        job_file.seek(0)
        ours, theirs = os.pipe()
        process = _start(job_file.fileno(), theirs, folder)
        os.close(theirs)
        try:
            yield from _records(process, ours, limits, deadline)
        finally:
            os.close(ours)
            _end(process)


def _start(job_fd: int, results_fd: int, folder: str) -> subprocess.Popen[bytes]:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "Agg",
        "HOME": folder,
        "TMPDIR": folder,
        "LANG": "C.UTF-8",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "autograder.child", str(job_fd), str(results_fd)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(job_fd, results_fd),
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the child and what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _records(
    process: subprocess.Popen[bytes], results_fd: int, limits: Limits, deadline: float
) -> Iterator[dict[str, Any]]:
    lines = _lines(results_fd, lambda: process.poll() is None)
    limit = limits.cell_s  # for the process to start, too
    step_ends = time.monotonic() + limit
    for line in lines:
        now = time.monotonic()
        if line:
            record = _parsed(line)
            yield record
            if "done" in record:
                return
            limit = limits.cell_s if "cell" in record else limits.test_s if "at" in record else limit
            step_ends = time.monotonic() + limit
        elif now > deadline:
            reason = f"The {limits.total_s:g} s for the whole submission were used up"
            yield {"end": Status.TIMED_OUT, "reason": reason, "all": True}
            return
        elif now > step_ends:
            yield {"end": TIMED_OUT, "reason": f"No end within {limit:g} s", "all": False}
            return
    yield {"end": Status.DIED, "reason": _last_words(process), "all": False}


def _parsed(line: bytes) -> dict[str, Any]:
    """One record; anything that is none counts as nothing said."""
    try:
        record = json.loads(line)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _lines(fd: int, alive: Callable[[], bool]) -> Iterator[bytes]:
    """The lines that come through a pipe, and an empty one for each while that nothing comes; ends with the child."""
    held = b""
    while True:
        running = alive()
        ready, _, _ = select.select([fd], [], [], GLANCE_S if running else 0)
        data = os.read(fd, 1 << 16) if ready else b""
        held += data
        *whole, held = held.split(b"\n")
        yield from (line for line in whole if line)
        if not data and (ready or not running):
            return
        yield b""


def _last_words(process: subprocess.Popen[bytes]) -> str:
    code = process.wait()
    if code < 0:
        return f"The process was ended by the signal {signal.Signals(-code).name}"
    return f"The process ended by itself with exit code {code}"

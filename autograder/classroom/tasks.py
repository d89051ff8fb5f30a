"""The unit of a class's work: one student's work for one module, as plain data that can travel, and its grading.

It knows what a worker needs, wherever it runs: no folder is shared with it. What a student's earlier modules
came to travels with the task, so that no module's named tests run twice. Who handed in what, what is kept of it
and where tasks run it does not know.
"""

from __future__ import annotations

import contextlib
import fcntl
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder import keeper, reading
from autograder.blame import Footing, footing
from autograder.earlier import earlier_among
from autograder.files import File, Unreadable
from autograder.grading import grade_read
from autograder.report import as_data
from autograder.rooms import Rooms
from autograder.running import Status, Verdict
from autograder.sandbox import Sandbox
from autograder.work import Limits, Remarks, Work
from course import modules
from course.modules import Module


@dataclass(frozen=True)
class Settings:
    """How a class is graded.

    Attributes:
        test_s: seconds that one test may take.
        sandbox: whether rooms must be, may be or are not to be isolated.
        flat_below: stand everybody on flat models, whatever earlier modules they handed in.
        with_budget: measure the TTFT budget where every named test of L10.4 passes.
    """

    test_s: float = 10.0
    sandbox: Sandbox = Sandbox.AUTO
    flat_below: bool = False
    with_budget: bool = True


@dataclass(frozen=True)
class Task:
    """One student's work for one module.

    Attributes:
        module: the module's id.
        work: the file that was handed in.
        earlier: the student's files for the modules underneath, by module name.
        lost_first: for each of these that is graded already, the first named test that it did not pass on the
            student's own modules; "" where there is none.
        settings: how to grade it.
    """

    module: str
    work: File
    earlier: Mapping[str, File] = field(default_factory=dict)
    lost_first: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = Settings()


@dataclass(frozen=True)
class Outcome:
    """What came of a task: the report in plain values, with `lost_first` beside; or why the file can't be read."""

    report: Mapping[str, Any] = field(default_factory=dict)
    unreadable: str = ""


_one_at_a_time = threading.Lock()


def grade_task(task: Task) -> Outcome:
    """Grade one student's work for one module, in this process: one at a time, as names of modules are bound in it.

    Raises:
        NoSandbox: isolation is required, and there is none here.
    """
    module = modules.find(task.module)
    try:
        submission = reading.read_file(task.work, module)
    except Unreadable as problem:
        return Outcome(unreadable=str(problem))
    keeper.begin()  # whoever is killed while grading takes its rooms along
    settings = task.settings
    with _one_at_a_time:
        rooms, limits = ClassRooms(settings.sandbox), Limits(test_s=settings.test_s)
        base = Footing({}) if settings.flat_below else _footing(task, module, limits, rooms)
        work = Work(submission, limits, base.earlier)
        report = grade_read(work, rooms, with_budget=settings.with_budget, on=base.remarks)
    return Outcome({**as_data(report), "lost_first": report.lost_first})


def _footing(task: Task, module: Module, limits: Limits, rooms: Rooms) -> Footing:
    """The earlier modules to stand on. What is known of one is told again, the named tests of the others run."""

    def run(work: Work, tests: Sequence[str]) -> Iterator[Verdict]:
        lost = task.lost_first.get(work.submission.module.name)
        if lost is None:
            return rooms.verdicts(work, tests, Remarks())
        return (Verdict(test, Status.FAILED if test == lost else Status.PASSED) for test in tests)

    return footing(earlier_among(task.earlier, module), limits, run)


class ClassRooms(Rooms):
    """Rooms on a machine that grades several submissions at once: one of them at a time is measured."""

    @contextlib.contextmanager
    def names(self, work: Work) -> Iterator[Mapping[str, Any]]:
        """As in `Rooms`, once no other process on this machine is measuring."""
        with alone_on_this_machine(), super().names(work) as names:
            yield names


@contextlib.contextmanager
def alone_on_this_machine() -> Iterator[None]:
    """Wait until no other process here is in this block, then hold it.

    The lock is on this very file: it is there wherever this code runs, a process that dies lets go of it, and
    nothing has to be tidied up.
    """
    with Path(__file__).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

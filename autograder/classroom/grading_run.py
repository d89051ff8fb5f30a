"""Grading a class: every student's modules, lowest first, each verdict kept as soon as it is known.

It knows the order of the work, what need not be done again, and what becomes of a task whose worker died.
Where tasks run, how verdicts are stored and how anything is shown it does not know.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autograder.classroom import handed_in, keys, results
from autograder.classroom.executors import Crew
from autograder.classroom.handed_in import HandedIn
from autograder.classroom.rows import Class, Result, State
from autograder.classroom.store import Store
from autograder.classroom.tasks import Outcome, Settings, Task, grade_task
from autograder.files import File, Unreadable
from autograder.reading import opened
from autograder.sandbox import NoSandbox
from course.modules import MODULES, Module

__all__ = ["ClusterLost", "Progress", "Settings", "grade_class"]

TRIES = 2
"""A task whose worker dies is tried once more, with nothing else running: a neighbour may have been the cause."""


class ClusterLost(Exception):
    """Tasks can't run any more, through no fault of theirs; what is kept so far stays."""


@dataclass(frozen=True)
class Progress:
    """How far a class is: students and modules done and in all, how many were graded now, and since when, in s."""

    students_done: int
    students: int
    modules_done: int
    modules: int
    graded: int
    seconds: float

    @property
    def left_s(self) -> float | None:
        """Seconds that the rest will take at the pace so far; None before there is one."""
        return self.seconds / self.graded * (self.modules - self.modules_done) if self.graded else None


Tell = Callable[[Progress], None]


def grade_class(
    folder: Path,
    out: Path,
    modules: Sequence[Module],
    settings: Settings,
    crew: Crew,
    tell: Tell = lambda progress: None,
    say: Callable[[str], None] = lambda problem: None,
    only: Collection[str] = (),
) -> Class:
    """Grade everybody's work in a folder. What `out` knows of unchanged work is taken from there.

    Args:
        folder: nbgrader's submitted/, or a flat folder of notebooks.
        out: the folder where verdicts are kept.
        modules: which modules to grade. A student's other modules are only stood on.
        settings: how to grade.
        crew: who does it.
        tell: hears how far it is, each second at least.
        say: hears what is wrong with the verdicts that `out` holds, a sentence each.
        only: the students to grade; everybody, where none is named.

    Raises:
        NothingThere: nobody handed in anything there.
        InUse: another run writes to `out`.
        Damaged: what `out` holds can't be read.
        NoSandbox: isolation is required, and there is none.
        ClusterLost: the cluster is gone.
    """
    entries = [each for each in handed_in.find(folder, modules) if not only or each.student in only]
    known = {(each.student, each.module): each for each in (*handed_in.find(folder, MODULES), *entries)}
    names = dict.fromkeys(each.student for each in entries)
    students = [Student(name, [known[name, module] for module in MODULES], set(modules)) for name in names]
    with Store(out) as store:
        for problem in store.problems:
            say(problem)
        run = _Run(folder, settings, crew, store, tell, len(students), len(entries))
        run.over(students)
    kept = tuple(run.kept[each.student, each.module.id] for each in entries)
    return Class(folder.resolve().name, tuple(m.id for m in MODULES if m in modules), kept)


# ---------------------------------------------------------------- one student


@dataclass(frozen=True)
class Step:
    """One module of a student that has to be graded: what was handed in, the key of its verdict, and the task."""

    handed: HandedIn
    key: str
    task: Task


@dataclass
class Student:
    """How far one student is: modules that are left, those asked for by name, and what is known of the others.

    `step` is what is graded now, and `tries` how often its worker died.
    """

    name: str
    left: list[HandedIn]
    asked: set[Module]
    files: dict[str, File] = field(default_factory=dict)
    lost_first: dict[str, str] = field(default_factory=dict)
    step: Step | None = None
    tries: int = 0


def _opened(handed: HandedIn) -> File:
    """A file, in memory. Raises Unreadable where it can't be opened, or went while the class was graded."""
    assert handed.path is not None
    try:
        return opened(handed.path, handed.module)
    except OSError as problem:
        raise Unreadable(f"{handed.path.name} can't be opened: {problem.strerror or 'it is gone'}.") from None


# ---------------------------------------------------------------- the run


@dataclass
class _Run:
    """One run over a class. `kept` has the result of each student and module so far, by name and id."""

    folder: Path
    settings: Settings
    crew: Crew
    store: Store
    tell: Tell
    n_students: int
    n_modules: int
    kept: dict[tuple[str, str], Result] = field(default_factory=dict)
    n_graded: int = 0
    n_done: int = 0
    begun: float = field(default_factory=time.monotonic)

    def over(self, students: Iterable[Student]) -> None:
        """Grade all of them, some at once; then those whose worker died, one at a time."""
        alone: list[Student] = []
        self._drain(iter(students), self.crew.width, alone.append)
        again = iter(alone)
        self._drain(again, lambda: 1, alone.append)

    def _drain(self, students: Iterator[Student], width: Callable[[], int], put_off: Callable[[Student], None]) -> None:
        running: dict[Future[Outcome], Student] = {}
        more = True
        while more or running:
            while more and len(running) < width():
                student = next(students, None)
                more = student is not None
                if student:
                    self._go_on(student, running)
            self._say()
            for future in wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done:
                student = running.pop(future)
                if self._took(student, future):
                    self._go_on(student, running)
                else:
                    put_off(student)

    def _go_on(self, student: Student, running: dict[Future[Outcome], Student]) -> None:
        """Submit what is next of a student, if anything has to be graded."""
        if student.step is None:
            student.step, student.tries = self._next(student), 0
        if student.step is None:
            self.n_done += 1
            return
        try:
            future = self.crew.executor.submit(grade_task, student.step.task)
        except RuntimeError as problem:
            raise ClusterLost(f"nothing more can be submitted: {problem}") from None
        running[future] = student

    def _took(self, student: Student, future: Future[Outcome]) -> bool:
        """Keep what came of a student's task; False if it is to be tried again."""
        step = student.step
        assert step is not None
        try:
            outcome = future.result()
        except CancelledError:
            raise ClusterLost("the cluster gave up its tasks: its scheduler ended, or is out of reach") from None
        except NoSandbox:
            raise
        except Exception as problem:
            student.tries += 1
            if student.tries < TRIES:
                return False
            self._keep(results.not_graded(step.handed, self.folder, problem, TRIES))
        else:
            self._took_outcome(student, step, outcome)
        self.n_graded += 1
        student.step = None
        return True

    def _took_outcome(self, student: Student, step: Step, outcome: Outcome) -> None:
        if outcome.unreadable:
            self._keep(results.unreadable(step.handed, self.folder, outcome.unreadable))
            return
        student.lost_first[step.handed.module.name] = outcome.report["lost_first"]
        self._keep(results.graded(step.handed, self.folder, step.key, outcome.report))

    # ------------------------------------------------------------ what has to be graded

    def _next(self, student: Student) -> Step | None:
        """A student's next module that has to be graded; results that need no grading are kept on the way."""
        while student.left:
            handed = student.left.pop(0)
            step = self._step(student, handed)
            if step is not None and handed.module in student.asked:
                return step
        return None

    def _step(self, student: Student, handed: HandedIn) -> Step | None:
        """What has to be graded of a module, or None where all is known. Its file is noted for the modules above."""
        asked = handed.module in student.asked
        if handed.path is None:
            if asked:
                self._keep(results.bare(handed, self.folder, State.NOT_SUBMITTED))
            return None
        try:
            work = _opened(handed)
        except Unreadable as problem:
            if asked:
                self._keep(results.unreadable(handed, self.folder, str(problem)))
            return None
        earlier = {} if self.settings.flat_below else _among(student.files, handed.module)
        student.files[handed.module.name] = work
        key = keys.key(handed.module, _hung_on(work, earlier, handed.module), asdict(self.settings))
        if (known := self._known(handed, key)) is not None:
            student.lost_first[handed.module.name] = known["lost_first"]
            if asked:
                self._keep(results.graded(handed, self.folder, key, known))
            return None
        lost_first = {name: lost for name, lost in student.lost_first.items() if name in earlier}
        return Step(handed, key, Task(handed.module.id, work, earlier, lost_first, self.settings))

    def _known(self, handed: HandedIn, key: str) -> Mapping[str, Any] | None:
        """The report of an earlier run on the same work, if there is one."""
        kept = self.store.known.get((handed.student, handed.module.id))
        return kept.report if kept and kept.state is State.GRADED and kept.key == key else None

    def _keep(self, result: Result) -> None:
        place = (result.student, result.module)
        self.kept[place] = result
        if self.store.known.get(place) != result:
            self.store.keep(result)

    def _say(self) -> None:
        spent = time.monotonic() - self.begun
        self.tell(Progress(self.n_done, self.n_students, len(self.kept), self.n_modules, self.n_graded, spent))


def _among(files: Mapping[str, File], module: Module) -> dict[str, File]:
    return {name: files[name] for name in module.needs if name in files}


def _hung_on(work: File, earlier: Mapping[str, File], module: Module) -> dict[str, bytes]:
    """The files that a verdict hangs on, as `keys.key` takes them, with their names: reports call them by these."""
    tests = {f"test_{module.name}": work.tests} if work.tests else {}
    files = {module.name: work, **tests, **earlier}
    return {name: os.fsencode(file.name) + b"\0" + file.data for name, file in files.items()}

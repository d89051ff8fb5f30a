"""A class for tests: folders of students who hand in Python files made from the references, and what watches a run."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from autograder import implementations, keeper
from autograder.classroom.executors import Crew
from autograder.classroom.rows import Class
from autograder.classroom.tasks import ClassRooms, alone_on_this_machine
from autograder.planted import plant, planted_bugs
from autograder.reading import Cell, Role, Submission
from autograder.sandbox import Sandbox
from autograder.work import Limits, Remarks, Work
from course import modules

POOL, TREE, CACHE, MANAGER = modules.MODULES


def hand_in(folder: Path, student: str, module: modules.Module, source: str | bytes, tests: str = "") -> Path:
    """Put a student's file where nbgrader would, with own tests beside it if there are any."""
    place = folder / student / module.name
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{module.name}.py"
    path.write_bytes(source.encode() if isinstance(source, str) else source)
    if tests:
        (place / f"test_{module.name}.py").write_text(tests, encoding="utf-8")
    return path


def right(module: modules.Module) -> str:
    return implementations.reference_source(module)


ENDLESS = "\n    @property\n    def hit_rate(self):\n        while True: pass\n"
"""Added to RadixCache, it never answers."""


def class_of(n: int, folder: Path) -> Path:
    """A class that hands in L10.1 and L8.4: right, wrong, broken, careless, one of each kind in turn."""
    pool_bugs, cache_bugs = planted_bugs(POOL), planted_bugs(CACHE)
    for i in range(n):
        student, bug = f"student {i:03}", pool_bugs[i % len(pool_bugs)]
        pool: str | bytes = right(POOL) if i % 2 else plant(bug, right(POOL))
        cache: str | bytes | None = right(CACHE)
        match i % 10:
            case 1:
                cache = None
            case 3:
                cache = "class RadixCache:\n    pass\n"
            case 4:
                cache = b"\xff\xfe\xfd"
            case 5:
                pool = "import os\nos._exit(3)\n"
            case 6:
                pool = "class KvPool(:\n"
            case 7:
                other = cache_bugs[i % len(cache_bugs)]
                cache = plant(other, right(CACHE))
            case 8:
                cache = right(CACHE).replace(
                    "    def insert(", "    def insert(self, *_):\n        os.abort()\n\n    def in_("
                )
                cache = "import os\n" + cache
        hand_in(folder, student, POOL, pool)
        if cache is not None:
            hand_in(folder, student, CACHE, cache)
    hand_in(folder, "slow", CACHE, right(CACHE) + ENDLESS)
    return folder


def comparable(data: Any) -> Any:
    """Results without what differs from run to run: times, and what was measured."""
    if isinstance(data, dict):
        left_out = ("seconds", "budget", "key")
        return {name: comparable(value) for name, value in data.items() if name not in left_out}
    return [comparable(each) for each in data] if isinstance(data, list | tuple) else data


def states(graded: Class) -> dict[tuple[str, str], str]:
    return {(each.student, each.module): each.state.value for each in graded.results}


# ---------------------------------------------------------------- crews


class Here(Executor):
    """Runs calls at once, in this process; `calls` has what was asked. `instead` may take the place of a call."""

    def __init__(self, instead: Callable[..., Any] | None = None) -> None:
        self.calls: list[Any] = []
        self.instead = instead

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += args
        future: Future[Any] = Future()
        try:
            future.set_result((self.instead or fn)(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


def here(instead: Callable[..., Any] | None = None) -> Crew:
    return Crew(Here(instead), lambda: 1)


# ---------------------------------------------------------------- what runs in a worker


def pid() -> int:
    return os.getpid()


def die() -> None:
    os.kill(os.getpid(), 9)


def leave() -> None:
    os._exit(7)


class Odd(Exception):
    """An error that can't be sent: it needs two arguments."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__("odd")


def raise_odd() -> None:
    raise Odd(1, 2)


def touch(folder: str, name: str) -> int:
    """Say that a worker came here, and never come back."""
    Path(folder, name).write_text(str(os.getpid()))
    while True:
        time.sleep(0.05)


def room_that_never_opens(folder: str, sandbox: Sandbox, name: str) -> None:
    """Open a room whose only cell never ends."""
    keeper.begin()
    cell = Cell(Role.SOLUTION, "while True: pass", "mine.py")
    work = Work(Submission(CACHE, "mine.py", (cell,), is_notebook=False), Limits(cell_s=600.0, total_s=600.0))
    Path(folder, name).touch()
    list(ClassRooms(sandbox).verdicts(work, ["hand_example_shared_system_prompt"], Remarks()))


def measure(started: str, go_on: str) -> bool:
    """Wait for the lock, hold it until told to let go."""
    with alone_on_this_machine():
        Path(started).touch()
        return until(Path(go_on).exists)


# ---------------------------------------------------------------- watching processes


def until(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Wait until something holds; whether it does."""
    ends = time.monotonic() + seconds
    while not holds() and time.monotonic() < ends:
        time.sleep(0.02)
    return holds()


Process = tuple[int, str]
"""A process id, and the time of its start: together they mean one process for good."""


def descendants(pid: int) -> set[Process]:
    """The living descendants of a process, and itself."""
    children: dict[int, list[int]] = {}
    begun: dict[int, str] = {}
    for each in _pids():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{each}/stat").read_text(errors="replace").rpartition(")")[2].split()
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(each)
                begun[each] = fields[19]
    family = [pid]
    for each in family:
        family += children.get(each, [])
    return {(each, begun[each]) for each in family if each in begun}


def alive(processes: set[Process]) -> set[Process]:
    """Those that still run."""
    return {each for each in processes if each in {one for one in descendants(each[0]) if one[0] == each[0]}}


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())


class Following(threading.Thread):
    """Notes every descendant that a process ever has while it is followed."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.seen, self._done = pid, set[Process](), threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.1):
            self.seen |= descendants(self.pid)

    def stop(self) -> set[Process]:
        self._done.set()
        self.join()
        return self.seen | descendants(self.pid)

"""`ol grade`: grade a class, keep every verdict, write tables and pages, say who needs a look.

It knows options, exit codes, and how progress is shown on a terminal and in a pipe. What is graded, and how,
it does not know.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from autograder.sandbox import Sandbox
from autograder.terminal import NOT_PASSED, PASSED, AsJson, as_module, console, give_up, print_json
from course.modules import MODULES

if TYPE_CHECKING:
    from autograder.classroom.compare import Change
    from autograder.classroom.executors import Crew
    from autograder.classroom.grading_run import Progress
    from autograder.classroom.rows import Class, Result

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

EVERY_S = 5.0
"""So often a line tells of progress where there is no terminal."""


def grade(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="nbgrader's submitted/, or a folder of notebooks, one a student.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where verdicts, tables and pages go, and where a stopped run goes on.")
    ] = Path("grades"),
    module: Annotated[
        list[str] | None, typer.Option(metavar="M", help="Grade this module, and others named so.", show_default="all")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many grade at once here.", show_default="a core each")
    ] = None,
    scheduler: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Grade on the Dask cluster of this scheduler.", show_default=False)
    ] = "",
    timeout: Annotated[float, typer.Option(metavar="S", min=0.1, help="Seconds that one test may take.")] = 10.0,
    sandbox: Annotated[
        Sandbox,
        typer.Option(help="Isolate submissions with bubblewrap: if it is installed, or else don't grade, or never."),
    ] = Sandbox.AUTO,
    compare: Annotated[
        Path | None,
        typer.Option(metavar="OLD", help="The DIR of an earlier run: say whose grade changes, and why."),
    ] = None,
    as_json: AsJson = False,
    no_pages: Annotated[bool, typer.Option("--no-pages", help="Tables only, no HTML.")] = False,
) -> None:
    """Grade a class: named tests, own tests against planted bugs, who stands on whose fault.

    FOLDER holds student/module/module.ipynb, as nbgrader collects it, or notebooks
    side by side, such as alice_radix_cache.ipynb. DIR gets grades.csv, grades.json,
    class.html and a page for each student. Every verdict is kept as soon as it is
    known: a run that was stopped goes on where it was, and work that did not change
    is not graded again. Scores are in the tables; nobody's score changes the exit code:

    0 everybody is graded, 1 somebody could not be, 2 nothing was done.
    """
    from autograder.classroom import tables
    from autograder.classroom.compare import changes as changed
    from autograder.classroom.executors import NoCluster
    from autograder.classroom.grading_run import ClusterLost, Settings, grade_class
    from autograder.classroom.handed_in import NothingThere
    from autograder.classroom.store import Damaged, InUse
    from autograder.sandbox import NoSandbox

    chosen = [as_module(name) for name in module or []]
    modules = [each for each in MODULES if each in chosen] if chosen else list(MODULES)
    warn = partial(console(error=True).print, style="yellow", markup=False)
    try:
        before = tables.load(compare) if compare else None
        with _crew(scheduler, workers) as crew, _progress() as tell:
            graded = grade_class(folder, out, modules, Settings(timeout, sandbox), crew, tell, warn)
        _write(graded, out, no_pages)
    except (NothingThere, InUse, Damaged, NoSandbox, NoCluster) as problem:
        give_up(f"{str(problem).rstrip('.')}. Nothing was graded.")
    except OSError as problem:
        give_up(f"{problem.filename or out}: {problem.strerror or problem}")
    except (ClusterLost, KeyboardInterrupt) as stop:
        _say_how_to_go_on(stop, out)
        raise typer.Exit(INTERRUPTED if isinstance(stop, KeyboardInterrupt) else NOT_PASSED) from None
    changes = None if before is None else changed(before, graded)
    if as_json:
        _print_json(out, changes)
    else:
        _summary(console(), graded, out, changes, no_pages)
    raise typer.Exit(exit_code(graded))


def exit_code(graded: Class) -> int:
    """0 where everybody who handed in is graded, 1 where somebody could not be."""
    return NOT_PASSED if any(_without_verdict(graded)) else PASSED


def _without_verdict(graded: Class) -> Iterator[Result]:
    """Work that is there and has no verdict."""
    from autograder.classroom.rows import State

    yield from (each for each in graded.results if each.state in (State.NOT_GRADED, State.UNREADABLE))


# ---------------------------------------------------------------- who grades


def _crew(scheduler: str, workers: int | None) -> contextlib.AbstractContextManager[Crew]:
    from autograder.classroom import executors

    return executors.on_cluster(scheduler) if scheduler else executors.local(workers or _cores())


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ---------------------------------------------------------------- how far it is


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """Progress on standard error: a bar on a terminal, else a line every few seconds."""
    from rich.progress import BarColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as Bar

    out = console(error=True)
    if not out.is_terminal:
        yield Lines(out).tell
        return
    with Bar(SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), console=out, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda far: bar.update(task, description=in_words(far), completed=far.modules_done, total=far.modules)


class Lines:
    """Progress in plain lines, not too many of them."""

    def __init__(self, out: Console) -> None:
        self._out, self._last = out, time.monotonic()

    def tell(self, far: Progress) -> None:
        """Print a line, if the last one was a while ago."""
        if time.monotonic() - self._last >= EVERY_S:
            self._last = time.monotonic()
            self._out.print(in_words(far), markup=False)


def in_words(far: Progress) -> str:
    """How far a class is, in a line."""
    left = f" · {about(far.left_s)} left" if far.left_s else ""
    return f"students {far.students_done} of {far.students} · modules {far.modules_done} of {far.modules}{left}"


def about(seconds: float) -> str:
    """Seconds, as exactly as they can be foretold."""
    if seconds < 90:
        return f"about {max(round(seconds), 1)} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


# ---------------------------------------------------------------- what is said at the end


def _write(graded: Class, out: Path, no_pages: bool) -> None:
    from autograder.classroom import tables

    tables.write(graded, out)
    if not no_pages:
        from autograder.classroom import pages

        pages.write(graded, out)


def _print_json(out: Path, changes: Sequence[Change] | None) -> None:
    from autograder.classroom import compare

    data = json.loads((out / "grades.json").read_text(encoding="utf-8"))
    print_json(data if changes is None else {**data, "changes": compare.as_data(changes)})


def _summary(to: Console, graded: Class, out: Path, changes: Sequence[Change] | None, no_pages: bool) -> None:
    """How many there are of each kind, who could not be graded and why, what changes, and where everything is."""
    from autograder.classroom import compare
    from autograder.classroom.printable import printable
    from autograder.classroom.rows import State
    from autograder.report import plural

    states = Counter(each.state for each in graded.results)
    counted = ", ".join(f"{states[state]} {state}" for state in State if states[state])
    students = plural(len(list(graded.students())), "student")
    to.print(f"{printable(graded.name)}: {students}, {counted}.", markup=False, soft_wrap=True)
    for each in _without_verdict(graded):
        why = f": {each.notes[-1]}" if each.notes else "."
        to.print(f"  {printable(each.student)}, {each.module} {each.state.value}{why}", markup=False, soft_wrap=True)
    if changes is not None:
        to.print(compare.shown(changes))
    pages = "" if no_pages else f"{out / 'class.html'} shows the class; "
    to.print(f"{pages}{out / 'grades.csv'} and {out / 'grades.json'} have every point.", markup=False, soft_wrap=True)


def _say_how_to_go_on(stop: BaseException, out: Path) -> None:
    why = f": {str(stop).rstrip('.')}" if str(stop) else ""
    console(error=True).print(
        f"ol: stopped{why}. What is known by now is kept in {out / 'verdicts.jsonl'}: "
        "the same command goes on from there.",
        markup=False,
        soft_wrap=True,
    )

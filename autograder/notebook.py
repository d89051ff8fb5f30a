"""What runs in a student's own notebook: checks on the class being written, and the score of their own tests.

It knows the kernel it runs in and the module that the notebook is about. Named tests and planted bugs
are run as they are everywhere else; nothing that is decided here is a mark: marks are made where the
submission can't reach the verdict.
"""

from __future__ import annotations

import difflib
import json
import linecache
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from autograder import own_tests, views
from autograder.catalogue import NamedTest, catalogue
from autograder.diagnosis import diagnose
from autograder.implementations import flat, flat_below
from autograder.own_work import lend_to_the_engine
from autograder.replay import picture
from autograder.report import looks_like
from autograder.room.answering import Answerer
from autograder.room.errors import NOT_A_STUDENTS, students_frame
from autograder.room.proxies import remote
from autograder.running import Verdict, run_named
from autograder.scoring import bugs_at_hand
from autograder.subject import Subject, subject_of
from autograder.views import Ending, Place
from course import modules
from course.modules import Module
from course.pictures import Picture

Space = MutableMapping[str, Any]
Check = str | Callable[[Subject], None]


@dataclass(frozen=True)
class Session:
    """What a notebook is about, and the namespace its cells share."""

    module: Module
    space: Space = field(repr=False)

    @property
    def subject(self) -> Subject:
        """The student's code as it stands now, over what the course lends, behind the codec of the rooms.

        So a check in the notebook and the grader see the same values, and come to the same verdict.
        """
        real = subject_of(self.module, self.space, flat_below(self.module), "notebook")
        answerer = Answerer(real.names, place=_theirs, in_room=False)
        ask = partial(_answered, answerer)
        return replace(real, names=remote(real.names, ask, adds=self.module.adds))


def _answered(answerer: Answerer, request: dict[str, Any]) -> dict[str, Any]:
    """A request answered, both ways over a wire."""
    return _as_sent(answerer.answer(_as_sent(request)))


def _as_sent(message: dict[str, Any]) -> dict[str, Any]:
    """A message as it comes out at the other end of a wire."""
    sent: dict[str, Any] = json.loads(json.dumps(message))
    return sent


def _theirs(filename: str) -> str | None:
    """The file name of a student's own code, so that its lines can be shown; nothing for other code."""
    return None if filename.startswith(NOT_A_STUDENTS) else filename


class CheckFailed(AssertionError):
    """A check that a notebook's code does not pass: the cell fails too, whoever runs it."""

    def _render_traceback_(self) -> list[str]:
        # what is wrong is shown above; a traceback through the autograder would only hide it
        return [f"{type(self).__name__}: {self}"]


_sessions: list[Session] = []


# ---------------------------------------------------------------- the first cell


def begin(module: str, space: Space | None = None) -> None:
    """Say which module this notebook is about; lend what it stands on, where nothing is bound yet.

    The engine of `course.lab` is lent every module, so that it can be watched before there is any of one's own.

    Args:
        module: a module id such as "L8.4".
        space: the cells' namespace; by default the running kernel's.
    """
    found = modules.find(module)
    lent = {name: value for name, value in flat_below(found).items() if not modules.is_bound(name)}
    modules.bind(lent)
    lend_to_the_engine()
    _sessions[:] = [Session(found, _kernels_space() if space is None else space)]
    _show(views.ready(found, tuple(lent)))


def lend(name: str) -> Any:
    """A finished implementation of this module's class, to look at before there is one of your own."""
    names = flat(_session().module).names
    if name not in names:
        raise KeyError(f"there is no {name} to lend here; there are {', '.join(names)}")
    return names[name]


def _kernels_space() -> Space:
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        raise RuntimeError("this is no notebook: pass the namespace that holds your code, begin(module, globals())")
    space: Space = shell.user_ns
    return space


def _session() -> Session:
    if not _sessions:
        raise RuntimeError('run the first cell, the one with begin("..."), before this one')
    return _sessions[0]


def _show(view: Picture) -> None:
    from IPython.display import display

    display(view)  # type: ignore[no-untyped-call]


# ---------------------------------------------------------------- predict, then see


def compare(guess: Any, answer: Any) -> None:
    """Show the answer beside a guess; None and ... are no guess."""
    _show(views.guessed(guess if guess is not ... else None, answer))


# ---------------------------------------------------------------- checks


def show_tests() -> None:
    """Show the module's named tests: what each checks, and why it matters."""
    module = _session().module
    _show(views.table_of_tests(module, catalogue(module)))


def check(*checks: Check) -> None:
    """Check the class in this notebook.

    Args:
        checks: names of named tests, or functions of a cell that take the code under test.

    Raises:
        CheckFailed: at least one does not pass; what is wrong is shown first.
        KeyError: there is no named test of that name.
    """
    session = _session()
    endings = [_ending(_found(wanted, session.module), session.subject) for wanted in checks]
    verdicts = [ending.verdict for ending in endings]
    _show(views.report(endings, looks_like(diagnose(session.module, verdicts) if len(checks) > 1 else ())))
    if failed := [verdict for verdict in verdicts if not verdict.passed]:
        raise CheckFailed(_headline(failed, len(endings)))


def replay(test: str) -> None:
    """Show the shortest failing story of a named test call by call, and the tree or the pool where it goes wrong.

    Args:
        test: the name of a named test.

    Raises:
        KeyError: there is no named test of that name.
    """
    session = _session()
    verdict = _ending(_found(test, session.module), session.subject).verdict
    _show(views.no_story(verdict) if verdict.story is None else picture(verdict.test, verdict.story))


def _found(wanted: Check, module: Module) -> NamedTest:
    if not isinstance(wanted, str):
        return NamedTest(wanted.__name__, "step", (wanted.__doc__ or "").strip(), "", wanted)
    tests = {test.name: test for test in catalogue(module)}
    if wanted not in tests:
        close = difflib.get_close_matches(wanted, tests, 1)
        raise KeyError(f"{module.id} has no test {wanted!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
    return tests[wanted]


def _ending(test: NamedTest, subject: Subject) -> Ending:
    """A test's verdict, and where in the notebook an exception that ended it came from."""
    raised: list[BaseException] = []

    def body(subject: Subject) -> None:
        try:
            test.run(subject)
        except BaseException as error:
            raised.append(error)
            raise

    verdict = run_named(replace(test, run=body), subject)
    if not raised:
        return Ending(verdict)
    return Ending(_about_stub(verdict, raised[0]), _place(raised[0].__cause__ or raised[0]))


def _about_stub(verdict: Verdict, error: BaseException) -> Verdict:
    """A stub names the step that is to be written: that is all there is to say."""
    if isinstance(error, NotImplementedError) and str(error):
        return replace(verdict, message=f"Not written yet: {error}.")
    return verdict


def _place(error: BaseException) -> Place | None:
    filename, number, _ = getattr(error, "at", None) or (None, 0, "")
    if filename is None:
        frame = students_frame(error.__traceback__)
        if frame is None or frame.lineno is None:
            return None
        filename, number = frame.filename, frame.lineno
    return Place(number, tuple(line.rstrip("\n") for line in linecache.getlines(filename)))


def _headline(failed: list[Verdict], total: int) -> str:
    rule = failed[0].message.split("\n")[0]
    count = f"{len(failed)} of {total} checks fail, first {failed[0].test}" if total > 1 else failed[0].test
    return f"{count}: {rule}"


# ---------------------------------------------------------------- the student's own tests


class Points(float):
    """Points of a cell. Their text form is the bare number: nbgrader reads it as partial credit."""

    def __new__(cls, value: float, most: float) -> Points:
        """Points, and how many there are at most."""
        points = super().__new__(cls, round(value, 2))
        points.most = most
        return points

    most: float

    def _repr_html_(self) -> str:
        return f"{self:g} of {self.most:g} points"


def score_own_tests(points: float = 20) -> Points:
    """Run the tests in this notebook against right implementations and against planted bugs.

    Returns:
        The part of `points` that these tests earn: all of them from the share of planted bugs that is needed.

    Raises:
        CheckFailed: the tests are not valid: there are none, or a right implementation fails one.
    """
    session = _session()
    score = own_tests.score(session.module, own_tests.suite_in(session.space))
    _show(views.bug_score(session.module, bugs_at_hand(session.module), score))
    if not score.valid:
        raise CheckFailed(score.reason.split("\n")[0])
    return Points(points * score.credit, points)

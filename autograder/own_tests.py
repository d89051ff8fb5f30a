"""Running a student's own tests with pytest, in this process, over one implementation after another.

It knows pytest: one session collects the tests from a namespace, and then runs them all once for each
implementation, with the contract's names rebound in that namespace. Fixtures, marks, `raises` and
hypothesis work as they always do. What the results mean it does not know.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import os
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from _pytest.runner import runtestprotocol

from autograder import scoring
from autograder.running import explained
from autograder.scoring import Did, OwnScore, Ran, Round
from course import modules
from course.modules import Module

EXAMPLES = 30
"""Examples a hypothesis test draws for each implementation: there are many, and they are drawn alike for all."""

OPTIONS = (
    *("--disable-plugin-autoload", "-p", "_hypothesis_pytestplugin"),
    *("-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:logging"),
    *("-p", "no:warnings", "-p", "no:unraisableexception", "-p", "no:threadexception"),
    *("-c", os.devnull, "--noconftest", "--capture=no"),
)
"""pytest alone: nothing that lies beside a submission is read, and nothing is printed."""


Make = Callable[[], Mapping[str, Any]]
"""Gives the names of an implementation when its turn comes."""


@dataclass(frozen=True)
class Suite:
    """A student's tests: the functions `test_*` of a namespace that also holds what they use."""

    space: MutableMapping[str, Any] = field(repr=False)

    @property
    def tests(self) -> tuple[str, ...]:
        """The names of the functions and classes that pytest will collect, as they were defined."""
        return tuple(name for name, value in self.space.items() if _is_test(name, value))

    @property
    def seed(self) -> str:
        """A number made from the tests' own text: the same suite meets implementations in the same order."""
        text = "".join(name + _source(self.space[name]) for name in self.tests)
        return hashlib.sha256(text.encode()).hexdigest()

    def run(self, names: Mapping[str, Any]) -> tuple[Ran, ...]:
        """Every test once, with these names standing for the implementation."""
        return self.play([("", lambda: names)])[0].ran

    def play(
        self,
        implementations: Iterable[tuple[str, Make]],
        tell: Callable[[str, str], None] = lambda implementation, test: None,
        enough: Callable[[Round], bool] = lambda round: False,
    ) -> list[Round]:
        """One round for each implementation, in this order; the first should be a correct one.

        A later round ends at the first failure of a test that passed in the first round: that settles it.

        Args:
            implementations: what to call each, and how to get its names.
            tell: hears (implementation, test) before each test runs.
            enough: hears each round when it is over; True ends the whole run.

        Raises:
            SuiteBroken: pytest can't collect the tests, and why.
        """
        session = _Session(self, implementations, tell, enough)
        if self.tests:
            quiet = io.StringIO()
            with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
                session.result = pytest.main([*OPTIONS, f"--rootdir={os.getcwd()}"], plugins=[session])
            session.check()
            return session.rounds
        for name, _ in implementations:
            session.rounds.append(Round(name, ()))
            if enough(session.rounds[-1]):
                break
        return session.rounds


class SuiteBroken(Exception):
    """The tests can't be collected at all; the message says why."""


def suite_in(space: MutableMapping[str, Any]) -> Suite:
    """The tests in a namespace: a notebook's, or a file's."""
    return Suite(space)


def score(
    module: Module, suite: Suite, tell: Callable[[str, str], None] = lambda implementation, test: None
) -> OwnScore:
    """What a suite is worth, measured in this process: no time limit holds here.

    Args:
        module: whose contract the tests are written against.
        suite: the student's tests.
        tell: hears (implementation, test) before each test runs.
    """
    try:
        rounds = suite.play(turns(module, scoring.order(module, suite.seed)), tell, scoring.hopeless)
    except SuiteBroken as problem:
        return OwnScore(False, str(problem))
    return scoring.judge(module, rounds)


def turns(module: Module, names: Iterable[str]) -> list[tuple[str, Make]]:
    """The implementations of these names, each made when its turn comes."""
    return [(name, lambda name=name: scoring.implementation(module, name).names) for name in names]  # type: ignore[misc]


def _is_test(name: str, value: Any) -> bool:
    return (name.startswith("test") and callable(value)) or (name.startswith("Test") and inspect.isclass(value))


def _source(test: Any) -> str:
    inner = getattr(getattr(test, "hypothesis", None), "inner_test", test)
    try:
        return inspect.getsource(inner)
    except (OSError, TypeError):
        return ""


@contextlib.contextmanager
def swapped(space: MutableMapping[str, Any], names: Mapping[str, Any]) -> Iterator[None]:
    """Let these names stand for an implementation in a namespace and in `course.modules`, then as before."""
    before = {name: space[name] for name in names if name in space}
    space.update(names)
    try:
        with modules.bound(names):
            yield
    finally:
        for name in names:
            space.pop(name, None)
        space.update(before)


# ---------------------------------------------------------------- inside the session


@dataclass
class _Session:
    """A pytest plugin that collects from memory and runs every test once an implementation."""

    suite: Suite
    implementations: Iterable[tuple[str, Make]]
    tell: Callable[[str, str], None]
    enough: Callable[[Round], bool]
    rounds: list[Round] = field(default_factory=list)
    result: int = 0
    problem: str = ""
    crash: BaseException | None = None
    errors: dict[str, BaseException] = field(default_factory=dict)

    def check(self) -> None:
        """Say why there was no run; pass on an error of our own, and an interrupt."""
        if self.problem:
            raise SuiteBroken(self.problem)
        if self.crash is not None:
            raise self.crash
        if self.result == pytest.ExitCode.INTERRUPTED:
            raise KeyboardInterrupt

    def pytest_collection(self, session: pytest.Session) -> bool:
        space = types.ModuleType("own_tests")
        vars(space).update(self.suite.space)
        module = _Memory.from_parent(session, path=Path.cwd() / "own_tests.py")
        module.space = space
        # Examples before properties: they are quick, and a catch ends a round.
        session.items = sorted(session.genitems(module), key=lambda item: calm(_function(item)))
        session.testscollected = len(session.items)
        return True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.problem = str(report.longrepr)

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> bool:
        self.crash = excinfo.value
        return True

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None:
            self.errors.setdefault(item.name, call.excinfo.value)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for implementation, make in self.implementations:
            if self.problem or self._round(session.items, implementation, make()):
                break
        return True

    def _round(self, items: list[pytest.Item], implementation: str, names: Mapping[str, Any]) -> bool:
        start, ran = time.perf_counter(), list[Ran]()
        with swapped(self.suite.space, names):
            for item in items:
                ran.append(self._run(item, implementation))
                if ran[-1].did is Did.FAILED and self.rounds and ran[-1].test in self.rounds[0].passed:
                    break
        self.rounds.append(Round(implementation, tuple(ran), time.perf_counter() - start))
        return self.enough(self.rounds[-1])

    def _run(self, item: pytest.Item, implementation: str) -> Ran:
        self.tell(implementation, item.name)
        self.errors.clear()
        if hasattr(item, "_initrequest"):
            item._initrequest()  # as pytest does once for each item: fixtures are made anew in every round
        try:
            reports = runtestprotocol(item, log=False, nextitem=None)
        except pytest.exit.Exception as exit_:
            item.session._setupstate.teardown_exact(None)
            return Ran(item.name, Did.FAILED, f"The test asked pytest to exit: {exit_}")
        outcomes = {report.outcome for report in reports}
        if "failed" in outcomes:
            return Ran(item.name, Did.FAILED, _told(self.errors.get(item.name)))
        return Ran(item.name, Did.SKIPPED if "skipped" in outcomes else Did.PASSED)


class _Memory(pytest.Module):
    """A test file that is a namespace, not a file."""

    space: types.ModuleType

    def _getobj(self) -> types.ModuleType:
        return self.space


def _function(item: pytest.Item) -> Any:
    test = getattr(item, "obj", None)
    return getattr(test, "__func__", test)


def calm(test: Any) -> bool:
    """Let a hypothesis test draw few examples, the same each time, keep nothing and hurry nobody.

    Returns:
        Whether it is a hypothesis test.
    """
    wanted = getattr(test, "_hypothesis_internal_use_settings", None)
    if wanted is None:
        return False
    test._hypothesis_internal_use_settings = hypothesis.settings(
        wanted,
        max_examples=min(wanted.max_examples, EXAMPLES),
        derandomize=True,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    return True


def _told(error: BaseException | None) -> str:
    if error is None:
        return "failed"
    notes = [line for note in getattr(error, "__notes__", ()) for line in note.splitlines()]
    return "\n".join([explained(error), *notes])

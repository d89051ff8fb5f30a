"""pytest over the functions of a namespace: set up once, run as often as is wanted, in this process.

It knows pytest and hypothesis. Fixtures, marks, `raises` and properties work as they always do. What
the names in the namespace stand for, and what the results mean, it does not know.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import tempfile
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from _pytest.config import Config, _prepareconfig
from _pytest.runner import runtestprotocol
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.internal.cache import LRUCache
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from autograder.room.errors import explained

EXAMPLES = 20
"""Examples a hypothesis test draws for each implementation: there are many, and they are drawn alike for all."""

OPTIONS = (
    *("--disable-plugin-autoload", "-p", "_hypothesis_pytestplugin"),
    *("-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:logging"),
    *("-p", "no:warnings", "-p", "no:unraisableexception", "-p", "no:threadexception"),
    *("-c", os.devnull, "--noconftest", "--capture=no", "--assert=plain"),
)
"""pytest alone: nothing that lies beside a submission is read, and nothing is printed."""

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class SuiteBroken(Exception):
    """The tests can't be collected at all; the message says why."""


class Runner:
    """One pytest session, which collects from memory and runs each test when it is asked to."""

    def __init__(self) -> None:
        """Set pytest up. What it takes from files and the environment it takes now."""
        self.config: Config = _prepareconfig([*OPTIONS, f"--rootdir={os.getcwd()}"], [self])
        self.config.option.tbstyle = "no"  # nobody reads pytest's own tracebacks, and they take long to write
        self.config._do_configure()
        self.session = pytest.Session.from_config(self.config)
        self.config.hook.pytest_sessionstart(session=self.session)
        self._problem = ""
        self._errors: dict[str, BaseException] = {}

    def collect(self, space: Mapping[str, Any]) -> list[pytest.Item]:
        """The tests of a namespace: examples before properties, since they are quick.

        Raises:
            SuiteBroken: pytest can't collect them, and why.
        """
        self._problem = ""
        module = types.ModuleType("own_tests")
        vars(module).update(space)
        memory = _Memory.from_parent(self.session, path=Path.cwd() / "own_tests.py")
        memory.space = module
        items = sorted(self.session.genitems(memory), key=lambda item: calm(_function(item)))
        if self._problem:
            raise SuiteBroken(self._problem)
        return items

    def run(self, item: pytest.Item) -> tuple[str, str]:
        """Run one test: passed, failed or skipped, and why it failed."""
        self._errors.clear()
        if hasattr(item, "_initrequest"):
            item._initrequest()  # as pytest does once for each item: fixtures are made anew each time
        try:
            with _no_constants_of_files():
                reports = runtestprotocol(item, log=False, nextitem=None)
        except pytest.exit.Exception as exit_:
            self.session._setupstate.teardown_exact(None)
            return FAILED, f"The test asked pytest to exit: {exit_}"
        outcomes = {report.outcome for report in reports}
        if "failed" in outcomes:
            return FAILED, _told(self._errors.get(item.name))
        return (SKIPPED if "skipped" in outcomes else PASSED), ""

    def close(self) -> None:
        """Take pytest down; temporary folders of passed tests go."""
        self.config.hook.pytest_sessionfinish(session=self.session, exitstatus=pytest.ExitCode.OK)
        self.config._ensure_unconfigure()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why something could not be collected."""
        if report.failed:
            self._problem = str(report.longrepr)

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Keep the first error of a test."""
        if call.excinfo is not None:
            self._errors.setdefault(item.name, call.excinfo.value)


@contextlib.contextmanager
def nothing_kept() -> Iterator[None]:
    """Let hypothesis keep nothing of what it works out in this block, where it usually would: in the current folder."""
    with tempfile.TemporaryDirectory() as folder:
        set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            set_hypothesis_home_dir(None)


_constants: LRUCache[Any, Any] = LRUCache(1024)


@contextlib.contextmanager
def _no_constants_of_files() -> Iterator[None]:
    """Keep hypothesis from drawing constants that it finds in the source files of a program.

    They differ from place to place, where draws are to be alike, and to find them takes half a second.
    """
    before = providers._get_local_constants, providers.CONSTANTS_CACHE
    providers._get_local_constants, providers.CONSTANTS_CACHE = Constants, _constants
    try:
        yield
    finally:
        providers._get_local_constants, providers.CONSTANTS_CACHE = before


def is_test(name: str, value: Any) -> bool:
    """Whether pytest will look for tests here."""
    return (name.startswith("test") and callable(value)) or (name.startswith("Test") and inspect.isclass(value))


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

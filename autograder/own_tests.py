"""Running a student's own tests with pytest, in this process, over one implementation after another.

It knows how the contract's names are rebound in the tests' namespace for each implementation, and when a
round is over. The tests see stand-ins, as they do in a room, so that verdicts agree. What results mean
this file does not know.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from autograder import scoring, serving
from autograder.room.pytests import EXAMPLES, Runner, SuiteBroken, is_test
from autograder.scoring import Did, OwnScore, Ran, Round
from course import modules
from course.modules import Module

__all__ = ["EXAMPLES", "Make", "Suite", "SuiteBroken", "score", "suite_in", "swapped", "turns"]

Make = Callable[[], Mapping[str, Any]]
"""Gives the names of an implementation when its turn comes."""


@dataclass(frozen=True)
class Suite:
    """A student's tests: the functions `test_*` of a namespace that also holds what they use."""

    space: MutableMapping[str, Any] = field(repr=False)

    @property
    def tests(self) -> tuple[str, ...]:
        """The names of the functions and classes that pytest will collect, as they were defined."""
        return tuple(name for name, value in self.space.items() if is_test(name, value))

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
        rounds: list[Round] = []
        with _quiet(), _running() as runner:
            items = runner.collect(self.space)
            for name, make in implementations:
                rounds.append(self._round(runner, items, name, make(), rounds[0] if rounds else None, tell))
                if enough(rounds[-1]):
                    break
        return rounds

    def _round(
        self,
        runner: Runner,
        items: list[pytest.Item],
        implementation: str,
        names: Mapping[str, Any],
        first: Round | None,
        tell: Callable[[str, str], None],
    ) -> Round:
        start, ran = time.perf_counter(), list[Ran]()
        with swapped(self.space, names):
            for item in items:
                tell(implementation, item.name)
                did, why = runner.run(item)
                ran.append(Ran(item.name, Did(did), why))
                if did == Did.FAILED and first and item.name in first.passed:
                    break
        return Round(implementation, tuple(ran), time.perf_counter() - start)


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
    """The implementations of these names, each made when its turn comes, and seen through the contract's surface."""

    def make(name: str) -> Make:
        return lambda: serving.surface(scoring.implementation(module, name).names)

    return [(name, make(name)) for name in names]


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


@contextlib.contextmanager
def _running() -> Iterator[Runner]:
    runner = Runner()
    try:
        yield runner
    finally:
        runner.close()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        yield

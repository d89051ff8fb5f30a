"""Plays a test file as a student's own tests of the radix cache in a room, on a few implementations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autograder import own_rooms, scoring
from autograder.reading import Cell, Role, Submission
from autograder.sandbox import Sandbox
from autograder.scoring import FLAT, REFERENCE, OwnScore, Round
from autograder.work import Limits, Remarks, Work
from course import modules
from course.modules import Module

MODULE = modules.find("L8.4")
FEW = (REFERENCE, "s01", FLAT, "m02", REFERENCE)
"""Two planted bugs among right code: enough to tell whether a suite gets what it does not deserve."""

IMPORTS = "import pytest\nfrom hypothesis import given, strategies as st\nfrom course.modules import RadixCache\n"

HONEST = """
def test_last_token():
    cache = RadixCache(2)
    cache.insert([1, 2, 3, 4], [10, 11])
    assert cache.match_prefix([1, 2, 3, 4]).blocks == (10,)
def test_cached_tokens():
    cache = RadixCache(2)
    cache.insert([1, 2, 3, 4], [10, 11])
    assert cache.cached_tokens == 4
"""
"""Catches both of the few."""


def submission(source: str, module: Module = MODULE) -> Submission:
    """A notebook whose only cell holds these tests."""
    return Submission(module, "own.ipynb", (Cell(Role.OWN_TESTS, source, "own.ipynb, cell 1"),))


def solution(module: Module) -> Submission:
    """The tests that come with a module's reference."""
    path = Path(__file__).parent.parent / "solutions" / "tests" / f"test_{module.name}.py"
    cell = Cell(Role.OWN_TESTS, path.read_text(encoding="utf-8"), path.name)
    return Submission(module, f"{module.name}.py", (cell,), is_notebook=False)


def play(
    work: Submission, order: Sequence[str] = FEW, limits: Limits | None = None, sandbox: Sandbox = Sandbox.AUTO
) -> tuple[list[Round], Remarks]:
    """The rounds as grading takes them, and what the cells raised."""
    remarks, rounds = Remarks(), list[Round]()
    for round_ in own_rooms.rounds(Work(work, limits or Limits()), order, remarks, sandbox):
        rounds.append(round_)
        if scoring.hopeless(round_):
            break
    return rounds, remarks


def score(source: str, order: Sequence[str] = FEW, limits: Limits | None = None) -> OwnScore:
    """What a suite is worth on these implementations; bugs that are not among them are missed."""
    limits = limits or Limits()
    rounds, _ = play(submission(IMPORTS + source), order, limits)
    return scoring.judge(MODULE, rounds, limits.test_s)

"""The named tests of the radix tree against everything they are meant to tell apart.

They pass on the reference and on the flat model, fail on a stub, and catch the planted bugs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from autograder.catalogue import NamedTest, catalogue
from autograder.implementations import SOLUTIONS, buggy, flat, reference
from autograder.own_tests import score, suite_in
from autograder.planted import PlantedBug, planted_bugs
from autograder.subject import Subject
from course.modules import bound, find
from tests.matrix import passes, stub

MODULE = find("ds.07")
TESTS = {test.name: test for test in catalogue(MODULE)}
BUGS = planted_bugs(MODULE)
PAIRS = [(bug, name) for bug in BUGS for name in bug.caught_by]


@pytest.fixture
def small_recursion_limit() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
@pytest.mark.parametrize("subject", [reference(MODULE), flat(MODULE)], ids=lambda subject: subject.label)
def test_right_implementations_pass(subject: Subject, test: NamedTest) -> None:
    assert passes(test, subject) == ""


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
def test_a_stub_fails(test: NamedTest) -> None:
    assert passes(test, stub(MODULE, {})) != ""


@pytest.mark.parametrize(("bug", "name"), PAIRS, ids=[f"{bug.id}-{name}" for bug, name in PAIRS])
def test_a_bug_is_caught_where_it_should_be(bug: PlantedBug, name: str) -> None:
    assert passes(TESTS[name], buggy(MODULE, bug)) != "", f"{name} passes with the bug: {bug.title}"


def test_every_bug_is_caught_and_every_test_catches_one() -> None:
    assert all(bug.caught_by for bug in BUGS)
    assert {name for bug in BUGS for name in bug.caught_by} == set(TESTS)


@pytest.mark.usefixtures("small_recursion_limit")
@pytest.mark.parametrize("subject", [reference(MODULE), flat(MODULE)], ids=lambda subject: subject.label)
def test_5000_nested_prompts_at_recursion_limit_1000(subject: Subject) -> None:
    tokens = [1] * 5_000
    tree = subject.RadixTree(1)
    node = tree.insert(tokens, tokens).node
    for n in range(len(tokens) - 1, 0, -1):
        tree.insert(tokens[:n], tokens[:n])
    tree.lock(node)
    assert (tree.n_nodes, tree.n_evictable) == (5_000, 0)
    tree.unlock(node)
    assert tree.match_prefix(tokens).n_tokens == len(list(tree.walk())) == len(tree.evict(5_000)) == 5_000


# ---------------------------------------------------------------- the solution's own tests


def test_the_solution_of_the_own_tests_catches_every_bug() -> None:
    space: dict[str, Any] = {"__name__": "own_tests"}
    source = (SOLUTIONS / "tests" / "test_radix_tree.py").read_text(encoding="utf-8")
    with bound(reference(MODULE).names):
        exec(compile(source, "own_tests", "exec"), space)
    result = score(MODULE, suite_in(space))
    assert (result.valid, result.reason, result.missed) == (True, "", ())
    assert set(result.caught) == {bug.id for bug in BUGS}

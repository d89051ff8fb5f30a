"""The named tests of L10.1 and its planted bugs, each held against the other, and the block-hash vectors' file."""

from __future__ import annotations

import json
import random
import runpy
from typing import Any

import pytest
from hypothesis import Phase, is_hypothesis_test, settings

from autograder.catalogue import NamedTest, catalogue
from autograder.implementations import SOLUTIONS, buggy, flat, reference
from autograder.judging_kv_pool import like_the_flat_pool, pool_story
from autograder.planted import PlantedBug, planted_bugs
from autograder.stories import Outcome, Script, play
from autograder.subject import Subject
from autograder.tests.test_kv_pool import STORIES, VECTORS
from course.contract import PoolExhausted
from course.modules import bound, find
from tests.matrix import passes, stub

MODULE = find("L10.1")
TESTS = {test.name: test for test in catalogue(MODULE)}
BUGS = {bug.id: bug for bug in planted_bugs(MODULE)}
FLAT = flat(MODULE).names

each_test = pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
each_bug = pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
right_ones = pytest.mark.parametrize("subject", [reference(MODULE), flat(MODULE)], ids=["reference", "flat"])


@each_test
@right_ones
def test_right_implementations_pass(subject: Subject, test: NamedTest) -> None:
    assert passes(test, subject) == ""


@each_test
def test_a_stub_fails(test: NamedTest) -> None:
    assert passes(test, stub(MODULE, {}))


CAUGHT = {f"{bug.id}-{name}": (bug, name) for bug in BUGS.values() for name in bug.caught_by}


@pytest.mark.parametrize("bug, name", CAUGHT.values(), ids=CAUGHT)
def test_a_bug_is_caught_where_it_should_be(bug: PlantedBug, name: str) -> None:
    assert passes(TESTS[name], buggy(MODULE, bug))


def test_every_bug_is_caught_and_every_test_catches_one() -> None:
    assert all(bug.caught_by for bug in BUGS.values())
    assert {name for bug in BUGS.values() for name in bug.caught_by} == set(TESTS)


# ---------------------------------------------------------------- the freedom that a pool has


def shuffled_pool(seed: int) -> dict[str, Any]:
    """A flat pool that hands out free blocks as chance has it, and the blocks of one alloc in any order."""
    chance = random.Random(seed)
    plain_pool: Any = FLAT["KvPool"]

    class Shuffled(plain_pool):  # type: ignore[misc]
        def alloc(self, n: int) -> list[int]:
            if not 0 <= n <= self.n_free + self.n_cached:
                raise PoolExhausted(n, self.n_free + self.n_cached) if n > 0 else ValueError(n)
            spare: list[int] = super().alloc(max(n, self.n_free))
            chance.shuffle(spare)
            for block in spare[n:]:
                self.release(block)
            return spare[:n]

    return {**FLAT, "KvPool": Shuffled}


@pytest.mark.parametrize("seed", range(5))
def test_any_choice_among_free_blocks_is_accepted(seed: int) -> None:
    subject = Subject(MODULE, shuffled_pool(seed), "shuffled")
    assert {name: message for name, test in TESTS.items() if (message := passes(test, subject))} == {}


@pytest.mark.parametrize("given", [[0, 0], [0], [0, 3], [0, True], (0, 1), None])
def test_what_is_no_choice_among_free_blocks_is_a_fault(given: object) -> None:
    script = Script()
    script.ask(script.new("KvPool", 3, 1), "alloc", 2)
    fault = like_the_flat_pool(FLAT, "rule")(script.story, (Outcome(made="KvPool"), Outcome(value=given)))
    assert fault is not None
    assert fault.expected == "2 of the free blocks [0, 1, 2]"


def test_the_stories_meet_every_kind_of_call() -> None:
    """Else the rules they are to hold would not show in them."""
    by_verb: dict[str, list[Outcome]] = {}
    for n_blocks, block_size, seed in STORIES:
        story = pool_story(FLAT, n_blocks, block_size, seed, steps=150)
        for call, outcome in zip(story, play(story, FLAT), strict=True):
            by_verb.setdefault(call.verb, []).append(outcome)
    for verb in ("retain", "release", "set_fill", "register"):
        assert {outcome.raised for outcome in by_verb[verb]} == {"", "BlockStateError"}, verb
    assert {outcome.raised for outcome in by_verb["alloc"]} == {"", "PoolExhausted"}
    assert {outcome.value for outcome in by_verb["register"]} == {True, False, None}
    assert len({outcome.value for outcome in by_verb["lookup"]}) > 2
    assert by_verb["evictions"][-1].value > 5


def test_one_seed_gives_one_story() -> None:
    assert pool_story(FLAT, 5, 2, 1, 100) == pool_story(FLAT, 5, 2, 1, 100) != pool_story(FLAT, 5, 2, 2, 100)


@pytest.mark.parametrize("name", [0, 1, 2**64 - 1])
@right_ones
def test_a_pool_takes_any_name(subject: Subject, name: int) -> None:
    """kv_block_hash never gives 0, but a student's own test may."""
    pool = subject.KvPool(2, 1)
    (block,) = pool.alloc(1)
    pool.set_fill(block, 1)
    assert pool.register(block, name) is True
    assert (pool.register(block, name), pool.register(block, 7)) == (False, False)
    pool.release(block)
    assert (pool.n_cached, pool.n_named, pool.find(name), pool.lookup(name)) == (1, 1, block, block)


# ---------------------------------------------------------------- block-hash vectors


def test_the_vectors_are_what_their_script_writes() -> None:
    script = runpy.run_path(str(VECTORS.with_name("write_block_hash_vectors.py")))
    assert script["FILE"] == VECTORS
    assert VECTORS.read_text(encoding="utf-8") == script["text"]()


def test_the_vectors_script_hashes_as_fnv_says() -> None:
    """Two of the test vectors that FNV's authors publish."""
    fnv1a = runpy.run_path(str(VECTORS.with_name("write_block_hash_vectors.py")))["fnv1a"]
    assert (fnv1a(b""), fnv1a(b"a"), fnv1a(b"foobar")) == (0xCBF29CE484222325, 0xAF63DC4C8601EC8C, 0x85944171F73967E8)


def test_the_vectors_hold_the_rule_of_0_and_the_largest_ids() -> None:
    vectors = json.loads(VECTORS.read_text(encoding="utf-8"))
    assert sum(vector["name"] == 1 for vector in vectors) == 3
    assert any(2**32 - 1 in vector["tokens"] for vector in vectors)
    assert any(vector["parent"] == 2**64 - 1 for vector in vectors)
    assert {0, 1, 4, 16} <= {len(vector["tokens"]) for vector in vectors}


# ---------------------------------------------------------------- the tests that a good student would write

FEW = settings(derandomize=True, database=None, deadline=None, max_examples=40, phases=[Phase.generate])
"""The same examples each time, and no shrinking: only the verdict matters."""


def own_tests_that_fail(subject: Subject) -> list[str]:
    with bound(subject.names):
        names: dict[str, Any] = {"__name__": "own_tests"}
        exec(compile((SOLUTIONS / "tests" / "test_kv_pool.py").read_text(encoding="utf-8"), "own_tests", "exec"), names)
    own = {name: body for name, body in names.items() if name.startswith("test_")}
    return [name for name, body in own.items() if fails(FEW(body) if is_hypothesis_test(body) else body)]


def fails(body: Any) -> bool:
    try:
        body()
    except (Exception, pytest.fail.Exception):
        return True
    return False


@right_ones
def test_the_solution_of_the_own_tests_accepts_what_is_right(subject: Subject) -> None:
    assert own_tests_that_fail(subject) == []


def test_the_solution_of_the_own_tests_accepts_any_choice_among_free_blocks() -> None:
    assert own_tests_that_fail(Subject(MODULE, shuffled_pool(7), "shuffled")) == []


@each_bug
def test_the_solution_of_the_own_tests_catches_every_bug(bug: PlantedBug) -> None:
    assert own_tests_that_fail(buggy(MODULE, bug))

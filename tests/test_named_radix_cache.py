"""The named tests of L8.4 and its planted bugs, each held against the other, and the golden trace's file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, is_hypothesis_test, settings

from autograder import golden
from autograder.catalogue import NamedTest, catalogue
from autograder.engine_steps import engine_story
from autograder.implementations import SOLUTIONS, below, buggy, flat, reference
from autograder.planted import PlantedBug, planted_bugs
from autograder.stories import play
from autograder.subject import Subject
from course.modules import bound, find
from tests.matrix import passes, stub

MODULE = find("L8.4")
TESTS = {test.name: test for test in catalogue(MODULE)}
BUGS = {bug.id: bug for bug in planted_bugs(MODULE)}

each_test = pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
each_bug = pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)


def test_the_catalogue_is_the_chapters() -> None:
    assert list(TESTS) == [
        "hand_example_shared_system_prompt",
        "the_last_prompt_token_is_never_covered",
        "insert_takes_exactly_the_full_blocks",
        "a_prefix_computed_twice_is_kept_once",
        "a_locked_prefix_survives_eviction",
        "eviction_frees_the_least_recently_used_first",
        "golden_reference_trace",
        "blocks_are_conserved_and_locked_prefixes_stay",
    ]
    assert list(BUGS) == [f"s{n:02}" for n in range(1, 11)] + ["m01", "m02"]
    assert {bug.id for bug in BUGS.values() if bug.required} == {"s01", "s07"}


@each_test
def test_the_reference_and_the_flat_model_pass(test: NamedTest) -> None:
    assert passes(test, reference(MODULE)) == ""
    assert passes(test, flat(MODULE)) == ""


@each_test
def test_a_stub_fails(test: NamedTest) -> None:
    assert passes(test, stub(MODULE, dict(below(MODULE))))


CAUGHT = {f"{bug.id}-{name}": (bug, name) for bug in BUGS.values() for name in bug.caught_by}


@pytest.mark.parametrize("bug, name", CAUGHT.values(), ids=CAUGHT)
def test_a_bug_is_caught_where_the_chapter_says(bug: PlantedBug, name: str) -> None:
    assert passes(TESTS[name], buggy(MODULE, bug))


def test_every_bug_is_said_to_be_caught_somewhere() -> None:
    assert all(bug.caught_by for bug in BUGS.values())


@each_test
def test_every_named_test_catches_a_bug(test: NamedTest) -> None:
    assert any(passes(test, buggy(MODULE, bug)) for bug in BUGS.values())


def test_the_golden_trace_is_what_its_script_writes() -> None:
    assert golden.FIXTURE.read_text(encoding="utf-8") == golden.write(golden.fresh_trace(golden.SEED))


def test_the_golden_trace_is_read_as_it_was_written() -> None:
    fresh, read = golden.fresh_trace(golden.SEED), golden.golden_trace()
    assert read.recorded == fresh.recorded
    names = flat(MODULE).names
    assert [*map(golden.without_node, play(read.story, names))] == [*map(golden.without_node, play(fresh.story, names))]
    assert golden.write(read) == golden.write(fresh)


def test_the_golden_trace_meets_what_engines_meet() -> None:
    """Else the rules it is to hold would not show in it."""
    trace = golden.golden_trace()
    answers: dict[str, list[object]] = {}
    for call, outcome in zip(trace.story, trace.recorded, strict=True):
        answers.setdefault(call.verb, []).append(outcome.value)
    assert sum(len(answers[verb]) for verb in ("match_prefix", "insert", "lock", "unlock", "evict")) == 300
    assert any(duplicates for duplicates in answers["insert"])
    asked = [call.args[0] for call in trace.story if call.verb == "evict"]
    assert any(len(list(gave)) > n for n, gave in zip(asked, answers["evict"], strict=True))  # type: ignore[call-overload]


def test_one_seed_gives_one_story() -> None:
    assert engine_story(1, 200) == engine_story(1, 200)
    assert engine_story(1, 200) != engine_story(2, 200)


def _own_tests_that_fail(subject: Subject) -> list[str]:
    """The student-style tests that fail on a subject, each run the way pytest would."""
    with bound(subject.names):
        source = (SOLUTIONS / "tests" / "test_radix_cache.py").read_text(encoding="utf-8")
        names: dict[str, Any] = {"__name__": "own_tests"}
        exec(compile(source, "own_tests", "exec"), names)
    own = {name: body for name, body in names.items() if name.startswith("test_")}
    return [name for name, body in own.items() if any(_fails(body, args) for args in _rows(body))]


def _rows(body: Any) -> list[dict[str, object]]:
    marks = [mark for mark in getattr(body, "pytestmark", ()) if mark.name == "parametrize"]
    return [{mark.args[0]: value} for mark in marks for value in mark.args[1]] or [{}]


FEW = settings(derandomize=True, database=None, deadline=None, max_examples=50, phases=[Phase.generate])
"""As in grading: the same examples each time, and no shrinking, as only the verdict matters."""


def _fails(body: Any, args: dict[str, object]) -> bool:
    try:
        (FEW(body) if is_hypothesis_test(body) else body)(**args)
    except (Exception, pytest.fail.Exception):
        return True
    return False


@pytest.mark.parametrize("subject", [reference(MODULE), flat(MODULE)], ids=["reference", "flat model"])
def test_the_solution_of_the_own_tests_accepts_what_is_right(subject: Subject) -> None:
    assert _own_tests_that_fail(subject) == []


@each_bug
def test_the_solution_of_the_own_tests_catches_every_bug(bug: PlantedBug) -> None:
    assert _own_tests_that_fail(buggy(MODULE, bug))

"""The named tests of the extension publish and its planted bugs, each held against the other, and its stories."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.catalogue import NamedTest, catalogue
from autograder.diagnosis import diagnose, learn_one, patterns
from autograder.implementations import SOLUTIONS, below, buggy, flat, production, reference, reference_source
from autograder.judging import StoryFailed, hold
from autograder.judging_block_manager import served_rightly
from autograder.own_tests import suite_in
from autograder.planted import PlantedBug, planted_bugs
from autograder.running import Status, run_named
from autograder.scoring import Round
from autograder.stories import Outcome, play, seeded
from autograder.subject import Subject, load
from autograder.workload_block_manager import publishing_story
from course.contract import PrefixCache
from course.modules import EXTENSIONS, bound, find
from tests.matrix import passes, stub

MODULE = find("publish")
TESTS = {test.name: test for test in catalogue(MODULE)}
BUGS = {bug.id: bug for bug in planted_bugs(MODULE)}
MORE_FILE = Path(__file__).with_name("more_bugs_publish.toml")
MORE = {
    row["id"]: PlantedBug(**{**row, "caught_by": tuple(row["caught_by"])})
    for row in tomllib.loads(MORE_FILE.read_text(encoding="utf-8"))["bug"]
}
ALL = BUGS | MORE
RIGHT = {
    "reference": reference(MODULE),
    "flat model": flat(MODULE),
    "the lab's manager": replace(reference(MODULE), names=production()),
}

each_test = pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
each_bug = pytest.mark.parametrize("bug", ALL.values(), ids=ALL)
each_right_one = pytest.mark.parametrize("subject", RIGHT.values(), ids=RIGHT)
each_mode = pytest.mark.parametrize("mode", PrefixCache, ids=lambda mode: mode.value)


# ---------------------------------------------------------------- named tests and bugs


def test_two_bugs_are_planted_in_the_managers_own_reference() -> None:
    assert list(BUGS) == ["s01", "s02"] and MODULE in EXTENSIONS
    assert reference_source(MODULE) == reference_source(find("L10.4"))


@each_test
def test_what_is_right_passes(test: NamedTest) -> None:
    assert {label: passes(test, subject) for label, subject in RIGHT.items()} == dict.fromkeys(RIGHT, "")


@each_test
def test_a_stub_fails(test: NamedTest) -> None:
    assert passes(test, stub(MODULE, dict(below(MODULE))))


CAUGHT = {f"{bug.id}-{name}": (bug, name) for bug in ALL.values() for name in bug.caught_by}


@pytest.mark.parametrize("bug, name", CAUGHT.values(), ids=CAUGHT)
def test_a_bug_is_caught_where_it_says(bug: PlantedBug, name: str) -> None:
    assert passes(TESTS[name], buggy(MODULE, bug))


@each_test
def test_every_named_test_catches_a_bug(test: NamedTest) -> None:
    assert any(passes(test, buggy(MODULE, bug)) for bug in ALL.values())


@each_bug
def test_without_publish_a_bug_of_it_does_no_harm(bug: PlantedBug) -> None:
    """So a class that is graded for L10.4 alone loses nothing by a wrong `publish`."""
    subject = buggy(MODULE, bug)
    module = find("L10.4")
    manager = type("BlockManager", (subject.BlockManager,), {"publish": property()})
    without = Subject(module, {**subject.names, "BlockManager": manager})
    assert [test.name for test in catalogue(module) if passes(test, without)] == []


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_report_names_the_pitfall(bug: PlantedBug) -> None:
    """By the pattern that is stored, which is what the bug does now."""
    assert learn_one(MODULE, bug.id) in patterns(MODULE)
    verdicts = [run_named(test, buggy(MODULE, bug)) for test in TESTS.values()]
    assert [(each.title, each.reread) for each in diagnose(MODULE, verdicts)] == [(bug.title, bug.reread)]


# ---------------------------------------------------------------- a manager that is not extended

PLAIN = (
    "\n\nclass BlockManager(BlockManager):\n    def __init__(self, pool, mode):\n        super().__init__(pool, mode)\n"
)
NO_CALL = "\n\nclass BlockManager(BlockManager):\n    publish = property()\n"


@each_test
@pytest.mark.parametrize(
    ("more", "lacks"),
    [
        (
            PLAIN,
            'BlockManager has no publish: it takes no option of that name, BlockManager(pool, mode, publish="release")',
        ),
        (NO_CALL, "BlockManager has no publish: there is no call publish(seq, computed)"),
    ],
)
def test_every_test_says_what_a_manager_lacks(test: NamedTest, more: str, lacks: str) -> None:
    subject = load(MODULE, reference_source(MODULE) + more, below(MODULE))
    verdict = run_named(test, subject)
    assert (verdict.status, verdict.message) == (Status.NOT_DEFINED, lacks)


# ---------------------------------------------------------------- stories


def story_of(mode: PrefixCache, n_blocks: int = 18, n_requests: int = 16, seed: int = 7) -> Any:
    return publishing_story(flat(MODULE).names, mode, "prefill", n_blocks, n_requests, seed)


@each_mode
def test_the_small_pool_meets_refusals_hits_evictions_and_twins(mode: PrefixCache) -> None:
    """Else the rules it is to hold would not show in it."""
    story, answers = story_of(mode), dict[str, list[Outcome]]()
    for call, outcome in zip(story, play(story, flat(MODULE).names), strict=True):
        answers.setdefault(call.verb, []).append(outcome)
    stats = answers["stats"][-1].value
    assert {outcome.value is None for outcome in answers["allocate"]} == {True, False}
    assert {outcome.value for outcome in answers["append_slot"]} == {True, False}
    assert len(answers["publish"]) > 100
    assert (stats.hit_tokens > 60) is (stats.evictions > 10) is (mode is not PrefixCache.NONE)


def test_in_the_large_pool_requests_race() -> None:
    """A cache that takes a reference on a twin's block, too, is told from a right one."""
    story = story_of(PrefixCache.RADIX, n_blocks=200, n_requests=20)
    copies = buggy(MODULE, ALL["p10"])
    judge = served_rightly(flat(MODULE).names)
    assert judge(story, play(story, flat(MODULE).names)) is None
    assert judge(story, play(story, copies.names)) is not None


@each_mode
@each_right_one
def test_the_judge_blames_no_right_one_for_calls_left_out(subject: Subject, mode: PrefixCache) -> None:
    """Else shrinking would end at a story that shows nothing."""
    judge = served_rightly(flat(MODULE).names)
    story = story_of(mode, n_requests=10, seed=1)
    for seed in range(60):
        choose = seeded(seed)
        kept = 1 - 0.5 ** choose.randrange(1, 8)
        shorter = story[:2] + tuple(call for call in story[2:] if choose.random() < kept)
        assert judge(shorter, play(shorter, subject.names)) is None


@each_mode
@each_right_one
def test_the_judge_accepts_right_ones_on_other_seeds(subject: Subject, mode: PrefixCache) -> None:
    judge = served_rightly(flat(MODULE).names)
    for seed in range(20):
        story = story_of(mode, n_blocks=14 + seed, n_requests=12, seed=seed)
        assert judge(story, play(story, subject.names)) is None


@pytest.mark.parametrize(("bug", "mode"), [("s01", PrefixCache.RADIX), ("s02", PrefixCache.HASH)])
def test_the_shortest_story_is_short_and_still_fails(bug: str, mode: PrefixCache) -> None:
    names = buggy(MODULE, BUGS[bug]).names
    with pytest.raises(StoryFailed) as failure:
        hold(story_of(mode), names, served_rightly(flat(MODULE).names), "An engine at work.")
    assert len(failure.value.story) < 12
    assert f"manager = BlockManager(pool, {mode}, 'prefill')" in str(failure.value)


# ---------------------------------------------------------------- the solution's own tests


@pytest.fixture(scope="module")
def own_rounds() -> dict[str, Round]:
    """The student-style tests on every right implementation and every bug, run as in grading."""
    space: dict[str, Any] = {"__name__": "own_tests"}
    source = (SOLUTIONS / "tests" / "test_publish.py").read_text(encoding="utf-8")
    with bound(reference(MODULE).names):
        exec(compile(source, "own_tests", "exec"), space)
    subjects = RIGHT | {bug.id: buggy(MODULE, bug) for bug in ALL.values()}
    makes = [(label, lambda subject=subject: subject.names) for label, subject in subjects.items()]
    return {round_.implementation: round_ for round_ in suite_in(space).play(makes)}


@pytest.mark.parametrize("label", RIGHT)
def test_the_solution_of_the_own_tests_accepts_what_is_right(own_rounds: dict[str, Round], label: str) -> None:
    assert own_rounds[label].fault == ""
    assert len(own_rounds[label].passed) == len(own_rounds[label].ran)


@each_bug
def test_the_solution_of_the_own_tests_catches_every_bug(own_rounds: dict[str, Round], bug: PlantedBug) -> None:
    assert own_rounds[bug.id].failed

"""The named tests of L10.4 and its planted bugs, each held against the other, and what the stories show."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import autograder.flat
from autograder.catalogue import NamedTest, catalogue
from autograder.flat import flat_exports
from autograder.implementations import SOLUTIONS, below, buggy, flat, reference, reference_source
from autograder.judging import StoryFailed, hold
from autograder.judging_block_manager import served_rightly
from autograder.own_tests import suite_in
from autograder.planted import PlantedBug, planted_bugs
from autograder.scoring import Round
from autograder.stand_in import ChecksumRunner, NoBlock, WriteRefused, greedy, shared_in
from autograder.stories import Outcome, play, seeded
from autograder.subject import Subject, load
from autograder.workload_block_manager import workload_story
from course.contract import PrefixCache
from course.modules import bound, find
from tests.matrix import passes, stub

MODULE = find("L10.4")
TESTS = {test.name: test for test in catalogue(MODULE)}
BUGS = {bug.id: bug for bug in planted_bugs(MODULE)}
MORE_FILE = Path(__file__).with_name("more_bugs_block_manager.toml")
MORE = {
    row["id"]: PlantedBug(**{**row, "caught_by": tuple(row["caught_by"])})
    for row in tomllib.loads(MORE_FILE.read_text(encoding="utf-8"))["bug"]
}
ALL = BUGS | MORE
RIGHT = {"reference": reference(MODULE), "flat model": flat(MODULE)}

each_test = pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
each_bug = pytest.mark.parametrize("bug", ALL.values(), ids=ALL)
each_right_one = pytest.mark.parametrize("subject", RIGHT.values(), ids=RIGHT)
each_mode = pytest.mark.parametrize("mode", PrefixCache, ids=lambda mode: mode.value)


# ---------------------------------------------------------------- named tests and bugs


def test_the_catalogue_begins_with_the_chapters_ten() -> None:
    assert list(TESTS)[:10] == [
        "hand_example_prefix_hit",
        "none_mode_never_shares",
        "last_token_is_always_computed",
        "same_tokens_at_another_position_do_not_hit",
        "refcounts_balance_under_random_workload",
        "eviction_reclaims_cached_blocks",
        "shared_blocks_return_to_free_after_eviction",
        "failed_allocation_returns_its_cache_hits",
        "prefix_hit_skips_prefill_tokens",
        "identical_outputs_with_and_without_cache",
    ]
    assert list(BUGS) == [f"s{n:02}" for n in range(1, 9)]


@each_test
def test_the_reference_and_the_flat_model_pass(test: NamedTest) -> None:
    assert {label: passes(test, subject) for label, subject in RIGHT.items()} == dict.fromkeys(RIGHT, "")


@each_test
def test_a_stub_fails(test: NamedTest) -> None:
    assert passes(test, stub(MODULE, dict(below(MODULE))))


CAUGHT = {f"{bug.id}-{name}": (bug, name) for bug in ALL.values() for name in bug.caught_by}


@pytest.mark.parametrize("bug, name", CAUGHT.values(), ids=CAUGHT)
def test_a_bug_is_caught_where_it_says(bug: PlantedBug, name: str) -> None:
    assert passes(TESTS[name], buggy(MODULE, bug))


def test_every_bug_is_said_to_be_caught_somewhere() -> None:
    assert all(bug.caught_by for bug in ALL.values())


@each_test
def test_every_named_test_catches_a_bug(test: NamedTest) -> None:
    assert any(passes(test, buggy(MODULE, bug)) for bug in ALL.values())


# ---------------------------------------------------------------- the workload and the stand-in


@each_mode
def test_the_workload_meets_refusals_hits_and_evictions(mode: PrefixCache) -> None:
    """Else the rules it is to hold would not show in it."""
    story = workload_story(flat(MODULE).names, mode, n_blocks=16, n_requests=18, seed=104)
    answers: dict[str, list[Outcome]] = {}
    for call, outcome in zip(story, play(story, flat(MODULE).names), strict=True):
        answers.setdefault(call.verb, []).append(outcome)
    stats = answers["stats"][-1].value
    assert {outcome.value is None for outcome in answers["allocate"]} == {True, False}
    assert {outcome.value for outcome in answers["append_slot"]} == {True, False}
    assert (stats.hit_tokens > 60) is (stats.evictions > 10) is (mode is not PrefixCache.NONE)


def test_one_seed_gives_one_workload() -> None:
    names = flat(MODULE).names
    assert workload_story(names, PrefixCache.HASH, 16, 4, 1) == workload_story(names, PrefixCache.HASH, 16, 4, 1)
    assert workload_story(names, PrefixCache.HASH, 16, 4, 1) != workload_story(names, PrefixCache.HASH, 16, 4, 2)


@each_mode
@each_right_one
def test_the_judge_blames_no_right_one_for_calls_left_out(subject: Subject, mode: PrefixCache) -> None:
    """Else shrinking would end at a story that shows nothing."""
    judge = served_rightly(flat(MODULE).names)
    story = workload_story(flat(MODULE).names, mode, n_blocks=16, n_requests=10, seed=1)
    for seed in range(60):
        choose = seeded(seed)
        kept = 1 - 0.5 ** choose.randrange(1, 8)
        shorter = story[:2] + tuple(call for call in story[2:] if choose.random() < kept)
        assert judge(shorter, play(shorter, subject.names)) is None


@each_mode
def test_the_shortest_story_is_short_and_still_fails(mode: PrefixCache) -> None:
    bugs = {PrefixCache.NONE: "s08", PrefixCache.HASH: "s07", PrefixCache.RADIX: "s05"}
    names = buggy(MODULE, BUGS[bugs[mode]]).names
    story = workload_story(flat(MODULE).names, mode, n_blocks=16, n_requests=18, seed=7)
    with pytest.raises(StoryFailed) as failure:
        hold(story, names, served_rightly(flat(MODULE).names), "An engine at work.")
    assert len(failure.value.story) < 20 < len(story)
    assert f"pool = KvPool(16, 4)\n    manager = BlockManager(pool, {mode})" in str(failure.value)


def test_the_checksum_answers_by_what_it_reads_back() -> None:
    prompt = [1, 2, 3, 4, 5, 6]
    runner = ChecksumRunner(4, lambda block: "")
    assert [runner.compute("own", [3, 1], prompt, 0)] == greedy(prompt, 1)
    assert [runner.compute("own", [3, 1], [7], 6)] == greedy([*prompt, 7], 1)
    assert [runner.compute("stale", [3, 0], [5], 4)] == greedy([1, 2, 3, 4, 5], 1) != greedy([9, 2, 3, 4, 5], 1)
    assert [runner.compute("unwritten", [2, 0], [5], 4)] != greedy([1, 2, 3, 4, 5], 1)
    with pytest.raises(NoBlock, match="position 4 of sequence short has no block"):
        runner.compute("short", [3], [5], 4)


def test_the_checksum_is_written_only_where_one_sequence_holds_a_block_and_no_name_finds_it() -> None:
    names = flat(MODULE).names
    pool = names["KvPool"](2, 4)
    runner = ChecksumRunner(4, shared_in(pool))
    (block,) = pool.alloc(1)
    pool.retain(block)
    with pytest.raises(WriteRefused, match="has 2 references"):
        runner.compute("shared", [block], [1, 2, 3, 4], 0)
    pool.release(block)
    runner.compute("own", [block], [1, 2, 3, 4], 0)
    pool.set_fill(block, 4)
    pool.register(block, names["kv_block_hash"](0, [1, 2, 3, 4]))
    with pytest.raises(WriteRefused, match="has a name"):
        runner.compute("named", [block], [4], 3)


def test_the_named_tests_need_no_torch() -> None:
    """It takes seconds to import, and a student's check takes less than one."""
    code = (
        "import sys; from autograder.catalogue import catalogue; from course.modules import find; "
        "catalogue(find('L10.4')); slow = {'torch', 'jsonschema', 'prometheus_client'} & set(sys.modules); "
        "print(*slow)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=SOLUTIONS.parent)
    assert (ran.stdout, ran.stderr) == ("\n", "")


# ---------------------------------------------------------------- what no call shows


def counting() -> tuple[Counter[tuple[int, tuple[int, ...]]], Any]:
    """A `kv_block_hash` that counts how often it was asked for each name."""
    asked: Counter[tuple[int, tuple[int, ...]]] = Counter()
    right = flat_exports("kv_pool")["kv_block_hash"]

    def kv_block_hash(parent: int, tokens: Sequence[int]) -> int:
        asked[parent, tuple(tokens)] += 1
        return right(parent, tokens)  # type: ignore[operator,no-any-return]

    return asked, kv_block_hash


def managers_over(names: dict[str, Any]) -> dict[str, Any]:
    """Both right managers, loaded over these names: they make only the single calls of a flat pool."""
    source = Path(autograder.flat.__file__).with_name("block_manager.py").read_text(encoding="utf-8")
    sources = {"reference": reference_source(MODULE), "flat model": source}
    return {label: load(MODULE, text, names, label).BlockManager for label, text in sources.items()}


@pytest.mark.parametrize("label", RIGHT)
def test_a_name_is_computed_once_for_a_block_and_request(label: str) -> None:
    asked, kv_block_hash = counting()
    names = {**{name: flat(MODULE).names[name] for name in ("KvPool", "RadixTree", "RadixCache")}}
    names["kv_block_hash"] = kv_block_hash
    with bound(names):
        manager = managers_over(names)[label](names["KvPool"](8, 4), PrefixCache.HASH)
        for answer in (20, 30):
            asked.clear()
            manager.allocate("s", list(range(10)))
            for _ in range(6):
                manager.append_slot("s")
            manager.release("s", [*range(10), *range(answer, answer + 6)])
            assert sorted(asked.values()) == [1, 1, 1, 1]


@each_right_one
def test_a_manager_counts_evictions_from_when_it_was_made(subject: Subject) -> None:
    pool = subject.KvPool(2, 4)
    for prompt, evictions in (([1] * 8, 2), ([2] * 4, 1), ([3] * 8, 2)):
        manager = subject.BlockManager(pool, PrefixCache.HASH)
        manager.allocate("kept", prompt)
        manager.release("kept", prompt)
        manager.allocate("whole", [7] * 8)
        manager.release("whole", [])
        assert manager.stats.evictions == evictions
    assert pool.evictions == 5


# ---------------------------------------------------------------- the solution's own tests


@pytest.fixture(scope="module")
def own_rounds() -> dict[str, Round]:
    """The student-style tests on every right implementation and every bug, run as in grading."""
    space: dict[str, Any] = {"__name__": "own_tests"}
    source = (SOLUTIONS / "tests" / "test_block_manager.py").read_text(encoding="utf-8")
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

"""Students' own tests: collected from a namespace, run on one implementation after another, scored."""

from __future__ import annotations

from typing import Any

import pytest

from autograder import own_tests, scoring
from autograder.planted import planted_bugs
from autograder.scoring import FLAT, REFERENCE, Did, Ran, Round
from course import modules

MODULE = modules.find("L8.4")
BUGS = planted_bugs(MODULE)
IMPORTS = "import pytest\nfrom hypothesis import given, settings, strategies as st\n"


def suite(source: str, **names: Any) -> own_tests.Suite:
    space: dict[str, Any] = {"__name__": "own_tests_here", **names}
    exec(
        compile("import pytest\nfrom hypothesis import given, settings, strategies as st\n" + source, "own", "exec"),
        space,
    )
    return own_tests.suite_in(space)


def did(source: str, **names: Any) -> dict[str, Did]:
    return {ran.test: ran.did for ran in suite(source).run(names)}


# ---------------------------------------------------------------- running


def test_pytest_works_as_it_always_does(tmp_path: Any) -> None:
    source = """
@pytest.fixture
def two():
    return 2
def test_fixture(two, tmp_path): assert RadixCache == two and tmp_path.exists()
def test_raises():
    with pytest.raises(ZeroDivisionError): RadixCache / 0
@pytest.mark.parametrize("n", [2, 3])
def test_each(n): assert n == RadixCache
@pytest.mark.skip
def test_skipped(): assert False
@pytest.mark.xfail
def test_expected_to_fail(): assert False
class TestClass:
    def test_in_a_class(self): assert RadixCache == 2
def helper(): assert False
"""
    assert did(source, RadixCache=2) == {
        "test_fixture": Did.PASSED,
        "test_raises": Did.PASSED,
        "test_each[2]": Did.PASSED,
        "test_each[3]": Did.FAILED,
        "test_skipped": Did.SKIPPED,
        "test_expected_to_fail": Did.SKIPPED,
        "test_in_a_class": Did.PASSED,
    }


def test_hypothesis_draws_few_examples_and_always_the_same() -> None:
    source = """
@settings(max_examples=10_000)
@given(st.integers())
def test_property(n): drawn.append(n)
"""
    draws: list[list[int]] = []
    for _ in range(2):
        drawn: list[int] = []
        assert [ran.did for ran in suite(source, drawn=drawn).run({})] == [Did.PASSED]
        draws.append(drawn)
    assert draws[0] == draws[1] and 1 < len(draws[0]) <= own_tests.EXAMPLES


def test_names_are_rebound_for_a_run_and_then_as_before() -> None:
    source = """
def test_here(): assert RadixCache == "under test"
def test_imported():
    from course.modules import RadixCache
    assert RadixCache == "under test"
"""
    tests = suite(source, RadixCache="mine")
    assert [ran.did for ran in tests.run({"RadixCache": "under test"})] == [Did.PASSED, Did.PASSED]
    assert tests.space["RadixCache"] == "mine"
    bare = suite("def test_here(): assert RadixCache")
    bare.run({"RadixCache": "under test"})
    assert "RadixCache" not in bare.space


def test_what_a_test_prints_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert [ran.did for ran in suite("def test_loud(): print('hello')").run({})] == [Did.PASSED]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("way_out", ["sys.exit(0)", "pytest.exit('enough')", "raise SystemExit"])
def test_a_test_that_wants_to_leave_fails(way_out: str) -> None:
    ran = suite(f"import sys\ndef test_leaves(): {way_out}\ndef test_after(): pass").run({})
    assert [each.did for each in ran] == [Did.FAILED, Did.PASSED]


def test_a_failure_names_the_line_of_the_students_code() -> None:
    (ran,) = suite("def test_wrong():\n    assert 1 == 2").run({})
    assert ran.message.startswith("AssertionError (own, line 4")


def test_an_error_of_the_graders_own_is_not_swallowed() -> None:
    with pytest.raises(AttributeError, match="has no name 'Nonsense'"):
        suite("def test_a(): pass").run({"Nonsense": 1})


def test_an_interrupt_passes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        suite("def test_interrupted(): raise KeyboardInterrupt").run({})


def test_tests_that_cant_be_collected_say_why() -> None:
    with pytest.raises(own_tests.SuiteBroken, match=r"function uses no argument 'm'"):
        suite("@pytest.mark.parametrize('m', [1])\ndef test_each(n): pass").run({})


def test_a_later_round_ends_at_its_first_failure() -> None:
    tests = suite("def test_a(): assert RadixCache\ndef test_b(): assert RadixCache\n")
    right, wrong = {"RadixCache": 1}, {"RadixCache": 0}
    rounds = tests.play([("right", lambda: right), ("wrong", lambda: wrong), ("right again", lambda: right)])
    assert [[ran.did.value for ran in each.ran] for each in rounds] == [["passed"] * 2, ["failed"], ["passed"] * 2]


# ---------------------------------------------------------------- order


def test_the_order_comes_from_the_suites_text_and_begins_and_ends_with_a_correct_one() -> None:
    orders = {scoring.order(MODULE, seed) for seed in ("a", "b", "c")}
    assert len(orders) == 3 and scoring.order(MODULE, "a") in orders
    for order in orders:
        assert order[0] == order[-1] == REFERENCE
        assert sorted(order) == sorted([bug.id for bug in BUGS] + [REFERENCE] * 3 + [FLAT])


def test_the_seed_changes_with_the_text_of_a_test() -> None:
    one, other = "def test_a(): assert 1\n", "def test_b(): assert 1\n"
    assert suite(one).seed == suite(one).seed != suite(other).seed


# ---------------------------------------------------------------- scores

GOOD = """
def test_hand_example():
    cache = RadixCache(2)
    cache.insert([1, 2, 3, 4, 5], [10, 11])
    assert cache.cached_tokens == 4
    assert cache.match_prefix([1, 2, 3, 4, 9, 9]).blocks == (10, 11)
    match = cache.match_prefix([1, 2, 3, 4])
    assert match.blocks == (10,)
    cache.match_prefix([7, 7, 7])
    assert (cache.stats.query_tokens, cache.stats.hit_tokens) == (13, 6)
    cache.lock(match.node)
    assert cache.evict(9) == [11]
"""


def test_a_score_names_what_was_missed_by_title() -> None:
    score = own_tests.score(MODULE, suite(GOOD))
    assert score.valid and {"s01", "s03", "s07", "m02"} <= set(score.caught) and "s04" not in score.caught
    assert next(bug.title for bug in BUGS if bug.id == "s04") in score.missed
    assert score.n_bugs == len(BUGS) and score.share == len(score.caught) / len(BUGS)
    assert not score.passed and "planted bugs are caught, 80% are needed" in score.reason


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = 1", "There are no tests"),
        ("def test_a(): assert False", "test_a fails on a correct implementation"),
        ("@pytest.mark.skip\ndef test_a(): assert False", "Every test was skipped"),
        ("def test_a(): RadixCache(2).nonsense()", "AttributeError"),
        ("seen = []\ndef test_a():\n    seen.append(1)\n    assert len(seen) < 3", "test_a fails on a correct"),
    ],
)
def test_a_suite_that_does_not_accept_right_code_is_not_valid(source: str, reason: str) -> None:
    score = own_tests.score(MODULE, suite(source))
    assert not score.valid and not score.passed and score.share == 0.0
    assert reason in score.reason


def test_a_suite_that_never_asserts_catches_nothing_but_calls_that_raise() -> None:
    score = own_tests.score(MODULE, suite("def test_a(): RadixCache(2)"))
    assert score.valid and score.caught == () and not score.passed


def passed(name: str, seconds: float = 0.1) -> Round:
    return Round(name, (Ran("test_a", Did.PASSED),), seconds)


def failed(name: str) -> Round:
    return Round(name, (Ran("test_a", Did.FAILED, "why"),), 0.1)


def correct(seconds: float = 0.1) -> list[Round]:
    return [passed(name, seconds) for name in (REFERENCE, FLAT, REFERENCE)]


def test_the_threshold_is_a_share_of_all_bugs_and_needs_the_required_ones() -> None:
    optional = [bug.id for bug in BUGS if not bug.required]
    required = [bug.id for bug in BUGS if bug.required]
    enough = scoring.judge(MODULE, [*correct(), *map(failed, required + optional[:-2])])
    assert (len(enough.caught), enough.passed, enough.reason) == (10, True, "")
    short = scoring.judge(MODULE, [*correct(), *map(failed, required + optional[:-3])])
    assert not short.passed and short.reason == "9 of 12 planted bugs are caught, 80% are needed."
    lacking = scoring.judge(MODULE, [*correct(), *map(failed, required[1:] + optional)])
    assert lacking.share >= 0.8 and not lacking.passed and lacking.required_missed
    assert lacking.required_missed[0] in lacking.reason


def test_a_loop_is_a_catch_only_if_right_code_was_far_from_the_limit() -> None:
    loop = Round("s01", (), cut_off="timed out", at="test_a")
    assert scoring.judge(MODULE, [*correct(1.0), loop], limit_s=10).caught == ("s01",)
    assert scoring.judge(MODULE, [*correct(3.0), loop], limit_s=10).caught == ()


def test_a_round_that_dies_is_no_catch() -> None:
    assert scoring.judge(MODULE, [*correct(), Round("s01", (), cut_off="died", at="test_a")]).caught == ()


def test_a_test_that_is_skipped_on_one_right_implementation_catches_nothing() -> None:
    skipping = [passed(REFERENCE), Round(FLAT, (Ran("test_a", Did.SKIPPED), Ran("test_b", Did.PASSED)))]
    assert scoring.judge(MODULE, [*skipping, failed("s01")]).caught == ()


def test_a_suite_cut_off_on_right_code_is_not_valid() -> None:
    score = scoring.judge(MODULE, [Round(REFERENCE, (), cut_off="timed out", at="test_a")])
    assert not score.valid and score.reason == "test_a timed out on a correct implementation."


def test_a_suite_that_changes_its_mind_is_told_so() -> None:
    score = scoring.judge(MODULE, [passed(REFERENCE), failed(REFERENCE)])
    assert not score.valid and "must not depend on chance" in score.reason


def test_without_references_a_suite_is_tried_but_not_graded(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(scoring.implementations, "SOLUTIONS", tmp_path)
    assert scoring.order(MODULE, "a") == (FLAT, FLAT, FLAT)
    score = own_tests.score(MODULE, suite(GOOD))
    assert score.valid and not score.graded and not score.passed and "not in this edition" in score.reason
    assert not own_tests.score(MODULE, suite("def test_a(): assert False")).valid

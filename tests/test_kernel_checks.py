"""What a student sees in a notebook: checks on the class being written, and the score of their own tests."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from autograder import notebook, views
from autograder.catalogue import catalogue
from autograder.expect import refuses, same
from autograder.implementations import flat_exports, reference, reference_source
from autograder.notebook import CheckFailed, Points, begin, check, compare, lend, score_own_tests, show_tests
from autograder.scoring import OwnScore
from course import modules
from course.pictures import Picture

L84 = modules.find("L8.4")
FIRST = "the_last_prompt_token_is_never_covered"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Picture]]:
    """What a notebook would display, with no session begun and nothing bound."""
    views_shown: list[Picture] = []
    monkeypatch.setattr(notebook, "_show", views_shown.append)
    monkeypatch.setattr(notebook, "_sessions", [])
    monkeypatch.setattr(modules, "_offered", [])
    with modules.bound({}):
        modules._bound.clear()
        yield views_shown


def in_cell(space: dict[str, Any], source: str, name: str = "/tmp/ipykernel_1/2.py") -> None:
    """Run source as a kernel runs a cell: from a file of its own that only linecache knows."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), space)


def begun(source: str = "") -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "__main__"}
    begin("L8.4", space)
    in_cell(space, source)
    return space


SOLUTION = reference_source(L84)
STUB = '''
class RadixCache:
    """A cache."""

    def __init__(self, block_size):
        # YOUR CODE HERE
        raise NotImplementedError("step 1: __init__")
'''

# ---------------------------------------------------------------- beginning


def test_begin_lends_what_the_module_stands_on(shown: list[Picture]) -> None:
    begin("L8.4", {})
    assert modules.RadixTree(2).granule == 2
    assert "L8.4" in str(shown[0]) and "RadixTree (ds.07" in str(shown[0])


def test_begin_keeps_what_is_bound_already(shown: list[Picture]) -> None:
    mine = type("RadixTree", (), {})
    modules.bind({"RadixTree": mine})
    begin("L8.4", {})
    assert modules.RadixTree is mine and "RadixTree" not in str(shown[0])


def test_begin_again_starts_over(shown: list[Picture]) -> None:
    begun(STUB)
    begun(SOLUTION)
    check(FIRST)


@pytest.mark.parametrize("call", [lambda: check(FIRST), score_own_tests, show_tests, lambda: lend("RadixCache")])
def test_before_the_first_cell_each_call_says_so(shown: list[Picture], call: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError, match="run the first cell"):
        call()


def test_outside_a_kernel_begin_asks_for_a_namespace(shown: list[Picture]) -> None:
    with pytest.raises(RuntimeError, match=r"begin\(module, globals\(\)\)"):
        begin("L8.4")


def test_what_is_lent_works_and_other_names_are_refused(shown: list[Picture]) -> None:
    begun()
    assert lend("RadixCache")(2).cached_tokens == 0
    with pytest.raises(KeyError, match="RadixCache"):
        lend("KvPool")


@pytest.mark.parametrize(
    ("guess", "answer", "said"),
    [
        (4, 4, "Right: 4."),
        (3, 4, "You guessed 3; it is 4."),
        (None, 4, "It is 4."),
        (..., 4, "It is 4."),
        ((30, 31), [30, 31], "Right: [30, 31]."),
        (6 / 13, 6 / 13, "Right: 0.46"),
        (0, None, "You guessed 0; it is None."),
    ],
)
def test_a_guess_is_shown_beside_the_answer(shown: list[Picture], guess: Any, answer: Any, said: str) -> None:
    compare(guess, answer)
    assert str(shown[0]).startswith(said)


# ---------------------------------------------------------------- checks


def test_a_right_class_passes_every_check(shown: list[Picture]) -> None:
    begun(SOLUTION)
    check(*(test.name for test in catalogue(L84)))
    assert str(shown[-1]).count("passed") == 8


def test_a_stub_is_told_which_step_is_missing_and_where(shown: list[Picture]) -> None:
    begun(STUB)
    with pytest.raises(CheckFailed, match=f"^{FIRST}: Not written yet: step 1: __init__.$"):
        check(FIRST)
    assert "→   7         raise NotImplementedError" in str(shown[-1])
    assert "class RadixCache:</code>, line 7 of the cell" in shown[-1].html


def test_an_error_in_the_students_code_is_placed(shown: list[Picture]) -> None:
    begun(STUB.replace('raise NotImplementedError("step 1: __init__")', "self.tree = None.tree"))
    with pytest.raises(CheckFailed, match="AttributeError"):
        check(FIRST)
    assert "→   7         self.tree = None.tree" in str(shown[-1])


def test_a_wrong_error_is_placed_too(shown: list[Picture]) -> None:
    def sizes(subject: Any) -> None:
        with refuses(ValueError, "A block size below 1 is a ValueError."):
            subject.RadixCache(0)

    begun("class RadixCache:\n    def __init__(self, block_size):\n        1 / block_size\n")
    with pytest.raises(CheckFailed, match=r"^sizes: A block size below 1 is a ValueError\.$"):
        check(sizes)
    assert "→   3         1 / block_size" in str(shown[-1])


def test_a_broken_rule_comes_first_and_its_values_after(shown: list[Picture]) -> None:
    begun(SOLUTION.replace("max(n - 1, 0) // self.block_size", "n // self.block_size"))
    with pytest.raises(CheckFailed, match="its last token is always left to compute"):
        check(FIRST)
    head, rule, *values = str(shown[-1]).splitlines()
    assert head == f"✗ {FIRST}: failed"
    assert rule.strip().startswith("A match covers at most")
    assert [line.split(":")[0].strip() for line in values] == ["expected", "got"]


def test_one_failure_does_not_hide_the_others(shown: list[Picture]) -> None:
    begun(SOLUTION.replace("max(n - 1, 0) // self.block_size", "n // self.block_size"))
    with pytest.raises(CheckFailed, match=r"^2 of 3 checks fail, first hand_example_shared_system_prompt: "):
        check("hand_example_shared_system_prompt", FIRST, "a_locked_prefix_survives_eviction")
    assert [line[0] for line in str(shown[-1]).splitlines() if line[0] in "✓✗"] == ["✗", "✗", "✓"]


def test_an_empty_notebook_is_told_what_is_not_there(shown: list[Picture]) -> None:
    begun()
    with pytest.raises(CheckFailed, match="RadixCache is not defined in this notebook"):
        check(FIRST)


def test_a_mistyped_name_gets_a_suggestion(shown: list[Picture]) -> None:
    begun(SOLUTION)
    with pytest.raises(KeyError, match=f"did you mean '{FIRST}'"):
        check("the_last_token_is_never_covered")


def test_a_check_sees_the_class_as_it_is_now(shown: list[Picture]) -> None:
    space = begun(STUB)
    with pytest.raises(CheckFailed):
        check(FIRST)
    in_cell(space, SOLUTION)
    check(FIRST)


def test_a_failed_check_shows_one_line_in_place_of_a_traceback(shown: list[Picture]) -> None:
    assert CheckFailed("why")._render_traceback_() == ["CheckFailed: why"]


def test_what_code_says_is_escaped(shown: list[Picture]) -> None:
    def rule(subject: Any) -> None:
        same("<script>", "<b>", "1 < 2 & <i>")

    begun()
    with pytest.raises(CheckFailed):
        check(rule)
    assert "<script>" not in shown[-1].html and "<i>" not in shown[-1].html


def test_the_catalogue_shows_every_test(shown: list[Picture]) -> None:
    begun()
    show_tests()
    for test in catalogue(L84):
        assert test.name in shown[-1].html and test.checks in str(shown[-1]) and test.why in str(shown[-1])


# ---------------------------------------------------------------- own tests

LAST_TOKEN = """
def test_the_last_token():
    cache = RadixCache(2)
    cache.insert([1, 2, 3, 4], [10, 11])
    assert cache.match_prefix([1, 2, 3, 4]).matched_tokens == 2
"""


def test_own_tests_earn_their_share_of_the_points(shown: list[Picture]) -> None:
    begun(LAST_TOKEN)
    points = score_own_tests(points=24)
    score = str(shown[-1])
    assert "✓ caught  A fully cached prompt is matched whole (required)" in score
    assert "✗ missed  A lock pins nothing (required)" in score
    assert "Not enough yet: 80% are needed" in score
    assert points == 24 * score.count("✓ caught") / 12 / 0.8 and 0 < points < 24


def test_points_read_as_a_number_and_show_as_a_sentence() -> None:
    points = Points(50 / 3, 20)
    assert float(repr(points)) == 16.67 and points._repr_html_() == "16.67 of 20 points"


def test_own_tests_leave_the_notebook_as_it_was(shown: list[Picture]) -> None:
    space = begun(STUB + LAST_TOKEN)
    mine = space["RadixCache"]
    score_own_tests()
    assert space["RadixCache"] is mine


def test_no_tests_are_no_score(shown: list[Picture]) -> None:
    begun(STUB)
    with pytest.raises(CheckFailed, match="There are no tests"):
        score_own_tests()


def test_a_test_that_refuses_right_code_is_named(shown: list[Picture]) -> None:
    begun(LAST_TOKEN.replace("== 2", "== 4"))
    with pytest.raises(CheckFailed, match="test_the_last_token fails on a correct implementation"):
        score_own_tests()
    assert "No score yet." in str(shown[-1])


def test_where_the_bugs_are_not_at_hand_the_score_says_so() -> None:
    view = views.bug_score(L84, (), OwnScore(True, "The planted bugs are not in this edition.", graded=False))
    assert str(view) == "The planted bugs are not in this edition."


def test_a_flat_model_stands_for_the_students_class_as_well_as_the_reference(shown: list[Picture]) -> None:
    space = begun()
    for names in (flat_exports("L8.4"), {"RadixCache": reference(L84).RadixCache}):
        space.update(names)
        check("golden_reference_trace")


def test_a_check_sees_values_as_the_grader_does(shown: list[Picture]) -> None:
    """A number of another type equals the right one in a kernel, and would fail only when it is graded."""
    wrong = SOLUTION.replace("return self.cached_blocks * self.block_size", "return Whole(self.cached_blocks * 2)")
    assert wrong != SOLUTION
    begun("class Whole(int):\n    pass\n\n\n" + wrong.replace("from __future__ import annotations", ""))
    with pytest.raises(CheckFailed):
        check("hand_example_shared_system_prompt")
    assert "wrap it in int()" in str(shown[-1])

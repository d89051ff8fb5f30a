"""Two gradings side by side: who changes, in what, and why; who is new or gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console

from autograder.classroom import compare
from autograder.classroom.compare import Change, Kind, Step, changes
from autograder.classroom.rows import OWN_TESTS, Class, Result, State

KEY = "submission:1/earlier:1/grader:1/settings:1"


def result(
    student: str = "alice",
    module: str = "L8.4",
    a: str = "passed",
    caught: int = 12,
    key: str = KEY,
    worth: Mapping[str, float] | None = None,
    file: str = "radix_cache.ipynb",
    **own: Any,
) -> Result:
    worth = worth or {"a": 80.0, OWN_TESTS: 20.0}
    tests = [{"test": "a", "status": a, "message": "why", "seconds": 0.1}, {"test": "b", "status": "passed"}]
    suite = {"valid": True, "graded": True, "caught": caught, "planted": 12, "required_missed": []} | own
    return Result(
        student,
        module,
        file,
        State.GRADED,
        points={"a": worth["a"] * (a == "passed"), OWN_TESTS: worth[OWN_TESTS] * caught / 12},
        worth=worth,
        report={"named_tests": tests, "own_tests": suite},
        key=key,
    )


def absent(student: str = "alice", module: str = "L8.4", state: State = State.NOT_SUBMITTED, key: str = "") -> Result:
    return Result(student, module, "", state, points={"a": 0.0}, worth={"a": 80.0, OWN_TESTS: 20.0}, key=key)


def of(*results: Result, modules: tuple[str, ...] = ("L8.4",)) -> Class:
    return Class("spring", modules, results)


def only(before: Result, after: Result) -> Change:
    (change,) = changes(of(before), of(after))
    return change


def text(found: tuple[Change, ...], n_students: int | None = None) -> str:
    console = Console(width=200, no_color=True)
    with console.capture() as captured:
        console.print(compare.shown(found, n_students))
    return captured.get()


# ---------------------------------------------------------------- what differs


def test_what_agrees_is_left_out() -> None:
    again = result(key=KEY.replace("grader:1", "grader:2"))
    again.report["named_tests"][0]["seconds"] = 9.0
    assert changes(of(result()), of(again)) == ()
    assert text(()) == "Nobody's points or verdicts change.\n"


def test_a_changed_verdict_is_told_test_by_test() -> None:
    change = only(result(a="failed"), result(caught=9, key=KEY.replace("grader:1", "grader:2")))
    assert change == Change(
        "alice",
        "L8.4",
        Kind.CHANGED,
        before=20.0,
        after=95.0,
        total_before=20.0,
        total_after=95.0,
        steps=(
            Step("score", "20 of 100", "95 of 100"),
            Step("a", "failed", "passed"),
            Step("own tests", "12 of 12 caught", "9 of 12 caught"),
        ),
        why=("the grader's version changed",),
    )
    assert change.difference == 75.0


def test_the_same_points_for_another_reason_are_a_change() -> None:
    assert only(result(a="failed"), result(a="timed out")).steps == (Step("a", "failed", "timed out"),)
    assert only(result(), result(required_missed=["x"])).steps == (
        Step("own tests", "12 of 12 caught", "12 of 12 caught, a required one missed"),
    )
    assert only(result(caught=0), result(caught=0, valid=False)).steps[0].after == "not valid"
    assert only(result(caught=0), result(caught=0, graded=False)).steps[0].after == "not graded"


def test_a_test_that_is_new_or_gone_is_told() -> None:
    more = result()
    more.report["named_tests"].append({"test": "c", "status": "failed"})
    assert only(result(), more).steps == (Step("c", "nothing", "failed"),)
    assert only(more, result()).steps == (Step("c", "failed", "nothing"),)


def test_a_changed_state_is_a_change_at_0_points_too() -> None:
    assert only(absent(), absent(state=State.UNREADABLE)).steps == (Step("state", "not submitted", "can't be read"),)


# ---------------------------------------------------------------- why


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ("submission", "the submission changed"),
        ("earlier", "an earlier module of theirs changed"),
        ("grader", "the grader's version changed"),
        ("settings", "the limits or settings changed"),
    ],
)
def test_the_part_of_the_key_that_differs_is_the_reason(part: str, why: str) -> None:
    assert only(result(), result(a="failed", key=KEY.replace(f"{part}:1", f"{part}:2"))).why == (why,)


def test_every_reason_is_told() -> None:
    before = result(file="radix_cache(1).ipynb")
    after = result(key=KEY.replace("1", "2"), worth={"a": 70.0, OWN_TESTS: 30.0}, a="failed")
    assert only(before, after).why == (
        "another file is graded: radix_cache.ipynb, not radix_cache(1).ipynb",
        "the submission changed",
        "an earlier module of theirs changed",
        "the grader's version changed",
        "the limits or settings changed",
        "what the checks are worth changed",
    )


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (absent(), result(), "it was handed in since"),
        (absent(), absent(state=State.UNREADABLE), "it was handed in since"),
        (result(), absent(), "the file is no longer there"),
        (absent(state=State.NOT_GRADED), result(), "it could not be graded before"),
        (result(), absent(state=State.NOT_GRADED), "it could not be graded now"),
        (result(), result(a="timed out"), compare.UNSTABLE),
        (result(key=""), result(a="timed out"), compare.UNKNOWN),
        (result(), result(a="timed out", key="older form"), compare.UNKNOWN),
    ],
)
def test_reasons_that_no_key_tells(before: Result, after: Result, why: str) -> None:
    assert only(before, after).why == (why,)


# ---------------------------------------------------------------- new and gone


def test_students_who_are_new_or_gone_are_told() -> None:
    gone, new = changes(of(result("alice"), result("bob")), of(result("bob"), result("carol")))
    assert gone == Change("alice", "L8.4", Kind.GONE, 100.0, None, 100.0, None)
    assert new == Change("carol", "L8.4", Kind.NEW, None, 100.0, None, 100.0)
    assert (gone.difference, new.difference) == (-100.0, 100.0)


def test_a_module_that_is_new_or_gone_is_no_new_student() -> None:
    old = of(result(module="L10.1"), result(module="L8.4"), modules=("L10.1", "L8.4"))
    new = of(result(module="L8.4"), result(module="L10.4", a="failed"), modules=("L8.4", "L10.4"))
    found = changes(old, new)
    assert [(each.module, each.kind, each.total_before, each.total_after) for each in found] == [
        ("L10.4", Kind.NEW, 200.0, 120.0),
        ("L10.1", Kind.GONE, 200.0, 120.0),
    ]
    told = text(found)
    assert "alice: 200 → 120 (-80)" in told
    assert "  L10.4: not graded before, 20 points\n" in told
    assert "  L10.1: no longer graded, 100 points\n" in told


def test_totals_run_over_all_modules_and_changes_are_sorted() -> None:
    both = ("L8.4", "L10.4")
    old = of(result("bob"), result("bob", "L10.4"), result("alice"), result("alice", "L10.4"), modules=both)
    alice = (result("alice", a="failed"), result("alice", "L10.4", a="failed"))
    new = of(*alice, result("bob"), result("bob", "L10.4", caught=6), modules=both)
    found = changes(old, new)
    assert [(each.student, each.module) for each in found] == [("alice", "L8.4"), ("alice", "L10.4"), ("bob", "L10.4")]
    assert [(each.total_before, each.total_after) for each in found] == [(200, 40), (200, 40), (200, 190)]


# ---------------------------------------------------------------- shown


def test_the_changes_are_told_by_student() -> None:
    old = of(result("alice", a="failed"), result("bob"), result("carol"), result("dora"))
    new = of(result("alice"), result("bob", caught=6), result("carol", a="failed"), result("erik"))
    assert text(changes(old, new), n_students=4).splitlines() == [
        "Something changes for 5 students: 1 up, 2 down, 1 new, 1 gone. The class has 4 students.",
        "",
        "alice: 20 → 100 (+80)",
        f"  L8.4: 20 → 100: {compare.UNSTABLE}.",
        "    a: failed → passed",
        "",
        "bob: 100 → 90 (-10)",
        f"  L8.4: 100 → 90: {compare.UNSTABLE}.",
        "    own tests: 12 of 12 caught → 6 of 12 caught",
        "",
        "carol: 100 → 20 (-80)",
        f"  L8.4: 100 → 20: {compare.UNSTABLE}.",
        "    a: passed → failed",
        "",
        "dora: no longer in the class, 100 points before",
        "",
        "erik: new, 100 points",
    ]


def test_a_change_without_points_is_said_to_be_one() -> None:
    told = text(changes(of(result(a="failed")), of(result(a="timed out"))))
    assert "Something changes for 1 student: no points." in told
    assert "alice: 20 → 20 (+0)" in told


def test_names_that_hold_markup_or_line_ends_are_told_as_they_are() -> None:
    told = text(changes(of(), of(result("[red]x[/red]\n[link=file:///]"), result("caf\udce9"))))
    assert r"[red]x[/red]\n[link=file:///]: new" in told
    assert r"caf\udce9: new" in told


def test_changes_for_programs_are_plain_values() -> None:
    data = compare.as_data(changes(of(result("a\udce9", a="failed")), of(result("a\udce9"))))
    assert json.loads(json.dumps(data)) == [
        {
            "student": "a\udce9",
            "module": "L8.4",
            "kind": "changed",
            "before": 20.0,
            "after": 100.0,
            "total_before": 20.0,
            "total_after": 100.0,
            "steps": [
                {"what": "score", "before": "20 of 100", "after": "100 of 100"},
                {"what": "a", "before": "failed", "after": "passed"},
            ],
            "why": [compare.UNSTABLE],
            "difference": 80.0,
        }
    ]

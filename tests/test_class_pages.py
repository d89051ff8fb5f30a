"""Pages of a class: what stands on them, what must not, and names that are any text."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from pathlib import Path

import pytest
from paged import (
    CACHE,
    MANAGER,
    SERIES,
    TREE,
    absent,
    class_of,
    class_page,
    ended,
    passed,
    result,
    some_missed,
    sound,
    student_page,
    verdicts,
)

from autograder.budget import Budget
from autograder.catalogue import catalogue
from autograder.classroom.pages import KINDS, code, points, write
from autograder.classroom.pages.naming import page_name, seen
from autograder.classroom.pages.results import HIDDEN, concerns, pitfalls, shortest_story
from autograder.classroom.rows import Result, State
from autograder.planted import planted_bugs
from autograder.running import Status, Verdict
from autograder.sandbox import NOT_ISOLATED
from autograder.scoring import OwnScore
from course.modules import MODULES

NAMES = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "..",
    "a/b\\c",
    'O\'Brien & "co"',
    "two\nlines\ttab\x00\x1b[31m",
    "🦊",
    "x" * 300,
    "caf\udce9",
    "\u202eevil",
    " ",
    "Ada",
    "ada",
    "{{ 7 * 7 }}",
)


# ---------------------------------------------------------------- names


def test_names_of_pages_are_plain_short_and_different() -> None:
    made = {name: page_name(name) for name in NAMES}
    assert len({each.lower() for each in made.values()}) == len(NAMES)
    for name in made.values():
        stem = name.removesuffix(".html")
        assert stem.replace("-", "a").isalnum() and stem.isascii() and len(name) < 64


def test_a_name_in_a_line_shows_what_can_not_be_seen() -> None:
    assert seen("a\nb\tc\x00\u202ed") == r"a\nb\tc\x00\u202ed"
    assert seen(" ") == "' '"


def test_any_text_may_be_a_name(tmp_path: Path) -> None:
    results = [result(name, CACHE, remarks=(name,)) for name in NAMES]
    read = sound(class_page(tmp_path, *results, name="<b>class</b>"))
    assert "<b>class</b>" in read.text and "<script>alert(1)</script>" in read.text and "{{ 7 * 7 }}" in read.text
    for name in NAMES:
        page = (tmp_path / "students" / page_name(name)).read_text(encoding="utf-8")
        shown = seen(name).encode("utf-8", "backslashreplace").decode()
        assert " ".join(shown.split()) in sound(page).text
    linked = {(attrs["href"] or "") for attrs in read.all("a")}
    files = {f"students/{path.name}" for path in (tmp_path / "students").iterdir()}
    assert files == {link for link in linked if link.startswith("students/")} and len(files) == len(NAMES)


def test_markup_in_reasons_remarks_and_stories_is_text(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>\x1b[31m"
    story = dict(json.loads(json.dumps(next(each.story for each in verdicts(CACHE, "s01") if each.story))))
    story["fault"] = {**story["fault"], "got": evil, "rule": evil}
    story["got_state"] = {"kind": "tree", "rows": evil}
    failed = [Verdict(each.name, Status.FAILED, evil, story=story) for each in catalogue(CACHE)]
    broken = OwnScore(False, evil)
    one = result("ada", CACHE, failed, broken, remarks=("note " + evil,), notes=(evil,))
    budget = Budget(False, evil)
    other = result("ada", MANAGER, budget=budget)
    assert "<img src=x onerror=alert(1)>" in sound(student_page(tmp_path, one, other)).text
    assert "<img src=x onerror=alert(1)>" in sound((tmp_path / "class.html").read_text(encoding="utf-8")).text


# ---------------------------------------------------------------- a student's page


def test_a_page_has_every_test_its_points_and_its_reason(tmp_path: Path) -> None:
    found = verdicts(CACHE, "s01")
    one = result("ada", CACHE, found, some_missed(CACHE))
    read = sound(student_page(tmp_path, one))
    for each in found:
        assert each.test in read.text
        assert " ".join(each.message.split()) in read.text
    assert f"{points(one.score)} of 100 points" in read.text
    missed = planted_bugs(CACHE)[0]
    assert f"{missed.title} required" in read.text and "They catch 11 of 12 planted bugs" in read.text
    assert f"{missed.title}. Read again: {missed.reread}." in read.text


def test_what_does_not_pass_comes_first_and_a_reason_is_told_once(tmp_path: Path) -> None:
    reason = "RadixCache is not defined in radix_cache.ipynb."
    found = [*passed(CACHE)[:6], *ended(CACHE, Status.NOT_DEFINED, reason)[6:]]
    text = sound(student_page(tmp_path, result("ada", CACHE, found))).text
    assert text.count(reason) == 1 and "For a reason that stands above." in text
    assert text.index(found[7].test) < text.index(found[0].test)


def test_the_shortest_failing_story_is_replayed(tmp_path: Path) -> None:
    *others, first, second = verdicts(TREE, "s03")
    assert first.story and second.story
    calls, fault = first.story["calls"], first.story["fault"]
    longer = {**first.story, "calls": [calls[0], *calls], "fault": {**fault, "at": fault["at"] + 1}}
    one = result("ada", TREE, [*others, replace(first, story=longer), second])
    told = shortest_story(one)
    assert told is not None and told.name == second.test
    text = sound(student_page(tmp_path, one)).text
    n = len(second.story["calls"])
    assert f"{second.test}: " in text and f"The shortest story that shows it has {n} calls" in text
    assert f"has {n + 1} calls" not in text and "✗ wrong" in text


def test_a_hidden_test_is_named_and_never_shown(tmp_path: Path) -> None:
    found = verdicts(CACHE, "s01")
    failed = tuple(each.test for each in found if not each.passed)
    open_page = student_page(tmp_path, result("ada", CACHE, found))
    one = result("ada", CACHE, found, hidden=failed)
    for page in (student_page(tmp_path, one), (tmp_path / "class.html").read_text(encoding="utf-8")):
        read = sound(page)
        for each in found:
            assert each.test in read.text
            assert not each.message or " ".join(each.message.split()) not in read.text
        assert "Step by step" not in read.text and planted_bugs(CACHE)[0].reread + "." not in read.text
        for test in catalogue(CACHE):
            assert test.name not in failed or html.escape(test.checks) not in page
    assert sound(student_page(tmp_path, one)).text.count(HIDDEN) == len(failed)
    assert HIDDEN not in open_page and "Step by step" in open_page


def test_pitfalls_come_from_what_is_not_hidden_alone() -> None:
    found = verdicts(CACHE, "s01")
    failed = [each.test for each in found if not each.passed]
    known = result("ada", CACHE, found)
    assert [each.title for each in pitfalls(known)] == [planted_bugs(CACHE)[0].title]
    assert pitfalls(replace(known, hidden=tuple(failed))) == ()


def test_no_page_shows_an_edit_of_a_planted_bug(tmp_path: Path) -> None:
    results = [result("ada", module, own=some_missed(module)) for module in MODULES]
    pages = html.unescape(student_page(tmp_path, *results) + (tmp_path / "class.html").read_text(encoding="utf-8"))
    for module in MODULES:
        for bug in planted_bugs(module):
            assert bug.title in pages
            assert not [line for line in bug.put.splitlines() if len(line) > 20 and line in pages]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (State.NOT_SUBMITTED, "Hand in radix_cache.ipynb"),
        (State.UNREADABLE, "If it no longer opens in JupyterLab"),
        (State.NOT_GRADED, "This says nothing about the work"),
    ],
)
def test_what_could_not_be_graded_says_so_and_what_to_do(tmp_path: Path, state: State, says: str) -> None:
    text = sound(student_page(tmp_path, absent("ada", CACHE, state, "A note."), result("ada", MANAGER))).text
    assert f"{state.value[:1].upper()}{state.value[1:]}. A note. {says}" in text
    assert "0 of 100" in text and "100 of 200 points" in text


def test_own_tests_that_are_not_valid_say_why(tmp_path: Path) -> None:
    text = sound(student_page(tmp_path, result("ada", CACHE, own=OwnScore(False, "test_x fails on a right one.")))).text
    assert "There is no valid set of tests" in text and "test_x fails on a right one." in text


def test_a_managers_charts_say_what_was_measured(tmp_path: Path) -> None:
    budget = Budget(True, "It is met.", 3.0, 2.97, **SERIES)
    page = student_page(tmp_path, result("ada", MANAGER, budget=budget))
    assert "It is met. This is no part of the points." in sound(page).text
    assert "none 96 ms, hash 32 ms, radix 41 ms. The budget is 48 ms." in page
    assert "hash 0%, 33%, 44%; radix 0%, 33%, 44%" in page


@pytest.mark.parametrize("budget", [Budget(None, "Not measured."), Budget(False, "The engine could not serve.")])
def test_without_a_measurement_there_are_words_and_no_charts(tmp_path: Path, budget: Budget) -> None:
    page = student_page(tmp_path, result("ada", MANAGER, budget=budget))
    assert budget.text in page and "<figure" not in page
    assert "Time to first token" not in (tmp_path / "class.html").read_text(encoding="utf-8")


# ---------------------------------------------------------------- the class's page


def test_a_class_has_its_numbers_its_rows_and_what_to_say_again(tmp_path: Path) -> None:
    found = verdicts(CACHE, "s01")
    results = [
        result("ada", CACHE, found, some_missed(CACHE)),
        result("ben", CACHE),
        result("cem", CACHE, found),
        absent("dan", CACHE, State.NOT_SUBMITTED),
    ]
    read = sound(class_page(tmp_path, *results))
    mean = sum(each.score for each in results) / 4
    assert f"students 4 modules graded, of 4 3 mean, of 100 points {mean:.1f}" in read.text
    bug = planted_bugs(CACHE)[0]
    assert f"{bug.title} L8.4. Read again: {bug.reread} 2 of 3" in read.text
    failed = next(each.test for each in found if not each.passed)
    assert f"{failed} L8.4 2 of 3" in read.text
    assert "dan all Nothing was handed in." in read.text
    signs = ["✓" if each.passed else "✗" for each in found]
    assert f"ada {' '.join(signs)} {signs.count('✓')}" in read.text
    assert any("1 from 0 to 10 %" in (svg["aria-label"] or "") for svg in read.all("svg"))


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (
            result("ada", CACHE, ended(CACHE, Status.DIED, "killed")),
            "Died: hand_example_shared_system_prompt and 7 more.",
        ),
        (
            result("ada", CACHE, ended(CACHE, Status.TIMED_OUT, "slow")[:1]),
            "Timed out: hand_example_shared_system_prompt.",
        ),
        (result("ada", CACHE, ended(CACHE, Status.OUT_OF_MEMORY, "big")), "Out of memory: "),
        (result("ada", CACHE, notes=("Two files were handed in.",)), "Two files were handed in."),
        (result("ada", MANAGER, budget=Budget(False, "The engine could not serve.")), "The engine could not serve."),
        (absent("ada", CACHE, State.UNREADABLE, "It is no notebook."), "Can't be read."),
        (absent("ada", CACHE, State.NOT_GRADED, "Its worker died."), "Its worker died."),
    ],
)
def test_who_needs_a_look(tmp_path: Path, one: Result, says: str) -> None:
    assert says in " ".join(concerns(one))
    assert says in sound(class_page(tmp_path, one, result("ben", CACHE))).text


def test_nobody_needs_a_look_where_all_is_well(tmp_path: Path) -> None:
    assert "Who needs a look Nobody." in sound(class_page(tmp_path, result("ada", CACHE))).text


def test_a_class_without_isolation_is_told_once_and_a_lone_student_by_name(tmp_path: Path) -> None:
    bare = [result(name, CACHE, isolation=NOT_ISOLATED) for name in ("ada", "ben")]
    text = sound(class_page(tmp_path, *bare)).text
    assert text.count("No submission was isolated") == 1 and "Not isolated, while" not in text
    text = sound(class_page(tmp_path, bare[0], result("ben", CACHE))).text
    assert "ada L8.4 Not isolated, while others were" in text and "No submission was isolated" not in text


def test_ttft_by_student_has_a_dot_and_a_row_each(tmp_path: Path) -> None:
    slow = Budget(False, "It is not met.", 3.0, 1.4, **SERIES)
    fast = Budget(True, "It is met.", 3.0, 2.97, **SERIES)
    results = [result("<i>", MANAGER, budget=slow), result("ben", MANAGER, budget=fast), result("cem", MANAGER)]
    text = sound(class_page(tmp_path, *results)).text
    assert "<i> 96.0 32.0 41.0 1.40 ✗ not met" in text and "ben 96.0 32.0 41.0 2.97 ✓ met" in text
    assert "<i>: 1.40 times sooner" in text and "budget 2×" in text


def test_a_class_of_nobody_has_a_page(tmp_path: Path) -> None:
    sound(class_page(tmp_path, name="empty"))


# ---------------------------------------------------------------- files


def test_writing_again_gives_the_same_bytes_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    cls = class_of(result("ada", CACHE, verdicts(CACHE, "s01")), result("ben", CACHE))
    write(cls, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.html")}
    write(cls, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_pages_of_students_who_are_gone_go_and_nothing_else_does(tmp_path: Path) -> None:
    write(class_of(result("ada", CACHE), result("ben", CACHE)), tmp_path)
    kept = tmp_path / "students" / "index.html"
    kept.write_text("mine", encoding="utf-8")
    write(class_of(result("ada", CACHE)), tmp_path)
    assert {path.name for path in (tmp_path / "students").iterdir()} == {"index.html", page_name("ada")}


# ---------------------------------------------------------------- small parts


def test_points_have_the_digits_they_need() -> None:
    assert [points(value) for value in (0.0, 100.0, 3.8095, 12.5)] == ["0", "100", "3.81", "12.5"]


def test_only_what_stands_between_backticks_is_code() -> None:
    assert code("`<b>` & more") == "<code>&lt;b&gt;</code> &amp; more"


def test_every_end_of_a_test_has_a_sign() -> None:
    assert {status.value for status in Status} <= set(KINDS)

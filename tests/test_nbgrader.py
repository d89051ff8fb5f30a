"""What nbgrader makes of our verdicts and of what was handed in: points, reasons, and a notebook made whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from nbgrader.nbgraderformat.v3 import MetadataValidatorV3
from nbgrader.utils import determine_grade

from autograder import nbgrader_plugin
from autograder.catalogue import catalogue
from autograder.classroom import points
from autograder.classroom.rows import OWN_TESTS, Result, State
from autograder.nbgrader_notebook import PUT_BACK, Marked, Row, fenced, made_whole
from autograder.nbgrader_outputs import NoSuchCheck, is_check, with_verdicts
from autograder.scoring import THRESHOLD
from course.modules import MODULES, Module
from notebooks import build
from tests.nbgrader_at_hand import CACHE, report_of, result_of, text_of

GRADED = [module for module in MODULES if module.name in build.names()]

each_graded = pytest.mark.parametrize("module", GRADED, ids=lambda module: module.name)


def checks_of(module: Module) -> list[dict[str, Any]]:
    """The cells of the course's notebook, ready for verdicts."""
    return [cell for cell in build.build(module.name)["cells"] if cell["cell_type"] == "code"]


def graded(module: Module, result: Result) -> dict[str, Any]:
    """The check cells with the outputs of a result, by name."""
    cells = checks_of(module)
    with_verdicts(cells, result)
    nbformat.validate(nbformat.from_dict({**build.build(module.name), "cells": cells}))
    return {
        cell["metadata"]["nbgrader"]["grade_id"].removeprefix(points.CHECK): nbformat.from_dict(cell)
        for cell in cells
        if is_check(cell)
    }


def scores(module: Module, result: Result) -> dict[str, float | None]:
    """What nbgrader makes of the outputs of a result."""
    return {name: determine_grade(cell)[0] for name, cell in graded(module, result).items()}


# ---------------------------------------------------------------- from verdicts to points


@each_graded
@pytest.mark.parametrize("n_lost", [0, 3, 100])
@pytest.mark.parametrize("caught", [0, 7, 10, 12])
def test_nbgrader_gives_the_points_of_the_verdicts(module: Module, n_lost: int, caught: int) -> None:
    lost = [test.name for test in catalogue(module)][:n_lost]
    result = result_of(module, report_of(module, lost, caught))
    assert scores(module, result) == result.points
    assert (result.points[OWN_TESTS] == result.worth[OWN_TESTS]) == (caught / 12 >= THRESHOLD)


@each_graded
@pytest.mark.parametrize("own", [{"valid": False, "reason": "test_x fails"}, {"graded": False}])
def test_own_tests_that_are_not_valid_or_not_scored_give_nothing(module: Module, own: dict[str, Any]) -> None:
    given = scores(module, result_of(module, report_of(module, caught=12, **own)))
    assert given[OWN_TESTS] == 0.0 and all(given[name] for name in given if name != OWN_TESTS)


@each_graded
@pytest.mark.parametrize("state", [State.NOT_SUBMITTED, State.UNREADABLE])
def test_work_without_a_verdict_gets_nothing_and_says_why(module: Module, state: State) -> None:
    result = result_of(module, {}, state, notes=("it was cut short",))
    cells = graded(module, result)
    assert set(scores(module, result).values()) == {0.0} and set(cells) == set(result.worth)
    assert all("it was cut short" in text_of(cell) for cell in cells.values())


def test_what_was_lost_says_why_and_what_it_gives() -> None:
    lost = catalogue(CACHE)[0].name
    cells = graded(CACHE, result_of(CACHE, report_of(CACHE, [lost], 9)))
    assert f"why {lost} is lost" in text_of(cells[lost]) and catalogue(CACHE)[0].checks in text_of(cells[lost])
    assert f"0 of {points.worth(CACHE)[lost]:g} points" in text_of(cells[lost])
    assert "9 of 12 planted bugs (75%, 80% needed)" in text_of(cells[OWN_TESTS])
    assert "a bug that got away" in text_of(cells[OWN_TESTS])
    assert text_of(cells[catalogue(CACHE)[1].name]).startswith("✓")


def test_what_belongs_to_no_check_stands_on_top_as_text() -> None:
    report = {**report_of(CACHE), "remarks": ["<script>alert(1)</script> half a character: \ud800"]}
    cells = checks_of(CACHE)
    with_verdicts(cells, result_of(CACHE, report))
    html = cells[0]["outputs"][0]["data"]["text/html"]
    assert "&lt;script&gt;" in html and "<script>" not in html and html.encode("utf-8")


def test_a_hidden_check_is_named_and_its_reason_is_not_shown() -> None:
    lost = catalogue(CACHE)[0].name
    cell = graded(CACHE, result_of(CACHE, report_of(CACHE, [lost]), hidden=(lost,)))[lost]
    assert lost in text_of(cell) and "failed" in text_of(cell) and determine_grade(cell)[0] == 0
    assert "is lost" not in text_of(cell) and catalogue(CACHE)[0].checks not in text_of(cell)


def test_a_check_that_belongs_to_no_named_test_is_refused() -> None:
    cells = checks_of(CACHE)
    check = next(cell for cell in cells if is_check(cell))
    check["metadata"]["nbgrader"]["grade_id"] = "check_something_else"
    with pytest.raises(NoSuchCheck, match="check_something_else has points"):
        with_verdicts(cells, result_of(CACHE, report_of(CACHE)))


# ---------------------------------------------------------------- a notebook made whole


def label(grade_id: str, **marks: Any) -> dict[str, Any]:
    given = {"grade_id": grade_id, "grade": False, "solution": False, "locked": True, "task": False}
    return {**given, "schema_version": 3, **marks}


STEP = Marked("step_1", "code", "raise NotImplementedError", label("step_1", solution=True, locked=False))
ONE = Marked("check_one", "code", 'check("one")', label("check_one", grade=True, points=4))
TWO = Marked("check_two", "code", 'check("two")', label("check_two", grade=True, points=6))
LOOK = Marked("look_1", "code", "look()", label("look_1"))
MARKED = (STEP, LOOK, ONE, TWO)
WHOLE = tuple(Row("code", each.source, each.grade_id) for each in MARKED)
PROSE = frozenset({"# A title <details>"})


def names(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    return [cell["metadata"].get("nbgrader", {}).get("grade_id", "") for cell in cells]


def whole(*rows: Row) -> list[dict[str, Any]]:
    return made_whole(rows, MARKED, PROSE)


def test_a_whole_notebook_stays_as_it_is() -> None:
    cells = whole(Row("markdown", "# A title <details>"), *WHOLE)
    assert names(cells) == ["", "step_1", "look_1", "check_one", "check_two"]
    assert [cell["source"] for cell in cells[1:]] == [each.source for each in MARKED]
    assert cells[0]["source"] == "# A title <details>"


def test_of_copies_the_last_one_counts_as_nbgrader_counts_it() -> None:
    cells = whole(Row("code", "old", "step_1"), Row("code", "new", "step_1"), *WHOLE[1:])
    assert names(cells) == ["", "step_1", "look_1", "check_one", "check_two"]
    assert [cell["source"] for cell in cells[:2]] == ["old", "new"]


def test_cells_without_labels_are_known_by_their_text() -> None:
    cells = whole(*(Row("code", row.source + "\n") for row in WHOLE))
    assert names(cells) == ["step_1", "look_1", "check_one", "check_two"]


def test_missing_checks_are_put_back_behind_what_they_follow_and_it_is_said() -> None:
    cells = whole(Row("code", "class X: pass", "step_1"), Row("code", "a helper"))
    assert names(cells) == ["step_1", "", "check_one", "check_two", ""]
    assert cells[1]["source"] == PUT_BACK and cells[-1]["source"] == "a helper"
    assert names(whole(Row("code", "class X: pass"))) == ["", "", "check_one", "check_two"]
    assert names(whole()) == ["", "check_one", "check_two"]


def test_what_a_student_made_of_a_check_or_its_label_is_gone_and_of_an_answer_stays() -> None:
    cells = whole(
        Row("code", "my answer", "step_1"),
        Row("markdown", "no check any more", "check_one"),
        Row("code", "pass", "check_two"),
        Row("code", "mine", "check_of_mine"),
    )
    found = dict(zip(names(cells), cells, strict=True))
    assert found["step_1"]["source"] == "my answer"
    assert (found["check_one"]["cell_type"], found["check_one"]["source"]) == ("code", 'check("one")')
    assert found["check_two"]["source"] == 'check("two")'
    assert found["check_two"]["metadata"] == {"nbgrader": TWO.label}
    assert found[""]["source"] == "mine" and found[""]["metadata"] == {}


@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_prose_of_a_students_own_is_shown_as_text(kind: str) -> None:
    hostile = "~~~\n<script>alert(1)</script>\n~~~~\n<img src=x onerror=alert(1)> [a](javascript:alert(1))\n$$\n"
    cell = whole(Row(kind, hostile))[0]
    html = markdown2html_mistune(cell["source"])
    assert cell["cell_type"] == "markdown" and "<script" not in html and "<img" not in html and "<a " not in html
    assert "&lt;script&gt;alert(1)" in html


@settings(max_examples=100, deadline=None, derandomize=True)
@given(text=st.text(alphabet="~`\n <a", max_size=30))
def test_a_fence_can_not_be_ended_from_within(text: str) -> None:
    html = markdown2html_mistune(fenced(text))
    assert html.startswith("<pre>") and html.rstrip().endswith("</pre>") and "<a" not in html


ROWS = st.builds(
    Row,
    st.sampled_from(["code", "markdown", "raw"]),
    st.sampled_from(["x = 1", *(each.source for each in MARKED)]),
    st.sampled_from(["", "unknown", *(each.grade_id for each in MARKED)]),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(rows=st.lists(ROWS, max_size=8))
def test_whatever_was_handed_in_each_check_is_there_once_and_nothing_is_lost(rows: list[Row]) -> None:
    cells = whole(*rows)
    found = [name for name in names(cells) if name]
    assert len(found) == len(set(found)) and {"check_one", "check_two"} <= set(found)
    assert len(cells) >= len(rows) and len({cell["id"] for cell in cells}) == len(cells)
    book = nbformat.from_dict({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
    nbformat.validate(book)
    MetadataValidatorV3().validate_nb(book)


def test_feedback_has_no_hidden_tests_and_leaves_a_students_own_marks_alone() -> None:
    hidden = 'check("one")\n### BEGIN HIDDEN TESTS\nsecret()\n### END HIDDEN TESTS\nafter()'
    cells = [
        {"cell_type": "code", "metadata": {"nbgrader": ONE.label}, "source": hidden, "outputs": []},
        {"cell_type": "code", "metadata": {}, "source": "### BEGIN HIDDEN TESTS", "outputs": []},
    ]
    book = nbformat.from_dict({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
    shown, _ = nbgrader_plugin.HideHiddenTests().preprocess(book, {})
    assert shown.cells[0].source == 'check("one")\n# A hidden check stands here.\nafter()'
    assert shown.cells[1].source == "### BEGIN HIDDEN TESTS"

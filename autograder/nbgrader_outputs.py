"""What a verdict looks like in nbgrader: outputs of check cells, with the points for nbgrader, the reason for readers.

It knows what nbgrader makes of outputs (an error gives 0, a number as a cell's value that many points, anything else
all of them) and what of a result a student may see. How the result came about it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from autograder.classroom import points
from autograder.classroom.pages import student
from autograder.classroom.pages.results import Own
from autograder.classroom.pages.student import Section, TestRow
from autograder.classroom.points import CHECK
from autograder.classroom.rows import OWN_TESTS, Result, State
from autograder.nbgrader_notebook import storable
from autograder.scoring import THRESHOLD
from course.modules import find

NAME_OF_ERROR = "NotPassed"
HEADING = "# How this notebook was graded. This cell was added then; no cell was run again to show it."


class NoSuchCheck(Exception):
    """A cell has points, and nothing here knows how to grade it; the message names it."""


Output = dict[str, Any]


def with_verdicts(cells: list[dict[str, Any]], result: Result) -> None:
    """Give each check cell the outputs of its verdict, and put a cell with the rest of the report on top.

    Args:
        cells: a notebook's cells, changed in place; nbgrader's labels say which are checks and what they are worth.
        result: what was graded: not State.NOT_GRADED, which is no verdict on the work.

    Raises:
        NoSuchCheck: an autograded cell belongs to no named test.
    """
    shares = points.shares(find(result.module), result.report)
    section = student.page("", result.student, [result]).sections[0]
    rows = {row.ended.name: row for row in section.rows}
    for cell in cells:
        if is_check(cell):
            label = cell["metadata"]["nbgrader"]
            name, most = label["grade_id"].removeprefix(CHECK), float(label["points"])
            if name not in shares:
                raise NoSuchCheck(f"{label['grade_id']} has points, and {result.module} has no named test {name}.")
            won = points.of(most, shares[name])
            if name == OWN_TESTS:
                cell["outputs"] = list(_own_tests(section, won, most))
            else:
                cell["outputs"] = list(_named_test(section, rows.get(name), won, most))
    cells.insert(0, _summary(section))


def is_check(cell: Mapping[str, Any]) -> bool:
    """Whether a cell's points hang on what running it shows, for nbgrader."""
    label = cell["metadata"].get("nbgrader", {})
    return cell["cell_type"] == "code" and bool(label.get("grade")) and not label.get("solution")


# ---------------------------------------------------------------- a named test


def _named_test(section: Section, row: TestRow | None, won: float, most: float) -> Iterator[Output]:
    if row is not None and row.ended.passed:
        yield _said(f"✓ {row.ended.name}\n{_points(won, most)}")
        return
    story = section.story
    if row is not None and story is not None and story.test == row.ended.name:
        yield _shown(str(story.html), "The shortest story that shows it stands in the page with feedback.")
    yield _error("\n".join([*_reason(section, row), _points(won, most)]))


def _reason(section: Section, row: TestRow | None) -> Iterator[str]:
    if row is None:
        yield from (f"{section.state or 'There is no verdict on this check'}.", *section.notes)
        return
    yield f"✗ {row.ended.name}: {row.ended.status}"
    if row.checks:
        yield f"It checks: {row.checks}"
    if row.ended.message:
        yield row.ended.message


# ---------------------------------------------------------------- own tests


def _own_tests(section: Section, won: float, most: float) -> Iterator[Output]:
    """The reason, then the points as the cell's value: they may be part of the whole."""
    yield _said("\n".join([*_of_own_tests(section, section.own), _points(won, most)]))
    yield {
        "output_type": "execute_result",
        "execution_count": None,
        "metadata": {},
        "data": {"text/plain": repr(won)},
    }


def _of_own_tests(section: Section, own: Own | None) -> Iterator[str]:
    if own is None:
        yield from (f"{section.state}.", *section.notes)
    elif not own.valid:
        yield from ("✗ Your own tests are not valid.", own.reason)
    else:
        sign = "✓" if own.passed else "✗"
        share = f"{own.share:.0%}, {THRESHOLD:.0%} needed"
        yield f"{sign} Your own tests catch {own.caught} of {own.planted} planted bugs ({share})."
        yield from [own.reason] * bool(own.reason)
        yield from (f"Not caught: {title}" for title in own.missed)


# ---------------------------------------------------------------- the rest of the report


def _summary(section: Section) -> dict[str, Any]:
    """A cell with what belongs to no single check."""
    lines = [storable(line) for line in _general(section)]
    html = "".join(f'<li style="white-space:pre-wrap">{escape(line)}</li>' for line in lines)
    return {
        "id": "graded",
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [_shown(f"<ul>{html}</ul>", "\n".join(lines))],
        "source": HEADING,
    }


def _general(section: Section) -> Iterator[str]:
    if section.state:
        yield f"{section.state}."
    yield from section.notes
    if section.advice:
        yield section.advice
    if section.result.state is State.GRADED:
        yield f"{section.n_passed} of {len(section.rows)} named tests passed."
    yield from (
        f"This looks like a known pitfall: {each.title}. Read again: {each.reread}." for each in section.pitfalls
    )
    yield from section.remarks
    if section.manager:
        yield f"TTFT budget: {section.manager.result} (no part of the points). {section.manager.text}"
    if section.footnote:
        yield section.footnote


# ---------------------------------------------------------------- outputs


def _points(won: float, most: float) -> str:
    return f"{won:g} of {most:g} points"


def _said(text: str) -> Output:
    return {"output_type": "stream", "name": "stdout", "text": storable(text) + "\n"}


def _shown(html: str, text: str) -> Output:
    data = {"text/html": storable(html), "text/plain": text}
    return {"output_type": "display_data", "metadata": {}, "data": data}


def _error(text: str) -> Output:
    lines = storable(text).splitlines()
    return {"output_type": "error", "ename": NAME_OF_ERROR, "evalue": lines[0], "traceback": lines}

"""The notebooks: built from their text, sound for nbgrader, with every test in its place and no solution left over."""

from __future__ import annotations

import json
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import pytest
from editions import GRADED, NAMES, UNGRADED, built, code_of, nbgrader_of, prose_of, solution_of, students
from nbgrader.nbgraderformat.v3 import MetadataValidatorV3

from autograder.catalogue import catalogue
from autograder.implementations import flat_below
from autograder.planted import planted_bugs
from autograder.running import run_named
from autograder.subject import load
from course import modules, pictures
from notebooks import build, sources, stubs

each = pytest.mark.parametrize("name", NAMES)
each_graded = pytest.mark.parametrize("name", GRADED)


def test_there_is_a_notebook_for_each_module_a_tour_and_a_lab() -> None:
    assert sorted(NAMES) == sorted([*(module.name for module in modules.MODULES), *UNGRADED])


# ---------------------------------------------------------------- built as the text says


@each
def test_the_built_notebook_is_what_its_text_gives(name: str) -> None:
    written = build.notebook_path(name).read_text(encoding="utf-8")
    assert written == build.as_text(build.build(name)), "run python -m notebooks.build"


@each
def test_a_built_notebook_is_valid_and_without_outputs(name: str) -> None:
    notebook = built(name)
    nbformat.validate(nbformat.from_dict(notebook))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None


@each
def test_nbgrader_finds_nothing_to_object_to(name: str) -> None:
    for edition in (built(name), students(name)):
        MetadataValidatorV3().validate_nb(nbformat.from_dict(edition))


@each
def test_ids_are_unique_and_those_of_nbgraders_cells_are_their_grade_ids(name: str) -> None:
    cells = built(name)["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        if "nbgrader" in cell["metadata"]:
            assert cell["id"] == nbgrader_of(cell)["grade_id"].replace("_", "-")


def test_ids_stay_when_the_text_around_them_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (build.HERE / "radix_cache" / "radix_cache.md").read_text(encoding="utf-8")
    monkeypatch.setattr(build, "HERE", tmp_path)
    (tmp_path / "radix_cache").mkdir()
    source = tmp_path / "radix_cache" / "radix_cache.md"
    source.write_text(text, encoding="utf-8")
    before = [cell["id"] for cell in build.build("radix_cache")["cells"]]
    source.write_text(text.replace("## 1. Why now\n", "## 0. New\n\nMore.\n\n+++\n\n## 1. Why now\n\nMore.\n"))
    after = [cell["id"] for cell in build.build("radix_cache")["cells"]]
    assert set(before) < set(after) and set(after) - set(before) == {"0-new-1"}


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (":grade_id: a\n:role: answer\n\npass", "role 'answer' is none of"),
        (":grade_id: a\n:role: solution\n:point: 3\n\npass", "unknown options point"),
        (":points: 3\n\npass", "needs a grade_id"),
        ("{{ step 1: RadixCache.matchprefix }}", "does not define RadixCache.matchprefix"),
        ("{{ step 1: Cache.insert }}", "does not define Cache.insert"),
        ("{{ own tests: test_nothing }}", "does not define test_nothing"),
        ("{{ steps: RadixCache.insert }}", "not a reference"),
    ],
)
def test_a_text_that_cant_be_built_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cell: str, said: str
) -> None:
    monkeypatch.setattr(build, "HERE", tmp_path)
    (tmp_path / "radix_cache").mkdir()
    head = "---\njupytext:\n  text_representation:\n    extension: .md\n    format_name: myst\n---\n\n"
    (tmp_path / "radix_cache" / "radix_cache.md").write_text(f"{head}```{{code-cell}} ipython3\n{cell}\n```\n")
    with pytest.raises(build.BadSource, match=re.escape(said)):
        build.build("radix_cache")


def test_check_writes_nothing_and_says_what_is_out_of_date(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(build.HERE / "radix_cache", tmp_path / "radix_cache", ignore=shutil.ignore_patterns(".*"))
    monkeypatch.setattr(build, "HERE", tmp_path)
    assert build.main(["--check"]) == 0
    built = tmp_path / "radix_cache" / "radix_cache.ipynb"
    built.write_text("{}")
    assert build.main(["--check"]) == 1 and built.read_text() == "{}"
    assert "radix_cache: out of date" in capsys.readouterr().out
    assert build.main([]) == 0 and build.main(["--check"]) == 0


# ---------------------------------------------------------------- solutions and stubs


@each_graded
def test_the_solution_cells_are_a_right_implementation(name: str) -> None:
    module = modules.find(name)
    subject = load(module, solution_of(built(name), but="own_tests"), flat_below(module))
    verdicts = [run_named(test, subject) for test in catalogue(module)]
    assert [verdict for verdict in verdicts if not verdict.passed] == []


@each_graded
def test_the_stubs_pass_no_test_and_name_their_step(name: str) -> None:
    module = modules.find(name)
    source = solution_of(students(name), but="own_tests")
    subject = load(module, source, flat_below(module))
    assert [test.name for test in catalogue(module) if run_named(test, subject).passed] == []
    raised = re.findall(r"raise NotImplementedError\((.*)\)", source)
    assert raised and all(re.fullmatch(r'"step \d+: \w+"', what) for what in raised)


def regions(notebook: dict[str, Any], but: str = "") -> set[str]:
    """The lines of a notebook's solutions that are long enough to be told from others."""
    bodies = re.findall(r"### BEGIN SOLUTION.*?\n(.*?)### END SOLUTION", solution_of(notebook, but), re.DOTALL)
    return {line.strip() for body in bodies for line in body.splitlines() if len(line.strip()) > 30}


@each
def test_no_line_of_a_solution_is_left_in_the_students_edition(name: str) -> None:
    student = json.dumps(students(name))
    lines = regions(built(name), but="own_tests")
    assert name not in GRADED or len(lines) > 10
    assert [line for line in lines if json.dumps(line)[1:-1] in student] == []
    assert "SOLUTION" not in student


@each_graded
def test_no_test_of_the_solution_is_left_in_the_students_edition(name: str) -> None:
    student = json.dumps(students(name))
    cell = next(c for c in code_of(built(name)) if nbgrader_of(c).get("grade_id") == "own_tests")
    tests = re.findall(r"^ *def (test\w+)", cell["source"], re.MULTILINE)
    assert len(tests) > 5 and [test for test in tests if f"def {test}(" in student] == []


def test_regions_are_cleared_where_they_stand() -> None:
    region = stubs.marked("return 1\n\nreturn 2", "step 2: insert")
    source = f"class A:\n    def insert(self):\n        {region.replace(chr(10), chr(10) + '        ')}\n\n    x = 1"
    assert stubs.cleared(source) == (
        "class A:\n    def insert(self):\n        # YOUR CODE HERE\n"
        '        raise NotImplementedError("step 2: insert")\n\n    x = 1'
    )
    assert stubs.cleared(stubs.marked("def test_a(): pass")) == "# YOUR CODE HERE"


def test_a_reference_keeps_signature_and_docstring_outside_the_region() -> None:
    filled = sources.filled("class RadixCache:\n    {{ step 4: RadixCache.unlock }}", "radix_cache")
    head, _, body = filled.partition("        ### BEGIN SOLUTION step 4: unlock\n")
    assert 'def unlock(self, node: NodeId) -> None:\n        """' in head and head.startswith("class RadixCache:\n")
    assert body == "        self.tree.unlock(node)\n        ### END SOLUTION"


# ---------------------------------------------------------------- points and contents


@each_graded
def test_points_sum_to_100_and_every_named_test_has_a_cell(name: str) -> None:
    graded = {nbgrader_of(c)["grade_id"]: c for c in built(name)["cells"] if nbgrader_of(c).get("grade")}
    points = {grade_id: nbgrader_of(cell)["points"] for grade_id, cell in graded.items()}
    assert sum(points.values()) == 100 and points["check_own_tests"] == 20
    assert all(type(value) is int and value > 0 for value in points.values())
    tests = [test.name for test in catalogue(modules.find(name))]
    assert set(graded) == {f"check_{test}" for test in tests} | {"check_own_tests"}
    for test in tests:
        lines = graded[f"check_{test}"]["source"].split("\n")
        assert [line for line in lines if not line.startswith("### ")] == [f'check("{test}")']
    assert graded["check_own_tests"]["source"] == "score_own_tests(points=20)"


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("### BEGIN HIDDEN TESTS\ncheck('a')\n### END HIDDEN TESTS", ""),
        ("x = 1\n### BEGIN HIDDEN TESTS\ncheck('a')\n### END HIDDEN TESTS\ncheck('b')", "x = 1\ncheck('b')"),
        ("check('a')", "check('a')"),
    ],
)
def test_hidden_tests_are_cleared_as_nbgrader_clears_them(source: str, left: str) -> None:
    from nbformat.v4 import new_code_cell
    from nbgrader.preprocessors import ClearHiddenTests

    cell = new_code_cell(source)
    ClearHiddenTests()._remove_hidden_test_region(cell)
    assert stubs.without_hidden(source).strip() == cell.source.strip() == left


@pytest.mark.parametrize("name", UNGRADED)
def test_a_notebook_without_a_module_has_no_points(name: str) -> None:
    assert [cell for cell in built(name)["cells"] if nbgrader_of(cell).get("grade")] == []


@each_graded
def test_long_tests_are_worth_most(name: str) -> None:
    kinds = {f"check_{test.name}": test.kind for test in catalogue(modules.find(name))}
    points = {
        nbgrader_of(c)["grade_id"]: nbgrader_of(c).get("points", 0) for c in code_of(built(name)) if nbgrader_of(c)
    }
    most = max(points[grade_id] for grade_id in kinds)
    assert most > min(points[grade_id] for grade_id in kinds)
    assert {kinds[grade_id] for grade_id in kinds if points[grade_id] == most} & {"golden", "property"}


@each_graded
def test_each_step_is_followed_by_a_look_of_its_own(name: str) -> None:
    cells = [cell for cell in code_of(built(name)) if nbgrader_of(cell)]
    ids = [nbgrader_of(cell)["grade_id"] for cell in cells]
    steps = [grade_id for grade_id in ids if re.fullmatch(r"step_\d+", grade_id)]
    assert steps == [f"step_{n}" for n in range(1, len(steps) + 1)] and 3 <= len(steps) <= 8
    after = dict(pairwise(ids))
    assert [after[step] for step in steps] == [step.replace("step", "look") for step in steps]
    for cell in cells:
        if nbgrader_of(cell)["grade_id"].startswith("look_"):
            assert nbgrader_of(cell)["locked"]
            assert re.search(r"""^check\([^"']+\)$""", cell["source"], re.MULTILINE)


@each_graded
def test_cells_that_use_the_engine_are_the_courses_own(name: str) -> None:
    # a room has neither the prompts nor a model: what fails there in a student's cell would be told as a note
    used = re.compile(r"\b(serve|server|shared_prompts)\(")
    cells = [cell for cell in code_of(built(name)) if used.search(cell["source"])]
    assert cells and [cell["source"] for cell in cells if not nbgrader_of(cell).get("locked")] == []


SECTIONS = (
    "1. Why now",
    "2. The idea",
    "3. A worked example",
    "4. The interface",
    "Tests first",
    "Your ",
    "5. Pitfalls",
    "Going further",
    "6. What you have now",
)


@each_graded
def test_the_sections_come_in_their_order(name: str) -> None:
    prose = prose_of(built(name))
    headings = re.findall(r"^## (.+)$", prose, re.MULTILINE)
    found = [heading for heading in headings if heading.startswith(SECTIONS)]
    assert [next(part for part in SECTIONS if heading.startswith(part)) for heading in found[:6]] == list(SECTIONS[:6])
    assert found[-3:] == list(SECTIONS[-3:])
    for row in ("Time", "Needs", "Leads to", "Milestone", "Size", "Optional reading"):
        assert f"| **{row}** |" in prose


@each_graded
def test_what_was_learned_is_proved_by_named_tests(name: str) -> None:
    prose = prose_of(built(name))
    takeaways = prose[prose.index("## 6. What you have now") :]
    points = re.findall(r"^- (.+(?:\n  .+)*)", takeaways, re.MULTILINE)
    tests = {test.name for test in catalogue(modules.find(name))}
    assert len(points) >= 4
    assert [point for point in points if not tests & set(re.findall(r"`(\w+)`", point))] == []


@each_graded
def test_the_pitfalls_are_the_planted_bugs(name: str) -> None:
    prose = prose_of(built(name))
    assert [
        bug.title for bug in planted_bugs(modules.find(name)) if f"| {bug.title} | {bug.symptom} |" not in prose
    ] == []


@each
def test_guesses_come_before_the_answer_and_are_empty(name: str) -> None:
    for cell in code_of(built(name)):
        if "compare(" in cell["source"] and "import" not in cell["source"]:
            assert re.match(r"[\w, ]+ = (None|\.\.\.)", cell["source"]), cell["source"]


def test_every_picture_is_shown_somewhere() -> None:
    code = "\n".join(cell["source"] for name in NAMES for cell in code_of(built(name)))
    drawn = [name for name in pictures.__all__ if name != "Picture"]
    assert len(drawn) == 7 and [name for name in drawn if f"{name}(" not in code] == []

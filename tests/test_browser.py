"""The course in a real browser: a student in JupyterLab, nbgrader's Validate, and formgrader for the instructor."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests import browser

pytestmark = pytest.mark.skipif(browser.CHROMIUM is None, reason="Debian's package chromium is not installed")

ROOT = Path(__file__).resolve().parent.parent
CLASS = ROOT / "fixtures" / "submissions" / "class"
FEW = ("right-1", "pitfall-last-token", "tests-weak")
EVERYBODY = pytest.param(tuple(sorted(path.name for path in CLASS.iterdir())), id="everybody", marks=pytest.mark.slow)

NAME = "radix_cache"
RIGHT, WHOLE = "max(n - 1, 0) // self.block_size", "n // self.block_size"
"""A line of the solution, and the mistake in it: a fully cached prompt is matched whole."""


@dataclass(frozen=True)
class Lab:
    """A JupyterLab that runs, and the folder it shows."""

    address: str
    folder: Path


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.chromium() as started:
        yield started


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    with browser.tab(chromium) as opened:
        yield opened


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "work").mkdir()
    with browser.jupyterlab(folder / "work", folder / "jupyter") as address:
        yield Lab(address, folder / "work")


def in_the_lab(lab: Lab, page: Page, student: str) -> browser.Open:
    """A student's own copy of the notebook, open in JupyterLab."""
    notebook = browser.hand_out(lab.folder / student, NAME)
    return browser.open_notebook(page, lab.address, f"{student}/{NAME}/{NAME}.ipynb", notebook)


def shows(output: Locator, *texts: str) -> None:
    """The texts stand in an output, where a student sees them."""
    for text in texts:
        expect(output.filter(has_text=text).first).to_be_visible()


def test_a_student_sees_the_tree_and_charts_and_what_a_stub_lacks(lab: Lab, page: Page, tmp_path: Path) -> None:
    opened = in_the_lab(lab, page, "first")
    for place in opened.code_before("own_tests"):
        expect(opened.run_at(place).filter(has_text="Error")).to_have_count(0)

    tree = opened.output("After A's insert")
    shows(tree, "It is 4.")
    expect(tree.locator("svg")).to_be_visible()
    assert {"1 2", "10", "3 4", "11"} <= set(tree.locator("svg text").all_text_contents())
    opened.shoot("After A's insert", tmp_path / "worked_example.png")

    expect(opened.output("draw_ttft(").locator("svg")).to_be_visible()
    opened.shoot("draw_ttft(", tmp_path / "ttft.png")

    opened.run("step_1")
    said = opened.run("look_1")
    shows(said, "Not written yet: step 1: __init__.", 'raise NotImplementedError("step 1: __init__")', "CheckFailed")
    opened.shoot("look_1", tmp_path / "stub.png")


def test_a_student_makes_a_mistake_mends_it_scores_and_validates(lab: Lab, page: Page, tmp_path: Path) -> None:
    opened, answers = in_the_lab(lab, page, "second"), browser.answers(NAME)
    opened.run("begin(")
    opened.run("import serve, shared_prompts")
    steps = sorted(step for step in answers if step.startswith("step_"))
    mended = next(step for step in steps if RIGHT in answers[step])
    for step in steps:
        opened.paste(step, answers[step].replace(RIGHT, WHOLE))
        expect(opened.run(step)).to_have_count(0)
    opened.run("mine = ")
    said = opened.run("check_the_last_prompt_token_is_never_covered")
    shows(said, "✗ failed", "A match covers at most (n - 1) // B * B tokens of a prompt", "got:      (2, (20,))")
    opened.shoot("check_the_last_prompt_token_is_never_covered", tmp_path / "mistake.png")
    assert "passes all the tests" not in opened.validate()

    for step in steps[steps.index(mended) :]:
        opened.paste(step, answers[step])
        opened.run(step)
    for check in opened.checks():
        if check != "check_own_tests":
            shows(opened.run(check), "✓ passed")
    expect(opened.run("draw_hit_rate(").locator("svg")).to_be_visible()
    opened.shoot("draw_hit_rate(", tmp_path / "hit_rate.png")

    opened.paste("own_tests", answers["own_tests"])
    opened.run("own_tests")
    score = opened.run("check_own_tests")
    shows(score, "Your tests catch 12 of 12 planted bugs.", "20 of 20 points")
    opened.shoot("check_own_tests", tmp_path / "own_tests.png")
    assert "Success! Your notebook passes all the tests." in opened.validate()
    page.screenshot(path=tmp_path / "validated.png")


# ---------------------------------------------------------------- the instructor


def course_of(students: Sequence[str], folder: Path) -> dict[str, str]:
    """Release an assignment in a course folder, grade these students' work; each one's score by `ol grade`."""
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    shutil.copytree(ROOT / "notebooks" / NAME, folder / "notebooks" / NAME)
    for student in students:
        shutil.copytree(CLASS / student, folder / "submitted" / student)
    here("nbgrader", "generate_assignment", NAME, folder=folder)
    here("nbgrader", "autograde", NAME, folder=folder)
    here("autograder.cli", "grade", "submitted", "--module", NAME, "--no-pages", folder=folder, ends=(0, 1))
    graded = json.loads((folder / "grades" / "grades.json").read_text(encoding="utf-8"))
    return {each["student"]: score_of(each["results"][0]) for each in graded["students"]}


def score_of(result: dict[str, Any]) -> str:
    """How formgrader shows a result; it has nothing to show of what was not handed in."""
    return "" if result["state"] == "not submitted" else f"{sum(result['points'].values()):g} / 100"


def here(module: str, *words: str, folder: Path, ends: tuple[int, ...] = (0,)) -> None:
    """Run a command of this environment in a folder."""
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-m", module, *words], cwd=folder, env=path, capture_output=True, text=True)
    assert done.returncode in ends, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("students", [pytest.param(FEW, id="a few"), EVERYBODY])
def test_formgrader_shows_a_class_with_the_points_of_ol_grade(
    chromium: Browser, tmp_path: Path, students: Sequence[str]
) -> None:
    (tmp_path / "course").mkdir()
    scores = course_of(students, tmp_path / "course")
    server = browser.jupyterlab(tmp_path / "course", tmp_path / "jupyter")
    with server as address, browser.tab(chromium, width=1440) as page:
        formgrader = browser.open_formgrader(page, address)
        formgrader.get_by_role("link", name=str(len(scores)), exact=True).click()
        for student, score in scores.items():
            row = formgrader.locator("tr").filter(has=page.get_by_text(student, exact=True))
            expect(row.locator(".score")).to_have_text(score)
        page.screenshot(path=tmp_path / "formgrader.png")

        row = formgrader.locator("tr").filter(has_text="pitfall-last-token")
        row.get_by_role("link").first.click()
        formgrader.get_by_role("link", name=NAME, exact=True).last.click()
        reason = formgrader.get_by_text("A match covers at most (n - 1) // B * B tokens").first
        reason.scroll_into_view_if_needed()
        expect(reason).to_be_visible()
        page.screenshot(path=tmp_path / "reason.png")

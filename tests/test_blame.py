"""Earlier modules: where they are found, which are built on, and who is to blame for a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder import implementations, starting
from autograder.budget import Budget, budget
from autograder.earlier import earlier_work
from autograder.grading import Report, grade
from autograder.report import as_data
from autograder.work import Limits
from course import modules

TREE, CACHE, MANAGER, POOL = (modules.find(n) for n in ("radix_tree", "radix_cache", "block_manager", "kv_pool"))
LIMITS = Limits(test_s=20.0)


def write(folder: Path, module: modules.Module, find: str = "", put: str = "") -> Path:
    """A module's reference as a student's file, perhaps with an edit."""
    source = implementations.reference_source(module)
    assert not find or source.count(find) == 1
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{module.name}.py"
    path.write_text(source.replace(find, put) if find else source, encoding="utf-8")
    return path


def graded(path: Path, module: modules.Module, flat: bool = False) -> Report:
    return grade(path, module, LIMITS, flat)


# ---------------------------------------------------------------- where they are found


def test_earlier_work_stands_beside_a_submission(tmp_path: Path) -> None:
    write(tmp_path, TREE)
    assert list(earlier_work(write(tmp_path, CACHE), CACHE)) == ["radix_tree"]


def test_earlier_work_stands_where_nbgrader_has_it(tmp_path: Path) -> None:
    write(tmp_path / "submitted" / "ada" / "radix_tree", TREE)
    path = write(tmp_path / "submitted" / "ada" / "radix_cache", CACHE)
    other = write(tmp_path / "submitted" / "ben" / "radix_cache", CACHE)
    assert list(earlier_work(path, CACHE)) == ["radix_tree"]
    assert list(earlier_work(other, CACHE)) == []


def test_a_folder_of_another_name_has_no_siblings(tmp_path: Path) -> None:
    write(tmp_path / "radix_tree", TREE)
    assert list(earlier_work(write(tmp_path / "work", CACHE), CACHE)) == []


@pytest.mark.parametrize("text", ["", "class RadixTree(:"])
def test_earlier_work_that_cant_be_read_is_left_out(tmp_path: Path, text: str) -> None:
    (tmp_path / "radix_tree.py").write_text(text, encoding="utf-8")
    assert list(earlier_work(write(tmp_path, CACHE), CACHE)) == []


# ---------------------------------------------------------------- which are built on


def test_a_sound_earlier_module_is_built_on(tmp_path: Path) -> None:
    write(tmp_path, TREE)
    report = graded(write(tmp_path, CACHE), CACHE)
    assert report.named_passed and report.below == "your own radix_tree.py" and report.remarks == ()


def test_without_earlier_modules_there_are_flat_models(tmp_path: Path) -> None:
    report = graded(write(tmp_path, CACHE), CACHE)
    assert report.named_passed and report.below == "the flat model of radix_tree"


def test_an_earlier_module_that_fails_is_not_built_on_and_the_report_says_so(tmp_path: Path) -> None:
    (tmp_path / "radix_tree.py").write_text(starting.stubs(TREE), encoding="utf-8")
    report = graded(write(tmp_path, CACHE), CACHE)
    assert report.named_passed and report.below == "the flat model of radix_tree"
    (remark,) = report.remarks
    assert remark.startswith("Your own radix_tree.py does not pass ds.07 yet (")
    assert remark.endswith("so a flat model took its place: see ol check ds.07 radix_tree.py.")


def test_flat_models_can_be_asked_for(tmp_path: Path) -> None:
    write(tmp_path, TREE)
    assert graded(write(tmp_path, CACHE), CACHE, flat=True).below == "the flat model of radix_tree"


def test_references_stand_on_references() -> None:
    report = grade(implementations.SOLUTIONS / "radix_cache.py", CACHE)
    assert report.below == "the reference radix_tree.py" and report.passed


# ---------------------------------------------------------------- who is to blame

LATE = """

_insert = RadixTree.insert

def insert(self, tokens, values):
    {slip}
    return _insert(self, tokens, values)

RadixTree.insert = insert
"""
"""A slip in the tree that its own tests do not see: they never store so long a run."""


def test_a_fault_of_an_earlier_module_is_laid_at_its_door(tmp_path: Path) -> None:
    tree = write(tmp_path, TREE)
    slip = "if len(tokens) >= 600: values = list(values)[::-1]"
    tree.write_text(tree.read_text(encoding="utf-8") + LATE.format(slip=slip), encoding="utf-8")
    report = graded(write(tmp_path, CACHE), CACHE)
    assert report.named_passed
    assert report.remarks == (
        "On your own radix_tree.py this does not hold: a_prefix_computed_twice_is_kept_once. On the flat model it "
        "does, so the fault is there and not in radix_cache.py: the verdict is the one on the flat model.",
    )


def test_a_fault_of_its_own_stays_its_own(tmp_path: Path) -> None:
    write(tmp_path, TREE)
    report = graded(write(tmp_path, CACHE, "max(n - 1, 0)", "n"), CACHE)
    assert not report.named_passed and report.remarks == ()


# ---------------------------------------------------------------- the budget


def test_the_budget_waits_for_the_named_tests() -> None:
    found = budget(False, lambda: pytest.fail("no room is opened"), lambda *_: None)
    assert found == Budget(None, "Not measured: it is when every named test passes.")


def test_without_torch_there_is_no_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = budget(True, lambda: pytest.fail("no room is opened"), lambda *_: None)
    assert found == Budget(None, "Not measured: the engine needs torch, which is not installed here.")


@pytest.mark.slow
def test_the_budget_is_measured_over_the_submissions_manager(tmp_path: Path) -> None:
    report = grade(write(tmp_path, MANAGER), MANAGER, LIMITS, with_budget=True)
    assert report.named_passed and report.budget is not None
    assert report.budget.tokens >= 2, report.budget
    assert as_data(report)["budget"]["tokens"] == report.budget.tokens


@pytest.mark.slow
def test_a_manager_that_breaks_under_the_engine_has_no_budget_and_keeps_its_verdicts(tmp_path: Path) -> None:
    path = write(tmp_path, MANAGER)
    slip = (
        "\n\n_allocate = BlockManager.allocate\n\ndef allocate(self, seq, tokens):\n"
        "    if len(tokens) > 300: raise RuntimeError('too long')\n    return _allocate(self, seq, tokens)\n\n"
        "BlockManager.allocate = allocate\n"
    )
    path.write_text(path.read_text(encoding="utf-8") + slip, encoding="utf-8")
    report = grade(path, MANAGER, LIMITS, with_budget=True)
    assert report.named_passed and report.budget is not None and report.budget.met is False
    assert "could not serve over this manager: RuntimeError: too long (block_manager.py, line" in report.budget.text

"""Grading in rooms: every end is a verdict, one test's end takes no other's with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder import grading, implementations, samples
from autograder.catalogue import catalogue
from autograder.grading import Report, grade
from autograder.planted import planted_bugs
from autograder.rooms import Rooms
from autograder.running import Status, Verdict
from autograder.work import Limits
from course import modules

MODULE = modules.find("L8.4")
TESTS = [test.name for test in catalogue(MODULE)]
SHORT = Limits(test_s=1.0)
TAIL = "        return evicted"
"""The last line of `evict` in the reference: edits here concern evictions alone."""


def graded(folder: Path, source: str, tests: str = "", limits: Limits = SHORT, flat: bool = False) -> Report:
    path = folder / "radix_cache.py"
    path.write_text(source, encoding="utf-8")
    if tests:
        (folder / "test_radix_cache.py").write_text(tests, encoding="utf-8")
    return grade(path, MODULE, limits, flat)


def reference(find: str = "", put: str = "") -> str:
    source = implementations.reference_source(MODULE)
    assert not find or source.count(find) == 1
    return source.replace(find, put) if find else source


def endings(report: Report) -> dict[str, Status]:
    return {verdict.test: verdict.status for verdict in report.verdicts}


# ---------------------------------------------------------------- named tests


def test_the_reference_passes_its_named_tests(tmp_path: Path) -> None:
    report = graded(tmp_path, reference())
    assert report.named_passed and report.n_passed == len(TESTS)
    assert not report.passed and "no tests of your own" in report.own.reason
    assert report.below == "the flat model of radix_tree"


@pytest.mark.parametrize("bug", planted_bugs(MODULE), ids=lambda bug: bug.id)
def test_a_planted_bug_handed_in_fails_the_tests_that_must_catch_it(tmp_path: Path, bug: object) -> None:
    report = graded(tmp_path, reference(bug.find, bug.put))  # type: ignore[attr-defined]
    lost = {test for test, status in endings(report).items() if status is Status.FAILED}
    assert set(bug.caught_by) <= lost  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("put", "status", "reason"),
    [
        ("        while True: pass", Status.TIMED_OUT, "No end within 1 s: the time went in radix_cache.py, line"),
        ("        import os; os._exit(0)", Status.DIED, "The process ended by itself with exit code 0."),
        ("        import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", Status.DIED, "by the signal SIGSEGV."),
        ("        raise SystemExit", Status.DIED, "asked Python to exit (radix_cache.py, line"),
        ("        return bytearray(1 << 40)", Status.OUT_OF_MEMORY, "Memory ran out (radix_cache.py, line"),
        ("        return self.evict(n_blocks)", Status.FAILED, "Too deep a recursion (radix_cache.py, line"),
        ("        raise NotImplementedError('step 4')", Status.FAILED, "Not written yet: step 4 (radix_cache.py, line"),
        ("        return evicted.nonsense", Status.FAILED, "AttributeError: 'list' object has no attribute 'nonsense'"),
    ],
)
def test_the_end_of_one_test_leaves_the_others_their_own(tmp_path: Path, put: str, status: Status, reason: str) -> None:
    report = graded(tmp_path, reference(TAIL, put))
    ended = {verdict.test: verdict for verdict in report.verdicts}
    assert list(ended) == TESTS
    assert ended["eviction_frees_the_least_recently_used_first"].status is status
    assert reason in ended["eviction_frees_the_least_recently_used_first"].message
    for name in ("hand_example_shared_system_prompt", "a_prefix_computed_twice_is_kept_once"):
        assert ended[name].passed


def test_output_in_floods_and_waiting_for_input_do_no_harm(tmp_path: Path) -> None:
    noisy = "        print('x' * 1_000_000)\n" + TAIL
    assert graded(tmp_path, reference(TAIL, noisy)).named_passed
    asking = "        input()\n" + TAIL
    report = graded(tmp_path, reference(TAIL, asking))
    assert "EOFError" in {v.test: v for v in report.verdicts}["a_locked_prefix_survives_eviction"].message


def test_a_loop_while_the_file_runs_times_every_test_out_at_once(tmp_path: Path) -> None:
    report = graded(tmp_path, "while True: pass", limits=Limits(cell_s=1.0))
    assert set(endings(report).values()) == {Status.TIMED_OUT}
    (message,) = {verdict.message for verdict in report.verdicts}
    assert message == "No end within 1 s: the time went in radix_cache.py, line 1: while True: pass."
    assert report.seconds < 30


def test_the_limit_for_all_ends_all(tmp_path: Path) -> None:
    report = graded(tmp_path, reference(TAIL, "        while True: pass"), limits=Limits(test_s=60, total_s=1.5))
    lost = [verdict for verdict in report.verdicts if verdict.status is Status.TIMED_OUT]
    assert [verdict.passed for verdict in report.verdicts].count(True) >= 3
    assert len(lost) >= 3 and "The 1.5 s for the whole submission were used up" in lost[-1].message


@pytest.mark.parametrize(
    ("source", "status", "reason"),
    [
        ("x = 1", Status.NOT_DEFINED, "RadixCache is not defined in this submission"),
        (
            "1 / 0\nclass RadixCache: pass",
            Status.NOT_DEFINED,
            "ZeroDivisionError: division by zero (radix_cache.py, line 1",
        ),
        ("class RadixCache\n    pass", Status.UNREADABLE, "radix_cache.py, line 1: SyntaxError"),
        ("", Status.UNREADABLE, "radix_cache.py is empty"),
    ],
)
def test_what_is_not_there_is_never_a_pass(tmp_path: Path, source: str, status: Status, reason: str) -> None:
    report = graded(tmp_path, source)
    assert endings(report)["hand_example_shared_system_prompt"] is status
    assert not any(verdict.passed for verdict in report.verdicts) and not report.passed
    assert reason in report.verdicts[0].message


def test_nothing_handed_in_is_a_verdict(tmp_path: Path) -> None:
    report = grade(tmp_path / "nothing.ipynb", MODULE)
    assert set(endings(report).values()) == {Status.NOT_SUBMITTED} and len(report.verdicts) == len(TESTS)
    assert not report.passed and not report.own.valid


# ---------------------------------------------------------------- own tests


def test_the_references_own_tests_pass_for_every_module_that_has_them() -> None:
    tested = [module for module in modules.MODULES if (tests := _own(module)) and tests.exists()]
    assert MODULE in tested
    for module in tested:
        report = grade(implementations.SOLUTIONS / f"{module.name}.py", module)
        assert report.passed, (module.id, report.own)


def _own(module: modules.Module) -> Path:
    return implementations.SOLUTIONS / "tests" / f"test_{module.name}.py"


def test_own_tests_are_graded_before_there_is_an_implementation(tmp_path: Path) -> None:
    report = graded(tmp_path, "x = 1", _own(MODULE).read_text(encoding="utf-8"))
    assert report.own.passed and not report.passed


def test_own_tests_may_import_the_name_from_the_students_file(tmp_path: Path) -> None:
    tests = "from radix_cache import RadixCache\ndef test_a(): assert RadixCache(2).cached_blocks == 0\n"
    report = graded(tmp_path, "x = 1", tests)
    assert report.own.valid and report.own.n_bugs == len(planted_bugs(MODULE))


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        ("def test_a(): assert False", "test_a fails on a correct implementation"),
        ("def test_a():\n    while True: pass", "test_a timed out on a correct implementation."),
        ("import os\ndef test_a(): os._exit(0)", "test_a died on a correct implementation."),
        ("def test_a(: pass", "test_radix_cache.py, line 1: SyntaxError"),
        ("x = 1", "There are no tests"),
    ],
)
def test_own_tests_that_do_not_accept_right_code_are_not_valid(tmp_path: Path, tests: str, reason: str) -> None:
    report = graded(tmp_path, "x = 1", tests)
    assert not report.own.valid and reason in report.own.reason


def test_a_loop_on_a_planted_bug_is_a_catch(tmp_path: Path) -> None:
    tests = (
        "from course.modules import RadixCache\n"
        "def test_a():\n"
        "    cache = RadixCache(2)\n"
        "    cache.insert([1, 2, 3, 4], [10, 11])\n"
        "    while cache.match_prefix([1, 2, 3, 4]).matched_tokens != 2: pass\n"
    )
    report = graded(tmp_path, "x = 1", tests, Limits(test_s=6.0))
    assert "s01" in report.own.caught


# ---------------------------------------------------------------- notebooks


def test_the_samples_are_what_the_notebook_and_the_solutions_make_of_them() -> None:
    from notebooks import build

    finished = build.build(MODULE.name)
    for sample in samples.samples():
        stands = sample.path.read_text(encoding="utf-8")
        assert stands == samples.text_of(sample, finished), "run python -m autograder.samples"


def test_test_cells_do_not_run_and_check_cells_do_nothing(tmp_path: Path) -> None:
    book = json.loads((samples.FOLDER / "right.ipynb").read_text(encoding="utf-8"))
    for cell in book["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade"):
            cell["source"] = "import os; os._exit(1)"
    path = tmp_path / "right.ipynb"
    path.write_text(json.dumps(book), encoding="utf-8")
    report = grade(path, MODULE)
    assert report.passed and report.remarks == ()


def test_a_cell_that_raises_is_remarked_on_and_the_next_one_runs(tmp_path: Path) -> None:
    book = json.loads((samples.FOLDER / "right.ipynb").read_text(encoding="utf-8"))
    book["cells"].insert(0, {"cell_type": "code", "metadata": {}, "source": ["x = 1\n", "y = z"]})
    book["cells"].insert(1, {"cell_type": "code", "metadata": {}, "source": "y = = 1"})
    path = tmp_path / "right.ipynb"
    path.write_text(json.dumps(book), encoding="utf-8")
    report = grade(path, MODULE)
    assert report.named_passed
    assert any("cell 1: NameError: name 'z' is not defined (right.ipynb, cell 1, line 2" in r for r in report.remarks)
    assert any("right.ipynb, cell 2, line 1: SyntaxError" in remark for remark in report.remarks)


def test_another_room_can_take_the_rooms_place(tmp_path: Path) -> None:
    class Elsewhere(Rooms):
        def verdicts(self, *_: object) -> Iterator[Verdict]:
            self.isolation = "elsewhere"
            return iter([Verdict(test, Status.PASSED) for test in TESTS])

    path = tmp_path / "radix_cache.py"
    path.write_text("x = 1", encoding="utf-8")
    report = grading.grade(path, MODULE, room=Elsewhere())
    assert report.isolation == "elsewhere" and report.named_passed

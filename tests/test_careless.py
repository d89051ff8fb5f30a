"""What careless students hand in: each gets the right verdict, and a sentence that helps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autograder import samples
from autograder.catalogue import catalogue
from autograder.grading import Report, grade
from autograder.judging import BY_CHANCE
from autograder.running import Status, Verdict
from autograder.work import Limits
from course import modules

MODULE = modules.find("L8.4")
N_TESTS = len(catalogue(MODULE))
LIMITS = Limits(test_s=1.5)
OWN_TESTS = "own_tests"
EVICTS = "        evicted = self.tree.evict(n_blocks)\n"
HIT_RATE = "        return self.stats.hit_tokens / self.stats.query_tokens if self.stats.query_tokens else 0.0\n"
STUB = (
    "class RadixCache(RadixCache):  # step 4: lock, unlock and evict\n"
    "    def lock(self, node):\n"
    '        """Pin the prefix."""\n'
    "        # YOUR CODE HERE\n"
    '        raise NotImplementedError("step 4: lock")\n\n'
    "    def unlock(self, node):\n"
    '        raise NotImplementedError("step 4: unlock")\n\n'
    "    def evict(self, n_blocks):\n"
    '        raise NotImplementedError("step 4: evict")\n'
)


@dataclass
class Book:
    """The right sample, to be edited; `path` is where it is saved."""

    cells: list[dict[str, Any]]
    path: Path

    def at(self, grade_id: str) -> int:
        """Where the cell with this grade_id stands."""
        return next(place for place, cell in enumerate(self.cells) if label(cell).get("grade_id") == grade_id)

    def cell(self, grade_id: str) -> dict[str, Any]:
        return self.cells[self.at(grade_id)]

    def edit(self, find: str, put: str) -> None:
        """Replace the one place where this text stands."""
        (cell,) = [cell for cell in self.cells if find in text(cell)]
        assert text(cell).count(find) == 1
        cell["source"] = text(cell).replace(find, put)

    def number(self, grade_id: str) -> int:
        """The cell's number, as a student counts."""
        return self.at(grade_id) + 1

    def graded(self, limits: Limits = LIMITS, own_tests: bool = False, **changes: Any) -> Report:
        """Grade the notebook as it stands; its own tests, which take most of the time, only if asked to."""
        if not own_tests and OWN_TESTS in [label(cell).get("grade_id") for cell in self.cells]:
            self.cell(OWN_TESTS)["source"] = ""
        book = {"cells": self.cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | changes
        self.path.write_text(json.dumps(book), encoding="utf-8")
        return grade(self.path, MODULE, limits)


def label(cell: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = cell["metadata"].get("nbgrader", {})
    return found


def text(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def code(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}


@pytest.fixture
def book(tmp_path: Path) -> Book:
    cells = json.loads((samples.FOLDER / "right.ipynb").read_text(encoding="utf-8"))["cells"]
    return Book(cells, tmp_path / "work.ipynb")


def ended(report: Report) -> dict[str, Verdict]:
    assert [verdict.test for verdict in report.verdicts] == [test.name for test in catalogue(MODULE)]
    return {verdict.test: verdict for verdict in report.verdicts}


UNTOUCHED = ("hand_example_shared_system_prompt", "a_prefix_computed_twice_is_kept_once")
"""Tests that never evict: what happens in an eviction is nothing to them."""
EVICTING = ("a_locked_prefix_survives_eviction", "eviction_frees_the_least_recently_used_first")


def in_evictions(report: Report, status: Status, message: str) -> None:
    """The tests that evict end like this, and no other test is drawn in."""
    verdicts = ended(report)
    for name in UNTOUCHED:
        assert verdicts[name].passed, verdicts[name]
    for name in EVICTING:
        assert verdicts[name].status is status and message in verdicts[name].message, verdicts[name]


def all_ended(report: Report, status: Status, message: str) -> None:
    for verdict in ended(report).values():
        assert verdict.status is status and verdict.message == message, verdict
    assert not report.passed


def right(report: Report, *remarks: str) -> None:
    """Nothing is lost, and these remarks are made."""
    assert report.named_passed, (report.verdicts, report.remarks)
    assert report.remarks == remarks


# ---------------------------------------------------------------- code that does not end, or ends too much


def test_an_endless_loop_in_one_method(book: Book) -> None:
    book.edit(EVICTS, "        while True: pass\n")
    in_evictions(book.graded(), Status.TIMED_OUT, "No end within 1.5 s: the time went in work.ipynb, cell")


def test_an_endless_loop_at_import(book: Book) -> None:
    book.cells.insert(0, code("while True:\n    pass"))
    report = book.graded(Limits(cell_s=1.5))
    said = "No end within 1.5 s: the time went in work.ipynb, cell 1, line "
    for verdict in ended(report).values():
        assert verdict.status is Status.TIMED_OUT and verdict.message.startswith(said), verdict
    assert report.seconds < 20


def test_an_endless_loop_that_catches_everything(book: Book) -> None:
    loop = "        while True:\n            try:\n                while True: pass\n"
    book.edit(EVICTS, loop + "            except BaseException: pass\n")
    in_evictions(book.graded(), Status.TIMED_OUT, "No end within 1.5 s: the time went in work.ipynb, cell")


def test_a_list_without_end(book: Book) -> None:
    book.edit(EVICTS, "        evicted = []\n        while True: evicted.append([0] * 1_000_000)\n")
    report = book.graded(Limits(test_s=3.0, memory_mb=1024))
    in_evictions(report, Status.OUT_OF_MEMORY, "Memory ran out (work.ipynb, cell")


@pytest.mark.parametrize("call", ["os._exit(0)", "sys.exit(0)"])
def test_leaving_the_process_in_a_method(book: Book, call: str) -> None:
    book.edit(EVICTS, f"        import os, sys; {call}\n")
    said = "The process ended by itself with exit code 0." if "os" in call else "asked Python to exit (work.ipynb, cell"
    in_evictions(book.graded(), Status.DIED, said)


def test_a_recursion_without_a_base(book: Book) -> None:
    book.edit(EVICTS, "        return self.evict(n_blocks)\n")
    in_evictions(book.graded(), Status.FAILED, "Too deep a recursion (work.ipynb, cell")


def test_300_000_lines_of_output(book: Book) -> None:
    book.edit(EVICTS, '        print("evicting\\n" * 300_000)\n' + EVICTS)
    assert book.graded(Limits(test_s=10.0)).named_passed


def test_input(book: Book) -> None:
    book.edit(EVICTS, '        input("How many? ")\n' + EVICTS)
    in_evictions(book.graded(), Status.FAILED, "EOFError: EOF when reading a line (work.ipynb, cell")


def test_magics_and_shell_commands(book: Book) -> None:
    book.cells.insert(0, code("%matplotlib inline\n!pip install numpy\nfiles = !ls\nx = 1"))
    book.cells.insert(1, code("%%bash\nexit 1"))
    right(book.graded())


def test_a_warning_on_stderr_in_right_code(book: Book) -> None:
    warning = '        import sys, warnings; warnings.warn("old"); print("evicting", file=sys.stderr)\n'
    book.edit(EVICTS, warning + EVICTS)
    right(book.graded())


# ---------------------------------------------------------------- cells


def test_a_stub_line_left_after_the_answer(book: Book) -> None:
    book.edit(EVICTS, EVICTS + '        raise NotImplementedError("step 4: evict")\n')
    report = book.graded()
    line = text(book.cell("step_4")).split("\n").index('        raise NotImplementedError("step 4: evict")') + 1
    assert report.remarks == (
        f"work.ipynb, cell {book.number('step_4')} (step_4), line {line}: the stub's line `raise NotImplementedError` "
        "still stands in evict beside your answer, and Python gets there: delete it.",
    )
    in_evictions(report, Status.FAILED, "Not written yet: step 4: evict (work.ipynb, cell")


def test_a_stub_line_left_after_an_answer_that_has_returned(book: Book) -> None:
    book.edit(HIT_RATE, HIT_RATE + '        raise NotImplementedError("step 3: hit_rate")\n')
    right(book.graded())


def test_a_solution_in_a_new_cell_below_an_untouched_stub(book: Book) -> None:
    book.cells.insert(book.at("step_4") + 1, code(text(book.cell("step_4"))))
    book.cell("step_4")["source"] = STUB
    n = book.number("step_4")
    right(
        book.graded(),
        f"work.ipynb, cell {n} (step_4): RadixCache.lock, RadixCache.unlock, RadixCache.evict are still a stub here, "
        f"and your answer stands below, in cell {n + 1}: that one counts.",
    )


def test_a_solution_in_a_new_cell_above_an_untouched_stub(book: Book) -> None:
    book.cells.insert(book.at("step_4"), code(text(book.cell("step_4"))))
    book.cell("step_4")["source"] = STUB
    report, n = book.graded(), book.number("step_4")
    assert report.remarks == (
        f"work.ipynb, cell {n} (step_4): RadixCache.lock, RadixCache.unlock, RadixCache.evict are still a stub here "
        f"and take the place of your answer above, in cell {n - 1}: move your answer here.",
    )
    in_evictions(report, Status.FAILED, "Not written yet: step 4")


def test_a_solution_cell_duplicated(book: Book) -> None:
    book.cells.insert(book.at("step_4"), dict(book.cell("step_4")))
    n = book.number("step_4")
    right(
        book.graded(),
        f"work.ipynb, cells {n}, {n + 1}: all carry the grade_id step_4. "
        "They run in this order, and the last one counts.",
    )


def test_a_solution_cell_duplicated_with_the_stub_last(book: Book) -> None:
    book.cells.insert(book.at("step_4") + 1, {**book.cell("step_4"), "source": STUB})
    report, n = book.graded(), book.number("step_4")
    assert report.remarks == (
        f"work.ipynb, cells {n}, {n + 1}: all carry the grade_id step_4. "
        "The last one is still a stub and takes the place of your answer: delete it.",
    )
    assert not report.named_passed


def test_a_solution_cell_turned_into_markdown(book: Book) -> None:
    book.cell("step_4")["cell_type"] = "markdown"
    report = book.graded()
    assert report.remarks == (
        f"work.ipynb, cell {book.number('step_4')} (step_4): this is not a code cell any more, so its code does not "
        "run: make it one again.",
    )
    in_evictions(report, Status.FAILED, "'RadixCache' object has no attribute")


def test_a_solution_cell_deleted(book: Book) -> None:
    del book.cells[book.at("step_4")]
    report = book.graded()
    assert report.remarks == (
        "work.ipynb, cell step_4: not there any more, so what it defined must stand elsewhere. "
        "If you did not move it, put it back.",
    )
    in_evictions(report, Status.FAILED, "'RadixCache' object has no attribute")


def test_all_nbgrader_metadata_lost(book: Book) -> None:
    for cell in book.cells:
        cell["metadata"] = {}
    report = book.graded(own_tests=True)
    assert report.passed, report.own
    right(report, "work.ipynb has lost its nbgrader metadata: cells are told apart by what they define.")


@pytest.mark.parametrize("source", ["import os; os._exit(1)", "", "while True: pass", "def check(*names): pass"])
def test_edited_test_cells(book: Book, source: str) -> None:
    for cell in book.cells:
        if label(cell).get("grade"):
            cell["source"] = source
    right(book.graded())


def test_deleted_test_cells(book: Book) -> None:
    book.cells[:] = [cell for cell in book.cells if not label(cell).get("grade")]
    right(book.graded())


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "work.ipynb is empty: save your work again and hand in the file that has it."),
        (
            b'{"cells": [',
            "work.ipynb, line 1, column 12: this is not valid JSON (Expecting value), so the file is no notebook "
            "or was cut short. Save it again from JupyterLab.",
        ),
        (
            b'{\n"caf\xe9": 1}',
            "work.ipynb, line 2: byte 0xe9 is not UTF-8. Save the file with the encoding UTF-8 and hand it in again.",
        ),
        (
            b'{"nbformat": 2, "worksheets": []}',
            "work.ipynb has notebook format 2, and 4 is needed: open it in JupyterLab and save it again.",
        ),
    ],
    ids=["an empty file", "broken JSON", "not UTF-8", "a very old format"],
)
def test_a_file_that_is_no_notebook(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "work.ipynb"
    path.write_bytes(data)
    all_ended(grade(path, MODULE), Status.UNREADABLE, said)


def test_an_old_format(book: Book) -> None:
    for cell in book.cells:
        if cell["cell_type"] == "code":
            cell["input"] = cell.pop("source")
    report = book.graded(cells=None, worksheets=[{"cells": book.cells}], nbformat=3)
    right(report, "work.ipynb has notebook format 3: open it in JupyterLab and save it again.")


def test_an_unknown_kernel(book: Book) -> None:
    kernel = {"kernelspec": {"name": "my-old-env", "display_name": "?", "language": "python"}}
    right(book.graded(metadata=kernel))


# ---------------------------------------------------------------- values


def test_numpy_integers_returned(book: Book) -> None:
    find = "return PrefixMatch(match.n_tokens, match.values, match.node)"
    book.edit(find, "import numpy; " + find.replace("match.n_tokens", "numpy.int64(match.n_tokens)"))
    verdict = ended(book.graded())["hand_example_shared_system_prompt"]
    assert verdict.status is Status.FAILED
    assert "returned numpy.int64: wrap it in int()" in verdict.message


def test_a_mutated_argument(book: Book) -> None:
    find = "        full = len(tokens) // self.block_size\n"
    book.edit(find, find + "        del tokens[full * self.block_size :]\n")
    report = book.graded()
    assert report.remarks == ("insert changed the list it was given: work on a copy",)


def test_chance(book: Book) -> None:
    shuffle = "        import random; evicted.append(random.SystemRandom().randrange(10**9))\n"
    book.edit(EVICTS, EVICTS + shuffle)
    verdicts = ended(book.graded(Limits(test_s=10.0)))
    verdict = verdicts["golden_reference_trace"]
    assert verdict.status is Status.FAILED
    assert BY_CHANCE in verdict.message
    assert all(verdicts[name].passed for name in UNTOUCHED)

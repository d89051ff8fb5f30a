"""What a room gets ready before it forks, and that it changes nothing of what tests see."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from hypothesis.internal.conjecture import providers

from autograder.own_tests import suite_in
from autograder.room import cells
from autograder.serving import OutOfTime, Watch

PROPERTY = """
from hypothesis import given, strategies as st
drawn = []
@given(st.integers())
def test_a_property(n): drawn.append(n)
"""


def ran(space: dict[str, Any], source: str) -> list[str]:
    """The places of cells that raised, and what."""
    raised: list[str] = []
    rows = [{"source": source, "place": "cell 1", "given": False}]
    cells.run_cells(rows, space, lambda place: None, lambda place, error: raised.append(type(error).__name__))
    return raised


# ---------------------------------------------------------------- cells that are compiled before


def test_a_compiled_cell_runs_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "_compiled", {})
    row = {"source": "answer = 6 * 7", "place": "cell 1", "given": False}
    cells.compile_for_forks([row])
    monkeypatch.setattr(cells, "compile", None, raising=False)  # whoever compiles again fails
    space: dict[str, Any] = {}
    assert ran(space, "answer = 6 * 7") == [] and space["answer"] == 42
    assert ran(space, "answer = 1") == ["TypeError"]


def test_a_cell_that_cant_be_compiled_raises_where_it_runs() -> None:
    cells.compile_for_forks([{"source": "def broken(:", "place": "cell 1", "given": False}])
    assert ran({}, "def broken(:") == ["SyntaxError"]


# ---------------------------------------------------------------- draws


def test_draws_do_not_hang_on_the_source_files_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """hypothesis would read the constants of all files that are near, and a room has others than a kernel."""

    def reads() -> Any:
        raise AssertionError("files were read")

    monkeypatch.setattr(providers, "_get_local_constants", reads)
    space: dict[str, Any] = {}
    exec(PROPERTY, space)
    assert [each.did for each in suite_in(space).run({})] == ["passed"]
    assert len(space["drawn"]) >= 20 and providers._get_local_constants is reads


# ---------------------------------------------------------------- one watch over all steps


def endless() -> None:
    while True:
        pass


@pytest.mark.parametrize("first", [0.0, 1000.0])
def test_each_step_sets_the_time_anew(first: float) -> None:
    watch = Watch(first)
    time.sleep(0.05)
    watch.again(1000)
    assert watch.call(lambda: 1) == 1 and watch.left > 900
    watch.again(0.1)
    with pytest.raises(OutOfTime):
        watch.call(endless)


def test_a_watch_that_is_stopped_leaves_no_thread() -> None:
    before = threading.active_count()
    watch = Watch(1000)
    watch.stop()
    for _ in range(100):
        if threading.active_count() <= before:
            break
        time.sleep(0.05)
    assert threading.active_count() <= before

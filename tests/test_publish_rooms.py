"""The extension publish over the wire: what a module's stand-ins have, what a student's own tests may write, verdicts.

And L10.4 itself: a manager without `publish` is graded as ever, and so is one that has it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from autograder import doctor, implementations, notebook, own_tests, scoring
from autograder.catalogue import catalogue
from autograder.cli import app
from autograder.judging import BY_CHANCE
from autograder.notebook import CheckFailed, Points, begin, check, score_own_tests, show_tests
from autograder.planted import plant, planted_bugs
from autograder.reading import Cell, Role, Submission, read
from autograder.remote import Bounds, RoomClient, Sandbox, remote_names
from autograder.room.answering import Answerer
from autograder.room.proxies import remote
from autograder.room.surface import Request
from autograder.rooms import Rooms, job_of
from autograder.running import Status, run_named
from autograder.scoring import FLAT, REFERENCE, OwnScore
from autograder.serving import Rubbish, Serving, surface
from autograder.subject import Subject
from autograder.wire import Node
from autograder.work import Limits, Remarks, Work
from course import modules
from course.contract import PrefixCache
from course.modules import Module
from course.pictures import Picture
from tests.own_suites import play, solution

MODULE, L104 = modules.find("publish"), modules.find("L10.4")
SOURCE = implementations.reference_source(MODULE)
FAST = Limits(test_s=20.0)

PLAIN = """

class BlockManager(BlockManager):
    publish = property()

    def __init__(self, pool, mode):
        super().__init__(pool, mode)
"""
"""Makes of the reference a manager that has neither the call nor the option."""

REFUSES = """

class BlockManager(BlockManager):
    def publish(self, seq, computed):
        raise RuntimeError("nobody may call this")
"""


def handed_in(folder: Path, module: Module, *sources: str) -> Path:
    """A notebook with these cells, and those of `own_tests_...` marked as such."""
    cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]
    path = folder / f"{module.name}.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")
    return path


def statuses(path: Path, module: Module) -> dict[str, Status]:
    tests = [test.name for test in catalogue(module)]
    verdicts = list(Rooms().verdicts(Work(read(path, module), FAST), tests, Remarks()))
    assert not [verdict for verdict in verdicts if BY_CHANCE in verdict.message]
    return {verdict.test: verdict.status for verdict in verdicts}


def ol(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


# ---------------------------------------------------------------- stand-ins


def over_the_wire(module: Module) -> Any:
    """The reference's names behind the codec, as a named test of this module sees them."""
    names = implementations.reference(module).names
    return remote(names, Answerer(names).answer, adds=module.adds)


def test_a_stand_in_of_l10_4_has_no_publish_and_one_of_the_extension_has() -> None:
    for module, has in ((L104, False), (MODULE, True)):
        names = over_the_wire(module)
        manager = names["BlockManager"](names["KvPool"](8, 4), PrefixCache.HASH)
        assert hasattr(manager, "publish") is hasattr(names["BlockManager"], "publish") is has
        assert [hasattr(manager, verb) for verb in ("allocate", "append_slot", "release", "block_table")] == [True] * 4


@pytest.mark.parametrize("module", [L104, MODULE], ids=lambda module: module.id)
def test_in_a_room_it_is_the_same(module: Module, tmp_path: Path) -> None:
    job = job_of(Work(read(handed_in(tmp_path, module, SOURCE), module)))
    with RoomClient(job, Bounds(), Sandbox.AUTO) as client:
        client.start()
        client.fork(5.0)
        names = remote_names(client, module)
        manager = names["BlockManager"](names["KvPool"](8, 4), PrefixCache.HASH)
        assert hasattr(manager, "publish") is (module is MODULE)
        client.end()


def test_the_option_goes_over_the_wire_by_name_and_by_position() -> None:
    names = over_the_wire(MODULE)
    for make in (
        lambda pool: names["BlockManager"](pool, PrefixCache.RADIX, publish="prefill"),
        lambda pool: names["BlockManager"](pool, PrefixCache.RADIX, "prefill"),
        lambda pool: names["BlockManager"](pool=pool, mode=PrefixCache.RADIX, publish="prefill"),
    ):
        manager = make(names["KvPool"](8, 4))
        manager.allocate("A", list(range(10)))
        assert manager.publish("A", list(range(10))) is None
        assert manager.cached_blocks == 2
        with pytest.raises(KeyError):
            manager.publish("unknown", [])
    with pytest.raises(ValueError, match="sometimes"):
        names["BlockManager"](names["KvPool"](8, 4), PrefixCache.RADIX, publish="sometimes")


# ---------------------------------------------------------------- verdicts


def test_the_reference_handed_in_passes(tmp_path: Path) -> None:
    assert set(statuses(handed_in(tmp_path, MODULE, SOURCE), MODULE).values()) == {Status.PASSED}


@pytest.mark.parametrize("bug", planted_bugs(MODULE), ids=lambda bug: bug.id)
def test_a_planted_bug_handed_in_has_the_verdicts_it_has_in_one_process(bug: Any, tmp_path: Path) -> None:
    here = implementations.buggy(MODULE, bug)
    path = handed_in(tmp_path, MODULE, plant(bug, SOURCE))
    found = statuses(path, MODULE)
    assert found == {test.name: run_named(test, here).status for test in catalogue(MODULE)}
    assert {test for test, status in found.items() if status is Status.FAILED} >= set(bug.caught_by)


def test_a_manager_without_publish_is_told_so_by_every_test(tmp_path: Path) -> None:
    path = tmp_path / "publish.py"
    path.write_text(SOURCE + PLAIN, encoding="utf-8")
    ran = ol("check", "publish", str(path), "--json")
    rows = json.loads(ran.stdout)["named_tests"]
    assert ran.exit_code == 1 and {row["status"] for row in rows} == {"not defined"}
    assert all(row["message"].startswith("BlockManager has no publish: it takes no option") for row in rows)


@pytest.mark.parametrize("more", [PLAIN, REFUSES, ""], ids=["without", "refuses", "with"])
def test_l10_4_is_graded_alike_with_publish_or_without(more: str, tmp_path: Path) -> None:
    """No named test of L10.4 makes that call: one that may never be made changes no verdict."""
    assert set(statuses(handed_in(tmp_path, L104, SOURCE + more), L104).values()) == {Status.PASSED}


def test_check_of_l10_4_passes_for_a_manager_without_publish(tmp_path: Path) -> None:
    path = tmp_path / "block_manager.py"
    path.write_text(SOURCE + PLAIN, encoding="utf-8")
    tests = implementations.SOLUTIONS / "tests" / "test_block_manager.py"
    (tmp_path / tests.name).write_text(tests.read_text(encoding="utf-8"), encoding="utf-8")
    ran = ol("check", "L10.4", str(path), "--json")
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)
    assert told["own_tests"]["caught"] == 8 and told["budget"]["tokens"] > 2


# ---------------------------------------------------------------- own tests


def both_ways(work: Submission) -> tuple[OwnScore, OwnScore]:
    """The score of own tests in a room, and in one process as a notebook counts it."""
    rounds, _ = play(work, scoring.order(work.module, "any"))
    space: dict[str, Any] = {"__name__": "own_tests_here"}
    with modules.bound(surface(scoring.implementation(work.module, REFERENCE).names)):
        for cell in work.for_own_tests:
            exec(compile(cell.source, f"<{cell.place}>", "exec"), space)
    here = own_tests.score(work.module, own_tests.suite_in(space))
    return scoring.judge(work.module, rounds, Limits().test_s), here


def test_the_references_own_tests_have_one_verdict_both_ways() -> None:
    room, here = both_ways(solution(MODULE))
    assert room.passed and room.caught == ("s01", "s02") and room == here


MAKES = {
    "by name": 'BlockManager(pool, PrefixCache.RADIX, publish="prefill")',
    "by position": 'BlockManager(pool, PrefixCache.RADIX, "prefill")',
}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_own_tests_may_give_the_option_by_name_and_by_position(make: str) -> None:
    source = f"""
import pytest
from course.contract import PrefixCache
from course.modules import BlockManager, KvPool
def test_references():
    pool = KvPool(8, 4)
    manager = {make}
    blocks = manager.allocate("A", list(range(10))).blocks
    manager.publish("A", list(range(4)))
    assert [pool.refcount(block) for block in blocks] == [2, 1, 1]
def test_without_the_option():
    manager = BlockManager(KvPool(8, 4), PrefixCache.HASH)
    manager.allocate("A", list(range(10)))
    manager.publish("A", list(range(10)))
    assert manager.cached_blocks == 0
def test_too_many():
    with pytest.raises(TypeError):
        BlockManager(KvPool(8, 4), PrefixCache.HASH, "prefill", "more")
"""
    room, here = both_ways(Submission(MODULE, "own.ipynb", (Cell(Role.OWN_TESTS, source, "own.ipynb, cell 1"),)))
    assert room == here
    assert room.valid and room.caught == ("s01", "s02")


@pytest.mark.parametrize("name", [REFERENCE, FLAT])
def test_two_or_three_arguments_make_a_manager_and_no_other_number(name: str) -> None:
    serving = Serving(scoring.implementation(MODULE, name).names)
    pool = serving.answer(Request("KvPool", "", (8, 4))).value
    assert type(pool) is Node
    for more in ((), ("release",), ("prefill",)):
        assert serving.answer(Request("BlockManager", "", (pool, PrefixCache.HASH, *more))).made == "BlockManager"
    for args in ((pool,), (pool, PrefixCache.HASH, "prefill", "lru")):
        with pytest.raises(Rubbish, match="arguments are not what BlockManager takes"):
            serving.answer(Request("BlockManager", "", args))


# ---------------------------------------------------------------- commands


def test_check_of_the_reference_finds_the_tests_beside_it_and_passes() -> None:
    ran = ol("check", "publish", "--reference")
    assert ran.exit_code == 0, ran.output
    assert "2 of 2 planted bugs caught" in ran.stdout and "L10.4-publish passed" in ran.stdout
    assert "TTFT budget" not in ran.stdout


@pytest.mark.parametrize("suffix", [".py", ".ipynb"])
def test_own_work_is_checked_and_then_shown_beside_the_reference(suffix: str, tmp_path: Path) -> None:
    tests = (implementations.SOLUTIONS / "tests" / "test_publish.py").read_text(encoding="utf-8")
    if suffix == ".py":
        path = tmp_path / "publish.py"
        path.write_text(SOURCE, encoding="utf-8")
        (tmp_path / "test_publish.py").write_text(tests, encoding="utf-8")
    else:
        path = handed_in(tmp_path, MODULE, SOURCE, tests)
    shown = ol("diff", "publish", str(path))  # it checks first, and its exit code is that of the check
    assert shown.exit_code == 0 and "BlockManager" in shown.stdout


@pytest.mark.parametrize("wanted", ["publish", "L10.4-publish", "l10.4-PUBLISH"])
def test_the_catalogue_shows_its_tests_and_bugs(wanted: str) -> None:
    listed = json.loads(ol("tests", wanted, "--json").stdout)
    assert listed["module"] == "L10.4-publish" and len(listed["planted_bugs"]) == 2
    assert [row["name"] for row in listed["tests"]] == [test.name for test in catalogue(MODULE)]


def test_start_writes_stubs_with_publish_for_it_and_without_for_l10_4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ol("start", "publish").exit_code == 0
    assert ol("start", "L10.4", "block_manager.py").exit_code == 0
    extended = Path("publish.py").read_text(encoding="utf-8")
    assert 'publish: Publish = "release"' in extended and "def publish(self, seq" in extended
    assert "This is your own L10.4 and one thing more: publish." in extended
    plain = Path("block_manager.py").read_text(encoding="utf-8")
    assert "def __init__(self, pool: KvPool, mode: PrefixCache) -> None:" in plain and "ublish" not in plain
    told = json.loads(ol("check", "publish", "--json").stdout)
    assert {row["status"] for row in told["named_tests"]} == {"failed"}
    assert all(row["message"].startswith("Not written yet") for row in told["named_tests"])
    assert "no tests" in told["own_tests"]["reason"] and Path("test_publish.py").exists()


def test_doctor_tries_its_reference() -> None:
    finding = doctor.reference(MODULE)
    assert finding.state is doctor.State.GOOD and finding.what == "publish reference"
    n = len(catalogue(MODULE))
    assert f"{n} of {n} named tests pass, its own tests catch 2 of 2 planted bugs" in finding.detail


# ---------------------------------------------------------------- in a notebook


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a notebook would display, in a kernel where the lab has bound all four modules already."""
    views: list[Picture] = []
    monkeypatch.setattr(notebook, "_show", views.append)
    monkeypatch.setattr(notebook, "_sessions", [])
    with modules.bound(implementations.flat(L104).names):
        yield views


MINE = """
from course.modules import BlockManager as MyBlockManager

class BlockManager(MyBlockManager):
    def publish(self, seq, computed):
        super().publish(seq, computed)
"""


def test_a_lab_can_check_a_manager_of_its_own(shown: list[Picture]) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    begin("publish", space)
    show_tests()
    assert "L10.4-publish" in str(shown[0]) and "lends you" not in str(shown[0])
    assert "published_blocks_are_found_before_their_request_ends" in str(shown[1])
    exec(MINE, space)
    check(*(test.name for test in catalogue(MODULE)))
    assert str(shown[-1]).count(": passed") == len(catalogue(MODULE))


def test_a_lab_is_told_that_there_is_no_publish_yet(shown: list[Picture]) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    begin("publish", space)
    exec("from course.modules import BlockManager" + PLAIN, space)
    with pytest.raises(CheckFailed, match="BlockManager has no publish"):
        check("publishing_counts_nothing")


def test_a_lab_scores_tests_of_its_own(shown: list[Picture]) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    begin("publish", space)
    exec((implementations.SOLUTIONS / "tests" / "test_publish.py").read_text(encoding="utf-8"), space)
    points = score_own_tests(5)
    assert points == Points(5, 5) and "2 of 2 planted bugs" in str(shown[-1])


def test_what_the_notebook_tests_is_the_class_behind_the_codec(shown: list[Picture]) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    begin("publish", space)
    exec(MINE, space)
    found = notebook._session().subject
    assert isinstance(found, Subject) and hasattr(found.BlockManager, "publish") and found.BlockManager._is_proxy

"""A run over a class: nothing lost, nothing done twice, whoever dies and whenever it is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autograder import class_samples
from autograder.classroom import keys, store, tables
from autograder.classroom.executors import Crew, NoCluster, Processes, WorkerDied, local, on_cluster
from autograder.classroom.grading_run import ClusterLost, Progress, Settings, grade_class
from autograder.classroom.rows import OWN_TESTS, Class, Result, State
from autograder.classroom.tasks import Outcome, Task
from autograder.grading import grade
from autograder.report import as_data
from autograder.sandbox import NoSandbox
from autograder.work import Limits
from course.modules import MODULES
from tests import class_at_hand as at_hand
from tests.class_at_hand import CACHE, POOL, TREE, Here, alive, class_of, comparable, hand_in, here, right

ROOT = Path(__file__).parent.parent
QUICK = Settings(with_budget=False)


def passing(task: Task) -> Outcome:
    """A verdict out of thin air, for what the run makes of it."""
    return Outcome({"named_tests": [], "own_tests": {}, "seconds": 1.0, "lost_first": ""})


def run(folder: Path, crew: Crew, settings: Settings = QUICK, modules: Any = MODULES, **told: Any) -> Class:
    return grade_class(folder / "submitted", folder / "out", modules, settings, crew, **told)


def asked(crew: Crew) -> list[tuple[str, str]]:
    """What a crew was asked to grade: module, and the beginning of the file."""
    assert isinstance(crew.executor, Here)
    return [(task.module, task.work.data.decode("utf-8", "replace")[:20]) for task in crew.executor.calls]


@pytest.fixture
def two_students(tmp_path: Path) -> Path:
    for student in ("ann", "bo"):
        for module in (TREE, CACHE):
            hand_in(tmp_path / "submitted", student, module, f"# {student} {module.name}")
    return tmp_path


# ---------------------------------------------------------------- what is graded, and what is not


def test_each_student_and_module_has_a_result_and_lower_modules_come_first(two_students: Path) -> None:
    crew = here(passing)
    graded = run(two_students, crew)
    assert [(each.student, each.module) for each in graded.results] == [
        (student, module.id) for student in ("ann", "bo") for module in MODULES
    ]
    assert at_hand.states(graded)["ann", "L10.1"] == "not submitted"
    assert asked(crew) == [(m.id, f"# {s} {m.name}"[:20]) for s in ("ann", "bo") for m in (TREE, CACHE)]
    assert graded.name == "submitted" and graded.modules == tuple(module.id for module in MODULES)
    assert graded.results[1].submission == "ann/radix_tree/radix_tree.py"


def test_a_task_brings_the_earlier_modules_and_what_they_came_to(two_students: Path) -> None:
    crew = here(lambda task: Outcome({**passing(task).report, "lost_first": "some_test" * (task.module == "ds.07")}))
    run(two_students, crew, modules=(TREE, CACHE))
    tree, cache = crew.executor.calls[:2]  # type: ignore[attr-defined]
    assert not tree.earlier and not tree.lost_first
    assert cache.earlier == {"radix_tree": tree.work} and cache.lost_first == {"radix_tree": "some_test"}


def test_unchanged_work_is_not_graded_again(two_students: Path) -> None:
    first = run(two_students, here(passing))
    size = (two_students / "out" / store.VERDICTS).stat().st_size
    again = here(passing)
    assert run(two_students, again) == first and not asked(again)
    assert (two_students / "out" / store.VERDICTS).stat().st_size == size


def test_changed_work_is_and_so_is_what_stands_on_it(two_students: Path) -> None:
    run(two_students, here(passing))
    hand_in(two_students / "submitted", "ann", TREE, "# mended")
    crew = here(passing)
    run(two_students, crew)
    assert asked(crew) == [("ds.07", "# mended"), ("L8.4", "# ann radix_cache")]
    hand_in(two_students / "submitted", "bo", CACHE, "# late")
    crew = here(passing)
    run(two_students, crew)
    assert asked(crew) == [("L8.4", "# late")]
    (task,) = crew.executor.calls  # type: ignore[attr-defined]
    assert task.lost_first == {"radix_tree": ""}, "what an earlier run found is told again"


def test_other_settings_and_other_own_tests_grade_again(two_students: Path) -> None:
    run(two_students, here(passing))
    crew = here(passing)
    run(two_students, crew, Settings(test_s=5.0, with_budget=False))
    assert len(asked(crew)) == 4
    hand_in(two_students / "submitted", "ann", CACHE, "# ann radix_cache", tests="def test_a(): pass")
    crew = here(passing)
    run(two_students, crew, Settings(test_s=5.0, with_budget=False))
    assert asked(crew) == [("L8.4", "# ann radix_cache")]


def test_modules_not_asked_for_are_stood_on_and_not_graded(two_students: Path) -> None:
    crew = here(passing)
    graded = run(two_students, crew, modules=[CACHE])
    assert graded.modules == ("L8.4",) and len(graded.results) == 2
    assert [task.module for task in crew.executor.calls] == ["L8.4", "L8.4"]  # type: ignore[attr-defined]
    assert all(task.earlier and not task.lost_first for task in crew.executor.calls)  # type: ignore[attr-defined]


def test_on_flat_models_nothing_hangs_on_earlier_modules(two_students: Path) -> None:
    flat = Settings(flat_below=True, with_budget=False)
    run(two_students, here(passing), flat)
    hand_in(two_students / "submitted", "ann", TREE, "# mended")
    crew = here(passing)
    run(two_students, crew, flat)
    assert asked(crew) == [("ds.07", "# mended")]


def test_what_cant_be_opened_or_read_has_a_row_a_reason_and_no_points(tmp_path: Path) -> None:
    path = hand_in(tmp_path / "submitted", "ann", CACHE, b"\xff\xfe")
    link = hand_in(tmp_path / "submitted", "bo", CACHE, "")
    link.unlink()
    link.symlink_to(path)
    graded = run(tmp_path, here(), modules=[CACHE])
    assert [each.state for each in graded.results] == [State.UNREADABLE, State.UNREADABLE]
    assert "is not UTF-8" in graded.results[0].notes[-1] and "is a link" in graded.results[1].notes[-1]
    for each in graded.results:
        assert each.score == 0 and each.most > 0 and not each.report


# ---------------------------------------------------------------- the verdicts are those of `ol check`


@pytest.mark.parametrize("sound", [True, False])
def test_a_class_and_a_single_check_agree(tmp_path: Path, sound: bool) -> None:
    """Also on what an earlier module stands, or that a flat model takes its place."""
    tree, stamps = right(TREE), "self._stamp(node)\n        return Insertion("
    assert stamps in tree
    tree = tree if sound else tree.replace(stamps, "return Insertion(")
    paths = [hand_in(tmp_path / "submitted", "ann", m, s) for m, s in ((TREE, tree), (CACHE, right(CACHE)))]
    graded = run(tmp_path, here(), modules=(TREE, CACHE))
    for result, module, path in zip(graded.results, (TREE, CACHE), paths, strict=True):
        single = as_data(grade(path, module, Limits()))
        assert comparable(single).items() <= comparable(result.report).items()
        named = {each["test"] for each in single["named_tests"] if each["status"] == "passed"}
        assert {test for test, points in result.points.items() if points} == named
        assert result.points[OWN_TESTS] == 0
    assert bool(graded.results[0].report["lost_first"]) is not sound


# ---------------------------------------------------------------- workers that die


class Deadly(Here):
    """The worker dies over one student's tree, so many times."""

    def __init__(self, times: int) -> None:
        super().__init__(self._grade)
        self.times = times

    def _grade(self, task: Task) -> Outcome:
        if task.module == "ds.07" and b"ann" in task.work.data and self.times:
            self.times -= 1
            raise WorkerDied("it was ended by the signal SIGKILL")
        return passing(task)


def test_a_task_whose_worker_died_is_tried_again_after_all_others(two_students: Path) -> None:
    crew = Crew(Deadly(1), lambda: 2)
    graded = run(two_students, crew)
    assert set(at_hand.states(graded).values()) == {"graded", "not submitted"}
    assert asked(crew)[-2:] == [("ds.07", "# ann radix_tree"), ("L8.4", "# ann radix_cache")]


def test_one_that_dies_twice_could_not_be_graded_and_the_next_run_tries_again(two_students: Path) -> None:
    graded = run(two_students, Crew(Deadly(2), lambda: 2))
    assert at_hand.states(graded)["ann", "ds.07"] == "could not be graded"
    assert [state for state in at_hand.states(graded).values()].count("graded") == 3
    (note,) = graded.results[1].notes
    assert "in 2 tries" in note and "SIGKILL" in note and graded.results[1].score == 0
    crew = here(passing)
    assert at_hand.states(run(two_students, crew))["ann", "ds.07"] == "graded"
    assert asked(crew) == [("ds.07", "# ann radix_tree")]


def test_killing_a_worker_at_work_costs_nobody_a_verdict(tmp_path: Path) -> None:
    class_of(8, tmp_path / "submitted")
    killed: list[int] = []
    with local(2) as crew:
        assert isinstance(crew.executor, Processes)

        def kill(far: Progress) -> None:
            if far.graded >= 2 and not killed:
                killed.append(crew.executor._workers[0].process.pid)  # type: ignore[attr-defined]
                os.kill(killed[0], signal.SIGKILL)

        graded = run(tmp_path, crew, modules=[POOL], tell=kill)
    assert killed and set(at_hand.states(graded).values()) == {"graded", "not submitted"}
    again = grade_class(tmp_path / "submitted", tmp_path / "other", [POOL], QUICK, here())
    assert [comparable(each.report) for each in graded.results] == [comparable(each.report) for each in again.results]


def test_what_concerns_everybody_stops_the_run_and_keeps_what_is_known(two_students: Path) -> None:
    def refuse(task: Task) -> Outcome:
        if b"bo" in task.work.data:
            raise NoSandbox("there is none")
        return passing(task)

    with pytest.raises(NoSandbox):
        run(two_students, here(refuse))
    crew = here(passing)
    run(two_students, crew)
    assert [module for module, text in asked(crew) if "ann" in text] == []
    with local(1) as closed:
        pass
    with pytest.raises(ClusterLost):
        run(two_students, closed, Settings(test_s=9.0))


def test_progress_counts_up_and_foretells(two_students: Path) -> None:
    heard: list[Progress] = []
    run(two_students, here(passing), tell=heard.append)
    done = [far.modules_done for far in heard]
    assert done == sorted(done) and heard[0].left_s is None
    assert Progress(1, 2, 4, 8, 2, 10.0).left_s == 20.0


def test_damaged_lines_are_told_of_and_graded_again(two_students: Path) -> None:
    run(two_students, here(passing))
    path = two_students / "out" / store.VERDICTS
    lines = path.read_text(encoding="utf-8").splitlines()
    place = next(number for number, line in enumerate(lines) if json.loads(line)["module"] == "ds.07")
    path.write_text("\n".join([*lines[:place], "{}", *lines[place + 1 :]]) + "\n", encoding="utf-8")
    crew, heard = here(passing), list[str]()
    run(two_students, crew, say=heard.append)
    assert len(heard) == 1 and f"line {place + 1}" in heard[0] and len(asked(crew)) == 1


# ---------------------------------------------------------------- a cluster


def test_a_dask_cluster_grades_the_same_and_outlives_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dask
    from distributed import LocalCluster

    hand_in(tmp_path / "submitted", "ann", POOL, right(POOL))
    hand_in(tmp_path / "submitted", "bo", POOL, "class KvPool: pass")
    here_graded = run(tmp_path, here(), modules=[POOL])
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0, "temporary-directory": str(tmp_path / "dask")}),
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        on_cluster(cluster.scheduler_address) as crew,
    ):
        assert crew.width() == 1
        with monkeypatch.context() as other:
            other.setattr(keys, "grader", lambda root: "another")
            with pytest.raises(NoCluster, match="its verdicts could differ"), on_cluster(cluster.scheduler_address):
                pass
        died = crew.executor.submit(at_hand.die)
        with pytest.raises(Exception, match="die"):
            died.result(60)
        graded = grade_class(tmp_path / "submitted", tmp_path / "other", [POOL], QUICK, crew)
    assert [comparable(r.report) for r in graded.results] == [comparable(r.report) for r in here_graded.results]
    assert graded.results[0].score == 80 and graded.results[1].score == 0


# ---------------------------------------------------------------- killed and resumed


def test_a_class_of_40_killed_twice_loses_nothing(tmp_path: Path) -> None:
    folder = class_of(39, tmp_path / "submitted")
    graded = _killed_twice(tmp_path, folder, at=(12, 45))
    whole = _undisturbed(folder, tmp_path)
    assert comparable([vars(each) for each in graded.results]) == comparable([vars(each) for each in whole.results])
    assert {"graded", "not submitted", "can't be read"} == set(at_hand.states(graded).values())


@pytest.mark.slow
def test_a_class_of_300_with_everybody_of_the_fixtures_killed_twice_loses_nothing(tmp_path: Path) -> None:
    copies, originals = 10, _two_modules(class_samples.FOLDER, tmp_path / "originals")
    for student in originals.iterdir():
        for number in range(copies):
            shutil.copytree(student, tmp_path / "submitted" / f"{student.name} {number}")
    graded = _killed_twice(tmp_path, tmp_path / "submitted", at=(100, 350))
    whole = {(each.student, each.module): _outline(each) for each in _undisturbed(originals, tmp_path).results}
    differing = [
        (each.student, each.module)
        for each in graded.results
        if _outline(each) != whole[each.student.rpartition(" ")[0], each.module]
    ]
    assert len(graded.results) == copies * len(whole) >= 600 and differing == []


def _two_modules(folder: Path, to: Path) -> Path:
    """The fixture class with what it handed in for two of the modules."""
    for student in folder.iterdir():
        (to / student.name).mkdir(parents=True)
        for module in (POOL, CACHE):
            if (student / module.name).exists():
                shutil.copytree(student / module.name, to / student.name / module.name)
    return to


def _outline(result: Result) -> Any:
    """What must be the same for the same work. How a hostile process ends is left to chance; that it does is not."""
    ends = [each["status"] == "passed" for each in result.report.get("named_tests", ())]
    return result.state, result.points, ends, result.report.get("own_tests", {}).get("caught")


def _killed_twice(tmp_path: Path, folder: Path, at: tuple[int, int]) -> Class:
    """Kill a run at so many verdicts, twice, and let it end: nothing is left behind, and nothing graded twice."""
    out, temporary = tmp_path / "out", tmp_path / "tmp"
    temporary.mkdir()
    for verdicts in at:
        command = _ol(folder, out, temporary)
        following = at_hand.Following(command.pid)
        following.start()
        while _lines(out) < verdicts:
            assert command.poll() is None, "it ended before it could be killed"
            time.sleep(0.02)
        command.send_signal(signal.SIGKILL)
        seen = following.stop()
        command.wait()
        assert at_hand.until(partial(_all_gone, seen), 10.0), alive(seen)
        assert at_hand.until(lambda: not any(temporary.iterdir()), 10.0)
    kept = _lines(out)
    assert _ol(folder, out, temporary).wait(3600) == 1, "one file can't be read"
    graded = tables.load(out)
    assert len(graded.results) == 2 * len(list(folder.iterdir())) == _lines(out) > kept, "nothing was graded twice"
    assert not any(temporary.iterdir())
    return graded


def _undisturbed(folder: Path, tmp_path: Path) -> Class:
    assert _ol(folder, tmp_path / "whole", tmp_path / "tmp").wait(1200) == 1
    return tables.load(tmp_path / "whole")


def _ol(folder: Path, out: Path, temporary: Path) -> subprocess.Popen[bytes]:
    modules = [word for module in (POOL, CACHE) for word in ("--module", module.id)]
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "autograder.cli",
            "grade",
            folder,
            "--out",
            out,
            "--timeout",
            "8",
            "--no-pages",
            *modules,
        ],
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _all_gone(seen: set[at_hand.Process]) -> bool:
    return not alive(seen)


def _lines(out: Path) -> int:
    path = out / store.VERDICTS
    return path.read_bytes().count(b"\n") if path.exists() else 0

"""Replay: a failing story travels in a report and is stepped through, expected beside got."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from autograder import cli, implementations, notebook, replay
from autograder.catalogue import catalogue
from autograder.diagnosis import Candidate
from autograder.grading import Report
from autograder.looking import drawn, looks, seen
from autograder.planted import planted_bugs
from autograder.report import as_data, shown
from autograder.running import Status, Verdict, run_named
from autograder.scoring import OwnScore
from autograder.stories import Outcome, Script, play
from course import modules
from course.modules import find

STORIES = [
    ("kv_pool", "s16", "random_calls_agree_with_a_flat_pool"),
    ("radix_tree", "s13", "a_long_story_at_granule_1"),
    ("radix_cache", "s01", "golden_reference_trace"),
]
POOL, TREE, CACHE = STORIES


def verdict_on(module_name: str, bug_id: str, test_name: str) -> Verdict:
    module = find(module_name)
    bug = next(bug for bug in planted_bugs(module) if bug.id == bug_id)
    test = next(test for test in catalogue(module) if test.name == test_name)
    return run_named(test, implementations.buggy(module, bug))


def story_of(case: tuple[str, str, str]) -> dict[str, Any]:
    """A failing story as it comes back out of a report."""
    story = verdict_on(*case).story
    assert story is not None
    loaded: dict[str, Any] = json.loads(json.dumps(story))
    return loaded


def report_on(verdicts: tuple[Verdict, ...], *looks_like: Candidate) -> Report:
    own = OwnScore(False, "There are no tests of your own.")
    return Report(find("L10.1"), "kv_pool.py", verdicts, own, "", "nothing was run", diagnosis=looks_like)


# ---------------------------------------------------------------- what is kept


@pytest.mark.parametrize("case", STORIES, ids=lambda case: str(case[0]))
def test_a_failing_story_is_kept_as_data(case: tuple[str, str, str]) -> None:
    story = story_of(case)
    steps = replay.steps(story)
    assert [step.wrong for step in steps] == [False] * (len(steps) - 1) + [True]
    assert steps[-1].expected != steps[-1].got
    assert story["got_state"]["kind"] == story["expected_state"]["kind"] in ("tree", "pool")


def test_other_failures_have_no_story() -> None:
    verdict = verdict_on("radix_cache", "s04", "insert_takes_exactly_the_full_blocks")
    assert not verdict.passed
    assert verdict.story is None


def test_the_state_is_that_of_the_code_under_test() -> None:
    story = story_of(TREE)
    assert story["expected_state"]["rows"] == []
    assert [row[2:4] for row in story["got_state"]["rows"]] == [[[1], ["v53"]]]


def test_a_manager_that_fails_shows_its_pool() -> None:
    manager = find("block_manager")
    bug = next(bug for bug in planted_bugs(manager) if bug.id == "s07")
    failing = [run_named(test, implementations.buggy(manager, bug)) for test in catalogue(manager)]
    stories = [verdict.story for verdict in failing if verdict.story]
    assert stories
    assert all(story["got_state"]["kind"] == "pool" for story in stories)


def test_long_values_are_cut() -> None:
    assert replay._cut("x" * 3000).endswith("… (3,000 characters)")


# ---------------------------------------------------------------- looking


def test_a_look_changes_nothing_and_reads_everything() -> None:
    script = Script()
    pool = script.new("KvPool", 2, 4)
    script.ask(pool, "alloc", 1)
    story = script.story
    outcomes = play((*story, *looks(story)), implementations.flat(find("kv_pool")).names)
    state = seen(story, outcomes[len(story) :])
    assert state is not None
    assert state["counts"] == {"n_free": 1, "n_used": 1, "n_cached": 0, "n_named": 0, "evictions": 0}
    assert sorted(state["blocks"]) == [[0, 0], [1, 0]]


def test_a_story_of_a_function_shows_no_state() -> None:
    script = Script()
    script.new("kv_block_hash", 0, [1])
    assert looks(script.story) == ()
    assert seen(script.story, ()) is None
    assert drawn(None, "x") is None


def test_what_can_not_be_read_is_said() -> None:
    script = Script()
    script.new("RadixTree", 1)
    story = script.story
    for outcome in (Outcome(raised="ValueError", message="no"), Outcome(value=7), Outcome(value=[(1, 2)])):
        picture = drawn(seen(story, [outcome]), "Yours")
        assert picture is not None
        assert picture.text.startswith("Yours")
        assert "└─" not in picture.text


def test_values_that_json_does_not_know_are_told_in_words() -> None:
    script = Script()
    script.new("RadixTree", 1)
    rows = [(b"node", 0, (1,), (b"value",), 2.5, 10**9000)]
    state = seen(script.story, [Outcome(value=rows)])
    assert state == json.loads(json.dumps(state))
    picture = drawn(state, "Yours")
    assert picture is not None
    assert "Yours" in picture.text


# ---------------------------------------------------------------- in a terminal


def printed(case: tuple[str, str, str]) -> str:
    return replay.as_text(case[2], story_of(case))


def test_a_replay_shows_every_call_and_where_it_goes_wrong() -> None:
    text = printed(TREE)
    assert text.count("✓") == 3 and text.count("✗") == 1
    assert "✗ r3 = tree.evict(8)" in text
    assert "['v54', 'v53']   ['v54']" in text
    assert "Expected, after these calls\nThe tree is empty." in text
    assert "└─ [1]=v53" in text.partition("Yours, after these calls")[2]


def test_a_replay_of_a_pool_draws_its_blocks() -> None:
    text = printed(POOL)
    assert "block  1  █       1 of 1 written  references: 1" in text
    assert "n_free 1, n_used 1, n_cached 1" in text.partition("Yours, after these calls")[2]
    assert "any free block" in text


def test_a_replay_of_a_cache_draws_its_tree() -> None:
    assert "└─ [3 2 1]=57" in printed(CACHE)


def waited(monkeypatch: pytest.MonkeyPatch, *lines: str) -> str:
    typed = list(lines)

    def type_in(*_: object, **__: object) -> str:
        if not typed:
            raise EOFError
        return typed.pop(0)

    out = Console(file=io.StringIO(), width=120, color_system=None)
    monkeypatch.setattr(out, "input", type_in)
    replay.play_back(TREE[2], story_of(TREE), out, wait=True)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_enter_goes_on_call_by_call(monkeypatch: pytest.MonkeyPatch) -> None:
    text = waited(monkeypatch, "", "")
    assert text.count("✓") == 2 and "✗" not in text
    assert "Yours, after" in waited(monkeypatch, "", "", "", "")
    assert waited(monkeypatch, "", "q", "", "").count("✓") == 1


def test_the_command_replays_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps(as_data(report_on((verdict_on(*POOL),)))))
    result = CliRunner().invoke(cli.app, ["replay", str(report), POOL[2]])
    assert result.exit_code == 0
    assert "✗ r6 = pool.n_used" in result.output
    again = CliRunner().invoke(cli.app, ["replay", "-", POOL[2]], input=report.read_text())
    assert again.output == result.output


@pytest.mark.parametrize(
    ("text", "test", "said"),
    [
        ("{", "a", "is no report"),
        ("[]", "a", "is no report of ol check --json"),
        ('{"named_tests": []}', "a", "has no test a"),
        ('{"named_tests": [{"test": "a", "status": "passed", "story": null}]}', "a", "a passed"),
        ('{"named_tests": [{"test": "a", "status": "failed", "story": null}]}', "a", "failed without a story"),
        ('{"named_tests": [{"test": "b", "status": "failed", "story": {"x": 1}}]}', "a", "stories of b are there"),
    ],
)
def test_what_can_not_be_replayed_is_said(tmp_path: Path, text: str, test: str, said: str) -> None:
    report = tmp_path / "report.json"
    report.write_text(text)
    with pytest.raises(replay.NothingToReplay, match=said):
        replay.find(replay.load(report), test)
    assert CliRunner().invoke(cli.app, ["replay", str(report), test]).exit_code == 2


def test_a_report_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert CliRunner().invoke(cli.app, ["replay", str(tmp_path / "none.json"), "a"]).exit_code == 2


# ---------------------------------------------------------------- in a report and in a notebook


def test_a_report_carries_story_and_diagnosis() -> None:
    pitfall = Candidate("s16", "A cached block stays", "L10.4, section 2.2", 0.9)
    report = report_on((verdict_on(*POOL), Verdict("other", Status.PASSED)), pitfall)
    data = json.loads(json.dumps(as_data(report)))
    assert data["named_tests"][0]["story"]["fault"]["expected"] == "2"
    assert data["named_tests"][1]["story"] is None
    assert data["diagnosis"] == [{"pitfall": "A cached block stays", "reread": "L10.4, section 2.2", "likeness": 0.9}]
    out = Console(file=io.StringIO(), width=120)
    out.print(shown(report))
    assert isinstance(out.file, io.StringIO)
    assert "looks like a known pitfall: “A cached block stays”" in out.file.getvalue()


def test_a_verdict_with_its_story_is_plain_data() -> None:
    assert json.loads(json.dumps(asdict(verdict_on(*TREE))))["story"]["calls"]


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What a notebook about the radix tree with one bug in it shows."""
    shown_there: list[Any] = []
    module = find("radix_tree")
    bug = next(bug for bug in planted_bugs(module) if bug.id == "s13")
    space = dict(implementations.buggy(module, bug).names)
    monkeypatch.setattr(notebook, "_show", shown_there.append)
    with modules.bound({}):
        notebook.begin("ds.07", space)
        yield shown_there
    notebook._sessions.clear()


def test_a_notebook_replays_a_test(views: list[Any]) -> None:
    notebook.replay("a_long_story_at_granule_1")
    assert "✗ r3 = tree.evict(8)" in views[-1].text
    assert views[-1].html.count("<tr>") == 5
    assert "<svg" in views[-1].html


def test_a_notebook_says_where_there_is_nothing_to_replay(views: list[Any]) -> None:
    notebook.replay("hand_example_of_eviction")
    assert "it passes" in views[-1].text
    notebook.replay("a_parent_that_loses_its_last_child_is_a_leaf")
    assert "it is no story" in views[-1].text
    assert "expected: ['c', 'd', 'a', 'b']" in views[-1].text


def test_several_checks_name_the_pitfall_and_one_does_not(views: list[Any]) -> None:
    names = [test.name for test in catalogue(find("radix_tree"))]
    with pytest.raises(notebook.CheckFailed):
        notebook.check(*names)
    assert "loses its last child" in views[-1].text and "known pitfall" in views[-1].html
    with pytest.raises(notebook.CheckFailed):
        notebook.check("a_parent_that_loses_its_last_child_is_a_leaf")
    assert "known pitfall" not in views[-1].text

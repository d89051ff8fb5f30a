"""`ol bench order`: the backlog that is served, what is noted of it, and the command's output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autograder import order_command
from autograder.benchmarks import scheduling
from autograder.benchmarks.scheduling import Plan, Result, Run, as_data, backlog, measure
from autograder.benchmarks.scheduling_table import order_view
from autograder.benchmarks.serving import best_names, lab_names
from autograder.cli import app
from autograder.terminal import console
from course.engine.models import LoadedModel, load_model

SMALL = Plan(n_prefixes=3, n_each=4, n_prefix=32, n_suffix=16, n_new=2, max_running=1, repeats=2, chunk=64)


@pytest.fixture(scope="module")
def tiny() -> LoadedModel:
    return load_model("byte-tiny")


def shown(result: Result) -> str:
    with (out := console()).capture() as captured:
        out.print(order_view(result, "here"))
    return captured.get()


# ---------------------------------------------------------------- what is served


def test_a_backlog_is_each_prefix_so_often_mixed_and_the_same_for_the_same_seed() -> None:
    prompts = backlog(SMALL, 50, 1)
    assert len(prompts) == SMALL.n_requests == 12 and {len(prompt) for prompt in prompts} == {48}
    heads = [tuple(prompt[:32]) for prompt in prompts]
    assert sorted(map(heads.count, set(heads))) == [4, 4, 4]
    assert len({tuple(prompt) for prompt in prompts}) == 12 and max(map(max, prompts)) < 50
    assert prompts == backlog(SMALL, 50, 1) != backlog(SMALL, 50, 2)
    assert heads != sorted(heads, key=heads.index), "they are mixed"


def test_the_pool_holds_what_runs_and_so_many_prefixes() -> None:
    assert SMALL.n_blocks == 4 + 2 and SMALL.best_hit_rate == 3 / 4 * 32 / 48
    assert Plan(n_prefix=40, n_suffix=5, n_new=3, max_running=2, room=3).n_blocks == 2 * 3 + 3 * 3


# ---------------------------------------------------------------- what is measured


@pytest.mark.parametrize("mode", ["hash", "radix"])
def test_prefixes_in_order_are_computed_once_and_the_answers_stay(tiny: LoadedModel, mode: str) -> None:
    result = measure(tiny, lab_names(), Plan(**{**vars(SMALL), "mode": mode}))
    assert result.same_answers and list(result.runs) == ["arrival", "prefix"]
    for arrival, prefix in zip(*result.runs.values(), strict=True):
        assert prefix.hit_rate == SMALL.best_hit_rate > arrival.hit_rate
        assert prefix.prefill_tokens == 3 * 48 + 9 * 16 < arrival.prefill_tokens
        assert len(prefix.ttfts) == len(prefix.answers) == 12 and all(time > 0 for time in prefix.ttfts)
    assert "Every request got the same answer in both orders." in shown(result)


def test_progress_is_told_and_a_manager_that_cant_look_is_refused(tiny: LoadedModel) -> None:
    told: list[tuple[str, int, int]] = []
    measure(tiny, lab_names(), SMALL, lambda *each: told.append(each))
    assert told == [
        ("order of arrival", 0, 4),
        ("order of prefix", 1, 4),
        ("order of prefix", 2, 4),
        ("order of arrival", 3, 4),
    ]
    with pytest.raises(ValueError, match="cached_prefix"):
        measure(tiny, best_names(), SMALL)


def some_run(*ttfts: float, answer: int = 1) -> Run:
    return Run(ttfts, 0.5, 100, 1, ((answer,),) * len(ttfts))


def test_figures_are_medians_of_the_repeats() -> None:
    runs = {"arrival": (some_run(1, 3), some_run(2, 2), some_run(8, 10)), "prefix": (some_run(1, 1),) * 3}
    result = Result(SMALL, runs)
    data: Any = as_data(result)
    assert data["orders"]["arrival"]["ttft_s"] == {"mean": 2, "p50": 2, "p95": pytest.approx(2.9), "max": 3}
    assert data["orders"]["prefix"]["hit_rate"] == [0.5] * 3 and data["plan"]["n_blocks"] == SMALL.n_blocks
    assert json.loads(json.dumps(data)) == data
    assert "2,000 ms" in shown(result) and "1,000 ms" in shown(result)


def test_answers_that_hang_on_the_order_are_told() -> None:
    result = Result(Plan(repeats=1), {"arrival": (some_run(1),), "prefix": (some_run(1, answer=2),)})
    assert "One repeat." in shown(result)
    assert not result.same_answers and "a time to a wrong token is worth nothing" in shown(result)


# ---------------------------------------------------------------- the command


def test_the_command_writes_a_chart_and_its_numbers(tmp_path: Path) -> None:
    args = ["--model", "byte-tiny", "--prefixes", "2", "--each", "2", "--repeats", "1", "--out", str(tmp_path)]
    run = CliRunner().invoke(app, ["bench", "order", *args])
    assert run.exit_code == 0, run.output
    assert "order of" in run.output and "bench_order.png, bench_order.json" in run.output.replace("\n", "")
    assert (tmp_path / "bench_order.png").read_bytes().startswith(b"\x89PNG")
    numbers = json.loads((tmp_path / "bench_order.json").read_text())
    assert numbers["same_answers"] and set(numbers["orders"]) == {"arrival", "prefix"}
    printed = CliRunner().invoke(app, ["bench", "order", *args, "--json", "--mode", "hash"])
    assert json.loads(printed.stdout)["plan"]["mode"] == "hash"


def test_what_cant_be_measured_or_written_is_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CliRunner().invoke(app, ["bench", "order", "--model", "no such model"]).exit_code == 2
    monkeypatch.setattr(scheduling, "measure", lambda *_: Result(SMALL, {"arrival": (some_run(1),)}))
    (tmp_path / "file").write_text("")
    run = CliRunner().invoke(app, ["bench", "order", "--model", "byte-tiny", "--out", str(tmp_path / "file")])
    assert run.exit_code == 2 and "can't write" in run.output


def test_other_answers_are_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Result(SMALL, {"arrival": (some_run(1),), "prefix": (some_run(1, answer=2),)})
    monkeypatch.setattr(scheduling, "measure", lambda *_: wrong)
    run = CliRunner().invoke(app, ["bench", "order", "--model", "byte-tiny", "--out", str(tmp_path)])
    assert run.exit_code == 1


def test_only_caches_can_be_asked_for() -> None:
    assert [mode.value for mode in order_command.Cache] == ["hash", "radix"]
    assert CliRunner().invoke(app, ["bench", "order", "--mode", "none"]).exit_code == 2

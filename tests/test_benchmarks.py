"""Benchmarks: what they count, what they conclude, and their whole path on a small model. Times decide nothing here."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from autograder import implementations
from autograder.benchmarks import manager, tables
from autograder.benchmarks import shared_prefix_ttft as ttft
from autograder.benchmarks.serving import best_names
from autograder.benchmarks.submitted import SubmissionFailed, submission
from autograder.cli import app
from course import modules
from course.engine import byte_model
from course.engine.models import LoadedModel, load_model
from course.lab_models import on_threads

L104 = modules.find("L10.4")
REFERENCE = implementations.reference_source(L104)


@cache
def tiny() -> LoadedModel:
    return load_model("byte-tiny")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """A small model is quickest on one thread, above all where something else runs too."""
    with on_threads(1):
        yield


@cache
def small_plan() -> ttft.Plan:
    return replace(ttft.plan_for(tiny()), n_suffix=32, chunk_sizes=(64, 256), n_requests=2, repeats=2)


def ol(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def result(none: float, hash_: float, tokens: tuple[int, int] = (288, 64), same: bool = True) -> ttft.Result:
    times = {"none": (none, none * 1.2), "hash": (hash_, hash_ * 1.2), "radix": (hash_, hash_)}
    prefill = {"none": tokens[0], "hash": tokens[1], "radix": tokens[1]}
    return ttft.Result(ttft.Plan((1,) * 224), {64: 0.3, 256: 0.2}, 256, times, prefill, same)


# ---------------------------------------------------------------- TTFT: what follows from the numbers


def test_ratio_limit_and_share() -> None:
    measured = result(0.2, 0.05)
    assert measured.ratio("hash") == pytest.approx(4.0)
    assert measured.limit("hash") == pytest.approx(4.5)
    assert measured.share("hash") == pytest.approx(4.0 / 4.5)


@pytest.mark.parametrize(("hash_", "same", "met"), [(0.1, True, True), (0.101, True, False), (0.05, False, False)])
def test_the_budget_is_twice_and_only_for_right_answers(hash_: float, same: bool, met: bool) -> None:
    assert result(0.2, hash_, same=same).within_budget is met


def test_the_table_has_absolute_times_the_limit_and_the_chunk_of_none() -> None:
    paper = Console(width=120, record=True, file=io.StringIO())
    paper.print(tables.ttft_view(result(0.2, 0.05), "byte model"))
    shown = paper.export_text()
    for text in ("220 ms", "55 ms", "4.00", "4.50", "89%", "chunks of 256, the fastest for none", "budget is met"):
        assert text in shown


# ---------------------------------------------------------------- TTFT: measured on a small model


def test_the_prompt_has_224_bytes_and_a_hit_computes_whole_blocks() -> None:
    plan = ttft.plan_for(tiny())
    assert (len(plan.prefix), plan.n_suffix) == (224, ttft.SUFFIX_TOKENS) and plan.n_suffix % 16 == 0
    fewer = SimpleNamespace(tokenizer=SimpleNamespace(encode=lambda text: list(range(49))))
    assert ttft.plan_for(cast(LoadedModel, fewer)).n_suffix == 15, "49 tokens: 48 are found again, 16 computed"


def test_what_is_counted_while_the_small_model_runs() -> None:
    names, plan = best_names(), small_plan()
    measured = ttft.measure(tiny(), names, names, plan)
    assert len(plan.prefix) == 224 and measured.same_answers
    assert measured.prefill_tokens == {"none": 2 * 256, "hash": 2 * 32, "radix": 2 * 32}
    assert set(measured.chunk_times) == {64, 256} and measured.chunk in measured.chunk_times
    assert all(len(times) == plan.repeats and min(times) > 0 for times in measured.ttft.values())
    assert measured.limit("hash") == 8


def test_all_prompts_share_the_prefix_and_no_two_go_on_alike() -> None:
    plan = small_plan()
    prompts = ttft._prompts(tiny(), plan, 6, seed=0)
    assert {tuple(prompt[:224]) for prompt in prompts} == {plan.prefix}
    assert len({tuple(prompt[224:240]) for prompt in prompts}) == 6, "or they would share a block more"


def test_every_repeat_begins_with_another_mode() -> None:
    names: Mapping[str, Mapping[str, object]] = {"none": {}, "hash": {}, "radix": {}}
    assert [ttft._rotated(names, by)[0][0] for by in range(4)] == ["none", "hash", "radix", "none"]


@pytest.mark.parametrize(
    ("cost", "settles"),
    [
        (lambda n: float(n), 64),
        (lambda n: 1_000.0 + n, 2_048),
        (lambda n: max(256.0, n), 256),
    ],
)
def test_a_device_gets_as_many_tokens_as_it_takes_for_compute_to_decide(cost: object, settles: int) -> None:
    assert ttft.settled(cost, 64, 2_048) == settles  # type: ignore[arg-type]


def test_the_plan_of_a_gpu_runs_here_at_a_small_size() -> None:
    plan = ttft.scaled_plan(tiny(), smallest=16, largest=32)
    assert plan.n_suffix in (16, 32) and plan.n_prompt in plan.chunk_sizes
    assert len(plan.prefix) == plan.n_suffix * 224 // ttft.SUFFIX_TOKENS // 16 * 16
    measured = ttft.measure(tiny(), best_names(), best_names(), replace(plan, n_requests=1, repeats=1))
    assert measured.same_answers
    assert measured.prefill_tokens == {"none": plan.n_prompt, "hash": plan.n_suffix, "radix": plan.n_suffix}


# ---------------------------------------------------------------- TTFT: the command


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small_plan()
    monkeypatch.setattr(ttft, "plan_for", lambda loaded: plan)


def bench(tmp_path: Path, *more: str) -> Result:
    return ol("bench", "L10.4", "--model", "byte-tiny", "--repeats", "1", "--out", str(tmp_path), *more)


@pytest.mark.usefixtures("quick")
def test_the_command_writes_table_chart_and_numbers(tmp_path: Path) -> None:
    ran = bench(tmp_path)
    assert ran.exit_code == 0, ran.output
    assert "share of limit" in ran.stdout and "none / it" in ran.stdout and "half of none" in ran.stdout
    told = json.loads((tmp_path / "bench_shared_prefix_ttft.json").read_text(encoding="utf-8"))
    assert told["prefill_tokens"] == {"none": 512, "hash": 64, "radix": 64} and told["submission"] == "reference"
    assert (tmp_path / "bench_shared_prefix_ttft.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("quick")
def test_json_is_json_and_nothing_else(tmp_path: Path) -> None:
    assert json.loads(bench(tmp_path, "--json").stdout)["limit"] == {"hash": 8.0, "radix": 8.0}


@pytest.mark.parametrize(
    ("hash_", "arguments", "code"), [(0.05, ["--assert"], 0), (0.15, ["--assert"], 1), (0.15, [], 0)]
)
def test_only_assert_turns_a_missed_budget_into_1(
    hash_: float, arguments: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ttft, "measure", lambda *_: result(0.2, hash_))
    assert bench(tmp_path, *arguments).exit_code == code


def test_what_is_not_there_leaves_with_2(tmp_path: Path) -> None:
    missing = ol("bench", "L10.4", "--model", "no-such-model", "--out", str(tmp_path))
    assert missing.exit_code == 2 and "no-such-model" in missing.stderr
    (tmp_path / "file").write_text("", encoding="utf-8")
    nowhere = bench(tmp_path / "file", "nothing.py")
    assert nowhere.exit_code == 2 and "nothing.py" in nowhere.stderr


# ---------------------------------------------------------------- submissions


def handed_in(folder: Path, source: str) -> Path:
    path = folder / "mine.py"
    path.write_text(source, encoding="utf-8")
    return path


@pytest.mark.usefixtures("quick")
def test_a_submission_is_measured_with_its_own_manager(tmp_path: Path) -> None:
    path = handed_in(tmp_path, REFERENCE)
    ran = bench(tmp_path, str(path))
    assert ran.exit_code == 0, ran.output
    told = json.loads((tmp_path / "bench_shared_prefix_ttft.json").read_text(encoding="utf-8"))
    assert told["submission"].endswith("mine.py") and told["prefill_tokens"]["hash"] == 64


@pytest.mark.usefixtures("quick")
def test_a_manager_that_never_hits_has_no_budget(tmp_path: Path) -> None:
    never = REFERENCE + (
        "\n\nclass BlockManager(BlockManager):\n"
        "    def __init__(self, pool, mode):\n        super().__init__(pool, PrefixCache.NONE)\n"
    )
    told = json.loads(bench(tmp_path, str(handed_in(tmp_path, never)), "--json").stdout)
    assert told["prefill_tokens"] == {"none": 512, "hash": 512, "radix": 512}
    assert told["limit"] == {"hash": 1.0, "radix": 1.0}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = 1 / 0", "ZeroDivisionError"),
        ("class BlockManager:\n    def __init__(self, pool, mode):\n        raise OSError('no disk')", "no disk"),
        ("def f(:", "SyntaxError"),
        ("class Other: pass", "BlockManager is not defined in mine.py"),
        ("import sys\nclass BlockManager:\n    def __init__(self, pool, mode):\n        sys.exit(0)", "SystemExit"),
    ],
)
def test_a_submission_that_crashes_is_a_line_and_leaves_with_2(source: str, reason: str, tmp_path: Path) -> None:
    ran = bench(tmp_path, str(handed_in(tmp_path, source)), "--assert")
    assert ran.exit_code == 2 and reason in ran.stderr and "Traceback" not in ran.output


CLAIMS_TOO_MUCH = """

class BlockManager(BlockManager):
    def allocate(self, seq, tokens):
        return Allocation(len(tokens) - 1, super().allocate(seq, tokens).blocks)
"""
SEES_THE_PREFIX_ALONE = """

class BlockManager(BlockManager):
    def allocate(self, seq, tokens):
        return super().allocate(seq, blind(tokens))

    def release(self, seq, computed):
        super().release(seq, blind(computed))


def blind(tokens):
    return [*tokens[:224], *[0] * len(tokens[224:])]
"""


@pytest.mark.usefixtures("quick")
def test_a_manager_that_claims_what_nobody_computed_can_not_be_measured(tmp_path: Path) -> None:
    ran = bench(tmp_path, str(handed_in(tmp_path, REFERENCE + CLAIMS_TOO_MUCH)), "--assert")
    assert ran.exit_code == 2 and "was never written" in ran.stderr


@pytest.mark.usefixtures("quick")
def test_a_quick_wrong_answer_does_not_meet_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = byte_model._drawn
    monkeypatch.setattr(byte_model, "_drawn", lambda *shape: 2 * drawn(*shape))  # attends to few positions, not all
    ran = bench(tmp_path, str(handed_in(tmp_path, REFERENCE + SEES_THE_PREFIX_ALONE)), "--assert")
    assert ran.exit_code == 1 and "answers are not the same" in ran.stdout


def test_a_notebook_is_read_as_check_reads_it(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "source": "from autograder.notebook import check\ncheck('no such test')"},
        {"cell_type": "code", "source": REFERENCE},
        {"cell_type": "code", "source": "display(BlockManager)"},
    ]
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "cells": cells}), encoding="utf-8")
    before = sys.modules.get("autograder.notebook")
    with submission(path, L104) as names:
        assert names["BlockManager"].__name__ == "BlockManager" and "KvPool" in names
    assert sys.modules.get("autograder.notebook") is before and "submission" not in sys.modules
    with pytest.raises(SubmissionFailed, match=r"gone\.py"), submission(tmp_path / "gone.py", L104):
        pass


# ---------------------------------------------------------------- bookkeeping


def test_the_yardstick_and_the_managers_find_the_same_prefixes() -> None:
    """With the full workload: .6098 at 2,000 requests; here a part of it, where nothing is evicted."""
    costs = manager.measure(manager.contenders(best_names()), n_requests=150, rounds=1)
    assert costs["yardstick"].hit_rate == costs["hash"].hit_rate == costs["radix"].hit_rate > 0.2
    assert costs["none"].hit_rate == 0 and costs["yardstick"].ratio == 1
    assert all(cost.microseconds > 0 and cost.ratio > 0 for cost in costs.values())


@pytest.mark.slow
@pytest.mark.parametrize(("n", "in_flight", "hits"), [(2_000, 1, 0.6098), (5_000, 1, 0.6153), (5_000, 16, 0.6010)])
def test_the_hit_rates_of_the_whole_workload(n: int, in_flight: int, hits: float) -> None:
    costs = manager.measure(manager.contenders(best_names()), n, in_flight, rounds=1)
    assert round(costs["yardstick"].hit_rate, 4) == round(costs["hash"].hit_rate, 4) == hits
    assert costs["radix"].hit_rate == pytest.approx(hits, abs=0.004)


def test_the_yardstick_gives_every_block_back() -> None:
    pool = manager.BareHashPool()
    handles = [pool.begin(list(range(first, first + 100)))[1] for first in (0, 0, 500)]
    for handle in handles:
        pool.end(handle)
    assert not any(pool.references) and len(pool.unused) + len(pool.idle) == manager.N_BLOCKS
    assert len(pool.idle) == len(pool.holders) == 12


def test_the_manager_command_shows_a_row_for_each() -> None:
    told = json.loads(ol("bench", "manager", "--requests", "50", "--rounds", "1", "--json").stdout)
    assert list(told) == ["yardstick", "none", "hash", "radix"]
    shown = ol("bench", "manager", "--requests", "50", "--rounds", "1", "--in-flight", "3").stdout
    assert "3 in flight" in shown and "times the yardstick" in shown


def test_the_tree_command_is_there() -> None:
    assert "1,000 leaves" in ol("bench", "tree", "--help").stdout


def test_help_loads_no_engine() -> None:
    told = (
        "import sys, autograder.cli; print([name for name in ('torch', 'numpy', 'matplotlib') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True).stdout == "[]\n"

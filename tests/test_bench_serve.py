"""`ol bench serve`: what follows from the numbers, and its whole path on a tiny model. Times decide nothing here."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from autograder.benchmarks import load_runs, under_load
from autograder.benchmarks.load_runs import MODES, Run
from autograder.benchmarks.serving import best_names
from autograder.benchmarks.under_load import Plan, Setting
from autograder.benchmarks.under_load_table import load_view
from autograder.cli import app
from course.engine.driving import Done, Request, Sample
from course.engine.loaded import LoadedModel
from course.engine.models import load_model
from course.traffic import help_desks, sessions

SETTING = Setting(chunk=256, chunk_times={256: 0.03}, alone=0.5, rate=6.0)
SHORT = Plan(seconds=1.0, rate=6.0, chunk=256, new_tokens=3)
"""A few sessions; the time to think passes at once."""


@cache
def tiny() -> LoadedModel:
    return load_model("byte-tiny")


def ol(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "serve", *arguments])


def done(name: str, arrived: float, ttft: float, n: int = 3, tokens: tuple[int, ...] = (1, 2, 3)) -> Done:
    request = Request(name, (5,) * 20, n, arrived)
    first = arrived + ttft
    return Done(request, "engine", arrived, first, first + 0.1 * (n - 1), 20, 0, 20, 0, tokens, n)


def run(mode: str, ttfts: Sequence[float], seed: int = 0, every: float = 1.0, **more: Any) -> Run:
    """A request each second over as many seconds as there are times."""
    answered = tuple(done(f"r{place}", place * every, ttft) for place, ttft in enumerate(ttfts))
    hits = 0 if mode == "none" else 10 * len(ttfts)
    samples = (Sample(0.5, 0, 20, 1), Sample(9.0, hits, 20 * len(ttfts), 0))
    made = Run(mode, seed, len(ttfts) * every, (), answered, samples, 3.0, 0, 0)
    return replace(made, **more)


def three(none: float = 0.4, cached: float = 0.1, n: int = 10, **more: Any) -> list[Run]:
    return [run("none", [none] * n, **more), run("hash", [cached] * n, **more), run("radix", [cached / 2] * n, **more)]


def shown(plan: Plan, runs: Sequence[Run], setting: Setting = SETTING) -> str:
    paper = Console(width=120, record=True, file=io.StringIO())
    paper.print(load_view(plan, setting, runs, "tiny model"))
    return paper.export_text()


# ---------------------------------------------------------------- what follows


def test_the_ratio_is_that_of_the_medians_of_the_repeats() -> None:
    runs = [*three(0.4), *three(0.6, seed=1), *three(0.9, seed=2)]
    assert load_runs.ratio(runs) == pytest.approx(6.0)
    assert load_runs.ratio(runs, "radix") == pytest.approx(12.0)
    assert load_runs.ratio([run for run in runs if run.mode != "none"]) is None


@pytest.mark.parametrize(("cached", "met"), [(0.2, True), (0.201, False)])
def test_the_budget_is_twice(cached: float, met: bool) -> None:
    assert load_runs.within_budget(three(0.4, cached)) is met


def test_the_budget_asks_for_right_answers() -> None:
    none, hash_, radix = three()
    wrong = replace(hash_, done=(*hash_.done[:-1], done("r9", 9.0, 0.1, tokens=(1, 2, 4))))
    assert load_runs.differing([none, hash_, radix]) == []
    assert load_runs.differing([none, wrong, radix]) == ["r9 of seed 0, hash beside none"]
    assert not load_runs.within_budget([none, wrong, radix])
    assert "not the same in all modes: r9 of seed 0, hash beside none." in shown(SHORT, [none, wrong, radix])


def test_a_request_that_was_never_answered_is_another_answer() -> None:
    none, hash_, _ = three()
    assert load_runs.differing([none, replace(hash_, done=hash_.done[:-1])]) == ["r9 of seed 0, hash beside none"]


def test_many_other_answers_are_not_all_named() -> None:
    none, hash_, _ = three()
    told = shown(SHORT, [none, replace(hash_, done=())]) + shown(SHORT, [none, replace(hash_, done=hash_.done[:1])])
    assert "and 6 more" in " ".join(told.split())


def test_each_repeat_is_compared_with_its_own_none() -> None:
    other = [replace(each, tokens=(9, 9, 9)) for each in run("none", [0.4] * 3).done]
    runs = [run("none", [0.4] * 3), run("hash", [0.1] * 3)]
    runs += [run(mode, [0.4] * 3, seed=1, done=tuple(other)) for mode in ("none", "hash")]
    assert load_runs.differing(runs) == []


def test_a_mode_that_is_never_idle_is_saturated_and_then_the_budget_says_little() -> None:
    full = [run("none", [0.9] * 10), *three()[1:]]
    assert full[0].busy_share == 1.0 and full[0].saturated and load_runs.saturated(full) == ["none"]
    assert load_runs.ratio(full) == pytest.approx(9.0) and not load_runs.within_budget(full)
    told = shown(SHORT, full)
    assert "none: saturated, busy for 100%" in told and "so this says little" in " ".join(told.split())


def test_the_busy_share_counts_time_once_and_only_while_sessions_arrive() -> None:
    answered = tuple(done(name, at, 1.0, n=1) for name, at in (("a", 2.0), ("b", 2.5), ("c", 6.0), ("d", 9.5)))
    measured = run("none", [0.1] * 10, done=answered)
    assert measured.busy_share == pytest.approx((1.5 + 1.0 + 0.5) / 8), "from 2 s, when the first one came, to 10 s"
    assert [measured.under_way(at) for at in (1.0, 2.7, 3.0, 3.5)] == [0, 2, 1, 0]


def test_throughput_and_seconds_a_token() -> None:
    measured = run("hash", [0.1] * 10)
    assert measured.ended == pytest.approx(9.3)
    assert measured.tokens_per_second == pytest.approx(30 / 9.3)
    assert measured.requests_per_second == pytest.approx(10 / 9.3)
    assert measured.per_token == pytest.approx(0.1)
    assert (measured.hit_rate, measured.prefill_tokens) == (0.5, 200)


def test_the_table_has_all_figures_and_ranges_only_where_there_are_repeats() -> None:
    once, often = shown(SHORT, three()), shown(SHORT, [*three(), *three(0.6, seed=1)])
    for text in ("p50, ms", "p99, ms", "ms/token", "hit rate", "50.0%", "budget is met", "256", "512 blocks of 16"):
        assert text in " ".join(once.split())
    assert "–" not in once and "400–600" in often and "500" in often
    assert max(map(len, often.splitlines())) <= 120 and "…" not in often


def test_the_small_print_says_where_the_rate_comes_from() -> None:
    assert "load 0.7: alone, a request takes 0.5 s" in shown(SHORT, three())
    assert "(load" not in shown(SHORT, three(), replace(SETTING, alone=None))
    assert "served once before" in shown(SHORT, three())
    assert "began empty" in shown(replace(SHORT, cold=True), three())


# ---------------------------------------------------------------- measured on a tiny model


@cache
def measured() -> tuple[Run, ...]:
    names = best_names()
    return tuple(under_load.measure(tiny(), names, names, SHORT, SETTING))


def test_every_mode_serves_the_same_chats_and_answers_alike() -> None:
    come = sessions(help_desks(), SETTING.rate, SHORT.seconds, SHORT.seed)
    assert [each.mode for each in measured()] == list(MODES)
    for each in measured():
        assert len(each.done) == sum(len(session.says) for session in come)
        assert all(row.n_prompt - row.cached_tokens == row.prefill_tokens for row in each.done)
    assert load_runs.differing(measured()) == []


def test_with_every_system_prompt_known_only_what_is_new_is_computed() -> None:
    none, hash_, radix = measured()
    assert none.hit_rate == 0.0 and none.prefill_tokens == sum(row.n_prompt for row in none.done)
    for each in (hash_, radix):
        assert all(row.cached_tokens >= 1_136 for row in each.done), "a system prompt has some 1,150 bytes"
        assert len(each.before) == 3 and not {row.request.name for row in each.before} & {
            row.request.name for row in each.done
        }


def test_a_cold_start_pays_once_for_each_system_prompt() -> None:
    names = best_names()
    plan = replace(SHORT, cold=True, modes=("hash",))
    (cold,) = under_load.measure(tiny(), names, names, plan, SETTING)
    assert not cold.before and {row.request.name for row in cold.done} == {
        row.request.name for row in measured()[1].done
    }
    assert 1 <= sum(row.cached_tokens < 100 for row in cold.done) < len(cold.done)
    assert all(row.cached_tokens >= 100 for row in measured()[1].done), "warm, every prompt was there"


def test_no_cache_finds_more_than_an_endless_one() -> None:
    samples, ideal = load_runs.hits_over_time(measured(), 16)
    assert set(samples) == set(MODES)
    (_, most, queries) = ideal[-1][-1]
    for mode in MODES:
        _, hits, asked = samples[mode][-1][-1]
        assert hits <= most and asked == queries


def test_repeats_have_seeds_of_their_own_and_begin_with_different_modes() -> None:
    names = best_names()
    plan = replace(SHORT, seconds=0.5, repeats=2, modes=("none", "hash"))
    runs = list(under_load.measure(tiny(), names, names, plan, SETTING))
    assert [(each.mode, each.seed) for each in runs] == [("none", 0), ("hash", 0), ("hash", 1), ("none", 1)]
    assert runs[1].done[0].request.prompt != runs[2].done[0].request.prompt


def test_a_short_pool_preempts_or_evicts_and_answers_the_same() -> None:
    names = best_names()
    plan = replace(SHORT, n_blocks=120, modes=("none", "hash"))
    runs = list(under_load.measure(tiny(), names, names, plan, SETTING))
    assert runs[1].evictions > 0 and load_runs.differing([*runs, measured()[2]]) == []


def test_the_rate_follows_from_the_load_and_the_chunk_from_measuring() -> None:
    names = best_names()
    setting = under_load.settle(tiny(), names, replace(SHORT, rate=None, load=0.5, chunk=None))
    assert set(setting.chunk_times) == set(under_load.CHUNK_SIZES) and setting.chunk in setting.chunk_times
    assert setting.alone is not None and setting.rate == pytest.approx(0.5 / (setting.alone * 3))
    given = under_load.settle(tiny(), names, SHORT)
    assert (given.rate, given.chunk, given.alone) == (6.0, 256, None)


def test_an_interrupted_run_is_given_as_far_as_it_came() -> None:
    names = best_names()

    def tell(what: str, done: int, of: int) -> None:
        if what.startswith("hash") and ": 5 answered" in what:
            raise KeyboardInterrupt

    going, runs = under_load.measure(tiny(), names, names, SHORT, SETTING, tell), []
    with pytest.raises(KeyboardInterrupt):
        for each in going:
            runs.append(each)
    assert [(each.mode, each.complete) for each in runs] == [("none", True), ("hash", False)]
    assert len(runs[1].done) == 5 and set(load_runs.by_mode(runs)) == {"none"}


# ---------------------------------------------------------------- the command

FAST = ("--model", "byte-tiny", "--seconds", "1", "--rate", "6", "--chunk", "256", "--new-tokens", "3")


def test_the_command_shows_a_table_and_writes_numbers_and_charts(tmp_path: Path) -> None:
    result = ol(*FAST, "--out", str(tmp_path / "new"))
    assert result.exit_code == 0, result.output
    for text in ("none", "hash", "radix", "same answers, token for token", "prompt tokens came from the cache"):
        assert text in result.output
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "bench_serve.json", "bench_serve_ttft.png", "bench_serve_hits.png",
    }  # fmt: skip
    data = json.loads((tmp_path / "new" / "bench_serve.json").read_text())
    assert [each["mode"] for each in data["runs"]] == list(MODES) and data["answers_differ"] == []
    assert len(data["runs"][0]["requests"]) == len(measured()[0].done)
    assert data["plan"]["n_blocks"] == 512 and data["setting"]["rate"] == 6.0
    assert {"p50", "p95", "p99"} == set(data["runs"][0]["ttft_s"])


def test_json_is_all_that_is_printed(tmp_path: Path) -> None:
    result = ol(*FAST, "--json", "--mode", "hash", "--publish", "prefill", "--order", "prefix", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["ttft_p95_ratio"] == {"hash": None, "radix": None} and not data["within_budget"]
    assert data["plan"]["options"] == {"publish": "prefill", "order": "prefix"}
    assert data == json.loads((tmp_path / "bench_serve.json").read_text())


@pytest.mark.parametrize(("none", "code"), [(0.4, 0), (0.15, 1)])
def test_assert_is_about_the_budget(none: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_load, "settle", lambda *arguments: SETTING)
    monkeypatch.setattr(under_load, "measure", lambda *arguments: iter(three(none)))
    assert ol(*FAST, "--out", str(tmp_path), "--assert").exit_code == code
    assert ol(*FAST, "--out", str(tmp_path)).exit_code == 0


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> Iterator[Run]:
        yield run("none", [0.4] * 10)
        yield run("hash", [0.1] * 3, complete=False)
        raise KeyboardInterrupt

    monkeypatch.setattr(under_load, "measure", interrupted)
    monkeypatch.setattr(under_load, "settle", lambda *arguments: SETTING)
    result = ol(*FAST, "--out", str(tmp_path), "--assert")
    assert result.exit_code == 130 and "interrupted" in result.output and "none" in result.output
    runs = json.loads((tmp_path / "bench_serve.json").read_text())["runs"]
    assert [(each["mode"], each["complete"], len(each["requests"])) for each in runs] == [
        ("none", True, 10), ("hash", False, 3),
    ]  # fmt: skip


def test_cpu_time_is_said(tmp_path: Path) -> None:
    result = ol(*FAST, "--mode", "hash", "--cpu-time", "--out", str(tmp_path))
    assert result.exit_code == 0 and "1 thread, CPU time" in result.output
    assert json.loads((tmp_path / "bench_serve.json").read_text())["plan"]["cpu_time"]


def test_no_chat_in_time_is_said(tmp_path: Path) -> None:
    result = ol(*FAST, "--rate", "0.001", "--mode", "none", "--out", str(tmp_path))
    assert result.exit_code == 2 and "No run was completed in which a chat arrived" in result.output
    assert ol(*FAST, "--rate", "0.001", "--out", str(tmp_path), "--assert").exit_code == 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--model", "no-such-model"), "no model 'no-such-model'"),
        (("--device", "no-such-device"), "'no-such-device' is not one of"),
        (("--blocks", "20"), "the pool has 20"),
        (("--cpu-time", "--threads", "2"), "one thread on a CPU"),
        (("--assert", "--mode", "radix"), "measure both"),
        (("--seconds", "inf"), "less than or equal to"),
        (("--rate", "inf"), "less than or equal to"),
    ],
)
def test_what_cant_be_measured_is_said(options: Sequence[str], reason: str, tmp_path: Path) -> None:
    result = ol(*FAST, *options, "--out", str(tmp_path))
    assert result.exit_code == 2 and reason in " ".join(result.output.split())


def test_a_submission_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    broken = tmp_path / "mine.py"
    broken.write_text(
        "class BlockManager:\n    def __init__(self, pool, mode):\n        raise RuntimeError('not yet')\n"
    )
    result = ol(str(broken), *FAST, "--out", str(tmp_path / "out"))
    assert result.exit_code == 2 and "not yet" in result.output and "line 3" in result.output


def test_a_folder_that_cant_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_load, "settle", lambda *arguments: SETTING)
    monkeypatch.setattr(under_load, "measure", lambda *arguments: iter(three()))
    (tmp_path / "file").write_text("")
    result = ol(*FAST, "--out", str(tmp_path / "file" / "out"))
    assert result.exit_code == 2 and "can't write" in result.output

"""`ol demo`: what is served and shown, what must hold for it to end well, and what happens without a network."""

from __future__ import annotations

import io
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from autograder import demo, samples, serving_demo
from autograder.cli import app
from autograder.serving_demo import Run, percentile
from autograder.work import Limits
from course.contract import PrefixCache
from course.engine import models
from course.engine.models import LoadedModel, ModelUnavailable, load_model
from course.lab_models import on_threads
from course.workloads import Chat, Question, homework_help, shared_system_prompt

WHY = "Why? Please say it in one short line."
SMALL = Chat(shared_system_prompt(), (Question(WHY, "And then?"), Question("Who?"), Question("Where?")))
N_REQUESTS = 4


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """A small model is quickest on one thread, above all where something else runs too."""
    with on_threads(1):
        yield


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_demo, "homework_help", lambda: SMALL)
    monkeypatch.setattr(serving_demo, "NEW_TOKENS", 8)


def served() -> list[Run]:
    loaded = load_model("byte-tiny")
    runs = [Run(mode) for mode in PrefixCache]
    for run in runs:
        serving_demo._serve_all(run, loaded, SMALL, lambda doing: None)
    return runs


@pytest.mark.usefixtures("small")
def test_the_demo_shows_what_was_served_and_grades_the_class(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(demo, "LIMITS", Limits(test_s=1.0))
    ran = CliRunner().invoke(app, ["demo", "--model", "byte-tiny", "--out", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    for shown in ("byte-tiny answers 3 chats", "TTFT p50", "TTFT p95", "prefill tokens", "hit rate", "cached blocks"):
        assert shown in ran.stdout
    assert f"All {N_REQUESTS} answers are the same in all modes, token for token." in ran.stdout
    assert "Why?" in ran.stdout and "half of none" in ran.stdout
    for name in ("demo_ttft.png", "demo_hit_rate.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG") and name in ran.stdout
    for sample in samples.samples():
        assert sample.path.name in ran.stdout
    assert "Every verdict is as it should be." in ran.stdout and "timed out" in ran.stdout
    assert "\x1b" not in ran.stdout


@pytest.mark.usefixtures("small")
def test_a_cache_computes_less_and_answers_the_same() -> None:
    none, *cached = served()
    assert none.prefill_tokens == sum(each.n_prompt for each in none.served) and none.hit_rates == [0] * N_REQUESTS
    for run in cached:
        assert run.answers == none.answers and run.questions == none.questions
        assert run.prefill_tokens < none.prefill_tokens / 2
        assert run.hit_rates[0] == 0 < run.hit_rates[1] < run.hit_rates[-1]
    assert none.questions == [WHY, "Who?", "Where?", "And then?"]


@pytest.mark.usefixtures("small")
def test_a_second_turn_finds_the_first_one_too() -> None:
    _, hashed, _ = served()
    first, second = hashed.served[0], hashed.served[-1]
    found = second.n_prompt - second.prefill_tokens
    assert found > len(SMALL.system.encode()) // 16 * 16, "more than the system prompt alone"
    assert found <= first.n_prompt + len(first.tokens)


@pytest.mark.usefixtures("small")
def test_on_a_terminal_each_answer_grows_below_the_table(tmp_path: Path) -> None:
    file = io.StringIO()
    terminal = Console(file=file, force_terminal=True, width=100)
    assert serving_demo.serving_demo(terminal, "byte-tiny", tmp_path)
    assert "radix, request 4: And then?" in file.getvalue()


@pytest.mark.usefixtures("small")
def test_without_a_network_the_byte_model_takes_over_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def offline(name: str, **more: object) -> LoadedModel:
        if name == "smollm2":
            raise ModelUnavailable("SmolLM2 could not be downloaded [no network].")
        return load_model("byte-tiny")

    monkeypatch.setattr(models, "load_model", offline)
    paper = Console(file=io.StringIO(), record=True, width=120)
    assert serving_demo.serving_demo(paper, "smollm2", tmp_path)
    told = paper.export_text()
    assert "SmolLM2 could not be downloaded [no network]." in told and "The byte model takes its place" in told


@pytest.mark.usefixtures("small")
def test_answers_that_differ_are_no_success() -> None:
    runs = served()
    runs[2].served[1] = replace(runs[2].served[1], tokens=(1, 2, 3))
    paper = Console(file=io.StringIO(), record=True)
    assert not serving_demo._compare(paper, runs)
    assert "not the same in all modes" in paper.export_text()


@pytest.mark.parametrize("served_well", [True, False])
def test_the_demo_ends_well_only_if_both_halves_do(served_well: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_demo, "serving_demo", lambda *_: served_well)
    monkeypatch.setattr(demo, "grading_demo", lambda _: True)
    assert CliRunner().invoke(app, ["demo"]).exit_code == (0 if served_well else 1)


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(n) for n in range(20, 0, -1)]
    assert percentile(values, 95) == 19 and percentile(values, 100) == 20 and percentile([3.0], 95) == 3
    assert percentile([1.0, 2.0, 3.0], 50) == statistics.median([1.0, 2.0, 3.0])


@pytest.mark.slow
def test_smollm2_answers_sensibly_and_the_same_in_all_modes() -> None:
    try:
        loaded = load_model("smollm2")
    except ModelUnavailable as problem:
        pytest.skip(str(problem))
    chat = homework_help()
    assert 600 <= len(loaded.tokenizer.encode(chat.system)) <= 900
    runs = [Run(mode) for mode in PrefixCache]
    for run in runs:
        serving_demo._serve_all(run, loaded, chat, lambda doing: None)
    assert runs[0].answers == runs[1].answers == runs[2].answers
    for word in ("Paris", "Jupiter", "Leonardo", "Shakespeare", "chlorophyll", "Rome"):
        assert any(word in answer for answer in runs[0].answers), word

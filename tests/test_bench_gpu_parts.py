"""`ol bench gpu`: its whole path on this CPU at a tiny size, each part of it, and what it leaves out and says so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

from autograder.benchmarks import gpu, gpu_findings, gpu_parts
from autograder.benchmarks import shared_prefix_ttft as ttft
from autograder.benchmarks.gpu import TimeLeft
from autograder.benchmarks.gpu_findings import LOAD, LONG, MODES, SHORT, STEPS, Findings, missing
from autograder.benchmarks.gpu_parts import Bits, Modes, Setting, Traffic
from autograder.benchmarks.gpu_tables import verdict
from autograder.benchmarks.serving import best_names
from autograder.cli import app
from course.engine.device_time import timer_for
from course.engine.model import Llama
from course.engine.models import LoadedModel, load_model
from course.engine.precision import FULL, switches
from course.engine.tiling import MANY_AT_ONCE, ONE_SHAPE
from course.lab_models import on_threads
from course.progress import silent

TINY = replace(
    gpu_findings.SMALL,
    model="byte-tiny",
    prefix=96,
    smallest_suffix=16,
    rows=(16, 64),
    repeats=1,
    requests=1,
    traffic=Traffic(n_requests=3, shared=70, own=20, n_new=3, max_batch_tokens=48),
    load_requests=2,
    needs=dict.fromkeys(gpu_findings.SMALL.needs, 0.0),
)
SETTINGS = gpu_parts.settings(ONE_SHAPE)


@cache
def tiny() -> LoadedModel:
    return load_model("byte-tiny")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with on_threads(1):
        yield


@pytest.fixture
def quick_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits are kept, and nobody looks: test_one_shape.py does."""
    monkeypatch.setattr(gpu_parts, "bits_under", lambda model, setting: Bits(setting, ()))


@pytest.fixture
def quick_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ttft, "CHUNK_ROUNDS", 1)


def measured(sizes: gpu_findings.Sizes = TINY, time_left: TimeLeft | None = None) -> Findings:
    return gpu.measure(tiny(), sizes, best_names(), time_left or TimeLeft(1e6), silent)


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "gpu", *arguments])


# ---------------------------------------------------------------- which setting


def test_settings_ask_for_more_from_one_to_the_next() -> None:
    assert [setting.name for setting in SETTINGS] == [
        "plain",
        "full precision",
        "pieces of rows",
        "one shape",
        "one shape, full precision",
    ]
    assert SETTINGS[0].tiling == MANY_AT_ONCE and SETTINGS[3].tiling == SETTINGS[4].tiling == ONE_SHAPE
    assert [setting.precision == FULL for setting in SETTINGS] == [False, True, True, False, True]
    assert len({(setting.tiling, setting.precision) for setting in SETTINGS}) == 5


@pytest.mark.parametrize(
    ("keep", "first", "under"),
    [
        ((0, 1, 2, 3, 4), 0, 0),
        ((1, 3), 1, 1),
        ((3, 4), 3, 3),
        ((4,), 4, 4),
        ((), None, 0),
    ],
)
def test_everything_is_measured_under_a_setting_that_keeps_the_bits(
    keep: Sequence[int], first: int | None, under: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = gpu_parts.settings(TINY.one_shape)
    seen: list[tuple[Any, Any]] = []

    def bits_under(model: Llama, setting: Setting) -> Bits:
        return Bits(setting, () if settings.index(setting) in keep else ("exp has other bits",))

    def serve_in_modes(loaded: LoadedModel, *rest: Any) -> Modes:
        told = dict(switches())["torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction"]
        seen.append((loaded.model.tiling, told))
        raise RuntimeError("enough")

    monkeypatch.setattr(gpu_parts, "bits_under", bits_under)
    monkeypatch.setattr(gpu_parts, "serve_in_modes", serve_in_modes)
    found = measured(replace(TINY, needs={**TINY.needs, **dict.fromkeys((LONG, STEPS, SHORT, LOAD), 1e9)}))
    assert found.first_kept == (None if first is None else settings[first])
    assert found.setting == settings[under]
    assert seen == [(settings[under].tiling, settings[under].precision.reduced)]


def test_a_gpu_is_measured_the_way_it_runs_by_itself_if_that_keeps_the_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "tiling_for", lambda device: ONE_SHAPE)
    monkeypatch.setattr(gpu_parts, "bits_under", lambda model, setting: Bits(setting, ()))
    found = measured(replace(TINY, needs={**TINY.needs, **dict.fromkeys((MODES, LONG, STEPS, SHORT, LOAD), 1e9)}))
    assert found.first_kept and found.first_kept.name == "plain"
    assert found.setting and found.setting.name == "one shape"


# ---------------------------------------------------------------- time


def test_time_that_is_left_and_for_more() -> None:
    now = [5.0]
    time_left = TimeLeft(100.0, lambda: now[0])
    assert (time_left.used, time_left.left, time_left.for_more()) == (0.0, 100.0, True)
    now[0] = 96.0
    assert (time_left.used, time_left.left, time_left.for_more()) == (91.0, 9.0, False)


@pytest.mark.usefixtures("quick_bits", "quick_chunks")
def test_a_part_that_there_is_no_time_for_is_left_out_with_a_sentence() -> None:
    now = [0.0]
    needs = {**TINY.needs, LONG: 60.0}
    found = measured(replace(TINY, needs=needs), TimeLeft(59.4, lambda: now[0]))
    assert found.long is None and found.short is not None and found.modes is not None
    assert found.left_out == {LONG: "long prefix was not measured: left out, for it may take 60 s, and 59 s were left."}
    assert missing(found) == list(found.left_out.values())


def test_when_there_is_no_time_at_all_every_part_is_named() -> None:
    found = measured(replace(TINY, needs=gpu_findings.SMALL.needs), TimeLeft(0.0, lambda: 0.0))
    assert len(found.left_out) == len(SETTINGS) + 5 and not found.seconds
    assert len(missing(found)) == len(SETTINGS) + 2
    assert "not all measured" in verdict(found).plain


def test_repeats_and_larger_steps_end_when_time_does() -> None:
    asked: list[int] = []

    def go_on() -> bool:
        asked.append(1)
        return len(asked) < 2

    plan = ttft.Plan((1,) * 32, 16, chunk_sizes=(48,), n_requests=1, repeats=9)
    result = ttft.measure(tiny(), best_names(), best_names(), plan, go_on=go_on)
    assert result.plan.repeats == 2 and {len(times) for times in result.ttft.values()} == {2}
    times = gpu_parts.step_times(tiny().model, (16, 32, 64), 2, timer_for(torch.device("cpu")), lambda: False, silent)
    assert list(times) == [16] and len(times[16]) == 2


@pytest.mark.usefixtures("quick_bits", "quick_chunks")
def test_a_part_that_fails_is_told_of_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def short_of_memory(*rest: Any) -> Modes:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7 GiB")

    monkeypatch.setattr(gpu_parts, "serve_in_modes", short_of_memory)
    found = measured()
    assert found.left_out == {
        MODES: "modes was not measured: it failed, with OutOfMemoryError: CUDA out of memory. Tried to allocate 7 GiB."
    }
    assert missing(found) and found.long is not None and found.load


# ---------------------------------------------------------------- the parts, on a tiny model


def test_the_modes_agree_to_the_bit_and_the_caches_compute_less() -> None:
    modes = gpu_parts.serve_in_modes(tiny(), best_names(), TINY.traffic, silent)
    whole = 3 * 70 + 20 + 33 + 46
    hits = 2 * 64
    assert modes.prefill_tokens == {"none": whole, "hash": whole - hits, "radix": whole - hits}
    assert modes.same_tokens and modes.same_logits
    assert modes.compared == 2 * 3 * TINY.traffic.n_new, "before each token of each request, in two modes"


def test_the_modes_would_show_a_device_whose_logits_depend_on_where_a_chunk_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = Llama.forward

    def forward(self: Llama, step: Any, kv: Any) -> torch.Tensor:
        begins = torch.tensor([[chunk.start] for chunk in step.chunks])
        return plain(self, step, kv) + begins * 1e-6

    monkeypatch.setattr(Llama, "forward", forward)
    modes = gpu_parts.serve_in_modes(tiny(), best_names(), TINY.traffic, silent)
    assert modes.same_tokens and not modes.same_logits


def test_the_long_plan_has_a_prefix_of_exactly_so_many_tokens() -> None:
    plan = ttft.long_plan(tiny(), 500, n_suffix=64)
    assert len(plan.prefix) == 500 and plan.prefix[:224] == plan.prefix[224:448]
    assert plan.chunk_sizes == (64, 128, 256, 564) and plan.n_suffix == 64
    assert ttft.long_plan(tiny(), 96, n_suffix=40).chunk_sizes == (40, 80, 136)
    assert 16 <= ttft.long_plan(tiny(), 96, smallest=16).n_suffix <= 48


def test_a_cpu_says_what_it_is_and_how_many_threads() -> None:
    told = gpu_parts.machine(tiny().model)
    assert told["device"] == "cpu" and told["threads"] == 1 and told["dtype"] == "float32"
    assert "1 thread" in Findings("byte", told, gpu_findings.SMALL).where


# ---------------------------------------------------------------- the command


@pytest.fixture
def tiny_size(monkeypatch: pytest.MonkeyPatch, quick_chunks: None) -> None:
    monkeypatch.setattr(gpu_findings, "SMALL", TINY)


@pytest.mark.usefixtures("tiny_size")
def test_the_whole_path_runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    told = bench("--device", "cpu", "--out", str(tmp_path / "new"))
    assert told.exit_code == 0, told.output
    data = json.loads((tmp_path / "new" / "bench_gpu.json").read_text(encoding="utf-8"))
    assert data["small"] and data["left_out"] == {} and data["where"].endswith("at a small size")
    assert [each["broken"] for each in data["bits"]] == [[]] * 5
    assert data["first_setting_that_keeps_all_bits"] == "plain" == data["measured_under"]["setting"]
    assert data["modes"]["same_tokens"] and data["modes"]["logits_compared"] == data["modes"]["logits_equal"] == 18
    assert list(data["steps"]) == ["filled up to 16", "pieces of 64"]
    assert all(set(times) == {"16", "64"} for times in data["steps"].values())
    assert data["ttft"]["long"]["prefix_tokens"] == 96 and data["ttft"]["short"]["prefix_tokens"] == 224
    assert data["ttft"]["long"]["same_answers"] and data["ttft"]["short"]["same_answers"]
    assert set(data["load"]) == {"none", "hash", "radix"} and data["load"]["hash"]["hit_rate"] > 0.5
    charts = ("bench_gpu_ttft.png", "bench_gpu_ttft_224.png", "bench_gpu_steps.png")
    for chart in charts:
        assert (tmp_path / "new" / chart).read_bytes().startswith(b"\x89PNG") and chart in "".join(told.output.split())
    assert told.output.startswith("A small size")


@pytest.mark.usefixtures("tiny_size", "quick_bits")
def test_json_is_what_the_file_holds(tmp_path: Path) -> None:
    told = bench("--device", "cpu", "--out", str(tmp_path), "--json")
    assert json.loads(told.stdout) == json.loads((tmp_path / "bench_gpu.json").read_text(encoding="utf-8"))

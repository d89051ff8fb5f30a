"""`ol bench gpu`: what it concludes from findings, how it tells of them, and its exit codes. Nothing is measured."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner, Result

from autograder.benchmarks import gpu, gpu_findings, gpu_parts
from autograder.benchmarks import shared_prefix_ttft as ttft
from autograder.benchmarks.gpu_findings import BITS, LOAD, LONG, MODES, SHORT, STEPS, Findings, failures, missing
from autograder.benchmarks.gpu_load import Load
from autograder.benchmarks.gpu_parts import Bits, Modes
from autograder.benchmarks.gpu_tables import gpu_view
from autograder.cli import app
from course.engine.device_time import Taken
from course.engine.tiling import ONE_SHAPE

SETTINGS = gpu_parts.settings(ONE_SHAPE)


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "gpu", *arguments])


# ---------------------------------------------------------------- findings without measuring


def ttft_result(ratio: float = 3.0, same: bool = True, prefix: int = 4096) -> ttft.Result:
    times = {"none": (0.3,), "hash": (0.3 / ratio,), "radix": (0.3 / ratio,)}
    return ttft.Result(
        ttft.Plan((1,) * prefix, 256, repeats=1, n_requests=1),
        {256: 0.4, 512: 0.3},
        512,
        times,
        {"none": prefix + 256, "hash": 256, "radix": 256},
        same,
    )


def good() -> Findings:
    answers = {mode: ((1, 2), (3, 4)) for mode in ("none", "hash", "radix")}
    return Findings(
        "byte-large",
        {"dtype": "bfloat16", "name": "NVIDIA Test", "torch": "2", "device": "cuda"},
        gpu_findings.FULL,
        bits=[Bits(SETTINGS[0], ("exp of 32 rows has other bits than one of 16 rows",)), Bits(SETTINGS[3], ())],
        setting=SETTINGS[3],
        modes=Modes({"none": 90, "hash": 30, "radix": 30}, answers, 20, 20),
        steps={"filled up to 16": {16: (Taken(0.004, 0.002),), 256: (Taken(0.005, 0.0025),)}},
        long=ttft_result(),
        short=ttft_result(1.1, prefix=224),
        load={mode: Load((0.1, 0.2), 0.5, ((1,), (2,))) for mode in answers},
    )


def no_bits(found: Findings) -> None:
    found.bits = [Bits(setting, ("exp of 32 rows has other bits than one of 16 rows",)) for setting in SETTINGS]


def other_tokens(found: Findings) -> None:
    assert found.modes
    found.modes = replace(found.modes, answers={**found.modes.answers, "radix": ((1, 2), (3, 5))})


def other_logits(found: Findings) -> None:
    assert found.modes
    found.modes = replace(found.modes, equal=19)


def long_too_slow(found: Findings) -> None:
    found.long = ttft_result(1.99)


def long_wrong(found: Findings) -> None:
    found.long = ttft_result(same=False)


def short_wrong(found: Findings) -> None:
    found.short = ttft_result(same=False, prefix=224)


def load_wrong(found: Findings) -> None:
    found.load = {**found.load, "hash": Load((0.1, 0.2), 0.5, ((1,), (9,)))}


BROKEN: dict[str, Callable[[Findings], None]] = {
    "No setting that was tried keeps all bits": no_bits,
    "different answers to the same requests": other_tokens,
    "1 of 20 logits differ": other_logits,
    "TTFT none / TTFT hash is 1.99 with 4,096 shared tokens": long_too_slow,
    "With the long prefix the modes gave different answers": long_wrong,
    "With the short prefix the modes gave different answers": short_wrong,
    "Under load the three modes gave different answers": load_wrong,
}


def without(part: str) -> Findings:
    found = good()
    for name, empty in {BITS: [], MODES: None, LONG: None, STEPS: {}, SHORT: None, LOAD: {}}.items():
        if name == part:
            setattr(found, {LONG: "long", SHORT: "short"}.get(name, name), empty)
    name = f"{BITS}, plain" if part == BITS else part
    found.left_out[name] = f"{name} was not measured: left out, for it may take 60 s, and 9 s were left."
    return found


def test_when_every_promise_is_kept_nothing_fails() -> None:
    assert failures(good()) == missing(good()) == []
    assert good().first_kept == SETTINGS[3]


@pytest.mark.parametrize(("said", "break_it"), BROKEN.items(), ids=[fault.__name__ for fault in BROKEN.values()])
def test_each_broken_promise_is_told_and_makes_assert_fail(
    said: str, break_it: Callable[[Findings], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = good()
    break_it(found)
    assert len(failures(found)) == 1 and said in failures(found)[0]
    asked = measured_as(found, monkeypatch, tmp_path)
    assert asked("--assert").exit_code == 1 and said in " ".join(asked("--assert").output.split())
    assert asked().exit_code == 0, "without --assert it only tells"


def test_the_short_prompts_ratio_is_told_and_not_asserted() -> None:
    assert good().short.ratio("hash") < 2  # type: ignore[union-attr]
    assert failures(good()) == []


@pytest.mark.parametrize("part", [BITS, MODES, LONG])
def test_without_a_part_that_is_asserted_nothing_was_shown(
    part: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = without(part)
    assert failures(found) == [] and missing(found) == list(found.left_out.values())
    asked = measured_as(found, monkeypatch, tmp_path)
    assert asked("--assert").exit_code == 2 and "9 s were left" in asked("--assert").output
    assert asked().exit_code == 0


@pytest.mark.parametrize("part", [STEPS, SHORT, LOAD])
def test_any_other_part_may_be_left_out_and_is_told_of(
    part: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = measured_as(without(part), monkeypatch, tmp_path)("--assert")
    assert told.exit_code == 0 and "9 s were left" in told.output


def measured_as(found: Findings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """The command, measuring nothing and finding this."""
    monkeypatch.setattr(gpu, "measure", lambda *args: found)
    return lambda *more: bench("--device", "cpu", "--model", "byte-tiny", "--out", str(tmp_path), *more)


def shown(found: Findings) -> str:
    paper = Console(width=120, record=True, file=io.StringIO())
    paper.print(gpu_view(found))
    return " ".join(paper.export_text().split())


def test_the_view_has_absolute_times_ratios_limits_and_both_clocks() -> None:
    text = shown(good())
    for part in ("300 ms", "100 ms", "3.00", "17.00", "4,096 shared tokens", "chunks of 512, the fastest for none"):
        assert part in text
    for part in ("one shape; it needs rows in pieces of 256", "20 of 20 logits", "exp of 32 rows", "budget is met"):
        assert part in text
    for part in ("16, device", "16, wall", "2.5", "Under load"):
        assert part in text
    assert "small size" not in text


def test_a_small_size_says_so_in_front() -> None:
    found = good()
    found.sizes = gpu_findings.SMALL
    assert shown(found).startswith("A small size") and found.where.endswith("at a small size")


# ---------------------------------------------------------------- what can't be


def test_a_gpu_that_is_not_there_is_exit_code_2_and_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    told = bench("--device", "cuda", "--assert", "--out", str(tmp_path))
    assert told.exit_code == 2 and "there is no CUDA device here" in told.output
    assert not list(tmp_path.iterdir())


def test_a_model_that_is_not_there_is_exit_code_2(tmp_path: Path) -> None:
    told = bench("--device", "cpu", "--model", "no-such-model", "--out", str(tmp_path))
    assert told.exit_code == 2 and "no-such-model" in told.output


def test_a_folder_that_cant_be_written_is_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    told = measured_as(good(), monkeypatch, tmp_path / "file")()
    assert told.exit_code == 2 and "can't write" in told.output

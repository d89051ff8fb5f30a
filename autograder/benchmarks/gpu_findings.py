"""What `ol bench gpu` found: how much was measured, what came of it, and which promises are kept.

It knows what follows from the numbers. How they came about, and how they are shown, it does not know.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from autograder.benchmarks import shared_prefix_ttft as ttft
from autograder.benchmarks.gpu_load import Load
from autograder.benchmarks.gpu_parts import Bits, Modes, Setting, Traffic
from autograder.benchmarks.shared_prefix_ttft import HASH
from course.charts import BUDGET
from course.engine.device_time import Taken
from course.engine.tiling import ONE_SHAPE, Tile, Tiling

LIMIT_S = 330.0
"""Seconds for everything, loading the model too: under six minutes, with some to write the results."""

BITS, MODES, STEPS, LONG, SHORT, LOAD = "bits", "modes", "steps", "long prefix", "short prefix", "load"

ASSERTED = (BITS, MODES, LONG)
"""Parts that `--assert` rests on: without one of them nothing was shown."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        small: whether this is the path alone, and its figures are none of a GPU.
        model: the model's name, unless another is asked for.
        prefix: tokens of the long prefix.
        smallest_suffix: the least tokens of a request's own that go with it.
        rows: tokens in the steps that are timed.
        repeats, requests: how often each mode is timed, and by how many requests.
        one_shape: the tiling that the last settings try.
        traffic: what the three modes are compared on.
        load_requests: how many come under load.
        needs: seconds that must be left for a part to begin, by part; of bits, for each setting.
    """

    small: bool
    model: str
    prefix: int
    smallest_suffix: int
    rows: tuple[int, ...]
    repeats: int
    requests: int
    one_shape: Tiling
    traffic: Traffic
    load_requests: int
    needs: Mapping[str, float]


FULL = Sizes(
    small=False,
    model="byte-large",
    prefix=4096,
    smallest_suffix=256,
    rows=(16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
    repeats=5,
    requests=3,
    one_shape=ONE_SHAPE,
    traffic=Traffic(n_requests=8, shared=1500, own=100, n_new=16, max_batch_tokens=512),
    load_requests=30,
    needs={BITS: 25, MODES: 25, LONG: 60, STEPS: 30, SHORT: 30, LOAD: 25},
)

SMALL = Sizes(
    small=True,
    model="byte",
    prefix=672,
    smallest_suffix=ttft.SUFFIX_TOKENS,
    rows=(16, 32, 64, 128, 256, 512),
    repeats=2,
    requests=2,
    one_shape=Tiling(rows=64, pieces=True, tile=Tile(query_rows=64, key_positions=128)),
    traffic=Traffic(),
    load_requests=8,
    needs={BITS: 15, MODES: 15, LONG: 40, STEPS: 20, SHORT: 20, LOAD: 15},
)


@dataclass
class Findings:
    """What was measured; a part that was not is missing here, and `left_out` says why.

    Attributes:
        model: its name.
        machine: where, in words and numbers.
        sizes: how much.
        bits: what breaks under each setting, in their order.
        setting: the one that everything after bits was measured under.
        modes: the same requests in three modes.
        steps: times of steps, by tiling, by tokens.
        long, short: TTFT with the long prefix, and with the chapter's of 224 bytes.
        load: requests at random times, by mode.
        left_out: why a part was not measured, a sentence each.
        seconds: what each part took.
    """

    model: str
    machine: Mapping[str, Any]
    sizes: Sizes
    bits: list[Bits] = field(default_factory=list)
    setting: Setting | None = None
    modes: Modes | None = None
    steps: dict[str, dict[int, tuple[Taken, ...]]] = field(default_factory=dict)
    long: ttft.Result | None = None
    short: ttft.Result | None = None
    load: Mapping[str, Load] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def first_kept(self) -> Setting | None:
        """The first setting, of those tried, that keeps all bits: what the device needs."""
        return next((bits.setting for bits in self.bits if bits.kept), None)

    @property
    def where(self) -> str:
        """The model and the machine, in words."""
        told = f"{self.model} model in {self.machine['dtype']} on {self.machine['name']}"
        threads = self.machine.get("threads")
        told += f", {threads} thread{'s' * (threads != 1)}" if threads else ""
        return told + (", at a small size" if self.sizes.small else "")


def ttft_median(result: ttft.Result, mode: str) -> float:
    """The median of a mode's repeats, in seconds."""
    return statistics.median(result.ttft[mode])


# ---------------------------------------------------------------- what follows


def failures(found: Findings) -> list[str]:
    """Every promise that was measured and not kept, a sentence each."""
    told = []
    if found.bits and found.first_kept is None:
        told.append("No setting that was tried keeps all bits: answers may depend on the cache here.")
    if found.modes and not found.modes.same_tokens:
        told.append("The three modes gave different answers to the same requests.")
    elif found.modes and not found.modes.same_logits:
        differ = found.modes.compared - found.modes.equal
        told.append(f"{differ} of {found.modes.compared} logits differ between the modes, though the answers agree.")
    for name, result in {LONG: found.long, SHORT: found.short}.items():
        if result and not result.same_answers:
            told.append(f"With the {name} the modes gave different answers: a time to a wrong token is worth nothing.")
    if found.long and (ratio := found.long.ratio(HASH)) < BUDGET:
        tokens = len(found.long.plan.prefix)
        told.append(
            f"TTFT none / TTFT hash is {ratio:.2f} with {tokens:,} shared tokens, and at least {BUDGET:g} is asked."
        )
    if found.load and len({load.answers for load in found.load.values()}) != 1:
        told.append("Under load the three modes gave different answers.")
    return told


def missing(found: Findings) -> list[str]:
    """Why a part that must be there is not, a sentence each."""
    there = {BITS: bool(found.bits), MODES: found.modes is not None, LONG: found.long is not None}
    return [
        sentence
        for part in ASSERTED
        if not there[part]
        for name, sentence in found.left_out.items()
        if name.split(",")[0] == part
    ]


def as_data(found: Findings) -> dict[str, Any]:
    """Findings for programs, in plain values; times in seconds."""
    return {
        "benchmark": "gpu",
        "small": found.sizes.small,
        "where": found.where,
        "machine": dict(found.machine),
        "failures": failures(found),
        "left_out": dict(found.left_out),
        "seconds": dict(found.seconds),
        "bits": [{**_setting(bits.setting), "broken": list(bits.broken)} for bits in found.bits],
        "first_setting_that_keeps_all_bits": found.first_kept.name if found.first_kept else None,
        "measured_under": _setting(found.setting) if found.setting else None,
        "modes": _modes_data(found.modes) if found.modes else None,
        "steps": {name: _steps_data(times) for name, times in found.steps.items()},
        "ttft": {
            "long": ttft.as_data(found.long) if found.long else None,
            "short": ttft.as_data(found.short) if found.short else None,
        },
        "load": {mode: {"ttft_s": list(load.ttft), "hit_rate": load.hit_rate} for mode, load in found.load.items()},
    }


def _setting(setting: Setting) -> dict[str, Any]:
    return {"setting": setting.name, "needs": setting.needs, "precision": asdict(setting.precision)}


def _modes_data(modes: Modes) -> dict[str, Any]:
    return {
        "requests": len(next(iter(modes.answers.values()))),
        "prefill_tokens": dict(modes.prefill_tokens),
        "same_tokens": modes.same_tokens,
        "logits_compared": modes.compared,
        "logits_equal": modes.equal,
    }


def _steps_data(times: Mapping[int, Sequence[Taken]]) -> dict[str, Any]:
    return {
        str(n): {"wall_s": [each.wall for each in taken], "device_s": [each.device for each in taken]}
        for n, taken in times.items()
    }

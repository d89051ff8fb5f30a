"""What `ol bench gpu` measures beside TTFT: bits under several settings, answers in three modes, steps of many sizes.

It knows how each is measured on one model. In which order, for how long, and what follows, it does not know.
"""

from __future__ import annotations

import os
import platform
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from autograder.benchmarks.serving import Names
from course.contract import PrefixCache, SeqId
from course.engine.config import EngineConfig
from course.engine.device_time import Taken, Timer
from course.engine.engine import Engine
from course.engine.invariance import check_invariance
from course.engine.loaded import LoadedModel
from course.engine.model import Llama
from course.engine.precision import AS_TORCH_DOES, FULL, Precision, switches
from course.engine.runner import Runner
from course.engine.step import Chunk, StepInput
from course.engine.tiling import MANY_AT_ONCE, Tiling
from course.progress import Tell

BLOCK_SIZE = 16


# ---------------------------------------------------------------- settings


@dataclass(frozen=True)
class Setting:
    """One way of computing: `name` for tables, `needs` in words."""

    name: str
    needs: str
    precision: Precision
    tiling: Tiling


def settings(one_shape: Tiling) -> tuple[Setting, ...]:
    """The settings to try, from what asks least of a device to what asks most; `one_shape` is the last two's tiling."""
    pieces = replace(one_shape, tile=None)
    rows = f"rows in pieces of {one_shape.rows}"
    tile = one_shape.tile
    shape = f"{rows}, attention in tiles of one shape" + (
        f" ({tile.query_rows} by {tile.key_positions})" if tile else ""
    )
    full = "sums in full precision"
    return (
        Setting("plain", "nothing: steps filled up to a multiple of 16 rows", AS_TORCH_DOES, MANY_AT_ONCE),
        Setting("full precision", full, FULL, MANY_AT_ONCE),
        Setting("pieces of rows", f"{full}, {rows}", FULL, pieces),
        Setting("one shape", shape, AS_TORCH_DOES, one_shape),
        Setting("one shape, full precision", f"{shape}, {full}", FULL, one_shape),
    )


# ---------------------------------------------------------------- the machine


def machine(model: Llama) -> dict[str, Any]:
    """Where this was measured: device, versions, memory in bytes, type, and torch's switches."""
    told = {
        "device": str(model.device),
        "dtype": str(model.dtype).removeprefix("torch."),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    if model.device.type != "cuda":
        return {**told, "name": f"{platform.machine()} CPU, {os.cpu_count()} cores", "threads": torch.get_num_threads()}
    device = torch.cuda.get_device_properties(model.device)
    return {
        **told,
        "name": device.name,
        "memory_bytes": device.total_memory,
        "multiprocessors": device.multi_processor_count,
        "capability": f"{device.major}.{device.minor}",
        "cuda": torch.version.cuda,
        "switches": dict(switches()),
    }


# ---------------------------------------------------------------- bits


@dataclass(frozen=True)
class Bits:
    """What breaks bit equality under a setting; nothing where it is empty."""

    setting: Setting
    broken: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Whether every way tried gave the same bits."""
        return not self.broken


def bits_under(model: Llama, setting: Setting) -> Bits:
    """Try every way of making up a step (course/engine/invariance.py) under one setting; precision is the caller's."""
    return Bits(setting, tuple(check_invariance(model.tiled(setting.tiling))))


# ---------------------------------------------------------------- answers in three modes


@dataclass(frozen=True)
class Traffic:
    """Requests that share a prefix; the first comes alone, the others together when it is answered."""

    n_requests: int = 6
    shared: int = 200
    own: int = 61
    n_new: int = 8
    max_batch_tokens: int = 96


@dataclass(frozen=True)
class Modes:
    """The same requests served in each mode.

    Attributes:
        prefill_tokens: computed as prefill, by mode.
        answers: by mode, by request.
        compared: how many times a mode's logits before a token of an answer were held against those of none.
        equal: how many of them were the same to the bit.
    """

    prefill_tokens: Mapping[str, int]
    answers: Mapping[str, tuple[tuple[int, ...], ...]]
    compared: int
    equal: int

    @property
    def same_tokens(self) -> bool:
        """Whether every mode answered as none did."""
        return len(set(self.answers.values())) == 1

    @property
    def same_logits(self) -> bool:
        """Whether every logit that was compared is the same to the bit."""
        return self.equal == self.compared


@dataclass
class _Noted:
    answers: tuple[tuple[int, ...], ...] = ()
    prefill_tokens: int = 0
    logits: dict[tuple[SeqId, int], Tensor] = field(default_factory=dict)


class _NotingRunner(Runner):
    """A runner that keeps the logits after each chunk, by sequence and the chunk's end."""

    def __init__(self, noted: _Noted, *args: Any) -> None:
        super().__init__(*args)
        self._noted = noted

    def logits(self, chunks: Any) -> Tensor:
        """As `Runner.logits`."""
        step = tuple(chunks)
        result = super().logits(step)
        self._noted.logits |= {(chunk.seq, chunk.end): row for chunk, row in zip(step, result, strict=True)}
        return result


def serve_in_modes(loaded: LoadedModel, names: Names, traffic: Traffic, tell: Tell) -> Modes:
    """Serve the same requests without a cache, with the hash cache and with the radix cache, and compare."""
    prompts = _prompts(loaded, traffic)
    noted = {}
    for place, mode in enumerate(PrefixCache):
        tell(f"answers, {mode.value}", place, len(PrefixCache))
        noted[mode.value] = _serve(loaded, names, traffic, prompts, mode)
    none = noted[PrefixCache.NONE.value]
    pairs = [
        (row, none.logits[key])
        for mode, other in noted.items()
        if mode != PrefixCache.NONE.value
        for key, row in other.logits.items()
        if key[1] >= len(prompts[int(key[0])]) and key in none.logits
    ]
    return Modes(
        {mode: each.prefill_tokens for mode, each in noted.items()},
        {mode: each.answers for mode, each in noted.items()},
        len(pairs),
        sum(torch.equal(*pair) for pair in pairs),
    )


def _prompts(loaded: LoadedModel, traffic: Traffic) -> list[list[int]]:
    """A prefix and ends of different lengths, of ids drawn at random."""
    source, n_ids = random.Random(7), min(256, loaded.model.config.vocab_size)
    shared = [source.randrange(n_ids) for _ in range(traffic.shared)]
    return [
        [*shared, *(source.randrange(n_ids) for _ in range(traffic.own + 13 * number))]
        for number in range(traffic.n_requests)
    ]


def _serve(
    loaded: LoadedModel, names: Names, traffic: Traffic, prompts: Sequence[Sequence[int]], mode: PrefixCache
) -> _Noted:
    each = -(-(max(map(len, prompts)) + traffic.n_new) // BLOCK_SIZE)
    config = EngineConfig(
        model=loaded.name,
        prefix_cache=mode,
        block_size=BLOCK_SIZE,
        n_blocks=each * len(prompts),
        max_batch_tokens=traffic.max_batch_tokens,
    )
    noted, pool = _Noted(), names["KvPool"](config.n_blocks, config.block_size)
    runner = _NotingRunner(noted, loaded.model, pool, config.n_blocks, config.block_size)
    engine = Engine(runner, names["BlockManager"](pool, mode), config)
    for batch in (prompts[:1], prompts[1:]):
        for prompt in batch:
            engine.add(prompt, traffic.n_new)
        engine.run_until_idle()
    records = [engine.records[number] for number in range(len(prompts))]
    noted.answers = tuple(tuple(record.tokens) for record in records)
    noted.prefill_tokens = sum(record.prefill_tokens for record in records)
    return noted


# ---------------------------------------------------------------- steps


def step_times(
    model: Llama, rows: Sequence[int], repeats: int, timer: Timer, go_on: Callable[[], bool], tell: Tell
) -> dict[int, tuple[Taken, ...]]:
    """How long a step with one chunk of so many tokens takes, by its tokens; each is done once before it is timed.

    Where `go_on` says no, the larger ones are left out.
    """
    times: dict[int, tuple[Taken, ...]] = {}
    kv = model.new_kv(-(-max(rows) // BLOCK_SIZE), BLOCK_SIZE)
    for place, n in enumerate(rows):
        if times and not go_on():
            break
        tell(f"a step of {n} tokens", place, len(rows))
        chunk = Chunk("step", [position % 256 for position in range(n)], 0, range(kv.n_blocks))
        work = _Step(model, StepInput((chunk,)), kv)
        work()
        times[n] = tuple(timer.time(work) for _ in range(repeats))
    return times


@dataclass(frozen=True)
class _Step:
    model: Llama
    step: StepInput
    kv: Any

    def __call__(self) -> Tensor:
        return self.model.forward(self.step, self.kv)


def medians(times: Mapping[int, Sequence[Taken]]) -> Iterator[tuple[int, Taken]]:
    """For each number of tokens the medians of both times, each by itself."""
    for n, taken in times.items():
        yield n, Taken(statistics.median(each.wall for each in taken), statistics.median(each.device for each in taken))

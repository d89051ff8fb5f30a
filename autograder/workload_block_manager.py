"""Block manager workloads: seeded requests, served by the engine on the flat model and written down call by call.

A checksum takes the place of a language model. The stories are what the named tests play; what is a right answer to
them is the judge's business (`autograder.judging_block_manager`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autograder.stand_in import ChecksumRunner
from autograder.stories import Ref, Script, Story, seeded
from course.contract import PrefixCache, Publish, SeqId
from course.engine.config import EngineConfig
from course.engine.engine import Engine

BLOCK_SIZE = 4
BUDGET = 14
"""Positions a step of the engine: no multiple of the block size, and enough for several requests at once."""

PREFIXES = (9, 14, 20)
"""Lengths of the three shared prefixes, in tokens."""

BUSY = 0.8
"""How likely a request arrives at a step where requests are to overlap: more come than are served at once."""

LONG = 30
"""A prompt of so many tokens is not continued: it must fit into a small pool."""


# ---------------------------------------------------------------- writing a story


@dataclass
class Recorder:
    """A `BlockSpace` that hands each call to the flat model and writes it down."""

    oracle: Any
    script: Script
    manager: Ref

    def allocate(self, seq: SeqId, tokens: Sequence[int]) -> Any:
        """Write the call down and make it, as for those below."""
        self.script.ask(self.manager, "allocate", seq, tuple(tokens))
        return self.oracle.allocate(seq, tokens)

    def append_slot(self, seq: SeqId) -> Any:
        """See allocate."""
        self.script.ask(self.manager, "append_slot", seq)
        return self.oracle.append_slot(seq)

    def block_table(self, seq: SeqId) -> Any:
        """See allocate."""
        self.script.ask(self.manager, "block_table", seq)
        return self.oracle.block_table(seq)

    def release(self, seq: SeqId, computed: Sequence[int]) -> Any:
        """See allocate."""
        self.script.ask(self.manager, "release", seq, tuple(computed))
        return self.oracle.release(seq, computed)

    @property
    def available_blocks(self) -> int:
        """Not written down: no scheduler needs to ask."""
        return int(self.oracle.available_blocks)


class PublishingRecorder(Recorder):
    """A recorder that a scheduler tells what is computed after each chunk."""

    def publish(self, seq: SeqId, computed: Sequence[int]) -> Any:
        """See allocate."""
        self.script.ask(self.manager, "publish", seq, tuple(computed))
        return self.oracle.publish(seq, computed)


@dataclass
class Workload:
    """Seeded requests: most begin with one of three prefixes, some go on where a finished request ended.

    `rate` is how likely one arrives at a step of the engine.
    """

    seed: int
    left: int
    rate: float = 0.4
    finished: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.choose = seeded(self.seed)
        self.prefixes = [self.choose.choices(range(100), k=length) for length in PREFIXES]
        self.prefixes[1][:BLOCK_SIZE] = self.prefixes[0][BLOCK_SIZE : 2 * BLOCK_SIZE]  # one block at two positions

    def arrives(self) -> bool:
        """Whether a request arrives now: some come together, some find the engine idle."""
        return self.left > 0 and self.choose.random() < self.rate

    def prompt(self) -> list[int]:
        """The next request's prompt."""
        self.left -= 1
        known = self.finished if self.finished and self.choose.random() < 0.3 else self.prefixes
        return self.choose.choice(known) + self.choose.choices(range(3), k=self.choose.randrange(1, 7))


def workload_story(oracle: Mapping[str, Any], mode: PrefixCache, n_blocks: int, n_requests: int, seed: int) -> Story:
    """So many requests served to the end on the flat model; counts after every step of the engine."""
    script, flat_pool = Script(), oracle["KvPool"](n_blocks, BLOCK_SIZE)
    pool = script.new("KvPool", n_blocks, BLOCK_SIZE)
    space = Recorder(oracle["BlockManager"](flat_pool, mode), script, script.new("BlockManager", pool, mode))
    return _served(space, pool, Workload(seed, n_requests), n_blocks, mode)


def publishing_story(
    oracle: Mapping[str, Any], mode: PrefixCache, publish: Publish, n_blocks: int, n_requests: int, seed: int
) -> Story:
    """The same for a manager that is told what is computed after each chunk; most requests overlap with others."""
    script, flat_pool = Script(), oracle["KvPool"](n_blocks, BLOCK_SIZE)
    pool = script.new("KvPool", n_blocks, BLOCK_SIZE)
    manager = script.new("BlockManager", pool, mode, publish)
    space = PublishingRecorder(oracle["BlockManager"](flat_pool, mode, publish), script, manager)
    return _served(space, pool, Workload(seed, n_requests, BUSY), n_blocks, mode)


def _served(space: Recorder, pool: Ref, work: Workload, n_blocks: int, mode: PrefixCache) -> Story:
    """Serve a workload to its end; what was written down on the way."""
    script, manager = space.script, space.manager
    told: Any = space  # a scheduler looks whether it has the call `publish`
    config = EngineConfig(block_size=BLOCK_SIZE, n_blocks=n_blocks, max_batch_tokens=BUDGET, prefix_cache=mode)
    engine = Engine(ChecksumRunner(BLOCK_SIZE, lambda block: ""), told, config)
    prompts: dict[SeqId, list[int]] = {}
    while work.left or not engine.idle:
        if work.arrives():
            seq = f"s{len(prompts)}"
            prompts[seq] = work.prompt()
            engine.add(prompts[seq], work.choose.randrange(1, 10), request_id=seq)
        engine.step()
        done = [record for record in engine.records.values() if record.reason and record.n_prompt < LONG]
        work.finished = [prompts[record.id] + record.tokens for record in done]
        _ask_counts(script, pool, manager)
    return script.story


def _ask_counts(script: Script, pool: Ref, manager: Ref) -> None:
    for verb in ("n_free", "n_used", "n_cached"):
        script.ask(pool, verb)
    for verb in ("available_blocks", "cached_blocks", "stats"):
        script.ask(manager, verb)

"""A model that is a checksum, and its runner over paged blocks: what the engine runs on where torch would be slow.

What it writes into a block depends on the whole token path, as K and V do, and it answers from what it
reads back. So a block shared wrongly, overwritten or never written changes an answer. It knows chunks and
block tables; who plans the chunks, and how blocks are found, it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol

from course.contract import BlockId, BlockStateError, SeqId
from course.engine.engine import StepRunner
from course.engine.step import Chunk
from course.tokens import pack_tokens

VOCABULARY = 50_000
UNWRITTEN = 0
"""What is read from a position that nobody wrote: some value, as in a real block, and the wrong one."""

Guard = Callable[[BlockId], str]
"""Why a block may not be written; nothing if it may."""


class NoBlock(Exception):
    """A position that a sequence's table has no block for."""


class WriteRefused(Exception):
    """A write into a block that somebody else may read."""


# ---------------------------------------------------------------- the model


def content_of(earlier: Sequence[int], token: int) -> int:
    """What the model writes for a token, given what it reads at every earlier position."""
    return int.from_bytes(blake2b(pack_tokens([*earlier, token]), digest_size=4).digest(), "little")


def contents_of(tokens: Sequence[int]) -> list[int]:
    """What the positions of these tokens hold when nothing is shared: the truth, without any blocks."""
    contents: list[int] = []
    for token in tokens:
        contents.append(content_of(contents, token))
    return contents


def answer_of(content: int) -> int:
    """The greedy next token after the position that holds this."""
    return content % VOCABULARY


def greedy(prompt: Sequence[int], n_new: int) -> list[int]:
    """The n tokens that follow a prompt when nothing is shared."""
    tokens = list(prompt)
    contents = contents_of(tokens)
    for _ in range(n_new):
        tokens.append(answer_of(contents[-1]))
        contents.append(content_of(contents, tokens[-1]))
    return tokens[len(prompt) :]


# ---------------------------------------------------------------- the runner


@dataclass
class ChecksumRunner:
    """Reads and writes positions through block tables; `guard` is asked about each block before it is written.

    `ran` lists what it was given, chunk by chunk.
    """

    block_size: int
    guard: Guard
    contents: dict[tuple[BlockId, int], int] = field(default_factory=dict)
    ran: list[Chunk] = field(default_factory=list)

    def run(self, chunks: Sequence[Chunk]) -> list[int]:
        """Compute the positions of these chunks; for each the greedy token after its last one.

        Raises:
            NoBlock: a table is too short.
            WriteRefused: the guard has a reason against a write.
        """
        self.ran += chunks
        return [self.compute(chunk.seq, chunk.table, chunk.tokens, chunk.start) for chunk in chunks]

    def compute(self, seq: SeqId, table: Sequence[BlockId], tokens: Sequence[int], start: int) -> int:
        """Compute one sequence's next tokens, from position `start` on; raises as `run` does."""
        content = UNWRITTEN
        for position, token in enumerate(tokens, start):
            earlier = [self.read(seq, table, before) for before in range(position)]
            content = content_of(earlier, token)
            self._write(seq, table, position, content, asked=position > start and position % self.block_size > 0)
        return answer_of(content)

    def read(self, seq: SeqId, table: Sequence[BlockId], position: int) -> int:
        """What is at a position of a sequence."""
        return self.contents.get(self._place(seq, table, position), UNWRITTEN)

    def _write(self, seq: SeqId, table: Sequence[BlockId], position: int, content: int, asked: bool) -> None:
        block, offset = self._place(seq, table, position)
        if not asked and (reason := self.guard(block)):
            raise WriteRefused(f"position {position} of sequence {seq} can't be written: block {block} {reason}")
        self.contents[block, offset] = content

    def _place(self, seq: SeqId, table: Sequence[BlockId], position: int) -> tuple[BlockId, int]:
        if position // self.block_size >= len(table):
            raise NoBlock(f"position {position} of sequence {seq} has no block")
        return table[position // self.block_size], position % self.block_size


def shared_in(pool: Any) -> Guard:
    """A guard that asks a pool: a block is written while one sequence holds it and it has no name."""

    def guard(block: BlockId) -> str:
        if (references := pool.refcount(block)) != 1:
            return f"has {references} references, and only a block with exactly 1 is written"
        try:
            pool.set_fill(block, pool.fill(block))  # changes nothing, and is refused for a block with a name
        except BlockStateError:
            return "has a name, so others may find it"
        return ""

    return guard


# ---------------------------------------------------------------- models to serve


class ServedModel(Protocol):
    """What a test of the engine asks of a model: a runner over a pool, and the truth."""

    def runner(self, pool: Any) -> StepRunner:
        """A runner that writes into this pool's blocks."""

    def greedy(self, prompt: Sequence[int], n_new: int) -> list[int]:
        """The n tokens that follow a prompt when nothing is shared."""


class ChecksumModel:
    """The model of this file as a `ServedModel`."""

    def runner(self, pool: Any) -> ChecksumRunner:
        """A runner that asks the pool before it writes."""
        return ChecksumRunner(pool.block_size, shared_in(pool))

    def greedy(self, prompt: Sequence[int], n_new: int) -> list[int]:
        """The truth, without any blocks."""
        return greedy(prompt, n_new)

"""Runs steps of a model over the blocks of a pool, and trusts no table: a manager's mistake is an error here.

It knows block tables and asks the pool who holds a block. Who decides what runs it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from course.contract import BlockId, BlockStateError, KvPool
from course.engine.model import Llama
from course.engine.step import Chunk, StepInput


class TableError(Exception):
    """A block table that can't be right. Nothing of the step was computed."""


class NoBlock(TableError):
    """A position that its sequence's table has no block for."""


class BadBlock(TableError):
    """A table names a block that the pool does not have, or one block twice."""


class NotWritten(TableError):
    """A position is to be read that nobody has written since its block was last begun."""


class WriteRefused(TableError):
    """A write into a block that others hold, or may find by its name."""


class Runner:
    """Greedy next tokens, step by step, over K and V of its own.

    Args:
        model: the model.
        pool: the pool that hands the blocks out; asked for reference counts and names.
        n_blocks: blocks in the pool.
        block_size: positions in a block.
    """

    def __init__(self, model: Llama, pool: KvPool, n_blocks: int, block_size: int) -> None:
        self.model = model
        self.kv = model.new_kv(n_blocks, block_size)
        self._pool = pool
        self._written = [0] * n_blocks

    def run(self, chunks: Iterable[Chunk]) -> list[int]:
        """The greedy next token after each chunk: the likeliest, the lowest id where several are.

        Raises:
            TableError: one of its kinds, for a table that can't be right; nothing was computed.
            ValueError: a token outside the vocabulary, or what `Llama.forward` refuses.
        """
        return [int(token) for token in self.logits(chunks).argmax(dim=-1).tolist()]

    def logits(self, chunks: Iterable[Chunk]) -> Tensor:
        """The logits after each chunk, [chunks, vocab]; raises as `run` does."""
        step = StepInput(tuple(chunks))
        written: dict[BlockId, Chunk] = {}
        for chunk in step.chunks:
            self._check_tokens(chunk)
            self._check_table(chunk)
            self._check_read(chunk)
            self._check_written(chunk, written)
        result = self.model.forward(step, self.kv)
        for chunk in step.chunks:
            self._note_written(chunk)
        return result

    def read_blocks(self, blocks: Sequence[BlockId]) -> Tensor:
        """A copy of the K and V of full blocks: [2, layers, blocks, block_size, kv heads, head_dim], K first.

        Raises:
            BadBlock: a block that the pool does not have, or one twice.
            NotWritten: a block that is not written to its end.
        """
        self._check_blocks(blocks, "the list of blocks to read")
        for block in blocks:
            if (there := self._written[block]) < self.kv.block_size:
                raise NotWritten(f"position {there} of block {block} was never written: it can't be read whole")
        index = self._index(blocks)
        return torch.stack([held.index_select(1, index) for held in (self.kv.k, self.kv.v)])

    def write_blocks(self, blocks: Sequence[BlockId], content: Tensor) -> None:
        """Write blocks whole, with what `read_blocks` of a runner of the same model and block size gave.

        The rule for a step's writes holds here too: one reference and no name, so that nobody reads it meanwhile.

        Raises:
            BadBlock: a block that the pool does not have, or one twice.
            WriteRefused: a block that others hold, or may find by its name.
            ValueError: content of another shape or type; in every case nothing was written.
        """
        self._check_blocks(blocks, "the list of blocks to write")
        for block in blocks:
            if reason := self._why_not(block):
                raise WriteRefused(f"block {block} can't be written: it {reason}")
        self._check_content(len(blocks), content)
        index, sent = self._index(blocks), content.to(self.kv.k.device)
        for held, part in zip((self.kv.k, self.kv.v), sent, strict=True):
            held.index_copy_(1, index, part)
        for block in blocks:
            self._written[block] = self.kv.block_size

    def _index(self, blocks: Sequence[BlockId]) -> Tensor:
        return torch.tensor(list(blocks), dtype=torch.long, device=self.kv.k.device)

    def _check_content(self, n_blocks: int, content: Tensor) -> None:
        layers, _, *rest = self.kv.k.shape
        wanted = (2, layers, n_blocks, *rest)
        if content.shape != wanted or content.dtype != self.kv.k.dtype:
            raise ValueError(
                f"K and V of {n_blocks} blocks are {list(wanted)} in {self.kv.k.dtype} here, "
                f"not {list(content.shape)} in {content.dtype}: another model, block size or type"
            )

    def _check_blocks(self, blocks: Sequence[BlockId], where: str) -> None:
        for block in blocks:
            if not 0 <= block < self.kv.n_blocks:
                raise BadBlock(f"{where} names block {block}, and the pool has {self.kv.n_blocks} blocks")
        if len(set(blocks)) < len(blocks):
            raise BadBlock(f"{where} names a block twice: {list(blocks)}")

    def _check_tokens(self, chunk: Chunk) -> None:
        vocabulary = self.model.config.vocab_size
        if wrong := [token for token in chunk.tokens if not 0 <= token < vocabulary]:
            raise ValueError(f"token {wrong[0]} of sequence {chunk.seq} is outside the vocabulary of {vocabulary}")

    def _check_table(self, chunk: Chunk) -> None:
        room = len(chunk.table) * self.kv.block_size
        if room < chunk.end:
            raise NoBlock(f"position {max(room, chunk.start)} of sequence {chunk.seq} has no block")
        self._check_blocks(chunk.table, f"the table of sequence {chunk.seq}")

    def _check_read(self, chunk: Chunk) -> None:
        size = self.kv.block_size
        for index, block in enumerate(chunk.table[: -(-chunk.start // size)]):
            needed = min(chunk.start - index * size, size)
            if (there := self._written[block]) < needed:
                position = index * size + there
                raise NotWritten(f"position {position} of sequence {chunk.seq} was never written, in block {block}")

    def _check_written(self, chunk: Chunk, written: dict[BlockId, Chunk]) -> None:
        for block in self._blocks_to_write(chunk):
            if reason := self._why_not(block):
                raise WriteRefused(f"sequence {chunk.seq} would write block {block}, which {reason}")
            if block in written:
                raise WriteRefused(f"sequences {written[block].seq} and {chunk.seq} would both write block {block}")
            written[block] = chunk

    def _why_not(self, block: BlockId) -> str:
        """Why a block may not be written; nothing if it may."""
        if (references := self._pool.refcount(block)) != 1:
            return f"has {references} references, and must have exactly 1"
        try:
            # The contract has no question for a block's name, but a named one refuses even the fill it has.
            self._pool.set_fill(block, self._pool.fill(block))
        except BlockStateError:
            return "has a name, so that others may find it"
        return ""

    def _blocks_to_write(self, chunk: Chunk) -> Sequence[BlockId]:
        size = self.kv.block_size
        return chunk.table[chunk.start // size : -(-chunk.end // size)]

    def _note_written(self, chunk: Chunk) -> None:
        size, first = self.kv.block_size, chunk.start // self.kv.block_size
        for index, block in enumerate(self._blocks_to_write(chunk), first):
            self._written[block] = min(chunk.end - index * size, size)

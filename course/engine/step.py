"""What one step of the engine computes: a chunk of positions of each sequence that takes part.

Plain data between the scheduler, which decides, and the runner, which computes. It knows nothing of either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course.contract import BlockId, SeqId


@dataclass(frozen=True)
class Chunk:
    """Positions `start` to `end - 1` of one sequence, to be computed now.

    Attributes:
        seq: the sequence's name, for messages.
        tokens: the ids at those positions, at least one.
        start: the first position; everything before it is in the table's blocks already.
        table: the sequence's whole block table, in the order of its positions.
    """

    seq: SeqId
    tokens: Sequence[int]
    start: int
    table: Sequence[BlockId]

    @property
    def end(self) -> int:
        """The position after the last: how many positions the sequence reads."""
        return self.start + len(self.tokens)


@dataclass(frozen=True)
class StepInput:
    """The chunks that are computed together, at most one of each sequence."""

    chunks: tuple[Chunk, ...]

    @property
    def n_tokens(self) -> int:
        """Positions computed in this step."""
        return sum(len(chunk.tokens) for chunk in self.chunks)

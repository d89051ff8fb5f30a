"""Loaded models as what tests of the engine serve, and their truth. Importing this imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, equal

from course.contract import SeqId
from course.engine.models import LoadedModel
from course.engine.runner import Runner
from course.engine.step import Chunk


class Nobodys:
    """A pool whose every block one sequence holds."""

    def refcount(self, block: int) -> int:
        return 1

    def fill(self, block: int) -> int:
        return 0

    def set_fill(self, block: int, n: int) -> None:
        return None


LONGEST_ANSWER = 128
"""Tokens by which a prompt may grow while its truth is computed."""


@dataclass
class Served:
    """A loaded model as a `ServedModel`: runners over pools, and the truth.

    The truth is one sequence alone in blocks of its own: its prompt in one chunk, then token by token.
    """

    loaded: LoadedModel
    known: dict[tuple[int, ...], Tensor] = field(default_factory=dict)
    alone: dict[tuple[int, ...], Runner] = field(default_factory=dict)

    def runner(self, pool: Any) -> Runner:
        return Runner(self.loaded.model, pool, pool.n_blocks, pool.block_size)

    def truth(self, tokens: Sequence[int]) -> Tensor:
        """The logits after these tokens. Ask for a prompt first, then for ever one token more."""
        key = tuple(tokens)
        if key not in self.known:
            runner = self.alone.pop(key[:-1], None)
            start = len(key) - 1
            if runner is None:
                start, n_blocks = 0, -(-(len(key) + LONGEST_ANSWER) // 16)
                runner = Runner(self.loaded.model, Nobodys(), n_blocks, 16)  # type: ignore[arg-type]
            self.known[key] = runner.logits([Chunk("alone", key[start:], start, range(runner.kv.n_blocks))])[0]
            self.alone[key] = runner
        return self.known[key]

    def greedy(self, prompt: Sequence[int], n_new: int) -> list[int]:
        tokens = list(prompt)
        for _ in range(n_new):
            tokens.append(int(self.truth(tokens).argmax()))
        return tokens[len(prompt) :]


@dataclass
class ToTheBit(Served):
    """Served with runners that hold every logit from which a token is taken against the truth.

    `prompts` are the prompts by sequence, `compared` counts what was compared.
    """

    prompts: dict[SeqId, list[int]] = field(default_factory=dict)
    compared: int = 0

    def runner(self, pool: Any) -> Any:
        return _Comparing(self, super().runner(pool))


@dataclass
class _Comparing:
    served: ToTheBit
    runner: Runner
    tokens: dict[SeqId, list[int]] = field(default_factory=dict)

    def run(self, chunks: Sequence[Chunk]) -> list[int]:
        logits = self.runner.logits(chunks)
        next_tokens = [int(token) for token in logits.argmax(dim=-1)]
        for chunk, row, token in zip(chunks, logits, next_tokens, strict=True):
            tokens = self.tokens.setdefault(chunk.seq, list(self.served.prompts[chunk.seq]))
            if chunk.end >= len(tokens):
                assert equal(row, self.served.truth(tokens)), f"after position {chunk.end - 1} of {chunk.seq}"
                self.served.compared += 1
                tokens.append(token)
        return next_tokens

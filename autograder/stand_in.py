"""A stand-in for the engine: a model that is a checksum, a runner over paged blocks, a scheduler of few lines.

What it writes into a block depends on the whole token path, as K and V do, and it answers from what it
reads back. So a block shared wrongly, overwritten or never written changes an answer. It knows the calls
of a `BlockSpace` and the order in which a scheduler makes them (L10.2); how blocks are found it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from course.contract import BlockId, SeqId
from course.tokens import pack_tokens

VOCABULARY = 50_000
UNWRITTEN = 0
"""What is read from a position that nobody wrote: some value, as in a real block, and the wrong one."""

Guard = Callable[[BlockId, Sequence[int]], str]
"""Why a block may not be written (nothing if it may), given the tokens whose content it holds."""


class NoBlock(Exception):
    """A position that a sequence's table has no block for."""


class WriteRefused(Exception):
    """A write into a block that somebody else may read."""


class Stuck(Exception):
    """A request is refused although nothing runs that it could wait for."""


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
class Runner:
    """Reads and writes positions through block tables; `guard` is asked before each write."""

    block_size: int
    guard: Guard
    contents: dict[tuple[BlockId, int], int] = field(default_factory=dict)
    paths: dict[BlockId, list[int]] = field(default_factory=dict)

    def compute(self, seq: SeqId, table: Sequence[BlockId], tokens: Sequence[int], start: int) -> int:
        """Compute the positions from `start` to the end of `tokens`; the greedy next token.

        Raises:
            NoBlock: the table is too short.
            WriteRefused: the guard has a reason against a write.
        """
        content = UNWRITTEN
        for position in range(start, len(tokens)):
            earlier = [self.read(seq, table, before) for before in range(position)]
            content = content_of(earlier, tokens[position])
            self._write(seq, table, tokens[: position + 1], content)
        return answer_of(content)

    def read(self, seq: SeqId, table: Sequence[BlockId], position: int) -> int:
        """What is at a position of a sequence."""
        return self.contents.get(self._place(seq, table, position), UNWRITTEN)

    def _write(self, seq: SeqId, table: Sequence[BlockId], path: Sequence[int], content: int) -> None:
        block, offset = self._place(seq, table, len(path) - 1)
        if reason := self.guard(block, self.paths.get(block, ())):
            raise WriteRefused(f"position {len(path) - 1} of sequence {seq} can't be written: block {block} {reason}")
        self.contents[block, offset] = content
        self.paths[block] = list(path)

    def _place(self, seq: SeqId, table: Sequence[BlockId], position: int) -> tuple[BlockId, int]:
        if position // self.block_size >= len(table):
            raise NoBlock(f"position {position} of sequence {seq} has no block")
        return table[position // self.block_size], position % self.block_size


def shared_in(pool: Any, kv_block_hash: Callable[[int, Sequence[int]], int]) -> Guard:
    """A guard that asks a pool: a block is written while one sequence holds it and it has no name."""

    def guard(block: BlockId, path: Sequence[int]) -> str:
        if (references := pool.refcount(block)) != 1:
            return f"has {references} references, and only a block with exactly 1 is written"
        if path and len(path) % pool.block_size == 0 and pool.find(_name(path)) == block:
            return "has a name, so others may find it"
        return ""

    def _name(path: Sequence[int]) -> int:
        name = 0
        for start in range(0, len(path), pool.block_size):
            name = kv_block_hash(name, path[start : start + pool.block_size])
        return name

    return guard


# ---------------------------------------------------------------- the scheduler


@dataclass
class Request:
    """A prompt and what has been answered so far; `slots` and `computed` count positions since its admission."""

    seq: SeqId
    tokens: list[int]
    until: int
    slots: int = 0
    computed: int = 0


@dataclass
class Engine:
    """First come, first served; prefill in chunks; one token a step; the youngest is preempted when room is short.

    `chunks` lists each piece of prefill as (sequence, first position, position after the last).
    """

    space: Any
    runner: Runner
    chunk: int
    waiting: list[Request] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)
    chunks: list[tuple[SeqId, int, int]] = field(default_factory=list)
    answers: dict[SeqId, list[int]] = field(default_factory=dict)

    def submit(self, seq: SeqId, prompt: Sequence[int], n_new: int) -> None:
        """Queue a request for so many new tokens."""
        self.waiting.append(Request(seq, list(prompt), len(prompt) + n_new))
        self.answers[seq] = []

    def run(self) -> dict[SeqId, list[int]]:
        """Step until every request is answered; the answers."""
        while self.waiting or self.running:
            self.step()
        return self.answers

    def step(self) -> None:
        """Admit what fits, then advance each running request. Raises Stuck if nothing can ever run."""
        while self.waiting and self._admit(self.waiting[0]):
            self.running.append(self.waiting.pop(0))
        if self.waiting and not self.running:
            raise Stuck(f"sequence {self.waiting[0].seq} is refused although nothing else runs")
        for request in list(self.running):
            if request in self.running:
                self._advance(request)

    @property
    def prefill_tokens(self) -> int:
        """Prompt positions computed so far."""
        return sum(end - start for _, start, end in self.chunks)

    def _admit(self, request: Request) -> bool:
        allocation = self.space.allocate(request.seq, list(request.tokens))
        if allocation is None:
            return False
        request.computed, request.slots = allocation.cached_tokens, len(request.tokens)
        return True

    def _advance(self, request: Request) -> None:
        start = request.computed
        if start < request.slots:
            end = min(start + self.chunk, request.slots)
            self.chunks.append((request.seq, start, end))
        elif self._grow(request):
            end = request.slots
        else:
            return
        table = self.space.block_table(request.seq)
        token = self.runner.compute(request.seq, table, request.tokens[:end], start)
        request.computed = end
        if end == len(request.tokens):
            self._answer(request, token)

    def _grow(self, request: Request) -> bool:
        while not self.space.append_slot(request.seq):
            youngest = self.running.pop()
            self.space.release(youngest.seq, youngest.tokens[: youngest.computed])
            self.waiting.insert(0, youngest)
            if youngest is request:
                return False
        request.slots += 1
        return True

    def _answer(self, request: Request, token: int) -> None:
        request.tokens.append(token)
        self.answers[request.seq].append(token)
        if len(request.tokens) == request.until:
            self.running.remove(request)
            self.space.release(request.seq, request.tokens[: request.computed])

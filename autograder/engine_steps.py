"""Stories of an engine at work over a radix cache: prompts admitted, run, ended and refused, under pressure.

It knows the calls that an engine makes and the order it makes them in (L8.4, section 2). It runs the
flat model alongside, because the blocks that an eviction frees are the ones the next request fills.
What a cache should answer it does not judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from autograder import implementations
from autograder.stories import Ref, Script, Story, seeded
from course import modules

BLOCK_SIZE = 3
N_BLOCKS = 64
AT_ONCE = 8
"""So many requests run at once at most: enough to race one another and to pin many of the blocks."""

ASKED = (0, 1, 1, 2, 3, 5, 8, N_BLOCKS)
"""What an eviction out of turn asks for: sometimes for more than there is, which no locked block may pay for."""

ALPHABET = 3
"""Tokens are 1 to 3, so that prompts share blocks, and differ inside one, far more often than real ones."""


@dataclass
class _Request:
    """A running request: its prompt, its blocks in order, how many of them were hits, and what it locked."""

    prompt: list[int]
    table: list[int]
    hits: int
    node: Any
    node_ref: Ref


@dataclass
class _Engine:
    """Makes calls on a flat model and writes each of them down, with the questions that follow it."""

    seed: int
    questions: Sequence[str]
    running: list[_Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = seeded(self.seed)
        self.script = Script()
        self.cache = implementations.flat(modules.find("radix_cache")).RadixCache(BLOCK_SIZE)
        self.ref = self.script.new("RadixCache", BLOCK_SIZE)
        self.free = list(range(N_BLOCKS))
        self.said = [self._tokens(2 * BLOCK_SIZE), self._tokens(3 * BLOCK_SIZE + 1)]
        self.steps = 0

    def call(self, verb: str, *args: Any, written: Sequence[Any] | None = None) -> tuple[Any, Ref]:
        """One step: `args` go to the flat model, `written` (or the same) into the story."""
        result = getattr(self.cache, verb)(*args)
        ref = self.script.ask(self.ref, verb, *(args if written is None else written))
        for question in self.questions:
            self.script.ask(self.ref, question)
        self.steps += 1
        return result, ref

    def _tokens(self, n: int) -> list[int]:
        return [self.chance.randrange(1, ALPHABET + 1) for _ in range(n)]

    def prompt(self) -> list[int]:
        """Something said before, perhaps cut short, and something new."""
        before = self.chance.choice(self.said)
        kept = before if self.chance.random() < 0.7 else before[: self.chance.randrange(len(before) + 1)]
        return kept[: 6 * BLOCK_SIZE] + self._tokens(self.chance.randrange(4 * BLOCK_SIZE))

    # ------------------------------------------------------------ what an engine does

    def admit(self, prompt: list[int]) -> None:
        """Match, lock, evict what the free list is short of; with too little room, give up again."""
        match, ref = self.call("match_prefix", prompt)
        self.call("lock", match.node, written=[ref.at("node")])
        fresh = -(-len(prompt) // BLOCK_SIZE) - len(match.blocks)
        if fresh > len(self.free):
            self.evict(fresh - len(self.free))
        if fresh > len(self.free):
            self.call("unlock", match.node, written=[ref.at("node")])
            return
        taken = [self.free.pop() for _ in range(fresh)]
        self.running.append(_Request(prompt, [*match.blocks, *taken], len(match.blocks), match.node, ref.at("node")))

    def end(self) -> None:
        """A request ends: its full blocks go to the cache; what comes back, and its tail, is free again."""
        request = self.running.pop(self.chance.randrange(len(self.running)))
        room = len(request.table) * BLOCK_SIZE - len(request.prompt)
        computed = request.prompt + self._tokens(self.chance.randrange(room + 1))
        full = len(computed) // BLOCK_SIZE
        inserted, _ = self.call("insert", computed, request.table[:full])
        self.free += [*inserted.duplicates, *request.table[full:]]
        self.call("match_prefix", [*computed, ALPHABET])
        self.call("unlock", request.node, written=[request.node_ref])
        self.said = [*self.said[-7:], computed] if computed else self.said

    def preempt(self) -> None:
        """The youngest request loses its blocks and caches nothing."""
        request = self.running.pop()
        self.call("unlock", request.node, written=[request.node_ref])
        self.free += request.table[request.hits :]

    def evict(self, n: int) -> None:
        """Ask the cache for blocks, which are free from then on."""
        evicted, _ = self.call("evict", n)
        self.free += evicted

    def step(self) -> None:
        """Whatever comes next: mostly requests that arrive and end."""
        turn = self.chance.random()
        if self.running and (turn < 0.45 or len(self.running) == AT_ONCE):
            self.end()
        elif self.running and turn < 0.50:
            self.preempt()
        elif turn < 0.55 and self.cache.cached_blocks:
            self.evict(self.chance.choice(ASKED))
        else:
            prompt = self.prompt()
            for _ in range(1 + (turn > 0.85 and len(self.running) + 1 < AT_ONCE)):
                self.admit(prompt)  # sometimes twice at once: two requests race to compute one prefix


def engine_story(seed: int, steps: int, questions: Sequence[str] = ()) -> Story:
    """An engine's first `steps` calls on a new cache, each followed by the same questions.

    Args:
        seed: the same seed gives the same story.
        steps: how many calls, the making of the cache not counted.
        questions: properties of the cache to read after every call.
    """
    engine = _Engine(seed, questions)
    while engine.steps < steps:
        engine.step()
    return engine.script.story[: 1 + steps * (1 + len(questions))]


def drained_story(seed: int, steps: int, questions: Sequence[str] = ()) -> Story:
    """At least so many steps of an engine, which then ends every request and evicts all there is."""
    engine = _Engine(seed, questions)
    while engine.steps < steps:
        engine.step()
    while engine.running:
        engine.end()
    engine.evict(N_BLOCKS)
    return engine.script.story

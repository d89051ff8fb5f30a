"""What the named tests of the block pool share: views of a pool, and long stories with their judge.

It knows how to read a pool through its calls, how to write a story of one, and which freedom a pool has: any
free block may be handed out, while which cached block is evicted is fixed. It does not know which
implementation is read.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autograder.comparing import Nodes, alike
from autograder.expect import RuleBroken, holds, same
from autograder.judging import Fault, Judge
from autograder.stories import Call, Outcome, Ref, Script, Story, play, resolve, seeded
from autograder.telling import describe
from course.contract import BlockId, PoolExhausted

# ---------------------------------------------------------------- reading a pool

COUNTS = ("n_free", "n_used", "n_cached", "n_named", "evictions")


def counts(pool: Any) -> dict[str, Any]:
    """The five counts."""
    return {name: getattr(pool, name) for name in COUNTS}


def counted(free: int, used: int, cached: int, named: int, evictions: int) -> dict[str, int]:
    """What `counts` should show."""
    return dict(zip(COUNTS, (free, used, cached, named, evictions), strict=True))


def everything(pool: Any, *names: int) -> dict[str, Any]:
    """All that can be seen of a pool without changing it; of its names, the holders of these."""
    blocks = range(pool.n_blocks)
    return {
        **counts(pool),
        "rho": [pool.refcount(block) for block in blocks],
        "fill": [pool.fill(block) for block in blocks],
        "names": {name: pool.find(name) for name in names},
    }


# ---------------------------------------------------------------- bringing a pool into a state


def take(pool: Any, n: int) -> list[BlockId]:
    """n blocks of a pool that has so many to give."""
    try:
        blocks: list[BlockId] = pool.alloc(n)
    except PoolExhausted as error:
        rule = f"alloc({n}) hands out {n} blocks: so many are free or cached."
        raise RuleBroken(f"{rule}\n  got: PoolExhausted: {error}") from None
    holds(type(blocks) is list and len(blocks) == n, f"alloc({n}) returns a list of {n} blocks.", got=blocks)
    return blocks


def take_named(pool: Any, *names: int) -> list[BlockId]:
    """One used, full block for each of these names."""
    blocks = take(pool, len(names))
    for block, name in zip(blocks, names, strict=True):
        pool.set_fill(block, pool.block_size)
        same(pool.register(block, name), True, f"A full, used block takes the unused name {name}: register is True.")
    return blocks


def take_cached(pool: Any, *names: int) -> list[BlockId]:
    """One cached block for each of these names, the least recently used first."""
    blocks = take_named(pool, *names)
    for block in blocks:
        pool.release(block)
    return blocks


# ---------------------------------------------------------------- long stories


@dataclass
class PoolWriter:
    """Writes a story of a pool while the oracle plays it, so that most calls make sense.

    `refs` has every block handed out so far, by the oracle's id. Calls on blocks that are free or
    cached by now are part of the story: they must be refused.
    """

    oracle: Any
    choose: random.Random
    script: Script = field(default_factory=Script)
    refs: dict[BlockId, Ref] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.size, self.n = self.oracle.block_size, self.oracle.n_blocks
        self.pool = self.script.new("KvPool", self.n, self.size)
        self._alloc()

    def step(self) -> None:
        """One call, and a look at the pool after it."""
        verbs = (self._alloc, self._retain, self._release, self._fill, self._register, self._lookup)
        self.choose.choices(verbs, weights=(18, 8, 35, 5, 25, 12))[0]()
        self._look()

    def _alloc(self) -> None:
        n = self.choose.choice((0, 1, 1, 1, 2, 3, self.n))
        ref = self.script.ask(self.pool, "alloc", n)
        with contextlib.suppress(PoolExhausted):
            self.refs.update({block: ref.at(place) for place, block in enumerate(self.oracle.alloc(n))})

    def _retain(self) -> None:
        self._on_block("retain", self._any_block())

    def _release(self) -> None:
        self._on_block("release", self._any_block())

    def _fill(self) -> None:
        self._on_block("set_fill", self._any_block(), self.choose.randrange(-1, self.size + 2))

    def _register(self) -> None:
        block = self._any_block()
        if self.choose.random() < 0.7:
            self._on_block("set_fill", block, self.size)
        self._on_block("register", block, self.choose.choice(self._names()))

    def _lookup(self) -> None:
        known = [name for name in self._names() if self.oracle.find(name) is not None]
        name = self.choose.choice(known or self._names())
        self.oracle.lookup(name)
        self.script.ask(self.pool, "lookup", name)

    def _find(self) -> None:
        self.script.ask(self.pool, "find", self.choose.choice(self._names()))

    def _any_block(self) -> BlockId | None:
        """A used block, or now and then any; None before the first."""
        used = [block for block in self.refs if self.oracle.refcount(block)]
        among = used if used and self.choose.random() < 0.85 else list(self.refs)
        return self.choose.choice(among) if among else None

    def _names(self) -> range:
        return range(1, 2 * self.n + 1)

    def _on_block(self, verb: str, block: BlockId | None, *args: int) -> None:
        if block is not None:
            self.script.ask(self.pool, verb, self.refs[block], *args)
            with contextlib.suppress(ValueError):
                getattr(self.oracle, verb)(block, *args)

    def _look(self) -> None:
        for verb in COUNTS:
            self.script.ask(self.pool, verb)
        self._find()
        if (block := self._any_block()) is not None:
            self.script.ask(self.pool, "refcount", self.refs[block])
            self.script.ask(self.pool, "fill", self.refs[block])


def pool_story(oracle: Mapping[str, Any], n_blocks: int, block_size: int, seed: int, steps: int) -> Story:
    """A story of `steps` calls on a pool with a look at it after each; the same for the same arguments."""
    writer = PoolWriter(oracle["KvPool"](n_blocks, block_size), seeded(seed))
    for _ in range(steps):
        writer.step()
    return writer.script.story


def like_the_flat_pool(oracle: Mapping[str, Any], rule: str) -> Judge:
    """A judge that plays the story on an oracle too, which follows the pool's choice among free blocks.

    So both pools give a block the same id, and every other outcome must be equal.
    """

    def judge(story: Story, outcomes: Sequence[Outcome]) -> Fault | None:
        pool: Any = None
        results: dict[int, Any] = {}
        for at, (call, have) in enumerate(zip(story, outcomes, strict=True)):
            if call.target == "KvPool":
                pool = oracle["KvPool"](*call.args)
                want = Outcome(made="KvPool")
            elif have.skipped:
                continue
            else:
                want = _follow(pool, Call(call.label, "pool", call.verb, tuple(resolve(call.args, results))), have)
            if not alike(call, want, have, Nodes(), Nodes()):
                return Fault(at, rule, describe(want), describe(have))
            results[call.label] = have.value
        return None

    return judge


def _follow(pool: Any, call: Call, have: Outcome) -> Outcome:
    """What the call gives on the oracle, if it takes the free blocks that were taken."""
    if call.verb != "alloc" or not 0 <= call.args[0] <= pool.n_free + pool.n_cached:
        return play((call,), {"pool": pool})[0]
    (n,) = call.args
    spare = pool.alloc(max(n, pool.n_free))
    if not _is_choice(have.value, n, spare):
        return Outcome(value=spare) if n == len(spare) else Outcome(made=f"{n} of the free blocks {spare}")
    for block in set(spare).difference(have.value):
        pool.release(block)
    return Outcome(value=have.value)


def _is_choice(blocks: Any, n: int, spare: list[BlockId]) -> bool:
    """So many different blocks, all of them spare, in any order."""
    if type(blocks) is not list or any(type(block) is not int for block in blocks):
        return False
    return len(blocks) == n == len(set(blocks)) and set(blocks) <= set(spare)

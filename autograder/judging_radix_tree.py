"""What the named tests of the radix tree share: views of a tree, and long stories with their judge.

It knows how to read a tree through `walk` and the counts, and how to write a story that stays within
the contract. It does not know which implementation is read.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autograder.comparing import Nodes, alike
from autograder.expect import RuleBroken, holds
from autograder.judging import Fault, Judge
from autograder.stories import Call, Outcome, Ref, Script, Story, play, seeded
from autograder.telling import describe
from course.contract import ROOT


@contextlib.contextmanager
def works(rule: str) -> Iterator[None]:
    """The block raises nothing; `rule` says so to a student if it does."""
    try:
        yield
    except RuleBroken:
        raise
    except Exception as error:
        raise RuleBroken(f"{rule}\n  expected: no exception\n  got:      {type(error).__name__}: {error}") from error


# ---------------------------------------------------------------- reading a tree


@dataclass(frozen=True)
class Row:
    """A node as `walk` shows it; `path` are the tokens from the root to its end."""

    node: Any
    path: tuple[int, ...]
    tokens: tuple[int, ...]
    values: tuple[Any, ...]
    locks: int
    last_used: int


def rows(tree: Any) -> list[Row]:
    """Every node but the root, in the order of the paths. Breaks a rule if a parent comes after its child."""
    paths: dict[Any, tuple[int, ...]] = {ROOT: ()}
    found = []
    for node, parent, tokens, values, locks, last_used in tree.walk():
        holds(
            parent in paths,
            "walk() shows parents first: a row came before the row of its parent.",
            tokens=tokens,
            values=values,
        )
        paths[node] = paths[parent] + tuple(tokens)
        found.append(Row(node, paths[node], tokens, values, locks, last_used))
    return sorted(found, key=lambda row: row.path)


def shape(tree: Any) -> list[tuple[Any, Any]]:
    """Each node's own tokens and values, in the order of the paths."""
    return [(row.tokens, row.values) for row in rows(tree)]


def locks(tree: Any) -> list[tuple[Any, int]]:
    """Each node's values with its lock count, in the order of the paths."""
    return [(row.values, row.locks) for row in rows(tree)]


def by_time_of_use(tree: Any) -> list[list[Any]]:
    """The nodes' values, least recently used first; those of one time stand together."""
    found = rows(tree)
    times = sorted({row.last_used for row in found})
    return [[row.values for row in found if row.last_used == time] for time in times]


def counts(tree: Any) -> dict[str, int]:
    """The three counts."""
    return {"n_values": tree.n_values, "n_evictable": tree.n_evictable, "n_nodes": tree.n_nodes}


def everything(tree: Any) -> tuple[Any, ...]:
    """All that can be seen of a tree without changing it."""
    told = [(row.path, row.tokens, row.values, row.locks) for row in rows(tree)]
    return told, by_time_of_use(tree), counts(tree)


# ---------------------------------------------------------------- long stories


@dataclass
class TreeWriter:
    """Writes a story of a tree while the oracle plays it, so that every lock and unlock makes sense.

    `held` are nodes that a call gave and no eviction has taken since; `locked` has one entry a lock.
    """

    oracle: Any
    granule: int
    choose: random.Random
    script: Script = field(default_factory=Script)
    held: list[tuple[Ref, Any]] = field(default_factory=list)
    locked: list[tuple[Ref, Any]] = field(default_factory=list)
    n_inserted: int = 0

    def __post_init__(self) -> None:
        self.tree = self.script.new("RadixTree", self.granule)

    def tokens(self, spare: int = 0) -> list[int]:
        """Up to six granules of very few different ones, and `spare` tokens more."""
        granules = self.choose.choices(self.words(), k=self.choose.randrange(7))
        return [token for granule in granules for token in granule] + [1] * spare

    def words(self) -> list[list[int]]:
        """Three granules that differ in their last token only (or in all they have)."""
        return [[1] * (self.granule - 1) + [last] for last in (1, 2, 3)]

    def insert(self) -> None:
        """Store a run under values that no other insert uses."""
        tokens = self.tokens()
        values = [f"v{self.n_inserted + i}" for i in range(len(tokens) // self.granule)]
        self.n_inserted += len(values)
        self.hold(self.script.ask(self.tree, "insert", tokens, values), self.oracle.insert(tokens, values))

    def refused_insert(self) -> None:
        """Offer a run with a value too many: a ValueError, and nothing changes."""
        tokens = self.tokens()
        self.script.ask(self.tree, "insert", tokens, ["one too many"] * (len(tokens) // self.granule + 1))

    def match(self) -> None:
        """Look a run up; it may end inside a granule."""
        tokens = self.tokens(spare=self.choose.randrange(self.granule))
        self.hold(self.script.ask(self.tree, "match_prefix", tokens), self.oracle.match_prefix(tokens))

    def hold(self, ref: Ref, result: Any) -> None:
        """Remember the node of a result, among the last twelve."""
        self.held = [*self.held, (ref.at("node"), result.node)][-12:]

    def lock(self) -> None:
        """Lock a node held, if fewer than four locks are out."""
        if self.held and len(self.locked) < 4:
            ref, node = self.choose.choice(self.held)
            self.oracle.lock(node)
            self.script.ask(self.tree, "lock", ref)
            self.locked.append((ref, node))

    def unlock(self) -> None:
        """Undo one of the locks that are out."""
        if self.locked:
            ref, node = self.locked.pop(self.choose.randrange(len(self.locked)))
            self.oracle.unlock(node)
            self.script.ask(self.tree, "unlock", ref)

    def evict(self) -> None:
        """Evict a few values, and forget the nodes that went."""
        n = self.choose.choice((0, 1, 1, 2, 3, 5, 8))
        self.oracle.evict(n)
        self.script.ask(self.tree, "evict", n)
        there = {ROOT, *(row[0] for row in self.oracle.walk())}
        self.held = [(ref, node) for ref, node in self.held if node in there]

    def look(self) -> None:
        """Read everything that the tree shows."""
        for verb in ("walk", "n_values", "n_evictable", "n_nodes"):
            self.script.ask(self.tree, verb)


def tree_story(oracle: Mapping[str, Any], granule: int, seed: int, steps: int) -> Story:
    """A story of `steps` calls and a look at the tree now and then; the same for the same arguments."""
    writer = TreeWriter(oracle["RadixTree"](granule), granule, seeded(seed))
    verbs = (writer.insert, writer.match, writer.lock, writer.unlock, writer.evict, writer.look, writer.refused_insert)
    for verb in writer.choose.choices(verbs, weights=(30, 25, 14, 12, 14, 6, 2), k=steps):
        verb()
    writer.look()
    return writer.script.story


def like_the_model(oracle: Mapping[str, Any], rule: str) -> Judge:
    """A judge that compares every outcome with the oracle's, node ids aside.

    A shortened story may lose a lock but not its unlock, or an eviction may take a node held: where the
    oracle refuses a lock or an unlock, the story has left the contract, and nothing is judged.
    """

    def judge(story: Story, outcomes: Sequence[Outcome]) -> Fault | None:
        wants = play(story, oracle)
        return None if _astray(zip(story, wants, strict=True)) else _first_fault(story, wants, outcomes, rule)

    return judge


def _astray(played: Iterable[tuple[Call, Outcome]]) -> bool:
    return any(call.verb in ("lock", "unlock") and want.raised for call, want in played)


def _first_fault(story: Story, wants: Sequence[Outcome], outcomes: Sequence[Outcome], rule: str) -> Fault | None:
    wanted, got = Nodes(), Nodes()
    for at, (call, want, have) in enumerate(zip(story, wants, outcomes, strict=True)):
        if not alike(call, want, have, wanted, got):
            return Fault(at, rule, _in_words(call, want, wanted, got), _in_words(call, have, got, got))
    return None


def _in_words(call: Call, outcome: Outcome, its: Nodes, got: Nodes) -> str:
    """An outcome with the ids of the tree under test: the oracle's mean nothing to a reader.

    `its` are the names of the tree that the outcome is from, `got` those of the tree under test.
    """
    if call.verb == "walk" and not outcome.raised:
        return "".join(f"\n    {line}" for line in _walk_in_words(outcome.value, its))
    if not hasattr(outcome.value, "node"):
        return describe(outcome)
    ids = {name: node for node, name in got.names.items()}
    node = ids.get(its.name(outcome.value.node), "another node")
    return describe(replace(outcome, value=replace(outcome.value, node=node)))


def _walk_in_words(value: Any, its: Nodes) -> list[str]:
    """One line a node, in the order of the paths."""
    try:
        return [
            f"path {list(path)}: tokens {list(tokens)}, values {list(values)}, locks {locks}, time of use {rank}"
            for _, path, tokens, values, locks, rank in its.walk(value)
        ]
    except (TypeError, ValueError):
        return [repr(value)]

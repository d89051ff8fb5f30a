"""Stories: a test as a list of calls, so that it can be sent whole, replayed, shrunk and printed.

A story's arguments may name earlier results. It is played on the implementation under test, which
yields one outcome a call; a judge reads the outcomes and names the first that is wrong. This file
knows calls and outcomes. What is right, it does not know: that is the judge's.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autograder.values import NotPlain, plain
from course import contract


@dataclass(frozen=True)
class Ref:
    """The result of an earlier call, or a part of it: `Ref(3, ("blocks", 0))` is its first block."""

    call: int
    path: tuple[str | int, ...] = ()

    def at(self, *path: str | int) -> Ref:
        """A part of the result: attribute names and indices, outermost first."""
        return Ref(self.call, self.path + path)


@dataclass(frozen=True)
class Call:
    """One line of a story. `target` is an exported name to call, or an earlier result to ask `verb` of."""

    label: int
    target: str | Ref
    verb: str
    args: tuple[Any, ...] = ()


Story = tuple[Call, ...]


@dataclass(frozen=True)
class Outcome:
    """What a call did: returned a plain value, returned an object (`made`), raised, or was not playable.

    `skipped` calls are those whose arguments name a result that is not there. `error` is the exception
    itself where the code ran in this process, for its traceback.
    """

    value: Any = None
    raised: str = ""
    message: str = ""
    made: str = ""
    skipped: bool = False
    error: BaseException | None = field(default=None, compare=False, repr=False)


@dataclass
class Script:
    """Writes a story call by call; each call gives the reference to its result."""

    calls: list[Call] = field(default_factory=list)

    def new(self, export: str, *args: Any) -> Ref:
        """Call an exported name: make an object, or call a function such as `kv_block_hash`."""
        return self._add(export, "", args)

    def ask(self, target: Ref, verb: str, *args: Any) -> Ref:
        """Call a method, or read a property, of an earlier result."""
        return self._add(target, verb, args)

    def _add(self, target: str | Ref, verb: str, args: tuple[Any, ...]) -> Ref:
        self.calls.append(Call(len(self.calls), target, verb, args))
        return Ref(self.calls[-1].label)

    @property
    def story(self) -> Story:
        """What is written so far."""
        return tuple(self.calls)


def _properties() -> frozenset[str]:
    protocols = (contract.KvPool, contract.RadixTree, contract.RadixCache, contract.BlockManager)
    return frozenset(
        name
        for protocol in protocols
        for base in protocol.__mro__
        for name, member in vars(base).items()
        if isinstance(member, property)
    )


PROPERTIES = _properties()
"""The names that the contract makes properties: they are read, not called."""


# ---------------------------------------------------------------- playing


class Unplayable(Exception):
    """An argument names a result that is not there."""


def play(story: Story, names: Mapping[str, Any]) -> tuple[Outcome, ...]:
    """Play a story on an implementation: `names` gives the exported names. One outcome a call.

    A call that raises ends itself only; the story goes on, and calls that needed its result are skipped.
    An implementation in another process is sent the story whole, since a message costs more than a call.
    """
    elsewhere = getattr(names, "play_story", None)
    if elsewhere is not None:
        return tuple(elsewhere(story))
    results: dict[int, Any] = {}
    return tuple(_play_call(call, names, results) for call in story)


def _play_call(call: Call, names: Mapping[str, Any], results: dict[int, Any]) -> Outcome:
    try:
        target = names[call.target] if isinstance(call.target, str) else resolve(call.target, results)
        args = [resolve(arg, results) for arg in call.args]
    except Unplayable:
        return Outcome(skipped=True)
    except KeyError:
        return Outcome(raised="NotDefined", message=f"{call.target} is not defined")
    try:
        result = _perform(target, call.verb, args)
    except Exception as error:
        return Outcome(raised=type(error).__name__, message=str(error), error=error)
    results[call.label] = result
    return outcome_of(call, result)


def _perform(target: Any, verb: str, args: list[Any]) -> Any:
    if not verb:
        return target(*args)
    if verb in PROPERTIES:
        return getattr(target, verb)
    result = getattr(target, verb)(*args)
    return list(result) if verb == "walk" else result


def outcome_of(call: Call, result: Any) -> Outcome:
    """A call's result as an outcome: objects that stay where they are become `made`."""
    made = not call.verb and isinstance(call.target, str) and call.target[0].isupper()
    if made or call.verb == "tree":
        return Outcome(made=call.target if isinstance(call.target, str) else call.verb)
    try:
        return Outcome(value=plain(result))
    except NotPlain as problem:
        return Outcome(raised="NotPlain", message=str(problem))


def resolve(arg: Any, results: Mapping[int, Any]) -> Any:
    """An argument with every `Ref` in it replaced by the result it names."""
    if isinstance(arg, Ref):
        return _follow(arg, results)
    if isinstance(arg, tuple | list):
        return [resolve(item, results) for item in arg]
    return arg


def _follow(ref: Ref, results: Mapping[int, Any]) -> Any:
    if ref.call not in results:
        raise Unplayable
    value = results[ref.call]
    for step in ref.path:
        try:
            value = getattr(value, step) if isinstance(step, str) else value[step]
        except (AttributeError, IndexError, TypeError, KeyError):
            raise Unplayable from None
    return value


def seeded(seed: int) -> random.Random:
    """A source of choices that is the same every time: stories are written, never improvised."""
    return random.Random(seed)

"""Stand-ins for classes and functions that live on the other side of a wire.

It knows the contract's protocols, and so which names are methods and which are properties. Who answers
the calls it does not know: the same stand-ins serve the grader's tests and the tests of a student.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from autograder.stories import PROPERTIES, Outcome, Story
from autograder.values import NotPlain
from autograder.wire import Message, WireBroken, decode, decode_error, encode
from course import contract

PROTOCOLS: Mapping[str, type] = {
    "KvPool": contract.KvPool,
    "RadixTree": contract.RadixTree,
    "RadixCache": contract.RadixCache,
    "BlockManager": contract.BlockManager,
}
CONSTANTS = ("ROOT",)
"""What the protocols make class attributes: read on the class or on an object."""

CHANGED = "changed the list it was given: work on a copy"

WATCHED = 8
"""So many lists that went over the wire are watched for changes that their owner makes to them later."""


class Asks(Protocol):
    """Sends one request to the other side and gives its answer, or raises."""

    def __call__(self, request: Message) -> Message:
        """The answer to a request; the sequence number is the transport's business."""


Broken = Callable[[WireBroken], object]


class RemoteNames(dict[str, Any]):
    """Exported names as stand-ins; `play_story` plays a whole story in one message."""

    def __init__(self, names: Iterable[str], ask: Asks, broken: Broken, adds: Iterable[str] = ()) -> None:
        wire = Caller(ask, broken, adds)
        super().__init__((name, _stand_in(name, wire)) for name in names)
        self._wire = wire

    @property
    def advice(self) -> tuple[str, ...]:
        """What a student should know beside the results: calls that changed a list that they were given."""
        return tuple(self._wire.advice)

    def play_story(self, story: Story) -> tuple[Outcome, ...]:
        """One outcome a call, as `autograder.stories.play` gives it."""
        return self._wire.play(story)


def remote(
    names: Iterable[str], ask: Asks, broken: Broken = lambda problem: None, adds: Iterable[str] = ()
) -> RemoteNames:
    """Stand-ins for exported names such as `RadixCache` and `kv_block_hash`.

    Args:
        names: the names that there are on the other side.
        ask: sends a request and gives its answer.
        broken: hears of an answer that is none, before WireBroken is raised.
        adds: the optional calls that there are on the other side.
    """
    return RemoteNames(names, ask, broken, adds)


# ---------------------------------------------------------------- calling


class Caller:
    """Makes calls over a wire: arguments out, results and exceptions back, changed lists made up for."""

    def __init__(self, ask: Asks, broken: Broken, adds: Iterable[str] = ()) -> None:
        self.ask, self.broken = ask, broken
        self.left_out = contract.OPTIONAL.difference(adds)
        self.depth = sys.getrecursionlimit()
        self.advice: dict[str, None] = {}
        self._calls = 0
        self._watched: list[tuple[list[int], list[Any], list[Any]]] = []

    def call(self, target: str | int, verb: str, args: tuple[Any, ...], named: Mapping[str, Any] | None = None) -> Any:
        """Ask `verb` of an object, or call an exported name if there is no verb."""
        self._calls += 1
        request: Message = {"op": "call", "id": self._calls, "target": target, "verb": verb, "args": encode(list(args))}
        if named:
            request["named"] = {name: encode(value) for name, value in named.items()}
        if edits := self._edits():
            request["edits"] = edits
        if sys.getrecursionlimit() != self.depth:
            request["depth"] = sys.getrecursionlimit()
        answer = self.ask(request)
        with self._told():
            self._change(answer, verb or str(target), dict(enumerate(args)) | dict(named or {}))
        for place, arg in enumerate(args):
            if type(arg) is list:
                self._watch([self._calls, place], arg)
        with self._told():
            return self._result(answer)

    def _change(self, answer: Message, call: str, given: Mapping[Any, Any]) -> None:
        """Do to the lists that were passed what the call did to its own, and note it."""
        if type(answer.get("spoilt")) is str:
            raise NotPlain(f"{call} {CHANGED}")
        changed = answer.get("changed", [])
        if type(changed) is not list:
            raise WireBroken("the process wrote something that is no answer")
        for change in changed:
            place, values = change if type(change) is list and len(change) == 2 else (None, None)
            mine, now = given.get(place) if type(place) in (int, str) else None, _value(values)
            if type(mine) is not list or type(now) is not list:
                raise WireBroken("the process wrote something that is no answer")
            mine[:] = now
            self.advice[f"{call} {CHANGED}"] = None

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except WireBroken as problem:
            self.broken(problem)
            raise

    def _result(self, answer: Message) -> Any:
        if "value" in answer:
            value = _value(answer["value"])
            if type(value) is list:
                self._watch([self._calls, -1], value)
            return value
        if "made" in answer:
            return self._made(answer["made"])
        if "raised" in answer:
            raise decode_error(answer["raised"]) from None
        if type(answer.get("advice")) is str:
            raise NotPlain(answer["advice"])
        raise WireBroken("the process wrote something that is no answer")

    def _made(self, made: Any) -> Any:
        if type(made) is not list or len(made) != 2 or made[0] not in PROTOCOLS or type(made[1]) is not int:
            raise WireBroken("the process wrote something that is no answer")
        name, number = made
        thing = object.__new__(_stand_in(name, self))
        object.__setattr__(thing, "_handle", number)
        return thing

    def _watch(self, key: list[int], values: list[Any]) -> None:
        self._watched.append((key, values, list(values)))
        del self._watched[:-WATCHED]

    def _edits(self) -> list[Any]:
        """Lists that were passed or returned, and have been changed since: the other side changes its own alike."""
        edits = []
        for place, (key, values, before) in enumerate(self._watched):
            if values != before:
                edits.append([*key, encode(values)])
                self._watched[place] = (key, values, list(values))
        return edits

    def play(self, story: Story) -> tuple[Outcome, ...]:
        """Play a story in one message."""
        request: Message = {"op": "play", "story": [_call(call) for call in story]}
        if sys.getrecursionlimit() != self.depth:
            request["depth"] = sys.getrecursionlimit()
        answer = self.ask(request)
        with self._told():
            if "raised" in answer:
                raise decode_error(answer["raised"]) from None
            rows, changing = answer.get("outcomes"), answer.get("changing")
            if type(rows) is not list or len(rows) != len(story):
                raise WireBroken("the process wrote something that is no answer")
            for call in changing if type(changing) is list else ():
                if type(call) is str and call in {called.verb or called.target for called in story}:
                    self.advice[f"{call} {CHANGED}"] = None
            return tuple(map(_outcome, rows))


def _value(data: Any) -> Any:
    try:
        return decode(data)
    except RecursionError:
        raise WireBroken("the process wrote a value that is nested too deeply") from None


def _call(call: Any) -> list[Any]:
    return [call.label, encode(call.target), call.verb, encode(list(call.args))]


def _outcome(row: Any) -> Outcome:
    if type(row) is not dict:
        raise WireBroken("the process wrote something that is no answer")
    if "value" in row:
        return Outcome(value=_value(row["value"]))
    if "raised" in row:
        error = decode_error(row["raised"])
        return Outcome(raised=type(error).__name__, message=str(error), error=error)
    if type(row.get("advice")) is str:
        return Outcome(raised="NotPlain", message=row["advice"])
    if type(row.get("made")) is str:
        return Outcome(made=row["made"])
    if type(row.get("missing")) is str:
        return Outcome(raised="NotDefined", message=row["missing"])
    return Outcome(skipped=True)


# ---------------------------------------------------------------- stand-ins


def _stand_in(name: str, wire: Caller) -> Any:
    made = wire.__dict__.setdefault("stand_ins", {})
    if name not in made:
        made[name] = _class(name, wire) if name in PROTOCOLS else _function(name, wire)
    return made[name]


def _function(name: str, wire: Caller) -> Callable[..., Any]:
    def function(*args: Any, **named: Any) -> Any:
        return wire.call(name, "", args, named)

    function.__name__ = function.__qualname__ = name
    return function


class _Read:
    """A property, or a constant of the class, that is read over the wire."""

    def __init__(self, owner: str, verb: str, wire: Caller) -> None:
        self.owner, self.verb, self.wire = owner, verb, wire

    def __get__(self, thing: Any, kind: type) -> Any:
        if thing is not None:
            return self.wire.call(thing._handle, self.verb, ())
        return self.wire.call(self.owner, self.verb, ()) if self.verb in CONSTANTS else self

    def __set__(self, thing: Any, value: Any) -> None:
        raise AttributeError(f"property {self.verb!r} of {self.owner!r} object has no setter")


def _class(name: str, wire: Caller) -> type:
    def make(kind: type, *args: Any, **named: Any) -> Any:
        return wire.call(name, "", args, named)

    members: dict[str, Any] = {"__new__": make, "__slots__": ("_handle",), "_is_proxy": True, "__doc__": None}
    for verb in set(verbs(name)) - wire.left_out:
        members[verb] = _Read(name, verb, wire) if verb in (*PROPERTIES, *CONSTANTS) else _method(verb, wire)
    return type(name, (), {**members, "__qualname__": name, "__module__": "course.modules"})


def verbs(name: str) -> Iterator[str]:
    """The methods, properties and constants that the contract gives a class."""
    for base in PROTOCOLS[name].__mro__:
        if base.__module__ == contract.__name__:
            yield from (verb for verb in vars(base) if not verb.startswith("_"))
            yield from (verb for verb in CONSTANTS if verb in vars(base).get("__annotations__", {}))


def _method(verb: str, wire: Caller) -> Any:
    def method(self: Any, *args: Any, **named: Any) -> Any:
        result = wire.call(self._handle, verb, args, named)
        return iter(result) if verb == "walk" and type(result) is list else result

    method.__name__ = verb
    return method

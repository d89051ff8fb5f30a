"""Answering calls: requests that came over a wire, made on real objects that stay on this side.

It knows how a request becomes a call, and a result or an exception an answer. Whose objects these are,
and who asks, it does not know.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from autograder.room.proxies import CHANGED, CONSTANTS, PROTOCOLS, verbs
from autograder.stories import PROPERTIES, Unplayable, resolve
from autograder.values import NotPlain
from autograder.wire import Handles, Message, WireBroken, decode, encode, encode_error, encode_walk

READ = PROPERTIES | {*CONSTANTS}
VERBS = frozenset(verb for name in PROTOCOLS for verb in verbs(name))
"""All that may be asked of an object: what the contract names, nothing private."""

REMEMBERED = 64
"""So many lists that came or went are remembered, so that changes made to them over there are made here."""

Place = Callable[[str], str | None]
"""How a file name is told to its author; None if it is not theirs."""


class Given:
    """The lists among a call's arguments, by position or name, as they were."""

    def __init__(self, args: Iterable[tuple[int | str, Any]]) -> None:
        self._before = [(place, arg, list(arg)) for place, arg in args if type(arg) is list]

    def changed(self) -> list[tuple[int | str, list[Any]]]:
        """Those that are no longer as they were, as they are now."""
        return [(place, arg) for place, arg, before in self._before if arg != before]


class Answerer:
    """Answers requests about exported names and the objects made from them.

    Args:
        names: the exported names.
        place: tells an author's files from others, for the line where an exception arose.
        in_room: whether this is the room of the code that answers: then a request may set the recursion
            limit, and an interrupt is that code's doing.
    """

    def __init__(self, names: Mapping[str, Any], place: Place = lambda filename: None, in_room: bool = True) -> None:
        self.names, self.place, self.in_room = names, place, in_room
        self.handles = Handles()
        self._lists: dict[tuple[int, int], list[Any]] = {}

    def answer(self, request: Message) -> Message:
        """The answer to a request; whatever the code under it raises is in the answer, too."""
        limit = sys.getrecursionlimit()
        try:
            if self.in_room and type(request.get("depth")) is int:
                sys.setrecursionlimit(request["depth"])
            return self._play(request) if request.get("op") == "play" else self._call(request)
        except WireBroken:
            raise
        except BaseException as error:
            sys.setrecursionlimit(limit)
            return self._failed(error)
        finally:
            sys.setrecursionlimit(limit)

    def _failed(self, error: BaseException) -> Message:
        if isinstance(error, KeyboardInterrupt) and not self.in_room:
            raise error
        return {"advice": str(error)} if type(error) is NotPlain else {"raised": self.told(error)}

    def told(self, error: BaseException) -> Message:
        """An exception for the wire, with the author's line that it came through last."""
        return encode_error(error, place_of(error.__traceback__, self.place))

    # ------------------------------------------------------------ one call

    def _call(self, request: Message) -> Message:
        for edit in request.get("edits", ()):
            self._edit(edit)
        target, verb = request["target"], request["verb"]
        args = decode(request["args"], self.handles.thing)
        named = {name: decode(value, self.handles.thing) for name, value in request.get("named", {}).items()}
        if isinstance(target, str):
            if target not in self.names:
                raise AttributeError(f"{target} is not defined")
            thing = self.names[target]
        else:
            thing = self.handles.thing(target)
        given = Given((*enumerate(args), *named.items()))
        try:
            result = self.perform(thing, verb, args, named)
            answer = self.written(target, verb, result)
            self._remember(request.get("id"), args, result)
        except BaseException as error:
            answer = self._failed(error)
        return answer | self._changes(given, verb or str(target))

    def _changes(self, given: Given, call: str) -> Message:
        """What a call did to the lists that it was given: the other side does it to its own, and can tell of it."""
        changed = given.changed()
        if not changed:
            return {}
        try:
            return {"changed": [[place, encode(values, self.handles)] for place, values in changed]}
        except NotPlain:
            return {"spoilt": f"{call} {CHANGED}"}

    def perform(self, thing: Any, verb: str, args: list[Any], named: Mapping[str, Any]) -> Any:
        """Call `verb` of a thing, or the thing itself."""
        if verb and verb not in VERBS:
            raise AttributeError(f"{type(thing).__name__!r} object has no attribute {verb!r}")
        if verb in READ:
            return getattr(thing, verb)
        result = getattr(thing, verb)(*args, **named) if verb else thing(*args, **named)
        return list(result) if verb == "walk" else result

    def written(self, target: Any, verb: str, result: Any) -> Message:
        """A result as an answer: an object of an exported class stays here, and its number goes."""
        if name := _made(target, verb):
            return {"made": [name, self.handles.number(result)]}
        if verb == "walk":
            return {"value": encode_walk(result, self.handles)}
        return {"value": encode(result, self.handles)}

    def _remember(self, id_: Any, args: list[Any], result: Any) -> None:
        if type(id_) is not int:
            return
        for place, value in ((-1, result), *enumerate(args)):
            if type(value) is list:
                self._lists[id_, place] = value
        while len(self._lists) > REMEMBERED:
            del self._lists[next(iter(self._lists))]

    def _edit(self, edit: Any) -> None:
        id_, place, values = edit
        if (id_, place) in self._lists:
            self._lists[id_, place][:] = decode(values, self.handles.thing)

    # ------------------------------------------------------------ a story

    def _play(self, request: Message) -> Message:
        results: dict[int, Any] = {}
        changing: dict[str, None] = {}
        outcomes = [self._play_call(row, results, changing) for row in request["story"]]
        return {"outcomes": outcomes, "changing": list(changing)}

    def _play_call(self, row: Any, results: dict[int, Any], changing: dict[str, None]) -> Message:
        label, target, verb, args = row[0], decode(row[1]), row[2], decode(row[3])
        if isinstance(target, str) and target not in self.names:
            return {"missing": f"{target} is not defined"}
        try:
            thing = self.names[target] if isinstance(target, str) else resolve(target, results)
            given = [resolve(arg, results) for arg in args]
        except Unplayable:
            return {"skipped": True}
        lists = Given(enumerate(given))
        try:
            result = self.perform(thing, verb, given, {})
            if lists.changed():
                changing[verb or str(target)] = None
            results[label] = result
            if name := _made(target, verb):
                return {"made": target if isinstance(target, str) else verb, "class": name}
            return self.written(target, verb, result)
        except NotPlain as problem:
            return {"advice": str(problem)}
        except Exception as error:
            return {"raised": self.told(error)}


def _made(target: Any, verb: str) -> str:
    """The class of what a call makes, if its result stays where it is: a new object, or a cache's tree."""
    if verb == "tree":
        return "RadixTree"
    return target if isinstance(target, str) and target in PROTOCOLS and not verb else ""


def place_of(trace: TracebackType | None, place: Place) -> tuple[str, int, str] | None:
    """The innermost line of an author's code that a traceback goes through: (place, line, its text)."""
    found = None
    steps = 0
    while trace is not None and steps < 10_000:
        name = place(trace.tb_frame.f_code.co_filename)
        if name is not None:
            text = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno).strip()
            found = (name, trace.tb_lineno, text[:200])
        trace, steps = trace.tb_next, steps + 1
    return found

"""Values and exceptions as JSON, without loss of type, and back as exact plain types.

It knows plain values, contract results, references of stories, handles and exceptions. What they are
for, and how they travel, it does not know. Nothing here is ever unpickled, and nothing that comes in is
trusted: what is not well formed is `WireBroken`.
"""

from __future__ import annotations

import builtins
import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from autograder.stories import Ref
from autograder.values import RESULTS, NotPlain, plain
from course import contract

LONGEST_TEXT = 2000
"""Characters of an exception's message that travel, at most."""

SHORT_INT = 2**64
"""Integers from here on travel in hexadecimal: JSON readers refuse very long decimal ones."""

Message = dict[str, Any]


class WireBroken(BaseException):
    """What came over the wire is no answer: rubbish, too long, out of turn, or one too many.

    No `Exception`: a test that expects the code under test to raise must not take this for it.
    """


# ---------------------------------------------------------------- values


@dataclass(frozen=True, slots=True)
class Node:
    """A node id that is an object and stayed where it is: all that is known of it is its number."""

    number: int


class Handles:
    """Objects that stay on this side, by number; the other side knows only the numbers."""

    def __init__(self) -> None:
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def number(self, thing: Any) -> int:
        """The object's number, the same each time."""
        found = self._numbers.get(id(thing))
        if found is None:
            found = self._numbers[id(thing)] = len(self._objects)
            self._objects.append(thing)  # kept, so that its id stays its own
        return found

    def thing(self, number: Any) -> Any:
        """The object of this number. Raises WireBroken if there is none."""
        if type(number) is not int or not 0 <= number < len(self._objects):
            raise WireBroken(f"there is no object {number!r}")
        return self._objects[number]


def encode(value: Any, handles: Handles | None = None) -> Any:
    """A value as JSON, without loss of type.

    Args:
        value: a plain value, a contract result, a story's Ref, a Node, or something with a `_handle`.
        handles: where the node ids of results are kept if they are objects.

    Raises:
        NotPlain: anything else, with a sentence that says how to mend it.
    """
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if kind is int:
        return value if -SHORT_INT < value < SHORT_INT else {"i": hex(value)}
    if kind is list:
        return _items(value, handles)
    if kind is tuple:
        return {"t": _items(value, handles)}
    return _encode_rest(kind, value, handles)


def _items(values: Any, handles: Handles | None) -> list[Any]:
    kinds = set(map(type, values))  # prompts are long lists of small numbers, of one kind: the quick way
    if kinds == {int} and -SHORT_INT < min(values) and max(values) < SHORT_INT:
        return list(values)
    if kinds <= _AS_THEY_ARE:
        return list(values)
    return [encode(item, handles) for item in values]


_AS_THEY_ARE = frozenset({str, float, bool, type(None)})
"""What JSON writes as encode does."""


def _encode_rest(kind: type, value: Any, handles: Handles | None) -> Any:
    if kind is dict:
        return {"d": [[encode(key, handles), encode(item, handles)] for key, item in value.items()]}
    if kind is bytes:
        return {"b": value.hex()}
    if kind is contract.PrefixCache:
        return {"m": value.value}
    if kind is Ref:
        return {"r": [value.call, list(value.path)]}
    if kind is Node:
        return {"h": value.number}
    if kind in RESULTS:
        return _encode_result(kind, value, handles)
    number = getattr(kind, "_is_proxy", False) and object.__getattribute__(value, "_handle")
    if type(number) is int:
        return {"h": number}
    plain(value)
    raise NotPlain(f"returned {kind.__name__}: return plain values or the results of course.contract")


def _encode_result(kind: Any, value: Any, handles: Handles | None) -> Any:
    items = []
    for field in dataclasses.fields(kind):
        item = object.__getattribute__(value, field.name)
        if field.name in ("values", "present", "blocks", "duplicates") and type(item) is not tuple:
            raise NotPlain(f"{kind.__name__}.{field.name} is a {type(item).__name__}: make it a tuple")
        items.append(encode_node(item, handles) if field.name == "node" else encode(item, handles))
    return {"c": [kind.__name__, items]}


def encode_node(node: Any, handles: Handles | None) -> Any:
    """A node id: a plain scalar or a tuple of those as itself, anything else by number."""
    if handles is None or _is_plain_id(node):
        return encode(node)
    return {"h": node.number if type(node) is Node else handles.number(node)}


def _is_plain_id(node: Any) -> bool:
    if type(node) is tuple:
        return all(map(_is_plain_id, node))
    return node is None or type(node) in (int, str, bool, bytes, float)


def encode_walk(rows: list[Any], handles: Handles) -> Any:
    """The rows of a tree's walk: each begins with two node ids. Raises NotPlain."""
    return [
        {"t": [encode_node(row[0], handles), encode_node(row[1], handles), *_items(row[2:], handles)]}
        if type(row) is tuple and len(row) > 2
        else encode(row, handles)
        for row in rows
    ]


def decode(data: Any, thing: Callable[[Any], Any] = Node) -> Any:
    """The value that `encode` wrote, of exact plain types.

    Args:
        data: what came out of JSON.
        thing: gives the object for a handle's number; by default a `Node`.

    Raises:
        WireBroken: this was not written by `encode`.
    """
    kind = type(data)
    if data is None or kind in (bool, int, str, float):
        return data
    if kind is list:
        return _decoded(data, thing)
    if kind is dict and len(data) == 1:
        ((tag, body),) = data.items()
        try:
            return _DECODERS[tag](body, thing)
        except (KeyError, TypeError, ValueError) as problem:
            raise WireBroken(f"{tag!r} does not hold what it should") from problem
    raise WireBroken("this is no value")


def _decoded(data: list[Any], thing: Callable[[Any], Any]) -> list[Any]:
    return data if set(map(type, data)) <= _READ_AS_THEY_ARE else [decode(item, thing) for item in data]


_READ_AS_THEY_ARE = frozenset({int, str, float, bool, type(None)})
"""What decode gives as it came out of JSON."""


def _list(body: Any) -> list[Any]:
    if type(body) is not list:
        raise TypeError(body)
    return body


def _decode_result(body: Any, thing: Callable[[Any], Any]) -> Any:
    name, items = _list(body)
    return _RESULTS[name](*_decoded(_list(items), thing))


def _decode_ref(body: Any, thing: Callable[[Any], Any]) -> Ref:
    call, path = _list(body)
    if type(call) is not int or not all(type(step) in (int, str) for step in _list(path)):
        raise TypeError(body)
    return Ref(call, tuple(path))


def _decode_handle(body: Any, thing: Callable[[Any], Any]) -> Any:
    if type(body) is not int:
        raise TypeError(body)
    return thing(body)


_RESULTS: Mapping[str, Any] = {result.__name__: result for result in RESULTS}

_DECODERS: Mapping[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "i": lambda body, thing: int(body, 16),
    "t": lambda body, thing: tuple(_decoded(_list(body), thing)),
    "d": lambda body, thing: {decode(key, thing): decode(item, thing) for key, item in _list(body)},
    "b": lambda body, thing: bytes.fromhex(body),
    "m": lambda body, thing: contract.PrefixCache(body),
    "c": _decode_result,
    "r": _decode_ref,
    "h": _decode_handle,
}


# ---------------------------------------------------------------- exceptions


def _travelling() -> Mapping[str, type[BaseException]]:
    """The exception classes that travel as themselves. An interrupt or an exit of a generator does not."""
    known: dict[str, type[BaseException]] = {
        name: kind
        for name, kind in vars(builtins).items()
        if isinstance(kind, type)
        and issubclass(kind, Exception)
        and not issubclass(kind, UnicodeError | BaseExceptionGroup)
        and name == kind.__name__  # IOError is another name of OSError
    }
    return known | {
        "SystemExit": SystemExit,
        "PoolExhausted": contract.PoolExhausted,
        "BlockStateError": contract.BlockStateError,
    }


_EXCEPTIONS = _travelling()
_NAMES = {id(kind): name for name, kind in _EXCEPTIONS.items()}
_mro = type.__dict__["__mro__"].__get__  # a metaclass can't answer for it


def nearest(error: BaseException) -> str:
    """The name of the nearest contract or builtin class of an exception, told by the class object, not its name."""
    for kind in _mro(type(error)):
        if (name := _NAMES.get(id(kind))) is not None:
            return name
    return "Exception"


def encode_error(error: BaseException, at: tuple[str, int, str] | None = None) -> Message:
    """An exception as JSON: its nearest class, its arguments if they are plain, its message, and where it arose."""
    name = nearest(error)
    message = _message(error)
    if name == "Exception" and type(error) is not Exception:
        message = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return {"class": name, "args": _arguments(name, error), "message": message, "at": at}


def _message(error: BaseException) -> str:
    try:
        text = str(error)
        return text[:LONGEST_TEXT] if type(text) is str else ""
    except BaseException:
        return ""


def _arguments(name: str, error: BaseException) -> Any:
    try:
        given = (error.needed, error.available) if name == "PoolExhausted" else error.args  # type: ignore[attr-defined]
        written = [encode(plain(arg)) for arg in given]
        return written if len(json.dumps(written)) <= 2 * LONGEST_TEXT else None
    except BaseException:
        return None


def decode_error(data: Any) -> BaseException:
    """The exception that `encode_error` wrote; it carries `at`: None, or (place, line, text of the line)."""
    if type(data) is not dict or type(data.get("message")) is not str or type(data.get("class")) is not str:
        raise WireBroken("this is no exception")
    kind, message = _EXCEPTIONS.get(data["class"], Exception), data["message"]
    error = _rebuilt(kind, data.get("args"), message)
    error.at = _place(data.get("at"))  # type: ignore[attr-defined]
    return error


def _rebuilt(kind: type[BaseException], written: Any, message: str) -> BaseException:
    args = tuple(decode(_list(written))) if type(written) is list else (message,)
    if kind is contract.PoolExhausted:
        if len(args) == 2 and all(type(arg) is int for arg in args):
            return contract.PoolExhausted(*args)
        return Exception(f"PoolExhausted without the numbers needed and available: {message}")
    if kind is Exception:
        args = (message,)
    try:
        return kind(*args)
    except Exception:
        return kind(message)


def _place(at: Any) -> tuple[str, int, str] | None:
    if type(at) is list and len(at) == 3 and type(at[0]) is str and type(at[1]) is int and type(at[2]) is str:
        return (at[0], at[1], at[2][:LONGEST_TEXT])
    return None

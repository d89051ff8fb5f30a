"""What a test can see of an implementation: the contract's names, calls and properties, and nothing else.

It knows the contract's protocols and builds stand-ins from them: classes and functions that look the same
whatever stands behind them, and pass each call on to a line. Who answers there, and how a call travels,
it does not know.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from autograder.values import RESULTS, SCALARS
from autograder.wire import Node
from course import contract

PROTOCOLS: Mapping[str, type] = {
    "KvPool": contract.KvPool,
    "RadixTree": contract.RadixTree,
    "RadixCache": contract.RadixCache,
    "BlockManager": contract.BlockManager,
}
FUNCTIONS: Mapping[str, Any] = {"kv_block_hash": contract.KvBlockHash.__call__}
OBJECTS = {"tree": "RadixTree"}
"""The properties whose value is an object with calls of its own, and what it is."""


@dataclass(frozen=True)
class Request:
    """One call. `target` is an exported name to call, or the number of an object there; `args` are plain.

    A `Node` among the arguments is an object that stays where it is: with the implementation if its
    number is 0 or more, else with the test, which only ever wants it back.
    """

    target: str | int
    verb: str
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Reply:
    """What a call returned, and the lists among its arguments that it changed, by position.

    `made` is the exported name of what `value` numbers, where that is an object with calls of its own.
    """

    value: Any
    changed: Mapping[int, list[Any]] = field(default_factory=dict)
    made: str = ""


Line = Callable[[Request], Reply]
"""Carries a call to the implementation. Raises what the implementation raised."""


@dataclass(frozen=True)
class Surface:
    """The calls and the properties of one exported class, as the contract writes them."""

    methods: Mapping[str, inspect.Signature]
    properties: Mapping[str, property]


@cache
def surface_of(name: str) -> Surface:
    """The surface of an exported class. Raises KeyError for a name that is none."""
    members: dict[str, Any] = {}
    for base in reversed(PROTOCOLS[name].__mro__):
        if base.__module__ == contract.__name__:
            members.update(vars(base))
    written = {verb: member for verb, member in members.items() if verb == "__init__" or not verb.startswith("_")}
    return Surface(
        {verb: inspect.signature(member) for verb, member in written.items() if inspect.isfunction(member)},
        {verb: member for verb, member in written.items() if isinstance(member, property)},
    )


@cache
def arity(name: str, verb: str = "") -> range:
    """How many arguments a call takes: one number, unless the contract gives one of them a default."""
    signature = (
        inspect.signature(FUNCTIONS[name]) if name in FUNCTIONS else surface_of(name).methods[verb or "__init__"]
    )
    taken = list(signature.parameters.values())[1:]
    return range(sum(each.default is inspect.Parameter.empty for each in taken), len(taken) + 1)


# ---------------------------------------------------------------- stand-ins


class _Blank:
    """The base of every stand-in: it has no attribute that a test could see."""

    __slots__ = ("__weakref__", "number")


_NUMBER: Any = _Blank.__dict__["number"]
delattr(_Blank, "number")  # the slot stays, its name goes: what is held there is nobody's business


class _Opaque(_Blank):
    """An object that only the implementation knows: to be given back, and looked at no further."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<node>"


@dataclass
class _Desk:
    """Passes calls on, and keeps track of the objects on both sides."""

    line: Line
    stand_ins: dict[int, Any] = field(default_factory=dict)
    lent: list[Any] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    classes: dict[str, type] = field(default_factory=dict)

    def make(self, stand_in: Any, name: str, args: Sequence[Any]) -> None:
        """Let this stand-in be the object that a call of an exported class makes."""
        self._adopt(stand_in, self._reply(name, "", args).value)

    def ask(self, target: str | int, verb: str, args: Sequence[Any] = ()) -> Any:
        """One call; what it answers, with stand-ins for what stays where it is."""
        reply = self._reply(target, verb, args)
        return self._stand_in(reply.value, _class(reply.made, self)) if reply.made else self._in(reply.value)

    def _reply(self, target: str | int, verb: str, args: Sequence[Any]) -> Reply:
        reply = self.line(Request(target, verb, tuple(self._out(arg, top=True) for arg in args)))
        for place, items in reply.changed.items():
            if type(args[place]) is list:
                args[place][:] = [self._in(item) for item in items]
        return reply

    def _adopt(self, stand_in: Any, node: Node) -> None:
        _NUMBER.__set__(stand_in, node.number)
        self.stand_ins[node.number] = stand_in

    def _stand_in(self, node: Node, kind: type) -> Any:
        if node.number not in self.stand_ins:
            self._adopt(object.__new__(kind), node)
        return self.stand_ins[node.number]

    def _in(self, value: Any) -> Any:
        if type(value) is Node:
            return self.lent[~value.number] if value.number < 0 else self._stand_in(value, _Opaque)
        return rebuilt(value, self._in)

    def _out(self, value: Any, top: bool = False) -> Any:
        kind = type(value)
        if kind in SCALARS or kind is contract.PrefixCache:
            return value
        if kind in (list, tuple, dict) or is_contract_result(value):
            return rebuilt(value, self._out)
        if issubclass(kind, _Blank):
            return Node(_NUMBER.__get__(value))
        if hasattr(kind, "__index__") and not hasattr(kind, "__len__"):
            return operator.index(value)
        if top and (isinstance(value, Sequence) or hasattr(kind, "tolist")):
            return [self._out(item) for item in value]
        return self._lend(value)

    def _lend(self, value: Any) -> Node:
        if id(value) not in self.numbers:
            self.numbers[id(value)] = ~len(self.lent)
            self.lent.append(value)  # kept, so that its id stays its own
        return Node(self.numbers[id(value)])


def rebuilt(value: Any, each: Callable[[Any], Any]) -> Any:
    """A value with `each` applied to its parts; one that has no parts as it is."""
    kind = type(value)
    if kind is int:
        return value
    if kind in (list, tuple):
        if set(map(type, value)) <= _PLAIN:
            return kind(value)  # prompts are long lists of numbers: the quick way
        return kind([each(item) for item in value])
    if kind is dict:
        return {each(key): each(item) for key, item in value.items()}
    if is_contract_result(value):
        return kind(*[each(getattr(value, part)) for part in _PARTS[kind]])
    return value


_PLAIN = frozenset(SCALARS)
_PARTS = {kind: tuple(part.name for part in fields(kind)) for kind in RESULTS}


def is_contract_result(value: Any) -> bool:
    """Whether this is one of the contract's result objects, of exactly that class."""
    return type(value) in RESULTS


def stand_ins(names: Iterable[str], line: Line) -> dict[str, Any]:
    """A stand-in for each of these exported names; all calls go through `line`."""
    desk = _Desk(line)
    return {name: _function(name, desk) if name in FUNCTIONS else _class(name, desk) for name in names}


def _function(name: str, desk: _Desk) -> Callable[..., Any]:
    signature = inspect.signature(FUNCTIONS[name])

    def function(*args: Any, **kwargs: Any) -> Any:
        return desk.ask(name, "", _positional(name, signature, (None, *args), kwargs))

    return _dressed(function, name, name, FUNCTIONS[name])


def _class(name: str, desk: _Desk) -> type:
    if name not in desk.classes:
        surface = surface_of(name)
        members: dict[str, Any] = {
            **{"__slots__": (), "__module__": "course.modules", "__doc__": PROTOCOLS[name].__doc__},
            **{"__repr__": _shown, "__reduce_ex__": _stays, "__copy__": _stays, "__deepcopy__": _stays},
            **{verb: _method(name, verb, signature, desk) for verb, signature in surface.methods.items()},
            **{verb: _property(verb, written, desk) for verb, written in surface.properties.items()},
            **({"ROOT": contract.ROOT} if name == "RadixTree" else {}),
        }
        desk.classes[name] = type(name, (_Blank,), members)
    return desk.classes[name]


def _shown(stand_in: Any) -> str:
    return f"<{type(stand_in).__name__}>"


def _stays(stand_in: Any, *_: Any) -> Any:
    raise TypeError(f"a {type(stand_in).__name__} can't be copied here: make another one")


def _method(name: str, verb: str, signature: inspect.Signature, desk: _Desk) -> Callable[..., Any]:
    called = f"{name}.{verb}" if verb != "__init__" else name

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        desk.make(self, name, _positional(called, signature, (self, *args), kwargs))

    def asked(self: Any, *args: Any, **kwargs: Any) -> Any:
        return desk.ask(_NUMBER.__get__(self), verb, _positional(called, signature, (self, *args), kwargs))

    def walked(self: Any, *args: Any, **kwargs: Any) -> Any:
        return iter(asked(self, *args, **kwargs))

    passed_on = {"__init__": made, "walk": walked}.get(verb, asked)
    return _dressed(passed_on, verb, called, getattr(PROTOCOLS[name], verb))


def _property(verb: str, written: property, desk: _Desk) -> property:
    return property(lambda self: desk.ask(_NUMBER.__get__(self), verb), doc=written.__doc__)


def _dressed(function: Callable[..., Any], name: str, qualname: str, written: Any) -> Callable[..., Any]:
    function.__name__, function.__qualname__, function.__doc__ = name, qualname, written.__doc__
    function.__module__ = "course.modules"
    return function


def _positional(
    called: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The arguments by position, without the first one, as the contract writes the call."""
    if not kwargs and len(args) == len(signature.parameters):
        return args[1:]
    try:
        return signature.bind(*args, **kwargs).args[1:]
    except TypeError as problem:
        raise TypeError(f"{called}(): {problem}") from None

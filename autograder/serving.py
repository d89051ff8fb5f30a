"""Serving calls on one implementation, so that a test sees what it does and nothing of what it is.

It knows the contract's surface: calls outside it are refused, objects stay here, and errors come out as
their nearest contract or built-in class, with one message for all. Which implementation this is, and how
calls travel, it does not know.
"""

from __future__ import annotations

import ctypes
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autograder.room import calls
from autograder.room.surface import OBJECTS, PROTOCOLS, Reply, Request, arity, rebuilt, stand_ins, surface_of
from autograder.values import RESULTS, SCALARS, NotPlain
from autograder.wire import Message, Node
from course import contract

MOST_OBJECTS = 100_000
"""So many objects may one round make."""

MOST_BLOCKS = 1 << 22
"""So large may be the numbers that all constructors of one round get, added up: memory is the grader's."""

ERRORS: tuple[type[Exception], ...] = (
    contract.PoolExhausted,
    contract.BlockStateError,
    *(AssertionError, AttributeError, IndexError, KeyError, LookupError, NotImplementedError, OverflowError),
    *(RecursionError, RuntimeError, StopIteration, TypeError, UnicodeError, ValueError, ZeroDivisionError),
    *(ArithmeticError, MemoryError, Exception),
)
"""The classes that an error may leave with: it takes the first of its own bases that is among them."""

REFUSED = "the call is refused"


class Rubbish(Exception):
    """A request that no stand-in writes; the message says what is wrong with it."""


class OutOfTime(BaseException):
    """The time of the round is over, in the middle of a call."""


@dataclass
class Serving:
    """One implementation and the objects that calls have made of it. `names` gives its exported names."""

    names: Mapping[str, Any] = field(repr=False)
    objects: list[tuple[Any, Any]] = field(default_factory=list, repr=False)
    numbers: dict[int, int] = field(default_factory=dict, repr=False)
    blocks: int = 0

    def answer(self, request: Request) -> Reply:
        """Make one call.

        Raises:
            Rubbish: the request is none that the contract's surface allows.
            Exception: what the implementation raised, made neutral.
        """
        perform, args = self._call(request)
        given = [self._in(arg) for arg in args]
        before = {place: list(arg) for place, arg in enumerate(given) if type(arg) is list}
        try:
            result = perform(*given)
            result = list(result) if request.verb == "walk" else result
        except Exception as error:
            raise neutral(error) from None
        changed = {place: self._out(given[place]) for place, items in before.items() if given[place] != items}
        return self._reply(request, result, changed)

    def _call(self, request: Request) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        target, verb, args = request.target, request.verb, request.args
        if type(target) is str and target in self.names and not verb:
            if target in PROTOCOLS:
                self._afford(args)
            return self.names[target], _checked(target, "", args)
        if type(target) is int and 0 <= target < len(self.objects):
            kind, served = self.objects[target]
            surface = surface_of(kind) if kind in PROTOCOLS else None
            if surface and verb in surface.properties and not args:
                return (lambda: getattr(served, verb)), ()
            if surface and verb in surface.methods and verb != "__init__":
                return (lambda *given: getattr(served, verb)(*given)), _checked(kind, verb, args)
        raise Rubbish(f"there is no call {verb!r} of {target!r}")

    def _afford(self, args: tuple[Any, ...]) -> None:
        """Keep one round from taking all of the grader's memory."""
        self.blocks += sum(max(arg, 0) for arg in args if type(arg) is int)
        if len(self.objects) >= MOST_OBJECTS or self.blocks > MOST_BLOCKS:
            raise Rubbish("the tests ask for more objects, or larger ones, than any test needs")

    def _in(self, value: Any) -> Any:
        if type(value) is Node and value.number >= 0:
            if value.number >= len(self.objects):
                raise Rubbish("an argument is an object that was never made")
            return self.objects[value.number][1]
        return rebuilt(value, self._in)

    def _reply(self, request: Request, value: Any, changed: Mapping[int, list[Any]]) -> Reply:
        made = OBJECTS.get(request.verb, "") if request.verb else str(request.target)
        if made in PROTOCOLS:
            return Reply(self._hold(made, value), changed, made)
        return Reply(self._out(value), changed)

    def _out(self, value: Any) -> Any:
        kind = type(value)
        if kind in SCALARS or kind in (Node, contract.PrefixCache):
            return value
        if kind in (list, tuple, dict) or kind in RESULTS:
            return rebuilt(value, self._out)
        return self._hold("", value)

    def _hold(self, kind: str, value: Any) -> Node:
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.objects)
            self.objects.append((kind, value))
        return Node(self.numbers[id(value)])


def _checked(name: str, verb: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, if the contract's call takes so many."""
    if len(args) not in arity(name, verb):
        raise Rubbish(f"{len(args)} arguments are not what {verb or name} takes")
    return args


def neutral(error: Exception) -> Exception:
    """The same kind of error, with nothing in it that tells one implementation from another."""
    if isinstance(error, contract.PoolExhausted):
        return contract.PoolExhausted(error.needed, error.available)
    kind = next(base for base in type(error).__mro__ if base in ERRORS)
    return kind(REFUSED)


def surface(names: Mapping[str, Any]) -> dict[str, Any]:
    """Stand-ins for an implementation in this process: a test sees what it would see over the wire, and no more."""
    serving = Serving(names)

    def line(request: Request) -> Reply:
        try:
            asked = calls.read_request(_carried(calls.write_request(request)))
        except NotPlain as problem:
            raise TypeError(calls.passed(problem)) from None
        return calls.read_reply(_carried(answered(serving.answer, asked)))

    return stand_ins(names, line)


def answered(answer: Callable[[Request], Reply], request: Request) -> Message:
    """The message for what a call gives or raises. A result that the contract does not know is a TypeError."""
    try:
        return calls.write_reply(answer(request))
    except Rubbish:
        raise
    except NotPlain:
        return calls.write_error(neutral(TypeError()))
    except Exception as error:
        return calls.write_error(error)


def _carried(message: Message) -> Message:
    """The message as it comes out of a wire."""
    arrived: Message = json.loads(json.dumps(message))
    return arrived


# ---------------------------------------------------------------- no call without an end


class Watch:
    """Ends a call that is still running when the time of a step is over; calls are made in the thread that made this.

    One thread watches over all steps of a round: each step sets the time anew.
    """

    def __init__(self, seconds: float) -> None:
        """Watch from now on, for so many seconds."""
        self.ends = time.monotonic() + seconds
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._inside = self._fired = self._over = self._stopped = False
        threading.Thread(target=self._watch, daemon=True).start()

    def again(self, seconds: float) -> None:
        """Watch for so many seconds from now, whatever was set before. Between calls only."""
        ends = time.monotonic() + seconds
        with self._lock:
            if self._over or ends < self.ends:
                self._changed.notify()
            self.ends, self._over = ends, False

    @property
    def left(self) -> float:
        """Seconds left; 0.0 when the time is over."""
        return max(self.ends - time.monotonic(), 0.0)

    def call(self, function: Callable[[], Any]) -> Any:
        """What the function returns. Raises OutOfTime when the time is over before it does."""
        with self._lock:
            if self._over:
                raise OutOfTime
            self._inside = True
        arrived = False
        try:
            return function()
        except OutOfTime:
            arrived = True
            raise
        finally:
            with self._lock:
                self._inside = False
            while self._fired and not arrived:  # the exception is on its way: wait for it here, not somewhere else
                time.sleep(0.001)

    def stop(self) -> None:
        """Watch no longer."""
        with self._lock:
            self._stopped = True
            self._changed.notify()

    def _watch(self) -> None:
        with self._lock:
            while not self._stopped:
                left = self.ends - time.monotonic()
                if left > 0 or self._over:
                    self._changed.wait(None if self._over else left)
                    continue
                self._over = True
                if self._inside:
                    self._fire()

    def _fire(self) -> None:
        self._fired = True
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(OutOfTime))

"""The wire: what goes in comes out, of the same type; what is not well formed is refused."""

from __future__ import annotations

import json
import math
import socket
import time
from collections import OrderedDict, namedtuple
from typing import Any

import pytest

from autograder.stories import Ref
from autograder.values import NotPlain
from autograder.wire import (
    LARGEST,
    Channel,
    Handles,
    Node,
    Silence,
    WireBroken,
    WireClosed,
    decode,
    decode_error,
    encode,
    encode_error,
    encode_walk,
    nearest,
)
from course.contract import BlockStateError, Match, PoolExhausted, PrefixCache, PrefixStats


def across(value: Any) -> Any:
    """A value after its way over the wire."""
    return decode(json.loads(json.dumps(encode(value))))


VALUES = [
    *(None, True, False, 0, -1, 2**63, -(2**64), 10**5000, 1.5, -0.0, math.inf, "", "ä\n\ud800", b"", b"\x00\xff"),
    *([], [1, 2], [True, 1], [1, [2.0, None]], (), (1,), ((1, 2), [3]), {}, {1: "a", (2, 3): [4]}, {"t": 1}),
    *(PrefixCache.HASH, Ref(3, ("blocks", 0)), Match(2, ("a", "b"), 7), Match(0, (), ("r", 0))),
    *(PrefixStats(1, 2, 3, 4, 5), [Match(1, (None,), "n")]),
]


def typed(value: Any) -> Any:
    """A value beside its type, all the way down: True is not 1."""
    if isinstance(value, list | tuple):
        return type(value), [typed(item) for item in value]
    if isinstance(value, dict):
        return dict, [(typed(key), typed(item)) for key, item in value.items()]
    return type(value), value, math.copysign(1, value) if isinstance(value, float) else 0


@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value)[:30] if value != 10**5000 else "10**5000")
def test_a_plain_value_comes_back_as_it_was(value: Any) -> None:
    assert typed(across(value)) == typed(value)


def test_not_a_number_comes_back() -> None:
    assert math.isnan(across(math.nan))


class Sly(int):
    """Equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class OwnMatch(Match):
    """A result class that is not the contract's."""


REFUSED = [
    (Sly(3), "wrap it in int()"),
    (OrderedDict(a=1), "wrap it in dict()"),
    (namedtuple("Pair", "a b")(1, 2), "wrap it in tuple()"),
    (iter([1]), "wrap it in list()"),
    ({1, 2}, "return plain values"),
    (OwnMatch(0, (), 0), "return plain values"),
    (Match(1, [1], 0), "Match.values is a list: make it a tuple"),  # type: ignore[arg-type]
    ([1, Sly(2)], "wrap it in int()"),
    (Match(Sly(1), (), 0), "wrap it in int()"),
]


@pytest.mark.parametrize(("value", "advice"), REFUSED)
def test_anything_else_is_refused_with_advice(value: Any, advice: str) -> None:
    with pytest.raises(NotPlain) as caught:
        encode(value, Handles())
    assert advice in str(caught.value)


def test_a_numpy_integer_is_refused_with_advice() -> None:
    numpy = pytest.importorskip("numpy")
    with pytest.raises(NotPlain, match=r"returned numpy.int64: wrap it in int\(\)"):
        encode([numpy.int64(3)])


# ---------------------------------------------------------------- nodes


def test_a_node_that_is_an_object_stays_and_its_number_is_the_same_each_time() -> None:
    handles, node, other = Handles(), Sly(5), object()
    first, again = (decode(encode(Match(0, (), node), handles)) for _ in range(2))
    assert first == again == Match(0, (), Node(0))
    assert decode(encode(Match(0, (), other), handles)).node == Node(1)
    assert decode(encode([first.node]), handles.thing) == [node]
    assert decode(encode(first.node), handles.thing) is node


def test_the_rows_of_a_walk_begin_with_two_nodes() -> None:
    handles, node = Handles(), object()
    row = (node, 0, (1, 2), ("a", "b"), 0, 3)
    assert decode(encode_walk([row], handles)) == [(Node(0), 0, (1, 2), ("a", "b"), 0, 3)]
    with pytest.raises(NotPlain):
        encode_walk([(node, 0, (Sly(1),), (), 0, 3)], handles)


RUBBISH = [
    *({}, {"t": 1}, {"x": []}, {"t": [], "b": ""}, {"i": 3}, {"i": "zz"}, {"b": "g"}, {"m": "other"}, {"d": [[1]]}),
    *({"d": [[[], 1]]}, {"c": ["Match", [1]]}, {"c": ["Path", []]}, {"r": [0, [None]]}, {"h": "0"}, {"h": True}),
]


@pytest.mark.parametrize("data", RUBBISH)
def test_what_encode_never_writes_is_refused(data: Any) -> None:
    with pytest.raises(WireBroken):
        decode([data])


@pytest.mark.parametrize("number", [-1, 1, True, "0", None])
def test_a_handle_that_nobody_gave_out_is_refused(number: Any) -> None:
    handles = Handles()
    handles.number(object())
    with pytest.raises(WireBroken):
        handles.thing(number)


# ---------------------------------------------------------------- exceptions

Fake = type("KeyError", (Exception,), {})
Own = type("Own", (BlockStateError,), {})
FakePool = type("PoolExhausted", (Exception,), {})


class Silent(Exception):
    """Fails even when asked for its message."""

    def __str__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize(
    ("error", "name"),
    [
        *((KeyError(3), "KeyError"), (Fake("x"), "Exception"), (Own("x"), "BlockStateError")),
        *((PoolExhausted(3, 2), "PoolExhausted"), (FakePool(3, 2), "Exception"), (SystemExit(0), "SystemExit")),
        *((KeyboardInterrupt(), "Exception"), (GeneratorExit(), "Exception"), (Silent(), "Exception")),
        *(
            (UnicodeDecodeError("ascii", b"x", 0, 1, "no"), "ValueError"),
            (ExceptionGroup("g", [ValueError()]), "Exception"),
        ),
    ],
)
def test_an_exception_travels_as_its_nearest_known_class(error: BaseException, name: str) -> None:
    assert nearest(error) == name
    back = decode_error(json.loads(json.dumps(encode_error(error))))
    assert type(back).__name__ == name
    assert type(back).__module__ in ("builtins", "course.contract")


def test_an_exception_keeps_its_message_its_numbers_and_its_place() -> None:
    back = decode_error(json.loads(json.dumps(encode_error(KeyError("seq 3"), ("cell 3", 4, "x()")))))
    assert (str(back), back.args, back.at) == ("'seq 3'", ("seq 3",), ("cell 3", 4, "x()"))  # type: ignore[attr-defined]
    pool = decode_error(encode_error(PoolExhausted(5, 2)))
    assert isinstance(pool, PoolExhausted) and (pool.needed, pool.available) == (5, 2)
    assert len(str(decode_error(encode_error(ValueError("x" * 10**6))))) <= 2000
    assert str(decode_error(encode_error(Fake("no seq")))) == "KeyError: no seq"


# ---------------------------------------------------------------- messages


@pytest.fixture
def wire() -> Any:
    """A channel, and the bare socket at its other end."""
    ours, theirs = socket.socketpair()
    yield Channel(ours), theirs
    ours.close()
    theirs.close()


def soon() -> float:
    """A deadline that is near."""
    return time.monotonic() + 0.2


def test_messages_come_whole_and_in_order(wire: Any) -> None:
    channel, other = wire
    Channel(other).send({"n": 1, "text": "a\nb"})
    other.sendall(b'{"n": 2}\n')
    assert channel.receive(soon()) == {"n": 1, "text": "a\nb"}
    with pytest.raises(WireBroken, match="out of turn"):
        channel.check_quiet()
    assert channel.receive(soon()) == {"n": 2}
    channel.check_quiet()


@pytest.mark.parametrize(
    "line", [b"hello", b"[1]", b"3", b"\xff", b'{"n": 1', b'{"n": ' + b"1" * 5000 + b"}", b"[" * 100_000]
)
def test_a_line_that_is_no_message_is_refused(wire: Any, line: bytes) -> None:
    channel, other = wire
    other.sendall(line + b"\n")
    with pytest.raises(WireBroken, match="no message"):
        channel.receive(soon())


def test_silence_and_a_closed_wire_are_told_apart(wire: Any) -> None:
    channel, other = wire
    other.sendall(b'{"n": ')
    with pytest.raises(Silence):
        channel.receive(soon())
    other.close()
    with pytest.raises(WireClosed):
        channel.receive(soon())
    with pytest.raises(WireClosed):
        channel.send({}, soon())


def test_a_message_has_a_largest_size(wire: Any) -> None:
    channel, _ = wire
    with pytest.raises(WireBroken, match="16 MiB"):
        channel.send({"text": "x" * LARGEST})
    channel._held += b"x" * (LARGEST + 1)
    with pytest.raises(WireBroken, match="16 MiB"):
        channel.receive(soon())

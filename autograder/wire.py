"""The wire between two rooms: messages as JSON lines over a socket.

It knows how messages are framed, how long they may be, and how to wait for them; `codec` writes what is
in them, and its names are to be had here, too. What a message asks for, it does not know.
"""

from __future__ import annotations

import json
import socket
import time

from autograder.codec import (
    LONGEST_TEXT,
    Handles,
    Message,
    Node,
    WireBroken,
    decode,
    decode_error,
    encode,
    encode_error,
    encode_node,
    encode_walk,
    nearest,
)

__all__ = [
    "LARGEST",
    "LONGEST_TEXT",
    "Channel",
    "Handles",
    "Message",
    "Node",
    "Silence",
    "WireBroken",
    "WireClosed",
    "decode",
    "decode_error",
    "encode",
    "encode_error",
    "encode_node",
    "encode_walk",
    "nearest",
]

_write = json.JSONEncoder(separators=(",", ":")).encode
_read = json.JSONDecoder().decode

LARGEST = 16 << 20
"""Bytes in a message, at most."""


class WireClosed(WireBroken):
    """The other side is gone."""


class Silence(BaseException):
    """Nothing came before the deadline."""


class Channel:
    """One end of a wire: whole messages, one JSON object a line, over a connected stream socket."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._held = bytearray()

    def send(self, message: Message, deadline: float | None = None) -> None:
        """Send a message. Raises WireClosed if nobody is there, Silence if it isn't taken in time."""
        data = _write(message).encode("ascii") + b"\n"
        if len(data) > LARGEST:
            raise WireBroken("a message is longer than 16 MiB")
        self._wait_until(deadline)
        try:
            self.end.sendall(data)
        except TimeoutError:
            raise Silence from None
        except OSError as problem:
            raise WireClosed("the wire is closed") from problem

    def receive(self, deadline: float | None = None) -> Message:
        """The next message, by `deadline` (of `time.monotonic()`). Raises WireBroken, WireClosed or Silence."""
        searched = 0
        while (end := self._held.find(b"\n", searched)) < 0:
            searched = len(self._held)
            if searched > LARGEST:
                raise WireBroken("a message is longer than 16 MiB")
            self._held += self._more(deadline)
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        return _parsed(line)

    def _more(self, deadline: float | None) -> bytes:
        self._wait_until(deadline)
        try:
            data = self.end.recv(1 << 18)
        except TimeoutError:
            raise Silence from None
        except OSError as problem:
            raise WireClosed("the wire is closed") from problem
        if not data:
            raise WireClosed("the wire is closed")
        return data

    def _wait_until(self, deadline: float | None) -> None:
        if deadline is None:
            self.end.settimeout(None)
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise Silence
        self.end.settimeout(left)

    def check_quiet(self) -> None:
        """Raise WireBroken if something is there that nobody asked for."""
        if self._held or self._pending():
            raise WireBroken("the process answered out of turn")

    def _pending(self) -> bool:
        self.end.settimeout(0)
        try:
            return bool(self.end.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def close(self) -> None:
        """Close this end."""
        self.end.close()


def _parsed(line: bytes) -> Message:
    try:
        message = _read(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise WireBroken("the process wrote something that is no message") from None
    if type(message) is not dict:
        raise WireBroken("the process wrote something that is no message")
    return message

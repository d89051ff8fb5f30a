"""Calls of a student's tests as messages, there and back: requests, replies, and errors.

It knows how they are written down for the wire. What a call does it does not know. What comes in is
never trusted: what is not well formed is `WireBroken`.
"""

from __future__ import annotations

from typing import Any

from autograder import wire
from autograder.room.surface import PROTOCOLS, Reply, Request
from autograder.wire import Message, WireBroken


def write_request(request: Request) -> Message:
    """A request as JSON. Raises NotPlain for what no message can carry."""
    return {"target": request.target, "verb": request.verb, "args": wire.encode(list(request.args))}


def read_request(message: Message) -> Request:
    """The request that `write_request` wrote."""
    target: Any = message.get("target")
    verb, args = message.get("verb"), wire.decode(message.get("args"))
    if type(target) not in (str, int) or type(verb) is not str or type(args) is not list:
        raise WireBroken("the process wrote something that is no call")
    return Request(target, verb, tuple(args))


def passed(problem: Exception) -> str:
    """What is wrong with an argument that no message can carry."""
    return str(problem).replace("returned", "passed", 1)


def write_reply(reply: Reply) -> Message:
    """A reply as JSON. Raises NotPlain for a result that the contract does not know."""
    message: Message = {"value": wire.encode(reply.value)}
    if reply.changed:
        message["changed"] = wire.encode(dict(reply.changed))
    return message | ({"made": reply.made} if reply.made else {})


def write_error(error: BaseException) -> Message:
    """An error as JSON."""
    return {"raised": wire.encode_error(error)}


def read_reply(message: Message) -> Reply:
    """The reply that `write_reply` wrote. Raises the error that `write_error` wrote."""
    if "raised" in message:
        raise wire.decode_error(message["raised"])
    value, changed = wire.decode(message.get("value")), wire.decode(message.get("changed", {"d": []}))
    made: Any = message.get("made", "")
    if type(changed) is not dict or (made and made not in PROTOCOLS):
        raise WireBroken("this is no reply")
    return Reply(value, changed, made)

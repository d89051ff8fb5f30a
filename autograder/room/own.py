"""The student's own tests inside the room: their cells, then one pytest session, for one implementation.

It knows the names to bind, and that every call of theirs goes over the wire. Whether a right
implementation answers there or one with a bug, how many there are, and which comes next, nobody here knows.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autograder.room import cells, pytests
from autograder.room.calls import passed, read_reply, write_request
from autograder.room.errors import explained
from autograder.room.surface import Reply, Request, stand_ins
from autograder.room.traces import no_queues, traces
from autograder.values import NotPlain
from autograder.wire import LONGEST_TEXT, Channel, Message, WireBroken
from course import modules
from course.modules import Module

WARMING = """
import pytest
from hypothesis import given, strategies as st
@given(st.lists(st.integers(0, 9)), st.booleans())
def test_property(numbers, yes): pass
@pytest.mark.parametrize("n", [1])
def test_example(n, monkeypatch):
    with pytest.raises(ValueError): raise ValueError
"""
"""Tests that make pytest and hypothesis load what they load late, once for all rounds."""


class Asking:
    """Asks the grader: one message, one answer, each with the same number; threads wait for each other."""

    def __init__(self, channel: Channel) -> None:
        self._channel, self._number, self._turn = channel, 0, threading.Lock()

    def __call__(self, message: Message) -> Message:
        """The answer to a message. Raises WireBroken if it is none."""
        with self._turn:
            self._number += 1
            self._channel.send({**message, "n": self._number})
            answer = self._channel.receive()
            if answer.get("n") != self._number:
                raise WireBroken("the answer is to another question")
            return answer

    def line(self, request: Request) -> Reply:
        """Carry a call of a stand-in to the implementation."""
        try:
            message = write_request(request)
        except NotPlain as problem:
            raise TypeError(passed(problem)) from None
        return read_reply(self({"op": "call", **message}))


@dataclass
class _Warm:
    """What is ready before any student code runs: pytest, and how the room looked then."""

    runner: pytests.Runner
    traces: Any


_warm: list[_Warm] = []


def names(module: Module) -> dict[str, Any]:
    """Warm up, before any student code runs here. No name is bound yet: each fork has a line of its own."""
    with pytests.nothing_kept():
        runner = pytests.Runner()
        space: dict[str, Any] = {}
        exec(WARMING, space)
        for item in runner.collect(space):
            runner.run(item)
    inspect.getmodule(compile("", "<nowhere>", "exec"))  # looks up the files of all modules, which it keeps
    stand_ins(module.exports, lambda request: Reply(None))  # reads the signatures of the contract, which are kept
    no_queues()
    _warm[:] = [_Warm(runner, traces())]
    return {}


def serve(channel: Channel, module: Module, space: dict[str, Any], request: Mapping[str, Any]) -> None:
    """Run the cells, then the tests, and tell the grader each step; the grader says when it is enough.

    The cells run here, not before the fork: what they leave in memory that forks share, in pipes or in
    threads would outlive the round, and the first round could tell the others what right code does.

    Args:
        channel: where the grader listens.
        module: whose tests these are.
        space: nothing is in it yet that a student wrote.
        request: the `names` to bind, the `cells` in order, and whether it `is_notebook`.
    """
    ask = Asking(channel)
    if traces() != _warm[0].traces:
        ask({"op": "used"})
        return
    bound = stand_ins(request["names"], ask.line)
    modules.bind(bound)
    space = cells.space_for(module.name, request["is_notebook"])
    space.update(bound)
    if not request["is_notebook"]:
        sys.modules[module.name] = cells.Standing(module.name)
    cells.run_cells(request["cells"], space, lambda place: _begun(ask, place), lambda place, e: _raised(ask, place, e))
    space.update(bound)
    _run_tests(ask, space)


def _begun(ask: Asking, place: str) -> None:
    ask({"op": "cell", "place": place})


def _raised(ask: Asking, place: str, error: BaseException) -> None:
    ask({"op": "raised", "message": f"{place}: {explained(error)}"})


def _run_tests(ask: Asking, space: Mapping[str, Any]) -> None:
    runner = _warm[0].runner
    try:
        items = runner.collect(space)
    except pytests.SuiteBroken as problem:
        ask({"op": "broken", "reason": str(problem)})
        return
    for item in items:
        ask({"op": "at", "test": item.name})
        did, why = runner.run(item)
        if ask({"op": "ran", "test": item.name, "did": did, "message": why[:LONGEST_TEXT]}).get("enough"):
            break
    ask({"op": "done"})

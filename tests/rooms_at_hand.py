"""Rooms for tests: over a tree whose one method does what the test says."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from autograder.remote import Bounds, Cell, Job, Part, RoomClient, Sandbox, remote_names
from autograder.sandbox import problem_here
from course.modules import find

TREE = find("ds.07")
PLACE = "mine.ipynb, cell 3"
BOTH = [
    pytest.param(Sandbox.REQUIRE, marks=pytest.mark.skipif(bool(problem_here()), reason="no bubblewrap here")),
    Sandbox.OFF,
]
"""In a sandbox, and in a plain process."""


def tree_job(body: str, top: str = "") -> Job:
    """A job whose tree does `body` in its `match_prefix(tokens)`; `top` stands above the class."""
    source = f"""\
import os, sys, time
{textwrap.dedent(top)}
class RadixTree:
    def __init__(self, granule):
        self.granule = granule
    def match_prefix(self, tokens):
{textwrap.indent(textwrap.dedent(body).strip(), " " * 8)}
    def evict(self, n):
        return ["right"] * n
"""
    return Job((Part(TREE, (Cell(source, PLACE),)),))


@contextlib.contextmanager
def room_over(
    body: str, sandbox: Sandbox, bounds: Bounds | None = None, top: str = "", seconds: float = 5.0
) -> Iterator[tuple[RoomClient, Any]]:
    """A room with a test begun in it, and the tree in that test."""
    with RoomClient(tree_job(body, top), bounds or Bounds(), sandbox) as client:
        client.start()
        yield client, new_tree(client, seconds)


def new_tree(client: RoomClient, seconds: float = 5.0) -> Any:
    """Begin a test in a room and make a tree in it."""
    client.fork(seconds)
    return remote_names(client, TREE)["RadixTree"](1)


def asked(body: str, sandbox: Sandbox, bounds: Bounds | None = None, top: str = "", tokens: Any = ()) -> Any:
    """What `match_prefix` gives in a room of its own, and that the room goes on answering after it."""
    with room_over(body, sandbox, bounds, top) as (client, tree):
        answer = tree.match_prefix(list(tokens))
        assert tree.evict(1) == ["right"]
        client.end()
        return answer

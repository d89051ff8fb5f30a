"""A look at a tree or a pool after a story: the calls that read it, and what they gave as data that can be drawn.

It knows which calls of the contract show what a structure holds. It does not know whether that is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograder.stories import Call, Outcome, Ref, Story
from autograder.telling import describe
from course.contract import ROOT
from course.pictures import Picture, draw_tree
from course.pictures.base import message
from course.pictures.pool import COUNTS, PoolState, picture_of_pool

MOST_BLOCKS = 64
"""Of a larger pool, only the first so many blocks are looked at."""

MOST_ROWS = 200
"""Of a larger tree, only the first so many nodes are kept."""

MOST_TEXT = 50_000
"""Rows that are longer than so many characters are not kept."""


def looks(story: Story) -> Story:
    """Calls that go on where the story ends and read its tree or its pool; none where it has neither."""
    made = {call.target: call for call in story if isinstance(call.target, str)}
    label = max((call.label for call in story), default=-1) + 1
    if "RadixTree" in made:
        return (Call(label, Ref(made["RadixTree"].label), "walk"),)
    if "RadixCache" in made:
        return (Call(label, Ref(made["RadixCache"].label), "tree"), Call(label + 1, Ref(label), "walk"))
    if "KvPool" in made:
        pool = made["KvPool"]
        asked: list[tuple[str, tuple[int, ...]]] = [(verb, ()) for verb in COUNTS]
        asked += [(verb, (block,)) for block in _blocks(pool) for verb in ("refcount", "fill")]
        return tuple(Call(label + place, Ref(pool.label), *question) for place, question in enumerate(asked))
    return ()


def _blocks(pool: Call) -> range:
    n = pool.args[0] if pool.args and type(pool.args[0]) is int else 0
    return range(min(n, MOST_BLOCKS))


def seen(story: Story, outcomes: Sequence[Outcome]) -> dict[str, Any] | None:
    """What the looks at a story's end gave, as plain data; None where there was nothing to look at."""
    asked = looks(story)
    if not asked:
        return None
    if wrong := next((outcome for outcome in outcomes if outcome.raised or outcome.skipped), None):
        return {"kind": "nothing", "why": describe(wrong)}
    if asked[-1].verb == "walk":
        return _tree_seen(outcomes[-1].value)
    return _pool_seen(story, outcomes)


def _tree_seen(rows: Any) -> dict[str, Any]:
    """The rows of `walk` with nodes numbered as they come, so that any node id can be written down."""
    numbers: dict[Any, int] = {ROOT: ROOT}
    try:
        told = [
            [numbers.setdefault(node, len(numbers)), numbers.setdefault(parent, len(numbers)), *map(_written, rest)]
            for node, parent, *rest in rows[:MOST_ROWS]
        ]
    except (TypeError, ValueError):
        return {"kind": "nothing", "why": f"walk() gives no rows of six: {_written(rows)!r:.200}"}
    if len(repr(told)) > MOST_TEXT:
        return {"kind": "nothing", "why": "it holds too much to be kept"}
    return {"kind": "tree", "rows": told}


def _written(value: Any) -> Any:
    """A value that can be written down as JSON, and read again: anything unusual becomes a few words."""
    if type(value) in (list, tuple):
        return [_written(item) for item in value]
    if value is None or type(value) in (bool, str) or (type(value) is int and value.bit_length() <= 64):
        return value
    return f"a value of type {type(value).__name__}"


def _pool_seen(story: Story, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    values = [_written(outcome.value) for outcome in outcomes]
    pool = next(call for call in story if call.target == "KvPool")
    counts, blocks = values[: len(COUNTS)], values[len(COUNTS) :]
    return {
        "kind": "pool",
        "block_size": pool.args[1],
        "counts": dict(zip(COUNTS, counts, strict=True)),
        "blocks": [list(pair) for pair in zip(blocks[::2], blocks[1::2], strict=True)],
    }


class _Kept:
    """A tree that only shows the rows it was given."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = rows

    def walk(self) -> Sequence[Any]:
        """The rows."""
        return self.rows


def drawn(state: dict[str, Any] | None, caption: str) -> Picture | None:
    """A picture of what was seen; None where nothing was looked at."""
    match state:
        case {"kind": "tree", "rows": rows}:
            return draw_tree(_Kept(rows), caption)
        case {"kind": "pool", "block_size": size, "counts": counts, "blocks": blocks}:
            return picture_of_pool(PoolState(size, counts, blocks), caption)
        case {"kind": "nothing", "why": why}:
            return message(f"{caption}\nIt can't be read: {why}")
        case _:
            return None

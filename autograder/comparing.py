"""Comparing outcomes: which differences between two right implementations are none.

It knows that node ids are opaque and that times of use only have an order. It does not know which of
two outcomes is right.
"""

from __future__ import annotations

from typing import Any

from autograder.stories import Call, Outcome
from autograder.values import RESULTS


def alike(call: Call, want: Outcome, have: Outcome, wanted: Nodes, got: Nodes) -> bool:
    """Two outcomes of one call agree: both raise the same error, or both give the same value."""
    if want.raised or have.raised or want.skipped or have.skipped:
        return _kind(want.raised) == _kind(have.raised) and want.skipped == have.skipped
    if call.verb == "walk":
        return bool(wanted.walk(want.value) == got.walk(have.value))
    return same_type(wanted.value(want.value), got.value(have.value)) and want.made == have.made


def _kind(raised: str) -> str:
    return "ValueError" if raised == "BlockStateError" else raised


def same_type(want: Any, have: Any) -> bool:
    """Equal, and of one type: True is not 1, a list is not a tuple."""
    return type(want) is type(have) and bool(want == have)


class Nodes:
    """Names node ids in the order in which they turn up, so that two trees with other ids can be compared."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}

    def name(self, node: Any) -> str:
        """`node 0` for the first id seen, `node 1` for the second, and so on."""
        return self.names.setdefault(node, f"node {len(self.names)}")

    def value(self, value: Any) -> Any:
        """A result with its node id, if it has one, replaced by its name."""
        if isinstance(value, RESULTS) and hasattr(value, "node"):
            return type(value)(**{**vars(value), "node": self.name(value.node)})
        return value

    def walk(self, rows: Any) -> Any:
        """A tree's rows in the order of their paths, times of use as ranks; what is malformed stays as it is."""
        try:
            paths: dict[Any, tuple[int, ...]] = {}
            for node, parent, tokens, *_ in rows:
                paths[node] = paths.get(parent, ()) + tuple(tokens)
            ranks = {used: rank for rank, used in enumerate(sorted({row[5] for row in rows}))}
            return [
                (self.name(node), paths[node], tokens, values, locks, ranks[used])
                for node, _, tokens, values, locks, used in sorted(rows, key=lambda row: paths[row[0]])
            ]
        except (TypeError, ValueError, KeyError):
            return rows

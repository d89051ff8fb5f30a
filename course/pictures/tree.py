"""The radix tree, drawn from what its `walk()` gives.

It knows rows of (node, parent, tokens, values, locks, last_used). It works on any tree, a student's
half-finished one included: where the rows are missing or make no sense, it says what is wrong in
words. What the values stand for and which class made the tree, it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from course.contract import ROOT, NodeId
from course.pictures import base
from course.pictures.base import ORANGE, NothingToDraw, Picture, ask

MOST_NODES = 40
MOST_GRANULES = 8
MOST_ROWS = 20_000
"""Beyond these a picture says how much it leaves out: nodes, granules of one node, rows read at all."""


@dataclass
class Node:
    """One node as the picture shows it. `granules` are its tokens, cut where its values cut them."""

    id: NodeId
    parent: NodeId
    granules: list[tuple[str, str]]
    locks: int
    last_used: int
    tokens: tuple[int, ...]
    children: list[Node] = field(default_factory=list)
    depth: int = 0
    notes: list[str] = field(default_factory=list)
    newest: bool = False


def draw_tree(tree: Any, caption: str = "") -> Picture:
    """Draw a radix tree, or the tree under a cache, as it is now.

    Tokens stand above the value (block id) that covers them; a path from the root spells a cached prefix.
    Looking changes nothing: no time of use, no counter. Never raises for a tree that is half-finished.
    """
    try:
        nodes = read(tree)
    except NothingToDraw as problem:
        return base.message(f"{caption}\n{problem}" if caption else str(problem))
    if not nodes:
        return base.message(f"{caption}\nThe tree is empty." if caption else "The tree is empty.")
    shown, left_out = nodes[:MOST_NODES], len(nodes) - MOST_NODES
    legend = "above: tokens, below: their block · thick blue line: used by the last match or insert"
    legend += f" · {left_out} more nodes not shown" if left_out > 0 else ""
    return _drawn(shown, as_text(shown, left_out), caption, legend)


# ---------------------------------------------------------------- reading a tree


def read(tree: Any) -> list[Node]:
    """The nodes in the order of their paths, each before its children. Raises NothingToDraw."""
    nodes: dict[NodeId, Node] = {}
    top: list[Node] = []
    for row in _rows(tree):
        node = _node(row)
        if node.id in nodes or node.id == ROOT:
            raise NothingToDraw(f"walk() gives node {node.id!r} twice; each node stands once, the root not at all.")
        if node.parent != ROOT and node.parent not in nodes:
            raise NothingToDraw(
                f"walk() gives node {node.id!r} before its parent {node.parent!r}; a parent comes before its children."
            )
        nodes[node.id] = node
        siblings = top if node.parent == ROOT else nodes[node.parent].children
        siblings.append(node)
    ordered = list(_by_path(top))
    _annotate(ordered)
    return ordered


def _rows(tree: Any) -> Sequence[Any]:
    kind = type(tree).__name__
    if not hasattr(type(tree), "walk"):
        tree = ask(lambda: tree.tree, f"{kind} has no tree to draw yet")
    rows = ask(lambda: list(islice(tree.walk(), MOST_ROWS + 1)), "The tree can't be drawn yet: walk() fails")
    if len(rows) > MOST_ROWS:
        raise NothingToDraw(f"walk() gives more than {MOST_ROWS:,} rows: too many to draw, or it never ends.")
    return rows  # type: ignore[no-any-return]


def _node(row: Any) -> Node:
    try:
        node, parent, tokens, values, locks, last_used = row
        granules = _granules(tuple(tokens), tuple(values))
        made = Node(node, parent, granules, int(locks), int(last_used), tuple(tokens))
        hash((node, parent))
    except (TypeError, ValueError) as error:
        raise NothingToDraw(
            f"walk() gives {row!r}; a row is (node, parent, tokens, values, locks, last_used) ({error})."
        ) from None
    return made


def _granules(tokens: tuple[int, ...], values: tuple[Any, ...]) -> list[tuple[str, str]]:
    if not values or len(tokens) % len(values):
        raise ValueError(f"{len(tokens)} tokens and {len(values)} values: one value for each granule")
    size = len(tokens) // len(values)
    runs = [tokens[start : start + size] for start in range(0, len(tokens), size)]
    return [(" ".join(map(str, run)), str(value)) for run, value in zip(runs, values, strict=True)]


def _by_path(top: list[Node]) -> Iterator[Node]:
    waiting = sorted(top, key=lambda node: node.tokens, reverse=True)
    while waiting:
        node = waiting.pop()
        yield node
        for child in node.children:
            child.depth = node.depth + 1
        waiting += sorted(node.children, key=lambda child: child.tokens, reverse=True)


def _annotate(nodes: list[Node]) -> None:
    """Say of each node how recently it was used, what pins it, and which one an eviction takes first."""
    times = sorted({node.last_used for node in nodes}, reverse=True)
    leaves = [node for node in nodes if not node.children and not node.locks]
    first = min(leaves, key=lambda node: node.last_used, default=None)
    for node in nodes:
        node.newest = node.last_used == times[0]
        node.notes = [_recency(times.index(node.last_used), len(times))]
        if node.locks:
            node.notes.append(f"{node.locks} lock{'s' if node.locks > 1 else ''}")
        if node is first:
            node.notes.append("evicted first")


def _recency(rank: int, ranks: int) -> str:
    if rank == 0:
        return "newest"
    return "oldest" if rank == ranks - 1 else f"{base.ordinal(rank + 1)} newest"


# ---------------------------------------------------------------- as text


def as_text(nodes: Iterable[Node], left_out: int = 0) -> str:
    """One line a node, indented by depth: `[1 2] block 10`, then recency and locks."""
    lines = ["root"]
    for node in nodes:
        runs = " ".join(f"[{tokens}]={value}" for tokens, value in _short(node.granules))
        lines.append(f"{'   ' * node.depth}└─ {runs}  ({', '.join(node.notes)})")
    if left_out > 0:
        lines.append(f"… and {left_out} more nodes")
    return "\n".join(lines)


def _short(granules: list[tuple[str, str]]) -> list[tuple[str, str]]:
    if len(granules) <= MOST_GRANULES:
        return granules
    middle = len(granules) - MOST_GRANULES + 1
    return [*granules[: MOST_GRANULES - 2], (f"… {middle} more …", "…"), granules[-1]]


# ---------------------------------------------------------------- as a drawing

CARD, PITCH, GAP, LEFT, PAD = 42.0, 74.0, 40.0, 62.0, 10.0


@dataclass(frozen=True)
class Place:
    """Where a node stands: its card's upper left corner, each granule's width, and how far its notes reach."""

    x: float
    y: float
    widths: tuple[float, ...]
    notes: float

    @property
    def right(self) -> float:
        """The card's right edge."""
        return self.x + sum(self.widths)

    @property
    def reach(self) -> float:
        """The right edge of card and notes."""
        return max(self.right, self.x + self.notes)


def _drawn(nodes: list[Node], text: str, caption: str, legend: str) -> Picture:
    places = _places(nodes)
    shapes = [_root()]
    for node in nodes:
        shapes.append(_edge(places.get(node.parent), places[node.id], node.newest))
    for node in nodes:
        shapes += _card(node, places[node.id])
    width = max(place.reach for place in places.values()) + PAD
    height = max(place.y for place in places.values()) + CARD + 22
    return base.figure(width, height, shapes, text, caption, legend)


def _places(nodes: list[Node]) -> dict[NodeId, Place]:
    """A first child stands in its parent's row, so that a prefix reads on; each further one in a row of its own."""
    places: dict[NodeId, Place] = {}
    row = -1
    taken: set[NodeId] = set()
    for node in nodes:
        widths = tuple(max(len(tokens), len(value)) * base.CHAR + 18 for tokens, value in _short(node.granules))
        if node.parent in taken or row < 0:
            row += 1
        taken.add(node.parent)
        before = places.get(node.parent)
        x = (before.reach if before else LEFT) + GAP
        notes = len(" · ".join(node.notes)) * 6.1 + (16 if node.locks else 0)
        places[node.id] = Place(x, PAD + row * PITCH, widths, notes)
    return places


def _root() -> str:
    return base.box(PAD, PAD + CARD / 2 - 12, LEFT - PAD, 24, radius=12) + base.label(
        (PAD + LEFT) / 2, PAD + CARD / 2 + 4.5, "root"
    )


def _edge(start: Place | None, end: Place, newest: bool) -> str:
    x, y = (start.right, start.y + CARD / 2) if start else (LEFT, PAD + CARD / 2)
    down = end.y + CARD / 2
    turn = end.x - GAP / 2
    commands = f"M{x:g} {y:g} H{end.x:g}" if down == y else f"M{x:g} {y:g} H{turn:g} V{down:g} H{end.x:g}"
    return base.path(commands, _line(newest))


def _line(newest: bool, dashed: bool = False) -> str:
    if newest:
        return base.THICK + (' stroke-dasharray="5 4"' if dashed else "")
    return base.DASHED if dashed else base.THIN


def _card(node: Node, place: Place) -> list[str]:
    fill = f'fill="{ORANGE}" fill-opacity=".16"' if node.locks else ""
    dashed = "evicted first" in node.notes
    shapes = [
        base.box(place.x, place.y, place.right - place.x, CARD, line=_line(node.newest, dashed), fill=fill),
    ]
    x = place.x
    for number, ((tokens, value), width) in enumerate(zip(_short(node.granules), place.widths, strict=True)):
        if number:
            shapes.append(base.path(f"M{x:g} {place.y:g} v{CARD:g}", 'stroke="currentColor" stroke-opacity=".3"'))
        shapes.append(base.label(x + width / 2, place.y + 17, tokens, mono=True))
        shapes.append(base.label(x + width / 2, place.y + 34, value, size=12, style="opacity:.8"))
        x += width
    return shapes + _notes(node, place)


def _notes(node: Node, place: Place) -> list[str]:
    y = place.y + CARD + 15
    indent = 15 if node.locks else 1
    shapes = [base.padlock(place.x + 1, y - 11)] if node.locks else []
    style = "text-anchor:start"
    return [*shapes, base.label(place.x + indent, y, " · ".join(node.notes), size=11.5, style=style)]

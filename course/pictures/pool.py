"""A block pool as a grid of its blocks: who is free, used or cached, the references, how much is written, the name.

It knows the calls of the contract that look at a pool and change nothing. It works on any pool, a student's
half-finished one included: what can't be asked is a question mark, and a sentence below says why. Which
sequence holds a block, and whether an answer is right, it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from course.pictures import base
from course.pictures.base import BOLD, END, START, NothingToDraw, Picture, ask, said

COUNTS = ("n_free", "n_used", "n_cached", "n_named", "evictions")

MOST_BLOCKS = 64
"""Of a larger pool the first so many blocks are drawn, and a sentence says how many are left out."""

FREE, USED, CACHED, UNKNOWN = "free", "used", "cached", "?"
LINES = {FREE: base.DASHED, USED: base.THICK, CACHED: base.DOTTED, UNKNOWN: base.THIN}
LEGEND = "ρ: references · bar: positions written · dashed: free, thick: used, dotted: cached"


@dataclass(frozen=True)
class PoolState:
    """A pool as its calls show it: the block size, the five counts, and (references, positions written) a block.

    `names` are the blocks' names where they are known, `notes` what could not be asked, `left_out` the
    number of blocks that were not looked at.
    """

    block_size: Any
    counts: Mapping[str, Any]
    blocks: Sequence[Sequence[Any]]
    names: Mapping[int, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    left_out: int = 0

    def word(self, block: int) -> str:
        """Free, used, cached or unknown.

        No call says which blocks are cached. But a named block is full and a free one is empty (L10.1),
        so at no references the positions written tell the two apart.
        """
        refs, fill = self.blocks[block]
        if not _is_count(refs):
            return UNKNOWN
        if refs:
            return USED
        if block in self.names or (fill == self.block_size and _is_count(fill)):
            return CACHED
        empty = fill == 0 if _is_count(fill) else self.counts.get("n_cached") == 0
        return FREE if empty else UNKNOWN


def draw_pool(pool: Any, caption: str = "", names: Iterable[int] = ()) -> Picture:
    """Draw a block pool as it is now. Looking takes no reference; never raises for a half-finished class.

    Args:
        pool: anything with the calls of `KvPool`.
        caption: a line above the picture.
        names: block names to look for; a block that has one of them shows its beginning.
    """
    try:
        return picture_of_pool(read(pool, names), caption)
    except NothingToDraw as problem:
        return base.message(f"{caption}\n{problem}" if caption else str(problem))


def picture_of_pool(state: PoolState, caption: str = "") -> Picture:
    """A pool that has been looked at, as a grid."""
    if not state.blocks:
        return base.message(f"{caption}\nThe pool has no blocks." if caption else "The pool has no blocks.")
    grid = Grid(state)
    return base.figure(grid.width, grid.height, grid.shapes(), as_text(state), caption, legend(state))


# ---------------------------------------------------------------- reading a pool


def read(pool: Any, names: Iterable[int] = ()) -> PoolState:
    """Ask a pool for everything that a picture shows. Raises NothingToDraw where it can't even be counted."""
    kind = type(pool).__name__
    total = ask(lambda: pool.n_blocks, f"{kind} can't be drawn yet: it has no n_blocks")
    if not _is_count(total):
        raise NothingToDraw(
            f"{kind} can't be drawn yet: n_blocks is {said(total)}, and it should be a number of blocks."
        )
    if not total:
        raise NothingToDraw("The pool has no blocks.")
    asked = _Asked(pool)
    shown = range(min(total, MOST_BLOCKS))
    size = asked.value("block_size")
    counts = {name: asked.value(name) for name in COUNTS}
    blocks = [(asked.call("refcount", block), asked.call("fill", block)) for block in shown]
    found = {asked.call("find", name): name for name in names}
    named = {block: name for block, name in found.items() if _is_count(block)}
    state = PoolState(size, counts, blocks, named, asked.told, total - len(shown))
    return PoolState(size, counts, blocks, named, (*state.notes, *_disagreements(state)), state.left_out)


class _Asked:
    """A pool's answers; what raises or is no number is None, with one note for each call that does so."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.missing: list[str] = []
        self.notes: dict[str, str] = {}

    @property
    def told(self) -> tuple[str, ...]:
        """What could not be asked, a sentence each."""
        missing = f"{type(self.pool).__name__} has no {', '.join(self.missing)} yet."
        return (*((missing,) if self.missing else ()), *self.notes.values())

    def value(self, name: str) -> Any:
        """A property."""
        return self._of(name, name, lambda: getattr(self.pool, name))

    def call(self, name: str, argument: int) -> Any:
        """A call with one argument. `find` may say None."""
        shown = argument if name != "find" else base.short_name(argument)
        return self._of(name, f"{name}({shown})", lambda: getattr(self.pool, name)(argument))

    def _of(self, name: str, told: str, question: Any) -> Any:
        if name in self.missing:
            return None
        try:
            answer = ask(question, f"{told} can't be asked yet")
        except NothingToDraw as problem:
            if isinstance(problem.__cause__, AttributeError) and not hasattr(type(self.pool), name):
                self.missing.append(name)
            else:
                self.notes.setdefault(name, str(problem))
            return None
        if _is_count(answer) or (answer is None and name == "find"):
            return answer
        self.notes.setdefault(name, f"{told} gives {said(answer)}, which is no number of 0 or more.")
        return None


def _disagreements(state: PoolState) -> list[str]:
    """Where the counts say something else than the blocks: usually a mistake worth seeing."""
    words = [state.word(block) for block in range(len(state.blocks))]
    if UNKNOWN in words or state.left_out:
        return []
    counted = {f"n_{word}": words.count(word) for word in (FREE, USED, CACHED)}
    return [
        f"{name} is {state.counts[name]}, but {n} of the blocks drawn {'is' if n == 1 else 'are'} {name[2:]}."
        for name, n in counted.items()
        if state.counts[name] is not None and state.counts[name] != n
    ]


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


# ---------------------------------------------------------------- as text


def as_text(state: PoolState) -> str:
    """A line for each block, free ones in a row together; then the counts and whatever could not be asked."""
    told = [(state.word(block) == FREE, block) for block in range(len(state.blocks))]
    rows: list[str] = []
    for free, run in groupby(told, key=lambda pair: pair[0]):
        blocks = [block for _, block in run]
        rows += [_free(blocks)] if free else [_row(state, block) for block in blocks]
    return "\n".join([*rows, counts_of(state), *_notes(state)])


def _free(blocks: Sequence[int]) -> str:
    """Free blocks are all alike: however many follow each other, they take a line."""
    return f"block {blocks[0]:2}  free" if len(blocks) == 1 else f"blocks {blocks[0]} to {blocks[-1]}  free"


def legend(state: PoolState) -> str:
    """The lines below a drawing."""
    return "\n".join([LEGEND, counts_of(state), *_notes(state)])


def counts_of(state: PoolState) -> str:
    """The pool's own counts in a line."""
    return ", ".join(f"{name} {_mark(state.counts.get(name))}" for name in COUNTS)


def _notes(state: PoolState) -> list[str]:
    more = [f"… and {state.left_out:,} more blocks, not shown"] if state.left_out else []
    return [*more, *state.notes]


def _row(state: PoolState, block: int) -> str:
    refs, fill = state.blocks[block]
    written = f"{_bar(fill, state.block_size):6}  {_mark(fill)} of {_mark(state.block_size)} written"
    name = f"  {base.short_name(state.names[block])}" if block in state.names else ""
    return f"block {block:2}  {written}  references: {_mark(refs)}  {state.word(block)}{name}"


def _bar(fill: Any, size: Any) -> str:
    known = _is_count(fill) and _is_count(size) and fill <= size <= MOST_SLOTS
    return "█" * fill + "·" * (size - fill) if known else ""


def _mark(value: object) -> str:
    return "?" if value is None else said(value)


# ---------------------------------------------------------------- as a drawing

WIDTH, GAP, PAD = 96.0, 10.0, 10.0
ACROSS = 8
MOST_SLOTS = 16
"""Of a larger block the bar is one piece, not a slot for each position."""


@dataclass(frozen=True)
class Grid:
    """A pool's blocks in rows of eight. `marks` are further words in a block's cell; `top` moves all of it down."""

    state: PoolState
    marks: Mapping[int, str] = field(default_factory=dict)
    top: float = PAD

    @property
    def cell(self) -> float:
        """A cell's height: a line more where a block has a name, and one more where it has a mark."""
        return 56 + 16 * (bool(self.state.names) + bool(self.marks))

    @property
    def width(self) -> float:
        """The drawing's width in pixels."""
        return min(len(self.state.blocks), ACROSS) * (WIDTH + GAP) - GAP + 2 * PAD

    @property
    def height(self) -> float:
        """Where the grid ends."""
        rows = -(-len(self.state.blocks) // ACROSS)
        return self.top + rows * (self.cell + GAP) - GAP + PAD

    def corner(self, block: int) -> tuple[float, float]:
        """The upper left corner of a block's cell."""
        row, column = divmod(block, ACROSS)
        return PAD + column * (WIDTH + GAP), self.top + row * (self.cell + GAP)

    def shapes(self) -> list[str]:
        """All cells."""
        return [shape for block in range(len(self.state.blocks)) for shape in self._cell(block)]

    def _cell(self, block: int) -> list[str]:
        x, y = self.corner(block)
        refs, fill = self.state.blocks[block]
        word, size = self.state.word(block), self.state.block_size
        tint = f'fill="{base.BLUE}" fill-opacity=".12"' if word == USED else 'fill="none"' if word == FREE else ""
        right = x + WIDTH - 8
        shapes = [
            base.box(x, y, WIDTH, self.cell, line=LINES[word], fill=tint),
            base.label(x + 8, y + 17, str(block), mono=True, style=START + BOLD),
            base.label(right, y + 17, f"ρ {_mark(refs)}", size=12, mono=True, style=END),
            base.label(x + 8, y + 33, word, size=12, style=START),
            base.label(right, y + 33, f"{_mark(fill)}/{_mark(size)}", size=11, mono=True, style=END),
            *bar(x + 8, y + 40, WIDTH - 16, fill, size),
        ]
        lines = [base.short_name(self.state.names[block])] if block in self.state.names else []
        lines += [self.marks[block]] if block in self.marks else []
        shapes += [base.label(x + 8, y + 64 + 16 * n, line, size=11, style=START) for n, line in enumerate(lines)]
        return shapes


def bar(x: float, y: float, width: float, fill: Any, size: Any) -> list[str]:
    """How much of a block is written: a slot for each position, or one bar if there are many; none if unknown."""
    if not (_is_count(fill) and _is_count(size) and fill <= size and size):
        return []
    slots = size if size <= MOST_SLOTS else 1
    step = width / slots
    full, empty = 'fill="currentColor" fill-opacity=".65"', 'fill="none"'
    thin = 'stroke="currentColor" stroke-opacity=".45"'
    if slots == 1:
        part = base.box(x, y, width * fill / size, 8, line='stroke="none"', fill=full, radius=1.5)
        return [base.box(x, y, width, 8, line=thin, fill=empty, radius=1.5), part]
    return [
        base.box(x + n * step, y, step - 2, 8, line=thin, fill=full if n < fill else empty, radius=1.5)
        for n in range(slots)
    ]

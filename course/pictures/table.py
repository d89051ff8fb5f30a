"""A sequence's block table over the pool's grid: which block holds which positions, and which are shared.

It knows a list of block ids and a pool. Which request the table belongs to, and how it came about, it does
not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from course.pictures import base
from course.pictures.base import BOLD, START, NothingToDraw, Picture, ask, said
from course.pictures.pool import ACROSS, GAP, PAD, WIDTH, Grid, PoolState, as_text, legend, read

MOST_ENTRIES = 64
ENTRY, BETWEEN = 58.0, 44.0
"""Of a longer table the first so many blocks are drawn. Heights in pixels: an entry, and the way to the grid."""


def draw_block_table(pool: Any, table: Sequence[int], caption: str = "", names: Iterable[int] = ()) -> Picture:
    """Draw a sequence's blocks in the order of its positions, above the pool that they lie in.

    A block with two references or more is marked as shared: with another sequence, or with a radix cache.
    Never raises for a half-finished class.

    Args:
        pool: anything with the calls of `KvPool`.
        table: block ids, such as `manager.block_table(seq)` gives.
        caption: a line above the picture.
        names: block names to look for, as in `draw_pool`.
    """
    try:
        entries, more = _entries(table)
        state = read(pool, names)
    except NothingToDraw as problem:
        return base.message(f"{caption}\n{problem}" if caption else str(problem))
    state = replace(state, notes=(*state.notes, *more, *_odd(entries, state)))
    text = "\n".join([*_rows(entries, state), "", as_text(state)])
    return _drawn(entries, state, text, caption)


# ---------------------------------------------------------------- reading a table


def _entries(table: Any) -> tuple[list[int], list[str]]:
    ids = ask(lambda: list(islice(table, MOST_ENTRIES + 1)), f"The table is {said(table)}, not a list of block ids")
    if wrong := [block for block in ids if type(block) is not int]:
        raise NothingToDraw(f"The table holds {said(wrong[0])}; it should hold block ids.")
    more = ["… and further blocks of the table, not shown"] if len(ids) > MOST_ENTRIES else []
    return ids[:MOST_ENTRIES], more


def _odd(entries: list[int], state: PoolState) -> list[str]:
    """What no table should hold."""
    total = len(state.blocks) + state.left_out
    outside = [f"Block {block} is not in this pool: 0 to {total - 1}." for block in entries if not 0 <= block < total]
    twice = [f"Block {block} stands {n} times in the table." for block, n in Counter(entries).items() if n > 1]
    loose = [
        f"Block {block} is in the table, but no reference is held on it."
        for block in dict.fromkeys(entries)
        if 0 <= block < len(state.blocks) and state.blocks[block][0] == 0
    ]
    return [*outside, *twice, *loose]


def _positions(place: int, state: PoolState) -> str:
    size = state.block_size
    if size is None:
        return "positions ?"
    first, last = place * size, (place + 1) * size - 1
    return f"positions {first} to {last}" if size > 1 else f"position {first}"


def _sharers(block: int, state: PoolState) -> int:
    """The references on a shared block; 0 for a block that is not shared, or not known."""
    refs = state.blocks[block][0] if 0 <= block < len(state.blocks) else None
    return refs if refs is not None and refs > 1 else 0


# ---------------------------------------------------------------- both forms


def _rows(entries: list[int], state: PoolState) -> list[str]:
    if not entries:
        return ["The table is empty."]
    rows = []
    for place, block in enumerate(entries):
        refs = _sharers(block, state)
        shared = f" (shared, {refs} references)" if refs else ""
        rows.append(f"table {place}: {_positions(place, state)} in block {block}{shared}")
    return rows


def _drawn(entries: list[int], state: PoolState, text: str, caption: str) -> Picture:
    rows = -(-len(entries) // ACROSS)
    top = PAD + rows * (ENTRY + GAP) - GAP + BETWEEN if entries else PAD + 24
    grid = Grid(state, _marks(entries), top)
    shapes = [] if entries else [base.label(PAD, PAD + 12, "The table is empty.", style=START)]
    for place, block in enumerate(entries):
        shapes += _entry(place, block, state)
        shapes += _way(place, block, rows, grid)
    width = max(grid.width, min(len(entries), ACROSS) * (WIDTH + GAP) - GAP + 2 * PAD)
    below = "above: the table, in the order of positions · below: the pool\n" + legend(state)
    return base.figure(width, grid.height, [*shapes, *grid.shapes()], text, caption, below)


def _marks(entries: list[int]) -> Mapping[int, str]:
    places: dict[int, list[str]] = {}
    for place, block in enumerate(entries):
        places.setdefault(block, []).append(str(place))
    return {block: f"table {', '.join(at)}" for block, at in places.items()}


def _corner(place: int) -> tuple[float, float]:
    row, column = divmod(place, ACROSS)
    return PAD + column * (WIDTH + GAP), PAD + row * (ENTRY + GAP)


def _entry(place: int, block: int, state: PoolState) -> list[str]:
    x, y = _corner(place)
    refs = _sharers(block, state)
    positions = _positions(place, state).split(" ", 1)[1].replace(" to ", "–")
    tint = f'fill="{base.ORANGE}" fill-opacity=".16"' if refs else ""
    return [
        base.box(x, y, WIDTH, ENTRY, fill=tint),
        base.label(x + 8, y + 17, f"table {place}", size=12, style=START + BOLD),
        base.label(x + 8, y + 33, f"{positions} → {block}", mono=True, size=11, style=START),
        base.label(x + 8, y + 49, f"shared, ρ {refs}" if refs else "own", size=11.5, style=START),
    ]


def _way(place: int, block: int, rows: int, grid: Grid) -> list[str]:
    """An arrow to the block's cell, where no other cell lies in between; elsewhere the numbers say it."""
    if rows > 1 or not 0 <= block < min(ACROSS, len(grid.state.blocks)):
        return []
    x, y = _corner(place)
    to_x, to_y = grid.corner(block)
    return [base.arrow(x + WIDTH / 2, y + ENTRY, to_x + WIDTH / 2, to_y - 2)]

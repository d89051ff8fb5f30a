"""A hash chain: how a block's name is made from the name before it and the block's own tokens.

It knows runs of tokens and a function that names a block. Whether any pool holds such a block it does not
know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course import modules
from course.pictures import base
from course.pictures.base import BOLD, NothingToDraw, Picture, ask, said

MOST_LINKS, MOST_TOKENS = 12, 8
"""Of a longer chain the first so many blocks are drawn; of a larger block so many of its tokens."""

NameOf = Callable[[int, Sequence[int]], int]


@dataclass(frozen=True)
class Link:
    """One full block: the name before it, its tokens, its own name; None where a name can't be had."""

    parent: int | None
    tokens: tuple[int, ...]
    name: int | None


def draw_chain(tokens: Sequence[int], block_size: int, caption: str = "", name_of: NameOf | None = None) -> Picture:
    """Draw the names of a prompt's full blocks, each one made from its parent's (L10.4, section 2.1).

    Args:
        tokens: the prompt.
        block_size: tokens in a block.
        caption: a line above the picture.
        name_of: what names a block, `kv_block_hash(parent, tokens)` by default. Where it isn't written yet
            or fails, a sentence in the picture says so.
    """
    try:
        ids, size = _run(tokens, block_size)
        links, notes = _links(ids, size, name_of)
    except NothingToDraw as problem:
        return base.message(f"{caption}\n{problem}" if caption else str(problem))
    tail = ids[len(ids) // size * size :]
    more = len(ids) // size - len(links)
    notes += [f"… and {more} more blocks, not shown"] if more else []
    return _drawn(links, () if more else tail, notes, caption)


def _run(tokens: Any, size: Any) -> tuple[tuple[int, ...], int]:
    ids = ask(lambda: tuple(tokens), f"The prompt is {said(tokens)}, not a list of tokens")
    if type(size) is not int or size < 1:
        raise NothingToDraw(f"The block size is {said(size)}; a block has 1 token or more.")
    if wrong := [token for token in ids if type(token) is not int]:
        raise NothingToDraw(f"The prompt holds {said(wrong[0])}; it should hold token ids.")
    return ids, size


def _links(ids: tuple[int, ...], size: int, name_of: NameOf | None) -> tuple[list[Link], list[str]]:
    """The chain as far as it can be named: after a block without a name, none has one."""
    links: list[Link] = []
    notes: list[str] = []
    name: int | None = 0
    for start in range(0, min(len(ids) // size, MOST_LINKS) * size, size):
        parent, run = name, ids[start : start + size]
        if parent is not None:
            name, note = _name(parent, run, name_of)
            notes += [note] if note else []
        links.append(Link(parent, run, name))
    return links, notes


def _name(parent: int, run: tuple[int, ...], name_of: NameOf | None) -> tuple[int | None, str]:
    try:
        name = ask(lambda: (name_of or modules.kv_block_hash)(parent, list(run)), "A block can't be named yet")
    except NothingToDraw as problem:
        return None, str(problem)
    if type(name) is not int or name < 0:
        return None, f"A block's name is {said(name)}; it should be a number of 0 or more."
    return name, ""


# ---------------------------------------------------------------- as text


def _text(links: list[Link], tail: tuple[int, ...], notes: list[str]) -> str:
    rows = [
        f"block {place}: parent {_full(link.parent)} + tokens {_told(link.tokens)} gives {_full(link.name)}"
        for place, link in enumerate(links)
    ]
    rows += [f"tokens {_told(tail)} fill no block: no name"] if tail else []
    return "\n".join([*(rows or ["No tokens, no block."]), *notes])


def _full(name: int | None) -> str:
    return "?" if name is None else base.full_name(name)


def _told(tokens: tuple[int, ...]) -> str:
    if len(tokens) > MOST_TOKENS:
        return f"{' '.join(map(str, tokens[: MOST_TOKENS - 2]))} … {tokens[-1]}"
    return " ".join(map(str, tokens))


# ---------------------------------------------------------------- as a drawing

CARD, WAY, PAD, ROOM = 70.0, 66.0, 10.0, 26.0
PARENT = 46.0
"""Pixels: a card's height, the way between cards, the edge, the space around a card's text, the first parent."""


def _drawn(links: list[Link], tail: tuple[int, ...], notes: list[str], caption: str) -> Picture:
    middle = PAD + CARD / 2
    shapes = [base.box(PAD, middle - 13, PARENT, 26, radius=13), base.label(PAD + PARENT / 2, middle + 4.5, "0")]
    x = PAD + PARENT
    for place, link in enumerate(links):
        shapes += [base.arrow(x, middle, x + WAY, middle), base.label(x + WAY / 2, middle - 6, "parent", size=11)]
        lines = (_told(link.tokens), "?" if link.name is None else base.short_name(link.name))
        width = _width(lines)
        shapes += _card(x + WAY, width, f"block {place}", lines)
        x += WAY + width
    if tail:
        lines = (_told(tail), "not full: no name")
        shapes += _card(x + WAY, _width(lines), f"block {len(links)}", lines, line=base.DASHED, fill='fill="none"')
        x += WAY + _width(lines)
    legend = "in a card: the block's tokens, and its name, made from them and from its parent's name"
    legend = "\n".join([legend, *notes])
    return base.figure(x + PAD, CARD + 2 * PAD, shapes, _text(links, tail, notes), caption, legend)


def _width(lines: Sequence[str]) -> float:
    return max(len(line) for line in lines) * base.CHAR + ROOM


def _card(x: float, width: float, title: str, lines: Sequence[str], line: str = "", fill: str = "") -> list[str]:
    middle = x + width / 2
    return [
        base.box(x, PAD, width, CARD, line=line, fill=fill),
        base.label(middle, PAD + 18, title, size=12, style="opacity:.8"),
        base.label(middle, PAD + 38, lines[0], mono=True),
        base.label(middle, PAD + 58, lines[1], mono=True, style=BOLD),
    ]

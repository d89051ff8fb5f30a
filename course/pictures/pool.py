"""A block pool, as a table of its blocks: how many hold each one, and how much of it is written.

It knows the counts and two numbers a block. Which pool they come from, and whether they are right, it
does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from course.pictures.base import MONO, SANS, Picture

COUNTS = ("n_free", "n_used", "n_cached", "n_named", "evictions")


@dataclass(frozen=True)
class PoolState:
    """A pool as its calls show it: the block size, the five counts, and (references, positions written) a block."""

    block_size: Any
    counts: Mapping[str, Any]
    blocks: Sequence[Sequence[Any]]


def picture_of_pool(state: PoolState, caption: str = "") -> Picture:
    """One row a block, and the counts below."""
    rows = [_row(block, refs, fill, state.block_size) for block, (refs, fill) in enumerate(state.blocks)]
    counts = ", ".join(f"{name} {state.counts.get(name)}" for name in COUNTS)
    text = "\n".join([*([caption] if caption else []), *("  ".join(row) for row in rows), counts])
    return Picture(_html(rows, counts, caption), text)


def _row(block: int, refs: Any, fill: Any, size: Any) -> tuple[str, str, str, str]:
    plain = type(fill) is int and type(size) is int and 0 <= fill <= size <= 32
    bar = "█" * fill + "·" * (size - fill) if plain else ""
    return f"block {block:2}", f"{bar or '?':6}", f"{fill} of {size} written", f"references: {refs}"


def _html(rows: Sequence[Sequence[str]], counts: str, caption: str) -> str:
    cell = f"padding:.1em .9em .1em 0; text-align:left; font:12.5px/1.4 {MONO}"
    body = "".join(
        "<tr>" + "".join(f'<td style="{cell}">{escape(part)}</td>' for part in row) + "</tr>" for row in rows
    )
    title = f'<figcaption style="font-weight:600; margin-bottom:.3em">{escape(caption)}</figcaption>' if caption else ""
    return (
        f'<figure style="margin:.5em 0; font-family:{SANS}; color:inherit; break-inside:avoid">{title}'
        f'<table style="border-collapse:collapse; color:inherit">{body}</table>'
        f'<div style="font-size:.85em; opacity:.8; margin-top:.3em">{escape(counts)}</div></figure>'
    )

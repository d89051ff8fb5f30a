"""Attention over paged K and V in which every product has the same shape, for devices that pick a kernel by shape.

One query tile of one sequence at a time against one key tile, all heads together; the last tile of each kind is
filled up, and a key tile that no row of a query tile may see is left out. Each tile lies in memory as any other
does. So neither the length of a sequence, nor of a chunk, nor what else the step holds can choose a kernel. It
knows block tables and tiles; the rest of the model it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course.engine.online_softmax import walk_keys
from course.engine.step import Chunk
from course.engine.tiling import Shape, Tile, fill_up, slots_of


@dataclass(frozen=True)
class ChunkTiles:
    """The tiles of one chunk.

    Attributes:
        rows: [query tiles, kv heads, query_rows] where each query is, in rows of head_dim.
        entries: [key tiles, kv heads, key_positions] where each key is, in rows of head_dim.
        masks: for each query tile what is added to the scores of each key tile that it may see, 0 or -inf; None where
            it sees all of one.
    """

    rows: Tensor
    entries: Tensor
    masks: tuple[tuple[Tensor | None, ...], ...]


@dataclass(frozen=True)
class OneShape:
    """Attention of one step, planned once for all layers; `back` says where each row's result is among the tiles."""

    chunks: tuple[ChunkTiles, ...]
    back: Tensor

    def __call__(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention of one layer for all rows of the step; arguments and result as for `ManyTiles`."""
        n_rows, n_heads, head_dim = queries.shape
        q, k, v = (tensor.reshape(-1, head_dim) for tensor in (queries, keys, values))
        done = [result for chunk in self.chunks for result in _chunk_attention(q, k, v, chunk)]
        return torch.cat(done).view(-1, head_dim).index_select(0, self.back).view(n_rows, n_heads * head_dim)


# ---------------------------------------------------------------- planning a step


def plan_one_shape(
    chunks: Sequence[Chunk], firsts: Sequence[int], n_rows: int, shape: Shape, tile: Tile, device: torch.device
) -> OneShape:
    """Plan a step of these chunks, each given with the row of its first position."""
    planned = tuple(_plan(chunk, first, shape, tile, device) for chunk, first in zip(chunks, firsts, strict=True))
    return OneShape(planned, _back(chunks, firsts, n_rows, shape, tile).to(device))


def _plan(chunk: Chunk, first: int, shape: Shape, tile: Tile, device: torch.device) -> ChunkTiles:
    each, heads = shape.heads_each, torch.arange(shape.n_kv_heads)[:, None]
    used = len(chunk.tokens) * each
    inside = torch.arange(fill_up(used, tile.query_rows)).clamp(max=used - 1).view(-1, 1, tile.query_rows)
    rows = (first + inside // each) * shape.n_heads + heads * each + inside % each
    slots = slots_of(chunk, torch.arange(fill_up(chunk.end, tile.key_positions)), shape.block_size)
    entries = slots.view(-1, 1, tile.key_positions) * shape.n_kv_heads + heads
    starts = range(0, used, tile.query_rows)
    return ChunkTiles(
        rows.to(device),
        entries.to(device),
        tuple(tuple(_masks(chunk, start, used, each, tile, device)) for start in starts),
    )


def _masks(chunk: Chunk, start: int, used: int, each: int, tile: Tile, device: torch.device) -> Iterator[Tensor | None]:
    """What hides keys that come after a row's own position, for the key tiles that any row of this tile may see."""
    last_row = min(start + tile.query_rows, used) - 1
    lowest, highest = chunk.start + start // each, chunk.start + last_row // each
    rows = torch.arange(start, start + tile.query_rows, device=device).clamp(max=last_row)
    seen_up_to = chunk.start + rows // each
    for first in range(0, highest + 1, tile.key_positions):
        if first + tile.key_positions - 1 <= lowest:
            yield None
            continue
        hidden = torch.arange(first, first + tile.key_positions, device=device) > seen_up_to[:, None]
        yield torch.zeros(hidden.shape, device=device).masked_fill(hidden, float("-inf"))


def _back(chunks: Sequence[Chunk], firsts: Sequence[int], n_rows: int, shape: Shape, tile: Tile) -> Tensor:
    """Where the result of each [row, head] is, in rows of head_dim; rows that fill the step up get the first's."""
    each, heads = shape.heads_each, torch.arange(shape.n_heads)
    back, tiles = torch.zeros((n_rows, shape.n_heads), dtype=torch.long), 0
    for chunk, first in zip(chunks, firsts, strict=True):
        inside = torch.arange(len(chunk.tokens))[:, None] * each + heads % each
        which = (tiles + inside // tile.query_rows) * shape.n_kv_heads + heads // each
        back[first : first + len(chunk.tokens)] = which * tile.query_rows + inside % tile.query_rows
        tiles += -(-len(chunk.tokens) * each // tile.query_rows)
    return back.flatten()


# ---------------------------------------------------------------- computing


def _chunk_attention(queries: Tensor, keys: Tensor, values: Tensor, chunk: ChunkTiles) -> Iterator[Tensor]:
    """The result of each query tile, [kv heads, query_rows, head_dim]; the arguments are rows of head_dim."""
    tiles, k, v = (
        flat.index_select(0, where.flatten()).view(*where.shape, -1)
        for flat, where in ((queries, chunk.rows), (keys, chunk.entries), (values, chunk.entries))
    )
    for tile, masks in zip(tiles, chunk.masks, strict=True):
        yield walk_keys(tile, k, v, masks, torch.bmm)

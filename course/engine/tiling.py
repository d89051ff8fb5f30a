"""How a step is cut into pieces of fixed size, so that what a row computes never depends on what else there is.

A kernel may sum in another order for another shape, and which shapes it treats alike differs by device. Plain data:
which calls need which pieces model.py and the two files on attention know; whether a device is content invariance.py
tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from course.engine.step import Chunk


@dataclass(frozen=True)
class Tile:
    """One product of attention: so many query rows (a row is one position of one query head) by so many keys."""

    query_rows: int
    key_positions: int


@dataclass(frozen=True)
class Tiling:
    """How a step is cut.

    Attributes:
        rows: what the rows of a step are filled up to a multiple of.
        pieces: whether each call over rows gets exactly `rows` of them, piece by piece; else all of a step's at once.
        tile: the one shape of every product in attention; None for tiles of 16 by 128, as many at once as there are.
    """

    rows: int = 16
    pieces: bool = False
    tile: Tile | None = None


MANY_AT_ONCE = Tiling()
"""For a CPU. Measured with torch 2.13: a row of `x @ W.T` keeps its bits for 16 rows and more, and on two threads not
for some numbers of rows below 12. A product of many tiles is one small product after another there."""

ONE_SHAPE = Tiling(rows=256, pieces=True, tile=Tile(query_rows=1024, key_positions=512))
"""For a GPU, whose library picks a kernel by all of a product's sizes, the number of tiles too: so every call that sums
has one shape. Rows and tiles are large, for a small product there costs as much as one of this size."""


def tiling_for(device: torch.device) -> Tiling:
    """How a step is cut on this device, unless somebody says otherwise."""
    return MANY_AT_ONCE if device.type == "cpu" else ONE_SHAPE


@dataclass(frozen=True)
class Shape:
    """The sizes that a step's plan depends on."""

    n_heads: int
    n_kv_heads: int
    block_size: int
    tiling: Tiling

    @property
    def heads_each(self) -> int:
        """Query heads that share a K and V head."""
        return self.n_heads // self.n_kv_heads


def fill_up(n: int, multiple: int) -> int:
    """The smallest multiple that is at least n."""
    return -(-n // multiple) * multiple


def slots_of(chunk: Chunk, positions: Tensor, block_size: int) -> Tensor:
    """Where in the pool these positions are; those beyond the table are put into its last block."""
    table = torch.tensor(chunk.table)
    return table[(positions // block_size).clamp(max=len(table) - 1)] * block_size + positions % block_size

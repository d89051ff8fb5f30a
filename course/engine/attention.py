"""Attention over paged K and V, the same to the bit for every way of cutting a sequence into steps.

Query rows go in tiles of 16, keys in tiles of 128 positions counted from position 0, the last of each filled
up. So every matrix product has one shape, whatever the step holds; many of them are computed in one call, one for
each tile (one_shape.py is for devices on which their number matters). It knows block tables and shapes; the rest of
the model it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course.engine.one_shape import plan_one_shape
from course.engine.online_softmax import walk_keys
from course.engine.step import Chunk, StepInput
from course.engine.tiling import Shape, fill_up, slots_of

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Attention of one layer for all rows of a step.

Its arguments are the queries [rows, heads, head_dim], turned and scaled, and the layer's K and V
[blocks, block_size, kv heads, head_dim]; its result [rows, heads * head_dim], in which rows that only fill the step
up hold something finite.
"""

QUERY_ROWS = 16
"""Query rows in a tile; a row is one position of one query head."""

KEY_POSITIONS = 128
"""Positions in a key tile."""


@dataclass(frozen=True)
class TileGroup:
    """Query tiles that are computed together: one each of many sequences, or all tiles of one.

    Attributes:
        rows: [tiles * 16] which of the step's query rows fill the tiles.
        entries: [kv heads * sequences * positions] where each key is, in rows of head_dim.
        n_sequences: how many sequences these are.
        masks: for each key tile what is added to its scores, 0 or -inf; None where every row sees all of it.
    """

    rows: Tensor
    entries: Tensor
    n_sequences: int
    masks: tuple[Tensor | None, ...]


@dataclass(frozen=True)
class ManyTiles:
    """Attention of one step, planned once for all layers.

    Attributes:
        groups: the query tiles.
        back: [rows * heads a kv head] where each query row's result is among the tiles of all groups.
    """

    groups: tuple[TileGroup, ...]
    back: Tensor

    def __call__(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention of one layer for all rows of the step (see `Attention`)."""
        n_rows, n_heads, head_dim = queries.shape
        kv_heads = keys.shape[2]
        by_head = queries.view(n_rows, kv_heads, -1, head_dim).transpose(0, 1).reshape(kv_heads, -1, head_dim)
        parts = [_group_attention(by_head, keys, values, group) for group in self.groups]
        joined = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        result = joined.index_select(1, self.back).view(kv_heads, n_rows, -1, head_dim)
        return result.transpose(0, 1).reshape(n_rows, n_heads * head_dim)


@dataclass(frozen=True)
class StepPlan:
    """Where everything of one step is, worked out once for all layers.

    Attributes:
        tokens: [rows] ids, filled up with 0.
        positions: [rows] their positions, filled up with 0.
        slots: [tokens] where each token's K and V go, counted in positions of the pool.
        last: [sequences] the row of each chunk's last position.
        attend: attention of one layer.
    """

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    last: Tensor
    attend: Attention


# ---------------------------------------------------------------- planning a step


def plan_step(step: StepInput, shape: Shape, device: torch.device) -> StepPlan:
    """Work out rows, slots, tiles and masks of a step. Tables must be long enough; the runner checks that."""
    chunks, n = step.chunks, step.n_tokens
    firsts, n_rows = _firsts(chunks), fill_up(n, shape.tiling.rows)
    tokens = [token for chunk in chunks for token in chunk.tokens] + [0] * (n_rows - n)
    positions = torch.cat([torch.arange(chunk.start, chunk.end) for chunk in chunks])
    slots = torch.cat([slots_of(chunk, torch.arange(chunk.start, chunk.end), shape.block_size) for chunk in chunks])
    last = [first + len(chunk.tokens) - 1 for chunk, first in zip(chunks, firsts, strict=True)]
    return StepPlan(
        tokens=torch.tensor(tokens).to(device),
        positions=torch.nn.functional.pad(positions, (0, n_rows - n)).to(device),
        slots=slots.to(device),
        last=torch.tensor(last).to(device),
        attend=_plan_attention(chunks, firsts, n_rows, shape, device),
    )


def _plan_attention(
    chunks: Sequence[Chunk], firsts: Sequence[int], n_rows: int, shape: Shape, device: torch.device
) -> Attention:
    if (tile := shape.tiling.tile) is not None:
        return plan_one_shape(chunks, firsts, n_rows, shape, tile, device)
    members = _members(chunks, shape.heads_each)
    groups = tuple(_group([(chunks[i], firsts[i]) for i in group], shape, device) for group in members)
    return ManyTiles(groups, _back(chunks, firsts, members, n_rows, shape.heads_each).to(device))


def _firsts(chunks: Iterable[Chunk]) -> list[int]:
    """The row of each chunk's first position."""
    firsts, row = [], 0
    for chunk in chunks:
        firsts.append(row)
        row += len(chunk.tokens)
    return firsts


def _members(chunks: Sequence[Chunk], heads_each: int) -> list[list[int]]:
    """Chunks of a single tile are computed together; a longer one is a group of its own."""
    single = [i for i, chunk in enumerate(chunks) if len(chunk.tokens) * heads_each <= QUERY_ROWS]
    longer = [[i] for i in range(len(chunks)) if i not in single]
    return ([single] if single else []) + longer


def _group(members: Sequence[tuple[Chunk, int]], shape: Shape, device: torch.device) -> TileGroup:
    """The tiles of these chunks, each given with the row of its first position."""
    each = shape.heads_each
    n_keys = fill_up(max(chunk.end for chunk, _ in members), KEY_POSITIONS)
    rows, seen_up_to = [], []
    for chunk, first in members:
        used = len(chunk.tokens) * each
        inside = torch.arange(fill_up(used, QUERY_ROWS)).clamp(max=used - 1)
        rows.append(first * each + inside)
        seen_up_to.append(chunk.start + inside // each)
    slots = torch.stack([slots_of(chunk, torch.arange(n_keys), shape.block_size) for chunk, _ in members])
    entries = slots.to(device) * shape.n_kv_heads + torch.arange(shape.n_kv_heads, device=device)[:, None, None]
    lowest, seen = min(chunk.start for chunk, _ in members), torch.cat(seen_up_to).to(device)
    return TileGroup(
        torch.cat(rows).to(device),
        entries.flatten(),
        len(members),
        tuple(_mask(seen, lowest, first) for first in range(0, n_keys, KEY_POSITIONS)),
    )


def _mask(seen_up_to: Tensor, lowest: int, first: int) -> Tensor | None:
    """What hides keys that come after a row's own position: [tiles, 16, 128], or None if nothing is to hide.

    Made where it is used: on a GPU the masks of a long chunk would take longer to copy than the step to compute. And
    whether there is anything to hide is known without asking the device, which would wait for all it has to do.
    """
    if first + KEY_POSITIONS - 1 <= lowest:
        return None
    keys = torch.arange(first, first + KEY_POSITIONS, device=seen_up_to.device)
    hidden = keys > seen_up_to.view(-1, QUERY_ROWS, 1)
    return torch.zeros(hidden.shape, device=keys.device).masked_fill(hidden, float("-inf"))


def _back(
    chunks: Sequence[Chunk], firsts: Sequence[int], members: Iterable[Iterable[int]], n_rows: int, heads_each: int
) -> Tensor:
    back, at = torch.zeros(n_rows * heads_each, dtype=torch.long), 0
    for i in (i for group in members for i in group):
        used = len(chunks[i].tokens) * heads_each
        back[firsts[i] * heads_each :][:used] = at + torch.arange(used)
        at += fill_up(used, QUERY_ROWS)
    return back


# ---------------------------------------------------------------- computing


def _group_attention(by_head: Tensor, keys: Tensor, values: Tensor, group: TileGroup) -> Tensor:
    kv_heads, _, head_dim = by_head.shape
    gathered = (kv_heads, group.n_sequences, -1, head_dim)
    tiles = by_head.index_select(1, group.rows).view(kv_heads, -1, QUERY_ROWS, head_dim)
    k = keys.reshape(-1, head_dim).index_select(0, group.entries).view(gathered)
    v = values.reshape(-1, head_dim).index_select(0, group.entries).view(gathered)
    k_tiles, v_tiles = torch.split(k, KEY_POSITIONS, dim=2), torch.split(v, KEY_POSITIONS, dim=2)
    return walk_keys(tiles, k_tiles, v_tiles, group.masks, _product).flatten(1, 2)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right for each head and tile. Head by head, so that tiles of one sequence share its keys uncopied."""
    heads, n_tiles, rows, _ = left.shape
    result = left.new_empty((heads, n_tiles, rows, right.shape[3]))
    for head in range(heads):
        torch.bmm(left[head], right[head].expand(n_tiles, -1, -1), out=result[head])
    return result

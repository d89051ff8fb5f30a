"""Attention over paged K and V, the same to the bit for every way of cutting a sequence into steps.

Query rows go in tiles of 16, keys in tiles of 128 positions counted from position 0, the last of each filled
up. So every matrix product has one shape, whatever the step holds; a running maximum and sum join the key
tiles in order, and a tile that a row may not see changes nothing of that row's. It knows block tables and
shapes; the rest of the model it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course.engine.step import Chunk, StepInput

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
class StepPlan:
    """Where everything of one step is, worked out once for all layers.

    Attributes:
        tokens: [rows] ids, filled up with 0.
        positions: [rows] their positions, filled up with 0.
        slots: [tokens] where each token's K and V go, counted in positions of the pool.
        groups: the query tiles.
        back: [rows * heads a kv head] where each query row's result is among the tiles of all groups.
        last: [sequences] the row of each chunk's last position.
    """

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    groups: tuple[TileGroup, ...]
    back: Tensor
    last: Tensor


@dataclass(frozen=True)
class Shape:
    """The sizes that a plan depends on; `row_multiple` is what the rows of a step are filled up to."""

    n_heads: int
    n_kv_heads: int
    block_size: int
    row_multiple: int

    @property
    def heads_each(self) -> int:
        """Query heads that share a K and V head."""
        return self.n_heads // self.n_kv_heads


def fill_up(n: int, multiple: int) -> int:
    """The smallest multiple that is at least n."""
    return -(-n // multiple) * multiple


# ---------------------------------------------------------------- planning a step


def plan_step(step: StepInput, shape: Shape, device: torch.device) -> StepPlan:
    """Work out rows, slots, tiles and masks of a step. Tables must be long enough; the runner checks that."""
    chunks, n = step.chunks, step.n_tokens
    firsts = _firsts(chunks)
    filler = fill_up(n, shape.row_multiple) - n
    tokens = [token for chunk in chunks for token in chunk.tokens] + [0] * filler
    positions = torch.cat([torch.arange(chunk.start, chunk.end) for chunk in chunks])
    slots = torch.cat([_slots(chunk, torch.arange(chunk.start, chunk.end), shape.block_size) for chunk in chunks])
    members = _members(chunks, shape.heads_each)
    return StepPlan(
        tokens=torch.tensor(tokens).to(device),
        positions=torch.nn.functional.pad(positions, (0, filler)).to(device),
        slots=slots.to(device),
        groups=tuple(_group([(chunks[i], firsts[i]) for i in group], shape, device) for group in members),
        back=_back(chunks, firsts, members, n + filler, shape.heads_each).to(device),
        last=torch.tensor([first + len(chunk.tokens) - 1 for chunk, first in zip(chunks, firsts, strict=True)]).to(
            device
        ),
    )


def _firsts(chunks: Iterable[Chunk]) -> list[int]:
    """The row of each chunk's first position."""
    firsts, row = [], 0
    for chunk in chunks:
        firsts.append(row)
        row += len(chunk.tokens)
    return firsts


def _slots(chunk: Chunk, positions: Tensor, block_size: int) -> Tensor:
    """Where in the pool these positions are; those beyond the table are put into its last block."""
    table = torch.tensor(chunk.table)
    return table[(positions // block_size).clamp(max=len(table) - 1)] * block_size + positions % block_size


def _members(chunks: Sequence[Chunk], heads_each: int) -> list[list[int]]:
    """Chunks of a single tile are computed together; a longer one is a group of its own."""
    single = [i for i, chunk in enumerate(chunks) if len(chunk.tokens) * heads_each <= QUERY_ROWS]
    longer = [[i] for i in range(len(chunks)) if i not in single]
    return ([single] if single else []) + longer


def _group(members: Sequence[tuple[Chunk, int]], shape: Shape, device: torch.device) -> TileGroup:
    """The tiles of these chunks, each given with the row of its first position."""
    each = shape.heads_each
    n_tiles = -(-max(chunk.end for chunk, _ in members) // KEY_POSITIONS)
    rows, seen_up_to = [], []
    for chunk, first in members:
        used = len(chunk.tokens) * each
        inside = torch.arange(fill_up(used, QUERY_ROWS)).clamp(max=used - 1)
        rows.append(first * each + inside)
        seen_up_to.append(chunk.start + inside // each)
    keys = torch.arange(n_tiles * KEY_POSITIONS)
    slots = torch.stack([_slots(chunk, keys, shape.block_size) for chunk, _ in members])
    entries = slots * shape.n_kv_heads + torch.arange(shape.n_kv_heads)[:, None, None]
    return TileGroup(
        torch.cat(rows).to(device),
        entries.flatten().to(device),
        len(members),
        tuple(_mask(torch.cat(seen_up_to), tile, device) for tile in torch.split(keys, KEY_POSITIONS)),
    )


def _mask(seen_up_to: Tensor, keys: Tensor, device: torch.device) -> Tensor | None:
    """What hides keys that come after a row's own position: [tiles, 16, 128], or None if nothing is to hide."""
    hidden = keys > seen_up_to.view(-1, QUERY_ROWS, 1)
    if not hidden.any():
        return None
    return torch.zeros(hidden.shape).masked_fill(hidden, float("-inf")).to(device)


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


def paged_attention(queries: Tensor, keys: Tensor, values: Tensor, plan: StepPlan) -> Tensor:
    """Attention of one layer for all rows of a step.

    Args:
        queries: [rows, heads, head_dim], turned and scaled.
        keys: the layer's K, [blocks, block_size, kv heads, head_dim].
        values: the layer's V, of the same shape.
        plan: the step's plan.

    Returns:
        [rows, heads * head_dim]; rows that only fill the step up hold something finite.
    """
    n_rows, n_heads, head_dim = queries.shape
    kv_heads = keys.shape[2]
    by_head = queries.view(n_rows, kv_heads, -1, head_dim).transpose(0, 1).reshape(kv_heads, -1, head_dim)
    parts = [_group_attention(by_head, keys, values, group) for group in plan.groups]
    joined = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
    result = joined.index_select(1, plan.back).view(kv_heads, n_rows, -1, head_dim)
    return result.transpose(0, 1).reshape(n_rows, n_heads * head_dim)


def _group_attention(by_head: Tensor, keys: Tensor, values: Tensor, group: TileGroup) -> Tensor:
    kv_heads, _, head_dim = by_head.shape
    gathered = (kv_heads, group.n_sequences, -1, head_dim)
    tiles = by_head.index_select(1, group.rows).view(kv_heads, -1, QUERY_ROWS, head_dim)
    k = keys.reshape(-1, head_dim).index_select(0, group.entries).view(gathered)
    v = values.reshape(-1, head_dim).index_select(0, group.entries).view(gathered)
    return walk_keys(tiles, k, v, group.masks).flatten(1, 2)


def walk_keys(tiles: Tensor, keys: Tensor, values: Tensor, masks: Sequence[Tensor | None]) -> Tensor:
    """Softmax attention with a running maximum and sum over key tiles, in order from position 0.

    Args:
        tiles: [kv heads, tiles, 16, head_dim].
        keys: [kv heads, sequences, positions, head_dim], one sequence for each tile or one for all.
        values: of the same shape.
        masks: one for each key tile.
    """
    k_tiles, v_tiles = torch.split(keys, KEY_POSITIONS, dim=2), torch.split(values, KEY_POSITIONS, dim=2)
    top, total, result = _weigh(tiles, k_tiles[0], v_tiles[0], masks[0], None)
    for k, v, mask in zip(k_tiles[1:], v_tiles[1:], masks[1:], strict=True):
        higher, part_total, part = _weigh(tiles, k, v, mask, top)
        shrink = torch.exp(top - higher)
        top, total, result = higher, total * shrink + part_total, result.mul_(shrink).add_(part)
    return (result / total).to(tiles.dtype)


def _weigh(
    tiles: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, top: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """One key tile: the maximum so far, and under it the sum of weights and the weighted sum of values."""
    scores = _product(tiles, keys.transpose(2, 3)).float()
    if mask is not None:
        scores += mask
    highest = scores.amax(-1, keepdim=True)
    if top is not None:
        highest = torch.maximum(top, highest)
    weights = scores.sub_(highest).exp_()
    return highest, weights.sum(-1, keepdim=True), _product(weights.to(tiles.dtype), values).float()


def _product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right for each head and tile. Head by head, so that tiles of one sequence share its keys uncopied."""
    heads, n_tiles, rows, _ = left.shape
    result = left.new_empty((heads, n_tiles, rows, right.shape[3]))
    for head in range(heads):
        torch.bmm(left[head], right[head].expand(n_tiles, -1, -1), out=result[head])
    return result

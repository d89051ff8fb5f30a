"""Softmax attention tile by tile: a running maximum and sum join the key tiles in order from position 0.

So the keys of a row are always summed in the same order, and a tile that a row may not see changes nothing of that
row's. It knows how tiles are joined. What shape they have, and how two of them are multiplied, it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

Product = Callable[[Tensor, Tensor], Tensor]
"""left @ right in the last two dimensions; in the others as the caller's tiles need it."""


def walk_keys(
    tiles: Tensor,
    key_tiles: Iterable[Tensor],
    value_tiles: Iterable[Tensor],
    masks: Iterable[Tensor | None],
    product: Product,
) -> Tensor:
    """The result of query tiles [..., query rows, head_dim].

    Args:
        tiles: the queries, turned and scaled.
        key_tiles: [..., key positions, head_dim], at least one.
        value_tiles: of the same shapes.
        masks: for each key tile that is walked what is added to its scores, 0 or -inf; None where every row sees all
            of it. Key tiles without a mask of their own at the end are left out.
        product: multiplies two tiles.
    """
    walked = zip(key_tiles, value_tiles, masks, strict=False)
    top, total, result = _weigh(tiles, *next(walked), None, product)
    for k, v, mask in walked:
        higher, part_total, part = _weigh(tiles, k, v, mask, top, product)
        shrink = torch.exp(top - higher)
        top, total, result = higher, total * shrink + part_total, result.mul_(shrink).add_(part)
    return (result / total).to(tiles.dtype)


def _weigh(
    tiles: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, top: Tensor | None, product: Product
) -> tuple[Tensor, Tensor, Tensor]:
    """One key tile: the maximum so far, and under it the sum of weights and the weighted sum of values."""
    scores = product(tiles, keys.transpose(-2, -1)).float()
    if mask is not None:
        scores += mask
    highest = scores.amax(-1, keepdim=True)
    if top is not None:
        highest = torch.maximum(top, highest)
    weights = scores.sub_(highest).exp_()
    return highest, weights.sum(-1, keepdim=True), product(weights.to(tiles.dtype), values).float()

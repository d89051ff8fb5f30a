"""Rotary position embedding: the tables of cosines and sines, and how a head is turned by them.

It knows the layout of Llama checkpoints in safetensors, where a head's first half is turned with its second
half. The interleaved layout of GGUF files is undone where such a file is read, not here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class RopeScaling:
    """How a checkpoint stretches its positions: every frequency alike (linear), or only the slow ones (llama3)."""

    kind: Literal["linear", "llama3"]
    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_positions: int = 8192


@dataclass(frozen=True)
class RopeTable:
    """Cosine and sine of every position and frequency: two tensors [positions, head_dim / 2] in float32."""

    cos: Tensor
    sin: Tensor


def rope_table(
    head_dim: int, theta: float, n_positions: int, scaling: RopeScaling | None, device: torch.device
) -> RopeTable:
    """The table for all positions, made once, so that no step's size can change a bit of it."""
    # Angles are rounded to float32 as the checkpoints were trained with; their cosines are as good as they can be.
    angles = torch.outer(torch.arange(n_positions, dtype=torch.float32), _frequencies(head_dim, theta, scaling))
    exact = angles.double()
    return RopeTable(exact.cos().float().to(device), exact.sin().float().to(device))


def _frequencies(head_dim: int, theta: float, scaling: RopeScaling | None) -> Tensor:
    plain = 1.0 / (theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim))
    if scaling is None:
        return plain
    if scaling.kind == "linear":
        return plain / scaling.factor
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    turns = scaling.original_positions * plain / (2 * math.pi)
    keep = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return plain * (keep + (1.0 - keep) / scaling.factor)


def turn(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each head of [rows, heads, head_dim] by its row's angles; `cos` and `sin` are [rows, head_dim / 2]."""
    cos, sin = cos[:, None], sin[:, None]
    first, second = heads.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(heads.dtype)

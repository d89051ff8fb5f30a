"""What a GPU's library may give away for speed in a matrix product, and how that is set for a while.

It knows torch's switches. `torch.use_deterministic_algorithms` is none of them: it asks that one call repeated give the
same bits, which every call here does as it is (no two rows are written to one slot), and not that a call of another
shape does; that is what tiling.py is for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

HALVES = ("fp16", "bf16")

WORKSPACE_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
WORKSPACE = ":4096:8"
"""Eight buffers of 4 MiB, the same ones whatever else runs: what NVIDIA asks for so that cuBLAS repeats its bits."""


@dataclass(frozen=True)
class Precision:
    """What products may do.

    Attributes:
        tf32: multiply float32 in TF32, which keeps 10 of its 23 bits.
        reduced: add up half-precision products in half precision; torch then splits sums as it likes, too.
    """

    tf32: bool
    reduced: bool


AS_TORCH_DOES = Precision(tf32=False, reduced=True)
FULL = Precision(tf32=False, reduced=False)


@contextmanager
def with_precision(wanted: Precision) -> Iterator[None]:
    """Let products do this for the length of a `with` block; afterwards every switch is as it was."""
    matmul: Any = torch.backends.cuda.matmul
    before = {"allow_tf32": matmul.allow_tf32, **{_switch(half): _reduction(half) for half in HALVES}}
    try:
        matmul.allow_tf32 = wanted.tf32
        for half in HALVES:
            setattr(matmul, _switch(half), (wanted.reduced, wanted.reduced or _reduction(half)[1]))
        yield
    finally:
        for name, value in before.items():
            setattr(matmul, name, value)


def _switch(half: str) -> str:
    return f"allow_{half}_reduced_precision_reduction"


def _reduction(half: str) -> tuple[bool, bool]:
    """Whether sums may be reduced, and whether they may be split in the dimension that is summed."""
    matmul: Any = torch.backends.cuda.matmul
    return getattr(matmul, _switch(half)), getattr(matmul, f"{_switch(half)}_split_k")


@contextmanager
def fixed_workspace() -> Iterator[None]:
    """Ask cuBLAS for a workspace of fixed size, unless the environment says otherwise.

    It is read when a process first multiplies on a GPU, and not again: enter this before a model is loaded.
    """
    if WORKSPACE_VARIABLE in os.environ:
        yield
        return
    os.environ[WORKSPACE_VARIABLE] = WORKSPACE
    try:
        yield
    finally:
        os.environ.pop(WORKSPACE_VARIABLE, None)


def switches() -> Mapping[str, Any]:
    """Every switch as it stands now, by its name in torch, for a report."""
    matmul: Any = torch.backends.cuda.matmul
    names = ["allow_tf32", *(_switch(half) for half in HALVES), *(f"{_switch(half)}_split_k" for half in HALVES)]
    return {
        **{f"torch.backends.cuda.matmul.{name}": getattr(matmul, name) for name in names},
        "torch.are_deterministic_algorithms_enabled": torch.are_deterministic_algorithms_enabled(),
        WORKSPACE_VARIABLE: os.environ.get(WORKSPACE_VARIABLE, ""),
    }

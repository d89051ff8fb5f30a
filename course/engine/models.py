"""The one place where a model's name becomes a model: "byte", "smollm2", or a folder with a checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch

from course.engine.loaded import LoadedModel, ModelUnavailable, ModelUnsupported, Report
from course.engine.tokenizer import Tokenizer
from course.progress import silent

__all__ = ["LoadedModel", "ModelUnavailable", "ModelUnsupported", "Report", "Tokenizer", "load_model", "pick_device"]


def load_model(
    name: str,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | str = torch.float32,
    report: Report | None = None,
    seed: int = 0,
) -> LoadedModel:
    """Load a model.

    Args:
        name: "byte" (or "byte-tiny", "byte-large"), "smollm2", or the path of a folder with a safetensors checkpoint.
        device: where it computes; see `pick_device` for "auto".
        dtype: the type of its weights, K and V, or that type's name: "float32", "bfloat16", "float16".
        report: told of progress in fetching and loading.
        seed: which weights a byte model has.

    Raises:
        ModelUnavailable: the model can't be fetched here now, or there is nothing of this name.
        ModelUnsupported: a checkpoint that this engine can't run.
        ValueError: an unknown device or type.
    """
    from course.engine import byte_model, safetensors_model, smollm2

    where, kind, tell = pick_device(device), _dtype(dtype), report or silent
    if name in byte_model.SIZES:
        return byte_model.load_byte_model(byte_model.SIZES[name], seed, where, kind, name)
    if name == "smollm2":
        folder = smollm2.smollm2_folder(tell)
        return safetensors_model.load_safetensors_folder(folder, name, where, kind, tell)
    path = Path(name).expanduser()
    if not path.is_dir():
        known = ", ".join((*byte_model.SIZES, "smollm2"))
        raise ModelUnavailable(f"no model {name!r}: it is neither one of {known} nor a folder")
    return safetensors_model.load_safetensors_folder(path, path.resolve().name, where, kind, tell)


def pick_device(wanted: torch.device | str) -> torch.device:
    """The device of this name; "auto" takes a GPU if there is one. Raises ValueError for one that is not there."""
    if wanted == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if _is_there(kind)))
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise ValueError(f"no device {wanted!r}") from error
    if not _is_there(device.type):
        raise ValueError(f"device {str(wanted)!r} is not there on this machine")
    return device


def _is_there(kind: str) -> bool:
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return there.get(kind, False)


def _dtype(wanted: torch.dtype | str) -> torch.dtype:
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if isinstance(wanted, torch.dtype):
        return wanted
    if wanted not in known:
        raise ValueError(f"no type {wanted!r}; known are {', '.join(known)}")
    return known[wanted]

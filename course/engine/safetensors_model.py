"""Any Llama-architecture checkpoint in a folder: config.json, model.safetensors (or shards), tokenizer.json.

It reads what this engine can do and refuses the rest, by file and key, before a wrong answer can come of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course.engine.loaded import LoadedModel, Messages, ModelUnsupported, Report
from course.engine.model import Llama
from course.engine.rope import RopeScaling
from course.engine.tokenizer import FileTokenizer, chat_of, plain_chat
from course.engine.weights import EMBEDDING, HEAD, LlamaConfig, all_shapes, assemble
from course.progress import silent

ONLY: Mapping[str, tuple[Any, ...]] = {
    "model_type": ("llama",),
    "hidden_act": ("silu",),
    "attention_bias": (False, None),
    "mlp_bias": (False, None),
    "sliding_window": (None,),
    "quantization_config": (None,),
    "partial_rotary_factor": (1, None),
}
"""Keys of config.json, and the values that this engine can do; the first stands where the key is missing."""


def load_safetensors_folder(
    folder: Path,
    name: str,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    report: Report = silent,
) -> LoadedModel:
    """Load a checkpoint.

    Raises:
        ModelUnsupported: a missing file, or something this engine does not do; names file and key.
    """
    raw = _json(folder / "config.json")
    config = read_config(folder / "config.json", raw)
    tensors = _Tensors(folder, report, len(all_shapes(config)))
    if not config.tie_embeddings and HEAD not in tensors:
        raise ModelUnsupported(f"{folder}: no tensor {HEAD}, and config.json does not tie it to {EMBEDDING}")
    try:
        weights = assemble(config, tensors.get)
    except ValueError as error:
        raise ModelUnsupported(f"{folder}: {error}") from error
    tokenizer = _tokenizer(folder, raw)
    return LoadedModel(Llama(config, weights, device, dtype), tokenizer, name, _chat(folder))


# ---------------------------------------------------------------- config.json


def read_config(path: Path, raw: Mapping[str, Any]) -> LlamaConfig:
    """The model's sizes from config.json's content; `path` is for messages. Raises ModelUnsupported."""
    for key, allowed in ONLY.items():
        if (value := raw.get(key, allowed[0])) not in allowed:
            raise ModelUnsupported(f"{path}: {key} is {value!r}, and only {allowed[0]!r} is supported")
    hidden, n_heads = _size(path, raw, "hidden_size"), _size(path, raw, "num_attention_heads")
    rope = raw.get("rope_parameters") or {}
    try:
        return LlamaConfig(
            vocab_size=_size(path, raw, "vocab_size"),
            hidden=hidden,
            n_layers=_size(path, raw, "num_hidden_layers"),
            n_heads=n_heads,
            n_kv_heads=_size(path, raw, "num_key_value_heads", n_heads),
            head_dim=_size(path, raw, "head_dim", hidden // n_heads),
            intermediate=_size(path, raw, "intermediate_size"),
            rope_theta=float(raw.get("rope_theta") or rope.get("rope_theta") or 10_000.0),
            norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
            tie_embeddings=bool(raw.get("tie_word_embeddings", False)),
            max_positions=_size(path, raw, "max_position_embeddings", 2048),
            rope_scaling=_rope_scaling(path, raw),
        )
    except ValueError as error:
        raise ModelUnsupported(f"{path}: {error}") from error


def _size(path: Path, raw: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = default if raw.get(key) is None else raw[key]
    if type(value) is not int or value < 1:
        raise ModelUnsupported(f"{path}: {key} is {value!r}, and must be a whole number of at least 1")
    return value


def _rope_scaling(path: Path, raw: Mapping[str, Any]) -> RopeScaling | None:
    key = "rope_scaling" if raw.get("rope_scaling") else "rope_parameters"
    settings = raw.get(key) or {}
    if float(settings.get("partial_rotary_factor") or 1) != 1:
        raise ModelUnsupported(f"{path}: {key} turns a part of each head only, and that is not supported")
    try:
        match settings.get("rope_type", settings.get("type", "default")):
            case "default":
                return None
            case "linear":
                return RopeScaling("linear", float(settings["factor"]))
            case "llama3":
                return RopeScaling(
                    "llama3",
                    float(settings["factor"]),
                    float(settings["low_freq_factor"]),
                    float(settings["high_freq_factor"]),
                    int(settings["original_max_position_embeddings"]),
                )
            case other:
                raise ModelUnsupported(f"{path}: {key} of type {other!r}; supported are default, linear and llama3")
    except KeyError as missing:
        raise ModelUnsupported(f"{path}: {key} has no {missing}") from missing


# ---------------------------------------------------------------- the tensors


class _Tensors:
    """The tensors of a folder by name, from one file or from the shards that an index lists."""

    def __init__(self, folder: Path, report: Report, total: int) -> None:
        self._folder, self._report, self._total, self._done = folder, report, total, 0
        self._files: dict[Path, Any] = {}
        self._where = self._index()

    def __contains__(self, name: str) -> bool:
        return name in self._where

    def get(self, name: str) -> Tensor:
        """The tensor of this name. Raises ModelUnsupported where there is none, or it is no float."""
        if name not in self._where:
            raise ModelUnsupported(f"{self._folder}: no tensor {name}")
        tensor: Tensor = self._open(self._where[name]).get_tensor(name)
        if not tensor.is_floating_point():
            raise ModelUnsupported(
                f"{self._where[name]}: {name} is {tensor.dtype}; quantized tensors are not supported"
            )
        self._done += 1
        self._report("loading weights", self._done, self._total)
        return tensor

    def _index(self) -> dict[str, Path]:
        single, index = self._folder / "model.safetensors", self._folder / "model.safetensors.index.json"
        if single.exists():
            return dict.fromkeys(self._open(single).keys(), single)
        if index.exists():
            weight_map = _json(index).get("weight_map")
            if not isinstance(weight_map, dict):
                raise ModelUnsupported(f"{index}: no weight_map")
            return {name: self._folder / Path(file).name for name, file in weight_map.items()}
        raise ModelUnsupported(f"{self._folder} has neither {single.name} nor {index.name}")

    def _open(self, path: Path) -> Any:
        from safetensors import SafetensorError, safe_open

        if path not in self._files:
            try:
                self._files[path] = safe_open(path, framework="pt")
            except (OSError, SafetensorError) as error:
                raise ModelUnsupported(f"{path} can't be read: {error}") from error
        return self._files[path]


# ---------------------------------------------------------------- text


def _tokenizer(folder: Path, config: Mapping[str, Any]) -> FileTokenizer:
    path = folder / "tokenizer.json"
    if not path.exists():
        raise ModelUnsupported(f"{path} is missing, and no other kind of tokenizer is supported")
    stops: list[int | str] = []
    for end in (config.get("eos_token_id"), _json(folder / "generation_config.json", {}).get("eos_token_id")):
        stops += end if isinstance(end, list) else [] if end is None else [end]
    if end := _special_tokens(folder).get("eos_token"):
        stops.append(end)
    try:
        return FileTokenizer(path, stops)
    except Exception as error:  # the library raises the bare class
        raise ModelUnsupported(f"{path} can't be read: {error}") from error


def _chat(folder: Path) -> Callable[[Messages], str]:
    template: Any = _json(folder / "tokenizer_config.json", {}).get("chat_template")
    if isinstance(template, list):
        template = next((named.get("template") for named in template if named.get("name") == "default"), None)
    if (own_file := folder / "chat_template.jinja").exists():
        template = own_file.read_text(encoding="utf-8")
    return chat_of(template, _special_tokens(folder)) if template else plain_chat


def _special_tokens(folder: Path) -> dict[str, str]:
    """`bos_token`, `eos_token` and the like, by name, as tokenizer_config.json spells them."""
    settings = _json(folder / "tokenizer_config.json", {})
    spelled = {key: value.get("content") if isinstance(value, dict) else value for key, value in settings.items()}
    return {key: value for key, value in spelled.items() if key.endswith("_token") and isinstance(value, str)}


def _json(path: Path, default: dict[str, Any] | None = None) -> dict[str, Any]:
    if default is not None and not path.exists():
        return default
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelUnsupported(f"{path} is missing") from error
    except ValueError as error:
        raise ModelUnsupported(f"{path} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelUnsupported(f"{path} holds no table of keys")
    return value

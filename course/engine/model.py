"""A Llama-family model over paged K and V: grouped-query attention, RoPE, RMSNorm, SwiGLU.

Batch-invariant: a position's K and V and its logits are the same bits whatever else the step holds, however
its sequence is cut into chunks, and whether its prefix was computed or found (L10.4, section 2.1, rests on
that). Three measures make it so, found by trial: the rows of a step are filled up to a multiple of 16, for
a matrix product of fewer rows sums in another order; attention has tiles of fixed size (attention.py); and
no elementwise call is used whose vector and scalar code differ, as those of sigmoid and SiLU do. Whether a
device keeps to it, invariance.py tests. Which blocks are whose this file does not know: runner.py checks.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from course.engine.attention import Shape, StepPlan, fill_up, paged_attention, plan_step
from course.engine.rope import rope_table, turn
from course.engine.step import Chunk, StepInput
from course.engine.weights import LayerWeights, LlamaConfig, Weights, moved

__all__ = ["Chunk", "Llama", "LlamaConfig", "PagedKv", "StepInput"]

ROW_MULTIPLE = 16
"""What the rows of a step are filled up to. Measured on a CPU with torch 2.13: a row of `x @ W.T` keeps its bits
for 16 rows and more, and on two threads not for some numbers of rows below 12."""


class PagedKv:
    """K and V of every position in a pool of blocks: two tensors [layers, blocks, block_size, kv heads, head_dim].

    All zeros at first: what nobody has written is finite, so that a masked read of it changes nothing.
    """

    def __init__(
        self,
        config: LlamaConfig,
        n_blocks: int,
        block_size: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        size = (config.n_layers, n_blocks, block_size, config.n_kv_heads, config.head_dim)
        self.n_blocks = n_blocks
        self.block_size = block_size
        self.k = torch.zeros(size, device=device, dtype=dtype)
        self.v = torch.zeros(size, device=device, dtype=dtype)

    def write(self, layer: int, slots: Tensor, k: Tensor, v: Tensor) -> None:
        """Put K and V [tokens, kv heads, head_dim] of one layer at these slots (block * block_size + offset)."""
        self.k[layer].flatten(0, 1).index_copy_(0, slots, k)
        self.v[layer].flatten(0, 1).index_copy_(0, slots, v)


class Llama:
    """The model: `forward` computes one step.

    Args:
        config: its sizes.
        weights: its weights, of any device and float type.
        device: where it computes.
        dtype: the type of weights, K and V; norms, scores and logits are in float32 whatever it is.
        row_multiple: what the rows of a step are filled up to: 16, or a step's full size where a device needs
            all steps to have the same shape.
    """

    def __init__(
        self,
        config: LlamaConfig,
        weights: Weights,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        row_multiple: int = ROW_MULTIPLE,
    ) -> None:
        self.config = config
        self.device = torch.device(device)
        self.dtype = dtype
        self.row_multiple = row_multiple
        self._weights = moved(weights, self.device, dtype)
        self._rope = rope_table(
            config.head_dim, config.rope_theta, config.max_positions, config.rope_scaling, self.device
        )

    def new_kv(self, n_blocks: int, block_size: int) -> PagedKv:
        """Empty K and V for a pool of this shape, where this model computes."""
        return PagedKv(self.config, n_blocks, block_size, self.device, self.dtype)

    def forward(self, step: StepInput, kv: PagedKv) -> Tensor:
        """Compute the step's positions, write their K and V, read all earlier ones through the tables.

        Returns:
            [sequences, vocab] logits of each chunk's last position, in float32.

        Raises:
            ValueError: a step without chunks, or with a chunk without tokens or beyond the model's positions.
        """
        self._check(step)
        with torch.inference_mode():
            plan = plan_step(step, self._shape(kv), self.device)
            x = self._weights.embedding.index_select(0, plan.tokens)
            cos, sin = self._rope.cos[plan.positions], self._rope.sin[plan.positions]
            for n, layer in enumerate(self._weights.layers):
                x = x + self._attention(n, layer, self._norm(x, layer.attention_norm), cos, sin, kv, plan)
                x = x + _mlp(layer, self._norm(x, layer.mlp_norm))
            return self._logits(x, plan)

    def _check(self, step: StepInput) -> None:
        if not step.chunks:
            raise ValueError("a step without chunks computes nothing")
        for chunk in step.chunks:
            if len(chunk.tokens) == 0:
                raise ValueError(f"sequence {chunk.seq} has a chunk without tokens")
            if chunk.end > self.config.max_positions:
                raise ValueError(
                    f"sequence {chunk.seq} reaches {chunk.end} positions, and the model has {self.config.max_positions}"
                )

    def _shape(self, kv: PagedKv) -> Shape:
        return Shape(self.config.n_heads, self.config.n_kv_heads, kv.block_size, self.row_multiple)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        wide = x.float()
        scale = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + self.config.norm_eps)
        return (wide * scale).to(self.dtype) * weight

    def _attention(
        self, n: int, layer: LayerWeights, x: Tensor, cos: Tensor, sin: Tensor, kv: PagedKv, plan: StepPlan
    ) -> Tensor:
        heads, shared = self.config.n_heads, self.config.n_kv_heads
        qkv = linear(x, layer.qkv).view(len(x), heads + 2 * shared, self.config.head_dim)
        turned = turn(qkv[:, : heads + shared], cos, sin)
        written = len(plan.slots)
        kv.write(n, plan.slots, turned[:written, heads:], qkv[:written, heads + shared :])
        queries = turned[:, :heads] * self.config.head_dim**-0.5
        return linear(paged_attention(queries, kv.k[n], kv.v[n], plan), layer.out)

    def _logits(self, x: Tensor, plan: StepPlan) -> Tensor:
        n = len(plan.last)
        # Filled up with rows of the first sequence, for the reason that the step is filled up.
        rows = torch.nn.functional.pad(plan.last, (0, fill_up(n, ROW_MULTIPLE) - n))
        last = self._norm(x.index_select(0, rows), self._weights.norm)
        return linear(last, self._weights.head)[:n].float()


def _mlp(layer: LayerWeights, x: Tensor) -> Tensor:
    """SwiGLU. SiLU is spelled out with exp, whose bits don't depend on where in a tensor a value stands."""
    gate, up = linear(x, layer.gate_up).chunk(2, dim=-1)
    return linear(gate / (1.0 + torch.exp(-gate)) * up, layer.down)

"""A Llama-family model over paged K and V: grouped-query attention, RoPE, RMSNorm, SwiGLU.

Batch-invariant: a position's K and V and its logits are the same bits whatever else the step holds, however
its sequence is cut into chunks, and whether its prefix was computed or found (L10.4, section 2.1, rests on
that). Three measures make it so, found by trial: the rows of a step are filled up, for a matrix product of few
rows sums in another order, and on a GPU go in pieces of one size (tiling.py says of which); attention has tiles of
fixed size (attention.py, one_shape.py); and no elementwise call is used whose vector and scalar code differ, as
those of sigmoid and SiLU do. Whether a device keeps to it, invariance.py tests. Which blocks are whose this file does
not know: runner.py checks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import linear

from course.engine.attention import StepPlan, plan_step
from course.engine.rope import rope_table, turn
from course.engine.step import Chunk, StepInput
from course.engine.tiling import Shape, Tiling, fill_up, tiling_for
from course.engine.weights import LayerWeights, LlamaConfig, Weights, moved

__all__ = ["Chunk", "Llama", "LlamaConfig", "PagedKv", "StepInput"]


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
        tiling: how a step is cut into pieces of fixed size; by default as the device needs it.
    """

    def __init__(
        self,
        config: LlamaConfig,
        weights: Weights,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        tiling: Tiling | None = None,
    ) -> None:
        self.config = config
        self.device = torch.device(device)
        self.dtype = dtype
        self.tiling = tiling or tiling_for(self.device)
        self._weights = moved(weights, self.device, dtype)
        self._rope = rope_table(
            config.head_dim, config.rope_theta, config.max_positions, config.rope_scaling, self.device
        )

    def tiled(self, tiling: Tiling) -> Llama:
        """The same model with its steps cut in another way; the weights are shared."""
        other = copy.copy(self)
        other.tiling = tiling
        return other

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
                x = x + self._attention(n, layer, x, cos, sin, kv, plan)
                x = x + self.by_rows(partial(self._mlp, layer), x)
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
        return Shape(self.config.n_heads, self.config.n_kv_heads, kv.block_size, self.tiling)

    def by_rows(self, call: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """What a call that sums along each row gives for all rows, piece by piece where the tiling says so."""
        if not self.tiling.pieces or len(x) == self.tiling.rows:
            return call(x)
        return torch.cat([call(piece) for piece in torch.split(x, self.tiling.rows)])

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        wide = x.float()
        scale = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + self.config.norm_eps)
        return (wide * scale).to(self.dtype) * weight

    def _attention(
        self, n: int, layer: LayerWeights, x: Tensor, cos: Tensor, sin: Tensor, kv: PagedKv, plan: StepPlan
    ) -> Tensor:
        heads, shared = self.config.n_heads, self.config.n_kv_heads
        qkv = self.by_rows(lambda rows: linear(self._norm(rows, layer.attention_norm), layer.qkv), x)
        qkv = qkv.view(len(x), heads + 2 * shared, self.config.head_dim)
        turned = turn(qkv[:, : heads + shared], cos, sin)
        written = len(plan.slots)
        kv.write(n, plan.slots, turned[:written, heads:], qkv[:written, heads + shared :])
        queries = turned[:, :heads] * self.config.head_dim**-0.5
        return self.by_rows(lambda rows: linear(rows, layer.out), plan.attend(queries, kv.k[n], kv.v[n]))

    def _mlp(self, layer: LayerWeights, x: Tensor) -> Tensor:
        """SwiGLU. SiLU is spelled out with exp, whose bits don't depend on where in a tensor a value stands."""
        gate, up = linear(self._norm(x, layer.mlp_norm), layer.gate_up).chunk(2, dim=-1)
        return linear(gate / (1.0 + torch.exp(-gate)) * up, layer.down)

    def _logits(self, x: Tensor, plan: StepPlan) -> Tensor:
        n = len(plan.last)
        # Filled up with rows of the first sequence, for the reason that the step is filled up.
        rows = torch.nn.functional.pad(plan.last, (0, fill_up(n, self.tiling.rows) - n))
        return self.by_rows(self._last, x.index_select(0, rows))[:n].float()

    def _last(self, rows: Tensor) -> Tensor:
        return linear(self._norm(rows, self._weights.norm), self._weights.head)

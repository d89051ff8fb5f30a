"""Does this device keep answers independent of how a step is made up? A start-up test, in words.

It runs a model on made-up tokens in several ways that must give the same bits (model.py says by which
measures) and names each way that does not. Run it: `python -m course.engine.invariance [--model byte] [--device cpu]`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from course.engine.model import Llama, PagedKv
from course.engine.step import Chunk, StepInput

BLOCK_SIZE = 16
N_POSITIONS = 272
"""Two whole key tiles and a piece of a third."""

CHUNK_SIZES = (16, 32, 48, 64, 256)
N_SEQUENCES = 5
STEP_ROWS = (32, 48, 64, 128, 256)


def check_invariance(model: Llama) -> list[str]:
    """What breaks bit equality with this model on its device and its number of threads; empty if nothing does."""
    with torch.inference_mode():
        return [*_uneven_calls(model), *_uneven_chunks(model), *_uneven_batches(model)]


def _uneven_calls(model: Llama) -> Iterator[str]:
    """The calls that a forward pass rests on, one by one: where the fault is, if there is one."""
    generator = torch.Generator().manual_seed(1)
    wide, narrow = model.config.intermediate, model.config.hidden
    x = torch.randn(max(STEP_ROWS), wide, generator=generator).to(model.device, model.dtype)
    weight = torch.randn(narrow, wide, generator=generator).to(model.device, model.dtype)
    calls: dict[str, Callable[[Tensor], Tensor]] = {
        "a matrix product": lambda rows: linear(rows, weight),
        "exp": torch.exp,
        "a mean over the last dimension": lambda rows: rows.float().mean(-1),
    }
    for name, call in calls.items():
        alone = call(x[:16])
        if bad := [n for n in STEP_ROWS if not torch.equal(call(x[:n])[:16], alone)]:
            yield f"{name} of {_list(bad)} rows has other bits than one of 16 rows"


def _uneven_chunks(model: Llama) -> Iterator[str]:
    whole = _logits(model, 1, N_POSITIONS)
    if bad := [size for size in CHUNK_SIZES if not torch.equal(_logits(model, 1, size), whole)]:
        yield f"a prompt computed in chunks of {_list(bad)} has other logits than one computed at once"


def _uneven_batches(model: Llama) -> Iterator[str]:
    alone = _logits(model, 1, 64)
    together = _logits(model, N_SEQUENCES, 64)
    if not torch.equal(together[:1], alone):
        yield f"a prompt computed beside {N_SEQUENCES - 1} others has other logits than one computed alone"


def _logits(model: Llama, n_sequences: int, chunk: int) -> Tensor:
    """The logits after prompts that are computed side by side in chunks of this size, and one token more."""
    blocks_each = N_POSITIONS // BLOCK_SIZE + 1
    kv = PagedKv(model.config, n_sequences * blocks_each, BLOCK_SIZE, model.device, model.dtype)
    starts = [*range(0, N_POSITIONS, chunk), N_POSITIONS]
    ends = [*starts[1:], N_POSITIONS + 1]
    for start, end in zip(starts, ends, strict=True):
        chunks = (_chunk(model, seq, start, end, blocks_each) for seq in range(n_sequences))
        logits = model.forward(StepInput(tuple(chunks)), kv)
    return logits


def _chunk(model: Llama, seq: int, start: int, end: int, blocks_each: int) -> Chunk:
    tokens = [(7919 * position + 104_729 * seq) % model.config.vocab_size for position in range(start, end)]
    return Chunk(seq, tokens, start, range(seq * blocks_each, (seq + 1) * blocks_each))


def _list(sizes: Sequence[int]) -> str:
    return ", ".join(str(size) for size in sizes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what breaks; 0 if nothing does."""
    from course.engine.models import ModelUnavailable, load_model

    parser = argparse.ArgumentParser(description="Test whether answers depend on how a step is made up.")
    parser.add_argument("--model", default="byte")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args(arguments)
    try:
        model = load_model(options.model, options.device, options.dtype).model
    except (ModelUnavailable, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    broken = check_invariance(model)
    where = f"{options.model} on {model.device}, {options.dtype}, {torch.get_num_threads()} threads"
    print("\n".join(broken) if broken else f"{where}: the same bits in every way tried")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

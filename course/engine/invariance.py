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

from course.engine.attention import KEY_POSITIONS
from course.engine.model import Llama, PagedKv
from course.engine.step import Chunk, StepInput
from course.engine.tiling import fill_up

BLOCK_SIZE = 16
CHUNK_SIZES = (16, 32, 48, 64, 256)
N_SEQUENCES = 5
ROWS = 16
STEP_ROWS = (32, 48, 64, 128, 256)


def check_invariance(model: Llama) -> list[str]:
    """What breaks bit equality with this model on its device and its number of threads; empty if nothing does."""
    with torch.inference_mode():
        return [*_uneven_calls(model), *_uneven_chunks(model), *_uneven_batches(model)]


def _uneven_calls(model: Llama) -> Iterator[str]:
    """The calls that a forward pass rests on, one by one: where the fault is, if there is one."""
    generator = torch.Generator().manual_seed(1)
    wide, narrow = model.config.intermediate, model.config.hidden
    x, weight = (
        torch.randn(rows, wide, generator=generator).to(model.device, model.dtype) for rows in (max(STEP_ROWS), narrow)
    )
    calls: dict[str, Callable[[Tensor], Tensor]] = {
        "a matrix product": lambda rows: linear(rows, weight),
        "exp": torch.exp,
        "a mean over the last dimension": lambda rows: rows.float().mean(-1),
    }
    for name, call in calls.items():
        if bad := [n for n in STEP_ROWS if not _same_rows(model, call, x[:n])]:
            yield f"{name} of {_list(bad)} rows has other bits than one of {ROWS} rows"


def _same_rows(model: Llama, call: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """Whether the first rows and the last ones come out among all of these as they do alone."""
    together = _as_in_a_step(model, call, x)
    ends = (slice(None, ROWS), slice(len(x) - ROWS, len(x)))
    return all(torch.equal(together[rows], _as_in_a_step(model, call, x[rows])) for rows in ends)


def _as_in_a_step(model: Llama, call: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """What a call gives for rows that are filled up and cut into pieces as those of a step are."""
    filler = x.new_zeros((fill_up(len(x), model.tiling.rows) - len(x), *x.shape[1:]))
    return model.by_rows(call, torch.cat((x, filler)))[: len(x)]


def _n_positions(model: Llama) -> int:
    """Two whole key tiles and a piece of a third."""
    tile = model.tiling.tile
    return 2 * (tile.key_positions if tile else KEY_POSITIONS) + BLOCK_SIZE


def _uneven_chunks(model: Llama) -> Iterator[str]:
    whole = _logits(model, [0], _n_positions(model))
    if bad := [size for size in CHUNK_SIZES if not torch.equal(_logits(model, [0], size), whole)]:
        yield f"a prompt computed in chunks of {_list(bad)} has other logits than one computed at once"


def _uneven_batches(model: Llama) -> Iterator[str]:
    together = _logits(model, range(N_SEQUENCES), 64)
    first_and_last = (0, N_SEQUENCES - 1)
    if not all(torch.equal(together[seq : seq + 1], _logits(model, [seq], 64)) for seq in first_and_last):
        yield f"a prompt computed beside {N_SEQUENCES - 1} others has other logits than one computed alone"


def _logits(model: Llama, sequences: Sequence[int], chunk: int) -> Tensor:
    """The logits after prompts that are computed side by side in chunks of this size, and one token more."""
    n_positions = _n_positions(model)
    blocks_each = n_positions // BLOCK_SIZE + 1
    kv = PagedKv(model.config, N_SEQUENCES * blocks_each, BLOCK_SIZE, model.device, model.dtype)
    starts = [*range(0, n_positions, chunk), n_positions]
    ends = [*starts[1:], n_positions + 1]
    for start, end in zip(starts, ends, strict=True):
        chunks = (_chunk(model, seq, start, end, blocks_each) for seq in sequences)
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

"""Steps in pieces of one shape, the way of a GPU, on this CPU: the same answers and bits, and no mixed devices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from course.engine import invariance, model, one_shape
from course.engine.byte_model import SIZES, load_byte_model
from course.engine.invariance import check_invariance
from course.engine.model import Llama
from course.engine.models import load_model
from course.engine.step import Chunk, StepInput
from course.engine.tiling import MANY_AT_ONCE, ONE_SHAPE, Tile, Tiling, tiling_for
from course.lab_models import on_threads
from tests.test_engine_bits import HISTORIES, check, plainest

PIECES = Tiling(rows=64, pieces=True)
SMALL = Tiling(rows=64, pieces=True, tile=Tile(query_rows=64, key_positions=128))
ODD = Tiling(rows=48, pieces=True, tile=Tile(query_rows=10, key_positions=24))

THREE = (
    Chunk("long", [7 * place % 256 for place in range(300)], 0, range(30)),
    Chunk("decode", [2], 40, range(30, 40)),
    Chunk("tail", [3, 1, 4, 1, 5], 150, range(40, 60)),
)


@cache
def tiny() -> Llama:
    return load_model("byte-tiny").model


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with on_threads(1):
        yield


def three_sequences(tiled: Llama) -> torch.Tensor:
    kv = tiled.new_kv(60, 16)
    generator = torch.Generator().manual_seed(1)
    kv.k.copy_(torch.randn(kv.k.shape, generator=generator))
    kv.v.copy_(torch.randn(kv.v.shape, generator=generator))
    return tiled.forward(StepInput(THREE), kv)


# ---------------------------------------------------------------- answers and bits


@pytest.mark.parametrize("tiling", [PIECES, SMALL, ODD, ONE_SHAPE], ids=["pieces", "small", "odd", "full"])
def test_however_a_step_is_cut_the_answers_are_the_same_but_for_rounding(tiling: Tiling) -> None:
    cut, plain = three_sequences(tiny().tiled(tiling)), three_sequences(tiny())
    assert cut.shape == plain.shape == (3, tiny().config.vocab_size)
    assert float((cut - plain).abs().max()) < 1e-4, "logits of up to 4 here"


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("n", [1, 5])
def test_one_shape_answers_with_the_same_bits_after_every_history(n: int, history: str) -> None:
    cut = tiny().tiled(SMALL)
    truth = truth_of_small()
    for chunk in (16, 48, 256):
        check(cut, truth, chunk, n, history)


@cache
def truth_of_small() -> list:  # type: ignore[type-arg]
    return plainest(tiny().tiled(SMALL))


@pytest.mark.parametrize("tiling", [PIECES, SMALL], ids=["pieces", "small"])
def test_the_start_up_test_finds_nothing_under_a_tiling_that_keeps_the_bits(tiling: Tiling) -> None:
    assert check_invariance(tiny().tiled(tiling)) == []


def test_pieces_help_a_device_whose_products_differ_with_the_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device that breaks the plain way, played as in test_engine_bits.py; every product here has 64 rows."""
    plain = torch.nn.functional.linear
    for module in (invariance, model):
        monkeypatch.setattr(module, "linear", lambda x, weight: plain(x, weight) + len(x) * 1e-4)
    assert check_invariance(tiny()) and check_invariance(tiny().tiled(SMALL)) == []


def test_one_shape_helps_a_device_whose_attention_differs_with_the_number_of_tiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = torch.bmm

    def uneven(left: torch.Tensor, right: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
        return plain(left, right, **more).mul_(1 + len(left) * 1e-6)

    monkeypatch.setattr(torch, "bmm", uneven)
    assert check_invariance(tiny().tiled(PIECES)) and check_invariance(tiny().tiled(SMALL)) == []


def test_the_start_up_test_sees_a_row_whose_bits_depend_on_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch.nn.functional.linear
    for module in (invariance, model):
        monkeypatch.setattr(module, "linear", lambda x, weight: plain(x, weight) + torch.arange(len(x))[:, None] * 1e-4)
    broken = "\n".join(check_invariance(tiny().tiled(SMALL)))
    assert "a matrix product of 32" in broken and "in chunks of" in broken and "beside 4 others" in broken


def test_every_product_has_one_shape_whatever_the_step_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: set[tuple[object, ...]] = set()
    plain = torch.bmm

    def noted(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        shapes.add((left.shape, left.stride(), right.shape, right.stride()))
        return plain(left, right)

    monkeypatch.setattr(torch, "bmm", noted)
    three_sequences(tiny().tiled(SMALL))
    assert len(shapes) == 2, "scores, and weighted values"
    heads, queries, _ = next(iter(shapes))[0]  # type: ignore[misc]
    assert (heads, queries) == (tiny().config.n_kv_heads, 64)


def test_key_tiles_that_nobody_may_see_are_left_out() -> None:
    """A chunk of 300 positions under two query heads a key head: ten tiles of 64 rows, three of 128 keys."""
    planned = one_shape.plan_one_shape(
        THREE[:1], [0], 320, tiny()._shape(tiny().new_kv(1, 16)), Tile(64, 128), torch.device("cpu")
    )
    masks = planned.chunks[0].masks
    assert [len(tile) for tile in masks] == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3]
    assert [tile[0] is None for tile in masks] == [False] * 4 + [True] * 6


# ---------------------------------------------------------------- devices


def test_a_cpu_computes_many_tiles_at_once_and_any_other_device_in_one_shape() -> None:
    assert tiling_for(torch.device("cpu")) == MANY_AT_ONCE == tiny().tiling
    assert tiling_for(torch.device("cuda")) == tiling_for(torch.device("mps")) == ONE_SHAPE


def test_a_model_cut_in_another_way_shares_its_weights_and_leaves_the_first_as_it_was() -> None:
    other = tiny().tiled(ONE_SHAPE)
    assert other._weights is tiny()._weights and other.tiling == ONE_SHAPE and tiny().tiling == MANY_AT_ONCE


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("tiling", [MANY_AT_ONCE, PIECES, SMALL, None], ids=["many", "pieces", "small", "its own"])
def test_a_foreign_device_is_never_mixed_with_the_cpu_and_never_waited_for(
    tiling: Tiling | None, dtype: torch.dtype
) -> None:
    """Tensors without content on a device that is not the CPU: torch refuses a call that mixes the two, and one whose
    result Python asks for, which on a GPU would wait for all that the device has to do.
    """
    with FakeTensorMode():
        foreign = load_byte_model(SIZES["byte-tiny"], device="meta", dtype=dtype).model
        cut = foreign.tiled(tiling or foreign.tiling)
        logits = cut.forward(StepInput(THREE), cut.new_kv(60, 16))
    assert logits.device.type == "meta" and logits.dtype == torch.float32


def test_the_foreign_device_would_show_a_mixture() -> None:
    """Were calls on two devices not refused, the test above would pass for nothing."""
    with FakeTensorMode():
        foreign = torch.zeros(3, device="meta")
        with pytest.raises(RuntimeError, match="same device"):
            foreign.index_select(0, torch.tensor([1]))
        with pytest.raises(RuntimeError):
            bool((foreign > 0).any())

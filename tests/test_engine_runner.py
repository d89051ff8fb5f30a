"""The runner trusts no table: what a manager gets wrong is an error there, before anything is computed."""

from __future__ import annotations

import pytest
import torch

from course.contract import BlockId
from course.engine.models import load_model
from course.engine.runner import BadBlock, NoBlock, NotWritten, Runner, WriteRefused
from course.engine.step import Chunk
from solutions.kv_pool import KvPool

BLOCK_SIZE = 4
N_BLOCKS = 8


@pytest.fixture
def pool() -> KvPool:
    return KvPool(N_BLOCKS, BLOCK_SIZE)


@pytest.fixture
def runner(pool: KvPool) -> Runner:
    return Runner(load_model("byte-tiny").model, pool, N_BLOCKS, BLOCK_SIZE)


def untouched(runner: Runner) -> bool:
    return not runner.kv.k.any() and not runner.kv.v.any()


def test_it_gives_the_likeliest_token_after_each_chunk(runner: Runner, pool: KvPool) -> None:
    chunks = [Chunk("a", [1, 2, 3, 4, 5], 0, pool.alloc(2)), Chunk("b", [9], 0, pool.alloc(1))]
    logits = runner.logits(chunks)
    assert runner.run(chunks) == [int(torch.argmax(row)) for row in logits]
    assert logits.shape == (2, runner.model.config.vocab_size)


def test_of_equal_tokens_the_lowest_id_is_taken(runner: Runner, pool: KvPool, monkeypatch: pytest.MonkeyPatch) -> None:
    tied = torch.zeros(1, runner.model.config.vocab_size)
    tied[0, [7, 30, 200]] = 1.0
    monkeypatch.setattr(runner.model, "forward", lambda step, kv: tied)
    assert runner.run([Chunk("a", [1], 0, pool.alloc(1))]) == [7]


@pytest.mark.parametrize(
    ("start", "n", "blocks", "position"), [(0, 5, 1, 4), (0, 1, 0, 0), (4, 1, 1, 4), (9, 1, 1, 9), (0, 12, 2, 8)]
)
def test_a_position_without_a_block(
    runner: Runner, pool: KvPool, start: int, n: int, blocks: int, position: int
) -> None:
    with pytest.raises(NoBlock, match=f"^position {position} of sequence s has no block$"):
        runner.run([Chunk("s", [1] * n, start, pool.alloc(blocks))])
    assert untouched(runner)


@pytest.mark.parametrize("block", [-1, N_BLOCKS, 10**12])
def test_a_block_that_the_pool_does_not_have(runner: Runner, pool: KvPool, block: BlockId) -> None:
    with pytest.raises(BadBlock, match=f"names block {block}, and the pool has 8 blocks"):
        runner.run([Chunk("s", [1], 0, [*pool.alloc(1), block])])
    assert untouched(runner)


def test_a_table_with_one_block_twice(runner: Runner, pool: KvPool) -> None:
    (block,) = pool.alloc(1)
    with pytest.raises(BadBlock, match="twice"):
        runner.run([Chunk("s", [1] * 5, 0, [block, block])])
    assert untouched(runner)


def test_a_write_into_a_block_that_somebody_else_holds(runner: Runner, pool: KvPool) -> None:
    table = pool.alloc(1)
    pool.retain(table[0])
    with pytest.raises(WriteRefused, match="has 2 references"):
        runner.run([Chunk("s", [1], 0, table)])
    assert untouched(runner)


def test_a_write_into_a_block_that_nobody_holds(runner: Runner) -> None:
    with pytest.raises(WriteRefused, match="has 0 references"):
        runner.run([Chunk("s", [1], 0, [3])])
    assert untouched(runner)


def test_a_write_into_a_block_that_has_a_name(runner: Runner, pool: KvPool) -> None:
    """A hash-mode hit has one reference like a block of one's own: the name tells them apart."""
    table = pool.alloc(1)
    pool.set_fill(table[0], BLOCK_SIZE)
    assert pool.register(table[0], 77)
    with pytest.raises(WriteRefused, match="has a name"):
        runner.run([Chunk("s", [1], 0, table)])
    assert untouched(runner)


def test_two_sequences_that_would_write_one_block(runner: Runner, pool: KvPool) -> None:
    table = pool.alloc(1)
    with pytest.raises(WriteRefused, match="sequences a and b would both write"):
        runner.run([Chunk("a", [1], 0, table), Chunk("b", [2], 0, table)])
    assert untouched(runner)


def test_a_read_of_what_nobody_wrote(runner: Runner, pool: KvPool) -> None:
    table = pool.alloc(2)
    runner.run([Chunk("s", [1, 2], 0, table)])
    with pytest.raises(NotWritten, match="position 2 of sequence s was never written"):
        runner.run([Chunk("s", [1], 4, table)])
    runner.run([Chunk("s", [3, 4, 5], 2, table)])


def test_a_block_begun_anew_forgets_what_it_held(runner: Runner, pool: KvPool) -> None:
    table = pool.alloc(1)
    runner.run([Chunk("old", [1, 2, 3, 4], 0, table)])
    runner.run([Chunk("new", [5], 0, table)])
    with pytest.raises(NotWritten, match="position 1 of sequence new"):
        runner.run([Chunk("new", [6], 2, table)])


def test_shared_and_named_blocks_are_read_freely(runner: Runner, pool: KvPool) -> None:
    first = pool.alloc(2)
    cold = runner.logits([Chunk("a", [1, 2, 3, 4, 5], 0, first)])
    pool.set_fill(first[0], BLOCK_SIZE)
    pool.register(first[0], 77)
    pool.retain(first[0])
    hit = runner.logits([Chunk("b", [5], 4, [first[0], *pool.alloc(1)])])
    assert torch.equal(hit, cold)


def test_asking_changes_nothing_in_the_pool(runner: Runner, pool: KvPool) -> None:
    table = pool.alloc(2)
    pool.set_fill(table[0], 3)
    before = (pool.n_free, pool.n_used, pool.n_cached, [pool.fill(block) for block in table])
    runner.run([Chunk("s", [1] * 6, 0, table)])
    assert (pool.n_free, pool.n_used, pool.n_cached, [pool.fill(block) for block in table]) == before


@pytest.mark.parametrize("token", [-1, 260])
def test_a_token_outside_the_vocabulary(runner: Runner, pool: KvPool, token: int) -> None:
    with pytest.raises(ValueError, match=f"token {token} of sequence s is outside the vocabulary of 260"):
        runner.run([Chunk("s", [1, token], 0, pool.alloc(1))])


def test_what_the_model_refuses(runner: Runner, pool: KvPool) -> None:
    with pytest.raises(ValueError, match="without chunks"):
        runner.run([])
    with pytest.raises(ValueError, match="without tokens"):
        runner.run([Chunk("s", [], 0, pool.alloc(1))])


# ---------------------------------------------------------------- whole blocks, for a transfer


def test_whole_blocks_are_read_and_written(runner: Runner, pool: KvPool) -> None:
    table = pool.alloc(2)
    runner.run([Chunk("s", list(range(8)), 0, table)])
    content = runner.read_blocks(table[::-1])
    assert content.shape == (2, 2, 2, BLOCK_SIZE, 2, 16)
    assert torch.equal(content[0, :, 1], runner.kv.k[:, table[0]]) and torch.equal(
        content[1, :, 0], runner.kv.v[:, table[1]]
    )
    fresh = pool.alloc(2)
    runner.write_blocks(fresh, content)
    assert torch.equal(runner.kv.k[:, fresh], runner.kv.k[:, table[::-1]]) and runner.kv.v[:, fresh].any()
    runner.kv.k.zero_()
    assert content[0].any(), "a copy: what is written later does not change it"


def test_a_block_written_in_part_is_not_read(runner: Runner, pool: KvPool) -> None:
    table = pool.alloc(2)
    runner.run([Chunk("s", list(range(7)), 0, table)])
    with pytest.raises(NotWritten, match=f"position 3 of block {table[1]}"):
        runner.read_blocks(table)


def test_written_blocks_can_be_read_by_a_step(runner: Runner, pool: KvPool) -> None:
    first = pool.alloc(1)
    runner.run([Chunk("s", list(range(4)), 0, first)])
    fresh = pool.alloc(1)
    with pytest.raises(NotWritten):
        runner.run([Chunk("t", [9], 4, [*fresh, *pool.alloc(1)])])
    runner.write_blocks(fresh, runner.read_blocks(first))
    runner.run([Chunk("t", [9], 4, [*fresh, *pool.alloc(1)])])


def test_only_a_block_of_ones_own_is_written(runner: Runner, pool: KvPool) -> None:
    (mine, shared, named) = pool.alloc(3)
    runner.run([Chunk("s", list(range(4)), 0, [mine])])
    content = runner.read_blocks([mine])
    pool.retain(shared)
    pool.set_fill(named, BLOCK_SIZE)
    pool.register(named, 77)
    before = runner.kv.k.clone()
    for block, reason in ((shared, "has 2 references"), (named, "has a name"), (7, "has 0 references")):
        with pytest.raises(WriteRefused, match=f"block {block} can't be written: it {reason}"):
            runner.write_blocks([block], content)
    assert torch.equal(runner.kv.k, before)


def test_blocks_that_are_not_there_or_named_twice(runner: Runner, pool: KvPool) -> None:
    for blocks in ([8], [-1]):
        with pytest.raises(BadBlock, match="the pool has 8 blocks"):
            runner.read_blocks(blocks)
        with pytest.raises(BadBlock, match="the pool has 8 blocks"):
            runner.write_blocks(blocks, torch.zeros(2, 2, 1, BLOCK_SIZE, 2, 16))
    (block,) = pool.alloc(1)
    with pytest.raises(BadBlock, match="twice"):
        runner.write_blocks([block, block], torch.zeros(2, 2, 2, BLOCK_SIZE, 2, 16))


@pytest.mark.parametrize(
    "content",
    [
        torch.zeros(2, 2, 2, BLOCK_SIZE, 2, 16),
        torch.zeros(2, 3, 1, BLOCK_SIZE, 2, 16),
        torch.zeros(2, 2, 1, BLOCK_SIZE, 2, 16, dtype=torch.float64),
    ],
)
def test_content_of_another_shape_or_type(runner: Runner, pool: KvPool, content: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="another model, block size or type"):
        runner.write_blocks(pool.alloc(1), content)
    assert not any(runner._written)

"""Answers don't depend on the cache, to the bit: hand-made block tables under the model, no manager.

Every way of computing a prompt is held against the plainest: alone, at once, into fresh blocks. Compared are the
logits after the prompt and after each of a few tokens more, and the K and V of every position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
import torch

from course.engine.invariance import check_invariance, main
from course.engine.loaded import ModelUnavailable
from course.engine.model import Llama, PagedKv
from course.engine.models import load_model
from course.engine.step import Chunk, StepInput

BLOCK_SIZE = 16
N_BLOCKS = 160
CHUNKS = (16, 32, 64, 256)
LENGTHS = (301, 16, 97, 130, 256)
N_MORE = 4
HIT = 48
"""Tokens of a prompt that are found in blocks which another sequence has computed."""


@dataclass
class Running:
    """One sequence under test: its tokens, its blocks, what is computed, its logits from the prompt's end on."""

    tokens: list[int]
    prompt: int
    table: list[int]
    computed: int = 0
    logits: list[torch.Tensor] = field(default_factory=list)

    def next_chunk(self, seq: int, size: int) -> Chunk:
        end = min(self.computed + size, self.prompt) if self.computed < self.prompt else self.computed + 1
        return Chunk(seq, self.tokens[self.computed : end], self.computed, self.table)


def tokens_of(model: Llama, n: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(model.config.vocab_size, (n,), generator=generator).tolist()


def sequences(model: Llama, n: int, tables: Iterator[int]) -> list[Running]:
    made = []
    for seed, prompt in enumerate(LENGTHS[:n]):
        tokens = tokens_of(model, prompt + N_MORE, seed)
        made.append(Running(tokens, prompt, [next(tables) for _ in range(-(-len(tokens) // BLOCK_SIZE))]))
    return made


def run(model: Llama, kv: PagedKv, running: Sequence[Running], chunk: int, steps: int = 10_000) -> None:
    """Advance all side by side, each by a chunk a step, then by one token a step."""
    for _ in range(steps):
        live = [(n, one) for n, one in enumerate(running) if one.computed < len(one.tokens)]
        if not live:
            return
        chunks = tuple(one.next_chunk(n, chunk) for n, one in live)
        logits = model.forward(StepInput(chunks), kv)
        for (_, one), computed, row in zip(live, chunks, logits, strict=True):
            one.computed = computed.end
            if one.computed >= one.prompt:
                one.logits.append(row)


def content(kv: PagedKv, one: Running) -> tuple[torch.Tensor, torch.Tensor]:
    """K and V of its positions, in order."""
    n = len(one.tokens)
    return kv.k[:, one.table].flatten(1, 2)[:, :n], kv.v[:, one.table].flatten(1, 2)[:, :n]


def plainest(model: Llama) -> list[tuple[Running, PagedKv]]:
    found = []
    for one in sequences(model, len(LENGTHS), iter(range(N_BLOCKS))):
        kv = model.new_kv(N_BLOCKS, BLOCK_SIZE)
        run(model, kv, [one], 10_000)
        found.append((one, kv))
    return found


def dirty_kv(model: Llama) -> PagedKv:
    """As after evictions: every block holds what some other sequence left there."""
    kv = model.new_kv(N_BLOCKS, BLOCK_SIZE)
    generator = torch.Generator().manual_seed(99)
    kv.k.copy_(torch.randn(kv.k.shape, generator=generator) * 3)
    kv.v.copy_(torch.randn(kv.v.shape, generator=generator) * 3)
    return kv


def hand_over_prefixes(model: Llama, kv: PagedKv, running: Sequence[Running], blocks: Iterator[int]) -> None:
    """Let another sequence, with another end, compute the head of each prompt; its full blocks are then found."""
    for one in running:
        hit = min(HIT, (one.prompt - 1) // BLOCK_SIZE * BLOCK_SIZE)
        shared = [next(blocks) for _ in range(hit // BLOCK_SIZE)]
        other = Running([*one.tokens[:hit], *tokens_of(model, 7, 50)], hit + 7, [*shared, next(blocks)])
        run(model, kv, [other], 32)
        one.table[: len(shared)] = shared
        one.computed = hit


def preempt(running: Sequence[Running], blocks: Iterator[int]) -> None:
    """Each gives up its blocks and comes back on new ones, but for two full blocks that are found again."""
    for one in running:
        kept = min(2, one.computed // BLOCK_SIZE, (one.prompt - 1) // BLOCK_SIZE)
        one.table[kept:] = [next(blocks) for _ in one.table[kept:]]
        one.computed, one.logits = kept * BLOCK_SIZE, []


def assert_same_bits(running: Sequence[Running], kv: PagedKv, truth: Sequence[tuple[Running, PagedKv]]) -> None:
    for n, (one, (expected, expected_kv)) in enumerate(zip(running, truth, strict=False)):
        assert len(one.logits) == N_MORE + 1
        for at, (got, want) in enumerate(zip(one.logits, expected.logits, strict=True)):
            assert torch.equal(got, want), f"logits {at} of sequence {n}"
        for got, want in zip(content(kv, one), content(expected_kv, expected), strict=True):
            assert torch.equal(got, want), f"K or V of sequence {n}"


def check(model: Llama, truth: Sequence[tuple[Running, PagedKv]], chunk: int, n: int, history: str) -> None:
    """Run n sequences in chunks after this history, in scattered blocks, and compare with the plainest way."""
    blocks = iter(torch.randperm(N_BLOCKS, generator=torch.Generator().manual_seed(chunk)).tolist())
    kv = model.new_kv(N_BLOCKS, BLOCK_SIZE) if history == "cold" else dirty_kv(model)
    running = sequences(model, n, blocks)
    if history == "hit":
        hand_over_prefixes(model, kv, running, blocks)
    if history == "preempted":
        run(model, kv, running, 64, steps=2)
        preempt(running, blocks)
    run(model, kv, running, chunk)
    assert_same_bits(running, kv, truth)


HISTORIES = ("cold", "evicted", "hit", "preempted")


@pytest.fixture(scope="module")
def byte_model() -> Llama:
    return load_model("byte").model


@pytest.fixture(scope="module")
def byte_truth(byte_model: Llama) -> list[tuple[Running, PagedKv]]:
    return plainest(byte_model)


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("chunk", CHUNKS)
def test_the_byte_model_answers_with_the_same_bits(
    byte_model: Llama, byte_truth: list[tuple[Running, PagedKv]], chunk: int, n: int, history: str
) -> None:
    check(byte_model, byte_truth, chunk, n, history)


@pytest.mark.slow
def test_smollm2_answers_with_the_same_bits() -> None:
    try:
        model = load_model("smollm2").model
    except ModelUnavailable as reason:
        pytest.skip(str(reason))
    truth = plainest(model)
    for history in HISTORIES:
        for n in (1, 5):
            for chunk in CHUNKS:
                check(model, truth, chunk, n, history)


@pytest.mark.parametrize("chunk", [1, 7, 48])
def test_odd_chunks_and_blocks_of_odd_size_change_nothing_either(byte_model: Llama, chunk: int) -> None:
    tokens = tokens_of(byte_model, 150, 3)
    logits = []
    for size, block_size in ((150, 16), (chunk, 5)):
        n_blocks = -(-150 // block_size)
        kv = byte_model.new_kv(n_blocks, block_size)
        one = Running(tokens, 150, list(range(n_blocks))[::-1])
        run(byte_model, kv, [one], size)
        logits.append(one.logits[0])
    assert torch.equal(*logits)


def test_the_comparison_sees_one_changed_bit(byte_model: Llama, byte_truth: list[tuple[Running, PagedKv]]) -> None:
    """Were the answers not read from the blocks, every test above would pass for nothing."""
    blocks = iter(range(N_BLOCKS))
    kv = byte_model.new_kv(N_BLOCKS, BLOCK_SIZE)
    running = sequences(byte_model, 1, blocks)
    hand_over_prefixes(byte_model, kv, running, blocks)
    kv.v[0, running[0].table[0], 0, 0, 0] += 0.5
    run(byte_model, kv, running, 32)
    with pytest.raises(AssertionError, match="logits 0 of sequence 0"):
        assert_same_bits(running, kv, byte_truth)


def test_the_start_up_test_finds_nothing_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "byte-tiny", "--device", "cpu"]) == 0
    assert "the same bits" in capsys.readouterr().out


def test_the_start_up_test_says_what_breaks(byte_model: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device whose products differ with the number of rows, played by one that adds the number of rows."""
    from course.engine import invariance, model

    plain = torch.nn.functional.linear
    for module in (invariance, model):
        monkeypatch.setattr(module, "linear", lambda x, weight: plain(x, weight) + len(x) * 1e-4)
    broken = "\n".join(check_invariance(byte_model))
    assert "a matrix product of 32, 48, 64, 128, 256 rows" in broken
    assert "in chunks of 16, 32, 48, 64, 256" in broken
    assert "beside 4 others" in broken


def test_the_start_up_test_refuses_an_unknown_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "no-such-model"]) == 2
    assert "no-such-model" in capsys.readouterr().err

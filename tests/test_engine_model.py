"""The model against `transformers` on the same weights: logits within a stated distance, and the same greedy tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from course.engine.loaded import LoadedModel, ModelUnavailable
from course.engine.model import Llama, LlamaConfig
from course.engine.models import load_model
from course.engine.rope import RopeScaling
from course.engine.smollm2 import smollm2_folder
from course.engine.step import Chunk, StepInput
from course.engine.tokenizer import write_bpe_tokenizer

BLOCK_SIZE = 16
PROMPT_LENGTHS = (10, 60, 150, 333, 600)
N_NEW = 12

TINY_TOLERANCE = 5e-5
SMOLLM2_TOLERANCE = 2e-4
"""Both engines sum in float32, in different orders. The largest distance of any logit at any of the prompts' ends;
measured were 1.1e-5 and 3.3e-5, with logits of up to 36."""


def greedy(model: Llama, prompt: Sequence[int], n_new: int, chunk: int = 256) -> tuple[list[int], torch.Tensor]:
    """The next tokens, and the logits right after the prompt."""
    n_blocks = -(-(len(prompt) + n_new) // BLOCK_SIZE)
    kv, table = model.new_kv(n_blocks, BLOCK_SIZE), range(n_blocks)
    for start in range(0, len(prompt), chunk):
        first = model.forward(StepInput((Chunk("s", prompt[start : start + chunk], start, table),)), kv)
    new, logits = [int(first.argmax())], first
    while len(new) < n_new:
        logits = model.forward(StepInput((Chunk("s", new[-1:], len(prompt) + len(new) - 1, table),)), kv)
        new.append(int(logits.argmax()))
    return new, first[0]


def theirs(model: Any, prompt: Sequence[int], n_new: int) -> tuple[list[int], torch.Tensor]:
    with torch.inference_mode():
        first = model(torch.tensor([list(prompt)])).logits[0, -1]
        answer = model.generate(
            torch.tensor([list(prompt)]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=n_new,
            min_new_tokens=n_new,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
    return answer[0, len(prompt) :].tolist(), first


def compare(ours: Llama, other: Any, prompts: Sequence[Sequence[int]], tolerance: float) -> None:
    for prompt in prompts:
        (new, logits), (expected, expected_logits) = greedy(ours, prompt, N_NEW), theirs(other, prompt, N_NEW)
        distance = float((logits - expected_logits).abs().max())
        assert distance <= tolerance, f"{len(prompt)} tokens: logits are {distance} apart"
        assert new == expected, f"{len(prompt)} tokens: other greedy tokens"


# ---------------------------------------------------------------- a random tiny Llama


def tiny_checkpoint(folder: Path, **settings: Any) -> Any:
    """A random Llama saved by `transformers`, with a byte-level tokenizer beside it; the model it came from."""
    from tokenizers import pre_tokenizers
    from transformers import LlamaConfig as TheirConfig
    from transformers import LlamaForCausalLM

    sizes = {"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 100}
    more = {"num_hidden_layers": 3, "vocab_size": 300, "max_position_embeddings": 1024, "initializer_range": 0.2}
    torch.manual_seed(5)
    model = LlamaForCausalLM(TheirConfig(**(sizes | more | settings))).eval()
    model.save_pretrained(folder, max_shard_size=settings.get("shard", "1GB"))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    specials = [f"<s{n}>" for n in range(300 - len(alphabet))]
    write_bpe_tokenizer(folder / "tokenizer.json", [*alphabet, *specials], [], specials, split_digits=False)
    return model


def tiny_prompts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(8)
    return [torch.randint(300, (n,), generator=generator).tolist() for n in PROMPT_LENGTHS]


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}},
        {"head_dim": 16, "rms_norm_eps": 1e-3},
        {"rope_parameters": LLAMA3},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 2.0}},
        {"num_key_value_heads": 6, "shard": "50KB"},
    ],
    ids=["plain", "tied", "own-head-size", "llama3-rope", "linear-rope", "sharded"],
)
def test_a_random_llama_answers_as_in_transformers(tmp_path: Path, settings: dict[str, Any]) -> None:
    other = tiny_checkpoint(tmp_path, **settings)
    assert (tmp_path / "model.safetensors.index.json").exists() == ("shard" in settings)
    compare(load_model(str(tmp_path)).model, other, tiny_prompts(), TINY_TOLERANCE)


# ---------------------------------------------------------------- SmolLM2

TEXT = (
    "A block holds the keys and values of sixteen positions. When a request ends, its full blocks are kept, and the "
    "next request that begins with the same 1,024 tokens takes them over instead of computing them again. "
)


def smollm2() -> LoadedModel:
    try:
        return load_model("smollm2")
    except ModelUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
def test_smollm2_answers_as_in_transformers() -> None:
    from transformers import LlamaForCausalLM

    ours = smollm2()
    other = LlamaForCausalLM.from_pretrained(smollm2_folder(), dtype=torch.float32).eval()
    ids = ours.tokenizer.encode(TEXT * 20)
    compare(ours.model, other, [ids[start : start + n] for start, n in enumerate(PROMPT_LENGTHS)], SMOLLM2_TOLERANCE)


@pytest.mark.slow
def test_smollm2_gives_a_sensible_answer() -> None:
    loaded = smollm2()
    prompt = loaded.chat([{"role": "user", "content": "What is the capital of France? Answer in one sentence."}])
    ids, _ = greedy(loaded.model, loaded.tokenizer.encode(prompt), 12)
    end = next(n for n, token in enumerate(ids) if token in loaded.tokenizer.stop_ids)
    assert loaded.tokenizer.decode(ids[:end]) == "The capital of France is Paris."


@pytest.mark.slow
def test_smollm2_reads_text_as_transformers_does() -> None:
    from transformers import PreTrainedTokenizerFast

    ours, folder = smollm2(), smollm2_folder()
    other = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    text = "Zwölf 12345 blocks,\n\n  \tdon't <|im_end|> 日本 🙂"
    ids = ours.tokenizer.encode(text)
    assert ids == other(text, add_special_tokens=False)["input_ids"]
    assert len([i for i in ids if ours.tokenizer.decode([i]).strip() in set("12345")]) == 5
    assert ours.tokenizer.decode(ids) == text.replace("<|im_end|>", "")
    assert 2 in ids and ours.tokenizer.stop_ids == {2}


# ---------------------------------------------------------------- sizes that can't be


def test_heads_that_can_not_be_shared_evenly() -> None:
    with pytest.raises(ValueError, match="6 query heads can't share 4"):
        LlamaConfig(10, 12, 1, 6, 4, 2, 8)


def test_a_head_of_odd_size() -> None:
    with pytest.raises(ValueError, match="no two halves"):
        LlamaConfig(10, 12, 1, 6, 2, 3, 8, rope_scaling=RopeScaling("linear", 2.0))


def test_a_prompt_beyond_the_models_positions() -> None:
    model = load_model("byte-tiny").model
    kv = model.new_kv(4, 16)
    with pytest.raises(ValueError, match="sequence s reaches 4097 positions, and the model has 4096"):
        model.forward(StepInput((Chunk("s", [1, 2], 4095, range(4)),)), kv)


def test_bfloat16_comes_near_float32() -> None:
    """The whole path in the type that a GPU uses; eight bits of precision through six layers."""
    prompt = [(i * 37) % 256 for i in range(200)]
    _, exact = greedy(load_model("byte").model, prompt, 1)
    _, rough = greedy(load_model("byte", dtype="bfloat16").model, prompt, 1)
    assert rough.dtype == torch.float32
    assert float((exact - rough).norm() / exact.norm()) < 0.1

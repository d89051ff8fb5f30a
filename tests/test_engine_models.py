"""Loading models: names, a checkpoint folder and what is refused of one, SmolLM2's file, tokenizers, chat templates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from course.engine import smollm2
from course.engine.byte_model import SIZES, load_byte_model
from course.engine.loaded import CACHE_VARIABLE, ModelUnavailable, ModelUnsupported, cache_folder
from course.engine.models import load_model, pick_device
from course.engine.step import Chunk, StepInput
from course.engine.tokenizer import ByteTokenizer, FileTokenizer, byte_chat, chat_of, write_bpe_tokenizer
from course.engine.weights import HEAD, LlamaConfig, all_shapes

TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
CONFIG = LlamaConfig(260, 32, 2, 4, 2, 8, 48)


# ---------------------------------------------------------------- names


def test_a_byte_model_is_the_same_for_the_same_seed_only() -> None:
    def logits(seed: int) -> torch.Tensor:
        model = load_model("byte-tiny", seed=seed).model
        return model.forward(StepInput((Chunk("s", [1, 2, 3], 0, [0]),)), model.new_kv(1, 16))

    assert torch.equal(logits(1), logits(1))
    assert not torch.equal(logits(1), logits(2))


def test_a_byte_model_answers_from_all_that_came_before() -> None:
    model = load_model("byte").model
    first = [(31 * i) % 256 for i in range(200)]
    rows = [
        model.forward(StepInput((Chunk("s", tokens, 0, range(13)),)), model.new_kv(13, 16))[0]
        for tokens in (first, [5, *first[1:]])
    ]
    assert (rows[0] - rows[1]).norm() / rows[0].norm() > 1e-4


def test_a_byte_model_has_room_for_its_tokenizer() -> None:
    with pytest.raises(ValueError, match="at least 260, not 256"):
        load_byte_model(LlamaConfig(256, 32, 1, 4, 2, 8, 48))
    assert all(config.vocab_size == ByteTokenizer.n_ids for config in SIZES.values())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_model("no-such-model"), "no model 'no-such-model': it is neither one of byte-tiny, byte"),
        (lambda: load_model("byte", dtype="int4"), "no type 'int4'"),
        (lambda: load_model("byte", device="abacus"), "no device 'abacus'"),
        (lambda: pick_device("xpu"), "not there on this machine"),
    ],
)
def test_names_that_mean_nothing(call: Callable[[], object], message: str) -> None:
    with pytest.raises((ModelUnavailable, ValueError), match=message):
        call()


def test_a_device_is_there() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type in {"cpu", "cuda", "mps"}


# ---------------------------------------------------------------- bytes


@pytest.mark.parametrize("text", ["", "plain", "Zwölf 🙂\n", "<|user|>hi<|end|><|assistant|>", "<|use", "a<|end|>b"])
def test_bytes_there_and_back(text: str) -> None:
    tokenizer = ByteTokenizer()
    without = text
    for special in ("<|user|>", "<|end|>", "<|assistant|>"):
        without = without.replace(special, "")
    assert tokenizer.decode(tokenizer.encode(text)) == without
    assert tokenizer.encode("a<|end|>") == [97, *tokenizer.stop_ids]


def test_broken_utf8_becomes_a_replacement_character() -> None:
    assert ByteTokenizer().decode([0xF0, 0x9F, 65, 258]) == "\ufffdA"


def test_a_byte_conversation() -> None:
    assert byte_chat(TALK) == "<|system|>Be brief.<|end|><|user|>Hello<|end|><|assistant|>"


# ---------------------------------------------------------------- a checkpoint folder


def write_tokenizer(folder: Path) -> None:
    from tokenizers import pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*alphabet, "<s>", "</s>", "he", "hello"]
    write_bpe_tokenizer(folder / "tokenizer.json", tokens, ["h e"], ["<s>", "</s>"], split_digits=True)


RAW: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": CONFIG.vocab_size,
    "hidden_size": CONFIG.hidden,
    "num_hidden_layers": CONFIG.n_layers,
    "num_attention_heads": CONFIG.n_heads,
    "num_key_value_heads": CONFIG.n_kv_heads,
    "intermediate_size": CONFIG.intermediate,
    "eos_token_id": [257, 7],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = torch.Generator().manual_seed(0)
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in all_shapes(CONFIG).items()}
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(RAW))
    write_tokenizer(tmp_path)
    return tmp_path


def test_a_checkpoint_without_a_template(folder: Path) -> None:
    loaded = load_model(str(folder))
    assert loaded.name == folder.name
    assert loaded.chat(TALK) == "system: Be brief.\nuser: Hello\nassistant:"
    assert loaded.tokenizer.stop_ids == {257, 7}
    assert loaded.tokenizer.encode("he</s>") == [258, 257]


def test_a_checkpoint_with_a_template(folder: Path) -> None:
    template = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m['content'] }}{% endfor %}{{ eos_token }}"
    settings = {"bos_token": {"content": "<s>"}, "eos_token": "he", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    loaded = load_model(str(folder))
    assert loaded.chat(TALK) == "<s>[system] Be brief.[user] Hellohe"
    assert loaded.tokenizer.stop_ids == {257, 7, 258}
    (folder / "chat_template.jinja").write_text("{{ messages[-1].content }}")
    assert load_model(str(folder)).chat(TALK) == "Hello"


def test_progress_is_told(folder: Path) -> None:
    told: list[tuple[str, int, int]] = []
    load_model(str(folder), report=lambda *what: told.append(what))
    n = len(all_shapes(CONFIG))
    assert told == [("loading weights", done, n) for done in range(1, n + 1)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, "config.json: model_type is 'gpt2'"),
        ({"hidden_act": "gelu"}, "config.json: hidden_act is 'gelu', and only 'silu'"),
        ({"attention_bias": True}, "config.json: attention_bias is True"),
        ({"quantization_config": {"bits": 4}}, "config.json: quantization_config"),
        ({"sliding_window": 512}, "config.json: sliding_window is 512"),
        ({"hidden_size": None}, "config.json: hidden_size is None, and must be a whole number"),
        ({"num_hidden_layers": "2"}, "config.json: num_hidden_layers is '2'"),
        ({"num_key_value_heads": 3}, "config.json: 4 query heads can't share 3"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2}}, "config.json: rope_scaling of type 'yarn'"),
        ({"rope_parameters": {"rope_type": "linear"}}, "config.json: rope_parameters has no 'factor'"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "config.json: rope_parameters turns a part"),
        ({"num_hidden_layers": 3}, "no tensor model.layers.2.input_layernorm.weight"),
        ({"intermediate_size": 40}, r"gate_proj.weight is \(48, 32\), and the configuration asks for \(40, 32\)"),
    ],
)
def test_a_configuration_that_is_refused(folder: Path, change: dict[str, Any], message: str) -> None:
    (folder / "config.json").write_text(json.dumps(RAW | change))
    with pytest.raises(ModelUnsupported, match=message):
        load_model(str(folder))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_file_that_is_missing_or_broken(folder: Path, name: str) -> None:
    (folder / name).write_text("}")
    with pytest.raises(ModelUnsupported, match=name):
        load_model(str(folder))
    (folder / name).unlink()
    with pytest.raises(ModelUnsupported, match=name):
        load_model(str(folder))


def test_tensors_that_are_refused(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    whole = tensors | {"model.norm.weight": torch.ones(32, dtype=torch.int8)}
    save_file(whole, folder / "model.safetensors")
    with pytest.raises(ModelUnsupported, match=r"model.norm.weight is torch.int8; quantized"):
        load_model(str(folder))
    save_file({name: tensor for name, tensor in tensors.items() if name != HEAD}, folder / "model.safetensors")
    with pytest.raises(ModelUnsupported, match=r"no tensor lm_head.weight, and config.json does not tie it"):
        load_model(str(folder))


def test_an_index_that_names_a_missing_shard(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": dict.fromkeys(all_shapes(CONFIG), "../outside.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelUnsupported, match=f"{folder}/outside.safetensors can't be read"):
        load_model(str(folder))


# ---------------------------------------------------------------- chat templates


def test_a_template_can_refuse() -> None:
    with pytest.raises(ValueError, match="refuses this conversation: user first"):
        chat_of("{{ raise_exception('user first') }}", {})(TALK)


def test_a_template_runs_in_a_sandbox() -> None:
    with pytest.raises(ValueError, match="refuses"):
        chat_of("{{ ''.__class__.__mro__[1].__subclasses__() }}", {})(TALK)


def test_digits_stand_alone_only_where_asked(tmp_path: Path) -> None:
    tokens = ["1", "2", "12"]
    for split, expected in ((True, [0, 1]), (False, [2])):
        write_bpe_tokenizer(tmp_path / "t.json", tokens, ["1 2"], [], split_digits=split)
        assert FileTokenizer(tmp_path / "t.json").encode("12") == expected


# ---------------------------------------------------------------- SmolLM2's file


def write_gguf(path: Path, tensors: dict[str, np.ndarray[Any, Any]]) -> None:
    """A Llama GGUF file of CONFIG's shape, laid out as the real one is."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(CONFIG.hidden)
    writer.add_block_count(CONFIG.n_layers)
    writer.add_feed_forward_length(CONFIG.intermediate)
    writer.add_head_count(CONFIG.n_heads)
    writer.add_head_count_kv(CONFIG.n_kv_heads)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(CONFIG.vocab_size)
    writer.add_tokenizer_model("gpt2")
    from tokenizers import pre_tokenizers

    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<s>", "</s>", "he", "hel"]
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token.endswith("s>") else 1 for token in tokens])
    writer.add_token_merges(["h e", "he l"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_chat_template("{% for m in messages %}<s>{{ m.content }}</s>{% endfor %}")
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_name(name: str) -> str:
    top = {ours: theirs for theirs, ours in smollm2.TOP_TENSORS.items()} | {HEAD: "output.weight"}
    if name in top:
        return top[name]
    layer, part = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
    return f"blk.{layer}.{ {ours: theirs for theirs, ours in smollm2.LAYER_TENSORS.items()}[part] }.weight"


def interleaved(weight: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Halves of a head put side by side in pairs, as writers of GGUF files do for q and k."""
    heads = weight.view(n_heads, 2, -1, weight.shape[1])
    return torch.stack((heads[:, 0], heads[:, 1]), dim=2).reshape(weight.shape)


def test_a_gguf_file_becomes_the_checkpoint_that_it_was(folder: Path, tmp_path: Path) -> None:
    tensors = {name: tensor for name, tensor in load_file(folder / "model.safetensors").items() if name != HEAD}
    written = {}
    for name, tensor in tensors.items():
        heads = CONFIG.n_heads if "q_proj" in name else CONFIG.n_kv_heads if "k_proj" in name else 0
        written[gguf_name(name)] = (interleaved(tensor, heads) if heads else tensor).numpy()
    write_gguf(tmp_path / "m.gguf", written)
    (made := tmp_path / "made").mkdir()
    smollm2.convert(tmp_path / "m.gguf", made)

    found = load_file(made / "model.safetensors")
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    loaded = load_model(str(made))
    assert loaded.model.config.tie_embeddings
    assert loaded.chat(TALK) == "<s>Be brief.</s><s>Hello</s>"
    assert loaded.tokenizer.encode("<s>hel</s>") == [256, 259, 257]
    assert loaded.tokenizer.stop_ids == {257}


def test_a_file_of_another_layout_is_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", {"blk.0.attn_qkv.weight": np.ones((4, 4), dtype=np.float32)})
    with pytest.raises(ModelUnavailable, match=r"m.gguf is not laid out as expected: 'attn_qkv'"):
        smollm2.convert(tmp_path / "m.gguf", tmp_path)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_without_a_network_it_says_what_would_help(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ModelUnavailable, match=r"could not be downloaded \(92 MB, once\): pip says: .*byte model"):
        load_model("smollm2")
    assert list(empty_cache.iterdir()) == []


def test_a_wheel_that_is_not_the_right_one(empty_cache: Path) -> None:
    empty_cache.mkdir()
    (empty_cache / smollm2.WHEEL).write_bytes(b"something else")
    with pytest.raises(ModelUnavailable, match="not the file it should be: SHA-256"):
        load_model("smollm2")
    assert [path.name for path in empty_cache.iterdir()] == [smollm2.WHEEL]


def test_a_cache_folder_that_can_not_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(ModelUnavailable, match=CACHE_VARIABLE):
        load_model("smollm2")


def test_the_cache_folder_has_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    assert cache_folder() == Path.home() / ".cache" / "kv-cache-course"

"""The configuration: one definition, its published schema and example, and errors that name file, key and value."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from course.contract import PrefixCache
from course.engine.config import EXAMPLE_FILE, SCHEMA_FILE, ConfigError, EngineConfig, load_config, schema, schema_text

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "runtime.toml"


def test_the_published_schema_is_the_definitions() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), "run python -m course.engine.config"
    json.loads(schema_text())


def test_the_schema_has_every_key_with_its_default_and_a_sentence() -> None:
    keys = schema()["properties"]["engine"]["properties"]
    assert list(keys) == [key.name for key in dataclasses.fields(EngineConfig)]
    assert all(key["description"].endswith(".") and "default" in key for key in keys.values())
    assert EngineConfig(**{name: key["default"] for name, key in keys.items()}) == EngineConfig()


def test_the_example_names_every_key_and_is_the_default() -> None:
    assert load_config(ROOT / EXAMPLE_FILE) == load_config() == EngineConfig()
    text = (ROOT / EXAMPLE_FILE).read_text(encoding="utf-8")
    assert all(f"\n{key.name} = " in text for key in dataclasses.fields(EngineConfig))


def test_what_is_said_on_the_command_line_stands_before_the_file(written: Path) -> None:
    written.write_text('[engine]\nprefix_cache = "hash"\nn_blocks = 7\n', encoding="utf-8")
    assert load_config(written) == EngineConfig(prefix_cache=PrefixCache.HASH, n_blocks=7)
    assert load_config(written, prefix_cache="none", n_blocks=None) == EngineConfig(
        prefix_cache=PrefixCache.NONE, n_blocks=7
    )
    assert load_config(prefix_cache=PrefixCache.HASH).prefix_cache is PrefixCache.HASH


@pytest.mark.parametrize(
    "text, message",
    [
        ('[engine]\nprefix_cache = "lru"', '[engine] prefix_cache = "lru" must be one of none, hash, radix'),
        ("[engine]\nblock_size = 0", "[engine] block_size = 0 must be at least 1"),
        ("[engine]\nblock_size = 16.0", "[engine] block_size = 16.0 must be an integer"),
        ("[engine]\nn_blocks = true", "[engine] n_blocks = true must be an integer"),
        ("[engine]\nmetrics_port = 70000", "[engine] metrics_port = 70000 must be at most 65535"),
        ('[engine]\nmodel = ""', '[engine] model = "" must not be empty'),
        ("[engine]\nmodel = 2001-01-01", '[engine] model = "2001-01-01" must be a string'),
        ("engine = 3", "engine = 3 must be a table"),
        ("[engine]\nprefix_cach = 1", "[engine] prefix_cach = 1: there is no such key; there are model, prefix_cache,"),
        ("[server]\nport = 1", "[server]: there is no such key; there are engine"),
        ("[engine", "is not TOML"),
    ],
)
def test_a_mistake_names_file_key_and_value(written: Path, text: str, message: str) -> None:
    written.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_config(written)
    assert message in str(error.value)
    assert str(error.value).startswith(str(written))


@pytest.mark.parametrize("content, message", [(None, "No such file or directory"), (b"\xff\xfe", "not UTF-8 text")])
def test_a_file_that_cannot_be_read_is_named(written: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        written.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as error:
        load_config(written)
    assert str(error.value).startswith(f"{written} can't be read: ")


@pytest.mark.parametrize("option", [{"prefix_cache": "lru"}, {"block_siz": 3}, {"seed": -1}])
def test_a_wrong_option_is_no_mistake_of_the_file(written: Path, option: dict[str, object]) -> None:
    written.write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"^option: \[engine\] {next(iter(option))} = "):
        load_config(written, **option)


def test_a_configuration_rounds_up_to_blocks() -> None:
    config = EngineConfig(block_size=4)
    assert [config.blocks_for(positions) for positions in (1, 4, 5, 8)] == [1, 1, 2, 2]

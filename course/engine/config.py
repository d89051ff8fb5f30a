"""The engine's configuration: its one definition, its published JSON schema, and how `runtime.toml` is read.

It knows every key, what it may be and what it is when nobody says. It does not know what a key does.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course.contract import PrefixCache
from course.engine.scheduler import ORDERS
from course.eviction import POLICIES

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

SCHEMA_FILE = Path(__file__).with_name("runtime.schema.json")
"""The published schema: what `schema()` gives, written out."""

EXAMPLE_FILE = "runtime.toml"
"""What a configuration file is called, and the example at the root of the repository."""


class ConfigError(ValueError):
    """A configuration that can't be used; the message names the file, the key and the value."""


def _key(about: str, **rules: Any) -> dict[str, Any]:
    """A sentence about a key, and what JSON schema says of its values."""
    return {"description": about, **rules}


def _count(about: str, minimum: int = 1) -> dict[str, Any]:
    return _key(about, type="integer", minimum=minimum)


def _choice(about: str, *choices: str) -> dict[str, Any]:
    return _key(about, type="string", enum=list(choices))


@dataclass(frozen=True)
class EngineConfig:
    """The `[engine]` table of `runtime.toml`; each key's meaning stands with it."""

    model: str = field(
        default="byte",
        metadata=_key(
            "byte (seeded random weights), smollm2 (SmolLM2-135M-Instruct), or the path of a folder with a "
            "Llama-architecture checkpoint in safetensors.",
            type="string",
            minLength=1,
        ),
    )
    prefix_cache: PrefixCache = field(
        default=PrefixCache.RADIX,
        metadata=_choice(
            "How prefixes are found again: none, hash (chained block hashes) or radix (a radix tree).",
            *(mode.value for mode in PrefixCache),
        ),
    )
    publish: str = field(
        default="release",
        metadata=_choice(
            "When a request's full blocks can be found by others: when it ends, or as soon as they are computed.",
            "release",
            "prefill",
        ),
    )
    eviction: str = field(
        default="lru",
        metadata=_choice(
            "Which leaves of the radix tree go first: the least recently used, the least frequently used, or by depth.",
            *POLICIES,
        ),
    )
    order: str = field(
        default="arrival",
        metadata=_choice(
            "Which waiting request is admitted first: the one that came first, or the one with the longest cached "
            "prefix.",
            *ORDERS,
        ),
    )
    block_size: int = field(default=16, metadata=_count("Token positions in a KV block (B)."))
    n_blocks: int = field(default=512, metadata=_count("KV blocks in the pool."))
    max_batch_tokens: int = field(
        default=256,
        metadata=_count(
            "Positions computed in one step, decodes and prefill together; so also the longest prefill chunk."
        ),
    )
    max_running: int = field(default=8, metadata=_count("Requests that hold blocks at the same time."))
    max_new_tokens: int = field(
        default=64, metadata=_count("Tokens in an answer, unless a request asks for another number.")
    )
    device: str = field(
        default="cpu",
        metadata=_choice("Where the model runs; auto takes the fastest there is.", "auto", "cpu", "cuda", "mps"),
    )
    dtype: str = field(
        default="float32",
        metadata=_choice("The type of weights, K and V.", "float32", "bfloat16", "float16"),
    )
    seed: int = field(default=0, metadata=_count("Seed of the byte model's random weights.", minimum=0))
    metrics_port: int = field(
        default=0,
        metadata=_key("The local port that serves /metrics; 0 serves none.", type="integer", minimum=0, maximum=65535),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix_cache", PrefixCache(self.prefix_cache))

    @property
    def manager_options(self) -> dict[str, Any]:
        """What a manager is told beside its mode; a manager without these options does for the defaults."""
        said = {"publish": self.publish, "eviction": self.eviction}
        return {key: value for key, value in said.items() if value != getattr(type(self), key)}

    def blocks_for(self, positions: int) -> int:
        """How many blocks hold so many positions, the last one perhaps in part."""
        return -(-positions // self.block_size)


def schema() -> dict[str, Any]:
    """The JSON schema of a configuration file, made from `EngineConfig`."""
    keys = {key.name: {**key.metadata, "default": _plain(key.default)} for key in fields(EngineConfig)}
    engine = {"type": "object", "additionalProperties": False, "properties": keys}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "runtime.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": {"engine": engine},
    }


def schema_text() -> str:
    """What stands in the published schema file: `python -m course.engine.config` writes it."""
    return json.dumps(schema(), indent=2) + "\n"


def load_config(path: str | Path | None = None, **overrides: Any) -> EngineConfig:
    """The configuration in a file, with what was said elsewhere (on a command line) in place of the file's.

    Args:
        path: a TOML file; None for the defaults.
        overrides: values by key; None leaves the file's.

    Raises:
        ConfigError: no such file, no TOML, or a key or value that the schema does not allow.
    """
    engine: Mapping[str, Any] = {}
    if path is not None:
        written = _read(Path(path))
        _check(written, str(path))
        engine = written.get("engine", {})
    said = {key: _plain(value) for key, value in overrides.items() if value is not None}
    _check({"engine": said}, "option")
    return EngineConfig(**{**engine, **said})


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path} can't be read: {reason}") from None
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"{path} is not TOML: {problem}") from None


def _check(values: Mapping[str, Any], source: str) -> None:
    """Raise ConfigError for the first thing that the schema does not allow."""
    from jsonschema import Draft202012Validator, validators  # it takes most of a second to import

    # JSON has one kind of number, so 16.0 is an integer to JSON schema; TOML has two, and a block size is a count.
    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    extend: Any = validators.extend  # it has no types of its own
    check = extend(Draft202012Validator, type_checker=types)(schema())
    for problem in sorted(check.iter_errors(values), key=lambda error: [str(part) for part in error.absolute_path]):
        raise ConfigError(f"{source}: {_told(problem)}")


def _told(problem: ValidationError) -> str:
    rule: Any = problem.validator_value
    value: Any = problem.instance
    if problem.validator == "additionalProperties":
        known = _keys_at(problem.absolute_path)
        wrong = next(key for key in value if key not in known)
        where = f"[engine] {wrong} = {_toml(value[wrong])}" if problem.absolute_path else f"[{wrong}]"
        return f"{where}: there is no such key; there are {', '.join(known)}"
    *table, key = problem.absolute_path
    where = f"[{table[0]}] {key}" if table else f"{key}"
    return f"{where} = {_toml(value)} must {RULES[str(problem.validator)](rule)}"


def _keys_at(path: Iterable[str | int]) -> list[str]:
    part = schema()
    for key in path:
        part = part["properties"][key]
    return list(part["properties"])


KINDS = {"string": "a string", "integer": "an integer", "object": "a table"}

RULES: dict[str, Callable[[Any], str]] = {
    "enum": lambda allowed: f"be one of {', '.join(allowed)}",
    "type": lambda kind: f"be {KINDS[kind]}",
    "minimum": lambda least: f"be at least {least}",
    "maximum": lambda most: f"be at most {most}",
    "minLength": lambda least: "not be empty",
}
"""What each rule of the schema asks of a value, after the word must."""


def _toml(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, PrefixCache) else value


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")

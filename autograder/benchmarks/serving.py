"""Requests served one after another by the engine, over whichever pool and manager: what demo and benchmark share.

It knows how an engine is put together and what is noted of each request. Which requests, and what
the numbers mean, its callers say. Importing it is cheap: the engine loads when a server is made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autograder import implementations
from course import modules

if TYPE_CHECKING:
    from course.engine.config import EngineConfig
    from course.engine.engine import Engine
    from course.engine.models import LoadedModel

MODULE = modules.find("block_manager")

Names = Mapping[str, Any]
"""Classes by their contract's name: `KvPool` and `BlockManager` are used here."""

Heard = Callable[[Sequence[int]], None]
"""Called with an answer's tokens so far, after each step."""


@dataclass(frozen=True)
class Server:
    """An engine in one mode, and the pool and the manager that it runs on."""

    engine: Engine
    pool: Any
    manager: Any


@dataclass(frozen=True)
class Served:
    """One request, counted and timed by the engine: `ttft` in seconds, `tokens` the answer."""

    ttft: float
    n_prompt: int
    prefill_tokens: int
    tokens: tuple[int, ...]


def best_names() -> Names:
    """The reference's classes; the flat model's where there is no reference."""
    try:
        return implementations.reference(MODULE).names
    except implementations.NoReference:
        return implementations.flat(MODULE).names


def lab_names() -> Names:
    """The classes that the lab measures: the references with what production systems add; else the best there are."""
    try:
        return implementations.production()
    except implementations.NoReference:
        return best_names()


def new_server(loaded: LoadedModel, config: EngineConfig, names: Names) -> Server:
    """An engine with empty blocks, in the mode and of the sizes of the configuration."""
    from course.engine.engine import start

    pool = names["KvPool"](config.n_blocks, config.block_size)
    manager = names["BlockManager"](pool, config.prefix_cache, **config.manager_options)
    engine = start(loaded, config, make_pool=lambda *_: pool, make_manager=lambda *_, **__: manager)
    return Server(engine, pool, manager)


def half_of_the_cores() -> int:
    """Threads that leave room for others: with one on every core, each waits for the slowest, for seconds at a time."""
    return max(1, (os.cpu_count() or 1) // 2)


def serve(
    server: Server,
    prompt: Sequence[int],
    n_new: int,
    stop_ids: Collection[int] = (),
    heard: Heard = lambda tokens: None,
) -> Served:
    """Serve one request to its end, with nothing else going on."""
    engine = server.engine
    record = engine.records[engine.add(prompt, n_new, stop_ids)]
    while not engine.idle:
        engine.step()
        heard(record.tokens)
    assert record.ttft is not None, "a request that is finished has had its first token"
    return Served(record.ttft, record.n_prompt, record.prefill_tokens, tuple(record.tokens))

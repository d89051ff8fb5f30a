"""The metrics: what each is called, that it follows the engine, and that /metrics answers only where asked."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from autograder.implementations import flat
from autograder.stand_in import ChecksumModel
from course.contract import PrefixCache
from course.engine import engine as engines
from course.engine.config import EngineConfig
from course.engine.engine import Engine
from course.engine.metrics import Metrics, Server
from course.modules import bound, find

NAMES = flat(find("L10.4")).names
CONFIG = EngineConfig(block_size=4, n_blocks=8, max_batch_tokens=32)
A = list(range(1, 11))
B = [*range(1, 9), 99, 98, 97]

each_mode = pytest.mark.parametrize("mode", PrefixCache, ids=lambda mode: mode.value)


def measured(mode: PrefixCache) -> tuple[Engine, Metrics, Any]:
    pool = NAMES["KvPool"](CONFIG.n_blocks, CONFIG.block_size)
    manager = NAMES["BlockManager"](pool, mode)
    metrics = Metrics(pool, manager)
    ticks = iter(range(10_000))
    runner = ChecksumModel().runner(pool)
    return Engine(runner, manager, CONFIG, watchers=[metrics.saw], clock=lambda: next(ticks) / 8), metrics, manager


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def blocks(metrics: Metrics) -> dict[str, float | None]:
    return {state: value(metrics, "tl_engine_kv_blocks", state=state) for state in ("free", "used", "cached")}


@each_mode
def test_blocks_are_counted_by_state_in_every_mode(mode: PrefixCache) -> None:
    """In radix mode the pool calls a cached block used, for the cache holds it: here it is cached all the same."""
    engine, metrics, _ = measured(mode)
    assert blocks(metrics) == {"free": 8, "used": 0, "cached": 0}
    engine.add(A, 3)
    engine.step()
    assert blocks(metrics) == {"free": 5, "used": 3, "cached": 0}
    engine.run_until_idle()
    kept = 0 if mode is PrefixCache.NONE else 3
    assert blocks(metrics) == {"free": 8 - kept, "used": 0, "cached": kept}
    engine.add(B, 3)
    engine.step()
    assert blocks(metrics) == {"free": 5 - bool(kept), "used": 3, "cached": bool(kept)}


@each_mode
def test_hits_prefill_and_times_follow_the_engine(mode: PrefixCache) -> None:
    engine, metrics, _ = measured(mode)
    for prompt in (A, B):
        engine.add(prompt, 2)
        engine.run_until_idle()
    hits = 0 if mode is PrefixCache.NONE else 8
    assert value(metrics, "tl_engine_prefix_cache_hit_ratio") == hits / 21
    assert value(metrics, "tl_engine_prefill_tokens_total") == 21 - hits
    assert value(metrics, "tl_engine_ttft_seconds_count") == 2
    assert value(metrics, "tl_engine_ttft_seconds_sum") == sum(record.ttft or 0 for record in engine.records.values())
    assert value(metrics, "tl_engine_ttft_seconds_bucket", le="0.1") == 0
    assert value(metrics, "tl_engine_ttft_seconds_bucket", le="0.2") == 2
    assert value(metrics, "tl_engine_evictions_total") == 0


@each_mode
def test_evictions_and_preemptions_are_counted(mode: PrefixCache) -> None:
    engine, metrics, manager = measured(mode)
    for first in (100, 200, 300):
        engine.add(range(first, first + 12), 12)
        engine.add(range(first + 50, first + 62), 12)
        engine.run_until_idle()
    preemptions = sum(record.preemptions for record in engine.records.values())
    assert value(metrics, "tl_engine_preemptions_total") == preemptions > 0
    evictions = manager.stats.evictions
    assert value(metrics, "tl_engine_evictions_total") == evictions
    assert (evictions > 5) is (mode is not PrefixCache.NONE)


def test_a_manager_that_has_evicted_before_is_counted_from_here_on() -> None:
    pool = NAMES["KvPool"](2, 4)
    manager = NAMES["BlockManager"](pool, PrefixCache.HASH)
    for first in (0, 10):
        manager.allocate(first, list(range(first, first + 8)))
        manager.release(first, list(range(first, first + 8)))
    assert manager.stats.evictions == 2
    assert value(Metrics(pool, manager), "tl_engine_evictions_total") == 0


# ---------------------------------------------------------------- /metrics


@pytest.fixture
def server() -> Iterator[Server]:
    engine, metrics, _ = measured(PrefixCache.HASH)
    engine.add(A, 2)
    engine.run_until_idle()
    server = metrics.serve(0)
    yield server
    server.shutdown()
    server.server_close()


def scrape(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def test_metrics_are_served_in_the_text_format(server: Server) -> None:
    families = {family.name: family for family in text_string_to_metric_families(scrape(server.server_port))}
    kinds = {name: family.type for name, family in families.items() if not name.endswith("_created")}
    assert kinds == {
        "tl_engine_prefix_cache_hit_ratio": "gauge",
        "tl_engine_kv_blocks": "gauge",
        "tl_engine_ttft_seconds": "histogram",
        "tl_engine_prefill_tokens": "counter",
        "tl_engine_evictions": "counter",
        "tl_engine_preemptions": "counter",
    }
    assert all(family.documentation for family in families.values())
    assert [sample.value for sample in families["tl_engine_kv_blocks"].samples] == [6, 2, 0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_an_engine_serves_them_where_its_configuration_names_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: Any = SimpleNamespace(model=SimpleNamespace(config=SimpleNamespace(max_positions=99, vocab_size=300)))
    fake: Any = SimpleNamespace(Runner=lambda model, pool, n_blocks, block_size: ChecksumModel().runner(pool))
    monkeypatch.setitem(sys.modules, "course.engine.runner", fake)
    served: list[int] = []
    serve = Metrics.serve
    monkeypatch.setattr(Metrics, "serve", lambda self, port: (served.append(port), serve(self, port))[1])
    port = free_port()
    with bound(NAMES):
        engines.start(loaded, CONFIG)
        assert served == []
        engine = engines.start(loaded, EngineConfig(n_blocks=8, metrics_port=port))
    assert served == [port]
    engine.add(A, 1)
    engine.run_until_idle()
    assert "tl_engine_prefill_tokens_total 10.0" in scrape(port)

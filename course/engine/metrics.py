"""The engine's metrics, in Prometheus' text format.

It knows what is counted and what it is called. It learns from the events of each step, and asks pool and
manager for their counts then: whoever scrapes reads what was noted, and never disturbs a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from course.contract import BlockManager, KvPool
from course.engine.requests import Event, FirstToken, Preempted, Prefilled

TTFT_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
"""Upper bounds in seconds: from a hit on the byte model to a long queue on a busy CPU."""


class Server(Protocol):
    """A server of /metrics: where it listens, and how to end it."""

    server_port: int

    def shutdown(self) -> None:
        """Stop answering."""

    def server_close(self) -> None:
        """Give the port back."""


class Metrics:
    """Counts of one engine over this pool and manager; hand `saw` to the engine as a watcher."""

    def __init__(self, pool: KvPool, manager: BlockManager) -> None:
        self.registry = CollectorRegistry()
        self._pool = pool
        self._manager = manager
        self._evictions = manager.stats.evictions
        self.hit_ratio = Gauge(
            "tl_engine_prefix_cache_hit_ratio",
            "Prompt tokens found in the prefix cache over all tokens of admitted prompts",
            registry=self.registry,
        )
        self.blocks = Gauge(
            "tl_engine_kv_blocks",
            "KV blocks by state: free, used by a running request, or cached and used by none",
            ["state"],
            registry=self.registry,
        )
        self.ttft = Histogram(
            "tl_engine_ttft_seconds",
            "From a request's arrival to its first token",
            buckets=TTFT_BUCKETS,
            registry=self.registry,
        )
        self.prefill_tokens = self._counter("prefill_tokens", "Positions computed as prefill")
        self.evictions = self._counter("evictions", "Cached blocks given up for others")
        self.preemptions = self._counter("preemptions", "Requests that had to give their blocks back unfinished")
        self.saw(())

    def _counter(self, name: str, about: str) -> Counter:
        return Counter(f"tl_engine_{name}", about, registry=self.registry)

    def saw(self, events: Sequence[Event]) -> None:
        """Count the events of one step, and note how the blocks stand after it."""
        for event in events:
            match event:
                case Prefilled():
                    self.prefill_tokens.inc(event.end - event.start)
                case FirstToken():
                    self.ttft.observe(event.ttft)
                case Preempted():
                    self.preemptions.inc()
        self._note_blocks()

    def _note_blocks(self) -> None:
        free, available = self._pool.n_free, self._manager.available_blocks
        states = {"free": free, "cached": available - free, "used": self._pool.n_blocks - available}
        for state, n in states.items():
            self.blocks.labels(state).set(n)
        self.hit_ratio.set(self._manager.hit_rate)
        evictions = self._manager.stats.evictions
        self.evictions.inc(evictions - self._evictions)
        self._evictions = evictions

    def serve(self, port: int) -> Server:
        """Serve /metrics on this port of this machine alone, from a thread that ends with the process.

        Port 0 is any free one (see `server_port`). Raises OSError if the port is taken.
        """
        server, _ = start_http_server(port, addr="127.0.0.1", registry=self.registry)
        return server

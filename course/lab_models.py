"""Models for the lab: loaded once and kept, warmed up, and computing on one thread.

It knows what a notebook needs so that its times can be compared. What is served it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course.engine.models import LoadedModel

LAB_THREADS = 1
"""With a thread on every core each waits for the slowest, and times say little."""


@cache
def ready_model(name: str) -> LoadedModel:
    """A model, loaded once and run once, so that the first request that is timed is no slower than others."""
    from course.engine.models import ModelUnavailable, load_model

    try:
        loaded = load_model(name, report=_Told())
    except ModelUnavailable as problem:
        print(f"{problem}\nThe byte model takes its place: its answers mean nothing, times and counts are real.")
        return ready_model("byte")
    _warm_up(loaded)
    return loaded


class _Told:
    """Says once what is being done with a model; the first time, that can take minutes."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, what: str, _done: int, total: int) -> None:
        if what != self._last and what.startswith("downloading"):
            print(f"{what}, once: {total / 1e6:.0f} MB …")
        self._last = what


def _warm_up(loaded: LoadedModel) -> None:
    from course.engine.model import PagedKv
    from course.engine.step import Chunk, StepInput

    kv = PagedKv(loaded.model.config, 16, 16, loaded.model.device, loaded.model.dtype)
    with on_threads(LAB_THREADS):
        for n in (256, 112):
            loaded.model.forward(StepInput((Chunk("warm-up", [1] * n, 0, range(16)),)), kv)


@contextmanager
def on_threads(n: int) -> Iterator[None]:
    """Let the model compute on so many threads of a CPU, for the length of a `with` block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)

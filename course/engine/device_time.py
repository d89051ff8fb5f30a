"""How long work takes on the device that does it, beside how long whoever asked for it waits.

On a GPU a call returns before its work is done, and Python may need longer to ask for work than the device to do it.
So the time of the device is taken by two events in its own stream; what lies between them counts, with any gap in
which it waited for the next call. Elsewhere both times are the same. It knows clocks, and not what is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

Work = Callable[[], object]


@dataclass(frozen=True)
class Taken:
    """Seconds that work took: for whoever waited for its end (`wall`), and on the device (`device`)."""

    wall: float
    device: float


class Timer(Protocol):
    """Times work."""

    def time(self, work: Work) -> Taken:
        """Do the work once; returns when the device is done with it."""


class HostTimer:
    """For a device without events: `wait` returns when it has nothing left to do; on a CPU that is always so."""

    def __init__(
        self, wait: Callable[[], object] = lambda: None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._wait, self._clock = wait, clock

    def time(self, work: Work) -> Taken:
        """Do the work once."""
        self._wait()
        begun = self._clock()
        work()
        self._wait()
        seconds = self._clock() - begun
        return Taken(seconds, seconds)


class EventTimer:
    """For a CUDA device; `cuda` is torch's own module unless a test plays it."""

    def __init__(
        self, device: torch.device, cuda: Any = torch.cuda, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._device, self._cuda, self._clock = device, cuda, clock

    def time(self, work: Work) -> Taken:
        """Do the work once."""
        with self._cuda.device(self._device):  # an event belongs to the device that is current when it is recorded
            begin, end = (self._cuda.Event(enable_timing=True) for _ in range(2))
            self._cuda.synchronize()
            begun = self._clock()
            begin.record()
            work()
            end.record()
            end.synchronize()
            wall = self._clock() - begun
            return Taken(wall, begin.elapsed_time(end) / 1e3)


def timer_for(device: torch.device) -> Timer:
    """The timer for work on this device."""
    if device.type == "cuda":
        return EventTimer(device)
    return HostTimer(torch.mps.synchronize) if device.type == "mps" else HostTimer()

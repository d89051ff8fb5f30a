"""Times of a device and switches of a library: what is measured, in which order, and that every switch goes back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from course.engine.device_time import EventTimer, HostTimer, Taken, timer_for
from course.engine.precision import (
    AS_TORCH_DOES,
    FULL,
    WORKSPACE,
    WORKSPACE_VARIABLE,
    Precision,
    fixed_workspace,
    switches,
    with_precision,
)

# ---------------------------------------------------------------- times


class Gpu:
    """torch.cuda, played: work is asked for at once and takes 7 ms on the device, Python's clock stands at `now`."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.now, self.device_ms = 0.0, 0.0

    @contextmanager
    def device(self, device: torch.device) -> Iterator[None]:
        self.said.append(f"on {device}")
        yield
        self.said.append("off")

    def synchronize(self) -> None:
        self.said.append("synchronize")

    def Event(self, enable_timing: bool) -> Any:
        assert enable_timing
        return Event(self)

    def work(self) -> None:
        self.said.append("work")
        self.now += 0.002
        self.device_ms += 7.0


class Event:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.at = gpu, -1.0

    def record(self) -> None:
        self.gpu.said.append("record")
        self.at = self.gpu.device_ms

    def synchronize(self) -> None:
        self.gpu.said.append("wait")
        self.gpu.now += 0.006

    def elapsed_time(self, other: Event) -> float:
        return other.at - self.at


def test_a_gpu_is_timed_by_events_around_the_work_and_the_host_until_the_work_is_done() -> None:
    gpu = Gpu()
    taken = EventTimer(torch.device("cuda:1"), gpu, lambda: gpu.now).time(gpu.work)
    assert taken == Taken(wall=pytest.approx(0.008), device=pytest.approx(0.007))
    assert gpu.said == ["on cuda:1", "synchronize", "record", "work", "record", "wait", "off"]


def test_elsewhere_the_host_waits_before_and_after_and_both_times_are_the_same() -> None:
    said: list[str] = []
    clock = iter((1.0, 3.5))
    taken = HostTimer(lambda: said.append("wait"), lambda: next(clock)).time(lambda: said.append("work"))
    assert taken == Taken(2.5, 2.5) and said == ["wait", "work", "wait"]


@pytest.mark.parametrize(("device", "kind"), [("cpu", HostTimer), ("cuda", EventTimer), ("mps", HostTimer)])
def test_each_device_has_its_timer(device: str, kind: type) -> None:
    assert type(timer_for(torch.device(device))) is kind


def test_work_on_this_machine_is_done_once_and_takes_some_time() -> None:
    done: list[int] = []
    taken = timer_for(torch.device("cpu")).time(lambda: done.append(1))
    assert done == [1] and taken.wall == taken.device >= 0


# ---------------------------------------------------------------- switches


def ambient(change: Callable[[Any], None]) -> Any:
    """Set a switch as somebody else may have; the test puts it back."""
    change(torch.backends.cuda.matmul)
    return torch.backends.cuda.matmul


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    matmul: Any = torch.backends.cuda.matmul
    before = dict(switches())
    yield
    matmul.allow_tf32 = False
    matmul.allow_fp16_reduced_precision_reduction = matmul.allow_bf16_reduced_precision_reduction = True
    assert dict(switches()) == before


def test_torchs_own_defaults_are_what_is_called_so() -> None:
    told = switches()
    with with_precision(AS_TORCH_DOES):
        assert switches() == told


@pytest.mark.parametrize("wanted", [FULL, AS_TORCH_DOES, Precision(tf32=True, reduced=False)])
def test_every_switch_is_set_and_goes_back(wanted: Precision) -> None:
    ambient(lambda matmul: setattr(matmul, "allow_bf16_reduced_precision_reduction", (False, False)))
    before = switches()
    with with_precision(wanted):
        told = {name.rpartition(".")[2]: value for name, value in switches().items()}
        assert told["allow_tf32"] is wanted.tf32
        for half in ("fp16", "bf16"):
            assert told[f"allow_{half}_reduced_precision_reduction"] is wanted.reduced
        split = told["allow_bf16_reduced_precision_reduction_split_k"]
        assert split is wanted.reduced, "left as it was, unless torch knows no such pair"
        assert told["allow_fp16_reduced_precision_reduction_split_k"] is True
    assert switches() == before


def test_they_go_back_when_the_work_raises() -> None:
    before = switches()
    with pytest.raises(RuntimeError, match="out of memory"), with_precision(Precision(tf32=True, reduced=False)):
        raise RuntimeError("out of memory")
    assert switches() == before


def test_the_workspace_is_asked_for_and_the_environment_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WORKSPACE_VARIABLE, raising=False)
    with fixed_workspace():
        assert os.environ[WORKSPACE_VARIABLE] == switches()[WORKSPACE_VARIABLE] == WORKSPACE
    assert WORKSPACE_VARIABLE not in os.environ
    monkeypatch.setenv(WORKSPACE_VARIABLE, ":16:8")
    with fixed_workspace():
        assert os.environ[WORKSPACE_VARIABLE] == ":16:8", "whoever set it had a reason"
    assert os.environ[WORKSPACE_VARIABLE] == ":16:8"
    monkeypatch.undo()

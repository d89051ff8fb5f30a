"""`ol bench gpu`: whether a GPU keeps the course's promises, and what a cache is worth on it, within a few minutes.

It knows in which order the parts are measured, under which setting, and which of them are left out when time runs
short. How each is measured its own file knows; what follows, gpu_findings.py. On a CPU the same path runs at a small
size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from autograder.benchmarks import gpu_load, gpu_parts
from autograder.benchmarks import shared_prefix_ttft as ttft
from autograder.benchmarks.gpu_findings import (
    BITS,
    LOAD,
    LONG,
    MODES,
    SHORT,
    STEPS,
    Findings,
    Sizes,
    ttft_median,
)
from autograder.benchmarks.gpu_parts import Setting
from autograder.benchmarks.serving import Names
from autograder.benchmarks.shared_prefix_ttft import NONE, Plan
from course.engine.device_time import timer_for
from course.engine.loaded import LoadedModel
from course.engine.precision import with_precision
from course.engine.tiling import MANY_AT_ONCE, ONE_SHAPE, tiling_for
from course.progress import Tell


class TimeLeft:
    """Seconds that are left of a limit, by a clock that begins when this is made."""

    def __init__(self, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit, self._clock, self._begun = limit, clock, clock()

    @property
    def used(self) -> float:
        """Seconds gone."""
        return self._clock() - self._begun

    @property
    def left(self) -> float:
        """Seconds left; below 0 where the limit is passed."""
        return self.limit - self.used

    def for_more(self) -> bool:
        """Whether a part that is under way should begin on more than it must."""
        return self.left > 0.1 * self.limit


# ---------------------------------------------------------------- measuring


def measure(loaded: LoadedModel, sizes: Sizes, names: Names, time_left: TimeLeft, tell: Tell) -> Findings:
    """Measure every part there is time for, what is asserted first.

    Args:
        loaded: the model.
        sizes: how much is measured.
        names: the classes under the engine.
        time_left: what is left of the time for everything.
        tell: hears how far it is.
    """
    return _Run(loaded, sizes, names, time_left, tell).run()


class _Run:
    def __init__(self, loaded: LoadedModel, sizes: Sizes, names: Names, time_left: TimeLeft, tell: Tell) -> None:
        self._loaded, self._sizes, self._names, self._time, self._tell = loaded, sizes, names, time_left, tell
        self._found = Findings(loaded.name, gpu_parts.machine(loaded.model), sizes)

    def run(self) -> Findings:
        for setting in gpu_parts.settings(self._sizes.one_shape):
            self._part(BITS, partial(self._bits, setting), setting, f"{BITS}, {setting.name}")
        self._found.setting = setting = self._chosen()
        for name, work in {
            MODES: self._modes,
            LONG: self._long,
            STEPS: self._steps,
            SHORT: self._short,
            LOAD: self._load,
        }.items():
            self._part(name, work, setting, name)
        return self._found

    def _part(self, part: str, work: Callable[[], None], setting: Setting, name: str) -> None:
        """Measure one part under a setting, or note why it is not there; the others go on in any case."""
        needs, left = self._sizes.needs[part], self._time.left
        if left < needs:
            self._leave_out(name, f"left out, for it may take {needs:.0f} s, and {max(left, 0):.0f} s were left")
            return
        begun = self._time.used
        try:
            with with_precision(setting.precision):
                work()
        except Exception as problem:  # a GPU that is short of memory, say: what the other parts show is not lost
            self._leave_out(name, f"it failed, with {type(problem).__name__}: {problem}")
        self._found.seconds[name] = self._time.used - begun

    def _leave_out(self, name: str, why: str) -> None:
        self._found.left_out[name] = f"{name} was not measured: {why}."

    def _chosen(self) -> Setting:
        """What the rest is measured under: the device's own tiling if it keeps the bits, else the first that does."""
        own = self._sizes.one_shape if tiling_for(self._loaded.model.device) == ONE_SHAPE else MANY_AT_ONCE
        tried = gpu_parts.settings(self._sizes.one_shape)
        kept = [bits.setting for bits in self._found.bits if bits.kept]
        of_the_device = [setting for setting in tried if setting.tiling == own]
        return next((setting for setting in (*of_the_device, *kept) if setting in kept), of_the_device[0])

    @property
    def _tiled(self) -> LoadedModel:
        assert self._found.setting is not None, "bits come first"
        return replace(self._loaded, model=self._loaded.model.tiled(self._found.setting.tiling))

    # ------------------------------------------------------------ the parts

    def _bits(self, setting: Setting) -> None:
        place = len(self._found.bits)
        self._tell(f"bits, {setting.name}", place, len(gpu_parts.settings(self._sizes.one_shape)))
        self._found.bits.append(gpu_parts.bits_under(self._loaded.model, setting))

    def _modes(self) -> None:
        self._found.modes = gpu_parts.serve_in_modes(self._tiled, self._names, self._sizes.traffic, self._tell)

    def _steps(self) -> None:
        model, sizes = self._loaded.model, self._sizes
        one = sizes.one_shape
        for name, tiling in {f"filled up to {MANY_AT_ONCE.rows}": MANY_AT_ONCE, f"pieces of {one.rows}": one}.items():
            self._found.steps[name] = gpu_parts.step_times(
                model.tiled(tiling), sizes.rows, sizes.repeats, timer_for(model.device), self._time.for_more, self._tell
            )

    def _long(self) -> None:
        self._tell("choosing how many tokens a request has of its own", 0, 1)
        plan = ttft.long_plan(self._tiled, self._sizes.prefix, self._sizes.smallest_suffix)
        self._found.long = self._ttft(plan)

    def _short(self) -> None:
        self._found.short = self._ttft(ttft.plan_for(self._tiled))

    def _ttft(self, plan: Plan) -> ttft.Result:
        sized = replace(plan, repeats=self._sizes.repeats, n_requests=self._sizes.requests)
        return ttft.measure(self._tiled, self._names, self._names, sized, self._tell, self._time.for_more)

    def _load(self) -> None:
        short = self._found.short
        if short is None:
            raise ValueError(f"its rate is taken from the time that {SHORT} has")
        # Half of what an engine without a cache could take: nobody waits for long in any mode.
        rate = 0.5 / ttft_median(short, NONE)
        self._found.load = gpu_load.serve_load(
            self._tiled, self._names, short.plan, short.chunk, rate, self._sizes.load_requests, self._tell
        )

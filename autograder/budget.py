"""The budget of L10.4: how much sooner the first token comes when a prefix is cached, over a submission's manager.

The engine runs here, in the grader's process; the submission only hands out blocks. What counts is what
our engine notes down: prefill tokens by its records, seconds by its clock. Beside it runs the same engine
without a cache, over the reference's manager. It decides nothing but itself: no other verdict hangs on it.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from autograder.running import explained
from course.charts import BUDGET
from course.modules import Module
from course.progress import Tell

if TYPE_CHECKING:
    from autograder.benchmarks.serving import Served
    from autograder.benchmarks.shared_prefix_ttft import Result

MODULE_NAME = "block_manager"
"""The module that has this budget."""

N_REQUESTS, REPEATS = 2, 2
"""A verdict has to come soon: `ol bench L10.4` measures longer, and charts it."""

Names = Mapping[str, Any]


@dataclass(frozen=True)
class Budget:
    """What came of the measurement, all of it plain data.

    Attributes:
        met: whether the budget is met; None where nothing was measured.
        text: what was found, or why nothing was.
        tokens: prefill tokens without a cache over those with the hash cache.
        seconds: time to first token without a cache over that with the hash cache.
        ttft_ms: time to first token of each request by mode, in milliseconds: the median of the repeats. The
            first request fills the cache and counts in neither ratio; `none` is the reference's manager.
        hit_tokens: prompt tokens of each request that the submission's manager found cached, by mode: those that
            the engine did not have to compute.
        query_tokens: prompt tokens of each request, by mode.
    """

    met: bool | None
    text: str
    tokens: float = 0.0
    seconds: float = 0.0
    ttft_ms: dict[str, list[float]] = field(default_factory=dict)
    hit_tokens: dict[str, list[int]] = field(default_factory=dict)
    query_tokens: dict[str, list[int]] = field(default_factory=dict)


def has_budget(module: Module) -> bool:
    """Whether a module is measured at all."""
    return module.name == MODULE_NAME


def budget(named_passed: bool, names: Callable[[], AbstractContextManager[Names]], tell: Tell) -> Budget:
    """Measure a submission's manager, or say why that is not done.

    Args:
        named_passed: whether every named test of L10.4 passes.
        names: opens a room with the submission, and gives its names there.
        tell: hears how far it is.
    """
    if not named_passed:
        return Budget(None, "Not measured: it is when every named test passes.")
    if importlib.util.find_spec("torch") is None:
        return Budget(None, "Not measured: the engine needs torch, which is not installed here.")
    try:
        with names() as under_test:
            return _measured(under_test, tell)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the manager under test does, SystemExit too: the other verdicts stand
        return Budget(False, f"The engine could not serve over this manager: {explained(error)}")


def _measured(names: Names, tell: Tell) -> Budget:
    from autograder.benchmarks import shared_prefix_ttft as ttft
    from autograder.benchmarks.serving import best_names
    from course.engine.models import load_model
    from course.lab_models import on_threads

    with on_threads(1):
        loaded = load_model("byte")
        plan = ttft.plan_for(loaded)
        plan = replace(plan, chunk_sizes=(plan.n_prompt,), n_requests=N_REQUESTS, repeats=REPEATS)
        result = ttft.measure(loaded, names, best_names(), plan, lambda what, done, of: tell("TTFT budget", done, of))
    found = Budget(None, "", result.limit(ttft.HASH), result.ratio(ttft.HASH), **_series(result, ttft.NONE))
    if not result.same_answers:
        return replace(found, met=False, text="With a cache the engine answers differently than without one.")
    text = (
        f"Without a cache the engine computes {found.tokens:.1f} times the prefill tokens that it computes with the "
        f"hash cache, and the first token takes {found.seconds:.1f} times as long; {BUDGET:g} times are asked for."
    )
    return replace(found, met=found.tokens >= BUDGET and found.seconds >= BUDGET, text=text)


def _series(result: Result, none: str) -> dict[str, Any]:
    """What charts are made of: the numbers of each request in its place, by mode."""
    requests = {mode: list(zip(*repeats, strict=True)) for mode, repeats in result.served.items()}
    times = {mode: [_milliseconds([each.ttft for each in same]) for same in row] for mode, row in requests.items()}
    cached = {mode: [same[0] for same in row] for mode, row in requests.items() if mode != none}
    return {
        "ttft_ms": times,
        "hit_tokens": {mode: [_found(each) for each in row] for mode, row in cached.items()},
        "query_tokens": {mode: [each.n_prompt for each in row] for mode, row in cached.items()},
    }


def _found(request: Served) -> int:
    """Prompt tokens that came from the cache; none where a request that was preempted computed them again."""
    return max(request.n_prompt - request.prefill_tokens, 0)


def _milliseconds(repeats: Sequence[float]) -> float:
    return round(statistics.median(repeats) * 1e3, 3)

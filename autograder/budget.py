"""The budget of L10.4: how much sooner the first token comes when a prefix is cached, over a submission's manager.

The engine runs here, in the grader's process; the submission only hands out blocks. What counts is what
our engine notes down: prefill tokens by its records, seconds by its clock. Beside it runs the same engine
without a cache, over the reference's manager. It decides nothing but itself: no other verdict hangs on it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from autograder.running import explained
from course.charts import BUDGET
from course.modules import Module

MODULE_NAME = "block_manager"
"""The module that has this budget."""

N_REQUESTS, REPEATS = 2, 2
"""A verdict has to come soon: `ol bench L10.4` measures longer, and charts it."""

Tell = Callable[[str, int, int], None]
Names = Mapping[str, Any]


@dataclass(frozen=True)
class Budget:
    """What came of the measurement. `met` is None where there was none; `text` says what was found, or why not.

    `tokens` and `seconds` are ratios, none over hash: prefill tokens, and time to first token.
    """

    met: bool | None
    text: str
    tokens: float = 0.0
    seconds: float = 0.0


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
    from autograder.benchmarks.serving import best_names, on_threads
    from course.engine.models import load_model

    with on_threads(1):
        loaded = load_model("byte")
        plan = ttft.plan_for(loaded)
        plan = replace(plan, chunk_sizes=(plan.n_prompt,), n_requests=N_REQUESTS, repeats=REPEATS)
        result = ttft.measure(loaded, names, best_names(), plan, lambda what, done, of: tell("TTFT budget", done, of))
    tokens, seconds = result.limit(ttft.HASH), result.ratio(ttft.HASH)
    if not result.same_answers:
        return Budget(False, "With a cache the engine answers differently than without one.", tokens, seconds)
    met = tokens >= BUDGET and seconds >= BUDGET
    text = (
        f"Without a cache the engine computes {tokens:.1f} times the prefill tokens that it computes with the hash "
        f"cache, and the first token takes {seconds:.1f} times as long; {BUDGET:g} times are asked for."
    )
    return Budget(met, text, tokens, seconds)

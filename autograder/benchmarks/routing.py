"""Two engines behind a router, on paper: repeats of the measurement, a table of them, and what must hold.

It knows how the ways compare. The chats, the ways and the engines are in `course.routing_lab`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from autograder.benchmarks.serving import Names
from autograder.benchmarks.tables import table
from course.charts import milliseconds
from course.progress import Tell
from course.routing_chats import Plan, plan_told
from course.routing_lab import BLOCK_NAMES, ROUND_ROBIN, Routed, Routing, compare_routes

if TYPE_CHECKING:
    from course.engine.loaded import LoadedModel


@dataclass(frozen=True)
class Result:
    """Repeats of the measurement, each with chats of its own seed."""

    repeats: tuple[Routing, ...]

    @property
    def plan(self) -> Plan:
        """The plan of the first repeat."""
        return self.repeats[0].plan

    def each(self, way: str) -> list[Routed]:
        """One way in every repeat."""
        return [routing.ways[way] for routing in self.repeats]

    def median(self, way: str, value: Callable[[Routed], float]) -> float:
        """The median over the repeats of one number of a way."""
        return median(value(routed) for routed in self.each(way))

    @property
    def shortfalls(self) -> list[str]:
        """What must hold and does not, a sentence each; empty where all of it holds."""
        told = []
        if not all(routing.same_answers for routing in self.repeats):
            told.append("The answers are not the same in all ways.")
        for what, value, sign in CLAIMS:
            named, in_turn = self.median(BLOCK_NAMES, value), self.median(ROUND_ROBIN, value)
            if sign * named <= sign * in_turn:
                told.append(f"{what} is no better by block names ({named:.3g}) than by round robin ({in_turn:.3g}).")
        return told


CLAIMS: Sequence[tuple[str, Callable[[Routed], float], int]] = (
    ("The hit rate", lambda routed: routed.hit_rate, 1),
    ("The mean TTFT in seconds", lambda routed: routed.mean_ttft, -1),
    ("The TTFT that 95 % keep to, in seconds,", lambda routed: routed.p95, -1),
)
"""Where routing by block names must beat round robin, and whether more (1) or less (-1) is better."""


def measure(loaded: LoadedModel, names: Names, plan: Plan, repeats: int, tell: Tell) -> Result:
    """Measure all ways so many times, the chats of each time drawn from the next seed."""
    done = []
    for number in range(repeats):
        which = f" {number + 1} of {repeats}" if repeats > 1 else ""
        done.append(
            compare_routes(
                loaded,
                names,
                replace(plan, seed=plan.seed + number),
                tell=lambda way, n, of, which=which: tell(way + which, n, of),  # type: ignore[misc]
            )
        )
    return Result(tuple(done))


def as_data(result: Result, where: str) -> dict[str, Any]:
    """All that was measured, as plain data; of the answers whether they are the same."""
    return {"where": where, "shortfalls": result.shortfalls, "repeats": [_routing(each) for each in result.repeats]}


def _routing(routing: Routing) -> dict[str, Any]:
    ways = {}
    for name, routed in routing.ways.items():
        ways[name] = {key: value for key, value in asdict(routed).items() if key not in ("way", "answers")}
        ways[name] |= {"p50": routed.p50, "p95": routed.p95, "mean_ttft": routed.mean_ttft}
    return {
        "plan": asdict(routing.plan),
        "seconds_between_chats": routing.gap,
        "ideal_hit_rate": routing.ideal,
        "same_answers": routing.same_answers,
        "ways": ways,
    }


# ---------------------------------------------------------------- the table


def routing_view(result: Result, where: str) -> RenderableType:
    """A row for each way, the ideal, and whether what must hold does."""
    made = table(
        f"Two engines behind a router, {where}",
        "way", "TTFT p50, ms", "p95", "mean", "hit rate", "each engine", "requests", "prefill", "sent", "not sent",
    )  # fmt: skip
    for way in result.repeats[0].ways:
        _row(made, way, result)
    return Group(made, Text(_small_print(result), "dim"), _verdict(result))


def _row(made: Table, way: str, result: Result) -> None:
    each = result.each(way)
    moved = any(routed.n_moves for routed in each)
    made.add_row(
        way,
        *(f"{milliseconds(median([value(routed) for routed in each]))}" for value in TIMES),
        f"{median([routed.hit_rate for routed in each]):.1%}",
        " ".join(f"{median(rates):.0%}" for rates in zip(*(routed.hit_rates for routed in each), strict=True)),
        " ".join(f"{median(counts):.0f}" for counts in zip(*(routed.requests for routed in each), strict=True)),
        f"{median([routed.prefill_tokens for routed in each]):,.0f}",
        *(f"{median([value(routed) for routed in each]):,.0f}" * moved for value in MOVED),
    )


TIMES: Sequence[Callable[[Routed], float]] = (
    lambda routed: routed.p50,
    lambda routed: routed.p95,
    lambda routed: routed.mean_ttft,
)
MOVED: Sequence[Callable[[Routed], float]] = (lambda routed: routed.n_sent, lambda routed: routed.n_had)


def _small_print(result: Result) -> str:
    n, ideal = len(result.repeats), median(routing.ideal for routing in result.repeats)
    repeats = f"{n} repeats, medians. " if n > 1 else ""
    sent = max(median([routed.n_bytes / 1e6 for routed in result.each(way)]) for way in result.repeats[0].ways)
    return (
        f"{plan_told(result.plan).capitalize()}.\n{repeats}One cache for both that forgets nothing would find "
        f"{ideal:.1%}. Hit rate and prefill in tokens.\nSent: blocks that one engine sent the other, {sent:.1f} MB; "
        "not sent: those that were there already."
    )


def _verdict(result: Result) -> Text:
    if told := result.shortfalls:
        return Text("\n".join(told), "bold red")
    return Text("Block names find more than round robin, the first tokens come sooner, and all answers are the same.")

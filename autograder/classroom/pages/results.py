"""One student's result for one module, read for a page: tests, own tests, pitfalls, a story, who is to blame.

It knows the form of a report as data (`autograder.report.as_data`), and what of it a student may not see: what
leaves this file about a hidden test is its name and its status. How a page looks it does not know.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from autograder.classroom.rows import Result, State
from autograder.diagnosis import diagnose
from autograder.running import Status, Verdict
from autograder.sandbox import NOT_ISOLATED
from course.modules import MODULES, find

HIDDEN = "This check is hidden: its reason is not shown."


@dataclass(frozen=True)
class Ended:
    """How one named test ended: of a hidden one, neither the reason nor the story."""

    name: str
    status: Status
    message: str = ""
    hidden: bool = False
    story: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def passed(self) -> bool:
        """Whether the test passed."""
        return self.status is Status.PASSED


@dataclass(frozen=True)
class Own:
    """The own-tests score, as a report has it; planted bugs by their titles."""

    valid: bool
    graded: bool
    passed: bool
    reason: str
    caught: int
    planted: int
    share: float
    missed: tuple[str, ...]
    required_missed: tuple[str, ...]


@dataclass(frozen=True)
class Pitfall:
    """A planted bug that failed tests look like: its title, and what to read again."""

    title: str
    reread: str


def tests(result: Result) -> tuple[Ended, ...]:
    """The named tests of a result, in the order of the catalogue; none where there is no report."""
    return tuple(_ended(row, row["test"] in result.hidden) for row in result.report.get("named_tests", ()))


def _ended(row: Mapping[str, Any], hidden: bool) -> Ended:
    status = Status(row["status"])
    if hidden:
        return Ended(row["test"], status, "" if status is Status.PASSED else HIDDEN, hidden=True)
    return Ended(row["test"], status, row["message"], story=row.get("story"))


def own(result: Result) -> Own | None:
    """The own-tests score; None where there is no report."""
    if not (row := result.report.get("own_tests")):
        return None
    lists = {name: tuple(row[name]) for name in ("missed", "required_missed")}
    return Own(**{**{name: row[name] for name in Own.__dataclass_fields__}, **lists})


def pitfalls(result: Result) -> tuple[Pitfall, ...]:
    """The pitfalls that failed tests look like. Where tests are hidden, they are found anew from the others alone."""
    if not result.hidden:
        return tuple(Pitfall(row["pitfall"], row["reread"]) for row in result.report.get("diagnosis", ()))
    open_ones = [Verdict(each.name, each.status, each.message) for each in tests(result) if not each.hidden]
    return tuple(Pitfall(each.title, each.reread) for each in diagnose(find(result.module), open_ones))


def shortest_story(result: Result) -> Ended | None:
    """The failing test whose story has the fewest calls; None where no failure is a story."""
    told = [each for each in tests(result) if each.story and not each.passed]
    return min(told, key=lambda each: len((each.story or {})["calls"]), default=None)


def remarks(result: Result) -> tuple[str, ...]:
    """The remarks that no reason on the page repeats."""
    score = own(result)
    told = "\n".join([score.reason if score else "", *(each.message for each in tests(result))])
    return tuple(remark for remark in result.report.get("remarks", ()) if remark not in told)


# ---------------------------------------------------------------- the budget


@dataclass(frozen=True)
class Measured:
    """A manager under the engine. `ms` is the time to first token by mode, once the cache is filled; `ratio` how
    many times as long it takes without a cache as with the hash cache.
    """

    met: bool
    ratio: float
    ms: Mapping[str, float]


def measured(result: Result) -> Measured | None:
    """What the budget's measurement gave; None where there was none, or the engine could not serve."""
    budget = result.report.get("budget") or {}
    if not budget.get("seconds"):
        return None
    times = {mode: timed(row) for mode, row in budget.get("ttft_ms", {}).items() if row}
    medians = {mode: statistics.median(row) for mode, row in times.items()}
    return Measured(bool(budget["met"]), budget["seconds"], medians)


def timed(requests: Sequence[float]) -> Sequence[float]:
    """The requests that count: all but the first one, which fills the cache."""
    return requests[1:] or requests


# ---------------------------------------------------------------- who is to blame

FLAT_TOOK_ITS_PLACE = re.compile(r"Your own .+ does not pass (\S+) yet \(", re.DOTALL)
AT_FAULT = re.compile(r"On your own (.+?) this does not hold: ", re.DOTALL)


@dataclass(frozen=True)
class Blame:
    """An earlier module that a later one could not build on: by id, "" where it can't be told which.

    `unsound`: it does not pass its own named tests, so a flat model took its place. Else it passes them, and is
    still at fault for failures of the later one.
    """

    earlier: str
    later: str
    unsound: bool


def blamed(results: Sequence[Result]) -> tuple[Blame, ...]:
    """What the remarks of one student's results say about earlier modules (autograder/blame.py words them)."""
    files = {PurePath(each.submission).name: each.module for each in results if each.submission}
    files |= {f"{module.name}{ending}": module.id for module in MODULES for ending in (".py", ".ipynb")}
    told = [(remark, each) for each in results for remark in each.report.get("remarks", ())]
    return tuple(dict.fromkeys(blame for remark, each in told for blame in _read(remark, each, files)))


def _read(remark: str, result: Result, files: Mapping[str, str]) -> Iterator[Blame]:
    if unsound := FLAT_TOOK_ITS_PLACE.match(remark):
        yield Blame(unsound[1], result.module, unsound=True)
    if at_fault := AT_FAULT.match(remark):
        named = at_fault[1]
        names = [named] if named in files else named.split(" and ")
        for name in names:
            yield Blame(files.get(name, ""), result.module, unsound=False)


# ---------------------------------------------------------------- who needs a look

ENDED_BADLY = (Status.DIED, Status.OUT_OF_MEMORY, Status.TIMED_OUT)


def concerns(result: Result) -> tuple[str, ...]:
    """What an instructor should look at, a sentence each."""
    return (*_of_files(result), *_of_ends(result), *_of_the_engine(result))


def _of_files(result: Result) -> Iterator[str]:
    if result.state in (State.UNREADABLE, State.NOT_GRADED):
        reason = "" if result.notes else next((each.message for each in tests(result) if each.message), "")
        yield f"{result.state.value[:1].upper()}{result.state.value[1:]}.{' ' * bool(reason)}{reason}"
    yield from result.notes


def _of_ends(result: Result) -> Iterator[str]:
    for status in ENDED_BADLY:
        names = [each.name for each in tests(result) if each.status is status]
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            yield f"{status.value[:1].upper()}{status.value[1:]}: {names[0]}{more}."


def _of_the_engine(result: Result) -> Iterator[str]:
    budget = result.report.get("budget") or {}
    if budget.get("met") is False and not budget.get("seconds"):
        yield str(budget["text"])


def isolated(result: Result) -> bool:
    """Whether nothing of the submission ran outside a sandbox."""
    return bool(result.report.get("isolation") != NOT_ISOLATED)

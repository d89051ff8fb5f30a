"""Two gradings of a class side by side: whose points or verdicts change, in what, and why.

It knows how results differ, and which part of a verdict's key tells the reason. How anything was graded this
file does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from autograder.classroom import keys
from autograder.classroom.printable import printable
from autograder.classroom.rows import Class, Result, State, total
from autograder.report import plural

NOTHING = "nothing"

REASONS = {
    keys.SUBMISSION: "the submission changed",
    keys.EARLIER: "an earlier module of theirs changed",
    keys.GRADER: "the grader's version changed",
    keys.SETTINGS: "the limits or settings changed",
}
"""What a part of the key says when it differs, most telling first."""


class Kind(StrEnum):
    """How a result differs: it is there in both gradings, or in one of them."""

    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"


@dataclass(frozen=True)
class Step:
    """One thing that differs, before and after: a named test's status, the own tests, the state."""

    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Change:
    """What differs for one student and module.

    Attributes:
        student: the student's id.
        module: the module's id.
        kind: whether it is in both gradings.
        before: the points of the earlier grading; None where there is no such result.
        after: the points now; None where there is no such result.
        total_before: the student's points over all modules in the earlier grading; None if they are new.
        total_after: the same now; None if they are gone.
        steps: what differs in the verdicts.
        why: a sentence without its full stop for each reason that can be told.
    """

    student: str
    module: str
    kind: Kind
    before: float | None
    after: float | None
    total_before: float | None
    total_after: float | None
    steps: tuple[Step, ...] = ()
    why: tuple[str, ...] = ()

    @property
    def difference(self) -> float:
        """Points won, or lost where it is below 0; what is not there counts 0."""
        return round((self.after or 0.0) - (self.before or 0.0), 2) + 0.0


def changes(old: Class, new: Class) -> tuple[Change, ...]:
    """Everything that differs, sorted as the classes are; results that agree in points and verdicts are left out.

    Args:
        old: the earlier grading.
        new: this one.
    """
    before, after = _by_pair(old), _by_pair(new)
    totals = _totals(old), _totals(new)
    found = [_change(pair, before.get(pair), after.get(pair), totals) for pair in _pairs(before, after, old, new)]
    return tuple(change for change in found if change is not None)


Pair = tuple[str, str]
Totals = tuple[Mapping[str, float], Mapping[str, float]]


def _by_pair(cls: Class) -> dict[Pair, Result]:
    return {(result.student, result.module): result for result in cls.results}


def _totals(cls: Class) -> dict[str, float]:
    return {student: total(result.score for result in results) for student, results in cls.students()}


def _pairs(before: Mapping[Pair, Result], after: Mapping[Pair, Result], old: Class, new: Class) -> list[Pair]:
    """Every student and module of both gradings, by student, modules in their order."""
    order = {module: n for n, module in enumerate(dict.fromkeys((*new.modules, *old.modules)))}
    return sorted({**before, **after}, key=lambda pair: (pair[0], order.get(pair[1], len(order)), pair[1]))


def _change(pair: Pair, before: Result | None, after: Result | None, totals: Totals) -> Change | None:
    steps, why = _differences(before, after), _why(before, after)
    if before is not None and after is not None and not steps:
        return None
    kind = Kind.NEW if before is None else Kind.GONE if after is None else Kind.CHANGED
    student, module = pair
    scores = (None if before is None else before.score, None if after is None else after.score)
    return Change(student, module, kind, *scores, totals[0].get(student), totals[1].get(student), steps, why)


# ---------------------------------------------------------------- what differs


def _differences(before: Result | None, after: Result | None) -> tuple[Step, ...]:
    if before is None or after is None:
        return ()
    return tuple(step for step in _steps(before, after) if step.before != step.after)


def _steps(before: Result, after: Result) -> Iterator[Step]:
    yield Step("state", before.state.value, after.state.value)
    yield Step("score", f"{before.score:g} of {before.most:g}", f"{after.score:g} of {after.most:g}")
    old, new = _statuses(before), _statuses(after)
    yield from (Step(test, old.get(test, NOTHING), new.get(test, NOTHING)) for test in {**old, **new})
    yield Step("own tests", _own(before), _own(after))


def _statuses(result: Result) -> dict[str, str]:
    return {each["test"]: each["status"] for each in result.report.get("named_tests", ())}


def _own(result: Result) -> str:
    """The own tests' result in a few words."""
    own = result.report.get("own_tests")
    if not own:
        return NOTHING
    if not own["valid"]:
        return "not valid"
    if not own["graded"]:
        return "not graded"
    required = ", a required one missed" if own["required_missed"] else ""
    return f"{own['caught']} of {own['planted']} caught{required}"


# ---------------------------------------------------------------- why


UNSTABLE = "nothing that the verdict hangs on changed, so it is not stable"
UNKNOWN = "why can't be told: what the verdict hung on was not kept"


def _why(before: Result | None, after: Result | None) -> tuple[str, ...]:
    if before is None or after is None:
        return ()
    old, new = keys.parts(before.key), keys.parts(after.key)
    differ = [why for part, why in REASONS.items() if part in old and part in new and old[part] != new[part]]
    reasons = (*_about_files(before, after), *differ, *_about_points(before, after))
    return reasons or (UNSTABLE if old and new else UNKNOWN,)


def _about_files(before: Result, after: Result) -> Iterator[str]:
    if before.state is not after.state and before.state in BEFORE:
        yield BEFORE[before.state]
    elif before.state is not after.state and after.state in NOW:
        yield NOW[after.state]
    elif before.submission != after.submission:
        yield f"another file is graded: {printable(after.submission)}, not {printable(before.submission)}"


BEFORE = {State.NOT_SUBMITTED: "it was handed in since", State.NOT_GRADED: "it could not be graded before"}
NOW = {State.NOT_SUBMITTED: "the file is no longer there", State.NOT_GRADED: "it could not be graded now"}


def _about_points(before: Result, after: Result) -> Iterator[str]:
    if before.worth and after.worth and dict(before.worth) != dict(after.worth):
        yield "what the checks are worth changed"


# ---------------------------------------------------------------- showing it


def shown(changes: Sequence[Change], n_students: int | None = None) -> RenderableType:
    """The changes for a terminal or a file: how many there are, then those of each student.

    Args:
        changes: from `changes`.
        n_students: how many students the class has now, where that is to be said.
    """
    students: dict[str, list[Change]] = {}
    for change in changes:
        students.setdefault(change.student, []).append(change)
    lines = [_summary(students, n_students)]
    for student, theirs in students.items():
        lines += [Text(), _headline(student, theirs[0]), *(line for change in theirs for line in _lines(change))]
    return Group(*lines)


def _summary(students: Mapping[str, Sequence[Change]], n_students: int | None) -> Text:
    if not students:
        return Text("Nobody's points or verdicts change.", "bold")
    counts = {
        "up": sum(_difference(theirs) > 0 for theirs in students.values()),
        "down": sum(_difference(theirs) < 0 for theirs in students.values()),
        "new": sum(theirs[0].total_before is None for theirs in students.values()),
        "gone": sum(theirs[0].total_after is None for theirs in students.values()),
    }
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "no points"
    of = "" if n_students is None else f" The class has {plural(n_students, 'student')}."
    return Text(f"Something changes for {plural(len(students), 'student')}: {told}.{of}", "bold")


def _difference(theirs: Sequence[Change]) -> float:
    """The change of a student's total; 0 for one who is in one grading only."""
    before, after = theirs[0].total_before, theirs[0].total_after
    return 0.0 if before is None or after is None else round(after - before, 2)


def _headline(student: str, first: Change) -> Text:
    name = (printable(student), "bold")
    if first.total_before is None:
        return Text.assemble(name, f": new, {first.total_after:g} points")
    if first.total_after is None:
        return Text.assemble(name, f": no longer in the class, {first.total_before:g} points before")
    difference = _difference([first])
    colour = "green" if difference > 0 else "red" if difference < 0 else ""
    return Text.assemble(name, f": {first.total_before:g} → {first.total_after:g} ", (f"({difference:+g})", colour))


def _lines(change: Change) -> Iterator[Text]:
    if change.kind is not Kind.CHANGED:
        if change.total_before is not None and change.total_after is not None:
            graded = "not graded before" if change.kind is Kind.NEW else "no longer graded"
            yield Text(
                f"  {change.module}: {graded}, {change.after if change.before is None else change.before:g} points"
            )
        return
    yield Text(f"  {change.module}: {change.before:g} → {change.after:g}: {'; '.join(change.why)}.")
    yield from (Text(f"    {step.what}: {step.before} → {step.after}") for step in change.steps if step.what != "score")


def as_data(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """The same for programs, in plain values."""
    return [{**asdict(change), "kind": change.kind.value, "difference": change.difference} for change in changes]

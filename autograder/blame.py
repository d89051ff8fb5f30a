"""Whose fault a failure is: the module's own, or that of the student's earlier modules underneath.

It knows which of the earlier modules are sound enough to build on, and how to find the one at fault by
running again on flat models. How tests are run it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autograder.catalogue import catalogue
from autograder.reading import Submission
from autograder.running import Verdict
from autograder.work import Limits, Work

Run = Callable[[Work, Sequence[str]], Iterator[Verdict]]
"""Gives a verdict for each of these named tests, in order, as they come."""


@dataclass(frozen=True)
class Footing:
    """What a submission may stand on: the earlier modules that are sound, and why the others are not taken."""

    earlier: Mapping[str, Submission]
    remarks: tuple[str, ...] = ()


def footing(found: Mapping[str, Submission], limits: Limits, run: Run) -> Footing:
    """The earlier modules that pass their own named tests, each on those below it that do.

    Args:
        found: the student's earlier work by module name, lowest first.
        limits: as for the submission itself.
        run: runs named tests.
    """
    sound: dict[str, Submission] = {}
    remarks = []
    for name, submission in found.items():
        module = submission.module
        work = Work(submission, limits, {need: sound[need] for need in module.needs if need in sound})
        lost = next((verdict for verdict in run(work, _tests(work)) if not verdict.passed), None)
        if lost is None:
            sound[name] = submission
            continue
        remarks.append(
            f"Your own {submission.name} does not pass {module.id} yet ({lost.test}), so a flat model took its place: "
            f"see ol check {module.id} {submission.name}."
        )
    return Footing(sound, tuple(remarks))


def _tests(work: Work) -> list[str]:
    return [test.name for test in catalogue(work.submission.module)]


def settled(work: Work, verdicts: Sequence[Verdict], run: Run) -> tuple[list[Verdict], tuple[str, ...]]:
    """The verdicts, with those that an earlier module is to blame for taken from flat models, and who is to blame.

    Args:
        work: the submission over the student's own earlier modules.
        verdicts: what came of it.
        run: runs named tests.
    """
    lost = [verdict.test for verdict in verdicts if not verdict.passed]
    if not lost or not work.earlier:
        return list(verdicts), ()
    on_flat = {verdict.test: verdict for verdict in run(replace(work, earlier={}), lost)}
    cured = [test for test in lost if on_flat[test].passed]
    if not cured:
        return list(verdicts), ()
    at_fault = " and ".join(work.earlier[name].name for name in _at_fault(work, cured, run))
    tests = cured[0] + (f" and {len(cured) - 1} more" if len(cured) > 1 else "")
    remark = (
        f"On your own {at_fault} this does not hold: {tests}. On the flat model it does, so the fault is there and "
        f"not in {work.submission.name}: the verdict is the one on the flat model."
    )
    return [on_flat[verdict.test] if verdict.test in cured else verdict for verdict in verdicts], (remark,)


def _at_fault(work: Work, cured: Sequence[str], run: Run) -> Sequence[str]:
    """The one earlier module in whose place a flat model cures every test; all of them if there is no such one."""
    if len(work.earlier) > 1:
        for name in work.earlier:
            others = {other: submission for other, submission in work.earlier.items() if other != name}
            if all(verdict.passed for verdict in run(replace(work, earlier=others), cured)):
                return [name]
    return list(work.earlier)

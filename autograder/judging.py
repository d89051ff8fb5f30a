"""Judging a story: play it, let a judge name the first wrong outcome, shrink what fails and tell it.

It knows how a failing story becomes a short one. What is right it does not know: that is the judge's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from autograder.expect import RuleBroken
from autograder.looking import looks, seen
from autograder.stories import Call, Outcome, Ref, Story, play
from autograder.subject import NotDefined
from autograder.telling import show


@dataclass(frozen=True)
class Fault:
    """The first call whose outcome is wrong: where, which rule, and both outcomes as text."""

    at: int
    rule: str
    expected: str
    got: str


Judge = Callable[[Story, Sequence[Outcome]], Fault | None]

SHRINK_CALLS = 40_000
"""Shrinking stops after so many calls, all plays together: a short story matters more than the shortest."""

OF_A_SEQUENCE = frozenset({"allocate", "append_slot", "publish", "release", "block_table"})
"""Calls of a manager that begin with the id of a sequence: those of one sequence only make sense together."""

BY_CHANCE = (
    "The same calls on a new object gave two different results: they must not depend on chance, "
    "or on what other objects did before."
)
"""What is said of code whose failure does not come again."""


def hold(story: Story, names: Mapping[str, Any], judge: Judge, intro: str) -> None:
    """Play a story and judge it; if it fails, shrink it and raise RuleBroken with what is left.

    Args:
        story: what to play.
        names: the implementation under test.
        judge: finds the first wrong outcome.
        intro: the sentence that opens the failure message.
    """
    outcomes = play(story, names)
    fault = judge(story, outcomes)
    if fault is None:
        return
    _refuse_unwritten(outcomes[fault.at])
    if judge(story, play(story, names)) != fault:
        raise RuleBroken(f"{intro}\n  {BY_CHANCE}")
    short = shrink(story[: fault.at + 1], lambda calls: judge(calls, play(calls, names)))
    outcomes = play(short, names)
    fault = judge(short, outcomes)
    if fault is None:
        raise RuleBroken(f"{intro}\n  {BY_CHANCE}")
    short, outcomes = short[: fault.at + 1], outcomes[: fault.at + 1]
    looked = play((*short, *looks(short)), names)[len(short) :]
    raise StoryFailed(intro, short, outcomes, fault, seen(short, looked))


def _refuse_unwritten(outcome: Outcome) -> None:
    """A call of what is not there yet breaks no rule: there is nothing to judge."""
    if outcome.raised == "NotDefined":
        raise NotDefined(outcome.message)
    if outcome.raised == "NotImplementedError" and outcome.error is not None:
        raise outcome.error


class StoryFailed(RuleBroken):
    """A story that fails, shrunk: the story, its outcomes, the fault and the state after it are kept for a replay."""

    def __init__(
        self,
        intro: str,
        story: Story,
        outcomes: Sequence[Outcome],
        fault: Fault,
        state: dict[str, Any] | None = None,
    ) -> None:
        self.intro, self.story, self.outcomes = intro, story, tuple(outcomes)
        self.fault, self.state = fault, state
        lines = show(story[: fault.at + 1], outcomes)
        told = "\n".join(f"    {line}" for line in lines)
        super().__init__(
            f"{intro}\n  {fault.rule}\n  The shortest story that shows it:\n{told}\n"
            f"  expected: {fault.expected}\n  got:      {fault.got}"
        )


def shrink(story: Story, find: Callable[[Story], Fault | None], calls: int = SHRINK_CALLS) -> Story:
    """A shorter story that still fails: first whole sequences are dropped, then runs of calls, large parts first.

    Args:
        story: fails at its last call.
        find: the first fault in a story, if there is one; what comes after it is cut off.
        calls: how many calls may be played, all plays together.
    """
    left = [calls]

    def failing(shorter: Story) -> Story | None:
        left[0] -= len(shorter)
        fault = find(shorter) if shorter and left[0] >= 0 else None
        return shorter[: fault.at + 1] if fault else None

    if any(call.target == "BlockManager" for call in story):
        story = _dropped(story, _sequence, failing)
    return _dropped(story, lambda call: call.label, failing)


def _sequence(call: Call) -> Hashable:
    return ("sequence", call.args[0]) if call.verb in OF_A_SEQUENCE else call.label


def _dropped(story: Story, part: Callable[[Call], Hashable], failing: Callable[[Story], Story | None]) -> Story:
    """What is left when parts are dropped that the failure does not need: half of them at a time, a quarter, ..."""
    size = max(len(set(map(part, story))) // 2, 1)
    while size:
        parts = list(dict.fromkeys(map(part, story)))
        for end in range(len(parts), 0, -size):
            shorter = _without(story, set(parts[max(end - size, 0) : end]), part)
            if len(shorter) < len(story):
                story = failing(shorter) or story
        size //= 2
    return story


def _without(story: Story, parts: Set[Hashable], part: Callable[[Call], Hashable]) -> Story:
    """The story without some of its parts, nor the calls that need a result of theirs."""
    gone = set()
    kept = []
    for call in story:
        if part(call) in parts or any(ref.call in gone for ref in _refs((call.target, *call.args))):
            gone.add(call.label)
        else:
            kept.append(call)
    return tuple(kept)


def _refs(args: Any) -> list[Ref]:
    if isinstance(args, Ref):
        return [args]
    if isinstance(args, tuple | list):
        return [ref for item in args for ref in _refs(item)]
    return []

"""Judging a story: play it, let a judge name the first wrong outcome, shrink what fails and tell it.

It knows how a failing story becomes a short one. What is right it does not know: that is the judge's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autograder.expect import RuleBroken
from autograder.looking import looks, seen
from autograder.stories import Outcome, Ref, Story, play
from autograder.telling import show


@dataclass(frozen=True)
class Fault:
    """The first call whose outcome is wrong: where, which rule, and both outcomes as text."""

    at: int
    rule: str
    expected: str
    got: str


Judge = Callable[[Story, Sequence[Outcome]], Fault | None]

SHRINK_PLAYS = 400
"""Shrinking stops after so many plays: a short story matters more than the shortest."""

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
    fault = judge(story, play(story, names))
    if fault is None:
        return
    if judge(story, play(story, names)) != fault:
        raise RuleBroken(f"{intro}\n  {BY_CHANCE}")
    short = shrink(story[: fault.at + 1], lambda calls: judge(calls, play(calls, names)) is not None)
    outcomes = play(short, names)
    fault = judge(short, outcomes)
    if fault is None:
        raise RuleBroken(f"{intro}\n  {BY_CHANCE}")
    short, outcomes = short[: fault.at + 1], outcomes[: fault.at + 1]
    looked = play((*short, *looks(short)), names)[len(short) :]
    raise StoryFailed(intro, short, outcomes, fault, seen(short, looked))


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


def shrink(story: Story, fails: Callable[[Story], bool], plays: int = SHRINK_PLAYS) -> Story:
    """A shorter story that still fails: cut off the end, then drop runs of calls, long runs first."""
    left = [plays]

    def still_fails(calls: Story) -> bool:
        left[0] -= 1
        return left[0] >= 0 and fails(calls)

    size = max(len(story) // 2, 1)
    while size:
        start = len(story) - size
        while start > -size:
            shorter = _without(story, max(start, 0), start + size)
            if shorter and len(shorter) < len(story) and still_fails(shorter):
                story = shorter
            start -= size
        size //= 2
    return story


def _without(story: Story, start: int, end: int) -> Story:
    """The story without a run of calls, nor those that need a result of theirs."""
    gone = {call.label for call in story[start:end]}
    kept = []
    for place, call in enumerate(story):
        if start <= place < end or any(ref.call in gone for ref in _refs((call.target, *call.args))):
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

"""Telling a story: calls and outcomes as lines of Python, the way a student would type them.

It knows how calls and outcomes are written down. It does not know which of them are right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autograder.stories import PROPERTIES, Call, Outcome, Ref, Story
from course import contract


def describe(outcome: Outcome) -> str:
    """An outcome in a few words."""
    if outcome.skipped:
        return "(not played)"
    if outcome.raised:
        return f"{outcome.raised}: {outcome.message}" if outcome.message else outcome.raised
    return outcome.made or repr(outcome.value)


def show(story: Story, outcomes: Sequence[Outcome]) -> list[str]:
    """A story as lines of Python with what each call gave, the way a student would type it."""
    names = {call.label: _variable(call, place) for place, call in enumerate(story)}
    lines = []
    for call, outcome in zip(story, outcomes, strict=False):
        args = ", ".join(_written(arg, names) for arg in call.args)
        if isinstance(call.target, str):
            text = f"{call.target}({args})"
        else:
            ending = "" if call.verb in PROPERTIES else f"({args})"
            text = f"{_written(call.target, names)}.{call.verb}{ending}"
        lines.append(f"{names[call.label]} = {text}" if outcome.made else f"{text}  →  {describe(outcome)}")
        if not outcome.made:
            lines[-1] = f"{names[call.label]} = {lines[-1]}"
    return lines


def _variable(call: Call, place: int) -> str:
    if isinstance(call.target, str) and call.target[0].isupper():
        return {"KvPool": "pool", "RadixTree": "tree", "RadixCache": "cache", "BlockManager": "manager"}[call.target]
    return f"r{place}"


def _written(arg: Any, names: Mapping[int, str]) -> str:
    if isinstance(arg, Ref):
        text = names[arg.call]
        for step in arg.path:
            text += f".{step}" if isinstance(step, str) else f"[{step}]"
        return text
    if isinstance(arg, tuple | list):
        return "[" + ", ".join(_written(item, names) for item in arg) + "]"
    return repr(arg) if not isinstance(arg, contract.PrefixCache) else str(arg)

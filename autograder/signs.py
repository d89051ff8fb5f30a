"""How a named test failed, read from its verdict: which rule broke, and how what came differs from what should have.

It knows the form of failure messages. It does not know which mistake leads to which failure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from autograder.running import Status, Verdict

UNTOLD = (Status.NOT_DEFINED, Status.UNREADABLE, Status.NOT_SUBMITTED)
"""Ends that say nothing about how the code works: there is none to work yet."""

STORY = "The shortest story that shows it:"
ERROR = re.compile(r"[A-Z]\w*(?:Error|Exception|Exhausted|Exit|Iteration)\b")
DIGITS = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Sign:
    """How one test failed: the rule that broke, without its numbers, and the kind of difference."""

    rule: str
    kind: str


def sign(verdict: Verdict) -> Sign | None:
    """A verdict's sign; None where it passed, or where the code that it would tell about is not written yet."""
    if verdict.passed or verdict.status in UNTOLD or verdict.message.startswith("Not written yet"):
        return None
    if verdict.status is not Status.FAILED:
        return Sign("", verdict.status.value)
    if error := ERROR.match(verdict.message):
        return Sign("", f"raised {error.group()}")
    return Sign(_rule(verdict.message), _kind(verdict.message))


def tells(verdict: Verdict) -> bool:
    """Whether a verdict says anything about the code: it passed, or it failed with a sign."""
    return verdict.passed or sign(verdict) is not None


def _rule(message: str) -> str:
    """The rule's sentence; in a story, the judge's rule and the verb of the call that broke it."""
    first, _, rest = message.partition("\n")
    if STORY not in rest:
        return _without_numbers(first)
    rule = rest.strip().split("\n")[0]
    told = rest.partition(STORY)[2].partition("\n  expected:")[0].strip().splitlines()
    return _without_numbers(f"{_verb(told[-1])}: {rule}" if told else rule)


def _verb(line: str) -> str:
    call = re.search(r"\.(\w+)", line.partition("=")[2])
    return call.group(1) if call else ""


def _without_numbers(text: str) -> str:
    return DIGITS.sub("#", text)


# ---------------------------------------------------------------- the kind of difference


def _kind(message: str) -> str:
    found = re.search(r"\n  expected: ?(.*)\n  got: *(.*)\Z", message, re.DOTALL)
    if not found:
        return ""
    expected, got = (side.strip() for side in found.groups())
    if got == "no exception" or ERROR.match(got):
        return "raised nothing" if got == "no exception" else f"raised {got.partition(':')[0]}"
    if "\n" in expected + got:
        return _lines_differ(expected.splitlines(), got.splitlines())
    return difference(_read(expected), _read(got))


@dataclass(frozen=True)
class _Unread:
    """A text that is no value."""

    text: str


def _read(text: str) -> Any:
    """The value that a text shows: plain ones as they are, results of the contract as dicts of their fields."""
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError):
        return _Unread(_without_numbers(text))


def _value(node: ast.AST) -> Any:
    match node:
        case ast.Call(func=ast.Name(), args=[], keywords=fields):
            return {each.arg: _value(each.value) for each in fields}
        case ast.Dict(keys=keys, values=values):
            return {str(_value(key)) if key else "": _value(value) for key, value in zip(keys, values, strict=True)}
        case ast.List(elts=items):
            return [_value(item) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_value(item) for item in items)
        case _:
            return ast.literal_eval(node)


def difference(expected: Any, got: Any) -> str:
    """How one value differs from another: larger, missing, in another order, and so on; by fields where it has any."""
    match expected, got:
        case _ if type(expected) is type(got) and expected == got:
            return ""
        case _, None:
            return "None instead"
        case bool(), bool():
            return f"{got} instead"
        case (int() | float(), int() | float()):
            return "larger" if got > expected else "smaller"
        case dict(), dict():
            return _fields_differ(expected, got)
        case (list(), list()) | (tuple(), tuple()):
            return _items_differ(expected, got)
        case _Unread(), _:
            return "other"
        case _:
            return "other" if type(expected) is type(got) else f"{type(got).__name__} instead"


def _fields_differ(expected: dict[str, Any], got: dict[str, Any]) -> str:
    told = [(name, difference(expected.get(name), got.get(name))) for name in dict.fromkeys((*expected, *got))]
    named = [f"{_without_numbers(name)} {how}" for name, how in told if how]
    return ", ".join(dict.fromkeys(named))


def _items_differ(expected: Sequence[Any], got: Sequence[Any]) -> str:
    """Missing, extra, in another order; else how the first item that differs does, and at which place."""
    mine, theirs = list(map(repr, got)), list(map(repr, expected))
    if sorted(mine) == sorted(theirs):
        return "another order"
    if len(mine) < len(theirs) and set(mine) <= set(theirs):
        return "missing"
    if len(mine) > len(theirs) and set(theirs) <= set(mine):
        return "extra"
    pairs = enumerate(zip_longest(expected, got))
    return next((f"item {at} {how}" for at, (want, have) in pairs if (how := difference(want, have))), "other")


def _lines_differ(expected: Sequence[str], got: Sequence[str]) -> str:
    """Rows of a tree: fewer or more of them, or which of a row's parts differ."""
    if len(got) != len(expected):
        return "more rows" if len(got) > len(expected) else "fewer rows"
    parts = [(_parts(want), _parts(have)) for want, have in zip(expected, got, strict=True)]
    names = dict.fromkeys(name for want, have in parts for name in want if want[name] != have.get(name))
    return f"other {' and '.join(names)}"


def _parts(row: str) -> dict[str, str]:
    """`path [1]: tokens [1], locks 0` by the words before each value."""
    return {name.strip(): value for name, value in re.findall(r"([a-z][a-z ]*) (\[[^\]]*\]|-?\d+)", row)}

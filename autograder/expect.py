"""How a named test says what it expects: one sentence for the rule, then the values.

It knows how to compare and how to word a failure. It does not know which implementation is tested.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from autograder.subject import NotDefined
from autograder.values import NotPlain, plain


class RuleBroken(AssertionError):
    """A rule of the contract that does not hold: the sentence, and the values that show it."""


def same(got: Any, expected: Any, rule: str) -> None:
    """`got` equals `expected`, type for type. `rule` is the sentence a student reads if it doesn't."""
    try:
        value = plain(got)
    except NotPlain as problem:
        raise RuleBroken(f"{rule}\n  {problem}") from None
    if type(value) is not type(expected) or value != expected:
        raise RuleBroken(f"{rule}\n  expected: {expected!r}\n  got:      {value!r}")


def holds(condition: bool, rule: str, **values: object) -> None:
    """The condition is true. `values` are shown by name if it isn't."""
    if condition is not True:
        shown = "".join(f"\n  {name}: {value!r}" for name, value in values.items())
        raise RuleBroken(f"{rule}{shown}")


@contextlib.contextmanager
def refuses(error: type[BaseException], rule: str) -> Iterator[None]:
    """The block raises `error`, or a kind of it, and nothing else; what is not written yet is told as such."""
    try:
        yield
    except error:
        return
    except (RuleBroken, NotDefined, NotImplementedError):
        raise
    except Exception as other:
        raise RuleBroken(
            f"{rule}\n  expected: {error.__name__}\n  got:      {type(other).__name__}: {other}"
        ) from other
    raise RuleBroken(f"{rule}\n  expected: {error.__name__}\n  got:      no exception")

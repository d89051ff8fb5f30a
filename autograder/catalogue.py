"""The named tests: what each is called, what it checks, and why that matters downstream.

It knows how a test is announced and found. It does not know how one is run or judged.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from autograder.subject import Subject
from course.modules import Module

Body = Callable[[Subject], None]


@dataclass(frozen=True)
class NamedTest:
    """One row of a module's catalogue.

    `kind` is the chapters' word: unit, boundary, property, fault, golden or differential.
    """

    name: str
    kind: str
    checks: str
    why: str
    run: Body


def named(kind: str, checks: str, why: str) -> Callable[[Body], Body]:
    """Announce `test_<name>(subject)` as the named test `<name>`."""

    def announce(body: Body) -> Body:
        test = NamedTest(body.__name__.removeprefix("test_"), kind, checks, why, body)
        body.named_test = test  # type: ignore[attr-defined]
        return body

    return announce


def catalogue(module: Module) -> tuple[NamedTest, ...]:
    """A module's named tests, in the order in which its test file defines them."""
    tests = importlib.import_module(f"autograder.tests.test_{module.name}")
    return tuple(body.named_test for body in vars(tests).values() if hasattr(body, "named_test"))

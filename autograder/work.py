"""What is to be run: a submission over the modules underneath, its limits, and what comes to light besides.

It knows what a room is told and what it tells. Where and how anything runs it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autograder.reading import Submission


@dataclass(frozen=True)
class Limits:
    """What a submission may use: seconds for each test, for each cell, and for all of it, and memory."""

    test_s: float = 10.0
    cell_s: float = 30.0
    total_s: float = 300.0
    memory_mb: int = 1024


@dataclass(frozen=True)
class Work:
    """A submission over the student's own earlier modules, by name; flat models take the places of the others."""

    submission: Submission
    limits: Limits = field(default_factory=Limits)
    earlier: Mapping[str, Submission] = field(default_factory=dict)


@dataclass
class Remarks:
    """What came to light while the cells ran: errors by cell, and names that are missing at the end."""

    raised: dict[str, None] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


class Broken(Exception):
    """The student's own tests can't be collected; the message says why."""

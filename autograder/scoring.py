"""What a student's own tests are worth: which planted bugs they catch, and whether they accept right code.

It knows the order in which implementations come, and the rules by which rounds become a score (L8.4,
section 4: rung R4). It does not know how tests are run, nor in which process.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from autograder import implementations
from autograder.planted import PlantedBug, planted_bugs
from autograder.subject import Subject
from course.modules import Module

THRESHOLD = 0.80
"""So large a share of the planted bugs must be caught, and every required one (L8.4, section 4)."""

REFERENCE, FLAT = "reference", "flat model"
CORRECT = (REFERENCE, FLAT)

FAR_FROM_LIMIT = 4
"""A loop counts as a catch only if every correct round took less than the limit over this."""


class Did(StrEnum):
    """What a test of a student's did on an implementation. An expected failure counts as skipped."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Ran:
    """One test on one implementation; `message` says why it did not pass."""

    test: str
    did: Did
    message: str = ""


@dataclass(frozen=True)
class Round:
    """Every test on one implementation, or as far as it came.

    `cut_off` is how the round ended early (timed out, died), and `at` the test that it ended in.
    """

    implementation: str
    ran: tuple[Ran, ...]
    seconds: float = 0.0
    cut_off: str = ""
    at: str = ""

    @property
    def correct(self) -> bool:
        """Whether the implementation is a right one, not a planted bug."""
        return self.implementation in CORRECT

    @property
    def passed(self) -> frozenset[str]:
        """The names of the tests that passed."""
        return frozenset(ran.test for ran in self.ran if ran.did is Did.PASSED)

    @property
    def failed(self) -> frozenset[str]:
        """The names of the tests that failed."""
        return frozenset(ran.test for ran in self.ran if ran.did is Did.FAILED)

    @property
    def fault(self) -> str:
        """Why a suite that did this on a correct implementation is not valid; nothing if it is."""
        if self.cut_off:
            return f"{self.at or 'The suite'} {self.cut_off} on a correct implementation."
        for ran in self.ran:
            if ran.did is Did.FAILED:
                return f"{ran.test} fails on a correct implementation.\n  {ran.message}".rstrip()
        if not self.ran:
            return "There are no tests: write functions whose names begin with test_."
        return "" if self.passed else "Every test was skipped on a correct implementation."


@dataclass(frozen=True)
class OwnScore:
    """How good a student's own tests are.

    `reason` says why there is no pass; `caught` holds ids of planted bugs, `missed` and
    `required_missed` titles; `graded` is false where the planted bugs are not at hand.
    """

    valid: bool
    reason: str = ""
    caught: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    required_missed: tuple[str, ...] = ()
    graded: bool = True

    @property
    def n_bugs(self) -> int:
        """How many bugs were planted."""
        return len(self.caught) + len(self.missed)

    @property
    def share(self) -> float:
        """Caught bugs over planted ones; 0.0 for a suite that is not valid."""
        return len(self.caught) / self.n_bugs if self.n_bugs else 0.0

    @property
    def credit(self) -> float:
        """The part of the points that a suite gets; none for one that is not valid or not graded."""
        counts = self.valid and self.graded
        return credit(len(self.caught), self.n_bugs, bool(self.required_missed)) if counts else 0.0

    @property
    def passed(self) -> bool:
        """Valid, at least the threshold's share caught, and every required bug among them."""
        return self.valid and self.graded and self.share >= THRESHOLD and not self.required_missed


def credit(caught: int, planted: int, misses_required: bool) -> float:
    """How much of their points own tests get, from 0.0 to 1.0: the share caught over the share that is needed.

    A suite that misses a required bug gets at most what the last step below the threshold gives.
    """
    if not planted:
        return 0.0
    if misses_required:
        caught = min(caught, max(n for n in range(planted + 1) if n / planted < THRESHOLD))
    return min(caught / planted / THRESHOLD, 1.0)


# ---------------------------------------------------------------- the order of the rounds


def bugs_at_hand(module: Module) -> tuple[PlantedBug, ...]:
    """The planted bugs of a module; none where there is no reference to plant them in."""
    return _bugs(module) if implementations.has_reference(module) else ()


def order(module: Module, seed: str) -> tuple[str, ...]:
    """The implementations a suite meets: correct ones first, between and last, planted bugs shuffled among them."""
    bugs = [bug.id for bug in bugs_at_hand(module)]
    if not bugs:
        return (FLAT, FLAT, FLAT)
    chance = random.Random(seed)
    chance.shuffle(bugs)
    for correct in (REFERENCE, FLAT):
        bugs.insert(chance.randrange(1, len(bugs)), correct)
    return (REFERENCE, *bugs, REFERENCE)


def implementation(module: Module, name: str) -> Subject:
    """The implementation that goes by this name in a round."""
    if name == FLAT:
        return implementations.flat(module)
    if name == REFERENCE:
        return implementations.reference(module)
    return implementations.buggy(module, next(bug for bug in _bugs(module) if bug.id == name))


_bugs = cache(planted_bugs)


def hopeless(round_: Round) -> bool:
    """Whether a round settles that the suite is not valid, so that the rest need not be run."""
    return round_.correct and bool(round_.fault)


# ---------------------------------------------------------------- the score


def judge(module: Module, rounds: Sequence[Round], limit_s: float = float("inf")) -> OwnScore:
    """The score that these rounds add up to.

    Args:
        module: whose planted bugs were played.
        rounds: in the order in which they were played.
        limit_s: the limit that a round which timed out had run into.
    """
    correct = [round_ for round_ in rounds if round_.correct]
    for number, round_ in enumerate(correct):
        if round_.fault:
            again = "\n  It passed on the same code before: it must not depend on chance, or on runs before."
            same_code = any(earlier.implementation == round_.implementation for earlier in correct[:number])
            return OwnScore(False, round_.fault + again * same_code)
    bugs = bugs_at_hand(module)
    if not bugs:
        return OwnScore(
            True, "The planted bugs are not in this edition, so how many are caught is not known here.", graded=False
        )
    sound = frozenset.intersection(*(round_.passed for round_ in correct))
    slowest = max(round_.seconds for round_ in correct)
    caught = {round_.implementation for round_ in rounds if _catches(round_, sound, slowest * FAR_FROM_LIMIT < limit_s)}
    return _score(bugs, caught)


def _catches(round_: Round, sound: frozenset[str], loops_count: bool) -> bool:
    """A test that holds on every correct implementation fails here, or runs without end."""
    if round_.correct:
        return False
    return bool(round_.failed & sound) or (round_.cut_off == TIMED_OUT and round_.at in sound and loops_count)


TIMED_OUT = "timed out"


def _score(bugs: Sequence[PlantedBug], caught: set[str]) -> OwnScore:
    score = OwnScore(
        True,
        caught=tuple(bug.id for bug in bugs if bug.id in caught),
        missed=tuple(bug.title for bug in bugs if bug.id not in caught),
        required_missed=tuple(bug.title for bug in bugs if bug.required and bug.id not in caught),
    )
    if score.passed:
        return score
    short = f"{len(score.caught)} of {len(bugs)} planted bugs are caught, {THRESHOLD:.0%} are needed."
    required = "Every suite must catch: " + "; ".join(score.required_missed) + "."
    reasons = [short] * (score.share < THRESHOLD) + [required] * bool(score.required_missed)
    return OwnScore(True, " ".join(reasons), score.caught, score.missed, score.required_missed)

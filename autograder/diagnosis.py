"""Diagnosis: which pitfall of the chapter failed tests look like, by the patterns that the planted bugs leave.

It knows the pattern of every planted bug, learned by running it through the named tests
(`python -m autograder.diagnosis` writes `autograder/bugs/patterns.json`). It has never seen the bugs'
edits or a submission: it compares verdicts only, and says nothing where nothing fits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from autograder.planted import FOLDER, planted_bugs
from autograder.running import Verdict, run_named
from autograder.signs import Sign, sign, tells
from course.modules import EXTENSIONS, MODULES, Module

PATTERNS = FOLDER / "patterns.json"

SAME_TEST, SAME_RULE, SAME_KIND = 0.4, 0.3, 0.3
"""How much one test says: that it fails at all, that the same rule breaks, that the difference is of the same kind."""

FITS = 0.5
"""A pattern that is less alike than this fits nothing."""

APART = 0.1
"""Patterns whose likeness differs by less than this can't be told apart."""

MOST = 3
"""If more patterns than this fit equally well, none is named."""


@dataclass(frozen=True)
class Candidate:
    """A pitfall that failed tests look like: its title, the place to read again, and how alike the two are, 0 to 1."""

    id: str
    title: str
    reread: str
    likeness: float


Signs = Mapping[str, Sign]
"""How tests failed, by their names."""


@dataclass(frozen=True)
class Pattern:
    """What one planted bug does to the named tests."""

    id: str
    title: str
    reread: str
    signs: Signs


def diagnose(module: Module, verdicts: Sequence[Verdict]) -> tuple[Candidate, ...]:
    """The pitfalls that these verdicts look like, most alike first: none, one, or up to three.

    Tests that did not run, or that found nothing written yet, neither speak for a pitfall nor against it.
    """
    seen = {verdict.test: how for verdict in verdicts if (how := sign(verdict))}
    told = frozenset(verdict.test for verdict in verdicts if tells(verdict))
    ranked = [each for each in rank(patterns(module), seen, told) if each.likeness >= FITS]
    close = tuple(each for each in ranked if each.likeness > ranked[0].likeness - APART)
    return close if len(close) <= MOST else ()


def rank(known: Sequence[Pattern], seen: Signs, told: frozenset[str]) -> list[Candidate]:
    """All patterns, most alike first; `told` are the tests whose verdicts say anything."""
    weights = _weights(known)
    found = [
        Candidate(each.id, each.title, each.reread, round(_likeness(each.signs, seen, told, weights), 3))
        for each in known
    ]
    return sorted(found, key=lambda each: -each.likeness)


def _weights(known: Sequence[Pattern]) -> dict[str, float]:
    """A test that few mistakes fail says more than one that most of them fail."""
    tests = [test for pattern in known for test in pattern.signs]
    return {test: 1 / tests.count(test) for test in tests}


def _likeness(pattern: Signs, seen: Signs, told: frozenset[str], weights: Mapping[str, float]) -> float:
    """The weight of what both have in common, over the weight of every test that fails in one of them."""
    tests = (pattern.keys() & told) | seen.keys()
    whole = sum(weights.get(test, 1.0) for test in tests)
    common = pattern.keys() & seen.keys()
    return sum(weights[test] * _alike(pattern[test], seen[test]) for test in common) / whole if whole else 0.0


def _alike(one: Sign, other: Sign) -> float:
    return SAME_TEST + SAME_RULE * (one.rule == other.rule) + SAME_KIND * (one.kind == other.kind)


# ---------------------------------------------------------------- the patterns


@cache
def patterns(module: Module) -> tuple[Pattern, ...]:
    """The patterns of a module's planted bugs, as they were learned."""
    rows = json.loads(PATTERNS.read_text(encoding="utf-8"))[module.name]
    return tuple(
        Pattern(row["id"], row["title"], row["reread"], {test: Sign(*how) for test, how in row["signs"].items()})
        for row in rows
    )


def learn(module: Module) -> list[Pattern]:
    """Run each planted bug of a module through its named tests and note which fail, and how."""
    return [learn_one(module, bug.id) for bug in planted_bugs(module)]


def learn_one(module: Module, bug_id: str) -> Pattern:
    """The pattern of one planted bug. Raises NoReference where there is no reference to plant it in."""
    from autograder.catalogue import catalogue
    from autograder.implementations import buggy

    bug = next(bug for bug in planted_bugs(module) if bug.id == bug_id)
    subject = buggy(module, bug)
    ends = {test.name: sign(run_named(test, subject)) for test in catalogue(module)}
    return Pattern(bug.id, bug.title, bug.reread, {test: how for test, how in ends.items() if how})


def write(path: Path = PATTERNS) -> None:
    """Learn every pattern anew and write them down: ids, titles and how tests fail, never an edit."""
    rows = {module.name: [_row(pattern) for pattern in learn(module)] for module in (*MODULES, *EXTENSIONS)}
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _row(pattern: Pattern) -> dict[str, object]:
    signs = {test: [how.rule, how.kind] for test, how in pattern.signs.items()}
    return {"id": pattern.id, "title": pattern.title, "reread": pattern.reread, "signs": signs}


if __name__ == "__main__":
    write()
    print(f"{PATTERNS} is written.")

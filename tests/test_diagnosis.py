"""Diagnosis: the stored patterns are those of the planted bugs, and they know the same mistakes in other code."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from autograder import diagnosis, flat, implementations
from autograder.catalogue import catalogue
from autograder.diagnosis import Candidate, diagnose
from autograder.planted import PlantedBug, plant, planted_bugs
from autograder.report import looks_like
from autograder.running import Status, Verdict, run_named
from autograder.signs import difference, sign, tells
from autograder.subject import Subject, load
from course.modules import MODULES, Module, find

BY_HAND = Path(__file__).parent / "flat_bugs"
BUGS = [(module, bug) for module in MODULES for bug in planted_bugs(module)]


def ids(value: Module | PlantedBug) -> str:
    return value.name if isinstance(value, Module) else value.id


def verdicts(module: Module, subject: Subject) -> list[Verdict]:
    return [run_named(test, subject) for test in catalogue(module)]


# ---------------------------------------------------------------- the patterns


@pytest.mark.parametrize(("module", "bug"), BUGS, ids=ids)
def test_the_stored_pattern_is_what_the_bug_does(module: Module, bug: PlantedBug) -> None:
    stored = {pattern.id: pattern for pattern in diagnosis.patterns(module)}
    assert diagnosis.learn_one(module, bug.id) == stored[bug.id], "python -m autograder.diagnosis writes them anew"


def test_the_patterns_are_those_of_the_bugs_there_are() -> None:
    for module in MODULES:
        assert [pattern.id for pattern in diagnosis.patterns(module)] == [bug.id for bug in planted_bugs(module)]


def test_no_edit_stands_among_the_patterns() -> None:
    text = diagnosis.PATTERNS.read_text(encoding="utf-8")
    shown = json.dumps(text)
    for _, bug in BUGS:
        assert not [line for line in bug.put.splitlines() if len(line.strip()) > 20 and line.strip() in shown]


# ---------------------------------------------------------------- the measurement


def planted_by_hand() -> Iterator[tuple[Module, PlantedBug]]:
    """Each planted bug with its edit of the flat model in place of that of the reference."""
    for module in MODULES:
        rows = tomllib.loads((BY_HAND / f"{module.name}.toml").read_text(encoding="utf-8"))["bug"]
        bugs = {bug.id: bug for bug in planted_bugs(module)}
        for row in rows:
            yield module, replace(bugs[row["id"]], find=row["find"], put=row["put"])


OTHERS = list(planted_by_hand())


@cache
def named_for(place: int) -> tuple[Candidate, ...]:
    module, bug = OTHERS[place]
    source = (Path(flat.__file__).parent / f"{module.name}.py").read_text(encoding="utf-8")
    subject = load(module, plant(bug, source), implementations.flat_below(module))
    found = verdicts(module, subject)
    assert not all(verdict.passed for verdict in found), f"{module.name} {bug.id} changes nothing in the flat model"
    return diagnose(module, found)


def test_every_bug_but_one_is_planted_by_hand() -> None:
    missing = {(module.name, bug.id) for module, bug in BUGS} - {(module.name, bug.id) for module, bug in OTHERS}
    assert missing == {("radix_tree", "s24")}, "a flat model keeps a value with its granule: it can't lose one of them"


def test_the_right_pitfall_is_named_for_bugs_planted_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    places, lines = [], []
    for place, (module, bug) in enumerate(OTHERS):
        found = [candidate.id for candidate in named_for(place)]
        places.append(found.index(bug.id) + 1 if bug.id in found else 0)
        told = ", ".join(f"{each.id} {each.likeness:.2f}" for each in named_for(place)) or "nothing fits"
        lines.append(f"{module.name:14} {bug.id}  {'miss' if not places[-1] else places[-1]!s:>4}  {told}")
    first, two, n = places.count(1), places.count(1) + places.count(2), len(places)
    with capsys.disabled():
        print("\n" + "\n".join(lines))
        print(f"named first: {first} of {n} ({first / n:.0%}); among the first two: {two} of {n} ({two / n:.0%})")
    assert first / n >= 0.80
    assert two / n >= 0.95


# ---------------------------------------------------------------- when to say nothing


@pytest.mark.parametrize("module", MODULES, ids=ids)
def test_right_code_has_no_pitfall(module: Module) -> None:
    assert diagnose(module, verdicts(module, implementations.flat(module))) == ()


def test_other_mistakes_are_not_taken_for_a_pitfall() -> None:
    manager = find("block_manager")
    rows = tomllib.loads((BY_HAND.parent / "more_bugs_block_manager.toml").read_text(encoding="utf-8"))["bug"]
    for row in rows:
        bug = PlantedBug(**{**row, "caught_by": tuple(row["caught_by"])})
        found = verdicts(manager, implementations.buggy(manager, bug))
        assert not all(verdict.passed for verdict in found)
        assert diagnose(manager, found) == (), bug.title


@pytest.mark.parametrize("status", [Status.NOT_DEFINED, Status.UNREADABLE, Status.NOT_SUBMITTED, Status.DIED])
def test_code_that_does_not_run_has_none(status: Status) -> None:
    for module in MODULES:
        assert diagnose(module, [Verdict(test.name, status, "why") for test in catalogue(module)]) == ()


def test_stubs_have_none() -> None:
    message = "Not written yet: step 1."
    for module in MODULES:
        assert diagnose(module, [Verdict(test.name, Status.FAILED, message) for test in catalogue(module)]) == ()


def unwritten(name: str) -> type:
    """A class of which nothing is written yet."""

    def nothing_yet(self: object, *args: object) -> None:
        raise NotImplementedError(f"step 1: {name}")

    return type(name, (), {"__init__": nothing_yet})


@pytest.mark.parametrize("module", MODULES, ids=ids)
@pytest.mark.parametrize("there", [True, False], ids=["stubs", "nothing"])
def test_what_is_not_written_is_told_as_such_by_every_test(module: Module, there: bool) -> None:
    def function(*args: object) -> object:
        raise NotImplementedError("step 1")

    names = {name: unwritten(name) if name[0].isupper() else function for name in module.exports}
    subject = Subject(module, {**implementations.flat_below(module), **(names if there else {})})
    ends = verdicts(module, subject)
    assert not any(verdict.passed for verdict in ends)
    if there:
        assert [verdict for verdict in ends if not verdict.message.startswith("Not written yet: step")] == []
    else:
        assert {verdict.status for verdict in ends} == {Status.NOT_DEFINED}
    assert diagnose(module, ends) == ()


def test_tests_that_are_not_written_yet_do_not_count_against_a_pitfall() -> None:
    module = find("radix_cache")
    bug = next(bug for bug in planted_bugs(module) if bug.id == "s01")
    found = verdicts(module, implementations.buggy(module, bug))
    failing = [verdict.test for verdict in found if not verdict.passed]
    partly = [
        replace(verdict, message="Not written yet: step 5.") if verdict.test in failing[2:] else verdict
        for verdict in found
    ]
    assert diagnose(module, partly)[0].id == "s01"


def test_too_many_that_fit_alike_are_not_named() -> None:
    module = find("radix_cache")
    known = diagnosis.patterns(module)
    shared = "golden_reference_trace"
    failing = [pattern for pattern in known if shared in pattern.signs]
    assert len(failing) > diagnosis.MOST
    assert diagnose(module, [Verdict(shared, Status.FAILED, "Some rule that no bug breaks.")]) == ()


def test_a_few_that_can_not_be_told_apart_are_all_named() -> None:
    module = find("kv_pool")
    bugs = {bug.id: bug for bug in planted_bugs(module)}
    only = "a_name_is_never_0"
    found = run_named(
        next(test for test in catalogue(module) if test.name == only), implementations.buggy(module, bugs["s01"])
    )
    named = diagnose(module, [found])
    assert 1 < len(named) <= diagnosis.MOST
    assert "s01" in [candidate.id for candidate in named]


# ---------------------------------------------------------------- words and signs


def test_a_diagnosis_names_the_pitfall_and_the_place() -> None:
    one = Candidate("s01", "A lock pins nothing", "L8.4, section 2", 0.9)
    two = replace(one, id="s02", title="An unlock releases nothing")
    assert looks_like(()) == []
    assert "“A lock pins nothing” (read again: L8.4, section 2)" in looks_like([one])[0]
    assert looks_like([one, two])[0].startswith("This looks like one of 2 known pitfalls: ")


@pytest.mark.parametrize(
    ("expected", "got", "kind"),
    [
        (3, 4, "larger"),
        (3, 2, "smaller"),
        (True, False, "False instead"),
        (3, None, "None instead"),
        ([1, 2], [2, 1], "another order"),
        ([1, 2], [1], "missing"),
        ([1], [1, 2], "extra"),
        ((1, 5), (1, 7), "item 1 larger"),
        ({"hits": 3, "lookups": 1}, {"hits": 0, "lookups": 1}, "hits smaller"),
        ([1], (1,), "tuple instead"),
        (1, 1, ""),
    ],
)
def test_kinds_of_difference(expected: object, got: object, kind: str) -> None:
    assert difference(expected, got) == kind


def test_signs_are_read_from_messages() -> None:
    def failed(message: str) -> Verdict:
        return Verdict("a", Status.FAILED, message)

    plain = sign(failed("3 blocks of 4 are free.\n  expected: Match(n_tokens=4)\n  got:      Match(n_tokens=2)"))
    assert plain is not None and (plain.rule, plain.kind) == ("# blocks of # are free.", "n_tokens smaller")
    refused = sign(failed("It is refused.\n  expected: KeyError\n  got:      no exception"))
    assert refused is not None and refused.kind == "raised nothing"
    raised = sign(failed("IndexError: list index out of range (this notebook, line 3: x[4])"))
    assert raised is not None and raised.kind == "raised IndexError"
    late = sign(Verdict("a", Status.TIMED_OUT, "No end within 10 s."))
    assert late is not None and late.kind == "timed out"
    assert sign(Verdict("a", Status.PASSED)) is None
    assert tells(Verdict("a", Status.PASSED)) and not tells(Verdict("a", Status.NOT_DEFINED))

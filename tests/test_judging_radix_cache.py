"""The judges of radix cache stories: each of their rules can be broken, and is named when it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autograder import golden
from autograder.engine_steps import drained_story
from autograder.implementations import reference
from autograder.judging import Fault
from autograder.judging_radix_cache import conserved, recorded_in
from autograder.stories import Outcome, Script, play
from course.contract import Inserted, PrefixMatch
from course.modules import find

STORY = drained_story(seed=5, steps=600, questions=("cached_blocks",))
RIGHT = play(STORY, reference(find("L8.4")).names)


def _fault(verb: str, change: Callable[[Any], Any], fits: Callable[[Any], bool] = lambda value: True) -> Fault | None:
    """What the judge says when one right answer of a right run is changed."""
    places = [at for at, call in enumerate(STORY) if call.verb == verb and fits(RIGHT[at].value)]
    at = places[len(places) // 2]
    changed = [*RIGHT[:at], Outcome(change(RIGHT[at].value)), *RIGHT[at + 1 :]]
    return conserved(STORY, changed)


def _hit(value: PrefixMatch) -> bool:
    return len(value.blocks) > 2


@pytest.mark.parametrize(
    "verb, change, fits, rule",
    [
        ("match_prefix", lambda m: replace(m, blocks=m.blocks[1:]), _hit, "longest cached prefix"),
        ("match_prefix", lambda m: replace(m, matched_tokens=m.matched_tokens - 1), _hit, "longest cached prefix"),
        ("match_prefix", lambda m: replace(m, node=0), _hit, "the node is ROOT"),
        ("match_prefix", lambda m: replace(m, node=-1), lambda m: not m.blocks, "the node is ROOT"),
        ("match_prefix", lambda m: None, _hit, "gives a PrefixMatch"),
        ("insert", lambda i: replace(i, duplicates=(1,)), lambda i: not i.duplicates, "hands back the blocks"),
        ("insert", lambda i: replace(i, duplicates=()), lambda i: i.duplicates, "hands back the blocks"),
        ("insert", lambda i: Inserted(0, i.duplicates), lambda i: i.node != 0, "the node is ROOT"),
        ("evict", lambda out: [*out, out[0]], bool, "once each"),
        ("evict", lambda out: ["block"], bool, "once each"),
        ("evict", lambda out: out[:-1], lambda out: len(out) == 1, "as many blocks as asked for"),
        ("evict", tuple, bool, "gives a list"),
        ("cached_blocks", lambda n: n + 1, lambda n: n > 0, "cached_blocks counts"),
        ("cached_blocks", float, bool, "gives an int"),
    ],
)
def test_a_changed_answer_breaks_its_rule(verb: str, change: Any, fits: Any, rule: str) -> None:
    fault = _fault(verb, change, fits)
    assert fault is not None and rule in fault.rule


def test_the_right_answers_break_none() -> None:
    assert conserved(STORY, RIGHT) is None


def test_an_evicted_locked_block_is_named() -> None:
    script = Script()
    cache = script.new("RadixCache", 1)
    script.ask(cache, "insert", [1], [7])
    script.ask(cache, "lock", script.ask(cache, "match_prefix", [1, 2]).at("node"))
    script.ask(cache, "evict", 1)
    right = play(script.story, reference(find("L8.4")).names)
    assert conserved(script.story, right) is None
    fault = conserved(script.story, [*right[:-1], Outcome([7])])
    assert fault is not None and fault.rule.startswith("A locked block is never evicted")


def test_a_prefix_that_loses_its_head_is_named() -> None:
    script = Script()
    cache = script.new("RadixCache", 1)
    script.ask(cache, "insert", [1, 2], [7, 8])
    script.ask(cache, "evict", 1)
    right = play(script.story, reference(find("L8.4")).names)
    assert conserved(script.story, right) is None
    fault = conserved(script.story, [*right[:-1], Outcome([7])])
    assert fault is not None and fault.rule.startswith("Only leaves are evicted")


def test_an_error_where_none_belongs_is_a_fault() -> None:
    broken = Outcome(raised="IndexError", message="list index out of range")
    fault = conserved(STORY, [RIGHT[0], broken, *RIGHT[2:]])
    assert fault is not None and fault.at == 1 and "IndexError" in fault.got
    fault = conserved(STORY, [broken, *RIGHT[1:]])
    assert fault is not None and fault.at == 0


def test_calls_that_no_engine_makes_are_not_judged() -> None:
    script = Script()
    cache = script.new("RadixCache", 1)
    script.ask(cache, "unlock", script.ask(cache, "match_prefix", [1, 2]).at("node"))
    script.ask(cache, "evict", 1)
    outcomes = [*play(script.story, reference(find("L8.4")).names)[:-1], Outcome([7])]
    assert conserved(script.story, outcomes) is None


@pytest.mark.parametrize("verb", ["match_prefix", "insert", "lock", "unlock", "evict", *golden.COUNTS, "stats"])
def test_the_golden_judge_sees_every_call(verb: str) -> None:
    trace = golden.golden_trace()
    right = list(play(trace.story, reference(find("L8.4")).names))
    at = max(at for at, call in enumerate(trace.story) if call.verb == verb)
    assert recorded_in(trace)(trace.story, right) is None
    for wrong in (Outcome("wrong"), Outcome(raised="KeyError"), Outcome(skipped=True)):
        fault = recorded_in(trace)(trace.story, [*right[:at], wrong, *right[at + 1 :]])
        assert fault is not None and fault.at == at

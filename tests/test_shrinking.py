"""Shrinking a failing story: what is not needed goes, whole sequences first, and it comes to an end."""

from __future__ import annotations

from autograder.judging import SHRINK_CALLS, Fault, shrink
from autograder.stories import Call, Ref, Script, Story

NEEDED = {("allocate", 7), ("append_slot", 7), ("release", 9)}


def story_of(sequences: int) -> Story:
    """A manager at work: each sequence is admitted, grows and goes, all of them side by side."""
    script = Script()
    pool = script.new("KvPool", 8, 2)
    manager = script.new("BlockManager", pool, "hash")
    for verb in ("allocate", "append_slot", "release"):
        for seq in range(sequences):
            script.ask(manager, verb, seq, *([[1, 2]] * (verb != "append_slot")))
            script.ask(manager, "available_blocks")
    return script.story


def where(story: Story) -> Fault | None:
    """The fault of a story that has all that is needed, in which no sequence does anything before it is admitted."""
    seen = set()
    for at, call in enumerate(story):
        if call.verb in ("append_slot", "release") and ("allocate", call.args[0]) not in seen:
            return None
        if call.args and call.verb:
            seen.add((call.verb, call.args[0]))
        if seen >= NEEDED:
            return Fault(at, "rule", "this", "that")
    return None


def test_whole_sequences_are_dropped_and_then_what_else_is_not_needed() -> None:
    plays: list[int] = []

    def find(story: Story) -> Fault | None:
        plays.append(len(story))
        return where(story)

    story = story_of(60)
    short = shrink(story[: where(story).at + 1], find)  # type: ignore[union-attr]
    told = [(call.verb, call.args[0]) for call in short if call.verb]
    assert sorted(told) == [("allocate", 7), ("allocate", 9), ("append_slot", 7), ("release", 9)]
    assert [call.target for call in short[:2]] == ["KvPool", "BlockManager"]
    assert sum(plays) < SHRINK_CALLS / 10


def test_what_comes_after_an_earlier_fault_is_cut_off() -> None:
    calls = tuple(Call(label, "KvPool", "", (label,)) for label in range(100))
    asked: list[int] = []

    def find(story: Story) -> Fault | None:
        asked.append(len(story))
        at = next((place for place, call in enumerate(story) if call.label >= 10), None)
        return None if at is None else Fault(at, "rule", "this", "that")

    assert len(shrink(calls, find)) == 1
    assert asked[1] < 20


def test_calls_that_need_a_result_go_with_it() -> None:
    made = Call(0, "KvPool", "", (4, 2)), Call(1, "KvPool", "", (8, 2))
    asked = Call(2, Ref(0), "n_free"), Call(3, Ref(1), "alloc", (1,)), Call(4, Ref(1), "release", (Ref(3, (0,)),))

    def find(story: Story) -> Fault | None:
        last = next((at for at, call in enumerate(story) if call.label == 4), None)
        return None if last is None else Fault(last, "rule", "this", "that")

    assert [call.label for call in shrink((*made, *asked), find)] == [1, 3, 4]


def test_no_more_calls_are_played_than_allowed() -> None:
    played: list[int] = []

    def find(story: Story) -> Fault | None:
        played.append(len(story))
        return None

    story = story_of(60)
    assert shrink(story, find, calls=1_000) == story
    assert sum(played) <= 1_000

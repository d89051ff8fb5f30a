"""The scheduler: order, budget, preemption, and what it does with a block space that breaks its contract."""

from __future__ import annotations

from typing import Any

import pytest

from autograder.implementations import flat
from autograder.stories import seeded
from course.contract import Allocation, PrefixCache, SeqId
from course.engine.scheduler import BlockSpaceError, Scheduler, Step
from course.modules import find

NAMES = flat(find("L10.4")).names
A = list(range(1, 11))
B = [*range(1, 9), 99, 98, 97]

each_mode = pytest.mark.parametrize("mode", PrefixCache, ids=lambda mode: mode.value)


def space(n_blocks: int, mode: PrefixCache = PrefixCache.NONE) -> Any:
    return NAMES["BlockManager"](NAMES["KvPool"](n_blocks, 4), mode)


def spans(step: Step) -> list[tuple[SeqId, int, int]]:
    return [(chunk.seq, chunk.start, chunk.end) for chunk in step.chunks]


def advance(scheduler: Scheduler, token: int = 7) -> Step:
    """Plan a step and say it was computed."""
    step = scheduler.next_step()
    scheduler.took(step, [token] * len(step.chunks))
    return step


# ---------------------------------------------------------------- order and budget


def test_prefill_comes_in_chunks_and_then_one_token_a_step() -> None:
    scheduler = Scheduler(space(8), max_batch_tokens=4, max_running=4)
    scheduler.add("A", A)
    steps = [advance(scheduler) for _ in range(5)]
    assert [spans(step) for step in steps] == [
        [("A", 0, 4)],
        [("A", 4, 8)],
        [("A", 8, 10)],
        [("A", 10, 11)],
        [("A", 11, 12)],
    ]
    assert [step.n_decodes for step in steps] == [0, 0, 0, 1, 1]
    assert [list(step.chunks[0].tokens) for step in steps[2:]] == [[9, 10], [7], [7]]
    assert [len(step.chunks[0].table) for step in steps] == [3, 3, 3, 3, 3]


def test_every_computed_chunk_is_published_with_all_that_is_computed_so_far() -> None:
    told: list[tuple[object, list[int]]] = []
    watched = space(8)
    watched.publish = lambda seq, computed: told.append((seq, list(computed)))
    scheduler = Scheduler(watched, max_batch_tokens=4, max_running=4)
    scheduler.add("A", A)
    scheduler.next_step()  # planned is not computed yet
    assert told == []
    scheduler = Scheduler(watched, max_batch_tokens=4, max_running=4)
    scheduler.add("B", A)
    for _ in range(4):
        advance(scheduler)
    assert told == [("B", A[:4]), ("B", A[:8]), ("B", A), ("B", [*A, 7])]


def test_a_space_that_publishes_nothing_is_not_asked_to() -> None:
    plain = space(8)
    plain.publish = "release"  # an option that is kept under this name, not a call
    scheduler = Scheduler(plain, max_batch_tokens=16, max_running=4)
    scheduler.add("A", A)
    assert advance(scheduler).n_tokens == len(A)


def test_only_the_chunk_that_ends_a_prompt_gives_a_token() -> None:
    scheduler = Scheduler(space(8), max_batch_tokens=8, max_running=4)
    scheduler.add("A", A)
    first = scheduler.next_step()
    assert scheduler.took(first, [5]) == []
    assert scheduler.took(scheduler.next_step(), [6]) == [("A", 6)]
    assert list(scheduler.next_step().chunks[0].tokens) == [6]


@pytest.mark.parametrize("mode", [PrefixCache.HASH, PrefixCache.RADIX])
def test_the_first_chunk_starts_where_the_cached_tokens_end(mode: PrefixCache) -> None:
    scheduler = Scheduler(space(8, mode), max_batch_tokens=16, max_running=4)
    scheduler.add("A", A)
    advance(scheduler)
    scheduler.end("A")
    scheduler.add("B", B)
    step = advance(scheduler)
    assert (step.admitted, spans(step)) == ([("B", 8)], [("B", 8, 11)])
    assert list(step.chunks[0].tokens) == B[8:]


def test_decodes_come_first_and_prefill_takes_what_is_left() -> None:
    scheduler = Scheduler(space(20), max_batch_tokens=6, max_running=8)
    for name in ("one", "two"):
        scheduler.add(name, [1, 2])
    scheduler.add("long", A)
    scheduler.add("next", A)
    assert spans(advance(scheduler)) == [("one", 0, 2), ("two", 0, 2), ("long", 0, 2)]
    step = advance(scheduler)
    assert (spans(step), step.n_decodes) == ([("one", 2, 3), ("two", 2, 3), ("long", 2, 6)], 2)
    assert spans(advance(scheduler)) == [("one", 3, 4), ("two", 3, 4), ("long", 6, 10)]
    step = advance(scheduler)
    assert (spans(step), step.n_decodes) == ([("one", 4, 5), ("two", 4, 5), ("long", 10, 11), ("next", 0, 3)], 3)


def test_no_more_are_admitted_than_a_step_can_decode() -> None:
    scheduler = Scheduler(space(20), max_batch_tokens=2, max_running=8)
    for name in "abc":
        scheduler.add(name, [1, 2])
    for _ in range(4):
        advance(scheduler)
    assert spans(advance(scheduler)) == [("a", 5, 6), ("b", 3, 4)]
    scheduler.end("a")
    assert spans(advance(scheduler)) == [("b", 4, 5), ("c", 0, 1)]


def test_nobody_is_admitted_past_one_that_does_not_fit() -> None:
    scheduler = Scheduler(space(4), max_batch_tokens=32, max_running=8)
    scheduler.add("runs", [1] * 6)
    scheduler.add("large", [1] * 12)
    scheduler.add("small", [1])
    advance(scheduler)
    assert (scheduler.running, scheduler.waiting) == (("runs",), ("large", "small"))
    scheduler.end("runs")
    assert advance(scheduler).admitted == [("large", 0), ("small", 0)]


def test_so_many_run_at_once_and_no_more() -> None:
    scheduler = Scheduler(space(20), max_batch_tokens=32, max_running=2)
    for name in "abc":
        scheduler.add(name, [1])
    advance(scheduler)
    assert (scheduler.running, scheduler.waiting) == (("a", "b"), ("c",))
    scheduler.end("a")
    advance(scheduler)
    assert scheduler.running == ("b", "c")


def test_one_is_not_admitted_while_no_budget_is_left_for_it() -> None:
    scheduler = Scheduler(space(20), max_batch_tokens=4, max_running=4)
    scheduler.add("first", A)
    scheduler.add("second", A)
    assert advance(scheduler).admitted == [("first", 0)]
    assert scheduler.running == ("first",)


# ---------------------------------------------------------------- preemption


def two_growing() -> tuple[Any, Scheduler]:
    """Two sequences of 4 positions in a pool of 3 blocks, and a third that waits."""
    manager = space(3)
    scheduler = Scheduler(manager, max_batch_tokens=32, max_running=8)
    for name in ("old", "young"):
        scheduler.add(name, [1, 2, 3, 4])
    advance(scheduler)
    scheduler.add("waits", [1] * 8)
    return manager, scheduler


def test_the_youngest_is_preempted_and_goes_to_the_front_of_the_queue() -> None:
    manager, scheduler = two_growing()
    step = advance(scheduler)
    assert (spans(step), step.preempted, step.admitted) == ([("old", 4, 5)], ["young"], [])
    assert (scheduler.running, scheduler.waiting) == (("old",), ("young", "waits"))
    with pytest.raises(KeyError):
        manager.block_table("young")


def test_a_preempted_one_computes_its_prompt_and_its_answer_again() -> None:
    _, scheduler = two_growing()
    advance(scheduler)
    scheduler.end("old")
    step = advance(scheduler, token=8)
    assert (step.admitted, spans(step)[0]) == ([("young", 0)], ("young", 0, 5))
    assert list(step.chunks[0].tokens) == [1, 2, 3, 4, 7]
    assert list(scheduler.next_step().chunks[0].tokens) == [8]


@pytest.mark.parametrize("mode", [PrefixCache.HASH, PrefixCache.RADIX])
def test_a_preempted_one_leaves_its_full_blocks_in_the_cache(mode: PrefixCache) -> None:
    scheduler = Scheduler(space(4, mode), max_batch_tokens=32, max_running=8)
    scheduler.add("old", [9] * 4)
    scheduler.add("young", A)
    advance(scheduler)
    assert advance(scheduler).preempted == ["young"]
    scheduler.end("old")
    assert advance(scheduler).admitted == [("young", 8)]


def test_several_are_preempted_youngest_first_and_keep_their_order() -> None:
    scheduler = Scheduler(space(4), max_batch_tokens=32, max_running=8)
    for name in "abcd":
        scheduler.add(name, [1, 2, 3, 4])
    advance(scheduler)
    step = advance(scheduler)
    assert (step.preempted, spans(step)) == (["d", "c"], [("a", 4, 5), ("b", 4, 5)])
    assert scheduler.waiting == ("c", "d")


def test_the_youngest_gives_way_to_itself_when_its_own_slot_is_short() -> None:
    scheduler = Scheduler(space(3), max_batch_tokens=32, max_running=8)
    scheduler.add("old", [1] * 6)
    scheduler.add("young", [1] * 4)
    advance(scheduler)
    step = advance(scheduler)
    assert (step.preempted, spans(step)) == (["young"], [("old", 6, 7)])


@each_mode
def test_a_step_planned_twice_takes_one_slot(mode: PrefixCache) -> None:
    """Whoever computes it may fail and try again."""
    manager = space(8, mode)
    scheduler = Scheduler(manager, max_batch_tokens=32, max_running=8)
    scheduler.add("A", [1, 2, 3, 4])
    advance(scheduler)
    assert spans(scheduler.next_step()) == spans(scheduler.next_step()) == [("A", 4, 5)]
    for _ in range(3):
        advance(scheduler)
    assert len(manager.block_table("A")) == 2


# ---------------------------------------------------------------- ends and mistakes


def test_one_that_ends_gives_its_blocks_back_wherever_it_is() -> None:
    manager = space(8, PrefixCache.HASH)
    scheduler = Scheduler(manager, max_batch_tokens=6, max_running=1)
    scheduler.add("runs", A)
    scheduler.add("waits", A)
    advance(scheduler)
    scheduler.end("waits")
    assert scheduler.waiting == ()
    scheduler.end("runs")
    assert (scheduler.idle, manager.available_blocks, manager.cached_blocks) == (True, 8, 1)
    with pytest.raises(KeyError, match="'runs' is neither waiting nor running"):
        scheduler.end("runs")


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0)])
def test_sizes_below_one_are_refused(sizes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Scheduler(space(1), *sizes)


def test_a_prompt_that_is_refused_while_nothing_runs_is_said_to_be_stuck() -> None:
    scheduler = Scheduler(space(2), max_batch_tokens=8, max_running=8)
    scheduler.add("long", [1] * 9)
    with pytest.raises(BlockSpaceError, match="sequence long finds no room although nothing else runs"):
        scheduler.next_step()


def test_a_slot_that_is_refused_to_the_only_one_is_said_to_be_stuck() -> None:
    scheduler = Scheduler(space(1), max_batch_tokens=8, max_running=8)
    scheduler.add("grows", [1, 2, 3, 4])
    advance(scheduler)
    with pytest.raises(BlockSpaceError, match="sequence grows finds no room although nothing else runs"):
        scheduler.next_step()


@pytest.mark.parametrize("cached", [4, 5, -1])
def test_hits_that_cover_the_last_token_are_refused(cached: int) -> None:
    class Wrong:
        def allocate(self, seq: SeqId, tokens: list[int]) -> Allocation:
            return Allocation(cached, (0,))

    scheduler = Scheduler(Wrong(), max_batch_tokens=8, max_running=8)  # type: ignore[arg-type]
    scheduler.add("A", [1, 2, 3, 4])
    with pytest.raises(BlockSpaceError, match=f"A has 4 tokens, and {cached} of them are said to be cached"):
        scheduler.next_step()


# ---------------------------------------------------------------- at random


@each_mode
def test_at_random_the_budget_holds_the_oldest_moves_and_the_order_stays(mode: PrefixCache) -> None:
    choose = seeded(31)
    manager = space(12, mode)
    scheduler = Scheduler(manager, max_batch_tokens=9, max_running=5)
    order: list[SeqId] = []
    preempted = 0
    for number in range(1500):
        if len(order) < 12 and choose.random() < 0.4:
            order.append(number)
            scheduler.add(number, choose.choices(range(2), k=choose.randrange(1, 24)))
        if not scheduler.idle:
            step = advance(scheduler, token=choose.randrange(2))
            oldest = scheduler.running[0]
            preempted += len(step.preempted)
            assert 1 <= step.n_tokens <= 9 and len(scheduler.running) <= 5
            assert oldest in [chunk.seq for chunk in step.chunks]
            assert [*scheduler.running, *scheduler.waiting] == order
            assert not (step.preempted and step.admitted)
            assert all(len(chunk.tokens) == 1 for chunk in step.chunks[: step.n_decodes])
            full = [seq for seq in scheduler.running if len(manager.block_table(seq)) >= 8]
            ends = full[:1] or ([choose.choice(order)] if choose.random() < 0.1 else [])
            for seq in ends:
                scheduler.end(seq)
                order.remove(seq)
    assert preempted > 20
    for seq in list(order):
        scheduler.end(seq)
    assert manager.available_blocks == 12

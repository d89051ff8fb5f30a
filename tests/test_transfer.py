"""KV blocks from one engine to another: only what is missing goes, and an answer over it is the same to the bit."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder import implementations
from autograder.benchmarks.serving import lab_names
from course import modules
from course.contract import PrefixCache
from course.engine.config import EngineConfig
from course.engine.driving import Site, new_site
from course.engine.models import load_model
from course.engine.runner import NotWritten, Runner, WriteRefused
from course.engine.step import Chunk
from course.engine.transfer import HasBlocks, Sent, block_names, has_blocks, send_blocks, send_prefix
from course.lab_models import on_threads
from solutions.block_manager import BlockManager
from solutions.kv_pool import KvPool, kv_block_hash

B = 4
PROMPT = list(range(40, 60))  # five full blocks
BLOCK_BYTES = 2 * 2 * B * 2 * 16 * 4  # K and V, two layers, B positions, two heads of 16 floats


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with on_threads(1):
        yield


def site(n_blocks: int = 16, mode: str = "hash", block_size: int = B, **more: Any) -> Site:
    config = EngineConfig(
        model="byte-tiny",
        prefix_cache=PrefixCache(mode),
        block_size=block_size,
        n_blocks=n_blocks,
        max_batch_tokens=8,
        max_running=4,
    )
    return new_site(load_model("byte-tiny"), config, {"KvPool": KvPool, "BlockManager": BlockManager, **more})


def ask(at: Site, prompt: Sequence[int], n_new: int = 6) -> Any:
    request = at.engine.add(prompt, n_new)
    at.engine.run_until_idle()
    return at.engine.forget(request)


def states(at: Site) -> tuple[int, int, int]:
    return at.pool.n_free, at.pool.n_used, at.pool.n_cached


# ---------------------------------------------------------------- question and answer


def test_an_answer_tells_for_each_name_and_ends_a_hit_at_the_first_miss() -> None:
    pool = KvPool(4, B)
    for name in (11, 33):
        (block,) = pool.alloc(1)
        pool.set_fill(block, B)
        pool.register(block, name)
    answer = has_blocks(pool, HasBlocks((11, 22, 33, 44)))
    assert answer.there == (True, False, True, False)
    assert answer.n_front == 1 and answer.missing == (22, 44)
    assert has_blocks(pool, HasBlocks((11, 33))).n_front == 2
    assert has_blocks(pool, HasBlocks(())).n_front == 0


def test_asking_takes_no_reference() -> None:
    at = site()
    ask(at, PROMPT)
    before = states(at)
    assert has_blocks(at.pool, HasBlocks(tuple(block_names(at.pool, PROMPT)))).n_front == 5
    assert states(at) == before and at.pool.n_used == 0


# ---------------------------------------------------------------- what a transfer is for


def test_the_target_answers_to_the_bit_as_the_source_and_skips_the_prefill() -> None:
    warm, cold, never_asked = site(), site(), site()
    first = ask(warm, PROMPT)
    longer = [*PROMPT, 7, 8, 9]
    assert send_prefix(warm, cold, longer) == Sent(5, 0, 5, 5 * BLOCK_BYTES)
    here, there, alone = ask(warm, longer), ask(cold, longer), ask(never_asked, longer)
    assert here.tokens == there.tokens == alone.tokens != first.tokens
    assert there.cached_tokens == here.cached_tokens == 20 and there.prefill_tokens == here.prefill_tokens == 3
    assert alone.prefill_tokens == 23


def test_the_logits_over_sent_blocks_are_the_same_bits() -> None:
    warm, cold = site(), site()
    ask(warm, PROMPT)
    send_prefix(warm, cold, PROMPT)
    logits = []
    for at in (warm, cold):
        allocation = at.manager.allocate("s", [*PROMPT, 1])
        assert allocation is not None and allocation.cached_tokens == 20
        logits.append(at.runner.logits([Chunk("s", [1], 20, at.manager.block_table("s"))]))
    assert torch.equal(*logits)


def test_afterwards_the_blocks_are_cached_and_nobody_holds_them() -> None:
    warm, cold = site(), site()
    ask(warm, PROMPT)
    before = states(warm)
    send_prefix(warm, cold, PROMPT)
    assert states(cold) == (11, 0, 5) and states(warm) == before


def test_an_answer_travels_with_its_prompt() -> None:
    warm, cold = site(), site()
    answer = ask(warm, PROMPT, n_new=9).tokens
    conversation = [*PROMPT, *answer, 5]
    assert send_prefix(warm, cold, conversation).n_sent == 7  # the last token of an answer is never computed
    assert ask(cold, conversation).cached_tokens == 28


# ---------------------------------------------------------------- deduplication


def test_what_is_sent_twice_is_sent_once() -> None:
    warm, cold = site(), site()
    ask(warm, PROMPT)
    assert send_prefix(warm, cold, PROMPT).n_sent == 5
    assert send_prefix(warm, cold, PROMPT) == Sent(5, 5, 0, 0)
    assert send_prefix(cold, warm, PROMPT) == Sent(5, 5, 0, 0)


def test_a_shared_beginning_stays_where_it_is() -> None:
    warm, cold = site(), site()
    ask(warm, PROMPT)
    ask(cold, [*PROMPT[:10], 1, 2, 3])
    assert send_prefix(warm, cold, PROMPT) == Sent(5, 2, 3, 3 * BLOCK_BYTES)
    assert ask(cold, [*PROMPT, 1]).cached_tokens == 20


def test_a_gap_in_the_front_is_filled() -> None:
    """The later blocks are worth nothing without it, and need not be sent again."""
    warm, cold = site(), site()
    ask(warm, PROMPT)
    send_prefix(warm, cold, PROMPT)
    first = cold.pool.find(block_names(cold.pool, PROMPT)[0])
    others = [block for block in range(16) if block != first and cold.pool.refcount(block) == 0]
    for block in others:
        with_name = cold.pool.fill(block) == B
        if with_name:
            cold.pool.retain(block)
    taken = cold.pool.alloc(12)  # all that is free, and the one cached block that nobody retained
    assert first in taken
    cold.pool.release(first)
    assert has_blocks(cold.pool, HasBlocks(tuple(block_names(cold.pool, PROMPT)))).n_front == 0
    assert send_prefix(warm, cold, PROMPT) == Sent(5, 4, 1, BLOCK_BYTES)


def test_without_the_first_block_the_source_has_nothing_worth_sending() -> None:
    warm, cold = site(), site()
    ask(warm, PROMPT)
    names = block_names(warm.pool, PROMPT)
    assert send_blocks(warm, cold, [12345, *names[1:]]) == Sent()
    assert send_blocks(warm, cold, [*names[:2], 12345, *names[3:]]).n_blocks == 2
    assert cold.pool.n_cached == 2


def test_nothing_is_sent_of_what_nobody_computed() -> None:
    warm, cold = site(), site()
    assert send_prefix(warm, cold, PROMPT) == Sent()
    assert send_prefix(warm, cold, [1, 2]) == Sent()
    assert states(cold) == (16, 0, 0)


# ---------------------------------------------------------------- room


def test_a_running_request_loses_nothing_and_the_front_goes_first() -> None:
    warm, cold = site(), site(n_blocks=8)
    ask(warm, PROMPT)
    held = cold.pool.alloc(5)
    assert send_prefix(warm, cold, PROMPT) == Sent(5, 0, 3, 3 * BLOCK_BYTES)
    assert [cold.pool.refcount(block) for block in held] == [1] * 5
    assert ask_without_running(cold, PROMPT) == 3
    assert send_prefix(warm, cold, PROMPT) == Sent(5, 3, 0, 0), "what is there is no room for the rest"


def ask_without_running(at: Site, prompt: Sequence[int]) -> int:
    return has_blocks(at.pool, HasBlocks(tuple(block_names(at.pool, prompt)))).n_front


def test_without_any_room_nothing_is_sent() -> None:
    warm, cold = site(), site(n_blocks=8)
    ask(warm, PROMPT)
    cold.pool.alloc(8)
    assert send_prefix(warm, cold, PROMPT) == Sent(5, 0, 0, 0)


def test_room_is_made_of_other_cached_blocks_never_of_the_prefix_itself() -> None:
    warm, cold = site(), site(n_blocks=6)
    ask(warm, PROMPT)
    ask(cold, PROMPT[:9], n_new=1)  # two of the five, used longest ago
    ask(cold, list(range(100, 116)), n_new=1)
    assert cold.pool.n_cached == 6
    assert send_prefix(warm, cold, PROMPT) == Sent(5, 2, 3, 3 * BLOCK_BYTES)
    assert ask_without_running(cold, PROMPT) == 5
    assert cold.pool.evictions == 3


def test_pressure_takes_the_end_of_a_sent_prefix_first() -> None:
    warm, cold = site(), site(n_blocks=8)
    ask(warm, PROMPT)
    send_prefix(warm, cold, PROMPT)
    cold.pool.alloc(5)
    assert ask_without_running(cold, PROMPT) == 3


def test_source_blocks_are_held_while_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    warm, cold = site(), site()
    ask(warm, PROMPT)
    seen: list[int] = []
    read = Runner.read_blocks

    def looking(self: Runner, blocks: Sequence[int]) -> torch.Tensor:
        seen.extend(warm.pool.refcount(block) for block in blocks)
        return read(self, blocks)

    monkeypatch.setattr(Runner, "read_blocks", looking)
    send_prefix(warm, cold, PROMPT)
    assert seen == [1] * 5 and warm.pool.n_used == 0


# ---------------------------------------------------------------- while others compute the same


def test_a_prefix_that_the_target_is_computing_itself() -> None:
    """The twin's own blocks find their names taken, and go free when it ends. It answers all the same."""
    warm, cold = site(), site()
    wanted = ask(warm, PROMPT).tokens
    racing = cold.engine.add(PROMPT, 6)
    cold.engine.step()  # eight positions: two blocks are full, and have no name yet
    assert send_prefix(warm, cold, PROMPT) == Sent(5, 0, 5, 5 * BLOCK_BYTES)
    cold.engine.run_until_idle()
    assert cold.engine.records[racing].tokens == wanted
    assert cold.pool.n_used == 0 and cold.pool.n_named == 6  # one block of prompt's end and answer
    assert ask(cold, PROMPT).tokens == wanted


def test_a_prefix_that_the_source_is_still_computing_has_no_name_and_is_not_sent() -> None:
    warm, cold = site(), site()
    warm.engine.add(PROMPT, 6)
    warm.engine.step()
    assert send_prefix(warm, cold, PROMPT) == Sent()


def test_blocks_that_a_request_of_the_source_reads_can_be_sent() -> None:
    warm, cold = site(), site()
    ask(warm, PROMPT)
    reading = warm.engine.add([*PROMPT, 1, 2], 6)
    warm.engine.step()
    assert send_prefix(warm, cold, PROMPT).n_sent == 5
    warm.engine.run_until_idle()
    assert ask(cold, [*PROMPT, 1, 2]).tokens == warm.engine.records[reading].tokens


@given(st.integers(0, 2**32))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_whatever_is_asked_and_sent_answers_stay_and_blocks_come_back(seed: int) -> None:
    """Prompts that share beginnings go to either of two small engines, and are sent back and forth between steps."""
    source = random.Random(seed)
    sites, alone = (site(n_blocks=14), site(n_blocks=12)), site(n_blocks=64, mode="none")
    asked: list[tuple[Site, int | str, list[int]]] = []
    for _ in range(12):
        prompt = [
            *PROMPT[: source.choice((4, 8, 12, 20))],
            *(source.randrange(3) for _ in range(source.randrange(1, 9))),
        ]
        here, other = source.sample(sites, 2)
        asked.append((here, here.engine.add(prompt, 4), prompt))
        for _ in range(source.randrange(4)):
            source.choice(sites).engine.step()
        sent = send_prefix(here, other, prompt)
        assert sent.n_had + sent.n_sent <= sent.n_blocks and sent.n_bytes == sent.n_sent * BLOCK_BYTES
        for each in sites:
            assert sum(states(each)) == each.pool.n_blocks
    for each in sites:
        each.engine.run_until_idle()
        assert each.pool.n_used == 0
    for at, name, prompt in asked:
        assert at.engine.records[name].tokens == ask(alone, prompt, 4).tokens


# ---------------------------------------------------------------- what can't be


def test_an_engine_sends_nothing_to_itself() -> None:
    at = site()
    with pytest.raises(ValueError, match="to itself"):
        send_prefix(at, at, PROMPT)


@pytest.mark.parametrize(("source", "target"), [("radix", "hash"), ("hash", "radix"), ("hash", "none")])
def test_blocks_without_names_cant_be_sent(source: str, target: str) -> None:
    with pytest.raises(ValueError, match=r"blocks are sent by name, and mode (radix|none) gives them none"):
        send_prefix(site(mode=source), site(mode=target), PROMPT)


def test_other_block_sizes_are_refused_before_anything_is_changed() -> None:
    warm, cold = site(), site(block_size=8)
    ask(warm, PROMPT)
    with pytest.raises(ValueError, match=r"at the source and .* at the target"):
        send_prefix(warm, cold, PROMPT)
    assert states(cold) == (16, 0, 0)


def test_a_model_of_another_shape_is_refused() -> None:
    warm, cold = site(), site()
    other = replace(load_model("byte-tiny").model.config, n_layers=3)
    from course.engine.byte_model import load_byte_model

    cold.runner = Runner(load_byte_model(other).model, cold.pool, 16, B)
    with pytest.raises(ValueError, match=r"\[2, 4, 2, 16\] in float32 at the source and \[3, 4, 2, 16\]"):
        send_prefix(warm, cold, PROMPT)


def test_a_block_that_is_named_and_not_written_is_an_error_and_gives_everything_back() -> None:
    warm, cold = site(), site()
    (block,) = warm.pool.alloc(1)
    warm.pool.set_fill(block, B)
    warm.pool.register(block, block_names(warm.pool, PROMPT)[0])
    warm.pool.release(block)
    with pytest.raises(NotWritten, match="position 0 of block"):
        send_prefix(warm, cold, PROMPT)
    assert states(warm) == (15, 0, 1) and states(cold) == (16, 0, 0)


def test_a_target_that_refuses_the_write_gets_its_room_back(monkeypatch: pytest.MonkeyPatch) -> None:
    warm, cold = site(), site()
    ask(warm, PROMPT)

    def refuses(*_: object) -> None:
        raise WriteRefused("no")

    monkeypatch.setattr(Runner, "write_blocks", refuses)
    with pytest.raises(WriteRefused):
        send_prefix(warm, cold, PROMPT)
    assert states(cold) == (16, 0, 0) and warm.pool.n_used == 0


# ---------------------------------------------------------------- names


def test_a_pool_with_single_calls_alone_names_the_same() -> None:
    @dataclass
    class Plain:
        block_size: int

    with modules.bound({"kv_block_hash": kv_block_hash}):
        pool: Any = Plain(B)
        assert block_names(pool, PROMPT) == block_names(KvPool(1, B), PROMPT)


def test_a_students_flat_pool_and_manager_do_as_well() -> None:
    flat = implementations.flat(modules.find("L10.4")).names
    with modules.bound({"kv_block_hash": kv_block_hash}):
        warm, cold = site(**flat), site()
        answer = ask(warm, PROMPT).tokens
        assert send_prefix(warm, cold, PROMPT).n_sent == 5 and send_prefix(cold, warm, PROMPT).n_had == 5
        assert ask(cold, PROMPT).tokens == answer


def test_extra_keys_are_a_part_of_the_names_that_are_asked_for() -> None:
    keyed = {"BlockManager": lab_names()["BlockManager"]}
    warm, cold = site(**keyed), site(**keyed)
    warm.engine.add(PROMPT, 2, extra_keys=("tenant",))
    warm.engine.run_until_idle()
    assert send_prefix(warm, cold, PROMPT) == send_prefix(warm, cold, PROMPT, ("another",)) == Sent()
    assert send_prefix(warm, cold, PROMPT, ("tenant",)).n_sent == 5
    assert cold.manager.cached_prefix([*PROMPT, 1], ("tenant",)) == 20 and cold.manager.cached_prefix([*PROMPT, 1]) == 0

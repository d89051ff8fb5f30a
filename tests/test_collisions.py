"""Made collisions: what two blocks of one name do to a cache, on a short hash and on the whole one."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.flat import flat_source
from autograder.implementations import flat, reference
from autograder.stand_in import ChecksumModel, greedy
from autograder.subject import Subject, load
from course.collisions import (
    BITS,
    after_parent,
    fed,
    forged,
    handed_over,
    keyed_names,
    short_names,
    shortened,
    unfed,
)
from course.collisions_64 import N_FREE, forged_64, reduced
from course.contract import PrefixCache
from course.engine.config import EngineConfig
from course.engine.engine import Engine
from course.modules import find
from course.tokens import pack_tokens
from tests.lockstep import few

MODULE = find("L10.4")
RIGHT = {"reference": reference(MODULE), "flat model": flat(MODULE)}
SIZE = 16
name_of = reference(MODULE).kv_block_hash

VICTIM = [*b"You are a helpful assistant of the town library. May I bring a book back late?"]
CHAT = [*b"I am somebody el"]
"""A block of the attacker's own: the parent of the forged one."""

each_right_one = pytest.mark.parametrize("subject", RIGHT.values(), ids=RIGHT)
caches = pytest.mark.parametrize("mode", [PrefixCache.HASH, PrefixCache.RADIX], ids=lambda mode: mode.value)


def forged_prompt(bits: int) -> list[int]:
    """The attacker's prompt: CHAT, and under it a block with the name of the victim's first one."""
    parent, wanted = name_of(0, CHAT), name_of(0, VICTIM[:SIZE])
    block = forged_64(parent, wanted) if bits == 64 else forged(parent, wanted, [7] * (SIZE - 3), bits)
    assert block is not None
    return [*CHAT, *block]


def pool_class(subject: Subject, bits: int) -> Any:
    return subject.KvPool if bits == 64 else short_names(subject.KvPool, bits)


# ---------------------------------------------------------------- the hash


@few
@given(st.integers(0, 2**64 - 1), st.binary(max_size=64), st.sampled_from([*BITS, 64]))
def test_the_hash_runs_backwards_and_its_low_bits_are_a_hash_of_their_own(state: int, data: bytes, bits: int) -> None:
    low = state & (2**bits - 1)
    assert fed(low, data, bits) == fed(state, data) & (2**bits - 1)
    assert unfed(fed(low, data, bits), data, bits) == low


def test_it_is_the_hash_that_names_blocks() -> None:
    for parent in (0, 1, 2**64 - 1):
        assert fed(after_parent(parent), pack_tokens(VICTIM[:SIZE])) == name_of(parent, VICTIM[:SIZE])


def test_a_short_name_is_never_zero_and_has_a_width_that_can_be_searched() -> None:
    assert (shortened(0x12345678, 8), shortened(0x12345678, 16), shortened(0x1200, 8)) == (0x78, 0x5678, 1)
    for bits in (7, 41, 64):
        with pytest.raises(ValueError, match=f"8 to 40 bits, not {bits}"):
            shortened(1, bits)
        with pytest.raises(ValueError, match=f"8 to 40 bits, not {bits}"):
            short_names(reference(MODULE).KvPool, bits)


# ---------------------------------------------------------------- forging


@pytest.mark.parametrize("bits", [8, 13, 24, 32])
def test_a_block_is_forged_for_a_name_alone(bits: int) -> None:
    for parent, wanted in ((0, 2**64 - 1), (5, 1), (2**64 - 1, name_of(3, VICTIM[:SIZE]))):
        block = forged(parent, wanted, CHAT[:13], bits)
        assert len(block) == SIZE and block[:13] == tuple(CHAT[:13])
        assert shortened(name_of(parent, block), bits) == shortened(wanted, bits)
        assert block == forged(parent, wanted, CHAT[:13], bits), "the same search finds the same block"


def test_the_whole_hash_is_forged_too_with_tokens_that_every_model_knows() -> None:
    source = random.Random(5)
    for _ in range(300):
        parent, wanted = source.getrandbits(64), source.getrandbits(64) or 1
        begin = source.choices(range(50_000), k=source.randrange(3))
        block = forged_64(parent, wanted, begin)
        assert block is not None
        assert len(block) == len(begin) + N_FREE and max(block[len(begin) :]) < 256
        assert name_of(parent, block) == wanted


def test_a_reduced_basis_spans_the_same_lattice_with_short_rows() -> None:
    rows = reduced([[0, 0, 1009], [0, 1, 512], [1, 0, 77]]).rows
    (a, b, c), (d, e, f), (g, h, i) = rows
    assert abs(a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)) == 1009
    assert all((row[2] - 77 * row[0] - 512 * row[1]) % 1009 == 0 for row in rows)
    assert all(sum(value * value for value in row) < 4 * 1009 ** (2 / 3) for row in rows)


# ---------------------------------------------------------------- what it does


@each_right_one
@pytest.mark.parametrize("bits", [32, 64])
def test_the_hash_cache_hands_the_attackers_block_to_the_victim(subject: Subject, bits: int) -> None:
    attack = forged_prompt(bits)
    assert attack[:SIZE] != VICTIM[:SIZE] != attack[SIZE:]
    manager = subject.BlockManager(pool_class(subject, bits)(64, SIZE), PrefixCache.HASH)
    written = manager.allocate("first", attack).blocks
    manager.release("first", attack)
    got = handed_over(manager, attack, VICTIM)
    assert (got.cached_tokens, got.blocks[0]) == (SIZE, written[1])


@each_right_one
@pytest.mark.parametrize("bits", [32, 64])
def test_the_radix_cache_looks_at_the_tokens_and_hands_over_nothing(subject: Subject, bits: int) -> None:
    manager = subject.BlockManager(pool_class(subject, bits)(64, SIZE), PrefixCache.RADIX)
    assert handed_over(manager, forged_prompt(bits), VICTIM).cached_tokens == 0


@caches
@pytest.mark.parametrize("bits", [32, 64])
def test_the_victims_answer_is_wrong_then_and_only_in_the_hash_cache(mode: PrefixCache, bits: int) -> None:
    subject, config = reference(MODULE), EngineConfig(prefix_cache=mode, n_blocks=64, block_size=SIZE)
    pool = pool_class(subject, bits)(64, SIZE)
    engine = Engine(ChecksumModel().runner(pool), subject.BlockManager(pool, mode), config)
    for prompt in (forged_prompt(bits), VICTIM):
        engine.add(prompt, 4)
        engine.run_until_idle()
    attacker, victim = engine.records.values()
    assert attacker.tokens == greedy(forged_prompt(bits), 4)
    assert (victim.tokens == greedy(VICTIM, 4)) == (mode is PrefixCache.RADIX)


@each_right_one
def test_short_names_change_nothing_while_none_is_forged(subject: Subject) -> None:
    for mode in PrefixCache:
        managers = [subject.BlockManager(pool_class(subject, bits)(64, SIZE), mode) for bits in (32, 64)]
        for place, prompt in enumerate([VICTIM, VICTIM[:40], [*VICTIM, *CHAT], CHAT]):
            assert len({manager.allocate(place, prompt) for manager in managers}) == 1
            for manager in managers:
                manager.release(place, prompt)
        assert len({manager.stats for manager in managers}) == 1


def test_whoever_has_no_room_is_told() -> None:
    manager = flat(MODULE).BlockManager(flat(MODULE).KvPool(2, SIZE), PrefixCache.HASH)
    with pytest.raises(ValueError, match="no room for the attacker's 64 tokens"):
        handed_over(manager, [1] * 64, [1])
    with pytest.raises(ValueError, match="no room for the victim's 64 tokens"):
        handed_over(manager, [1], [1] * 64)


# ---------------------------------------------------------------- what helps, and what does not


def test_a_secret_salt_in_front_of_the_hash_is_a_secret_of_one_byte() -> None:
    """A pair that was made for one salt has one name under every salt that leaves the same low byte behind."""
    mine, wanted = 1234, name_of(1234, VICTIM[:SIZE])
    block = forged_64(mine, wanted)
    assert block is not None and block != tuple(VICTIM[:SIZE])
    source = random.Random(1)
    salts = [source.getrandbits(64) for _ in range(4_000)]
    alike = {salt for salt in salts if name_of(salt, block) == name_of(salt, VICTIM[:SIZE])}
    low = after_parent(mine) & 0xFF
    guessed = {salt for salt in salts if after_parent(salt) & 0xFF == low}
    assert len(guessed) > 5 and guessed <= alike
    assert len(alike) < len(salts) / 20, "under most salts the two blocks still differ"


def test_under_keyed_names_nothing_is_handed_over() -> None:
    keyed = keyed_names(b"known to the server alone")
    names = {**flat(MODULE).names, "kv_block_hash": keyed}
    subject = load(MODULE, flat_source(MODULE.name), names)
    manager = subject.BlockManager(subject.KvPool(64, SIZE), PrefixCache.HASH)
    assert handed_over(manager, forged_prompt(64), VICTIM).cached_tokens == 0
    manager.release("victim", VICTIM)
    assert manager.allocate("again", VICTIM).cached_tokens == 64, "the cache still finds what it should"


def test_keyed_names_chain_and_hang_on_the_secret() -> None:
    one, other = keyed_names(b"one"), keyed_names(b"other")
    assert one(0, [1, 2]) == keyed_names(b"one")(0, [1, 2]) != other(0, [1, 2])
    assert len({one(0, [1, 2]), one(1, [1, 2]), one(0, [2, 1]), one(0, [1])}) == 4
    for secret in (b"", b"x" * 65):
        with pytest.raises(ValueError, match="1 to 64 bytes"):
            keyed_names(secret)
    with pytest.raises(ValueError, match="out of range"):
        one(0, [2**32])

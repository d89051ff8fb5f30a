"""Made collisions, on a short hash: why a block's name is no defence against somebody who means harm.

The hash cache asks for a block by its name and never looks at the block's tokens (L10.4, section 2.1). Two blocks
meet in one 64-bit name by accident once in a very long time. On purpose is another matter: FNV-1a is a chain of
steps, each of which can be undone by whoever knows the byte that was fed in. So one can search from both ends and
meet in the middle, with about 2 ** (bits / 2) tries from each. For 32 bits that is a fraction of a second. For
64 bits it would be 2 ** 32 entries in a table, too many for this way; `course.collisions_64` needs none of them.

This file knows FNV-1a and how its low bits are made to meet. What a collision does to a cache is seen by giving
a manager the pool of `short_names`: `handed_over` says what its victim gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import count
from typing import Any

from course.contract import Allocation, BlockId, BlockManager, KvBlockHash
from course.tokens import pack_tokens

FNV_START = 0xCBF29CE484222325
FNV_PRIME = 0x100000001B3

BITS = range(8, 41)
"""Widths that a table in memory is enough for."""


# ---------------------------------------------------------------- the hash, forwards and backwards


def fed(state: int, data: bytes, bits: int = 64) -> int:
    """The state of FNV-1a after these bytes, or its low bits.

    The low bits of the next state follow from the low bits of this one alone: a short name is no sample of a
    good long one but a small FNV of its own.
    """
    mask = 2**bits - 1
    for byte in data:
        state = ((state ^ byte) * FNV_PRIME) & mask
    return state


def unfed(state: int, data: bytes, bits: int = 64) -> int:
    """The state before these bytes: `fed`, undone. The prime is odd, so multiplying by it can be undone."""
    mask = 2**bits - 1
    undo = pow(FNV_PRIME, -1, 2**bits)
    for byte in reversed(data):
        state = ((state * undo) ^ byte) & mask
    return state


def after_parent(parent: int) -> int:
    """The state from which a block's tokens are hashed: FNV's start, then the parent's name."""
    return fed(FNV_START, parent.to_bytes(8, "little"))


def shortened(name: int, bits: int) -> int:
    """The low bits of a name; 0 becomes 1, as in a whole one. Raises ValueError for a width that is not in `BITS`."""
    if bits not in BITS:
        raise ValueError(f"a short name has {BITS[0]} to {BITS[-1]} bits, not {bits}")
    return name & (2**bits - 1) or 1


# ---------------------------------------------------------------- meeting in the middle


def forged(parent: int, wanted: int, begin: Sequence[int], bits: int = 32) -> tuple[int, ...]:
    """A block whose short name is that of another block: the tokens of `begin`, and three found by searching.

    Args:
        parent: the name of the block before it, whichever the attacker likes.
        wanted: the name of the victim's block, whole or short. Its tokens and its parent need not be known.
        begin: what the block says first, all but its last three tokens.
        bits: width of a name.

    Raises:
        ValueError: a width that is not in `BITS`, or a token out of range.
    """
    target = shortened(wanted, bits)
    start = fed(after_parent(parent), pack_tokens(begin), bits)
    packed = [token.to_bytes(4, "little") for token in range(2 ** -(-bits // 2))]
    before_last = {unfed(target, data, bits): last for last, data in enumerate(packed)}
    return next(
        (*begin, first, middle, last)
        for first, state in _states(start, bits)
        for middle, data in enumerate(packed)
        if (last := before_last.get(fed(state, data, bits))) is not None
    )


def _states(start: int, bits: int) -> Iterator[tuple[int, int]]:
    """One token after the other, and the state after it: another start for each search that finds nothing."""
    for token in count():
        yield token, fed(start, pack_tokens([token]), bits)


# ---------------------------------------------------------------- what it does to a cache


def short_names(pool_class: Any, bits: int) -> Any:
    """A pool like this one that keeps only `bits` bits of a name. Raises ValueError for a width not in `BITS`."""
    shortened(1, bits)

    class ShortNames(pool_class):  # type: ignore[misc]
        lookup_prefix = register_full = None  # calls over many blocks would go past the three below

        def register(self, block: BlockId, name: int) -> bool:
            return bool(super().register(block, shortened(name, bits)))

        def lookup(self, name: int) -> BlockId | None:
            found: BlockId | None = super().lookup(shortened(name, bits))
            return found

        def find(self, name: int) -> BlockId | None:
            found: BlockId | None = super().find(shortened(name, bits))
            return found

    return ShortNames


def handed_over(manager: BlockManager, attack: Sequence[int], victim: Sequence[int]) -> Allocation:
    """Serve the attacker's prompt to its end, admit the victim's, and give what the victim got.

    Cached tokens in it are positions whose K and V the attacker's request wrote, as far as the cache was empty before.

    Raises:
        ValueError: the pool has no room for one of them.
    """
    if manager.allocate("attacker", attack) is None:
        raise ValueError(f"there is no room for the attacker's {len(attack)} tokens")
    manager.release("attacker", attack)
    got = manager.allocate("victim", victim)
    if got is None:
        raise ValueError(f"there is no room for the victim's {len(victim)} tokens")
    return got


# ---------------------------------------------------------------- what helps


def keyed_names(secret: bytes) -> KvBlockHash:
    """Names that only whoever knows the secret can compute, in place of `kv_block_hash` (BLAKE2b with a key).

    Without the secret there is nothing to run backwards and nothing to add up. Looking at the tokens of a hit, as
    the radix tree does, helps as well, and needs no secret. A secret salt in front of FNV does not help: once a name
    has leaked it is not needed, and without one a guess at the low byte of the state behind it, 1 of 256, is enough.

    Raises:
        ValueError: a secret of more than 64 bytes, or none.
    """
    if not 0 < len(secret) <= 64:
        raise ValueError(f"a secret has 1 to 64 bytes, not {len(secret)}")

    def named(parent: int, tokens: Sequence[int]) -> int:
        digest = blake2b(digest_size=8, key=secret)
        digest.update(parent.to_bytes(8, "little"))
        digest.update(pack_tokens(tokens))
        return int.from_bytes(digest.digest(), "little") or 1

    return named

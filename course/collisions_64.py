"""Made collisions, on the whole 64 bits: the very names that the hash cache uses, in a blink.

Meeting in the middle (`course.collisions`) would need a table of 2 ** 32 entries here. But FNV-1a does little more
than add: a byte changes the low eight bits of the state, by some amount d between -255 and 255, and every step
multiplies. So a block's name is a sum, each d times a known power of the prime, modulo 2 ** 64. Which small amounts
give a wanted sum is a question about the nearest point of a lattice. With sixteen amounts to choose, as a block of 16
tokens has, small enough ones are common: about 2 ** (64 / 16) = 16 is what one needs.

This file knows just enough about lattices: `reduced` makes a basis of short vectors (Lenstra, Lenstra and Lovász,
1982), `_nearest` finds a lattice point close to a given one (Babai's nearest plane, 1986). Tokens that it finds are
below 256, so any model knows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from course.collisions import FNV_PRIME, after_parent, fed
from course.tokens import pack_tokens

N_FREE = 16
"""Tokens to choose: with fewer, the amounts that are needed are too large for a byte, as often as not."""

MODULUS = 2**64
STEP = pow(FNV_PRIME, 4, MODULUS)
"""What a token's four bytes multiply the state by."""

Vector = list[int]


def forged_64(parent: int, wanted: int, begin: Sequence[int] = ()) -> tuple[int, ...] | None:
    """A block with the name of another block: the tokens of `begin`, and sixteen tokens below 256 after them.

    Args:
        parent: the name of the block before it, whichever the attacker likes.
        wanted: the name of the victim's block. Its tokens and its parent need not be known.
        begin: what the block says before, where blocks are longer than 16 tokens.

    Returns:
        The tokens, or None where none were found near by, which is rare: another parent helps.

    Raises:
        ValueError: a token out of range.
    """
    state = fed(after_parent(parent), pack_tokens(begin))
    missing = (wanted - state * pow(STEP, N_FREE, MODULUS)) % MODULUS
    for amounts in _amounts(missing):
        if (tokens := _as_tokens(state, amounts)) is not None:
            return (*begin, *tokens)
    return None


def _as_tokens(state: int, amounts: Sequence[int]) -> list[int] | None:
    """The tokens that change the state by these amounts, one each; None where a low byte would overflow."""
    tokens = []
    for amount in amounts:
        low = state & 0xFF
        if not 0 <= low + amount <= 0xFF:
            return None
        tokens.append(low ^ (low + amount))
        state = (state + amount) * STEP % MODULUS
    return tokens


# ---------------------------------------------------------------- small amounts with a given sum


@dataclass(frozen=True)
class _Basis:
    """A basis of short vectors, the same made orthogonal, and the squared length of each of those."""

    rows: list[Vector]
    straight: list[list[float]]
    lengths: list[float]


def _amounts(missing: int) -> Iterator[Vector]:
    """Sixteen small amounts whose sum is `missing`, each multiplied as its place in the block is; smallest first."""
    basis = _amounts_of_sum_zero()
    far = [0] * (N_FREE - 1) + [missing * pow(STEP, -1, MODULUS) % MODULUS]  # right, and far too large
    near = _nearest(basis, far)
    yield near
    for row in basis.rows:
        yield [a + b for a, b in zip(near, row, strict=True)]
        yield [a - b for a, b in zip(near, row, strict=True)]


@cache
def _amounts_of_sum_zero() -> _Basis:
    """The lattice of all amounts that change no name: those whose sum is 0, each multiplied as its place is."""
    undo = pow(STEP, -1, MODULUS)
    rows = [[0] * (N_FREE - 1) + [MODULUS]]
    for place in reversed(range(N_FREE - 1)):  # 1 here, and at the last place what makes up for it
        row = [0] * N_FREE
        row[place] = 1
        row[-1] = -pow(STEP, N_FREE - place, MODULUS) * undo % MODULUS
        rows.append(row)
    return reduced(rows)


def _nearest(basis: _Basis, far: Vector) -> Vector:
    """What is left of a vector after a lattice point close to it is taken away. Twice: the first time rounds."""
    left = far
    for _ in range(2):
        for row, straight, length in zip(
            reversed(basis.rows), reversed(basis.straight), reversed(basis.lengths), strict=True
        ):
            left = _less(left, round(_dot(left, straight) / length), row)
    return left


# ---------------------------------------------------------------- short bases


def reduced(rows: Sequence[Vector], slack: float = 0.99) -> _Basis:
    """A basis of short vectors for the lattice of these rows (LLL).

    Rows are whole numbers and stay exact; lengths and angles are floats, taken anew from the rows after each change.
    """
    basis = _Basis([list(row) for row in rows], [[]] * len(rows), [0.0] * len(rows))
    place = 0
    while place < len(rows):
        _shorten(basis, place)
        if place == 0 or _long_enough(basis, place, slack):
            place += 1
            continue
        basis.rows[place - 1 : place + 1] = reversed(basis.rows[place - 1 : place + 1])
        place -= 1
    return basis


def _shorten(basis: _Basis, place: int) -> None:
    """Take whole multiples of the rows before from a row until no more can be taken, and note what it is then."""
    while True:
        shares = _straighten(basis, place)
        row = basis.rows[place]
        for other in reversed(range(place)):
            if times := round(shares[other]):
                basis.rows[place] = _less(basis.rows[place], times, basis.rows[other])
                shares = _shares(basis, basis.rows[place], other)
        if basis.rows[place] == row:
            return


def _straighten(basis: _Basis, place: int) -> list[float]:
    """Make a row orthogonal to those before it; how much of each of them it had in it."""
    shares, straight = [], [float(value) for value in basis.rows[place]]
    for other in range(place):
        share = _dot(straight, basis.straight[other]) / basis.lengths[other]
        straight = [a - share * b for a, b in zip(straight, basis.straight[other], strict=True)]
        shares.append(share)
    basis.straight[place], basis.lengths[place] = straight, _dot(straight, straight)
    return shares


def _shares(basis: _Basis, row: Vector, n: int) -> list[float]:
    return [_dot(row, basis.straight[other]) / basis.lengths[other] for other in range(n)]


def _long_enough(basis: _Basis, place: int, slack: float) -> bool:
    """Lovász's condition: at this place the row adds nearly as much length as the one before, or more."""
    share = _dot(basis.rows[place], basis.straight[place - 1]) / basis.lengths[place - 1]
    return basis.lengths[place] >= (slack - share**2) * basis.lengths[place - 1]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _less(row: Vector, times: int, other: Vector) -> Vector:
    return [a - times * b for a, b in zip(row, other, strict=True)]

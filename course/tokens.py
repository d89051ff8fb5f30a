"""Token ids as bytes: equal runs of tokens are equal bytes, and an id out of range is refused.

It knows the range of a token id and how ids are packed. It does not know what the bytes are for.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

TOKEN_LIMIT = 2**32
"""A token id is at least 0 and below this."""


def pack_tokens(tokens: Sequence[int], first: int = 0) -> bytes:
    """Pack token ids as 4 little-endian bytes each, so that equal runs are equal bytes.

    Args:
        tokens: the ids; a `bytes` object is one id a byte.
        first: the place of the first one in its prompt, for the message.

    Raises:
        ValueError: a token is below 0, or 2**32 or more; the message names it and its place.
        TypeError: a token is no integer.
    """
    packed = array("I")
    try:
        packed.fromlist(tokens if isinstance(tokens, list) else list(tokens))  # the quickest way in
    except OverflowError:
        place, token = next((i, t) for i, t in enumerate(tokens, first) if not 0 <= t < TOKEN_LIMIT)
        raise ValueError(f"token {token} at place {place} is out of range: 0 to 2**32 - 1") from None
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_tokens(packed: bytes) -> tuple[int, ...]:
    """The token ids that `pack_tokens` packed."""
    tokens = array("I", packed)
    if sys.byteorder == "big":
        tokens.byteswap()
    return tuple(tokens)

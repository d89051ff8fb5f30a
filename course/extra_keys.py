"""Extra keys: what tells equal prompts apart that must not share blocks, such as a tenant's salt or an adapter's id.

A prompt's K and V depend on its tokens and on the weights that read them, so two adapters may not share a block.
Two tenants could, and should not: who finds a prefix cached learns that another one has sent it. This file knows
how keys become a part of a block's name (L10.4, section 2.1). Which keys a request has, its caller says.
"""

from __future__ import annotations

import json

from course.contract import KvBlockHash

ExtraKeys = tuple[str | int, ...]
"""Keys of one request, in an order that is the same for every request; () where there are none."""

BEFORE_THE_KEYS = 2**64 - 1
"""The parent of a name made from keys. A first block's parent is 0, so no block of tokens is named like keys."""


def checked(keys: ExtraKeys) -> ExtraKeys:
    """The keys, if they are a tuple of texts and integers; else ValueError."""
    if type(keys) is not tuple or not all(type(key) in (str, int) for key in keys):
        raise ValueError(f"extra keys are a tuple of texts and integers, not {keys!r}")
    return keys


def parent_of_first_block(block_hash: KvBlockHash, keys: ExtraKeys) -> int:
    """What a first block is chained to: 0 without keys, else their name.

    The keys are written down as JSON, which tells "1" from 1 and ("ab", "c") from ("a", "bc").

    Raises:
        ValueError: what is no key.
    """
    if not checked(keys):
        return 0
    return block_hash(BEFORE_THE_KEYS, list(json.dumps(keys).encode()))

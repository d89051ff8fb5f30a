"""Eviction policies: which unlocked leaf of a radix tree goes first when somebody needs its room.

It knows how leaves compare, and nothing else: which leaves there are, who pins one and what is freed with
it the tree knows. Every policy is one small class with one rule, so a rule of your own is a class with a
`name` and a `rank`. Least recently used is the contract's rule (L8.4, section 2); a rule that counts uses is what
L10.4's last section names against churn; weighing depth is another way to the same end.

No policy is best everywhere. The usual weights are a compromise: they keep prefixes that long texts push out, and
cost little on the public traces at most sizes, where least recently used is hard to beat (`ol bench trace`).

A rank says nothing of the present, so the order of two leaves never changes while neither is used. This is
what lets a tree keep its leaves sorted, instead of looking at all of them for each one that it evicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2
from typing import Protocol


class Leaf(Protocol):
    """What a policy may look at of a leaf that could go. Time is counted in matches and inserts, not in seconds."""

    @property
    def last_used(self) -> int:
        """Time of its last use."""

    @property
    def uses(self) -> int:
        """How often it was on the path of a match or an insert, 1 at least."""

    @property
    def depth(self) -> int:
        """Values on the path from the root down to this leaf, its own included."""


class Eviction(Protocol):
    """An order of leaves. `rank` may look only at the leaf, and of two equal leaves it says the same."""

    @property
    def name(self) -> str:
        """What it is called in options and charts."""

    def rank(self, leaf: Leaf) -> tuple[float, ...]:
        """The leaf of the lowest rank goes first; of equal ranks the least recently used."""


@dataclass(frozen=True)
class LeastRecentlyUsed:
    """The leaf that was not used for the longest time goes first (L8.4, section 2)."""

    name: str = "lru"

    def rank(self, leaf: Leaf) -> tuple[float, ...]:
        """Its last use, the oldest first."""
        return (leaf.last_used,)


@dataclass(frozen=True)
class LeastFrequentlyUsed:
    """The leaf that was used least often goes first, where a use counts for less the longer ago the last one is.

    Counted plainly, a prefix that was hot once would stay for ever. So the count of a leaf halves with each
    `half_life` matches and inserts that pass without a use of it: uses / 2**((now - last_used) / half_life). The
    logarithm of that is the rank below, but for now / half_life, which is the same for all.
    """

    half_life: float = 300.0
    name: str = "lfu"

    def __post_init__(self) -> None:
        if not self.half_life > 0:
            raise ValueError(f"a half-life is above 0, not {self.half_life}")

    def rank(self, leaf: Leaf) -> tuple[float, ...]:
        """The logarithm of its aged count of uses, the lowest first."""
        return (log2(leaf.uses) + leaf.last_used / self.half_life,)


@dataclass(frozen=True)
class DepthWeighted:
    """A deep leaf counts as older than its last use says: by `per_value` matches and inserts for each value above it.

    A leaf far from the root ends one long conversation, and serves only whoever goes on with just that one.
    """

    per_value: float = 1.0
    name: str = "depth"

    def __post_init__(self) -> None:
        if not self.per_value >= 0:
            raise ValueError(f"a leaf gets older with its depth, so per_value is at least 0, not {self.per_value}")

    def rank(self, leaf: Leaf) -> tuple[float, ...]:
        """Its last use less its weighed depth, the lowest first."""
        return (leaf.last_used - self.per_value * leaf.depth,)


POLICIES: Mapping[str, Eviction] = {
    policy.name: policy for policy in (LeastRecentlyUsed(), LeastFrequentlyUsed(), DepthWeighted())
}
"""The policies that have a name, each with its usual weight."""


def find_eviction(wanted: str | Eviction) -> Eviction:
    """The policy of this name; a policy is given back as it is.

    Raises:
        ValueError: there is no policy of this name.
    """
    if not isinstance(wanted, str):
        return wanted
    if wanted not in POLICIES:
        raise ValueError(f"there is no eviction policy {wanted!r}; there are {', '.join(POLICIES)}")
    return POLICIES[wanted]

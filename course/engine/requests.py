"""What the engine keeps of a request, and what it tells while it works on it.

Plain data. It knows what happens to a request; it does not know when or why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from course.contract import SeqId

RequestId = SeqId
"""A request's name; its sequence in the block space has the same one."""

Reason = Literal["stop", "length", "cancelled"]
"""Why a request is finished: a stop token came, it has all its tokens, or somebody cancelled it."""


@dataclass
class Record:
    """A request, what it was answered, and what that took. Times are seconds of the engine's clock.

    Attributes:
        id: its name.
        n_prompt: tokens of its prompt.
        max_new_tokens: how many tokens it gets at most.
        stop_ids: tokens that end the answer and are no part of it.
        arrived: when it was added.
        first_token: when its first token came; None before that.
        tokens: the answer so far.
        cached_tokens: prompt tokens that were found in the cache when it was first admitted.
        prefill_tokens: positions computed as prefill, those of a preempted request again each time.
        preemptions: how often it had to give its blocks back.
        reason: why it is finished; None while it is not.
    """

    id: RequestId
    n_prompt: int
    max_new_tokens: int
    stop_ids: frozenset[int]
    arrived: float
    first_token: float | None = None
    tokens: list[int] = field(default_factory=list)
    cached_tokens: int = 0
    prefill_tokens: int = 0
    preemptions: int = 0
    reason: Reason | None = None

    @property
    def ttft(self) -> float | None:
        """Time to first token in seconds, the wait in the queue included; None before it came."""
        return None if self.first_token is None else self.first_token - self.arrived


@dataclass(frozen=True)
class Admitted:
    """A request has blocks now; its prefill starts at `cached_tokens`."""

    request: RequestId
    cached_tokens: int


@dataclass(frozen=True)
class Prefilled:
    """Positions `start` to `end - 1` were computed as prefill."""

    request: RequestId
    start: int
    end: int


@dataclass(frozen=True)
class FirstToken:
    """The first token is there, `ttft` seconds after the request was added; it may be one that stops it."""

    request: RequestId
    ttft: float


@dataclass(frozen=True)
class Token:
    """One more token of the answer."""

    request: RequestId
    token: int


@dataclass(frozen=True)
class Preempted:
    """A request gave its blocks back and waits again, in front; its tokens so far stay."""

    request: RequestId


@dataclass(frozen=True)
class Finished:
    """A request is over, its blocks given back."""

    request: RequestId
    reason: Reason


Event = Admitted | Prefilled | FirstToken | Token | Preempted | Finished
"""What one step tells, in the order in which it happened."""

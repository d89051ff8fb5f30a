"""The scheduler: which positions of which sequences are computed next, and who waits when blocks are short.

It knows order, room and the budget of a step (L10.2): first come, first served, or longest cached prefix
first; decodes first, prefill in chunks with what is left; the youngest is preempted where a decode finds no
room. It does not know what computes the positions, or when an answer is complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from course.contract import BlockSpace, SeqId
from course.engine.step import Chunk
from course.extra_keys import ExtraKeys

ORDERS = ("arrival", "prefix")
"""Who of those that wait is admitted next: the one that came first, or the one with the longest cached prefix."""

WINDOW = 64
"""So many of those that wait are looked at for a cached prefix, from the front of the queue."""

PATIENCE = 32
"""So many others may be admitted before a request that came earlier than they did."""


class BlockSpaceError(RuntimeError):
    """A block space answered what its contract rules out, and the engine can't go on with it."""


@dataclass(eq=False)
class Track:
    """One sequence on its way: its tokens, prompt and answer, and how far it is since it was last admitted.

    `admitted` positions came with a slot each when it was admitted, `slots` have one now, `computed` are done.
    `passed_over` counts those that were admitted before it and came later.
    """

    seq: SeqId
    tokens: list[int]
    extra_keys: ExtraKeys = ()
    passed_over: int = 0
    admitted: int = 0
    slots: int = 0
    computed: int = 0

    @property
    def decodes(self) -> bool:
        """Whether prefill is over: each step from here on computes the token that the last one gave."""
        return self.computed >= self.admitted


def _if_any(keys: ExtraKeys) -> tuple[ExtraKeys, ...]:
    """Extra keys as an argument; none where there are none, since not every space takes them."""
    return (keys,) if keys else ()


@dataclass
class Step:
    """What to compute now, and what was decided on the way to it.

    Attributes:
        chunks: at most one of each sequence; the first `n_decodes` are decodes of one position, the others prefill.
        admitted: (sequence, cached tokens) of each new admission.
        preempted: sequences that had to give their blocks back, youngest first.
    """

    chunks: list[Chunk] = field(default_factory=list)
    n_decodes: int = 0
    admitted: list[tuple[SeqId, int]] = field(default_factory=list)
    preempted: list[SeqId] = field(default_factory=list)

    @property
    def n_tokens(self) -> int:
        """Positions computed in this step."""
        return sum(len(chunk.tokens) for chunk in self.chunks)


class Scheduler:
    """Plans steps over a block space; a step computes at most `max_batch_tokens` positions (ValueError below 1).

    In the order of arrival, sequences are admitted as they were added, never past one that does not fit yet. A
    preempted one goes back to the front of the queue, so this order never changes. In the order of prefixes, the
    one that has most of its prompt in the cache goes first (of several the one that came first), so that a prefix
    is used again before it is evicted; nobody is passed over by more than PATIENCE others, and a preempted one by
    none. One is admitted only with budget left over by all that run, so a step always has a position for each decode.

    Raises ValueError for sizes below 1, an unknown order, or an order of prefixes over a space that can't look one
    up without taking it (`cached_prefix`).
    """

    def __init__(self, space: BlockSpace, max_batch_tokens: int, max_running: int, order: str = "arrival") -> None:
        if max_batch_tokens < 1 or max_running < 1:
            raise ValueError(f"max_batch_tokens {max_batch_tokens} and max_running {max_running} are at least 1")
        if order not in ORDERS:
            raise ValueError(f"no order {order!r}: there are {', '.join(ORDERS)}")
        if order == "prefix" and not hasattr(space, "cached_prefix"):
            raise ValueError(f"the order of prefixes asks for `cached_prefix`, and {type(space).__name__} has none")
        self.order = order
        self.max_batch_tokens = max_batch_tokens
        self.max_running = max_running
        self._space: Any = space  # the calls that a space may leave out are made only where they are there
        publish = getattr(space, "publish", None)
        self._publish = publish if callable(publish) else None
        self._waiting: deque[Track] = deque()
        self._running: dict[SeqId, Track] = {}  # oldest first

    @property
    def waiting(self) -> tuple[SeqId, ...]:
        """The sequences without blocks, in the order in which they came, but those that were preempted first."""
        return tuple(track.seq for track in self._waiting)

    @property
    def running(self) -> tuple[SeqId, ...]:
        """The sequences that hold blocks, oldest first."""
        return tuple(self._running)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._waiting and not self._running

    # ------------------------------------------------------------ coming and going

    def add(self, seq: SeqId, tokens: Iterable[int], extra_keys: ExtraKeys = ()) -> None:
        """Queue a prompt. Its name must not be in use; the caller sees to that.

        Extra keys are for a space that takes them (`course.extra_keys`); without any, none are passed on.
        """
        self._waiting.append(Track(seq, list(tokens), extra_keys))

    def end(self, seq: SeqId) -> None:
        """Forget a sequence, answered or not; its blocks go back with what is computed. KeyError if unknown."""
        if seq in self._running:
            self._release(self._running.pop(seq))
            return
        for track in self._waiting:
            if track.seq == seq:
                self._waiting.remove(track)
                return
        raise KeyError(f"sequence {seq!r} is neither waiting nor running")

    def _release(self, track: Track) -> None:
        self._space.release(track.seq, track.tokens[: track.computed])

    # ------------------------------------------------------------ planning a step

    def next_step(self) -> Step:
        """Plan the next step. A step of a scheduler that is not idle has at least one chunk.

        Raises:
            BlockSpaceError: there is no room although nothing else runs, or a prompt's hits cover its last token.
        """
        step = Step()
        self._decode(step)
        step.n_decodes = len(step.chunks)
        self._prefill(step)
        if not step.preempted:  # what was just taken from the youngest is not given back to it at once
            self._admit(step)
        return step

    def _left(self, step: Step) -> int:
        return self.max_batch_tokens - step.n_tokens

    def _decode(self, step: Step) -> None:
        for track in list(self._running.values()):
            if track.decodes and self._grow(track, step):
                self._plan(step, track, 1)

    def _prefill(self, step: Step) -> None:
        for track in self._running.values():
            if not track.decodes and (left := self._left(step)):
                self._plan(step, track, min(left, track.admitted - track.computed))

    def _admit(self, step: Step) -> None:
        while self._waiting and len(self._running) < self.max_running and (left := self._left(step)):
            track = self._next()
            allocation = self._space.allocate(track.seq, list(track.tokens), *_if_any(track.extra_keys))
            if allocation is None:
                self._check_others_run(track)
                return
            self._take(track)
            track.computed, track.admitted = allocation.cached_tokens, len(track.tokens)
            track.slots = track.admitted
            if not 0 <= track.computed < track.admitted:
                raise BlockSpaceError(
                    f"sequence {track.seq} has {track.admitted} tokens, and {track.computed} of them are said to be "
                    "cached: the last one is always computed"
                )
            step.admitted.append((track.seq, track.computed))
            self._plan(step, track, min(left, track.admitted - track.computed))

    def _next(self) -> Track:
        """Whose turn it is of those that wait."""
        first = self._waiting[0]
        if self.order == "arrival" or first.passed_over >= PATIENCE:
            return first
        return max(islice(self._waiting, WINDOW), key=self._cached)  # of equal ones, the first

    def _cached(self, track: Track) -> int:
        """How much of a waiting sequence is in the cache now."""
        cached: int = self._space.cached_prefix(track.tokens, *_if_any(track.extra_keys))
        return cached

    def _take(self, track: Track) -> None:
        """Let a waiting sequence run, and count it for those that it passes over."""
        for waiting in self._waiting:
            if waiting is track:
                break
            waiting.passed_over += 1
        self._waiting.remove(track)
        self._running[track.seq] = track

    def _plan(self, step: Step, track: Track, n: int) -> None:
        tokens = track.tokens[track.computed : track.computed + n]
        step.chunks.append(Chunk(track.seq, tokens, track.computed, self._space.block_table(track.seq)))

    def _grow(self, track: Track, step: Step) -> bool:
        """Room for a track's next position, taken from the youngest if it must be; False if it was the youngest."""
        if track.seq not in self._running:
            return False
        while track.slots <= track.computed:
            if self._space.append_slot(track.seq):
                track.slots += 1
                continue
            self._check_others_run(track)
            youngest = self._running.popitem()[1]
            self._release(youngest)
            youngest.passed_over = PATIENCE
            self._waiting.appendleft(youngest)
            step.preempted.append(youngest.seq)
            if youngest is track:
                return False
        return True

    def _check_others_run(self, track: Track) -> None:
        if not self._running.keys() - {track.seq}:
            raise BlockSpaceError(f"sequence {track.seq} finds no room although nothing else runs")

    # ------------------------------------------------------------ after a step

    def took(self, step: Step, next_tokens: Sequence[int]) -> list[tuple[SeqId, int]]:
        """Enter that a step was computed.

        Args:
            step: what `next_step` planned last.
            next_tokens: for each chunk the token that follows its last position.

        Returns:
            (sequence, new token) for each chunk that ended where its sequence did.
        """
        answered = []
        for chunk, token in zip(step.chunks, next_tokens, strict=True):
            track = self._running[chunk.seq]
            track.computed = chunk.end
            if self._publish is not None:
                self._publish(track.seq, track.tokens[: track.computed])
            if chunk.end == len(track.tokens):
                track.tokens.append(token)
                answered.append((chunk.seq, token))
        return answered

"""The engine: requests go in, tokens come out, step by step.

It knows requests: their limits, times, stop tokens and ends. What is computed next the scheduler
decides; who computes it, and who hands out the blocks, it is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Protocol

from course.contract import BlockManager, BlockSpace, KvPool
from course.engine.config import EngineConfig
from course.engine.requests import (
    Admitted,
    Event,
    Finished,
    FirstToken,
    Preempted,
    Prefilled,
    Reason,
    Record,
    RequestId,
    Token,
)
from course.engine.scheduler import Scheduler, Step
from course.engine.step import Chunk
from course.extra_keys import ExtraKeys

if TYPE_CHECKING:
    from course.engine.models import LoadedModel

MakePool = Callable[[int, int], KvPool]
MakeManager = Callable[..., BlockManager]
"""Of a pool, a mode, and the options of the configuration that are not at their defaults."""

Watcher = Callable[[Sequence[Event]], None]


class StepRunner(Protocol):
    """Whoever computes a step: the model, or a stand-in for it."""

    def run(self, chunks: Sequence[Chunk]) -> list[int]:
        """Compute the positions of these chunks; for each the greedy token after its last one."""


class PromptTooLong(ValueError):
    """A request that can never be served, however long it waits."""


class Engine:
    """Serves requests over a runner and a block space, with greedy sampling and one thread.

    Args of `Engine(runner, space, config)`, and beyond them:
        max_positions: how many positions the model can tell apart; None for any number.
        vocabulary: how many token ids the model knows; None for any.
        watchers: each is called with the events of each step, as `Metrics.saw` is.
        clock: seconds, for the times of requests.
    """

    def __init__(
        self,
        runner: StepRunner,
        space: BlockSpace,
        config: EngineConfig,
        *,
        max_positions: int | None = None,
        vocabulary: int | None = None,
        watchers: Sequence[Watcher] = (),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.config = config
        self.scheduler = Scheduler(space, config.max_batch_tokens, config.max_running, config.order)
        self.records: dict[RequestId, Record] = {}
        self._runner = runner
        self._max_positions = max_positions
        self._vocabulary = vocabulary
        self._watchers = watchers
        self._clock = clock
        self._numbers = count()
        self._events: list[Event] = []

    # ------------------------------------------------------------ requests

    def add(
        self,
        prompt_ids: Sequence[int],
        max_new_tokens: int | None = None,
        stop_ids: Collection[int] = (),
        request_id: RequestId | None = None,
        extra_keys: ExtraKeys = (),
    ) -> RequestId:
        """Queue a request; its id, a number of the engine's own unless one is given.

        Requests with different extra keys share no block (`course.extra_keys`), where the manager takes them.

        Raises:
            PromptTooLong: prompt and answer need more blocks than there are, or more positions than the model has.
            ValueError: an empty prompt, no token asked for, a token that is not the model's, or an id in use.
        """
        n_new = self.config.max_new_tokens if max_new_tokens is None else max_new_tokens
        self._check(prompt_ids, n_new)
        name = self._new_id() if request_id is None else request_id
        if name in self.records:
            raise ValueError(f"request {name!r} is there already")
        self.records[name] = Record(name, len(prompt_ids), n_new, frozenset(stop_ids), self._clock())
        self.scheduler.add(name, prompt_ids, extra_keys)
        return name

    def _new_id(self) -> RequestId:
        return next(number for number in self._numbers if number not in self.records)

    def _check(self, prompt_ids: Sequence[int], n_new: int) -> None:
        if len(prompt_ids) == 0 or n_new < 1:
            raise ValueError(f"a request has a prompt and asks for a token: {len(prompt_ids)} tokens, {n_new} new ones")
        if self._vocabulary is not None:
            for place, token in enumerate(prompt_ids):
                if not 0 <= token < self._vocabulary:
                    raise ValueError(f"token {token} at place {place}: the model knows 0 to {self._vocabulary - 1}")
        positions = len(prompt_ids) + n_new - 1  # the last token of an answer is never computed
        what = f"a prompt of {len(prompt_ids)} tokens and up to {n_new} new ones"
        blocks = self.config.blocks_for(positions)
        if blocks > self.config.n_blocks:
            size = self.config.block_size
            raise PromptTooLong(f"{what} need {blocks} blocks of {size}, and the pool has {self.config.n_blocks}")
        if self._max_positions is not None and positions > self._max_positions:
            raise PromptTooLong(f"{what} need {positions} positions, and the model has {self._max_positions}")

    def cancel(self, request: RequestId) -> bool:
        """End a request, its blocks given back; False if it is finished already, KeyError if there is none."""
        if self.records[request].reason is not None:
            return False
        self._finish(self.records[request], "cancelled")
        return True

    def forget(self, request: RequestId) -> Record:
        """Take the record of a finished request out; until then it stays.

        Raises KeyError if there is none, ValueError if the request is not finished.
        """
        if self.records[request].reason is None:
            raise ValueError(f"request {request!r} is not finished")
        return self.records.pop(request)

    # ------------------------------------------------------------ serving

    @property
    def idle(self) -> bool:
        """Whether every request is finished."""
        return self.scheduler.idle

    def step(self) -> list[Event]:
        """Compute one step, if there is something to do; what happened since the last one."""
        if not self.idle:
            self._advance(self.scheduler.next_step())
        events, self._events = self._events, []
        for watch in self._watchers:
            watch(events)
        return events

    def run_until_idle(self) -> list[Event]:
        """Step until every request is finished; all that happened."""
        events = self.step()
        while not self.idle:
            events += self.step()
        return events

    def stream(
        self,
        prompt_ids: Sequence[int],
        max_new_tokens: int | None = None,
        stop_ids: Collection[int] = (),
        request_id: RequestId | None = None,
    ) -> Iterator[int]:
        """Queue a request, as `add` does, and give its tokens as they come, stepping the engine where it must.

        Other requests go on meanwhile. Closing the iterator early cancels the request.
        """
        return self._follow(self.records[self.add(prompt_ids, max_new_tokens, stop_ids, request_id)])

    def _follow(self, record: Record) -> Iterator[int]:
        given = 0
        try:
            while record.reason is None or given < len(record.tokens):
                if given == len(record.tokens):
                    self.step()
                    continue
                given += 1
                yield record.tokens[given - 1]
        finally:
            if record.reason is None:
                self._finish(record, "cancelled")

    # ------------------------------------------------------------ one step

    def _advance(self, step: Step) -> None:
        for request in step.preempted:
            self.records[request].preemptions += 1
            self._events.append(Preempted(request))
        for request, cached_tokens in step.admitted:
            self._admitted(self.records[request], cached_tokens)
        next_tokens = self._runner.run(step.chunks)
        for chunk in step.chunks[step.n_decodes :]:
            self.records[chunk.seq].prefill_tokens += len(chunk.tokens)
            self._events.append(Prefilled(chunk.seq, chunk.start, chunk.end))
        for request, token in self.scheduler.took(step, next_tokens):
            self._answered(self.records[request], token)

    def _admitted(self, record: Record, cached_tokens: int) -> None:
        if record.preemptions == 0:
            record.cached_tokens = cached_tokens
        self._events.append(Admitted(record.id, cached_tokens))

    def _answered(self, record: Record, token: int) -> None:
        if record.first_token is None:
            record.first_token = self._clock()
            self._events.append(FirstToken(record.id, record.first_token - record.arrived))
        if token in record.stop_ids:
            self._finish(record, "stop")
            return
        record.tokens.append(token)
        self._events.append(Token(record.id, token))
        if len(record.tokens) == record.max_new_tokens:
            self._finish(record, "length")

    def _finish(self, record: Record, reason: Reason) -> None:
        self.scheduler.end(record.id)
        record.reason = reason
        self._events.append(Finished(record.id, reason))


def start(
    loaded: LoadedModel,
    config: EngineConfig,
    make_manager: MakeManager | None = None,
    make_pool: MakePool | None = None,
    watchers: Sequence[Watcher] = (),
    clock: Callable[[], float] = time.perf_counter,
) -> Engine:
    """An engine over a loaded model, with a pool and a manager of the sizes and in the mode of the configuration.

    Args:
        loaded: the model; the engine keeps to its positions and its vocabulary.
        config: sizes, mode and limits; where it names a port, metrics are served there.
        make_manager: makes the manager of (pool, mode): `course.modules.BlockManager` unless another is given. Options
            that are not at their defaults (`publish`, `eviction`) are passed by name to it.
        make_pool: makes the pool of (n_blocks, block_size): `course.modules.KvPool` unless another is given.
        watchers: each is called with the events of each step.
        clock: seconds, for the times of requests.
    """
    from course import modules
    from course.engine.runner import Runner

    pool = (make_pool or modules.KvPool)(config.n_blocks, config.block_size)
    manager = (make_manager or modules.BlockManager)(pool, config.prefix_cache, **config.manager_options)
    if config.metrics_port:
        from course.engine.metrics import Metrics

        metrics = Metrics(pool, manager)
        metrics.serve(config.metrics_port)
        watchers = (metrics.saw, *watchers)
    return Engine(
        Runner(loaded.model, pool, config.n_blocks, config.block_size),
        manager,
        config,
        max_positions=loaded.model.config.max_positions,
        vocabulary=loaded.model.config.vocab_size,
        watchers=watchers,
        clock=clock,
    )

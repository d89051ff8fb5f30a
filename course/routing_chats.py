"""Chats for two engines and a router: token ids, a few long system prompts, and conversations that go on.

It knows who asks what and when. What serves them it does not know.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course.engine.driving import Request


@dataclass(frozen=True)
class Plan:
    """The chats, and the engines that serve them.

    Attributes:
        n_prompts: system prompts; each chat begins with one of them, the i-th in proportion to 1 / i.
        n_system: tokens of a system prompt.
        n_question: tokens that a user adds in each turn.
        n_new: tokens of an answer.
        n_chats: how many chats there are.
        n_turns: questions in a chat; each prompt holds the whole conversation before it.
        n_blocks: blocks in the pool of each engine. Too few for all system prompts, enough for half of them.
        block_size: token positions in a block (B).
        chunk: positions computed in one step, at most.
        at_once: requests that hold blocks of an engine at the same time, at most.
        load: chats come at this share of the rate at which two engines without a cache could serve them.
        network: bytes a second between the engines.
        publish: when an engine's blocks can be found: on "release", or as soon as they are computed ("prefill").
        seed: equal seeds give equal chats.
    """

    n_prompts: int = 4
    n_system: int = 320
    n_question: int = 24
    n_new: int = 4
    n_chats: int = 40
    n_turns: int = 3
    n_blocks: int = 64
    block_size: int = 16
    chunk: int = 128
    at_once: int = 4
    load: float = 1.0
    network: float = 10e9 / 8
    publish: str = "release"
    seed: int = 0

    @property
    def n_requests(self) -> int:
        """Questions in all chats."""
        return self.n_chats * self.n_turns


@dataclass
class TokenChats:
    """Traffic: chats that begin as a Poisson process, and go on a while after each answer.

    Args:
        plan: how many, how long, how alike.
        vocabulary: tokens are drawn below this.
        gap: mean seconds from the beginning of a chat to that of the next.
        pause: mean seconds from an answer to the next question.
    """

    plan: Plan
    vocabulary: int
    gap: float
    pause: float
    _turns: dict[str, int] = field(default_factory=dict)

    def _words(self, what: str, n: int) -> tuple[int, ...]:
        """Tokens that depend on nothing but the seed and on what they are."""
        source = random.Random(f"{self.plan.seed} {what}")
        return tuple(source.randrange(self.vocabulary) for _ in range(n))

    def first(self) -> Sequence[Request]:
        """The first question of every chat."""
        from course.engine.driving import Request

        source, at, made = random.Random(self.plan.seed), 0.0, []
        shares = [1 / place for place in range(1, self.plan.n_prompts + 1)]
        for number in range(self.plan.n_chats):
            (picked,) = source.choices(range(self.plan.n_prompts), shares)
            chat = f"chat {number}"
            prompt = self._words(f"system {picked}", self.plan.n_system) + self._question(chat, 0)
            made.append(Request(f"{chat}, question 1", prompt, self.plan.n_new, at, chat))
            at += source.expovariate(1 / self.gap)
        return made

    def _question(self, chat: str, turn: int) -> tuple[int, ...]:
        return self._words(f"{chat} {turn}", self.plan.n_question)

    def then(self, request: Request, answer: Sequence[int], now: float) -> Request | None:
        """The next question of a chat: everything so far, and more."""
        turn = self._turns.get(request.session, 0) + 1
        self._turns[request.session] = turn
        if turn >= self.plan.n_turns:
            return None
        prompt = (*request.prompt, *answer, *self._question(request.session, turn))
        after = random.Random(f"{self.plan.seed} {request.session} {turn}").expovariate(1 / self.pause)
        return replace(request, name=f"{request.session}, question {turn + 1}", prompt=prompt, at=now + after)


def plan_told(plan: Plan) -> str:
    """The plan in a line of small print."""
    return (
        f"two engines of {plan.n_blocks} blocks of {plan.block_size}; {plan.n_chats} chats of {plan.n_turns} turns "
        f"behind {plan.n_prompts} system prompts of {plan.n_system} tokens"
    )

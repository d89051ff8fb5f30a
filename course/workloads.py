"""Requests to serve and to count: a shared-prefix workload of token ids, and prompts in words.

It knows how requests are made and where the prompts stand. What serves them it does not know.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PROMPTS = Path(__file__).parent.parent / "fixtures" / "prompts"

VOCABULARY = 32_000
PREFIX_TOKENS = (256, 2_048)
SUFFIX_TOKENS = (64, 512)


# ---------------------------------------------------------------- token ids


def shared_prefix_requests(n: int, n_prefixes: int = 256, skew: float = 1.0, seed: int = 0) -> list[list[int]]:
    """Prompts of token ids: each begins with one of a few prefixes and ends with a suffix of its own.

    Prefixes have 256 to 2,048 tokens, suffixes 64 to 512, evenly spread. The i-th prefix is picked in
    proportion to 1 / i ** skew (Zipf): most requests share a few prefixes, as system prompts are shared.

    Args:
        n: how many prompts.
        n_prefixes: how many prefixes there are.
        skew: 0 picks all prefixes alike; the larger, the more often the first ones.
        seed: equal seeds give equal prompts.
    """
    source = random.Random(seed)

    def run(shortest: int, longest: int) -> list[int]:
        return [source.randrange(VOCABULARY) for _ in range(source.randint(shortest, longest))]

    prefixes = [run(*PREFIX_TOKENS) for _ in range(n_prefixes)]
    weights = [1 / place**skew for place in range(1, n_prefixes + 1)]
    picked = source.choices(prefixes, weights, k=n)
    return [prefix + run(*SUFFIX_TOKENS) for prefix in picked]


# ---------------------------------------------------------------- prompts in words

Message = dict[str, str]
"""One message of a chat: its `role` (system, user or assistant) and its `content`."""


@dataclass(frozen=True)
class Question:
    """What a user asks first, and what they ask next once that is answered (empty: nothing)."""

    user: str
    again: str = ""


@dataclass(frozen=True)
class Chat:
    """Questions from several users that all follow one system prompt."""

    system: str
    questions: tuple[Question, ...]

    def first_turn(self, question: Question) -> list[Message]:
        """The messages of a user's first request."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": question.user}]

    def second_turn(self, question: Question, answer: str) -> list[Message]:
        """The messages of the request that follows an answer: the whole conversation so far, sent again."""
        return [
            *self.first_turn(question),
            {"role": "assistant", "content": answer},
            {"role": "user", "content": question.again},
        ]


def homework_help() -> Chat:
    """Eight pupils ask a homework helper, and two of them ask again. The system prompt is long."""
    text = _prompts("homework_help")
    return Chat(text["system"].strip(), tuple(Question(**row) for row in text["requests"]))


def shared_system_prompt() -> str:
    """The system prompt of 224 bytes that every request of bench_shared_prefix_ttft begins with (L10.4, section 4)."""
    return str(_prompts("shared_prefix")["system"])


@cache
def _prompts(name: str) -> Mapping[str, Any]:
    return tomllib.loads((PROMPTS / f"{name}.toml").read_text(encoding="utf-8"))

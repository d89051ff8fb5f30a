"""Chats that arrive as people do: at random, in sessions of a few turns, many behind one system prompt.

It knows who says what and when, and that a turn sends the whole conversation so far. Equal seeds give equal sessions,
whatever serves them; when a later turn comes depends on when it was answered. What serves them it does not know.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from course.engine.driving import Done, Request
from course.workloads import PROMPTS, Message

if TYPE_CHECKING:
    from course.engine.models import LoadedModel

TURNS = (2, 4)
"""Turns of a session, evenly spread."""

MEAN_TURNS = sum(TURNS) / 2

THINKING = 4.0
"""Seconds between an answer and what is said next: this in the mean, exponentially spread."""

SKEW = 1.0
"""The i-th desk is chosen in proportion to 1 / i ** SKEW (Zipf)."""

NEW_TOKENS = 8
"""Tokens of an answer, at most."""

GREETING = "Hello! Are you there?"


# ---------------------------------------------------------------- who says what, and when


@dataclass(frozen=True)
class Desk:
    """Somebody to chat with: a system prompt, questions to begin with, and more of them to go on with."""

    name: str
    system: str
    questions: tuple[str, ...]
    again: tuple[str, ...]


def help_desks() -> tuple[Desk, ...]:
    """Three help desks, each with a system prompt of some 1,150 bytes or 270 tokens."""
    rows = tomllib.loads((PROMPTS / "help_desks.toml").read_text(encoding="utf-8"))["desks"]
    return tuple(Desk(row["name"], row["system"].strip(), tuple(row["questions"]), tuple(row["again"])) for row in rows)


@dataclass(frozen=True)
class Session:
    """One user's chat: when it begins (seconds), with whom, and what the user says in each turn.

    `thinking` has the seconds between each answer and the turn after it.
    """

    name: str
    at: float
    desk: Desk
    says: tuple[str, ...]
    thinking: tuple[float, ...]


def sessions(desks: Sequence[Desk], rate: float, seconds: float, seed: int = 0) -> tuple[Session, ...]:
    """The sessions that begin within some seconds, by a Poisson process.

    Args:
        desks: whom they may turn to; the first ones are asked most.
        rate: sessions a second, in the mean. At another rate the same sessions come, sooner or later.
        seconds: how long new ones come.
        seed: equal seeds give equal sessions.

    Raises:
        ValueError: no desk, or a rate or a time of 0 or less.
    """
    if not desks or rate <= 0 or seconds <= 0:
        raise ValueError(f"at least one desk, a rate and a time above 0 are needed: {len(desks)}, {rate}, {seconds}")
    come = []
    for at, session in _unending(desks, rate, seed):
        if at >= seconds:
            break
        come.append(replace(session, at=at))
    return tuple(come)


def at_once(desks: Sequence[Desk], n: int, seed: int = 0) -> tuple[Session, ...]:
    """The first n sessions of a seed, all at the start and without a pause: as much work as can be had at a time."""
    drawn = (session for _, session in _unending(desks, 1.0, seed))
    return tuple(replace(next(drawn), thinking=(0.0,) * TURNS[1]) for _ in range(n))


def greetings(desks: Sequence[Desk]) -> tuple[Session, ...]:
    """One short chat with each desk, at the start: what fills a cache with all system prompts."""
    return tuple(Session(f"greeting of {desk.name}", 0.0, desk, (GREETING,), ()) for desk in desks)


def _unending(desks: Sequence[Desk], rate: float, seed: int) -> Iterator[tuple[float, Session]]:
    """Session after session with its time. Each is drawn from a source of its own, so no rate can change it."""
    weights = [1 / place**SKEW for place in range(1, len(desks) + 1)]
    at = 0.0
    for number in count(1):
        source = random.Random(f"{seed} {number}")
        at += source.expovariate(1.0) / rate
        (desk,) = source.choices(desks, weights)
        n_again = min(source.randint(*TURNS) - 1, len(desk.again))
        says = (source.choice(desk.questions), *source.sample(desk.again, n_again))
        thinking = tuple(source.expovariate(1 / THINKING) for _ in range(n_again))
        yield at, Session(f"session {number}", 0.0, desk, says, thinking)


# ---------------------------------------------------------------- as requests

MARK = "ANSWER"


@dataclass
class Chats:
    """Sessions as the traffic of an engine (`Traffic`), in the words and with the chat template of a model.

    A turn's prompt is the one before it, the answer's own ids, and what the user says next.
    """

    loaded: LoadedModel = field(repr=False)
    sessions: Sequence[Session]
    new_tokens: int = NEW_TOKENS
    _turns: dict[str, tuple[Session, int]] = field(default_factory=dict, repr=False)

    def first(self) -> list[Request]:
        """The first turn of each session."""
        return [self._request(session, 0, self._ids(self._opening(session)), session.at) for session in self.sessions]

    def then(self, request: Request, answer: Sequence[int], now: float) -> Request | None:
        """The session's next turn, once the user has thought; None after the last."""
        session, turn = self._turns[request.name]
        if turn + 1 == len(session.says):
            return None
        prompt = (*request.prompt, *answer, *self._ids(self._turn_after_answer(session, turn + 1)))
        return self._request(session, turn + 1, prompt, now + session.thinking[turn])

    def _request(self, session: Session, turn: int, prompt: tuple[int, ...], at: float) -> Request:
        name = f"{session.name}, turn {turn + 1}"
        self._turns[name] = session, turn
        stop_ids = self.loaded.tokenizer.stop_ids
        return Request(name, prompt, self.new_tokens, at, session.name, stop_ids=stop_ids)

    def _opening(self, session: Session) -> str:
        return self.loaded.chat(_messages(session))

    def _turn_after_answer(self, session: Session, turn: int) -> str:
        """What the model reads between its answer and its next one: where that begins, the template knows."""
        said = [{"role": "assistant", "content": MARK}, {"role": "user", "content": session.says[turn]}]
        return self.loaded.chat([*_messages(session), *said]).rpartition(MARK)[2]

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.loaded.tokenizer.encode(text))


def _messages(session: Session) -> list[Message]:
    return [{"role": "system", "content": session.desk.system}, {"role": "user", "content": session.says[0]}]


# ---------------------------------------------------------------- what could be found


def ideal_hits(done: Sequence[Done], block_size: int) -> list[tuple[float, int, int]]:
    """What a cache would find that never forgets and knows each request as soon as it has come.

    Whole blocks count, and never a prompt's last token, as for every cache here (L10.4, section 2.1).

    Args:
        done: the requests.
        block_size: tokens in a block.

    Returns:
        (time, hit tokens so far, query tokens so far) at each arrival.
    """
    known: set[tuple[int, tuple[int, ...]]] = set()
    hits = queries = 0
    found = []
    for each in sorted(done, key=lambda each: each.arrived):
        prompt = each.request.prompt
        usable = _chained(prompt, (len(prompt) - 1) // block_size, block_size)
        hits += block_size * next((place for place, block in enumerate(usable) if block not in known), len(usable))
        queries += len(prompt)
        computed = (*prompt, *each.tokens[: each.n_computed - 1])
        known.update(_chained(computed, len(computed) // block_size, block_size))
        found.append((each.arrived, hits, queries))
    return found


def _chained(tokens: Sequence[int], n_blocks: int, block_size: int) -> list[tuple[int, tuple[int, ...]]]:
    """Each block with what stands before it: the hash of the chain so far, and its tokens."""
    chain, blocks = 0, []
    for start in range(0, n_blocks * block_size, block_size):
        block = (chain, tuple(tokens[start : start + block_size]))
        blocks.append(block)
        chain = hash(block)
    return blocks

"""Chats that arrive at random: the same for everybody, spread as they are meant to be, each turn the whole story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from statistics import fmean, stdev

import pytest

from course.engine.driving import Done, Request
from course.engine.loaded import LoadedModel
from course.engine.models import load_model
from course.engine.tokenizer import byte_chat, chat_of
from course.traffic import (
    MEAN_TURNS,
    NEW_TOKENS,
    THINKING,
    TURNS,
    Chats,
    Session,
    at_once,
    greetings,
    help_desks,
    ideal_hits,
    sessions,
)


@cache
def tiny() -> LoadedModel:
    return load_model("byte-tiny")


@cache
def many() -> tuple[Session, ...]:
    return sessions(help_desks(), 2.0, 1_000.0)


# ---------------------------------------------------------------- who comes, and when


def test_equal_seeds_give_equal_sessions_and_others_do_not() -> None:
    assert sessions(help_desks(), 1.0, 20.0, 3) == sessions(help_desks(), 1.0, 20.0, 3)
    assert sessions(help_desks(), 1.0, 20.0, 3) != sessions(help_desks(), 1.0, 20.0, 4)


def test_at_another_rate_the_same_sessions_come_later() -> None:
    fast, slow = sessions(help_desks(), 2.0, 50.0), sessions(help_desks(), 1.0, 50.0)
    assert len(slow) < len(fast)
    for one, other in zip(slow, fast, strict=False):
        assert one.at == pytest.approx(2 * other.at)
        assert replace(one, at=0.0) == replace(other, at=0.0)


def test_they_come_as_a_poisson_process_does() -> None:
    times = [session.at for session in many()]
    gaps = [after - before for before, after in pairwise(times)]
    assert times == sorted(times) and times[-1] < 1_000.0
    assert len(times) == pytest.approx(2_000, abs=150)  # the standard deviation is 45
    assert fmean(gaps) == pytest.approx(0.5, rel=0.1) and stdev(gaps) == pytest.approx(0.5, rel=0.1)


def test_a_session_has_a_few_turns_with_time_to_think_between_them() -> None:
    turns = Counter(len(session.says) for session in many())
    assert set(turns) == set(range(TURNS[0], TURNS[1] + 1)) and min(turns.values()) > 500
    assert fmean(len(session.says) for session in many()) == pytest.approx(MEAN_TURNS, abs=0.1)
    assert all(len(session.thinking) == len(session.says) - 1 for session in many())
    assert fmean(pause for session in many() for pause in session.thinking) == pytest.approx(THINKING, rel=0.1)
    assert all(len(set(session.says)) == len(session.says) for session in many())


def test_the_first_desks_are_asked_most() -> None:
    asked = Counter(session.desk.name for session in many())
    first, second, third = (asked[desk.name] / len(many()) for desk in help_desks())
    assert (first, second, third) == pytest.approx((6 / 11, 3 / 11, 2 / 11), abs=0.04)


def test_there_are_three_desks_with_system_prompts_of_one_size() -> None:
    desks = help_desks()
    assert len(desks) == 3 and len({desk.system[:40] for desk in desks}) == 3
    assert all(1_100 < len(desk.system) < 1_200 for desk in desks)
    assert all(len(desk.again) >= TURNS[1] - 1 and len(desk.questions) >= 8 for desk in desks)


@pytest.mark.parametrize(("n", "rate", "seconds"), [(0, 1.0, 1.0), (3, 0.0, 1.0), (3, 1.0, 0.0), (3, -1.0, 1.0)])
def test_without_desk_rate_or_time_nobody_can_come(n: int, rate: float, seconds: float) -> None:
    with pytest.raises(ValueError, match="at least one desk"):
        sessions(help_desks()[:n], rate, seconds)


def test_at_once_means_the_same_sessions_without_a_pause() -> None:
    for one, other in zip(at_once(help_desks(), 5), many(), strict=False):
        assert (one.says, one.desk) == (other.says, other.desk)
        assert one.at == 0.0 and not any(one.thinking) and len(one.thinking) >= len(one.says) - 1


# ---------------------------------------------------------------- as requests


def session(*says: str, thinking: tuple[float, ...] = (1.0, 2.0, 3.0)) -> Session:
    return Session("session 1", 5.0, help_desks()[0], says, thinking)


def test_a_turn_sends_the_whole_conversation_so_far() -> None:
    chats = Chats(tiny(), [session("When?", "Where?", "Why?")])
    (first,) = chats.first()
    assert (first.at, first.session, first.n_new) == (5.0, "session 1", NEW_TOKENS)
    assert first.stop_ids == tiny().tokenizer.stop_ids
    second = chats.then(first, tiny().tokenizer.encode("At ten."), 20.0)
    assert second is not None and second.at == 21.0 and second.name != first.name
    third = chats.then(second, tiny().tokenizer.encode("Here."), 30.0)
    assert third is not None and third.at == 32.0
    told = [
        {"role": "system", "content": help_desks()[0].system},
        {"role": "user", "content": "When?"},
        {"role": "assistant", "content": "At ten."},
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": "Here."},
        {"role": "user", "content": "Why?"},
    ]
    assert list(third.prompt) == tiny().tokenizer.encode(byte_chat(told))
    assert chats.then(third, [1], 40.0) is None, "that was all they had to say"


def test_the_answers_own_ids_are_sent_again_not_its_text() -> None:
    chats = Chats(tiny(), [session("When?", "Where?")])
    (first,) = chats.first()
    no_text = [255, 254, 128]  # bytes that are no UTF-8: no text has these ids
    second = chats.then(first, no_text, 0.0)
    assert second is not None and list(second.prompt[: len(first.prompt) + 3]) == [*first.prompt, *no_text]


def test_any_chat_template_will_do() -> None:
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>\n{% endfor %}<assistant>"
    loaded = replace(tiny(), chat=chat_of(template, {}))
    chats = Chats(loaded, [session("When?", "Where?")])
    (first,) = chats.first()
    second = chats.then(first, loaded.tokenizer.encode("At ten."), 0.0)
    assert second is not None
    text = loaded.tokenizer.decode(second.prompt)
    assert text.endswith("<user>When?</>\n<assistant>At ten.</>\n<user>Where?</>\n<assistant>")


def test_all_sessions_at_a_desk_begin_with_the_same_ids() -> None:
    requests = Chats(tiny(), many()[:40]).first()
    shared = {name: _shared(name, requests) for name in {each.desk.name for each in many()[:40]}}
    assert len(shared) == 3 and all(len(ids) == 1 for ids in shared.values())


def _shared(desk: str, requests: Sequence[Request]) -> set[tuple[int, ...]]:
    at_desk = {session.name for session in many() if session.desk.name == desk}
    return {request.prompt[:1_100] for request in requests if request.session in at_desk}


def test_the_same_sessions_make_the_same_requests_each_time() -> None:
    assert Chats(tiny(), many()[:20]).first() == Chats(tiny(), many()[:20]).first()
    assert len({request.name for request in Chats(tiny(), many()[:60]).first()}) == 60


def test_a_greeting_goes_to_each_desk() -> None:
    requests = Chats(tiny(), greetings(help_desks()), 1).first()
    assert len({request.prompt[:1_100] for request in requests}) == 3
    assert all(request.at == 0.0 and request.n_new == 1 for request in requests)


# ---------------------------------------------------------------- what could be found


def done(arrived: float, prompt: Sequence[int], answer: Sequence[int] = (7, 7), stopped: bool = False) -> Done:
    request = Request(f"at {arrived}", tuple(prompt), 8, arrived)
    n_computed = len(answer) + stopped
    return Done(request, "here", arrived, arrived + 1, arrived + 2, len(prompt), 0, 0, 0, tuple(answer), n_computed)


def test_an_endless_cache_finds_whole_blocks_of_what_came_before_and_never_the_last_token() -> None:
    rows = [done(3.0, range(8)), done(1.0, range(9)), done(2.0, [0, 1, 2, 3, 9, 9, 9, 9, 9])]
    assert ideal_hits(rows, 4) == [(1.0, 0, 9), (2.0, 4, 18), (3.0, 8, 26)]


def test_an_endless_cache_knows_answers_but_not_their_last_token_which_is_never_computed() -> None:
    prompt, answer = (1, 2, 3), (4, 5, 6, 7, 8)
    following = (*prompt, *answer, 9)
    cut = ideal_hits([done(1.0, prompt, answer), done(2.0, following)], 4)
    stopped = ideal_hits([done(1.0, prompt, answer, stopped=True), done(2.0, following)], 4)
    assert (cut[-1], stopped[-1]) == ((2.0, 4, 12), (2.0, 8, 12))


def test_a_block_is_found_only_behind_what_stood_before_it() -> None:
    assert ideal_hits([done(1.0, [1, 1, 2, 2]), done(2.0, [3, 3, 2, 2, 5])], 2)[-1] == (2.0, 0, 9)

"""Workloads: the same requests for everybody, shared as they are meant to be, and prompts of the stated sizes."""

from __future__ import annotations

from collections import Counter

import pytest

from course.workloads import (
    PREFIX_TOKENS,
    SUFFIX_TOKENS,
    VOCABULARY,
    homework_help,
    shared_prefix_requests,
    shared_system_prompt,
)

SHORTEST = PREFIX_TOKENS[0]


def test_equal_seeds_give_equal_requests_and_others_do_not() -> None:
    assert shared_prefix_requests(20) == shared_prefix_requests(20)
    assert shared_prefix_requests(20) != shared_prefix_requests(20, seed=1)


def test_requests_stay_within_their_sizes() -> None:
    for tokens in shared_prefix_requests(200, n_prefixes=8):
        assert PREFIX_TOKENS[0] + SUFFIX_TOKENS[0] <= len(tokens) <= PREFIX_TOKENS[1] + SUFFIX_TOKENS[1]
        assert 0 <= min(tokens) and max(tokens) < VOCABULARY


def test_there_are_as_many_prefixes_as_asked_for_and_no_two_requests_alike() -> None:
    requests = shared_prefix_requests(300, n_prefixes=4, skew=0.0)
    assert len({tuple(tokens[:SHORTEST]) for tokens in requests}) == 4
    assert len({tuple(tokens) for tokens in requests}) == 300


def test_the_first_prefix_is_picked_in_proportion_to_its_weight() -> None:
    requests = shared_prefix_requests(3_000, n_prefixes=4)
    (_, first), (_, second), *_ = Counter(tuple(tokens[:SHORTEST]) for tokens in requests).most_common()
    assert first / 3_000 == pytest.approx(12 / 25, abs=0.04)  # 1 of 1 + 1/2 + 1/3 + 1/4
    assert second / first == pytest.approx(1 / 2, abs=0.08)


def test_the_shared_system_prompt_has_224_bytes_which_are_14_blocks() -> None:
    assert len(shared_system_prompt().encode()) == 224 == 14 * 16


def test_eight_chats_share_a_long_system_prompt_and_two_go_on() -> None:
    chat = homework_help()
    assert len(chat.questions) == 8 and sum(bool(question.again) for question in chat.questions) == 2
    assert len({question.user for question in chat.questions}) == 8
    assert 2_400 <= len(chat.system) <= 4_000  # some 600 to 900 tokens


def test_a_second_turn_sends_the_whole_conversation_again() -> None:
    chat = homework_help()
    question = next(question for question in chat.questions if question.again)
    first, second = chat.first_turn(question), chat.second_turn(question, "Paris.")
    assert second[: len(first)] == first
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert [message["content"] for message in second[2:]] == ["Paris.", question.again]

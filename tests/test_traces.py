"""Traces: every line is read or told, an infinite cache is counted exactly, and published traffic gives its figures."""

from __future__ import annotations

import itertools
import json
import random
import runpy
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from autograder import implementations
from autograder.benchmarks.serving import MODULE, best_names
from course import trace_files
from course.contract import Allocation, PrefixCache
from course.traces import (
    BLOCK_TOKENS,
    BadLine,
    Trace,
    TraceError,
    TraceRequest,
    ideal,
    new_manager,
    read_trace,
    replay,
)

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = ROOT.parent / "shared" / "traces"
OWN = ROOT / "fixtures" / "traces" / "homework_hour.jsonl"

HASH, RADIX, NONE = PrefixCache.HASH, PrefixCache.RADIX, PrefixCache.NONE

SIZES = (200_000, 100_000, 50_000, 30_000, 10_000, 1_000)
FIGURES = {
    ("conversation", HASH): (0.3660, 0.3633, 0.3541, 0.3254, 0.2113, 0.0445),
    ("conversation", RADIX): (0.3660, 0.3633, 0.3541, 0.3253, 0.2109, 0.0444),
    ("synthetic", HASH): (0.6379, 0.6379, 0.6379, 0.6226, 0.4230, 0.0840),
    ("synthetic", RADIX): (0.6379, 0.6379, 0.6379, 0.6226, 0.4225, 0.0824),
}
"""Hit rates of the public traces at SIZES, to the fourth digit, for any manager that keeps the contract."""


def prompts(*ids: Sequence[int]) -> tuple[TraceRequest, ...]:
    """Requests with these blocks, the last one of each full."""
    return tuple(TraceRequest(place, BLOCK_TOKENS * len(each), 1, tuple(each)) for place, each in enumerate(ids))


def line(**changes: Any) -> str:
    return json.dumps({"timestamp": 5, "input_length": 600, "output_length": 7, "hash_ids": [0, 1], **changes})


def without(key: str) -> str:
    return json.dumps({name: value for name, value in json.loads(line()).items() if name != key})


GOOD = line()


def write(folder: Path, lines: Iterable[str | bytes]) -> Path:
    path = folder / "some.jsonl"
    path.write_bytes(b"\n".join(each.encode() if isinstance(each, str) else each for each in lines))
    return path


# ---------------------------------------------------------------- reading


def test_a_record_is_read_as_it_stands(tmp_path: Path) -> None:
    assert read_trace(write(tmp_path, [GOOD, ""])) == Trace((TraceRequest(5, 600, 7, (0, 1)),))


@pytest.mark.parametrize(
    ("good", "why"),
    [
        (line(input_length=513), "one token more than a block"),
        (line(input_length=1_024), "two full blocks"),
        (line(hash_ids=[0, 2**32 - 1]), "the largest id"),
        (line(timestamp=0, output_length=0), "nothing is a number of tokens"),
        (line(chat_id=3), "keys that nobody asked for"),
        (line(timestamp=0.5), "a part of a millisecond"),
        (line(input_length=32), "blocks of 16 tokens, as others publish them"),
        (GOOD + "\r", "lines as Windows ends them"),
        ("  " + GOOD + " ", "spaces around it"),
    ],
)
def test_what_is_still_a_record(tmp_path: Path, good: str, why: str) -> None:
    assert len(read_trace(write(tmp_path, [good]), strict=True).requests) == 1, why


BAD = [
    ("{", "not JSON"),
    ("1, 2", "not JSON"),
    ("[" * 100_000, "not JSON"),
    (line(timestamp=5).replace("5", "9" * 5_000, 1), "not JSON"),
    ("[1, 2]", "not an object"),
    ("null", "not an object"),
    (b'{"timestamp": "\xff"}', "not UTF-8 at byte 16"),
    (GOOD.encode("utf-16"), "not UTF-8 at byte 1"),
    (without("timestamp"), "timestamp is missing"),
    (without("input_length"), "input_length is missing"),
    (without("output_length"), "output_length is missing"),
    (without("hash_ids"), "hash_ids is missing"),
    (line(timestamp="1"), 'timestamp is "1", not a number of 0 or more'),
    (line(timestamp=True), "timestamp is true, not a number of 0 or more"),
    (line(timestamp=float("inf")), "timestamp is Infinity, not a number of 0 or more"),
    (line(input_length=True), "input_length is true, not a whole number"),
    (line(output_length="7"), 'output_length is "7", not a whole number'),
    (line(output_length=None), "output_length is null, not a whole number"),
    (line(timestamp=10**400), "timestamp is 1000"),
    (line(timestamp=float("nan")), "timestamp is NaN, not a number of 0 or more"),
    (line(timestamp=-1), "timestamp is -1, not a number of 0 or more"),
    (line(input_length=-600), "input_length is -600, below 0"),
    (line(output_length=-7), "output_length is -7, below 0"),
    (line(hash_ids=[]), "hash_ids is empty"),
    (line(hash_ids=[], input_length=0), "hash_ids is empty"),
    (line(hash_ids="01"), 'hash_ids is "01", not a list'),
    (line(hash_ids={"0": 1, "1": 2}), "not a list"),
    (line(hash_ids=[0, -1]), "hash_ids has -1 at place 1"),
    (line(hash_ids=[2**32, 1]), "hash_ids has 4294967296 at place 0"),
    (line(hash_ids=[0, 1.0]), "hash_ids has 1.0 at place 1"),
    (line(hash_ids=[False, 1]), "hash_ids has false at place 0"),
    (line(hash_ids=[0, [1]]), "hash_ids has [1] at place 1"),
    ("", "the line is blank"),
    (" \t", "the line is blank"),
]


@pytest.mark.parametrize(("bad", "why"), BAD, ids=range(len(BAD)))
def test_a_line_that_is_no_record_is_told_and_left_out(tmp_path: Path, bad: str | bytes, why: str) -> None:
    trace = read_trace(write(tmp_path, [GOOD, bad, GOOD]))
    assert len(trace.requests) == 2 and trace.n_bad == 1
    assert trace.bad_lines[0].line == 2 and why in trace.bad_lines[0].why
    assert len(str(trace.bad_lines[0])) < 200


@pytest.mark.parametrize(("bad", "why"), BAD, ids=range(len(BAD)))
def test_strict_makes_it_an_error_that_names_file_and_line(tmp_path: Path, bad: str | bytes, why: str) -> None:
    path = write(tmp_path, [GOOD, bad, GOOD])
    with pytest.raises(TraceError) as told:
        read_trace(path, strict=True)
    assert str(told.value).startswith(f"{path}, line 2: ") and why in str(told.value)


def test_blank_lines_are_fine_at_the_end_only(tmp_path: Path) -> None:
    assert read_trace(write(tmp_path, [GOOD, "", " ", ""]), strict=True).n_bad == 0
    trace = read_trace(write(tmp_path, ["", "", GOOD, "", "x", "", ""]))
    assert [bad.line for bad in trace.bad_lines] == [1, 2, 4, 5]


@pytest.mark.parametrize(
    ("lines", "told"), [([], "it is empty"), (["", ""], "it is empty"), (["{", "}"], "line 1: not")]
)
@pytest.mark.parametrize("strict", [False, True])
def test_a_file_without_a_record_is_no_trace(tmp_path: Path, lines: list[str], told: str, strict: bool) -> None:
    path = write(tmp_path, lines)
    with pytest.raises(TraceError, match=told) as error:
        read_trace(path, strict)
    assert str(path) in str(error.value)


def test_a_file_that_is_not_there_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_trace(tmp_path / "nothing.jsonl")


def test_a_line_too_long_to_be_a_record_is_one_bad_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "LONGEST_LINE", 100)
    for length in (99, 100, 101, 250, 300, 301):
        trace = read_trace(write(tmp_path, [GOOD, "x" * length, GOOD]))
        assert [bad.line for bad in trace.bad_lines] == [2] and len(trace.requests) == 2
    assert trace.bad_lines == (BadLine(2, "100 bytes long, or longer"),)


def test_so_many_bad_lines_are_told_and_all_are_counted(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, [*["x"] * (trace_files.MOST_TOLD + 5), GOOD]))
    assert len(trace.bad_lines) == trace_files.MOST_TOLD and trace.n_bad == trace_files.MOST_TOLD + 5


# ---------------------------------------------------------------- the ideal


def test_an_infinite_cache_finds_all_but_the_last_block() -> None:
    found = ideal(prompts([1, 2, 3], [1, 2, 3], [1, 2, 4], [2, 3], [1], [1, 2, 3, 5]))
    assert (found.n_blocks, found.hits) == (3 + 3 + 3 + 2 + 1 + 4, 0 + 2 + 2 + 0 + 0 + 3)
    assert found.n_distinct == len({(1,), (1, 2), (1, 2, 3), (1, 2, 4), (2,), (2, 3), (1, 2, 3, 5)})
    assert found.hit_rate == found.hits / found.n_blocks and ideal(()).hit_rate == 0.0


def some_requests(seed: int) -> tuple[TraceRequest, ...]:
    """Prompts that share beginnings, with ids that come again within a prompt, too."""
    draw = random.Random(seed)
    return prompts(*([draw.randrange(3) for _ in range(draw.randrange(1, 9))] for _ in range(150)))


@pytest.mark.parametrize("seed", range(20))
def test_the_ideal_is_what_a_set_of_prefixes_says_and_what_a_large_pool_finds(seed: int) -> None:
    requests = some_requests(seed)
    seen: set[tuple[int, ...]] = set()
    hits = 0
    for ids in (request.hash_ids for request in requests):
        hits += sum(ids[:n] in seen for n in range(1, len(ids)))
        seen |= {ids[:n] for n in range(1, len(ids) + 1)}
    found = ideal(requests)
    assert (found.hits, found.n_distinct) == (hits, len(seen)) and hits > 0
    for mode in (HASH, RADIX):
        replayed = replay(requests, best_names(), mode, found.n_distinct + 9)
        assert (replayed.hits, replayed.n_blocks, replayed.evictions) == (hits, found.n_blocks, 0)


# ---------------------------------------------------------------- replaying


def test_the_worked_example_hit_by_hit() -> None:
    requests = prompts([1, 2, 3], [1, 2, 9], [1, 2])
    for mode, hits in ((HASH, 2 + 1), (RADIX, 2 + 1), (NONE, 0)):
        replayed = replay(requests, best_names(), mode, 10)
        assert replayed.hits == hits and replayed.hit_rate == hits / 8
        assert (replayed.mode, replayed.capacity, replayed.eviction) == (mode.value, 10, "lru")


def test_a_request_larger_than_the_pool_is_refused_and_its_blocks_are_not_found() -> None:
    requests = prompts([1, 2], [1, 2, 3, 4, 5], [1, 2])
    for mode in (HASH, RADIX):
        replayed = replay(requests, best_names(), mode, 4)
        assert (replayed.refused, replayed.hits, replayed.n_blocks) == (1, 1, 9)


@pytest.mark.parametrize("mode", [HASH, RADIX])
@pytest.mark.parametrize("n_blocks", [10, 17, 60])
def test_the_flat_model_finds_the_same_in_a_pool_that_is_too_small(mode: PrefixCache, n_blocks: int) -> None:
    requests = some_requests(99)
    ours = replay(requests, best_names(), mode, n_blocks)
    flat = replay(requests, implementations.flat(MODULE).names, mode, n_blocks)
    assert (ours.hits, ours.evictions, ours.refused) == (flat.hits, flat.evictions, flat.refused)
    assert ours.evictions > 0


class Recorded:
    """A manager that finds nothing, and notes how it was made and called."""

    made: tuple[Any, ...] = ()

    def __init__(self, pool: Any, mode: PrefixCache, **options: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.stats = best_names()["BlockManager"](pool, mode).stats
        Recorded.made = (pool.n_blocks, pool.block_size, mode, options, self.calls)

    def allocate(self, seq: Any, tokens: Sequence[int]) -> Allocation | None:
        self.calls.append(("allocate", seq, list(tokens)))
        return Allocation(0, ()) if tokens[0] else None

    def release(self, seq: Any, computed: Sequence[int]) -> None:
        self.calls.append(("release", seq, list(computed)))


RECORDED = {"KvPool": best_names()["KvPool"], "BlockManager": Recorded}


def test_requests_come_and_go_one_at_a_time_with_one_token_a_block() -> None:
    replayed = replay(prompts([5, 6], [0, 7], [8]), RECORDED, HASH, 30)
    n_blocks, block_size, mode, options, calls = Recorded.made
    assert (n_blocks, block_size, mode, options) == (30, 1, HASH, {})
    assert [call[0] for call in calls] == ["allocate", "release", "allocate", "allocate", "release"]
    assert calls[0][2] == calls[1][2] == [5, 6] and calls[0][1] == calls[1][1] != calls[2][1]
    assert replayed.refused == 1 and replayed.seconds > 0


def test_only_a_policy_other_than_the_contracts_is_asked_for() -> None:
    new_manager(RECORDED, RADIX, 3, "lfu")
    assert Recorded.made[3] == {"eviction": "lfu"}
    new_manager(RECORDED, RADIX, 3, "lru")
    assert Recorded.made[3] == {}


def test_a_replay_tells_how_far_it_is() -> None:
    heard: list[tuple[str, int, int]] = []
    replay(prompts(*[[1]] * 1_200), RECORDED, HASH, 1_000, tell=lambda *far: heard.append(far))
    assert heard == [("hash, 1,000 blocks", done, 1_200) for done in (0, 500, 1_000)]


# ---------------------------------------------------------------- the public traces


@cache
def public(name: str) -> tuple[TraceRequest, ...]:
    path = PUBLIC / f"{name}_trace.jsonl"
    if not path.exists():
        pytest.skip("the public traces are not here")
    return read_trace(path, strict=True).requests


@pytest.mark.parametrize(("name", "mode"), FIGURES)
def test_the_public_traces_give_their_figures_to_the_fourth_digit(name: str, mode: PrefixCache) -> None:
    found = [replay(public(name), best_names(), mode, size).hit_rate for size in SIZES]
    assert tuple(round(rate, 4) for rate in found) == FIGURES[name, mode]


@pytest.mark.parametrize(
    ("name", "distinct", "hit_rate"), [("conversation", 182_790, 0.3660), ("synthetic", 43_924, 0.6379)]
)
def test_the_public_traces_have_their_ideal(name: str, distinct: int, hit_rate: float) -> None:
    best = ideal(public(name))
    assert (best.n_distinct, round(best.hit_rate, 4)) == (distinct, hit_rate)


@pytest.mark.parametrize(("name", "at_3m"), [("conversation", 0.371), ("synthetic", 0.484)])
def test_room_for_3m_tokens_stays_under_half_and_50m_nearly_reaches_it(name: str, at_3m: float) -> None:
    best = ideal(public(name)).hit_rate
    small, large = (
        replay(public(name), best_names(), HASH, tokens // BLOCK_TOKENS) for tokens in (3 * 10**6, 5 * 10**7)
    )
    assert small.hit_rate / best == pytest.approx(at_3m, abs=5e-4)
    assert large.hit_rate / best > 0.99


# ---------------------------------------------------------------- our own trace


def test_the_own_trace_is_what_its_script_writes() -> None:
    script = runpy.run_path(str(OWN.with_name("write_homework_hour.py")))
    assert script["text"]() == OWN.read_text(encoding="utf-8")
    assert OWN.stat().st_size < 200_000


@cache
def own() -> tuple[TraceRequest, ...]:
    return read_trace(OWN, strict=True).requests


def test_the_own_trace_is_an_hour_of_sessions_that_come_back_and_texts_that_do_not() -> None:
    requests = own()
    times = [request.timestamp for request in requests]
    assert times == sorted(times) and times[-1] < 3_600_000
    begun = {request.hash_ids[0] for request in requests}
    alone = [r for r in requests if sum(other.hash_ids[0] == r.hash_ids[0] for other in requests) == 1]
    assert len(begun) == 4 + len(alone), "all but the long texts begin with one of four system prompts"
    assert all(len(request.hash_ids) >= 29 for request in alone) and len(alone) == 90
    back = [each for place, each in enumerate(requests) if any(goes_on(each, before) for before in requests[:place])]
    assert len(back) > 250


def goes_on(request: TraceRequest, before: TraceRequest) -> bool:
    """Whether a request begins with all full blocks of an earlier one, which are more than a system prompt's."""
    full = before.hash_ids[:-1]
    return len(full) > 4 and request.hash_ids[: len(full)] == full


@pytest.mark.parametrize("mode", [HASH, RADIX])
def test_the_own_trace_falls_from_the_ideal_to_next_to_nothing(mode: PrefixCache) -> None:
    best = ideal(own())
    found = [replay(own(), best_names(), mode, best.n_distinct >> halving).hit_rate for halving in range(6)]
    shares = [rate / best.hit_rate for rate in found]
    assert 0.3 < best.hit_rate < 0.4 and shares[0] == 1.0 and shares[-1] < 0.15
    assert all(a - b > 0.1 for a, b in itertools.pairwise(shares)), "it falls with every halving"


def test_hash_and_radix_are_nearly_alike_on_the_own_trace() -> None:
    for size in (10_000, 3_000, 1_000, 300):
        by_name, by_path = (replay(own(), best_names(), mode, size).hit_rate for mode in (HASH, RADIX))
        assert by_name == pytest.approx(by_path, abs=0.002)


@pytest.mark.parametrize("size", [16, 128, 512, 1_024])
def test_the_size_of_a_block_is_what_fits_tokens_and_ids(size: int) -> None:
    requests = tuple(TraceRequest(0, tokens, 1, tuple(range(-(-tokens // size)))) for tokens in (100, 700, 5_000))
    assert Trace(requests).block_tokens == size
    assert Trace((TraceRequest(0, 10, 1, (1,)),)).block_tokens == 512, "where several fit, that of the format"

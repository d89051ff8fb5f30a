"""What publishing early finds while requests overlap, on the yardstick's workload. Counts decide here, never times."""

from __future__ import annotations

import json
from functools import cache

import pytest
from typer.testing import CliRunner

from autograder.benchmarks.manager import Managed, contenders, measure, serve
from autograder.benchmarks.serving import best_names
from autograder.cli import app
from course.contract import PrefixCache, Publish
from course.workloads import shared_prefix_requests

HASH, RADIX = PrefixCache.HASH, PrefixCache.RADIX


@cache
def requests(n_prefixes: int, skew: float) -> list[list[int]]:
    return shared_prefix_requests(5_000, n_prefixes, skew)


def hit_rate(mode: PrefixCache, publish: Publish, n_prefixes: int = 256, skew: float = 1.0) -> float:
    """With 16 requests in flight, over a pool of 8,192 blocks of 16 tokens."""
    return serve(Managed(best_names(), mode, publish), requests(n_prefixes, skew), 16)[1]


def test_hits_with_16_in_flight() -> None:
    assert round(hit_rate(HASH, "release"), 4) == 0.6010
    assert hit_rate(HASH, "prefill") >= 0.6150
    assert hit_rate(RADIX, "prefill") >= 0.6140


def test_hits_with_many_prefixes_that_are_used_more_evenly() -> None:
    assert round(hit_rate(HASH, "release", 1_024, 0.8), 4) == 0.3040
    assert round(hit_rate(HASH, "prefill", 1_024, 0.8), 4) == 0.3240


@pytest.mark.parametrize("mode", [HASH, RADIX])
def test_a_part_of_the_workload_where_nothing_is_evicted(mode: PrefixCache) -> None:
    """Both caches find the same then; what is found early is found with one request at a time, too."""
    few = shared_prefix_requests(120)
    early, late, alone = (
        serve(Managed(best_names(), mode, publish), few, in_flight)[1]
        for publish, in_flight in (("prefill", 16), ("release", 16), ("release", 1))
    )
    assert early == alone > late > 0.1


def test_the_baseline_and_the_yardstick_are_as_they_were() -> None:
    early = measure(contenders(best_names(), "prefill"), 40, in_flight=4, rounds=1)
    late = measure(contenders(best_names()), 40, in_flight=4, rounds=1)
    assert early["none"].hit_rate == 0 and early["yardstick"].hit_rate == late["yardstick"].hit_rate
    assert early["hash"].hit_rate == early["radix"].hit_rate > late["hash"].hit_rate == late["yardstick"].hit_rate


def test_the_command_takes_the_option_and_is_as_ever_without_it() -> None:
    def ol(*more: str) -> str:
        ran = CliRunner().invoke(
            app, ["bench", "manager", "--requests", "60", "--rounds", "1", "--in-flight", "8", *more]
        )
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    rates = {
        publish: {name: row["hit_rate"] for name, row in json.loads(ol("--publish", publish, "--json")).items()}
        for publish in ("release", "prefill")
    }
    assert rates["prefill"]["hash"] > rates["release"]["hash"] == rates["release"]["yardstick"]
    assert {name: row["hit_rate"] for name, row in json.loads(ol("--json")).items()} == rates["release"]
    assert "published as soon as they are computed" in " ".join(ol("--publish", "prefill").split())
    assert "published" not in ol()
    assert CliRunner().invoke(app, ["bench", "manager", "--publish", "often"]).exit_code == 2

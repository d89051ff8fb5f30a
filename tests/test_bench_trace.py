"""`ol bench trace`: which sizes and ways it measures, what it concludes, its files, and how it gives up."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from autograder import implementations
from autograder.benchmarks import traces
from autograder.benchmarks.serving import MODULE, best_names
from autograder.benchmarks.traces_table import LINES_SHOWN, rate, skipped, trace_view
from autograder.cli import app
from course.charts.capacity import capacity_finding
from course.contract import PrefixCache
from course.traces import BadLine, Trace, TraceRequest

ROOT = Path(__file__).resolve().parent.parent
OWN = ROOT / "fixtures" / "traces" / "homework_hour.jsonl"
HASH, RADIX, NONE = PrefixCache.HASH, PrefixCache.RADIX, PrefixCache.NONE


def ol(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["bench", "trace", *map(str, arguments)])


def small_trace(n: int = 40) -> Trace:
    """Two sessions in turn, each longer by a block each time."""
    ids = [tuple(range(100 * (place % 2), 100 * (place % 2) + 2 + place // 2)) for place in range(n)]
    return Trace(tuple(TraceRequest(place, 512 * len(each), 1, each) for place, each in enumerate(ids)))


@cache
def measured() -> traces.Result:
    return traces.measure("small.jsonl", small_trace(), best_names(), traces.ways((HASH, RADIX), ("lru",)), (30, 10))


def written(trace: Trace, folder: Path, *more: str) -> Path:
    path = folder / "small.jsonl"
    path.write_text("\n".join([*(json.dumps(_record(each)) for each in trace.requests), *more]), encoding="utf-8")
    return path


def _record(request: TraceRequest) -> dict[str, Any]:
    lengths = {"input_length": request.input_length, "output_length": request.output_length}
    return {"timestamp": request.timestamp, **lengths, "hash_ids": list(request.hash_ids)}


# ---------------------------------------------------------------- what is measured


def test_a_large_trace_gets_the_fixed_sizes_and_a_small_one_its_own() -> None:
    assert traces.default_sizes(43_924) == (200_000, 100_000, 50_000, 30_000, 10_000, 1_000)
    assert traces.default_sizes(14_492) == (14_492, 7_246, 3_623, 1_811, 905, 452)
    assert traces.default_sizes(5) == (5, 2, 1)


def test_only_radix_has_policies_and_each_way_is_measured_once() -> None:
    asked = traces.ways((HASH, RADIX, HASH), ("lru", "lfu", "lru"))
    assert [way.name for way in asked] == ["hash", "radix", "radix, lfu"]
    assert [way.name for way in traces.ways((NONE, HASH), ("lfu",))] == ["none", "hash"]


def test_the_papers_sizes_are_measured_whatever_is_asked_for() -> None:
    for rows in measured().replays.values():
        assert [row.capacity for row in rows] == [97_656, 5_859, 30, 10]
    assert [(claim.tokens, claim.blocks(512)) for claim in traces.CLAIMS] == [(3_000_000, 5_859), (50_000_000, 97_656)]


def test_progress_goes_on_over_all_rows() -> None:
    heard: list[tuple[str, int, int]] = []
    asked = traces.ways((HASH, RADIX), ("lru",))
    traces.measure("x", small_trace(), best_names(), asked, (10,), lambda *far: heard.append(far))
    assert [far[1:] for far in heard] == [(40 * row, 40 * 6) for row in range(6)]
    assert heard[0][0] == "hash, 97,656 blocks" and heard[-1][0] == "radix, 10 blocks"


def test_a_policy_that_the_manager_does_not_know_is_said_before_anything_runs() -> None:
    flat = implementations.flat(MODULE).names

    class Plain:
        def __init__(self, pool: Any, mode: PrefixCache) -> None:
            pass

    for names in ({**flat, "BlockManager": Plain}, best_names()):
        with pytest.raises(traces.NotMeasured, match="can't be had as radix, no such policy"):
            traces.measure("x", small_trace(), names, traces.ways((RADIX,), ("no such policy",)))


@pytest.mark.parametrize(("share", "under_half", "nearly_all"), [(0.49, True, False), (0.5, False, False)])
@pytest.mark.parametrize("large", [0.94, 0.95, 1.0])
def test_what_the_paper_says_holds_or_not(share: float, under_half: bool, nearly_all: bool, large: float) -> None:
    small_claim, large_claim = traces.CLAIMS
    assert small_claim.holds(share) is under_half and large_claim.holds(share) is nearly_all
    assert large_claim.holds(large) is (large >= 0.95)


# ---------------------------------------------------------------- how it is told


def shown(result: traces.Result) -> str:
    paper = Console(width=120, record=True, file=io.StringIO())
    paper.print(trace_view(result))
    return paper.export_text()


def test_the_table_has_a_row_a_size_the_ideal_and_the_papers_sizes() -> None:
    result = measured()
    text = shown(result)
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    assert [row[:2] for row in cells[1:]] == [
        [mode, size] for mode in ("hash", "radix") for size in ("97,656", "5,859", "30", "10")
    ]
    assert cells[0][0] == "infinite" and cells[0][3] == rate(result.ideal.hit_rate) and cells[0][4] == "100.0%"
    assert cells[1][3] == cells[0][3] and cells[1][-1] == "nearly all" and cells[2][-1] == "under half"
    assert "peak memory" in text and "The slowest row took" in text
    assert "\n3M tokens: under half of the ideal" in text and "radix 100.0%: does not hold here.\n" in text
    assert "\n50M tokens: nearly all of the ideal" in text and "radix 100.0%: holds.\n" in text


def test_refused_requests_are_shown() -> None:
    row = measured().replays["hash"][-1]
    assert row.capacity == 10 and row.refused == 22
    assert f"{row.refused} │" in shown(measured())


def test_a_trace_in_which_nothing_comes_again_has_no_shares() -> None:
    alone = Trace((TraceRequest(0, 512, 1, (1,)), TraceRequest(0, 512, 1, (2,))))
    result = traces.measure("x", alone, best_names(), traces.ways((HASH,), ("lru",)))
    assert ".0000" in shown(result) and result.ideal.hit_rate == 0.0
    assert capacity_finding(traces.as_capacities(result)) == "Even an infinite cache finds nothing again here"


def test_lines_left_out_are_told_the_first_ones_one_by_one() -> None:
    bad = tuple(BadLine(n, "not JSON") for n in range(1, 21))
    told = skipped(traces.Result("x", 512, 1, 30, bad, measured().ideal, {}, None)).splitlines()
    assert told[0] == "x: 30 lines are no valid record, left out:" and told[1] == "  line 1: not JSON"
    assert len(told) == LINES_SHOWN + 2 and told[-1] == "  and 20 more"
    assert skipped(measured()) == ""


def test_a_rate_has_four_digits() -> None:
    assert [rate(value) for value in (0.36604, 0.0, 1.0)] == [".3660", ".0000", "1.0000"]


# ---------------------------------------------------------------- the command


def test_the_command_writes_chart_and_numbers_and_says_where(tmp_path: Path) -> None:
    ran = ol(OWN, "--blocks", 1_000, "--mode", "radix", "--out", tmp_path / "deep" / "out")
    assert ran.exit_code == 0, ran.output
    data = json.loads((tmp_path / "deep" / "out" / "bench_trace_homework_hour.json").read_text(encoding="utf-8"))
    assert (tmp_path / "deep" / "out" / "bench_trace_homework_hour.png").read_bytes().startswith(b"\x89PNG")
    assert list(data["replays"]) == ["radix"] and [row["capacity_blocks"] for row in data["replays"]["radix"]] == [
        97_656, 5_859, 1_000,
    ]  # fmt: skip
    assert "homework_hour.jsonl: 752 requests" in ran.stdout and "bench_trace_homework_hour.png" in ran.stdout
    assert "Room for 3M tokens gives 67% of the ideal hit rate, room for 50M 100%" in ran.stdout


def test_json_has_everything_and_nothing_else_is_printed(tmp_path: Path) -> None:
    path = written(small_trace(), tmp_path, "oops", "")
    ran = ol(path, "--json", "--blocks", 10, "--out", tmp_path)
    data = json.loads(ran.stdout)
    assert ran.exit_code == 0 and data == json.loads((tmp_path / "bench_trace_small.json").read_text(encoding="utf-8"))
    assert data["requests"] == 40 and data["n_bad_lines"] == 1
    assert data["bad_lines"] == [{"line": 41, "why": "not JSON: Expecting value, at column 1"}]
    assert data["replays"]["hash"][0]["hit_rate"] == data["ideal_hit_rate"] > 0.8
    assert data["replays"]["hash"][-1]["refused"] == 22
    assert [claim["says"] for claim in data["paper"]] == ["under half", "nearly all"]
    assert data["paper"][0]["holds"] == {"hash": False, "radix": False}
    assert 0 < data["peak_memory_bytes"] < 2**40
    assert "1 line is no valid record" in ran.stderr and "line 41: not JSON" in ran.stderr


@pytest.mark.parametrize(
    ("lines", "options", "told"),
    [
        (["oops"], [], "has no valid record; line 1: not JSON"),
        ([], [], "has no valid record; it is empty"),
        (["oops"], ["--strict"], "line 1: not JSON"),
    ],
)
def test_a_file_that_is_no_trace_is_exit_code_2(
    tmp_path: Path, lines: list[str], options: list[str], told: str
) -> None:
    path = written(Trace(()), tmp_path, *lines)
    ran = ol(path, *options, "--out", tmp_path / "out")
    assert ran.exit_code == 2 and told in " ".join(ran.stderr.split()) and ran.stdout == ""
    assert not (tmp_path / "out").exists()


def test_strict_ends_at_a_bad_line_behind_good_ones(tmp_path: Path) -> None:
    ran = ol(written(small_trace(), tmp_path, "oops"), "--strict", "--out", tmp_path)
    assert ran.exit_code == 2 and "line 41: not JSON" in " ".join(ran.stderr.split())


def test_a_file_or_a_folder_that_cant_be_used_is_exit_code_2(tmp_path: Path) -> None:
    for place, told in ((tmp_path / "nothing", "No such file"), (tmp_path, "Is a directory")):
        ran = ol(place)
        assert ran.exit_code == 2 and "can't read" in ran.stderr and told in " ".join(ran.stderr.split())
    path = written(small_trace(), tmp_path)
    ran = ol(path, "--blocks", 10, "--out", path)
    assert ran.exit_code == 2 and "can't write" in ran.stderr


def test_an_unknown_policy_is_exit_code_2(tmp_path: Path) -> None:
    ran = ol(written(small_trace(), tmp_path), "--eviction", "newest", "--out", tmp_path)
    assert ran.exit_code == 2 and "there is no eviction policy 'newest'" in " ".join(ran.stderr.split())
    ran = ol(written(small_trace(), tmp_path), "--eviction", "lfu", "--mode", "hash", "--out", tmp_path)
    assert ran.exit_code == 2 and "a choice of mode radix" in " ".join(ran.stderr.split())
    mine = tmp_path / "mine.py"
    mine.write_text(implementations.reference_source(MODULE), encoding="utf-8")
    ran = ol(written(small_trace(), tmp_path), mine, "--eviction", "lfu", "--out", tmp_path)
    assert ran.exit_code == 2 and "can't be had as radix, lfu" in " ".join(ran.stderr.split())
    ran = ol(written(small_trace(), tmp_path), tmp_path / "nowhere.py", "--out", tmp_path)
    assert ran.exit_code == 2 and "There is no" in " ".join(ran.stderr.split())


def test_a_submission_can_be_measured(tmp_path: Path) -> None:
    path = written(small_trace(), tmp_path)
    wrong = tmp_path / "mine.py"
    source = implementations.reference_source(MODULE)
    wrong.write_text(source.replace("return (n - 1) // self._size", "return 0"), encoding="utf-8")
    ran = ol(path, wrong, "--blocks", 10, "--json", "--out", tmp_path)
    assert ran.exit_code == 0, ran.output
    data = json.loads(ran.stdout)
    assert data["submission"] == str(wrong)
    assert data["replays"]["hash"][0]["hit_rate"] == 0 < data["replays"]["radix"][0]["hit_rate"]
    broken = tmp_path / "broken.py"
    broken.write_text("class BlockManager:\n    def __init__(self, pool, mode):\n        1 / 0\n", encoding="utf-8")
    ran = ol(path, broken, "--out", tmp_path)
    assert ran.exit_code == 2 and "can't be measured" in " ".join(ran.stderr.split())

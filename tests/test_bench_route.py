"""`ol bench route`: what it counts, what it concludes, and its path on a small model. Times decide nothing here."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner, Result

from autograder import bench_common, implementations
from autograder.benchmarks import routing
from autograder.benchmarks.serving import best_names
from autograder.cli import app
from course import lab, modules, routing_lab
from course.charts.routing import RoutingFigures
from course.engine.driving import Clock, Done, Request, Site
from course.engine.models import LoadedModel, load_model
from course.lab_models import on_threads
from course.progress import silent
from course.routing_chats import Plan, TokenChats
from course.routing_lab import BLOCK_NAMES, HIT_RATIO, ROUND_ROBIN, WAYS, WITH_BLOCKS, Routed, Routing
from course.traffic import ideal_hits

L104 = modules.find("L10.4")
SMALL = Plan(n_prompts=2, n_system=48, n_question=8, n_new=2, n_chats=5, n_turns=2, n_blocks=16, block_size=8, chunk=32)


@cache
def tiny() -> LoadedModel:
    return load_model("byte-tiny")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with on_threads(1):
        yield


def ol(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


# ---------------------------------------------------------------- engines that compute nothing


@dataclass
class StandIn:
    """A runner without a model: a step takes 4 ms and 0.28 ms a position, on a clock that is not real."""

    kv: Any
    now: float = 0.0

    def timer(self) -> float:
        return self.now

    def run(self, chunks: Sequence[Any]) -> list[int]:
        self.now += 0.004 + 0.00028 * max(16, sum(len(chunk.tokens) for chunk in chunks))
        return [chunk.end % 200 for chunk in chunks]

    def read_blocks(self, blocks: Sequence[int]) -> torch.Tensor:
        return torch.zeros(2, 2, len(blocks), 16, 2, 16)

    def write_blocks(self, blocks: Sequence[int], content: torch.Tensor) -> None:
        assert content.shape[2] == len(blocks)


@pytest.fixture
def without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    real = routing_lab._new_sites

    def sites(loaded: LoadedModel, names: Mapping[str, Any], plan: Plan, n: int = 2) -> list[Site]:
        made = real(loaded, names, plan, n)
        for site in made:
            runner = StandIn(site.runner.kv)
            site.runner, site.engine._runner, site.clock.timer = runner, runner, runner.timer
        return made

    monkeypatch.setattr(routing_lab, "_new_sites", sites)


@pytest.mark.usefixtures("without_a_model")
@pytest.mark.parametrize("seed", [0, 3])
def test_block_names_find_more_than_round_robin_and_the_first_token_comes_sooner(seed: int) -> None:
    result = routing.measure(tiny(), best_names(), Plan(seed=seed), 1, silent)
    assert result.shortfalls == []
    (measured,) = result.repeats
    rates = {way: routed.hit_rate for way, routed in measured.ways.items()}
    assert rates[BLOCK_NAMES] > rates[ROUND_ROBIN] + 0.15
    assert rates[HIT_RATIO] < rates[BLOCK_NAMES] <= measured.ideal
    assert measured.ways[WITH_BLOCKS].n_sent > 0
    assert all(routed.n_moves == 0 for way, routed in measured.ways.items() if way != WITH_BLOCKS)


@pytest.mark.usefixtures("without_a_model")
def test_equal_seeds_give_equal_results() -> None:
    first, again = (routing_lab.compare_routes(tiny(), best_names(), replace(SMALL, seed=4)) for _ in range(2))
    other = routing_lab.compare_routes(tiny(), best_names(), replace(SMALL, seed=5))
    assert first == again != other


@pytest.mark.usefixtures("without_a_model")
def test_a_slow_network_costs_the_request_that_waits_for_it() -> None:
    fast, slow = (
        routing_lab.compare_routes(tiny(), best_names(), Plan(network=network), (WITH_BLOCKS,)).ways[WITH_BLOCKS]
        for network in (1e12, 2e5)
    )
    assert fast.n_sent > 0 and slow.n_sent > 0
    assert max(slow.ttft) > max(fast.ttft) + 0.1


# ---------------------------------------------------------------- the chats


def test_a_turn_sends_the_whole_conversation_again() -> None:
    chats = TokenChats(SMALL, 256, 1.0, 1.0)
    first = chats.first()[0]
    second = chats.then(first, (5, 6), 10.0)
    assert second is not None
    assert second.prompt[: len(first.prompt) + 2] == (*first.prompt, 5, 6)
    assert len(second.prompt) == len(first.prompt) + 2 + SMALL.n_question
    assert second.at > 10.0 and second.session == first.session and second.name != first.name
    assert chats.then(second, (5, 6), 20.0) is None


def test_chats_share_a_few_system_prompts_and_come_one_after_another() -> None:
    first = TokenChats(replace(SMALL, n_chats=40), 256, 1.0, 1.0).first()
    assert len({request.prompt[: SMALL.n_system] for request in first}) == SMALL.n_prompts
    assert len({request.prompt for request in first}) == len({request.name for request in first}) == 40
    times = [request.at for request in first]
    assert times == sorted(times) and times[0] == 0 and 20 < times[-1] < 60
    assert first == TokenChats(replace(SMALL, n_chats=40), 256, 1.0, 1.0).first()


def done(prompt: Sequence[int], answer: Sequence[int], arrived: float) -> Done:
    request = Request(str(arrived), tuple(prompt), len(answer), arrived)
    return Done(request, "one", arrived, arrived, arrived, len(prompt), 0, 0, 0, tuple(answer), len(answer))


def ideal_hit_rate(rows: Sequence[Done], block_size: int) -> float:
    _, hits, asked = ideal_hits(rows, block_size)[-1]
    return hits / asked


def test_the_ideal_is_worked_out_by_hand() -> None:
    """L10.4, section 3, with blocks of 4: B finds two blocks of A, C one block; D's tokens stand at another place."""
    a, b, c, d = range(1, 11), [*range(1, 9), 99, 98, 97], range(1, 9), range(5, 9)
    rows = [done(a, [], 0.0), done(b, [], 1.0), done(c, [], 2.0), done([*d, 1], [], 3.0)]
    assert ideal_hit_rate(rows, 4) == (8 + 4) / (10 + 11 + 8 + 5)
    assert ideal_hit_rate(rows[1::-1], 4) == 8 / 21, "in the order in which they came"


def test_an_answer_is_found_again_but_for_its_last_token() -> None:
    again = done([1, 2, 3, 4, 5, 6, 7, 8, 9], [], 1.0)
    assert ideal_hit_rate([done([1, 2, 3, 4], [5, 6, 7, 8, 0], 0.0), again], 4) == 8 / 13
    assert ideal_hit_rate([done([1, 2, 3, 4], [5, 6, 7, 8], 0.0), again], 4) == 4 / 13


# ---------------------------------------------------------------- what follows from the numbers


def routed(way: str, rate: float, time: float, answers: tuple[tuple[int, ...], ...] = ((1, 2),)) -> Routed:
    return Routed(way, (time,), answers, (1, 1), (rate, rate), rate, 100)


def result(names: Routed, turn: Routed) -> routing.Result:
    return routing.Result((Routing(SMALL, 1.0, 0.9, {ROUND_ROBIN: turn, BLOCK_NAMES: names}),))


GOOD, POOR = routed(BLOCK_NAMES, 0.8, 0.02), routed(ROUND_ROBIN, 0.5, 0.05)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (GOOD, []),
        (replace(GOOD, hit_rate=0.5), ["The hit rate is no better"]),
        (replace(GOOD, ttft=(0.05,)), ["The mean TTFT", "The TTFT that 95 %"]),
        (replace(GOOD, ttft=(0.01, 0.01, 0.01, 0.06)), ["The TTFT that 95 %"]),
        (replace(GOOD, answers=((1, 3),)), ["The answers are not the same"]),
    ],
)
def test_what_must_hold(names: Routed, told: list[str]) -> None:
    shortfalls = result(names, POOR).shortfalls
    assert len(shortfalls) == len(told)
    assert all(sentence.startswith(start) for sentence, start in zip(shortfalls, told, strict=True))


def test_medians_of_repeats_decide_and_every_repeat_must_answer_alike() -> None:
    good, bad = result(GOOD, POOR).repeats[0], result(replace(GOOD, hit_rate=0.1), POOR).repeats[0]
    assert routing.Result((good, bad, good)).shortfalls == []
    assert routing.Result((good, bad, bad)).shortfalls != []
    wrong = result(replace(GOOD, answers=()), POOR).repeats[0]
    assert routing.Result((good, wrong, good)).shortfalls == ["The answers are not the same in all ways."]


def on_paper(what: routing.Result) -> str:
    paper = Console(width=120, record=True, file=io.StringIO())
    paper.print(routing.routing_view(what, "a model"))
    return paper.export_text()


def test_the_table_has_what_was_measured_and_what_falls_short() -> None:
    text = on_paper(result(replace(GOOD, n_moves=2, n_had=3, n_sent=1_234, n_bytes=5_600_000), POOR))
    (row,) = (line for line in text.splitlines() if BLOCK_NAMES in line)
    assert " ".join(row.replace("│", " ").split()[2:]) == "20 20 20 80.0% 80% 80% 1 1 100 1,234 3"
    assert "5.6 MB" in text and "90.0%" in text and "all answers are the same" in text
    assert "The hit rate is no better" in on_paper(result(replace(GOOD, hit_rate=0.1), POOR))


# ---------------------------------------------------------------- the whole path


def test_the_same_answers_in_all_ways_on_a_real_model() -> None:
    measured = routing_lab.compare_routes(tiny(), best_names(), SMALL)
    assert measured.same_answers and list(measured.ways) == list(WAYS)
    for each in measured.ways.values():
        assert len(each.ttft) == len(each.answers) == sum(each.requests) == SMALL.n_requests
        assert min(each.ttft) > 0 and all(len(answer) == SMALL.n_new for answer in each.answers)
        assert min(each.hit_rates) <= each.hit_rate <= max(each.hit_rates) and each.hit_rate <= measured.ideal
    assert measured.ways[ROUND_ROBIN].requests == (5, 5)


def test_a_notebook_measures_its_own_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    names = best_names()

    def manager(*arguments: Any) -> Any:
        made.append(arguments)
        return names["BlockManager"](*arguments)

    monkeypatch.setattr(lab, "_lent", {})
    monkeypatch.setattr(modules, "_offered", [])
    with modules.bound({**names, "BlockManager": manager}):
        measured = routing_lab.two_engines("byte-tiny", plan=SMALL)
    assert measured.same_answers and len(made) == 3 + 2 * len(WAYS)
    figures = routing_lab.routing_figures([measured, measured])
    assert isinstance(figures, RoutingFigures) and figures.ideal == measured.ideal
    assert figures.ways[ROUND_ROBIN].p50 == (measured.ways[ROUND_ROBIN].p50,) * 2
    with pytest.raises(ValueError, match="measure at least once"):
        routing_lab.routing_figures([])


def test_a_flat_model_without_options_does_as_well() -> None:
    flat = implementations.flat(L104).names
    assert routing_lab.compare_routes(tiny(), flat, replace(SMALL, n_chats=2)).same_answers


def test_the_command_writes_a_chart_and_numbers(tmp_path: Path) -> None:
    said = ol("bench", "route", "--model", "byte-tiny", "--chats", "2", "--repeats", "2", "--out", str(tmp_path))
    assert said.exit_code == 0, said.output
    assert "Two engines behind a router, byte-tiny model on cpu" in said.output and "round robin" in said.output
    assert (tmp_path / "bench_route.png").read_bytes().startswith(b"\x89PNG")
    data = json.loads((tmp_path / "bench_route.json").read_text(encoding="utf-8"))
    assert [repeat["plan"]["seed"] for repeat in data["repeats"]] == [0, 1]
    assert list(data["repeats"][0]["ways"]) == list(WAYS) and data["repeats"][0]["same_answers"] is True
    assert "answers" not in data["repeats"][0]["ways"][ROUND_ROBIN]


def test_json_is_all_that_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "measure", lambda *_: result(GOOD, POOR))
    said = ol("bench", "route", "--model", "byte-tiny", "--json", "--out", str(tmp_path))
    assert json.loads(said.stdout)["shortfalls"] == []


@pytest.mark.parametrize(("names", "asked", "code"), [(GOOD, True, 0), (POOR, False, 0), (POOR, True, 1)])
def test_assert_decides_the_exit_code(
    names: Routed, asked: bool, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "measure", lambda *_: result(names, POOR))
    said = ol("bench", "route", "--model", "byte-tiny", "--out", str(tmp_path), *["--assert"] * asked)
    assert said.exit_code == code, said.output


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--model", "no-such-model"], "no model 'no-such-model'"),
        (["--model", "byte-tiny", "--blocks", "4"], "the pool has 4"),
        (["--model", "byte-tiny", "no-such-file.py"], "no-such-file.py"),
    ],
)
def test_what_cant_be_measured_is_exit_code_2(options: list[str], told: str, tmp_path: Path) -> None:
    said = ol("bench", "route", "--out", str(tmp_path), *options)
    assert said.exit_code == 2 and told in " ".join(said.stderr.split())


def test_a_folder_that_cant_be_written_is_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(routing, "measure", lambda *_: result(GOOD, POOR))
    said = ol("bench", "route", "--model", "byte-tiny", "--out", str(tmp_path / "file"))
    assert said.exit_code == 2 and "can't write" in said.stderr


def test_a_submission_is_measured_over_its_own_manager(tmp_path: Path) -> None:
    work = tmp_path / "block_manager.py"
    work.write_text(implementations.reference_source(L104), encoding="utf-8")
    said = ol(
        "bench",
        "route",
        str(work),
        "--model",
        "byte-tiny",
        "--chats",
        "2",
        "--repeats",
        "1",
        "--json",
        "--out",
        str(tmp_path),
    )
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["submission"] == str(work)


def test_a_submission_that_breaks_is_exit_code_2(tmp_path: Path) -> None:
    work = tmp_path / "block_manager.py"
    source = implementations.reference_source(L104)
    work.write_text(source.replace("def allocate(self", "def allocate_it(self"), encoding="utf-8")
    said = ol("bench", "route", str(work), "--model", "byte-tiny", "--out", str(tmp_path))
    assert said.exit_code == 2 and "can't be measured" in said.stderr


def test_both_kinds_of_publishing_can_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []

    def measure(_loaded: object, _names: object, plan: Plan, *_: object) -> routing.Result:
        plans.append(plan)
        return result(GOOD, POOR)

    monkeypatch.setattr(routing, "measure", measure)
    for when in bench_common.Publish:
        ol("bench", "route", "--model", "byte-tiny", "--publish", when.value, "--out", str(tmp_path))
    assert [plan.publish for plan in plans] == ["release", "prefill"]


def test_a_clock_of_its_own_and_one_thread() -> None:
    first, second = routing_lab._new_sites(tiny(), best_names(), SMALL)
    assert isinstance(first.clock, Clock) and first.clock is not second.clock and first.name != second.name

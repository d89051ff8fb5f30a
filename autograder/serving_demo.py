"""The first half of `ol demo`: chats that share a system prompt, served without a cache and with each of two.

It knows what is served, what is shown and what must hold: the answers are the same in all modes. It
does not know how a prefix is found again, or how a model computes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from autograder.benchmarks.serving import Served, Server, best_names, half_of_the_cores, new_server, serve
from autograder.benchmarks.tables import table
from autograder.terminal import progress
from course import charts
from course.contract import PrefixCache
from course.lab_models import on_threads
from course.workloads import Chat, Question, homework_help

if TYPE_CHECKING:
    from course.engine.config import EngineConfig
    from course.engine.models import LoadedModel

NEW_TOKENS = 40
SHOWN_ANSWERS = 3


@dataclass
class Run:
    """One mode: what it served so far, each request with its question, its answer and the hit rate after it."""

    mode: PrefixCache
    questions: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)
    hit_rates: list[float] = field(default_factory=list)
    blocks: str = ""

    @property
    def ttft(self) -> list[float]:
        """Seconds to the first token of each request."""
        return [each.ttft for each in self.served]

    @property
    def prefill_tokens(self) -> int:
        """Prompt positions computed so far."""
        return sum(each.prefill_tokens for each in self.served)


Show = Callable[[RenderableType], None]
"""Shows what is going on, below the table."""


def serving_demo(console: Console, model: str, out: Path) -> bool:
    """Serve the chats in every mode, and show what a cache saves. Returns whether the answers are the same."""
    chat = homework_help()
    loaded = _load(console, model)
    again = sum(bool(question.again) for question in chat.questions)
    console.print(
        f"{loaded.name} answers {len(chat.questions)} chats that share a system prompt of "
        f"{len(loaded.tokenizer.encode(chat.system)):,} tokens, and a second question of {again} of them, one after "
        "another:\nwithout a cache, with the hash cache and with the radix cache.\n",
        highlight=False,
    )
    with on_threads(half_of_the_cores()):
        runs = _served(console, loaded, chat)
    console.print(_table(runs))
    _draw(console, runs, loaded.name, out)
    return _compare(console, runs)


def _load(console: Console, model: str) -> LoadedModel:
    """The model that was asked for, or the byte model and a sentence why."""
    from course.engine.models import ModelUnavailable, load_model

    with progress(f"model {model}", out=console) as tell:
        try:
            return load_model(model, report=tell)
        except ModelUnavailable as problem:
            console.print(f"{problem}", style="yellow", markup=False)
    console.print(
        "The byte model takes its place: its weights are random, so its answers mean nothing, "
        "and times and counts are as real as ever.\n",
        style="yellow",
    )
    return load_model("byte")


# ---------------------------------------------------------------- serving


def _served(console: Console, loaded: LoadedModel, chat: Chat) -> list[Run]:
    runs = [Run(mode) for mode in PrefixCache]
    if not console.is_terminal:
        for run in runs:
            _serve_all(run, loaded, chat, lambda doing: None)
        return runs
    with Live(console=console, transient=True, auto_refresh=False) as live:
        for run in runs:
            _serve_all(run, loaded, chat, lambda doing: live.update(Group(_table(runs), doing), refresh=True))
    return runs


def _serve_all(run: Run, loaded: LoadedModel, chat: Chat, show: Show) -> None:
    """Every first turn, then every second one, each when the one before it is answered."""
    server = new_server(loaded, _config(loaded, chat, run.mode), best_names())
    first: dict[Question, str] = {}
    for question in chat.questions:
        first[question] = _serve_one(run, server, loaded, chat.first_turn(question), show)
    for question, answer in first.items():
        if question.again:
            _serve_one(run, server, loaded, chat.second_turn(question, answer), show)
    held = server.manager.cached_blocks
    run.blocks = f"{held} of {server.pool.n_blocks}"


def _serve_one(run: Run, server: Server, loaded: LoadedModel, messages: list[dict[str, str]], show: Show) -> str:
    question, number = messages[-1]["content"], len(run.served) + 1

    def heard(tokens: Sequence[int]) -> None:
        answer = loaded.tokenizer.decode(tokens)
        show(Text(f"{run.mode.value}, request {number}: {question}\n{answer}", "dim", no_wrap=False))

    heard(())
    prompt = loaded.tokenizer.encode(loaded.chat(messages))
    served = serve(server, prompt, NEW_TOKENS, loaded.tokenizer.stop_ids, heard)
    answer = loaded.tokenizer.decode(served.tokens)
    run.questions.append(question)
    run.answers.append(answer)
    run.served.append(served)
    run.hit_rates.append(server.manager.hit_rate)
    return answer


def _config(loaded: LoadedModel, chat: Chat, mode: PrefixCache) -> EngineConfig:
    """Room for the longest conversation three times over: nothing has to be evicted."""
    from course.engine.config import EngineConfig

    longest = max(
        (chat.second_turn(question, " word" * NEW_TOKENS) for question in chat.questions),
        key=lambda messages: sum(len(message["content"]) for message in messages),
    )
    positions = len(loaded.tokenizer.encode(loaded.chat(longest))) + NEW_TOKENS
    blocks = 3 * EngineConfig().blocks_for(positions)
    return EngineConfig(model=loaded.name, prefix_cache=mode, n_blocks=blocks, max_running=1)


# ---------------------------------------------------------------- showing


def _table(runs: Sequence[Run]) -> Table:
    n = max(len(run.served) for run in runs)
    made = table(
        f"{n} requests in each mode" if n else "Time to first token (TTFT)",
        "prefix cache", "TTFT p50", "TTFT p95", "prefill tokens", "hit rate", "cached blocks",
    )  # fmt: skip
    for run in runs:
        if not run.served:
            made.add_row(Text(run.mode.value, "dim"))
            continue
        made.add_row(
            run.mode.value,
            f"{charts.milliseconds(statistics.median(run.ttft))} ms",
            f"{charts.milliseconds(percentile(run.ttft, 95))} ms",
            f"{run.prefill_tokens:,}",
            f"{run.hit_rates[-1]:.1%}",
            run.blocks or "…",
        )
    return made


def percentile(values: Sequence[float], percent: int) -> float:
    """The least of the values that so many percent of them don't exceed (nearest rank)."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


def _draw(console: Console, runs: Sequence[Run], model: str, out: Path) -> None:
    warm = {run.mode.value: run.ttft[1:] for run in runs}
    rates = {run.mode.value: run.hit_rates for run in runs}
    n = len(runs[0].served)
    note = f"{model}, requests 2 to {n}: median and range; the first one finds every cache empty"
    console.print(f"\n{charts.ttft_text(warm)}\n({note})\n\n{charts.hit_rate_text(rates)}\n", highlight=False)
    try:
        ttft = charts.ttft_chart(warm, out / "demo_ttft.png", note)
        hits = charts.hit_rate_chart(rates, out / "demo_hit_rate.png", f"{model}, one request after another")
    except OSError as problem:
        console.print(f"The charts can't be written: {problem}", style="yellow", markup=False)
    else:
        console.print(f"Charts: {ttft} and {hits}\n", highlight=False, markup=False)


def _compare(console: Console, runs: Sequence[Run]) -> bool:
    """Show some answers, and say whether every mode gave the same ones."""
    for question, answer in list(zip(runs[0].questions, runs[0].answers, strict=True))[:SHOWN_ANSWERS]:
        console.print(Text.assemble((f"{question}\n", "bold"), f"  {' '.join(answer.split())}"))
    tokens = [[each.tokens for each in run.served] for run in runs]
    if all(other == tokens[0] for other in tokens):
        console.print(f"\nAll {len(tokens[0])} answers are the same in all modes, token for token.", style="bold green")
        return True
    console.print("\nNot as it should be: the answers are not the same in all modes.", style="bold red")
    return False

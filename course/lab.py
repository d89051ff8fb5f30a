"""The lab: prompts go through the real engine in one call, and what came of it can be looked at.

It knows how an engine is put together over a pool and a manager, and what is worth noting of each request.
Whose pool and manager they are it does not know: they are given, bound in `course.modules`, or lent by whoever
runs the notebook. Importing it is cheap: torch and a model load with the first call.
"""

from __future__ import annotations

import inspect
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from course import modules
from course.contract import PrefixCache
from course.engine.tokenizer import N_BYTES, byte_chat
from course.lab_models import LAB_THREADS, on_threads, ready_model
from course.lab_views import Served, Spelled, StepDone, Steps, side_by_side
from course.workloads import Message, homework_help, shared_system_prompt

if TYPE_CHECKING:
    from course.engine.engine import Engine
    from course.engine.models import LoadedModel
    from course.engine.requests import Event, Record, RequestId

__all__ = [
    "Served",
    "Server",
    "as_prompt",
    "lend",
    "lend_for_options",
    "serve",
    "server",
    "shared_prompts",
    "side_by_side",
    "spelled_tree",
    "takes_option",
    "token_prompts",
]

NEW_TOKENS: Mapping[str, int] = {"byte": 4, "smollm2": 16}
"""Tokens of an answer: enough to see that it is the same one, and to read it where it means something."""

BLOCKS = 512
"""Blocks of a pool that is large enough for everything on a notebook's page."""

PARAGRAPHS = 3
"""How much of the homework helper's system prompt a larger model gets: some 370 tokens, seconds of prefill."""

QUESTIONS = (
    "I lost my library card on the bus this morning. What should I do now, and can I still take books home?",
    "Do you have picture books in Spanish for a boy of four, and may I keep them for longer than three weeks?",
    "My book fell into the bath and its pages are wavy now. Do I have to pay for it, or can you dry it?",
    "Is there a quiet room where two of us may practise a talk this week, and how do we ask for the room?",
    "I am looking for a novel about a lighthouse. The cover was blue, and I read it in school long ago.",
    "Can I read old newspapers of this town here, from the year in which my grandmother was born, or online?",
    "May I bring back books to another branch of the library, or must they come back to the one I chose?",
    "How can I ask you to buy a book that you do not have, and will somebody tell me when it has come in?",
)
"""What readers ask the help desk, each in about a hundred bytes: half as long as the system prompt before it."""

Prompt = str | Sequence[int]
"""A text, special tokens written out in it, or token ids."""


# ---------------------------------------------------------------- prompts


def shared_prompts(n: int = 6, model: str = "byte") -> list[str]:
    """Prompts of n users that all begin with one system prompt and each go on with a question of their own.

    Args:
        n: how many; from the ninth on the questions come again, from users who say their number.
        model: whose words for a chat to use. The byte model gets the system prompt of 224 bytes that L10.4,
            section 4 measures with; another model a long one.
    """
    chat = homework_help()
    questions = QUESTIONS if model == "byte" else [question.user for question in chat.questions]
    system = shared_system_prompt() if model == "byte" else "\n\n".join(chat.system.split("\n\n")[:PARAGRAPHS])
    asked = [_numbered(questions[i % len(questions)], i, len(questions)) for i in range(n)]
    return [
        as_prompt([{"role": "system", "content": system}, {"role": "user", "content": question}], model)
        for question in asked
    ]


def _numbered(question: str, place: int, n_questions: int) -> str:
    return question if place < n_questions else f"Reader {place + 1} here. {question}"


def token_prompts(n: int, prefix: int, suffix: int, seed: int = 0) -> list[list[int]]:
    """n prompts of token ids for the byte model: `prefix` that all of them share, then `suffix` of each one's own."""
    source = random.Random(seed)
    shared = [source.randrange(N_BYTES) for _ in range(prefix)]
    return [[*shared, *(source.randrange(N_BYTES) for _ in range(suffix))] for _ in range(n)]


def as_prompt(messages: Sequence[Message], model: str = "byte") -> str:
    """The text that a model reads for a conversation, up to where its answer begins."""
    return byte_chat(messages) if model == "byte" else ready_model(model).chat(messages)


# ---------------------------------------------------------------- whose classes


_lent: dict[str, object] = {}
_for_options: dict[str, object] = {}


def lend(names: Mapping[str, object]) -> None:
    """Let these stand for names of `course.modules` that nobody has bound, for the engine alone."""
    _lent.update(names)


def lend_for_options(names: Mapping[str, object]) -> None:
    """Let this `BlockManager` be taken where an option is asked for that the one in use doesn't have."""
    _for_options.update(names)


def _manager_class(options: Mapping[str, str], order: str) -> Any:
    """The class of managers that is in use here, if it has all that these options ask for; else the one lent for them.

    Raises:
        RuntimeError: neither has it.
    """
    needs = [f"the option {option}" for option in options if not takes_option(class_in_use("BlockManager"), option)]
    needs += ["the call cached_prefix"] * (
        order == "prefix" and not hasattr(class_in_use("BlockManager"), "cached_prefix")
    )
    if not needs:
        return class_in_use("BlockManager")
    if "BlockManager" not in _for_options:
        raise RuntimeError(f"the BlockManager in use here lacks {' and '.join(needs)}: give another one as `manager`")
    return _for_options["BlockManager"]


def takes_option(made: Any, option: str) -> bool:
    """Whether a class, or whatever else makes a manager, has a parameter of this name."""
    try:
        return option in inspect.signature(made).parameters
    except (TypeError, ValueError):
        return False


def class_in_use(name: str) -> Any:
    """What stands for a name of the course here: bound, or lent. Raises RuntimeError where nothing does."""
    try:
        return getattr(modules, name)
    except ImportError:
        if name in _lent:
            return _lent[name]
    raise RuntimeError(
        f"there is no {name} for the engine here: run the notebook's first cell, or bind one with "
        f'course.modules.bind({{"{name}": ...}})'
    )


# ---------------------------------------------------------------- an engine


@dataclass(frozen=True)
class Server:
    """An engine, with the pool and the manager that it runs on, to be looked at between any two steps."""

    engine: Engine = field(repr=False)
    pool: Any
    manager: Any
    loaded: LoadedModel = field(repr=False)
    new_tokens: int

    @property
    def model(self) -> str:
        """What answers."""
        return self.loaded.name

    def add(self, prompt: Prompt) -> RequestId:
        """Queue a request; its number, which is its sequence's name in the manager too."""
        ids = self.loaded.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
        return self.engine.add(ids, self.new_tokens, self.loaded.tokenizer.stop_ids)

    def step(self) -> list[Event]:
        """Compute one step, if there is something to do; what happened in it."""
        with on_threads(LAB_THREADS):
            return self.engine.step()

    def run(self) -> Steps:
        """Step until every request is answered; what each step computed, and how long it took."""
        steps = []
        while not self.engine.idle:
            begun = time.perf_counter()
            events = self.step()
            steps.append(StepDone.of(events, 1e3 * (time.perf_counter() - begun)))
        return Steps(tuple(steps))

    def record(self, request: RequestId) -> Record:
        """What the engine notes of a request: its tokens, what was cached, what was computed."""
        return self.engine.records[request]

    def answer(self, request: RequestId) -> str:
        """The text of a request's answer so far."""
        return self.loaded.tokenizer.decode(self.record(request).tokens)


def server(
    prefix_cache: str = "none",
    model: str = "byte",
    manager: Callable[..., Any] | None = None,
    *,
    n_blocks: int = BLOCKS,
    block_size: int = 16,
    chunk: int = 256,
    at_once: int = 8,
    new_tokens: int | None = None,
    publish: str = "release",
    eviction: str = "lru",
    order: str = "arrival",
) -> Server:
    """An engine with empty blocks.

    Args:
        prefix_cache: "none", "hash" or "radix".
        model: "byte", or "smollm2", whose place the byte model takes where it can't be had.
        manager: makes the manager of (pool, mode); by default the `BlockManager` that is bound, or lent, here.
        n_blocks: blocks in the pool.
        block_size: token positions in a block (B).
        chunk: positions computed in one step at most, so also the longest chunk of a prefill.
        at_once: requests that hold blocks at the same time, at most.
        new_tokens: tokens of an answer, at most; by default few.
        publish: "release" or "prefill": blocks can be found when their request ends, or as soon as they are computed.
        eviction: "lru", "lfu" or "depth": which leaves of the radix tree go first.
        order: "arrival" or "prefix": who of those that wait comes next.

    Raises:
        RuntimeError: there is no pool or no manager here, or none that has these options.
    """
    from course.engine.config import EngineConfig
    from course.engine.engine import start

    mode, loaded = PrefixCache(prefix_cache), ready_model(model)
    config = EngineConfig(
        model=loaded.name,
        prefix_cache=mode,
        block_size=block_size,
        n_blocks=n_blocks,
        max_batch_tokens=chunk,
        max_running=at_once,
        publish=publish,
        eviction=eviction,
        order=order,
    )
    options = config.manager_options
    pool = class_in_use("KvPool")(n_blocks, block_size)
    managed = (manager or _manager_class(options, order))(pool, mode, **options)
    engine = start(loaded, config, make_pool=lambda *_: pool, make_manager=lambda *_, **__: managed)
    return Server(engine, pool, managed, loaded, new_tokens or NEW_TOKENS.get(loaded.name, 4))


def serve(
    prompts: Sequence[Prompt],
    prefix_cache: str = "none",
    model: str = "byte",
    manager: Callable[..., Any] | None = None,
    *,
    at_once: int = 1,
    **settings: Any,
) -> Served:
    """Serve prompts on an engine of their own, in order, and note what each of them took.

    Args:
        prompts: texts or token ids, at least one.
        prefix_cache: "none", "hash" or "radix".
        model: "byte" or "smollm2", as in `server`.
        manager: makes the manager of (pool, mode), as in `server`.
        at_once: requests under way at the same time. With one, a request comes when the one before is answered.
        settings: sizes and options, as in `server`.

    Raises:
        ValueError: no prompt, or one that can't be served with so few blocks.
        RuntimeError: there is no pool or no manager here.
    """
    if not prompts:
        raise ValueError("there is nothing to serve: give at least one prompt")
    made = server(prefix_cache, model, manager, at_once=at_once, **settings)
    records, rates = _all_served(made, prompts, at_once)
    return Served(
        model=made.model,
        prefix_cache=PrefixCache(prefix_cache).value,
        n_prompt=tuple(record.n_prompt for record in records),
        ttft_ms=tuple(1e3 * (record.ttft or 0.0) for record in records),
        prefill_tokens=tuple(record.prefill_tokens for record in records),
        cached_tokens=tuple(record.cached_tokens for record in records),
        preemptions=tuple(record.preemptions for record in records),
        answers=tuple(made.answer(record.id) for record in records),
        tokens=tuple(tuple(record.tokens) for record in records),
        hit_rates=tuple(rates),
        evictions=made.manager.stats.evictions,
        pool=made.pool,
        manager=made.manager,
    )


def _all_served(made: Server, prompts: Sequence[Prompt], at_once: int) -> tuple[list[Record], list[float]]:
    """The record of every request, and the hit rate whenever one was finished; a next one comes when one is."""
    waiting, open_, records, rates = deque(prompts), 0, [], []
    while waiting or open_:
        while waiting and open_ < at_once:
            records.append(made.record(made.add(waiting.popleft())))
            open_ += 1
        made.step()
        still = sum(record.reason is None for record in records)
        rates += [made.manager.hit_rate] * (open_ - still)
        open_ = still
    return records, rates


def spelled_tree(made: Server | Served) -> Any:
    """The radix tree of a server, to be drawn: one piece of text a node, and how many blocks hold it.

    The contract does not say where a manager keeps its cache, so this looks through what it holds. A manager
    without a tree gives itself back, and `draw_tree` says so.
    """
    held = getattr(made.manager, "__dict__", {}).values()
    tree = next((value.tree for value in held if hasattr(value, "tree")), None)
    if tree is None:
        return made.manager
    return Spelled(tree, ready_model(made.model).tokenizer.decode)

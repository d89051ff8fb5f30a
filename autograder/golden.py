"""The golden trace of L8.4: what an engine asked of a radix cache, and what a correct one answered.

It knows the trace's file format, both ways. `python -m autograder.golden` writes the file anew from
the flat model; a test fails if the file and this script no longer agree. It does not know how a
cache's answers are judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import implementations
from autograder.engine_steps import BLOCK_SIZE, N_BLOCKS, engine_story
from autograder.stories import Call, Outcome, Ref, Script, Story, play
from course import modules
from course.contract import Inserted, PrefixMatch, PrefixStats

FIXTURE = Path(__file__).parent.parent / "fixtures" / "L8.4" / "radix_trace.txt"
SEED = 84
OPERATIONS = 300
COUNTS = ("cached_tokens", "evictable_blocks")
"""What is read after every operation."""

HEAD = f"""\
# {OPERATIONS} operations of an engine on a radix cache (L8.4), with what a correct cache answers to each.
# An engine over {N_BLOCKS} blocks of {BLOCK_SIZE} tokens admits prompts, ends and preempts requests, and evicts
# when it is short of blocks. The answers are those of the flat model: dictionaries and scans, no tree.
#
# One line an operation:
#
#     number call -> answer ; cached_tokens evictable_blocks
#
#     match_prefix TOKENS    -> matched_tokens / BLOCKS
#     insert TOKENS / BLOCKS -> DUPLICATES
#     lock @NUMBER           -> ok       the node that operation NUMBER, a match, gave
#     unlock @NUMBER         -> ok
#     evict N                -> BLOCKS   in the order in which they come out
#
# TOKENS, BLOCKS and DUPLICATES are numbers between blanks, or - for none. The two numbers after the
# semicolon are read once the operation is done. Node ids are not recorded: they are the cache's own.
# The first line below gives the block size, the last one the counters at the end.
#
# Written by `python -m autograder.golden`.
"""


@dataclass(frozen=True)
class Trace:
    """A recorded run: the calls, and for each the outcome that was recorded."""

    story: Story
    recorded: tuple[Outcome, ...]


# ---------------------------------------------------------------- making one


def fresh_trace(seed: int, operations: int = OPERATIONS) -> Trace:
    """A run of the flat model from a seed, which nobody has seen before."""
    script = Script(list(engine_story(seed, operations, COUNTS)))
    script.ask(Ref(0), "stats")
    flat = implementations.flat(modules.find("radix_cache"))
    return Trace(script.story, tuple(without_node(outcome) for outcome in play(script.story, flat.names)))


def without_node(outcome: Outcome) -> Outcome:
    """An outcome as the file keeps it: a match as (tokens, blocks), an insertion as its duplicates."""
    if isinstance(outcome.value, PrefixMatch):
        return Outcome((outcome.value.matched_tokens, outcome.value.blocks))
    return Outcome(outcome.value.duplicates) if isinstance(outcome.value, Inserted) else outcome


# ---------------------------------------------------------------- writing it down


def write(trace: Trace) -> str:
    """The trace as the text of a file."""
    size = len(COUNTS) + 1
    *operations, stats = list(zip(trace.story, trace.recorded, strict=True))[1:]
    numbers = {call.label: place // size + 1 for place, (call, _) in enumerate(operations)}
    lines = [f"block_size {trace.story[0].args[0]}"]
    for start in range(0, len(operations), size):
        (call, outcome), *counts = operations[start : start + size]
        after = " ".join(str(count.value) for _, count in counts)
        lines.append(f"{numbers[call.label]} {_written(call, numbers)} -> {_answer(call, outcome)} ; {after}")
    lines.append("stats " + " ".join(f"{name}={value}" for name, value in vars(stats[1].value).items()))
    return HEAD + "\n".join(lines) + "\n"


def _written(call: Call, numbers: dict[int, int]) -> str:
    return f"{call.verb} " + " / ".join(
        f"@{numbers[arg.call]}" if isinstance(arg, Ref) else _row([arg] if isinstance(arg, int) else arg)
        for arg in call.args
    )


def _answer(call: Call, outcome: Outcome) -> str:
    if call.verb == "match_prefix":
        matched, blocks = outcome.value
        return f"{matched} / {_row(blocks)}"
    return "ok" if outcome.value is None else _row(outcome.value)


def _row(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers)) or "-"


# ---------------------------------------------------------------- reading it back

LINE = re.compile(r"(?P<number>\d+) (?P<verb>\w+) (?P<args>.+) -> (?P<answer>.+) ; (?P<counts>.+)")


def read(text: str) -> Trace:
    """The trace in a file's text. Raises ValueError for a line that is not of the format."""
    first, *lines, last = [line for line in text.splitlines() if line and not line.startswith("#")]
    script = Script()
    cache = script.new("RadixCache", int(first.removeprefix("block_size ")))
    recorded = [Outcome(made="RadixCache")]
    refs: dict[str, Ref] = {}
    for line in lines:
        parts = LINE.fullmatch(line)
        if parts is None:
            raise ValueError(f"not a line of a trace: {line!r}")
        args = [_read_arg(parts["verb"], arg, refs) for arg in parts["args"].split(" / ")]
        refs[parts["number"]] = script.ask(cache, parts["verb"], *args)
        recorded.append(Outcome(READ_ANSWER[parts["verb"]](parts["answer"])))
        for question, count in zip(COUNTS, _numbers(parts["counts"]), strict=True):
            script.ask(cache, question)
            recorded.append(Outcome(count))
    script.ask(cache, "stats")
    counters = (pair.split("=") for pair in last.split()[1:])
    recorded.append(Outcome(PrefixStats(**{name: int(value) for name, value in counters})))
    return Trace(script.story, tuple(recorded))


def _read_arg(verb: str, arg: str, refs: dict[str, Ref]) -> Any:
    if arg.startswith("@"):
        return refs[arg[1:]].at("node")
    return int(arg) if verb == "evict" else _numbers(arg)


def _numbers(row: str) -> list[int]:
    return [] if row == "-" else [int(number) for number in row.split()]


def _read_match(answer: str) -> tuple[int, tuple[int, ...]]:
    matched, blocks = answer.split(" / ")
    return int(matched), tuple(_numbers(blocks))


READ_ANSWER: dict[str, Callable[[str], Any]] = {
    "match_prefix": _read_match,
    "insert": lambda answer: tuple(_numbers(answer)),
    "lock": lambda answer: None,
    "unlock": lambda answer: None,
    "evict": _numbers,
}
"""How the answer to each call is read."""


def golden_trace() -> Trace:
    """The trace in the fixture."""
    return read(FIXTURE.read_text(encoding="utf-8"))


def main() -> None:
    """Write the fixture anew."""
    FIXTURE.parent.mkdir(parents=True, exist_ok=True)
    FIXTURE.write_text(write(fresh_trace(SEED)), encoding="utf-8")
    print(f"wrote {FIXTURE.name}: {OPERATIONS} operations")


if __name__ == "__main__":
    main()

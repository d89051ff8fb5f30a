"""Judging block manager stories: the judge runs a workload again, from the answers of the implementation under test.

It keeps its own books of who holds which block and what can be found, and computes every position through the
tables that it was given. Which block comes for which position, and what is evicted first, is not its business.
Of how the stories are written (`autograder.workload_block_manager`) it knows the block size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autograder.comparing import same_type
from autograder.judging import Fault, Judge
from autograder.stand_in import ChecksumRunner, NoBlock, WriteRefused, answer_of, contents_of
from autograder.stories import Call, Outcome, Ref, Story, play
from autograder.telling import describe
from autograder.workload_block_manager import BLOCK_SIZE
from course.contract import Allocation, BlockId, PrefixCache, SeqId

CHUNK = 6
"""The judge computes pieces that end inside a block, so that a block is written in more than one step."""


# ---------------------------------------------------------------- the books


class _Broken(Exception):
    """An answer that breaks a rule: the rule, what was expected and what came."""


class _Untold(Exception):
    """A shortened story does not show a block that matters from here on: no more can be said."""


Path = tuple[int, ...]
"""What names a block in any cache: the tokens from the first on to its last."""


@dataclass
class _Running:
    """An admitted sequence: its tokens so far, its table, how many blocks of it were hits, and how far it is.

    The first `published` blocks of it are in a cache, hits among them. The next `unsure` ones were offered as well,
    where a twin's block may have been before.
    """

    seq: SeqId
    tokens: list[int]
    table: list[BlockId]
    hits: int
    slots: int
    computed: int
    published: int = 0
    unsure: int = 0

    @property
    def untold(self) -> bool:
        """Whether the table has grown since it was last shown."""
        return self.slots > len(self.table) * BLOCK_SIZE

    def paths(self, first: int, end: int) -> list[Path]:
        """The paths of some of its blocks."""
        return [tuple(self.tokens[: (at + 1) * BLOCK_SIZE]) for at in range(first, end)]


@dataclass
class _Books:
    """Who holds which block, and what is in it, by the calls so far and the answers to them.

    `stored` are the paths that were ever made findable.
    """

    n_blocks: int
    mode: PrefixCache
    early: bool = False
    running: dict[SeqId, _Running] = field(default_factory=dict)
    stored: set[Path] = field(default_factory=set)
    hit_tokens: int = 0
    n_used: int | None = None
    n_free: int | None = None

    def __post_init__(self) -> None:
        self.runner = ChecksumRunner(BLOCK_SIZE, self._refused)

    def holders(self, block: BlockId) -> list[SeqId]:
        """The running sequences with this block in their table."""
        return [held.seq for held in self.running.values() if block in held.table]

    @property
    def held(self) -> set[BlockId]:
        """The blocks of all running sequences."""
        return {block for held in self.running.values() for block in held.table}

    def _refused(self, block: BlockId) -> str:
        holders = self.holders(block)
        return f"is held by {holders}: writes go to blocks that one sequence holds" if len(holders) != 1 else ""

    # ------------------------------------------------------------ entries

    def allocate(self, call: Call, want: Any, got: Any, evicted: bool) -> None:
        """An admission: as many blocks as the prompt needs; hits hold its prefix; the others are nobody's."""
        seq, tokens = call.args
        rule = "A prompt is admitted exactly when its fresh blocks can be had, free or by eviction."
        _must((got is None) == (want is None), rule, "None" if want is None else "an Allocation", got)
        if got is None:
            return
        hits = got.cached_tokens // BLOCK_SIZE
        rule = "A table has ceil(n / B) blocks, each of them once."
        _equal((len(got.blocks), len(set(got.blocks))), (-(-len(tokens) // BLOCK_SIZE),) * 2, rule)
        self._check_hits(tokens, got, None if evicted else want.cached_tokens)
        for block in got.blocks[hits:]:
            _equal(
                self.holders(block), [], f"A fresh block is nobody else's: block {block} is held by a running sequence."
            )
        self.running[seq] = _Running(seq, list(tokens), list(got.blocks), hits, len(tokens), got.cached_tokens, hits)
        self.hit_tokens += got.cached_tokens

    def _check_hits(self, tokens: Sequence[int], got: Allocation, expected: int | None) -> None:
        usable = (len(tokens) - 1) // BLOCK_SIZE * BLOCK_SIZE
        rule = "Hits are whole blocks and never cover the last prompt token."
        legal = got.cached_tokens % BLOCK_SIZE == 0 and 0 <= got.cached_tokens <= usable
        _must(legal, rule, f"a multiple of {BLOCK_SIZE}, at most {usable}", got)
        if expected is not None:
            whose = "others have published or left behind" if self.early else "ended requests left behind"
            rule = f"While nothing has been evicted, a prompt reuses the longest prefix that {whose}."
            _equal(got.cached_tokens, expected, rule)
        read = [self.runner.read("", got.blocks, position) for position in range(got.cached_tokens)]
        rule = "A hit holds the K and V of exactly this prompt's prefix: every token up to it, from the first one on."
        wrong = [
            place for place, (have, true) in enumerate(zip(read, contents_of(tokens), strict=False)) if have != true
        ]
        _must(not wrong, rule, "the prompt's own prefix", f"other content from position {wrong[:1]} on, {got}")

    def append_slot(self, call: Call, want: Any, got: Any, evicted: bool) -> None:
        """Room for one more position, if there is any."""
        rule = "append_slot says False only when the next position needs a block and none is free or evictable."
        _equal(got, want, rule)
        held = self.running[call.args[0]]
        self._compute(held, held.slots)
        held.slots += got

    def block_table(self, call: Call, want: Any, got: Any, evicted: bool) -> None:
        """A table grows by a fresh block at its end; the runner computes the next positions through it."""
        held = self.running[call.args[0]]
        rule = "A table keeps its blocks in order, and grows at its end."
        _must(got[: len(held.table)] == held.table, rule, f"{held.table} and perhaps one more", got)
        for block in got[len(held.table) :]:
            _equal(
                self.holders(block), [], f"A fresh block is nobody else's: block {block} is held by a running sequence."
            )
        held.table = got
        rule = f"A table has a block for every slot and none to spare: ceil({held.slots} / {BLOCK_SIZE}) of them."
        if len(got) < -(-held.slots // BLOCK_SIZE):
            rule += f" Position {held.slots - 1} of sequence {held.seq} has no block."
        _equal(len(got), -(-held.slots // BLOCK_SIZE), rule)
        self._compute(held, min(held.computed + CHUNK, held.slots))

    def _compute(self, held: _Running, end: int) -> None:
        end = min(end, len(held.tokens))
        if end <= held.computed:
            return
        if held.untold:
            raise _Untold
        try:
            new = held.tokens[held.computed : end]
            token = self.runner.compute(held.seq, held.table, new, held.computed)
        except (NoBlock, WriteRefused) as problem:
            raise _Broken(
                "Every position has a block that is the sequence's to write.", "a block", str(problem)
            ) from None
        held.computed = end
        if end == len(held.tokens):
            rule = f"Answers never depend on the cache: this is the wrong token after position {end - 1} of {held.seq}."
            _equal(token, answer_of(contents_of(held.tokens)[-1]), rule)
            held.tokens.append(token)

    def publish(self, call: Call, want: Any, got: Any, evicted: bool) -> None:
        """What is computed by now can be found from now on, where the manager publishes early; its table stays."""
        seq, computed = call.args
        held = self.running[seq]
        self._compute(held, len(computed))
        full = len(computed) // BLOCK_SIZE
        if self.early and self.mode is not PrefixCache.NONE and full > held.published:
            new = held.paths(held.published, full)
            if new[0] in self.stored:
                held.unsure = len(new)
            else:  # nobody's block can be further down, for a path has no gaps
                held.published, held.unsure = full, 0
            self.stored |= set(new)

    def release(self, call: Call, want: Any, got: Any, evicted: bool) -> None:
        """The end of a sequence, which computes what it has left to compute first."""
        held = self.running[call.args[0]]
        self._compute(held, held.slots)
        del self.running[held.seq]
        self.stored |= set(held.paths(0, len(call.args[1]) // BLOCK_SIZE))

    # ------------------------------------------------------------ counts

    def counted_free(self, call: Call, want: Any, got: Any, evicted: bool) -> None:
        """Remembered until the other two counts come."""
        self.n_free = got

    def counted_used(self, call: Call, want: Any, got: Any, evicted: bool) -> None:
        """Used: what the running sequences hold, and in radix mode what the cache holds."""
        self.n_used = got
        if self.mode is not PrefixCache.RADIX:
            rule = "Used are exactly the blocks of running sequences: every reference comes back when its request ends."
            _equal(got, len(self.held), rule)

    def counted_cached(self, call: Call, want: Any, got: Any, evicted: bool) -> None:
        """The invariant over the three counts."""
        if self.n_free is not None and self.n_used is not None:
            rule = "free + used + cached is the number of blocks of the pool, after every call."
            _equal(self.n_free + self.n_used + got, self.n_blocks, rule)

    def counted_available(self, call: Call, want: Any, got: Any, evicted: bool) -> None:
        """All that no running sequence holds."""
        rule = "Available are exactly the blocks that no running sequence holds: free, or cached and not pinned."
        _equal(got, self.n_blocks - len(self.held), rule)

    def counted_reusable(self, call: Call, want: Any, got: Any, evicted: bool) -> None:
        """In radix mode a used block is the cache's, or a running sequence computed it."""
        if self.mode is PrefixCache.NONE:
            _equal(got, 0, "Mode none caches nothing.")
        if self.mode is PrefixCache.RADIX and self.n_used is not None:
            own = sum(len(held.table) - held.published for held in self.running.values())
            unsure = sum(held.unsure for held in self.running.values())
            rule = (
                "In radix mode a used block is the cache's or a running sequence's own; with none running, the cache's."
            )
            told = f"{rule} cached_blocks is {got}; running sequences hold {own} of their own."
            _between(self.n_used, got + own - unsure, got + own, told)
        if self.early and not evicted:
            _equal(got, want, "While nothing has been evicted, every full block that was published can be found.")

    def counted_stats(self, call: Call, want: Any, got: Any, evicted: bool) -> None:
        """Each admitted prompt once, with the hits it was given."""
        rule = "BlockStats count each admitted prompt once: (lookups, query_tokens, hit_tokens)."
        expected = (want.lookups, want.query_tokens, self.hit_tokens)
        _equal((got.lookups, got.query_tokens, got.hit_tokens), expected, rule)


ENTRIES: dict[str, Callable[[_Books, Call, Any, Any, bool], None]] = {
    "allocate": _Books.allocate,
    "append_slot": _Books.append_slot,
    "block_table": _Books.block_table,
    "release": _Books.release,
    "publish": _Books.publish,
    "n_free": _Books.counted_free,
    "n_used": _Books.counted_used,
    "n_cached": _Books.counted_cached,
    "available_blocks": _Books.counted_available,
    "cached_blocks": _Books.counted_reusable,
    "stats": _Books.counted_stats,
}
"""How the answer to each call is entered in the books."""

COUNTS = ("n_free", "n_used", "n_cached", "available_blocks", "cached_blocks")


def _must(condition: bool, rule: str, expected: str, got: Any) -> None:
    if not condition:
        raise _Broken(rule, expected, got if isinstance(got, str) else repr(got))


def _equal(got: Any, expected: Any, rule: str) -> None:
    _must(same_type(expected, got), rule, repr(expected), got)


def _between(got: Any, least: int, most: int, rule: str) -> None:
    if least == most or type(got) is not int:
        _equal(got, most, rule)
    _must(least <= got <= most, rule, f"{least} to {most}", got)


# ---------------------------------------------------------------- judging


def served_rightly(oracle: Mapping[str, Any]) -> Judge:
    """A judge: exact answers, books that balance after every step, admissions and first hits as the flat model's.

    A shortened story may ask what no scheduler asks (to release what was refused), or not ask what a scheduler
    must know (a table that has grown). Where the flat model raises, nothing is judged; where a block is not
    told, nothing after it.
    """

    def judge(story: Story, outcomes: Sequence[Outcome]) -> Fault | None:
        wants, evictions = _play_watched(story, oracle)
        if len(story) < 2 or story[1].target != "BlockManager" or any(want.raised or want.skipped for want in wants):
            return None
        books = _Books(story[0].args[0], story[1].args[1], early="prefill" in story[1].args[2:])
        for at, (call, want, have) in enumerate(zip(story, wants, outcomes, strict=True)):
            try:
                _enter(books, call, want, have, evictions[at] > 0)
            except _Broken as broken:
                return Fault(at, *broken.args)
            except _Untold:
                return None
        return None

    return judge


def _play_watched(story: Story, oracle: Mapping[str, Any]) -> tuple[list[Outcome], list[int]]:
    """The oracle's outcomes, and how many blocks it had evicted before each call."""
    watched = []
    for call in story:
        watched += [Call(-1 - call.label, Ref(story[min(1, len(story) - 1)].label), "stats"), call]
    outcomes = play(tuple(watched), oracle)
    return list(outcomes[1::2]), [getattr(before.value, "evictions", 0) for before in outcomes[::2]]


def _enter(books: _Books, call: Call, want: Outcome, have: Outcome, evicted: bool) -> None:
    if have.raised or have.skipped or have.made != want.made:
        raise _Broken("A call that the contract allows does not fail.", describe(want), describe(have))
    if not call.verb:
        return
    if want.value is not None and have.value is not None and type(want.value) is not type(have.value):
        raise _Broken(f"{call.verb} gives a {type(want.value).__name__}.", describe(want), describe(have))
    if call.verb in COUNTS and any(held.untold for held in books.running.values()):
        return
    if call.verb not in COUNTS:
        books.n_free = books.n_used = None  # counts belong together only while nothing happens between them
    ENTRIES[call.verb](books, call, want.value, have.value, evicted)

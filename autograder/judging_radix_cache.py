"""Judges of radix cache stories: the books of every block, and the answers of the golden trace.

The first keeps its own account of where each block is, and says which rule an answer breaks. It knows
no order of use, so it does not know which leaf must go first: that is what the golden trace is for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from autograder import implementations
from autograder.comparing import same_type
from autograder.golden import Trace, without_node
from autograder.judging import Fault, Judge
from autograder.stories import Call, Outcome, Story, play
from autograder.telling import describe
from course import modules
from course.contract import ROOT, Inserted, PrefixMatch

Prefix = tuple[int, ...]


class _Broken(Exception):
    """An answer that breaks a rule: the rule, what was expected and what came."""


# ---------------------------------------------------------------- the books


class _Books:
    """Where every cached block is, and what is locked, by the calls so far and the answers to them."""

    def __init__(self, block_size: int) -> None:
        self.size = block_size
        self.block_of: dict[Prefix, int] = {}
        self.place_of: dict[int, Prefix] = {}
        self.ends: dict[int, Prefix] = {}
        self.held: Counter[int] = Counter()
        self.pins: Counter[Prefix] = Counter()

    @property
    def evictable(self) -> int:
        """Cached blocks that no lock pins."""
        return len(self.block_of) - len(self.pins)

    def prefixes(self, tokens: Sequence[int]) -> list[Prefix]:
        """The runs of 1, 2, 3, ... whole blocks that these tokens begin with."""
        whole = tuple(tokens)
        return [whole[:end] for end in range(self.size, len(whole) + 1, self.size)]

    def makes_sense(self, call: Call) -> bool:
        """An engine might make this call. In a shrunk story some are left that none would make."""
        if call.verb == "insert":
            places = zip(self.prefixes(call.args[0]), call.args[1], strict=True)
            return all(self.place_of.get(block, prefix) == prefix for prefix, block in places)
        if call.verb in ("lock", "unlock"):
            match = call.args[0].call
            there = all(prefix in self.block_of for prefix in self.prefixes(self.ends[match]))
            return there and (call.verb == "lock" or self.held[match] > 0)
        return True

    def matched(self, call: Call, answer: PrefixMatch) -> None:
        """A match gives the blocks of the longest cached prefix, the last token left out."""
        usable = call.args[0][:-1]
        cached = [prefix for prefix in self.prefixes(usable) if prefix in self.block_of]
        end = cached[-1] if cached else ()
        _equal(
            (answer.matched_tokens, answer.blocks),
            (len(end), tuple(self.block_of[prefix] for prefix in cached)),
            "A match gives the longest cached prefix in whole blocks, one block id for each, and never covers the "
            "last token of the prompt. Right after an insert that is everything inserted.",
        )
        _root_for_nothing(answer.node, end)
        self.ends[call.label] = end

    def inserted(self, call: Call, answer: Inserted) -> None:
        """The first block of a position stays; another block for it comes back; all else is stored."""
        for prefix, block in zip(self.prefixes(call.args[0]), call.args[1], strict=True):
            if prefix not in self.block_of:
                self.block_of[prefix] = block
                self.place_of[block] = prefix
        _equal(
            answer.duplicates,
            tuple(block for block in call.args[1] if block not in self.place_of),
            "Every block is in exactly one place: an insert hands back the blocks that the cache does not keep, "
            "and none that it holds.",
        )
        _root_for_nothing(answer.node, call.args[1])

    def locked(self, call: Call, answer: None) -> None:
        """A lock pins the prefix that a match ended at."""
        match = call.args[0].call
        self.held[match] += 1
        self.pins.update(self.prefixes(self.ends[match]))

    def unlocked(self, call: Call, answer: None) -> None:
        """An unlock undoes one lock."""
        match = call.args[0].call
        self.held[match] -= 1
        self.pins -= Counter(self.prefixes(self.ends[match]))

    def evicted(self, call: Call, answer: list[int]) -> None:
        """An eviction gives cached blocks that no lock pins, ends of prefixes first, until there are enough."""
        for block in answer:
            self._let_go(block, answer)
        for prefix, block in self.block_of.items():
            before = prefix[: -self.size]
            if before and before not in self.block_of:
                rule = "Only leaves are evicted: no block goes before the blocks that continue its prefix."
                raise _Broken(rule, f"block {block} goes with the block before it, or both stay", repr(answer))
        if len(answer) < call.args[0] and self.evictable:
            rule = "An eviction goes on until it has freed as many blocks as asked for, or no unlocked one is left."
            raise _Broken(rule, f"{self.evictable} more blocks were unlocked", repr(answer))

    def _let_go(self, block: int, answer: list[int]) -> None:
        if type(block) is not int or block not in self.place_of:
            rule = "Every block is in exactly one place: only blocks that the cache holds come out of it, once each."
            raise _Broken(rule, f"some of the blocks {sorted(self.place_of)}", repr(answer))
        prefix = self.place_of.pop(block)
        if prefix in self.pins:
            rule = "A locked block is never evicted: a running request reads it."
            raise _Broken(rule, f"block {block} stays", repr(answer))
        del self.block_of[prefix]

    def counted(self, call: Call, answer: int) -> None:
        """The blocks in the cache."""
        rule = "cached_blocks counts the blocks that went in and have not come out: as many out as in leaves 0."
        _equal(answer, len(self.block_of), rule)


ENTRIES: dict[str, tuple[Callable[[_Books, Call, Any], None], type]] = {
    "match_prefix": (_Books.matched, PrefixMatch),
    "insert": (_Books.inserted, Inserted),
    "lock": (_Books.locked, type(None)),
    "unlock": (_Books.unlocked, type(None)),
    "evict": (_Books.evicted, list),
    "cached_blocks": (_Books.counted, int),
}
"""How the answer to each call is entered in the books, and what type it has."""

KINDS = {PrefixMatch: "a PrefixMatch", Inserted: "an Inserted", type(None): "None", list: "a list", int: "an int"}


def _equal(got: Any, expected: Any, rule: str) -> None:
    if not same_type(expected, got):
        raise _Broken(rule, repr(expected), repr(got))


def _root_for_nothing(node: Any, run: Sequence[int]) -> None:
    rule = "Where nothing is matched or inserted, the node is ROOT; anywhere else it is not."
    if (node == ROOT) != (not run):
        raise _Broken(rule, "another node than ROOT" if run else "ROOT", f"node {node!r}")


def conserved(story: Story, outcomes: Sequence[Outcome]) -> Fault | None:
    """A judge: every block in exactly one place, no locked one evicted, the longest prefix found."""
    made, *_ = outcomes
    if made.raised:
        return Fault(0, "A cache with blocks of 1 token or more can be made.", "a RadixCache", describe(made))
    books = _Books(story[0].args[0])
    for at, (call, outcome) in enumerate(zip(story, outcomes, strict=True)):
        if at == 0 or outcome.skipped:
            continue
        if not books.makes_sense(call):
            return None
        try:
            _enter(books, call, outcome)
        except _Broken as broken:
            return Fault(at, *broken.args)
    return None


def _enter(books: _Books, call: Call, outcome: Outcome) -> None:
    enter, kind = ENTRIES[call.verb]
    if outcome.raised:
        raise _Broken(f"{call.verb} must not fail here.", KINDS[kind], describe(outcome))
    if type(outcome.value) is not kind:
        raise _Broken(f"{call.verb} gives {KINDS[kind]}.", KINDS[kind], describe(outcome))
    enter(books, call, outcome.value)


# ---------------------------------------------------------------- the golden trace

RULES = {
    "": "A cache with blocks of 1 token or more can be made.",
    "match_prefix": "A match gives the longest cached prefix, as whole blocks and without the prompt's last token.",
    "insert": "An insert hands back exactly the blocks whose place holds another block already.",
    "lock": "A node that a match gave can be locked.",
    "unlock": "A lock that was taken can be undone.",
    "evict": "An eviction takes whole unlocked leaves, least recently used first, until there are enough.",
    "cached_tokens": "cached_tokens is the number of tokens in the cache: B for each block.",
    "evictable_blocks": "evictable_blocks counts the cached blocks that no lock pins.",
    "stats": "stats counts every lookup, its tokens and its hits, the blocks taken in, and the blocks evicted.",
}
"""The rule that a wrong answer breaks, by the call that gave it (L8.4, section 2)."""


def recorded_in(trace: Trace) -> Judge:
    """A judge: the answers are those of the trace; for a shortened story, those of the flat model.

    In a shortened story a call may be left that no engine makes, such as an unlock without its lock: the
    flat model refuses it, and nothing is said about what follows.
    """
    flat = implementations.flat(modules.find("radix_cache"))

    def judge(story: Story, outcomes: Sequence[Outcome]) -> Fault | None:
        wanted = trace.recorded if story == trace.story else play(story, flat.names)
        for at, (call, want, got) in enumerate(zip(story, wanted, outcomes, strict=True)):
            if want.raised or want.skipped:
                return None
            if not _agree(without_node(want), without_node(got)):
                return Fault(at, RULES[call.verb], describe(without_node(want)), describe(without_node(got)))
        return None

    return judge


def _agree(want: Outcome, got: Outcome) -> bool:
    """What was wanted came: the same object made or the same value given, and no error."""
    return not got.raised and not got.skipped and want.made == got.made and same_type(want.value, got.value)

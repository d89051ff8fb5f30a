"""The named tests of the radix tree (ds.07).

The chapters use this tree and give its rules (L8.4, section 2); the contract states them in full
(course/contract.py, `RadixTree`). Tokens are small numbers, a = 1 to z = 26, and the values stored for
them are mostly the letters themselves. No test knows which implementation it runs on.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from autograder.catalogue import named
from autograder.expect import holds, refuses, same
from autograder.implementations import flat
from autograder.judging import hold
from autograder.judging_radix_tree import (
    by_time_of_use,
    counts,
    everything,
    like_the_model,
    locks,
    shape,
    tree_story,
    works,
)
from autograder.subject import Subject
from course.contract import ROOT, Match
from course.modules import find
from course.tokens import TOKEN_LIMIT


def run(letters: str) -> list[int]:
    """The tokens of a word: a = 1, b = 2, and so on."""
    return [ord(letter) - ord("a") + 1 for letter in letters]


def put(tree: Any, letters: str) -> Any:
    """Store a word with its letters as values; the node where it ends."""
    return tree.insert(run(letters), list(letters)).node


def tree_with(subject: Subject, *words: str) -> Any:
    """A tree of granule 1 that holds these words, stored in this order."""
    tree = subject.RadixTree(1)
    for word in words:
        put(tree, word)
    return tree


# ---------------------------------------------------------------- matching


@named(
    "boundary",
    checks="prompts of 0 to 9 tokens over 8 stored ones at granule 4 match 0, 4 or 8",
    why="a block of KV is reused whole or not at all",
)
def test_only_whole_granules_match(subject: Subject) -> None:
    for n in range(10):
        tree = subject.RadixTree(4)
        tree.insert(run("abcdefgh"), ["first", "second"])
        match = tree.match_prefix(run("abcdefghi")[:n])
        rule = f"Only whole granules match: over 8 tokens at granule 4 a prompt of {n} matches {min(n, 8) // 4 * 4}."
        same((match.n_tokens, match.values), (min(n, 8) // 4 * 4, ("first", "second")[: n // 4]), rule)
    match = tree.match_prefix(run("abcdefxhi"))
    rule = "A granule matches only if every token of it does: the second granule differs in its third token."
    same((match.n_tokens, match.values), (4, ("first",)), rule)


@named(
    "unit",
    checks="a match that runs over three nodes returns the values of all three, front to back",
    why="the block table of a request begins with every block of its prefix",
)
def test_a_match_over_several_nodes_gives_all_values(subject: Subject) -> None:
    tree = tree_with(subject, "ab", "abcd", "abcdef", "abx")
    match = tree.match_prefix(run("abcdefg"))
    rule = "A match returns the values of the whole path, from the root to the node where it ends."
    same((match.n_tokens, match.values), (6, ("a", "b", "c", "d", "e", "f")), rule)


@named(
    "boundary",
    checks="with nothing stored in common the match is 0 tokens, no values and ROOT; locking ROOT does nothing",
    why="a cache miss goes through the same calls as a hit",
)
def test_a_miss_ends_at_the_root(subject: Subject) -> None:
    tree = tree_with(subject)
    same(tree.match_prefix(run("ab")), Match(0, (), ROOT), "An empty tree matches nothing, and a miss ends at ROOT.")
    put(tree, "ab")
    same(tree.match_prefix(run("b")), Match(0, (), ROOT), "A run that begins as no stored one does ends at ROOT.")
    same(tree.match_prefix([]), Match(0, (), ROOT), "An empty run matches nothing and ends at ROOT.")
    same(tree.insert([], []).node, ROOT, "An empty run is stored by doing nothing: it ends at ROOT.")
    with works("Locking and unlocking ROOT does nothing, as often as you like."):
        tree.lock(ROOT)
        tree.unlock(ROOT)
        tree.unlock(ROOT)
        tree.lock(ROOT)
    same((tree.n_evictable, tree.evict(1)), (2, ["a", "b"]), "Locking ROOT does nothing: all values stay evictable.")


@named(
    "unit",
    checks="two runs of one first token and different first granules are two children, both found",
    why="two prompts may differ anywhere within their first block",
)
def test_children_differ_in_their_first_granule(subject: Subject) -> None:
    tree = subject.RadixTree(2)
    tree.insert(run("abcd"), ["ab", "cd"])
    tree.insert(run("axcd"), ["ax", "cd too"])
    rule = "Children are told apart by their whole first granule, not by their first token: `a b` is not `a x`."
    same(shape(tree), [((1, 2, 3, 4), ("ab", "cd")), ((1, 24, 3, 4), ("ax", "cd too"))], rule)
    for word, values in (("abcd", ("ab", "cd")), ("axcd", ("ax", "cd too")), ("aycd", ())):
        same(tree.match_prefix(run(word)).values, values, rule)


# ---------------------------------------------------------------- splitting and storing


@named(
    "unit",
    checks="matching `a b` over the stored run `a b c d` leaves two nodes, and the match ends at the upper one",
    why="a request locks the node of its match, which must pin what it reads and no more",
)
def test_a_match_inside_an_edge_splits_it(subject: Subject) -> None:
    tree = tree_with(subject, "abcd")
    match = tree.match_prefix(run("abx"))
    rule = "A match ends exactly at a node: one that ends inside an edge splits it there."
    same(shape(tree), [((1, 2), ("a", "b")), ((3, 4), ("c", "d"))], rule)
    same(counts(tree), {"n_values": 4, "n_evictable": 4, "n_nodes": 2}, "A split adds a node and no value.")
    tree.lock(match.node)
    rule = "The match of `a b` ends at the upper half: locking it pins `a b` alone."
    same(locks(tree), [(("a", "b"), 1), (("c", "d"), 0)], rule)
    tree.match_prefix(run("abcd"))
    same(tree.n_nodes, 2, "A match that ends at the end of an edge splits nothing.")


@named(
    "unit",
    checks="storing `a b x` and then `a` over the stored run `a b c d`",
    why="prompts that part ways share what comes before",
)
def test_an_insert_inside_an_edge_splits_it(subject: Subject) -> None:
    tree = tree_with(subject, "abcd", "abx")
    rule = "A run that leaves an edge midway splits it and becomes the second child."
    same(shape(tree), [((1, 2), ("a", "b")), ((3, 4), ("c", "d")), ((24,), ("x",))], rule)
    same(counts(tree), {"n_values": 5, "n_evictable": 5, "n_nodes": 3}, "Only what was not there yet is counted anew.")
    node = put(tree, "a")
    rule = "An insert ends exactly at a node, even if all it stores was there: `a` splits the edge `a b`."
    same(shape(tree), [((1,), ("a",)), ((2,), ("b",)), ((3, 4), ("c", "d")), ((24,), ("x",))], rule)
    tree.lock(node)
    same(tree.n_evictable, 4, "The insert of `a` ends at the node of `a`: locking it pins 1 value of the 5.")


@named(
    "unit",
    checks="storing `a b c` after `a b` adds a child, and the node of `a b` stays what it was",
    why="a longer conversation must not grow what an earlier request holds a lock on",
)
def test_storing_past_a_leaf_adds_a_child(subject: Subject) -> None:
    tree = tree_with(subject)
    first = put(tree, "ab")
    second = put(tree, "abc")
    rule = "Storing past a leaf adds a child; it never lengthens the leaf."
    same(shape(tree), [((1, 2), ("a", "b")), ((3,), ("c",))], rule)
    tree.lock(first)
    same(locks(tree), [(("a", "b"), 1), (("c",), 0)], "A node's id stays with its own run when a child is added.")
    tree.lock(second)
    same(locks(tree), [(("a", "b"), 2), (("c",), 1)], "An insert returns the node where its whole run ends.")


@named(
    "unit",
    checks="a run stored twice keeps its first values, and the second insert gets them back as `present`",
    why="two requests can compute one prefix at once, and the second one's blocks must be freed",
)
def test_values_already_there_stay(subject: Subject) -> None:
    tree = tree_with(subject)
    same(tree.insert(run("ab"), ["a1", "b1"]).present, (), "Nothing is present when a run is stored first.")
    rule = "`present` are the values that the tree already held for the first granules, over all nodes of the path."
    same(tree.insert(run("abcd"), ["a2", "b2", "c2", "d2"]).present, ("a1", "b1"), rule)
    same(tree.insert(run("abcx"), ["a3", "b3", "c3", "x3"]).present, ("a1", "b1", "c2"), rule)
    same(tree.insert(run("ab"), ["a4", "b4"]).present, ("a1", "b1"), rule)
    rule = "What is there already stays: an insert never overwrites a value."
    same(tree.match_prefix(run("abcd")).values, ("a1", "b1", "c2", "d2"), rule)
    same(tree.match_prefix(run("abcx")).values, ("a1", "b1", "c2", "x3"), rule)
    same(tree.n_values, 5, "n_values counts each stored value once, however often its run is inserted.")


@named(
    "unit",
    checks="walk() lists every node but the root with its parent, tokens, values, locks and time of use",
    why="pictures, block managers and these tests read the tree through it",
)
def test_walk_shows_every_node(subject: Subject) -> None:
    tree = subject.RadixTree(2)
    same(list(tree.walk()), [], "walk() leaves the root out: an empty tree has no rows.")
    same((tree.granule, counts(tree)), (2, {"n_values": 0, "n_evictable": 0, "n_nodes": 0}), "A new tree is empty.")
    tree.insert(run("abcd"), [7, 8])
    tree.lock(tree.insert(run("abef"), [7, 9]).node)
    told = {row[2]: row for row in tree.walk()}
    rule = "walk() gives (node, parent, tokens, values, locks, last_used): each node's own tokens as a tuple."
    same(sorted(told), [(1, 2), (3, 4), (5, 6)], rule)
    top, old, new = told[1, 2], told[3, 4], told[5, 6]
    same([row[3:5] for row in (top, old, new)], [((7,), 1), ((8,), 0), ((9,), 1)], "The values and locks of each row.")
    same(
        (top[1], old[1], new[1]),
        (ROOT, top[0], top[0]),
        "A row's second item is its parent: ROOT for the first.",
    )
    holds(old[5] < top[5] == new[5], "last_used grows with every use.", top=top, old=old, new=new)


# ---------------------------------------------------------------- time of use and eviction


@named(
    "unit",
    checks="`a b c d` and `z` stored, `a b` matched: one-value evictions give [c d], [z], [a b]",
    why="the tail of a cold prefix goes first, a hot prefix last",
)
def test_hand_example_of_eviction(subject: Subject) -> None:
    tree = tree_with(subject, "abcd", "z")
    tree.match_prefix(run("ab"))
    rule = "The split leaves `c d` at the old time of use, `z` is younger, and the match made `a b` the youngest."
    same([tree.evict(1) for _ in range(4)], [["c", "d"], ["z"], ["a", "b"], []], rule)
    same(counts(tree), {"n_values": 0, "n_evictable": 0, "n_nodes": 0}, "After the last eviction the tree is empty.")


@named(
    "unit",
    checks="a match and an insert stamp the path from the root to their end; locks, splits and evictions stamp nothing",
    why="eviction is only as good as the times it goes by",
)
def test_a_use_stamps_its_path_and_nothing_else(subject: Subject) -> None:
    tree = tree_with(subject, "ab", "y", "abcd", "z")
    a, c, y, z = ("a", "b"), ("c", "d"), ("y",), ("z",)
    same(by_time_of_use(tree), [[y], [a, c], [z]], "An insert is a use of every node from the root to its end.")
    tree.match_prefix(run("abcd"))
    same(by_time_of_use(tree), [[y], [z], [a, c]], "A match is a use of every node from the root to its end.")
    put(tree, "y")
    same(by_time_of_use(tree), [[z], [a, c], [y]], "Storing what is there already is a use too.")
    node = tree.match_prefix(run("ab")).node
    same(by_time_of_use(tree), [[z], [c], [y], [a]], "A use stamps nothing below its end: `c d` keeps its time.")
    tree.match_prefix(run("xyz"))
    tree.lock(node)
    tree.unlock(node)
    same(by_time_of_use(tree), [[z], [c], [y], [a]], "A miss, a lock and an unlock use no node.")
    tree.match_prefix(run("abc"))
    rule = "The lower half of a split keeps the old time of use; the path to the end of the match is used now."
    same(by_time_of_use(tree), [[z], [("d",)], [y], [a, ("c",)]], rule)
    same(tree.evict(1), ["z"], "The least recently used leaf goes first.")
    same(by_time_of_use(tree), [[("d",)], [y], [a, ("c",)]], "An eviction uses no node.")


@named(
    "unit",
    checks="evictions of 0, 1, 4 and 100 values over leaves of 3, 2, 3 and 1",
    why="the block manager gets at least what it is short of, and whole leaves",
)
def test_eviction_takes_whole_leaves(subject: Subject) -> None:
    tree = tree_with(subject, "abc", "de", "fgh", "z")
    same(tree.evict(0), [], "evict(0) takes nothing.")
    same(tree.evict(1), ["a", "b", "c"], "A leaf is evicted whole: evict(1) takes all 3 values of the oldest one.")
    same(tree.match_prefix(run("abc")), Match(0, (), ROOT), "What is evicted is no longer found.")
    rule = "evict(4) takes leaves until at least 4 values are out: the next two, each front to back."
    same(tree.evict(4), ["d", "e", "f", "g", "h"], rule)
    same(counts(tree), {"n_values": 1, "n_evictable": 1, "n_nodes": 1}, "The counts follow an eviction.")
    same(tree.evict(100), ["z"], "evict(100) takes all there is, and no more.")


@named(
    "unit",
    checks="one call evicts a leaf, then its parent, in the order of their times of use",
    why="one request under pressure may need more than one leaf of a long prefix",
)
def test_a_parent_that_loses_its_last_child_is_a_leaf(subject: Subject) -> None:
    tree = tree_with(subject, "ab", "abc", "abd", "z")
    rule = "A parent is no leaf while a child is left, and is one in the same call that takes the last."
    same(tree.evict(3), ["c", "d", "a", "b"], rule)
    tree = tree_with(subject, "abcd", "z")
    tree.match_prefix(run("ab"))
    rule = "A parent that becomes a leaf takes its place by its own time of use: `a b` was used after `z`."
    same(tree.evict(4), ["c", "d", "z", "a", "b"], rule)


@named(
    "unit",
    checks="after `c d` of `a b c d` is evicted, a match finds `a b`, and new values may be stored past it",
    why="blocks that went back to the pool hold another request's KV now",
)
def test_what_is_evicted_is_forgotten(subject: Subject) -> None:
    tree = tree_with(subject, "abcd", "z")
    tree.match_prefix(run("ab"))
    tree.evict(1)
    same(tree.match_prefix(run("abcd")).values, ("a", "b"), "A match ends where what is left of a run ends.")
    rule = "What was evicted is not present: its place takes the new values."
    same(tree.insert(run("abcd"), ["-", "-", "C", "D"]).present, ("a", "b"), rule)
    same(tree.match_prefix(run("abcd")).values, ("a", "b", "C", "D"), rule)
    same(counts(tree), {"n_values": 5, "n_evictable": 5, "n_nodes": 3}, "The counts follow evictions and inserts.")


# ---------------------------------------------------------------- locks


@named(
    "unit",
    checks="a lock in the middle of a chain pins it and what is above; below and beside, eviction goes on",
    why="a running request reads its whole prefix, and nothing else",
)
def test_a_lock_pins_a_node_and_its_ancestors(subject: Subject) -> None:
    tree = tree_with(subject, "a", "ab", "abc", "ax")
    tree.lock(tree.match_prefix(run("ab")).node)
    rule = "lock(node) pins the node and every ancestor, and nothing below or beside them."
    same(locks(tree), [(("a",), 1), (("b",), 1), (("c",), 0), (("x",), 0)], rule)
    same(tree.n_evictable, 2, "n_evictable counts the values of unlocked nodes only: `c` and `x`.")
    same(tree.evict(100), ["c", "x"], "evict never takes a locked node, however much it is asked for.")
    same(tree.match_prefix(run("ab")).values, ("a", "b"), "A locked prefix is still found after an eviction.")
    same((tree.evict(1), tree.n_evictable), ([], 0), "A use does not put a locked node up for eviction.")


@named(
    "unit",
    checks="two locks on one node and one below it; they are undone one by one",
    why="a shared prefix stays while any one request reads it",
)
def test_an_unlock_undoes_one_lock(subject: Subject) -> None:
    tree = tree_with(subject, "ab", "abc")
    upper, lower = tree.match_prefix(run("ab")).node, tree.match_prefix(run("abc")).node
    for node in (upper, upper, lower):
        tree.lock(node)
    same(locks(tree), [(("a", "b"), 3), (("c",), 1)], "Locks are counted, on the node and on its ancestors.")
    tree.unlock(upper)
    same(locks(tree), [(("a", "b"), 2), (("c",), 1)], "unlock undoes one lock, not all of them.")
    tree.unlock(lower)
    same(locks(tree), [(("a", "b"), 1), (("c",), 0)], "unlock undoes its lock on the ancestors too.")
    same(tree.n_evictable, 1, "A value is evictable once its node's last lock is undone.")
    same(tree.evict(100), ["c"], "A node with a lock left is not evicted.")
    tree.unlock(upper)
    same((tree.n_evictable, tree.evict(1)), (2, ["a", "b"]), "With its last lock undone a leaf can be evicted.")


@named(
    "unit",
    checks="a locked run is split by a match, then by an insert: both halves are locked, a new leaf is not",
    why="a split must not expose what a running request reads",
)
def test_split_halves_share_the_locks(subject: Subject) -> None:
    tree = tree_with(subject)
    node = put(tree, "abcd")
    tree.lock(node)
    tree.lock(node)
    tree.match_prefix(run("abc"))
    same(locks(tree), [(("a", "b", "c"), 2), (("d",), 2)], "The halves of a split share the old lock count.")
    put(tree, "ax")
    rule = "The halves of a split share the old lock count; a new leaf starts with no lock."
    same(locks(tree), [(("a",), 2), (("b", "c"), 2), (("d",), 2), (("x",), 0)], rule)
    same((tree.n_evictable, tree.evict(100)), (1, ["x"]), "A run that was locked before its split is not evicted.")
    tree.unlock(node)
    tree.unlock(node)
    rule = "An id held from before a split undoes its locks on all the parts."
    same(locks(tree), [(("a",), 0), (("b", "c"), 0), (("d",), 0)], rule)
    same((tree.n_evictable, tree.evict(100)), (4, ["d", "b", "c", "a"]), rule)


@named(
    "unit",
    checks="the id of `a b c d`, held while its edge is split, still names the node where `a b c d` ends",
    why="a request keeps one id from admission to its end, whatever others do to the tree",
)
def test_a_held_id_names_the_lower_half(subject: Subject) -> None:
    tree = tree_with(subject)
    node = put(tree, "abcd")
    upper = tree.match_prefix(run("ab")).node
    rule = "After a split an id already held names the lower half: the node where its run ends."
    holds(tree.match_prefix(run("abcd")).node == node, rule)
    holds(upper != node, "The upper half of a split is a new node, with an id of its own.")
    tree.lock(node)
    same(locks(tree), [(("a", "b"), 1), (("c", "d"), 1)], rule)
    tree.unlock(node)
    tree.lock(upper)
    same(locks(tree), [(("a", "b"), 1), (("c", "d"), 0)], "The id that a match returned names the upper half.")
    same(tree.evict(100), ["c", "d"], rule)


@named(
    "fault",
    checks="lock and unlock of an evicted node are KeyErrors, unlock without a lock is a ValueError",
    why="a mistake in the caller's accounting shows where it is made, not as a wrong answer later",
)
def test_locks_that_make_no_sense_are_refused(subject: Subject) -> None:
    tree = tree_with(subject)
    gone, kept = put(tree, "ab"), put(tree, "z")
    tree.evict(1)
    before = everything(tree)
    with refuses(KeyError, "Locking a node that was evicted is a KeyError."):
        tree.lock(gone)
    with refuses(KeyError, "Unlocking a node that was evicted is a KeyError."):
        tree.unlock(gone)
    with refuses(ValueError, "Unlocking a node that is not locked is a ValueError."):
        tree.unlock(kept)
    tree.lock(kept)
    tree.unlock(kept)
    with refuses(ValueError, "Unlocking a node once more than it was locked is a ValueError."):
        tree.unlock(kept)
    same(everything(tree), before, "A call that raises changes nothing.")


# ---------------------------------------------------------------- arguments


@named(
    "fault",
    checks="a granule below 1 and a negative eviction",
    why="a wrong size is found where it is given",
)
def test_sizes_out_of_range_are_refused(subject: Subject) -> None:
    for granule in (0, -1):
        with refuses(ValueError, f"A granule has at least 1 token: RadixTree({granule}) is a ValueError."):
            subject.RadixTree(granule)
    tree = tree_with(subject, "ab")
    before = everything(tree)
    with refuses(ValueError, "A negative amount is a ValueError: evict(-1)."):
        tree.evict(-1)
    same(everything(tree), before, "A call that raises changes nothing.")


@named(
    "fault",
    checks="inserts that end inside a granule, or have a value too few or too many, raise and leave the tree alone",
    why="a partial block still grows, and must never be shared",
)
def test_an_insert_that_does_not_fit_is_refused(subject: Subject) -> None:
    tree = subject.RadixTree(2)
    tree.insert(run("abcd"), [1, 2])
    tree.insert(run("yz"), [3])
    before = everything(tree)
    for letters, values in (("abx", [1]), ("abx", [1, 2]), ("abxy", [1]), ("abxy", [1, 2, 3]), ("ab", []), ("", [1])):
        told = f"{len(letters)} tokens with {len(values)} values at granule 2"
        with refuses(ValueError, f"An insert takes whole granules and one value for each: {told} is a ValueError."):
            tree.insert(run(letters), values)
        same(everything(tree), before, f"A call that raises changes nothing: no split, no use ({told}).")


@named(
    "fault",
    checks="tokens -1 and 2**32 are refused by match and insert wherever they stand; 2**32 - 1 is a token",
    why="a token that is cut to 32 bits would find another prompt's blocks",
)
def test_tokens_out_of_range_are_refused(subject: Subject) -> None:
    tree = tree_with(subject, "abc", "z")
    before = everything(tree)
    for token in (-1, TOKEN_LIMIT):
        for tokens in ([token], [1, 2, token], [1, 24, token]):
            with refuses(ValueError, f"A token is at least 0 and below 2**32: matching {tokens} is a ValueError."):
                tree.match_prefix(tokens)
            with refuses(ValueError, f"A token is at least 0 and below 2**32: inserting {tokens} is a ValueError."):
                tree.insert(tokens, list("xyz")[: len(tokens)])
            same(everything(tree), before, "A call that raises changes nothing: no split, no use.")
    tree.insert([0, TOKEN_LIMIT - 1], ["least", "largest"])
    same(tree.match_prefix([0, TOKEN_LIMIT - 1]).values, ("least", "largest"), "0 and 2**32 - 1 are tokens.")


@named(
    "unit",
    checks="lists given to the tree stay as they are, changing them later changes no tree, and tuples will do too",
    why="callers go on using the token and block lists that they pass",
)
def test_arguments_are_left_alone(subject: Subject) -> None:
    tree = subject.RadixTree(1)
    tokens, values = run("abcd"), list("abcd")
    tree.insert(tokens, values)
    tree.match_prefix(tokens)
    rule = "The lists that a call is given are the caller's: the tree changes none of them."
    same((tokens, values), (run("abcd"), list("abcd")), rule)
    tokens[:], values[:] = [9, 9, 9, 9], ["?", "?", "?", "?"]
    rule = "The tree keeps copies: changing a list after the call changes nothing in it."
    same(tree.match_prefix(tuple(run("abcd"))).values, ("a", "b", "c", "d"), rule)
    same(tree.insert((25, 26), ("y", "z")).present, (), "Any sequence will do: here two tuples.")
    tree.evict(1).append("?")
    same(tree.evict(100), ["y", "z"], "evict returns a new list each time.")


# ---------------------------------------------------------------- at length


@contextlib.contextmanager
def recursion_limit(limit: int) -> Iterator[None]:
    """Let calls nest this deep and no deeper."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@named(
    "boundary",
    checks="1,200 prompts, each one token longer than the last, at recursion limit 1,000, through every call",
    why="a conversation that grows by a block a turn makes a path as deep as it is long",
)
def test_deep_trees_need_no_recursion(subject: Subject) -> None:
    depth = 1_200
    tokens = [1] * depth
    tree = subject.RadixTree(1)
    with works("No call recurses with the prompt's length."), recursion_limit(1_000):
        node = tree.insert(tokens, list(tokens)).node
        for n in range(depth - 1, 0, -1):
            tree.match_prefix(tokens[:n])
        rule = "No call recurses with the prompt's length: 1,200 nested prompts are 1,200 nodes on one path."
        same(tree.n_nodes, depth, rule)
        rule = "No call recurses with the prompt's length, and each gives on a long path what it gives on a short one."
        same((tree.match_prefix(tokens).n_tokens, len(tree.insert(tokens, tokens).present)), (depth, depth), rule)
        tree.lock(node)
        same((tree.n_evictable, len(list(tree.walk()))), (0, depth), rule)
        tree.unlock(node)
        same((tree.n_evictable, len(tree.evict(depth))), (depth, depth), rule)


INTRO = "A long story of inserts, matches, locks, unlocks and evictions goes as the contract says."
RULE = "This call does not give what the contract says (node ids aside; times of use are compared by their order)."


def tell_a_long_story(subject: Subject, granule: int, seed: int) -> None:
    """Play 400 calls on the subject and hold each outcome against the flat model's."""
    model = flat(find("ds.07")).names
    hold(tree_story(model, granule, seed, steps=400), subject.names, like_the_model(model, RULE), INTRO)


@named(
    "property",
    checks="400 calls at granule 1, each compared with a flat model: results, every row of walk(), the counts",
    why="the rules hold together, in orders that nobody thought of",
)
def test_a_long_story_at_granule_1(subject: Subject) -> None:
    tell_a_long_story(subject, granule=1, seed=7)


@named(
    "property",
    checks="400 calls at granule 4, with prompts that end inside a granule and granules alike up to their last token",
    why="the cache of L8.4 runs the tree at the size of a block",
)
def test_a_long_story_at_granule_4(subject: Subject) -> None:
    tell_a_long_story(subject, granule=4, seed=8)

"""ds.07 · A student's own tests of the radix tree: each rule by an example, then random calls against a dict.

They know the contract's calls. Which implementation `RadixTree` stands for, they do not know.
In the examples a run is written as a word: each letter is a token (a = 1), and its value is the letter itself.
"""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course import contract
from course.contract import ROOT, Match, NodeId
from course.modules import RadixTree


def run(word: str) -> list[int]:
    """The tokens of a word: a = 1, b = 2, and so on."""
    return [ord(letter) - ord("a") + 1 for letter in word]


def put(tree: contract.RadixTree, word: str) -> NodeId:
    return tree.insert(run(word), list(word)).node


def tree_of(*words: str) -> contract.RadixTree:
    tree = RadixTree(1)
    for word in words:
        put(tree, word)
    return tree


def found(tree: contract.RadixTree, word: str) -> str:
    return "".join(tree.match_prefix(run(word)).values)


def evicted(tree: contract.RadixTree, n: int) -> str:
    return "".join(tree.evict(n))


def locks(tree: contract.RadixTree) -> dict[str, int]:
    """The lock count of each node, which goes by the letters on its edge."""
    return {"".join(values): count for _, _, _, values, count, _ in tree.walk()}


# ---------------------------------------------------------------- match and insert


def test_a_granule_has_at_least_one_token() -> None:
    with pytest.raises(ValueError):
        RadixTree(0)


def test_only_whole_granules_match() -> None:
    tree = RadixTree(2)
    tree.insert(run("abcd"), [1, 2])
    assert tree.match_prefix(run("abc")).n_tokens == 2
    assert tree.match_prefix(run("abcx")).values == (1,)
    assert tree.match_prefix(run("abcde")).n_tokens == 4


def test_children_differ_in_their_first_granule() -> None:
    tree = RadixTree(2)
    for word in ("ab", "ax"):
        tree.insert(run(word), [word])
    assert [tree.match_prefix(run(word)).values for word in ("ab", "ax")] == [("ab",), ("ax",)]


def test_a_miss_ends_at_the_root_which_no_lock_pins() -> None:
    tree = tree_of("ab")
    assert tree.match_prefix(run("xy")) == Match(0, (), ROOT)
    tree.lock(ROOT)
    assert (locks(tree), tree.n_evictable) == ({"ab": 0}, 2)
    tree.unlock(ROOT)
    tree.unlock(ROOT)


def test_what_is_there_already_stays() -> None:
    tree = tree_of("ab")
    assert tree.insert(run("abc"), ["A", "B", "C"]).present == ("a", "b")
    assert found(tree, "abcd") == "abC"


def test_storing_past_a_leaf_adds_a_child() -> None:
    assert locks(tree_of("ab", "abcd")) == {"ab": 0, "cd": 0}


def test_two_runs_share_what_they_share() -> None:
    tree = tree_of("abcd", "abxy")
    assert (locks(tree), tree.n_values, tree.n_nodes) == ({"ab": 0, "cd": 0, "xy": 0}, 6, 3)
    assert (found(tree, "abcd"), found(tree, "abxy")) == ("abcd", "abxy")


def test_a_match_inside_an_edge_splits_it() -> None:
    """A held id goes on naming the lower half: the end of the run that it was given for."""
    tree = RadixTree(1)
    whole = put(tree, "abcd")
    front = tree.match_prefix(run("ab")).node
    assert front not in (whole, ROOT)
    assert tree.match_prefix(run("abcd")).node == whole
    tree.lock(front)
    assert (locks(tree), evicted(tree, 100)) == ({"ab": 1, "cd": 0}, "cd")


def test_a_refused_call_changes_nothing() -> None:
    tree = RadixTree(2)
    tree.insert(run("abcd"), [1, 2])
    before = list(tree.walk())
    for word, values in (("abx", [1]), ("abxy", [1]), ("abxy", [1, 2, 3])):
        with pytest.raises(ValueError):
            tree.insert(run(word), values)
    for token in (-1, 2**32):
        with pytest.raises(ValueError):
            tree.insert([*run("ab"), 1, token], [1, 2])
        with pytest.raises(ValueError):
            tree.match_prefix([*run("ab"), 1, token])
    with pytest.raises(ValueError):
        tree.evict(-1)
    assert list(tree.walk()) == before


def test_the_lists_it_is_given_stay_the_callers() -> None:
    tree, tokens, values = RadixTree(1), run("ab"), ["a", "b"]
    tree.insert(tokens, values)
    assert (tokens, values) == (run("ab"), ["a", "b"])
    values[0] = "?"
    assert found(tree, "ab") == "ab"


# ---------------------------------------------------------------- eviction


def test_the_oldest_leaves_go_first_and_whole() -> None:
    tree = tree_of("abc", "de", "fgh")
    assert evicted(tree, 0) == ""
    assert found(tree, "abc") == "abc"
    assert evicted(tree, 3) == "defgh"
    assert (found(tree, "de"), tree.n_values, tree.n_evictable, tree.n_nodes) == ("", 3, 3, 1)
    assert evicted(tree, 100) == "abc"


def test_a_use_is_a_use_of_the_whole_path_and_of_nothing_below() -> None:
    tree = tree_of("abcd", "z")
    found(tree, "ab")
    assert evicted(tree, 1) == "cd"
    tree = tree_of("ab", "z", "abcd")
    times = {"".join(values): last_used for _, _, _, values, _, last_used in tree.walk()}
    assert times["z"] < times["ab"] == times["cd"]


def test_a_parent_without_children_is_a_leaf_in_the_same_call() -> None:
    assert evicted(tree_of("ab", "abc", "abd"), 3) == "cdab"


# ---------------------------------------------------------------- locks


def test_a_lock_pins_a_node_and_its_ancestors() -> None:
    tree = tree_of("a", "ab", "abc", "ax")
    tree.lock(tree.match_prefix(run("ab")).node)
    assert (locks(tree), tree.n_evictable) == ({"a": 1, "b": 1, "c": 0, "x": 0}, 2)
    assert (evicted(tree, 100), found(tree, "abc")) == ("cx", "ab")


def test_locks_are_counted() -> None:
    tree = RadixTree(1)
    node = put(tree, "ab")
    tree.lock(node)
    tree.lock(node)
    tree.unlock(node)
    assert (tree.n_evictable, evicted(tree, 1)) == (0, "")
    tree.unlock(node)
    assert (tree.n_evictable, evicted(tree, 1)) == (2, "ab")


def test_both_halves_of_a_split_are_locked() -> None:
    tree = RadixTree(1)
    node = put(tree, "abcd")
    tree.lock(node)
    put(tree, "abx")
    assert (locks(tree), tree.n_evictable) == ({"ab": 1, "cd": 1, "x": 0}, 1)
    tree.unlock(node)
    assert (locks(tree), tree.n_evictable) == ({"ab": 0, "cd": 0, "x": 0}, 5)


def test_locks_that_make_no_sense_are_refused() -> None:
    tree = RadixTree(1)
    gone, kept = put(tree, "ab"), put(tree, "z")
    tree.evict(1)
    for call in (tree.lock, tree.unlock):
        with pytest.raises(KeyError):
            call(gone)
    with pytest.raises(ValueError):
        tree.unlock(kept)


def test_a_path_may_be_longer_than_calls_nest() -> None:
    """The prompts are bytes, which are tokens too: over a thousand long ones, lists would take a while."""
    depth, tree = sys.getrecursionlimit() + 1, RadixTree(1)
    node = tree.insert(bytes(depth), [0] * depth).node
    for n in range(depth - 1, 0, -1):
        tree.match_prefix(bytes(n))
    tree.lock(node)
    assert (tree.n_nodes, tree.n_evictable, len(list(tree.walk()))) == (depth, 0, depth)
    tree.unlock(node)
    assert tree.match_prefix(bytes(depth)).n_tokens == len(tree.evict(depth)) == depth


# ---------------------------------------------------------------- all together

B = 2
Prefix = tuple[int, ...]

calls = st.sampled_from(["match", "insert", "lock", "unlock", "evict"])
runs = st.lists(st.integers(1, 2), max_size=9).map(tuple)
"""Two tokens only, so that runs share prefixes, and part ways inside a granule as well as between two."""


def prefixes(tokens: Prefix) -> list[Prefix]:
    return [tokens[:n] for n in range(B, len(tokens) + 1, B)]


@given(st.lists(st.tuples(calls, runs, st.integers(0, 4)), max_size=40))
def test_the_tree_remembers_what_a_dict_of_prefixes_does(steps: list[tuple[str, Prefix, int]]) -> None:
    """Which leaves an eviction takes is left to the tree here: the model forgets what came out."""
    tree, stored, held = RadixTree(B), dict[Prefix, int](), list[tuple[NodeId, Prefix]]()
    for step, (call, tokens, n) in enumerate(steps):
        known = [stored[prefix] for prefix in prefixes(tokens) if prefix in stored]
        if call == "insert":
            values = [10 * step + i for i in range(len(tokens) // B)]
            assert list(tree.insert(tokens[: len(values) * B], values).present) == known
            stored = dict(zip(prefixes(tokens), values, strict=True)) | stored
        elif call in ("match", "lock"):
            match = tree.match_prefix(tokens)
            assert (list(match.values), match.n_tokens) == (known, len(known) * B)
            if call == "lock":
                tree.lock(match.node)
                held.append((match.node, tokens[: match.n_tokens]))
        elif call == "unlock" and held:
            tree.unlock(held.pop(n % len(held))[0])
        elif call == "evict":
            enough = min(n, tree.n_evictable)
            out = tree.evict(n)
            assert len(out) >= enough
            assert set(out) <= set(stored.values())
            stored = {prefix: value for prefix, value in stored.items() if value not in out}
        pinned = {prefix for _, locked in held for prefix in prefixes(locked)}
        assert pinned <= set(stored)
        assert (tree.n_values, tree.n_evictable) == (len(stored), len(stored) - len(pinned))

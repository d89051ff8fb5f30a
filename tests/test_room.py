"""A submission's room: cells, calls, stories, and every way in which a room can fail its grader."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from autograder import stories
from autograder.implementations import reference, reference_source
from autograder.remote import (
    Bounds,
    Cell,
    Job,
    Part,
    RoomClient,
    RoomDied,
    RoomTimeout,
    Sandbox,
    remote_names,
)
from autograder.room.answering import Answerer
from autograder.room.proxies import remote
from autograder.running import Status
from autograder.stories import Ref, Script
from autograder.values import NotPlain
from autograder.wire import Node
from course.contract import ROOT, BlockStateError, Match, PoolExhausted, PrefixCache, PrefixMatch
from course.modules import MODULES, Module, find
from tests.rooms_at_hand import BOTH, PLACE, TREE, new_tree, room_over

AUTO = Sandbox.AUTO


def job_of(*modules: Module) -> Job:
    """A job over the references, each in a notebook of its own."""
    texts = [reference_source(module) for module in modules]
    return Job(tuple(Part(m, (Cell(text, f"{m.name}.ipynb, cell 1"),)) for m, text in zip(modules, texts, strict=True)))


# ---------------------------------------------------------------- calls


@pytest.mark.parametrize("kind", BOTH)
def test_every_module_answers_as_it_does_here(kind: Sandbox) -> None:
    manager = find("L10.4")
    with RoomClient(job_of(*MODULES), Bounds(), kind) as client:
        assert client.start() == client.opening and not client.opening.raised and not client.opening.missing
        client.fork(10)
        names = remote_names(client, manager)
        assert set(names) == {name for module in MODULES for name in module.exports}
        assert names["kv_block_hash"](0, [1, 2, 3]) == reference(find("L10.1")).kv_block_hash(0, [1, 2, 3])
        pool = names["KvPool"](n_blocks=8, block_size=4)
        blocks = names["BlockManager"](pool, PrefixCache.RADIX)
        assert blocks.allocate("a", list(range(9))).cached_tokens == 0
        assert (pool.n_free, pool.n_used, blocks.mode) == (5, 3, PrefixCache.RADIX)
        blocks.release("a", list(range(9)))
        assert blocks.allocate(seq=7, tokens=list(range(9))).cached_tokens == 8
        with pytest.raises(KeyError):
            blocks.block_table("a")
        with pytest.raises(PoolExhausted) as exhausted:
            pool.alloc(9)
        assert exhausted.value.needed == 9 and isinstance(exhausted.value.available, int)
        with pytest.raises(BlockStateError):
            pool.retain(99)
        cache = names["RadixCache"](2)
        cache.insert([1, 2, 3, 4], [5, 6])
        assert cache.match_prefix([1, 2, 3, 4, 5]) == PrefixMatch(4, (5, 6), cache.tree.match_prefix([1, 2, 3, 4]).node)
        assert [row[2:4] for row in cache.tree.walk()] == [((1, 2, 3, 4), (5, 6))]
        assert cache.tree.ROOT == names["RadixTree"].ROOT == ROOT
        client.end()


def test_each_test_begins_with_what_the_cells_made() -> None:
    top = "calls = []"
    with room_over("calls.append(1)\nreturn len(calls)", AUTO, top=top) as (client, tree):
        assert [tree.match_prefix([1]), tree.match_prefix([1])] == [1, 2]
        client.end()
        assert new_tree(client).match_prefix([1]) == 1


@pytest.mark.parametrize("error", ["KeyError(3)", "ValueError('no')", "BlockStateError('x')", "PoolExhausted(3, 1)"])
def test_exceptions_arrive_as_what_they_are_with_their_line(error: str) -> None:
    with room_over(f"raise {error}", AUTO, top="from course.contract import *") as (client, tree):
        with pytest.raises(Exception) as caught:
            tree.match_prefix([1])
        assert type(caught.value).__name__ == error.partition("(")[0]
        at: Any = caught.value.at  # type: ignore[attr-defined]
        assert at[0] == PLACE and at[2] == f"raise {error}"
        client.end()


def test_a_class_that_only_bears_the_name_is_no_key_error() -> None:
    with room_over("raise KeyError('x')", AUTO, top="class KeyError(Exception): pass") as (_, tree):
        with pytest.raises(Exception, match="KeyError: x") as caught:
            tree.match_prefix([1])
        assert type(caught.value) is Exception


@pytest.mark.parametrize(
    ("raised", "arrives"),
    [("sys.exit(0)", SystemExit), ("raise KeyboardInterrupt", Exception), ("f = lambda: f(); f()", RecursionError)],
)
def test_what_would_end_a_process_ends_only_the_call(raised: str, arrives: type[BaseException]) -> None:
    with room_over(raised, AUTO) as (client, tree):
        with pytest.raises(arrives) as caught:
            tree.match_prefix([1])
        assert type(caught.value) is arrives
        assert tree.evict(1) == ["right"]
        client.end()


def test_objects_equal_to_everything_do_not_arrive() -> None:
    top = "class Sly(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__"
    with room_over("return Sly(3)", AUTO, top=top) as (_, tree), pytest.raises(NotPlain, match=r"wrap it in int\(\)"):
        tree.match_prefix([1])


def test_a_node_that_is_an_object_stays_in_the_room() -> None:
    body = "return Match(0, (), tokens and self) if tokens != [2] else Match(0, (), 5)"
    with room_over(body, AUTO, top="from course.contract import Match") as (client, tree):
        first, second = tree.match_prefix([1]), tree.match_prefix([1])
        assert first == second == Match(0, (), Node(0))
        assert tree.match_prefix([2]).node == 5
        client.end()


def test_a_changed_argument_changes_here_too_and_is_told() -> None:
    with room_over("tokens.append(1)\nif len(tokens) > 3: raise KeyError(3)\nreturn 1", AUTO) as (client, _):
        names = remote_names(client, TREE)
        tree, tokens = names["RadixTree"](1), [1, 2]
        assert tree.match_prefix(tokens) == 1 and tokens == [1, 2, 1]
        assert names.advice == ("match_prefix changed the list it was given: work on a copy",)
        with pytest.raises(KeyError):
            tree.match_prefix(tokens=tokens)
        assert tokens == [1, 2, 1, 1]
        client.end()


def test_a_list_that_is_filled_with_what_is_not_plain_is_advice() -> None:
    with room_over("tokens.append({1})\nreturn 1", AUTO) as (_, tree):
        tokens = [1, 2]
        with pytest.raises(NotPlain, match="match_prefix changed the list it was given: work on a copy"):
            tree.match_prefix(tokens)
        assert tokens == [1, 2]


def test_a_story_tells_which_calls_change_their_lists() -> None:
    script = Script()
    script.ask(script.new("RadixTree", 1), "match_prefix", [1])
    with room_over("tokens.append(1)\nreturn 1", AUTO) as (client, _):
        names = remote_names(client, TREE)
        assert [outcome.value for outcome in names.play_story(script.story)] == [None, 1]
        assert names.advice == ("match_prefix changed the list it was given: work on a copy",)
        client.end()


def test_lists_that_were_kept_change_with_those_of_the_caller() -> None:
    body = """
        if tokens:
            self.kept = tokens
        return self.kept
    """
    with room_over(body, AUTO) as (client, tree):
        tokens = [1, 2]
        given = tree.match_prefix(tokens)
        tokens[:] = [8, 9]
        assert tree.match_prefix([]) == [8, 9], "the argument was kept, not copied"
        given.append(7)
        assert tree.match_prefix([])[-1] == 7, "the result was kept, not copied"
        client.end()


def test_the_recursion_limit_of_the_caller_holds_in_the_room() -> None:
    body = """
        def down(n):
            return n and down(n - 1)
        return down(tokens[0])
    """
    before = sys.getrecursionlimit()
    with room_over(body, AUTO) as (client, tree):
        assert tree.match_prefix([300]) == 0
        try:
            sys.setrecursionlimit(250)
            with pytest.raises(RecursionError):
                tree.match_prefix([300])
        finally:
            sys.setrecursionlimit(before)
        assert tree.match_prefix([300]) == 0
        client.end()


@pytest.mark.parametrize("verb", ["__class__", "__reduce__", "_names", "format", ""])
def test_nothing_private_can_be_asked_for(verb: str) -> None:
    answerer = Answerer(reference(TREE).names, in_room=False)
    made = answerer.answer({"target": "RadixTree", "verb": "", "args": [1]})["made"]
    answer = answerer.answer({"target": made[1], "verb": verb, "args": []})
    assert answer["raised"]["class"] in ("AttributeError", "TypeError")
    assert "raised" in answerer.answer({"target": 99, "verb": "evict"})


# ---------------------------------------------------------------- stories


def test_a_story_is_played_in_one_message_as_it_is_played_here() -> None:
    script = Script()
    tree = script.new("RadixTree", 1)
    script.ask(tree, "insert", [1, 2, 3], ["a", "b", "c"])
    match = script.ask(tree, "match_prefix", [1, 2])
    script.ask(tree, "lock", match.at("node"))
    script.ask(tree, "evict", 5)
    script.ask(tree, "unlock", match.at("node"))
    script.ask(tree, "unlock", match.at("node"))
    script.ask(tree, "walk")
    script.ask(tree, "n_values")
    script.ask(Ref(99), "n_values")
    script.new("RadixForest")
    asked: list[Any] = []
    with RoomClient(job_of(TREE), Bounds(), AUTO) as client:
        client.start()
        client.fork(10)
        names = remote([*TREE.exports], lambda request: asked.append(request) or client.ask(request))  # type: ignore[func-returns-value]
        here = stories.play(script.story, reference(TREE).names)
        assert names.play_story(script.story) == here
        assert [outcome.raised for outcome in here if outcome.raised] == ["ValueError", "NotDefined"]
        assert len(asked) == 1
        client.end()


def test_a_story_goes_on_after_a_call_that_raises_or_gives_no_plain_value() -> None:
    script = Script()
    tree = script.new("RadixTree", 1)
    script.ask(tree, "match_prefix", [1])
    script.ask(tree, "match_prefix", [])
    script.ask(tree, "evict", 1)
    body = "if not tokens: raise KeyError('x')\nreturn {1, 2}"
    with room_over(body, AUTO) as (client, _):
        outcomes = remote_names(client, TREE).play_story(script.story)
        assert [outcome.raised for outcome in outcomes] == ["", "NotPlain", "KeyError", ""]
        assert outcomes[2].error.at[0] == PLACE  # type: ignore[union-attr]
        assert outcomes[3].value == ["right"]
        client.end()


# ---------------------------------------------------------------- cells


def opened(*sources: str, bounds: Bounds | None = None) -> RoomClient:
    """A room over these cells, opened."""
    cells = tuple(Cell(source, f"mine.ipynb, cell {n}") for n, source in enumerate(sources, 1))
    client = RoomClient(Job((Part(TREE, cells),)), bounds, AUTO)
    try:
        client.start()
    finally:
        client.close()
    return client


def test_a_cell_that_raises_is_told_by_its_line_and_the_next_one_runs() -> None:
    opening = opened("a = 1\nb = a / 0", "raise NotImplementedError", "class RadixTree: pass", "sys = exit()").opening
    assert opening.missing == ()
    assert opening.raised[0] == (
        "mine.ipynb, cell 1: ZeroDivisionError: division by zero (mine.ipynb, cell 1, line 2: b = a / 0)"
    )
    assert [line.partition(": ")[0] for line in opening.raised] == ["mine.ipynb, cell 1", "mine.ipynb, cell 4"]


def test_names_that_are_not_defined_are_told() -> None:
    assert opened("tree = 3").opening.missing == ("RadixTree",)


def test_check_cells_pictures_and_stdin_do_nothing() -> None:
    source = """
import autograder.notebook as course
from autograder.notebook import check, begin
begin("ds.07"); check("x")(3); display(course.lend("RadixTree")); get_ipython().run_line_magic("time", "")
"""
    assert opened(source).opening.raised == ()


def test_a_cell_that_ends_the_process_is_named() -> None:
    with pytest.raises(RoomDied, match=r"ended by itself with exit code 0, in mine.ipynb, cell 2") as caught:
        opened("a = 1", "import os; os._exit(0)")
    assert caught.value.status is Status.DIED


def test_a_cell_without_end_is_named_with_its_line() -> None:
    with pytest.raises(RoomTimeout, match=r"mine\.ipynb, cell 2, line [23]: "):
        opened("a = 1", "n = 0\nwhile True:\n    n = n", bounds=Bounds(cell_s=0.6))


def test_a_part_stands_on_those_before_it() -> None:
    lower = Part(
        TREE, (Cell("class RadixTree:\n    def __init__(self, granule): self.granule = granule", "low", True),)
    )
    text = (
        "from course.modules import RadixTree\nclass RadixCache:\n    def __init__(self, n): self.tree = RadixTree(n)"
    )
    upper = Part(find("L8.4"), (Cell(text, "high"),))
    with RoomClient(Job((lower, upper)), sandbox=AUTO) as client:
        assert client.start().raised == ()
        client.fork(5)
        assert remote_names(client, find("L8.4"))["RadixCache"](3).tree.granule == 3
        client.end()

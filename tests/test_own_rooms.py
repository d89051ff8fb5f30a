"""Students' own tests in a room: the verdicts that a notebook gives, blind, with limits; and how calls are served."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from autograder import implementations, own_rooms, own_tests, scoring
from autograder.reading import Submission
from autograder.room.surface import Reply, Request, stand_ins
from autograder.scoring import FLAT, REFERENCE, OwnScore
from autograder.serving import MOST_BLOCKS, OutOfTime, Rubbish, Serving, Watch, neutral, surface
from autograder.wire import Node
from autograder.work import Broken, Limits
from course import contract, modules
from course.modules import MODULES, Module
from tests.own_suites import FEW, HONEST, IMPORTS, MODULE, play, score, solution, submission

TREE, POOL = modules.find("ds.07"), modules.find("L10.1")


def in_a_room(work: Submission) -> OwnScore:
    rounds, _ = play(work, scoring.order(work.module, "any"))
    return scoring.judge(work.module, rounds, Limits().test_s)


def in_process(work: Submission) -> OwnScore:
    space: dict[str, Any] = {"__name__": "own_tests_here"}
    with modules.bound(surface(scoring.implementation(work.module, REFERENCE).names)):
        for cell in work.for_own_tests:
            exec(compile(cell.source, f"<{cell.place}>", "exec"), space)
    return own_tests.score(work.module, own_tests.suite_in(space))


# ---------------------------------------------------------------- the same verdict both ways


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_the_references_tests_have_one_verdict_both_ways(module: Module) -> None:
    room = in_a_room(solution(module))
    assert room.passed and room.share == 1.0
    assert room == in_process(solution(module))


BAD = {
    "no tests": "x = 1",
    "wrong": "def test_a(): assert RadixCache(2).cached_tokens == 1",
    "skipped": "@pytest.mark.skip\ndef test_a(): assert 0",
    "never asserts": "def test_a(): RadixCache(2).insert([1, 2], [3])",
    "a private attribute": "def test_a(): assert RadixCache(2)._tree",
    "an unknown call": "def test_a(): RadixCache(2).nonsense()",
    "the words of a message": "def test_a():\n    with pytest.raises(ValueError, match='at least 1'): RadixCache(0)",
    "the numbers of nodes": "def test_a():\n    assert RadixCache(1).insert([1], [5]).node == 77",
    "a catch": (
        "def test_a():\n    c = RadixCache(2)\n    c.insert([1, 2, 3, 4], [5, 6])\n    assert c.cached_tokens == 4"
    ),
    "an assumption that a property refutes": (
        "@given(st.lists(st.integers(0, 3), max_size=6))\ndef test_a(t):\n"
        "    assert RadixCache(1).match_prefix(t).matched_tokens == len(t)"
    ),
    "exit": "import sys\ndef test_a(): sys.exit(0)",
    "a fixture that is not there": "def test_a(nobody): pass",
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_suite_has_one_verdict_both_ways(kind: str) -> None:
    work = submission(IMPORTS + BAD[kind])
    room, process = in_a_room(work), in_process(work)
    assert not room.passed
    assert (room.valid, room.caught, room.missed, room.reason.split("(")[0]) == (
        *(process.valid, process.caught, process.missed),
        process.reason.split("(")[0],
    )


def test_tests_that_cant_be_collected_say_why() -> None:
    with pytest.raises(Broken, match="function uses no argument 'm'"):
        play(submission(IMPORTS + "@pytest.mark.parametrize('m', [1])\ndef test_each(n): pass"))


def test_pytest_and_hypothesis_work_as_they_always_do() -> None:
    result = score("""
@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("A", "1")
    assert tmp_path.exists()
    return RadixCache(2)
@pytest.mark.parametrize("size", [0, -1])
def test_sizes(size):
    with pytest.raises(ValueError): RadixCache(size)
def test_fixture(cache):
    cache.insert([1, 2, 3, 4], [10, 11])
    assert cache.cached_tokens == 4
@pytest.mark.skip
def test_skipped(): assert 0
@pytest.mark.xfail
def test_expected_to_fail(cache): assert cache.match_prefix([]).matched_tokens == 5
class TestClass:
    @given(st.lists(st.integers(0, 3), min_size=2, max_size=2))
    def test_property(self, tokens):
        cache = RadixCache(block_size=2)
        cache.insert(tokens, [1])
        assert cache.match_prefix(tokens).blocks == ()
""")
    assert result.valid and result.caught == ("s01", "m02")


def test_cells_that_raise_are_remarked_once_and_helpers_run() -> None:
    work = submission(IMPORTS + HONEST + "\nprint('x' * 9)\n1 / 0\n")
    rounds, remarks = play(work)
    assert scoring.judge(MODULE, rounds).caught == ("s01", "m02")
    assert [line.split(" (")[0] for line in remarks.raised] == [
        "own.ipynb, cell 1: ZeroDivisionError: division by zero"
    ]


# ---------------------------------------------------------------- rounds


def test_the_order_is_new_each_time_but_begins_and_ends_with_right_code() -> None:
    order = scoring.order(MODULE, "any")
    played = [own_rooms._shuffled(order) for _ in range(3)]
    assert len({tuple(rows) for rows in played}) == 3
    for rows in played:
        assert rows[0] == rows[-1] == (REFERENCE, False)
        assert sorted(name for name, extra in rows if not extra) == sorted(order)
        assert sum(extra for _, extra in rows) == own_rooms.EXTRA


def test_what_is_told_is_one_round_for_each_of_the_order() -> None:
    rounds, _ = play(submission(IMPORTS + HONEST))
    assert sorted(round_.implementation for round_ in rounds) == sorted(FEW)
    assert rounds[0].implementation == rounds[-1].implementation == REFERENCE


def test_time_for_the_whole_submission_ends_every_round() -> None:
    rounds, _ = play(submission(IMPORTS + "import time\ndef test_a(): time.sleep(60)"), limits=Limits(total_s=2.0))
    assert rounds[0].cut_off == "timed out"


def test_an_endless_loop_in_an_implementation_ends_with_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        def __init__(self, block_size: int) -> None:
            while True:
                pass

    right = scoring.implementation

    def implementation(module: Module, name: str) -> Any:
        subject = right(module, name)
        if name != "m02":
            return subject
        return type(subject)(module, {**subject.names, "RadixCache": Endless}, "endless")

    monkeypatch.setattr(scoring, "implementation", implementation)
    result = score(HONEST, (REFERENCE, "m02", FLAT, REFERENCE), Limits(test_s=1.5))
    assert result.valid and result.caught == ("m02",)


# ---------------------------------------------------------------- what a test sees


def names(module: Module, name: str = REFERENCE) -> dict[str, Any]:
    return surface(scoring.implementation(module, name).names)


@pytest.mark.parametrize("name", [REFERENCE, FLAT, "s01"])
def test_a_stand_in_shows_the_contract_and_nothing_else(name: str) -> None:
    cache = names(MODULE, name)["RadixCache"](block_size=2)
    shown = [each for each in dir(cache) if not each.startswith("__")]
    assert shown == [
        *("block_size", "cached_blocks", "cached_tokens", "evict", "evictable_blocks", "hit_rate", "insert"),
        *("lock", "match_prefix", "stats", "tree", "unlock"),
    ]
    for attribute in ("_tree", "nonsense", "number", "__dict__"):
        with pytest.raises(AttributeError, match=f"^'RadixCache' object has no attribute '{attribute}'$"):
            getattr(cache, attribute)
    assert repr(cache) == "<RadixCache>" and repr(type(cache)) == "<class 'course.modules.RadixCache'>"
    assert cache.tree is cache.tree and isinstance(cache.tree, names(MODULE)["RadixTree"]) is False
    assert cache.match_prefix(tokens=range(4)) == contract.PrefixMatch(0, (), contract.ROOT)
    with pytest.raises(TypeError, match="missing a required argument: 'tokens'"):
        cache.match_prefix()


@pytest.mark.parametrize("name", [REFERENCE, FLAT])
def test_errors_keep_their_class_and_lose_their_words(name: str) -> None:
    pool = names(POOL, name)["KvPool"](2, 4)
    with pytest.raises(contract.PoolExhausted) as full:
        pool.alloc(3)
    assert (full.value.needed, full.value.available) == (3, 2)
    with pytest.raises(contract.BlockStateError, match=r"^the call is refused$"):
        pool.retain(9)


def test_a_class_of_ones_own_leaves_as_its_nearest_base() -> None:
    class Odd(KeyError):
        pass

    assert type(neutral(Odd("secret"))) is KeyError and "secret" not in str(neutral(Odd("secret")))


def test_objects_of_a_tests_own_come_back_and_changed_lists_are_changed() -> None:
    tree = names(TREE)["RadixTree"](1)
    mine, values = object(), [object(), object()]
    tree.insert([1], [mine])
    assert tree.match_prefix([1]).values[0] is mine
    eaten = names(TREE, "s21")["RadixTree"](1)
    eaten.insert([1, 2], values)
    assert len(values) < 2


def test_a_manager_takes_the_pool_that_was_served() -> None:
    served = names(modules.find("L10.4"))
    pool = served["KvPool"](8, 4)
    manager = served["BlockManager"](pool, contract.PrefixCache.HASH)
    assert manager.allocate("a", [1, 2, 3]) == contract.Allocation(0, (0,))
    assert pool.n_used == 1 and manager.mode is contract.PrefixCache.HASH
    assert served["kv_block_hash"](0, [1]) == implementations.flat(POOL).names["kv_block_hash"](0, [1])


# ---------------------------------------------------------------- what is refused


def made() -> Serving:
    serving = Serving(scoring.implementation(MODULE, REFERENCE).names)
    assert serving.answer(Request("RadixCache", "", (2,))) == Reply(Node(0), {}, "RadixCache")
    return serving


@pytest.mark.parametrize(
    "request_",
    [
        Request("__import__", "", ("os",)),
        Request("RadixCache", "insert", (2,)),
        Request("RadixCache", "", (2, 3)),
        Request(0, "_tree", ()),
        Request(0, "__init__", (2,)),
        Request(0, "__class__", ()),
        Request(0, "stats", (1,)),
        Request(0, "evict", ()),
        Request(1, "evict", (1,)),
        Request(-1, "evict", (1,)),
        Request(True, "evict", (1,)),
        Request(0, "lock", (Node(5),)),
        Request("RadixCache", "", (MOST_BLOCKS + 1,)),
    ],
    ids=str,
)
def test_what_no_stand_in_asks_is_refused(request_: Request) -> None:
    with pytest.raises(Rubbish):
        made().answer(request_)


def test_a_stand_in_only_passes_on_what_it_is_given() -> None:
    asked: list[Request] = []

    def line(request: Request) -> Reply:
        asked.append(request)
        return Reply(Node(3), {}, "RadixCache") if not request.verb else Reply([1, 2])

    cache = stand_ins(["RadixCache"], line)["RadixCache"](4)
    assert cache.evict(2) == [1, 2]
    assert asked == [Request("RadixCache", "", (4,)), Request(3, "evict", (2,))]


# ---------------------------------------------------------------- the watch


def test_a_watch_ends_a_call_and_no_other() -> None:
    def endless() -> None:
        while True:
            pass

    watch = Watch(0.2)
    assert watch.call(lambda: 1) == 1
    with pytest.raises(OutOfTime):
        watch.call(endless)
    late = Watch(0.01)
    time.sleep(0.1)
    with pytest.raises(OutOfTime):
        late.call(lambda: 1)


def test_a_watch_works_in_a_thread() -> None:
    ended: list[bool] = []

    def work() -> None:
        try:
            Watch(0.2).call(lambda: [None for _ in iter(int, 1)])
        except OutOfTime:
            ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert ended == [True]

"""Every way in which a submission's room can end, and what its grader makes of it."""

from __future__ import annotations

import pytest

from autograder.remote import RoomClient, RoomDied, RoomTimeout, Sandbox, WireBroken, remote_names
from autograder.running import Status
from course.modules import find
from tests.rooms_at_hand import BOTH, PLACE, new_tree, room_over, tree_job

AUTO = Sandbox.AUTO


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("os._exit(0)", "ended by itself with exit code 0"),
        ("os._exit(7)", "ended by itself with exit code 7"),
        ("os.kill(os.getpid(), 9)", "ended by the signal SIGKILL"),
        ("os.kill(os.getpid(), 11)", "ended by the signal SIGSEGV"),
        ("import ctypes; ctypes.string_at(0)", "ended by the signal SIGSEGV"),
    ],
)
def test_a_death_is_told_and_the_next_room_is_whole(kind: Sandbox, body: str, reason: str) -> None:
    with room_over(body, kind) as (client, tree):
        with pytest.raises(RoomDied, match=reason) as caught:
            tree.match_prefix([1])
        assert caught.value.status is Status.DIED
        with pytest.raises(RoomDied):
            tree.evict(1)
        client.restart()
        assert new_tree(client).evict(1) == ["right"]
        client.end()


WIRES = """
    import gc
    from autograder.wire import Channel
    [end] = [thing.end for thing in gc.get_objects() if type(thing) is Channel and thing.end.fileno() >= 0]
"""


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    "body",
    [
        "end.sendall(b'passed\\n')",
        "end.sendall(b'\\xff\\xfe\\n')",
        'end.sendall(b\'{"n": 2, "value": 1}\\n\')',
        'end.sendall(b\'{"n": 7, "value": 1}\\n\')',
        'end.sendall(b\'{"n": true, "value": 1}\\n\')',
        "end.sendall(b'{\"value\": 1}\\n')",
        'end.sendall(b\'{"n": 2, "value": {"p": 1}}\\n\')',
        "end.sendall(b'{\"n\": 2}\\n')",
        "end.sendall(b'[' * 100_000 + b'\\n')",
        "[end.sendall(b'x' * (1 << 20)) for _ in range(20)]",
        "while True: end.sendall(b'x' * (1 << 20))",
    ],
)
def test_rubbish_and_answers_out_of_turn_break_the_wire(kind: Sandbox, body: str) -> None:
    """An early answer, a right one, comes back for its own call, and is found out by the next."""
    lines = "\n".join(line[4:] for line in WIRES.splitlines())
    with room_over(f"{lines}\n{body}\nreturn 2", kind) as (client, tree):
        with pytest.raises(WireBroken):
            tree.match_prefix([1])
            tree.evict(1)
        assert isinstance(client.failure, WireBroken), "whoever caught it finds it here"
        client.restart()
        assert new_tree(client).evict(1) == ["right"]
        client.end()


def test_an_answer_that_is_left_over_at_the_end_of_a_test_breaks_the_wire() -> None:
    lines = "\n".join(line[4:] for line in WIRES.splitlines())
    body = f'{lines}\nend.sendall(b\'{{"n": 2, "value": 1}}\\n\')\nreturn 2'
    with room_over(body, AUTO) as (client, tree):
        assert tree.match_prefix([1]) == 1
        with pytest.raises(WireBroken, match="out of turn"):
            client.end()


def test_a_wire_that_is_closed_from_inside_is_a_death() -> None:
    lines = "\n".join(line[4:] for line in WIRES.splitlines())
    with room_over(f"{lines}\nend.close()\ntime.sleep(60)", AUTO) as (_, tree), pytest.raises(RoomDied):
        tree.match_prefix([1])


@pytest.mark.parametrize("kind", BOTH)
def test_silence_is_a_time_out_that_names_the_line(kind: Sandbox) -> None:
    with room_over("time.sleep(60)", kind, seconds=0.6) as (client, tree):
        with pytest.raises(RoomTimeout, match=f"No end within 0.6 s: the time went in {PLACE}, line 7: time.sleep"):
            tree.match_prefix([1])
        client.restart()
        assert new_tree(client).evict(1) == ["right"]


def test_the_time_of_a_test_is_for_all_its_calls_together() -> None:
    with room_over("time.sleep(0.2)", AUTO, seconds=0.7) as (_, tree), pytest.raises(RoomTimeout):
        for _ in range(4):
            tree.match_prefix([1])


def test_an_end_of_a_room_is_never_taken_for_an_error_of_the_code() -> None:
    for end in (RoomDied, RoomTimeout, WireBroken):
        assert not issubclass(end, Exception)


def test_a_room_is_for_its_own_module() -> None:
    with RoomClient(tree_job("return 1"), sandbox=AUTO) as client:
        client.start()
        with pytest.raises(ValueError, match="opened for"):
            remote_names(client, find("L8.4"))

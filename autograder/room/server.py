"""The process in which a submission runs: it opens the room, and forks once for each test.

It knows how to run a job's cells and then serve calls on what they define. Control messages come on one
socket, and with each fork a fresh socket on which the fork answers; nothing of one test can reach the
wire of another. It judges nothing: what it says is only an answer, and the grader trusts none of it.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autograder.room import cells, processes
from autograder.room.answering import Answerer
from autograder.wire import Channel, Message, WireBroken
from course import modules
from course.modules import Module

_fork, _exit, _setitimer, _recv_fds = os.fork, os._exit, signal.setitimer, socket.recv_fds


@dataclass
class Room:
    """What the server holds: the control wire, where to say what hangs, and after opening what there is to serve."""

    control: Channel
    where: int
    alone: bool
    folder: str
    space: dict[str, Any] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)


def serve(control_fd: int, where_fd: int, alone: bool, folder: str) -> None:
    """Open the room as the first message says, then serve until the control wire is closed."""
    room = Room(Channel(socket.socket(fileno=control_fd)), where_fd, alone, folder)
    # Unlike a handler in Python, this one works inside a loop in C and under `except BaseException`.
    faulthandler.register(signal.SIGALRM, file=where_fd, all_threads=False, chain=False)
    try:
        job = room.control.receive()
        _open(room, job)
        while True:
            _one_test(room, job, *_fork_request(room.control))
    except WireBroken:
        processes.end_all_others(0, alone)  # the grader is gone, or has no more to ask
    _exit(0)


# ---------------------------------------------------------------- opening


def _open(room: Room, job: Message) -> None:
    """Run every part's cells, binding what each defines for the next; say what came of it."""
    for name in job["warm"]:
        importlib.import_module(name)
    for part in job["parts"]:
        last = part is job["parts"][-1]
        module = modules.find(part["module"])
        room.space = cells.space_for(module.name, part["is_notebook"])
        if job["own_tests"] and last:
            _lend_stand_ins(room, module, part["is_notebook"])
        gc.freeze()
        gc.enable()
        _run(room, part["cells"], job["cell_s"])
        if not (job["own_tests"] and last):
            defined = {name: room.space[name] for name in module.exports if name in room.space}
            modules.bind(defined)
            room.names.update(defined)
    cells.compile_for_forks(job["compiled"])
    _setitimer(signal.ITIMER_REAL, 0)
    wanted = [name for part in job["parts"] for name in modules.find(part["module"]).exports]
    gc.freeze()  # what is there now is shared by every fork
    missing = [name for name in wanted if name not in room.names]
    room.control.send({"open": True, "missing": missing})


def _lend_stand_ins(room: Room, module: Module, is_notebook: bool) -> None:
    from autograder.room import own

    names = own.names(module)
    modules.bind(names)
    room.space.update(names)
    room.names.update(names)
    if not is_notebook:
        sys.modules[module.name] = cells.Standing(module.name)


def _run(room: Room, rows: list[Mapping[str, Any]], cell_s: float) -> None:
    def begin(place: str) -> None:
        _setitimer(signal.ITIMER_REAL, _before(cell_s))
        room.control.send({"cell": place})

    def raised(place: str, error: BaseException) -> None:
        room.control.send({"raised": answerer.told(error), "cell": place})

    answerer = Answerer({}, cells.place)
    cells.run_cells(rows, room.space, begin, raised)


def _before(seconds: float) -> float:
    """A moment shortly before a limit of so many seconds: time enough to say where the code is."""
    return max(seconds - 0.3, seconds * 0.8)


# ---------------------------------------------------------------- serving


def _fork_request(control: Channel) -> tuple[Message, socket.socket]:
    """The next request for a fork, and the socket on which it is to answer."""
    control.end.settimeout(None)
    data, fds, _, _ = _recv_fds(control.end, 1, 1)
    if not data or len(fds) != 1:
        raise WireBroken("no more requests")
    return control.receive(), socket.socket(fileno=fds[0])


def _one_test(room: Room, job: Message, request: Message, end: socket.socket) -> None:
    """Fork, let the fork serve one test, and when the grader says so, tidy up and say "ready" with its nonce."""
    child = _fork()
    if child == 0:
        try:
            room.control.close()
            _serve_fork(room, job, request, end)
        finally:
            _exit(0)
    end.close()
    nonce = room.control.receive()["nonce"]
    ended = processes.end_all_others(child, room.alone)
    processes.empty(room.folder)
    room.control.send({"ready": nonce, "status": ended.status, "cpu_s": ended.cpu_s})


def _serve_fork(room: Room, job: Message, request: Message, end: socket.socket) -> None:
    processes.bind_to_parent(adopt=False)
    processes.limit_cpu(request["cpu_s"])
    channel = Channel(end)
    _setitimer(signal.ITIMER_REAL, _before(request["seconds"]))
    if request["serve"] == "own":
        from autograder.room import own

        own.serve(channel, modules.find(job["parts"][-1]["module"]), room.space, request)
        return
    answer_calls(channel, Answerer(room.names, cells.place))


def answer_calls(channel: Channel, answerer: Answerer) -> None:
    """Answer requests, each with its number, until the wire is closed."""
    while True:
        try:
            request = channel.receive()
        except WireBroken:
            return
        answer = answerer.answer(request)
        channel.send({"n": request["n"], **answer})

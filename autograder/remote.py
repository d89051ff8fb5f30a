"""The grader's side of a submission's room: start it, open it, and talk to one fork of it a test.

It knows how to ask and how long to wait, and what a room's end means. What is asked, and what the
answers are worth, it does not know. A room that breaks a rule is ended whole; `restart` gives a new one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import time
from collections.abc import Iterator
from typing import Any, NoReturn

from autograder.jobs import Cell, Job, Opening, Part, explained
from autograder.room.proxies import RemoteNames, remote
from autograder.running import Status
from autograder.sandbox import Bounds, NoSandbox, Sandbox, Started, start
from autograder.wire import Channel, Message, Silence, WireBroken, WireClosed, decode_error
from course.modules import Module

START_S = 20.0
"""Seconds a room has to start: it takes a tenth of one, on a machine that is not very busy."""

END_S = 5.0
"""Seconds a room has to tidy up after a test."""

__all__ = [
    "Bounds",
    "Cell",
    "Job",
    "NoSandbox",
    "Opening",
    "Part",
    "RoomClient",
    "RoomDied",
    "RoomTimeout",
    "Sandbox",
    "WireBroken",
    "remote_names",
]


class RoomDied(BaseException):
    """The room, or the fork that served a test, came to its end. `status` and `reason` make the verdict.

    Like the other ends of a room it is no `Exception`: no test may take it for one of the code under test.
    """

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class RoomTimeout(BaseException):
    """No answer in time. `where` is "" or names the line of the submission that was running; `seconds` the limit."""

    def __init__(self, seconds: float, where: str = "") -> None:
        super().__init__(f"No end within {seconds:g} s{f': the time went in {where}' if where else ''}")
        self.seconds, self.where = seconds, where


# ---------------------------------------------------------------- the room


class RoomClient:
    """One room: `start()` it, then for each test `fork()`, ask, `end()`; `close()` at last.

    Every method that waits raises RoomTimeout, RoomDied or WireBroken. The room is then gone as a whole,
    the failure is kept in `failure` and raised again by whatever is asked next, and `restart()` gives a
    fresh room with the same job, its cells run again. Start it in a thread that lives as long as the room
    is wanted: a sandbox ends with the thread that started it.

    Args:
        job: what to run before serving.
        bounds: what the room may use.
        sandbox: whether to isolate.
    """

    def __init__(self, job: Job, bounds: Bounds | None = None, sandbox: Sandbox = Sandbox.AUTO) -> None:
        self.job, self.bounds, self.sandbox = job, bounds or Bounds(), sandbox
        self.opening = Opening()
        self.isolation = ""
        self.failure: BaseException | None = None
        self.channel: Channel | None = None
        self.deadline = 0.0
        self._seconds, self._cpu_s = 0.0, 0
        self._started: Started | None = None
        self._control: Channel | None = None
        self._number = 0
        self._cell = ""

    def __enter__(self) -> RoomClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ its life

    def start(self) -> Opening:
        """Start the room and run the job's cells.

        Raises:
            NoSandbox: isolation is required, and there is none here.
        """
        self._started = start(self.bounds, self.sandbox)
        self.isolation = self._started.isolation
        self._control, self.failure, self._cell = Channel(self._started.control), None, ""
        self._within(START_S)
        with self._watched():
            self._control.send(self.job.message(self.bounds.cell_s), self.deadline)
            self.opening = self._opened(self._control)
        return self.opening

    def _opened(self, control: Channel) -> Opening:
        """Follow the cells: one message for each that begins, in order, and at most one for what it raised."""
        raised: dict[str, None] = {}
        for cell in [cell for part in self.job.parts for cell in part.cells]:
            said = control.receive(self.deadline)
            if "raised" in said and self._cell:
                raised[explained(self._cell, decode_error(said["raised"]))] = None
                said = control.receive(self.deadline)
            if said.get("cell") != cell.place or "raised" in said:
                raise WireBroken("the process answered out of turn")
            self._cell = cell.place
            self._within(self.bounds.cell_s)
        said = control.receive(self.deadline)
        if "raised" in said and self._cell:
            raised[explained(self._cell, decode_error(said["raised"]))] = None
            said = control.receive(self.deadline)
        if said.get("open") is not True:
            raise WireBroken("the process answered out of turn")
        return Opening(tuple(raised), _texts(said.get("missing")))

    def restart(self) -> Opening:
        """End the room, whatever its state, and start a fresh one with the same job."""
        self.close()
        return self.start()

    def close(self) -> None:
        """End the room and everything in it."""
        if self.channel is not None:
            self.channel.close()
            self.channel = None
        if self._started is not None:
            self._started.end()
            self._started = None

    # ------------------------------------------------------------ a test

    def fork(self, seconds: float, serve: str = "calls", **request: Any) -> None:
        """Begin a test: a fork of the room, fresh from its cells, that serves until `end`.

        Args:
            seconds: of wall clock for all of the test, and of CPU time rounded up.
            serve: "calls" for `ask`; "own" for own tests (autograder/room/own.py).
            request: what else the fork should know.
        """
        ours, theirs = socket.socketpair()
        self.channel, self._number, self._cell = Channel(ours), 0, ""
        self._within(seconds)
        self._cpu_s = int(seconds) + 1
        message = {**request, "serve": serve, "seconds": seconds, "cpu_s": self._cpu_s}
        with self._watched(), theirs:
            control = self._there()
            self._drain()
            try:
                socket.send_fds(control.end, [b"F"], [theirs.fileno()])
            except OSError:
                raise WireClosed from None
            control.send(message, self.deadline)

    def ask(self, request: Message) -> Message:
        """Send one request to the fork and give its answer."""
        self._there()
        channel = self._forked()
        self._number += 1
        try:
            channel.check_quiet()
            channel.send({"n": self._number, **request}, self.deadline)
            answer = channel.receive(self.deadline)
            if type(answer.get("n")) is not int or answer["n"] != self._number:
                raise WireBroken("the process answered out of turn")
        except (Silence, WireBroken) as trouble:
            self._broke(trouble)
        return answer

    def send(self, message: Message) -> None:
        """Send a message to the fork, by the deadline; for those who answer rather than ask."""
        self._there()
        try:  # not `_watched`, for speed: a student's tests make thousands of calls
            self._forked().send(message, self.deadline)
        except (Silence, WireBroken) as trouble:
            self._broke(trouble)

    def receive(self) -> Message:
        """The next message of the fork, by the deadline; for those who answer rather than ask."""
        self._there()
        try:
            return self._forked().receive(self.deadline)
        except (Silence, WireBroken) as trouble:
            return self._broke(trouble)

    def end(self) -> None:
        """End the test: the fork and every process it left are ended, and /tmp is emptied."""
        with self._watched():
            control, channel = self._there(), self._forked()
            channel.check_quiet()
            self._within(END_S)
            self._end_fork(control)
            channel.check_quiet()  # whoever could have written to it is gone: this is all there will ever be
            channel.close()
            self.channel = None

    def _end_fork(self, control: Channel) -> tuple[int, float]:
        """Let the room tidy up; the exit code of the fork, and the seconds of CPU time that it used."""
        nonce = secrets.token_hex(8)
        control.send({"nonce": nonce}, self.deadline)
        said = control.receive(self.deadline)
        status, cpu_s = said.get("status"), said.get("cpu_s")
        if said.get("ready") != nonce or type(status) is not int or type(cpu_s) is not float:
            raise WireBroken("the process answered out of turn")
        control.check_quiet()
        return _exit_code(status), cpu_s

    # ------------------------------------------------------------ its ends

    def _within(self, seconds: float) -> None:
        self._seconds, self.deadline = seconds, time.monotonic() + seconds

    def _there(self) -> Channel:
        if self.failure is not None:
            raise self.failure
        if self._started is None or self._control is None:
            raise RuntimeError("the room is not started")
        return self._control

    def _forked(self) -> Channel:
        if self.channel is None:
            raise RuntimeError("no test has begun: fork first")
        return self.channel

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Turn what goes wrong on the wire into the room's end, and end it."""
        try:
            yield
        except (Silence, WireBroken) as trouble:
            self._broke(trouble)

    def _broke(self, trouble: Silence | WireBroken) -> NoReturn:
        if isinstance(trouble, Silence):
            self._fail(RoomTimeout(self._seconds, self._where()))
        self._fail(self._death() if isinstance(trouble, WireClosed) else trouble)

    def give_up(self, failure: BaseException) -> None:
        """End the room for good, for this reason."""
        self.failure = failure
        self.close()

    def _fail(self, failure: BaseException) -> NoReturn:
        self.give_up(failure)
        raise failure from None

    def _where(self) -> str:
        """Where the submission is, from what its process wrote just before its time was over."""
        return self.job.line(self._drain()) or (self._cell if self.channel is None else "")

    def _drain(self) -> str:
        data = b""
        if self._started is not None:
            with contextlib.suppress(BlockingIOError):
                data = os.read(self._started.where, 1 << 16)
        return data.decode("ascii", "replace")

    def _death(self) -> RoomDied:
        """What the end of a fork, or of the room itself, means."""
        if self.channel is not None and self._control is not None:
            self._within(END_S)
            try:
                code, cpu_s = self._end_fork(self._control)
                spent = cpu_s >= min(self._cpu_s, self.bounds.cpu_s) and code in (-signal.SIGKILL, -signal.SIGXCPU)
                return RoomDied(Status.TIMED_OUT, "The process used up its CPU time") if spent else died(code)
            except (WireClosed, Silence):
                pass  # the room itself is gone, or hangs: its own end says how
            except WireBroken:  # it is there and tells what can't be: nothing to wait for
                return RoomDied(Status.DIED, "The process answered out of turn")
        if self._started is None:
            return RoomDied(Status.DIED, "The process ended")
        with contextlib.suppress(Exception):
            self._started.process.wait(END_S)
        if not self._cell and self.channel is None and (words := self._started.last_words):
            return RoomDied(Status.DIED, f"The room did not start: {words}")
        where = f", in {self._cell}" if self._cell else ""
        code = self._started.process.returncode
        if code is None:
            return RoomDied(Status.DIED, f"The process closed the wire{where}")
        return died(128 - code if self.sandboxed and code > 128 else code, where)

    @property
    def sandboxed(self) -> bool:
        """Whether the room that runs is isolated."""
        return self._started is not None and self._started.inner is not None


def died(code: int, where: str = "") -> RoomDied:
    """The end of a process, by its exit code, or by the number of a signal, made negative."""
    if code == -signal.SIGXCPU:
        return RoomDied(Status.TIMED_OUT, f"The process used up its CPU time{where}")
    if code < 0:
        return RoomDied(Status.DIED, f"The process was ended by the signal {_signal(-code)}{where}")
    return RoomDied(Status.DIED, f"The process ended by itself with exit code {code}{where}")


def _exit_code(status: int) -> int:
    try:
        return os.waitstatus_to_exitcode(status)
    except (ValueError, OverflowError):
        raise WireBroken("the process answered out of turn") from None


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(value for value in values if type(value) is str) if type(values) is list else ()


def remote_names(client: RoomClient, module: Module) -> RemoteNames:
    """Stand-ins for what the module and those underneath export, as far as the room defines it.

    Make them anew for each fork: objects made through them live in it.
    """
    wanted = [name for part in client.job.parts for name in part.module.exports]
    if client.job.parts[-1].module != module:
        raise ValueError(f"this room was opened for {client.job.parts[-1].module.id}, not for {module.id}")
    there = [name for name in wanted if name not in client.opening.missing]
    return remote(there, client.ask, client.give_up, module.adds)

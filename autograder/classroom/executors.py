"""Where tasks run: in processes on this machine, or on a Dask cluster, both behind the interface of concurrent.futures.

It knows how processes are started, how they end, and what is left of one that died. What a task is, and what
its end means for a class, it does not know.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pickle
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, ParamSpec, TypeVar

from autograder.room.processes import bind_to_parent

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_S = 3600.0
"""A task without an end by then is given up: each thing that a task does has limits far below it."""


PATIENCE_S = 30.0
"""Seconds to wait for a cluster's scheduler, and for its first worker."""


class WorkerDied(Exception):
    """The process that a task ran in came to its end; the message says how."""


class NoCluster(Exception):
    """There is no cluster to run on; the message says why and what to do."""


@dataclass(frozen=True)
class Crew:
    """Whoever runs tasks: an executor, and how many tasks it runs at once, asked anew each time."""

    executor: Executor
    width: Callable[[], int]


# ---------------------------------------------------------------- this machine


@contextlib.contextmanager
def local(n_workers: int) -> Iterator[Crew]:
    """So many processes on this machine. They end with the `with` block, and with this process, however it ends."""
    processes = Processes(n_workers)
    try:
        yield Crew(processes, lambda: n_workers)
    finally:
        processes.end()


class Processes(Executor):
    """An executor over processes of which each has one task at a time: one that dies takes no other task with it.

    Its tasks get WorkerDied, and a new process takes its place. Processes are spawned when they are first
    needed, and keep what they have loaded from one task to the next.

    Args:
        n_workers: how many processes there are.
    """

    def __init__(self, n_workers: int) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], bytes] | None] = queue.SimpleQueue()
        self._workers: list[_Worker | None] = [None] * n_workers
        self._threads = [
            threading.Thread(target=self._serve, args=(place,), name=f"worker {place}", daemon=True)
            for place in range(n_workers)
        ]
        self._closed = False
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a process call a function, which is sent to it by its name, and so are its arguments and its result."""
        if self._closed:
            raise RuntimeError("this executor was shut down")
        future: Future[T] = Future()
        self._calls.put((future, pickle.dumps((fn, args, kwargs))))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and end each process once its call is done; `cancel_futures`: those that wait go."""
        if cancel_futures:
            with contextlib.suppress(queue.Empty):
                while call := self._calls.get_nowait():
                    call[0].cancel()
        if not self._closed:
            self._closed = True
            for _ in self._threads:
                self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def end(self) -> None:
        """Shut down now: calls that wait or run have no result."""
        self.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            if worker is not None:
                worker.process.kill()
        self.shutdown()

    def _serve(self, place: int) -> None:
        """Pass calls on to one process after the other, in a thread that lives as long as the processes: they end
        with it."""
        while (call := self._calls.get()) is not None:
            future, message = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                worker = self._workers[place] = self._workers[place] or _Worker()
                future.set_result(worker.call(message))
            except WorkerDied as death:
                self._workers[place] = None
                future.set_exception(death)
            except BaseException as error:
                future.set_exception(error)
        if worker_left := self._workers[place]:
            worker_left.end()


class _Worker:
    """One process, and the wire to it."""

    def __init__(self) -> None:
        spawning = multiprocessing.get_context("spawn")  # torch that has run must not be forked
        self._wire, theirs = spawning.Pipe()
        self.process = spawning.Process(target=_work, args=(theirs, os.getpid()), daemon=True)
        self.process.start()
        theirs.close()

    def call(self, message: bytes) -> Any:
        """What a call gives. Raises what it raises, or WorkerDied."""
        try:
            self._wire.send_bytes(message)
            if not wait([self._wire, self.process.sentinel], LONGEST_S):
                self.process.kill()
                self.process.join()
                raise WorkerDied(f"no end within {LONGEST_S / 60:g} minutes")
            done, value = pickle.loads(self._wire.recv_bytes())
        except (EOFError, OSError):
            self.process.join(5)
            self.process.kill()
            self.process.join()
            raise WorkerDied(_how(self.process.exitcode)) from None
        if done:
            return value
        raise value

    def end(self) -> None:
        """End it, now that it has nothing to do."""
        self._wire.close()
        self.process.join(5)
        self.process.kill()
        self.process.join()


def _how(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None or code >= 0:
        return f"it ended by itself with exit code {code}"
    if code == -signal.SIGKILL:
        return "it was ended by the signal SIGKILL, as happens when the machine's memory runs out"
    return f"it was ended by the signal {signal.Signals(-code).name}"


def _work(wire: Connection, parent: int) -> None:
    """The life of a process: answer calls until the wire is closed."""
    bind_to_parent(adopt=False)
    if os.getppid() != parent:  # it ended before this process was bound to it
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal: the parent decides
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    while True:
        try:
            message = wire.recv_bytes()
        except (EOFError, OSError):
            return
        wire.send_bytes(_answered(message))


def _answered(message: bytes) -> bytes:
    try:
        call, args, kwargs = pickle.loads(message)
        return pickle.dumps((True, call(*args, **kwargs)))
    except BaseException as error:
        return pickle.dumps((False, _that_travels(error)))


def _that_travels(error: BaseException) -> BaseException:
    """An error, or where it can't be sent as it is, one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


# ---------------------------------------------------------------- a cluster


@contextlib.contextmanager
def on_cluster(address: str) -> Iterator[Crew]:
    """The workers of a Dask cluster, for the length of a `with` block. They need what is here: course and packages.

    Args:
        address: of the scheduler, such as tcp://10.0.0.1:8786.

    Raises:
        NoCluster: there is none at this address, it has no workers, or they would grade otherwise than this machine.
    """
    distributed: Any = importlib.import_module("distributed")  # it takes a second, and has no types
    try:
        client = distributed.Client(address, timeout=PATIENCE_S)
    except (OSError, ValueError, TimeoutError) as problem:
        raise NoCluster(f"there is no Dask scheduler at {address}: {problem}") from None
    try:
        _look_over(client, address)
        executor = client.get_executor(pure=False)
        try:
            yield Crew(executor, lambda: max(len(client.scheduler_info(n_workers=-1)["workers"]), 1))
        finally:
            executor.shutdown(wait=False)
    finally:
        client.close()


def _look_over(client: Any, address: str) -> None:
    """See that there are workers, and that verdicts of theirs are those that would be found here."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE_S)
    except TimeoutError:
        raise NoCluster(f"the Dask scheduler at {address} has no workers: start some (dask worker)") from None
    try:
        theirs = client.run(version)
    except Exception as problem:  # whatever keeps a worker from importing the course
        raise NoCluster(f"the workers at {address} can't grade ({problem}): install the course there") from None
    if others := [worker for worker, its in theirs.items() if its != version()]:
        raise NoCluster(
            f"{others[0]} has other files of the course than this machine, or another Python, pytest or hypothesis, "
            "so its verdicts could differ: install the same there"
        )


def version() -> str:
    """What verdicts hang on besides the work and the settings, on the machine that is asked."""
    from autograder.classroom import keys

    return keys.grader(keys.ROOT)

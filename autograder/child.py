"""The process in which a submission runs: `python -m autograder.child JOB RESULTS`, two open file descriptors.

It knows how to run cells in one namespace, and then the named tests or the student's own tests on
them, writing down each step before it begins and each result as it comes. It knows no time limits:
the process that started it watches the steps and ends it. It does not keep student code from anything.
"""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping, MutableSequence
from dataclasses import asdict
from typing import Any

from autograder import implementations, scoring
from autograder.catalogue import catalogue
from autograder.running import explained, run_named
from autograder.subject import Subject, subject_of
from course import modules
from course.modules import Module

Say = Callable[..., None]
"""Writes one record, given as keyword arguments."""


def main(job_fd: int, results_fd: int) -> None:
    """Do one job, given as JSON, and write one JSON record a line."""
    with os.fdopen(job_fd, encoding="utf-8") as source:
        job = json.load(source)
    os.set_inheritable(results_fd, False)
    results = os.fdopen(results_fd, "w", encoding="utf-8", buffering=1)

    def say(**record: Any) -> None:
        results.write(json.dumps(record) + "\n")

    _limit_memory(job["memory_mb"])
    module = modules.find(job["module"])
    (_named_tests if job["work"] == "named" else _own_tests)(module, job, say)
    say(done=True)


def _limit_memory(megabytes: int) -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # not every system has this limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))


# ---------------------------------------------------------------- running cells


class _Nothing:
    """What a check cell or a picture gets here, whatever it asks for: something that does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> _Nothing:
        return self

    def __getitem__(self, key: Any) -> _Nothing:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _Quiet(types.ModuleType):
    """Stands for `autograder.notebook` here: checks, predictions and lent classes do nothing while grading."""

    __path__: MutableSequence[str] = []  # noqa: RUF012 - a package to the import system

    def __getattr__(self, name: str) -> Any:
        return getattr(_Nothing(), name)


class _Standing(types.ModuleType):
    """Stands for the student's own file in its tests: `from radix_cache import RadixCache`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(modules, name)


def run_cells(job: Mapping[str, Any], space: dict[str, Any], say: Say) -> None:
    """Run cells one after another, as a notebook does; one that raises is reported, and the next one runs."""
    for cell in job["cells"]:
        say(cell=cell["place"])
        filename = f"<{cell['place']}>"
        lines = cell["source"].splitlines(keepends=True)
        linecache.cache[filename] = (len(cell["source"]), None, lines, filename)
        try:
            exec(compile(cell["source"], filename, "exec", dont_inherit=True), space)
        except NotImplementedError:
            pass  # a part that is not written yet: the named tests say so
        except BaseException as error:
            if not cell["given"]:  # what the course wrote may lack what it needs here; that is no news to a student
                say(raised=f"{cell['place']}: {explained(error)}")


def _space(job: Mapping[str, Any]) -> dict[str, Any]:
    """The namespace cells run in: that of the main module for a notebook, of a module for a file."""
    sys.modules["autograder.notebook"] = _Quiet("autograder.notebook")
    name = "__main__" if job["is_notebook"] else job["module"]
    sys.modules[name] = module = types.ModuleType(name)
    if job["is_notebook"]:
        vars(module).update(display=_Nothing(), get_ipython=_Nothing())
    return vars(module)


# ---------------------------------------------------------------- the two kinds of work


def _named_tests(module: Module, job: Mapping[str, Any], say: Say) -> None:
    flat = job["below"] == "flat"
    below = implementations.flat_below(module) if flat else implementations.below(module)
    modules.bind(below)
    space = _space(job)
    run_cells(job, space, say)
    subject: Subject = subject_of(module, space, below, "submission")
    say(missing=[name for name in module.exports if name not in subject.names])
    tests = {test.name: test for test in catalogue(module)}
    for name in job["tests"]:
        say(at=name)
        say(verdict=asdict(run_named(tests[name], subject)))


def _own_tests(module: Module, job: Mapping[str, Any], say: Say) -> None:
    from autograder import own_tests  # pytest and hypothesis load only where they are used

    names = scoring.implementation(module, job["rounds"][0]).names
    modules.bind(names)
    space = _space(job)
    space.update(names)
    if not job["is_notebook"]:
        sys.modules[module.name] = _Standing(module.name)
    run_cells(job, space, say)

    def over(round_: scoring.Round) -> bool:
        say(round=asdict(round_))
        return scoring.hopeless(round_)

    suite = own_tests.suite_in(space)
    try:
        suite.play(
            own_tests.turns(module, job["rounds"]),
            tell=lambda implementation, test: say(at=test, implementation=implementation),
            enough=over,
        )
    except own_tests.SuiteBroken as problem:
        say(broken=str(problem))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

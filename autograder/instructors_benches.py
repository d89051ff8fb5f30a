"""The instructor's benchmarks: `ol bench manager`, `ol bench tree` and `ol bench grade`.

They measure the references and the grading itself, so they are no part of a student's edition. It knows options and
exit codes. What is measured, and how, it does not know.
"""

from __future__ import annotations

from typing import Annotated

import typer

from autograder.bench_common import Publish, When
from autograder.terminal import NOT_PASSED, PASSED, AsJson, console, give_up, print_json, progress


def manager(
    requests: Annotated[int, typer.Option(metavar="N", min=1, help="Requests in a round.")] = 2_000,
    in_flight: Annotated[int, typer.Option(metavar="N", min=1, max=50, help="Requests held at a time.")] = 1,
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="How often each is timed.")] = 5,
    publish: When = Publish.RELEASE,
    as_json: AsJson = False,
) -> None:
    """What BlockManager's bookkeeping costs a request in each mode, beside a bare hash pool in the same run."""
    from dataclasses import asdict

    from autograder.benchmarks import manager as bookkeeping
    from autograder.benchmarks.manager_table import manager_view
    from autograder.benchmarks.serving import best_names

    with progress("manager", quiet=as_json) as tell:
        contenders = bookkeeping.contenders(best_names(), publish.value)
        costs = bookkeeping.measure(contenders, requests, in_flight, rounds, tell)
    if as_json:
        print_json({name: asdict(cost) for name, cost in costs.items()})
    else:
        console().print(manager_view(costs, requests, in_flight, publish.value))


def tree() -> None:
    """What one eviction from a radix tree costs as the tree grows: from 1,000 leaves and from 20,000."""
    from autograder.benchmarks.evictions import main

    main()


def grade(
    n: Annotated[int, typer.Option("--n", metavar="N", min=1, help="Submissions, all modules together.")] = 100,
    workers: Annotated[
        list[int] | None,
        typer.Option(metavar="N", min=1, help="Grade with so many; may be given again.", show_default="1 and 2"),
    ] = None,
    with_budget: Annotated[
        bool, typer.Option("--with-budget", help="Measure the TTFT budget of L10.4, too, as ol grade does.")
    ] = False,
    no_nbgrader: Annotated[bool, typer.Option("--no-nbgrader", help="Leave nbgrader's own run out.")] = False,
    assert_: Annotated[bool, typer.Option("--assert", help="Exit code 1 if the limit is not met.")] = False,
    as_json: AsJson = False,
) -> None:
    """What grading a class costs a submission and module, beside nbgrader autograde of the same notebooks.

    Every other submission has a planted bug in it. The limit is 1.5 seconds with the most workers. Exit code 2:
    it could not be measured.
    """
    from autograder.benchmarks import grading
    from autograder.benchmarks.grading_table import grading_view

    with progress("grade", quiet=as_json) as tell:
        try:
            costs = grading.measure(n, sorted({*(workers or (1, 2))}), with_budget, not no_nbgrader, tell)
        except grading.NbgraderFailed as problem:
            give_up(str(problem))
    if as_json:
        print_json(grading.as_data(costs))
    else:
        console().print(grading_view(costs))
    raise typer.Exit(NOT_PASSED if assert_ and not costs.within_limit else PASSED)

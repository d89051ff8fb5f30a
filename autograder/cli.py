"""The command `ol`: what can be typed, and what is said when it can't be done.

It knows options and exit codes; `bench` and the instructor's commands have files of their own. What is graded, and how,
it does not know.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from autograder import edition, instructors
from autograder.bench_commands import bench
from autograder.sandbox import Sandbox
from autograder.sealed import WrongPython
from autograder.terminal import COULD_NOT, NOT_PASSED, PASSED, AsJson, as_module, console, give_up, print_json, progress
from course.modules import MODULES, Module

if TYPE_CHECKING:
    from autograder.doctor import Finding
    from autograder.grading import Report

app = typer.Typer(
    help="Work through the course: start a module, read its tests, check what you wrote.",
    epilog="M is a module: " + ", ".join(f"{module.id} ({module.title})" for module in MODULES) + ".",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(bench, name="bench")
instructors.add_commands(app, bench)


PLACE = "its own in notebooks/" if edition.IS_STUDENTS else "this folder"
"""Where `ol start` begins a module unless it is told."""

M = Annotated[str, typer.Argument(metavar="M", help="The module's id, such as L8.4.")]


# ---------------------------------------------------------------- start, tests


@app.command()
def start(
    module: M,
    destination: Annotated[
        Path | None, typer.Argument(metavar="DEST", help="A folder, or the file to write.", show_default=PLACE)
    ] = None,
) -> None:
    """Begin a module: write its notebook, or a file of stubs. Work that is there already is kept as a backup."""
    from autograder import starting

    chosen = as_module(module)
    destination = destination or (edition.NOTEBOOKS / chosen.name if edition.IS_STUDENTS else Path())
    try:
        written = starting.start(chosen, destination)
    except starting.NoNotebook as problem:
        give_up(f"{problem}.")
    except OSError as problem:
        give_up(f"can't write {problem.filename or destination}: {problem.strerror}")
    out = console()
    for file in written:
        if file.unchanged:
            out.print(f"{file.path} is there already and stays as it is.", markup=False)
            continue
        if file.backup:
            out.print(f"What was in {file.path} is now in {file.backup.name}.", markup=False)
        out.print(f"{file.path} is written.", markup=False)
    out.print(f"\nNext: ol tests {chosen.id}, then ol check {chosen.id} {written[0].path}", markup=False)


@app.command()
def tests(module: M, as_json: AsJson = False) -> None:
    """List a module's named tests, what each checks and why, and the planted bugs."""
    from autograder import report
    from autograder.catalogue import catalogue
    from autograder.planted import planted_bugs

    chosen = as_module(module)
    named, bugs = catalogue(chosen), planted_bugs(chosen)
    if as_json:
        print_json(report.catalogue_data(chosen, named, bugs))
    else:
        out = console()
        out.print(report.catalogue_view(chosen, named, bugs, out.width))


# ---------------------------------------------------------------- check


@app.command()
def check(
    module: M,
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="A notebook or a Python file. Without it, the one in this folder."),
    ] = None,
    reference: Annotated[bool, typer.Option("--reference", help="Check the reference solution.")] = False,
    ref_deps: Annotated[
        bool, typer.Option("--ref-deps", help="Stand it on the course's flat models, not on your earlier modules.")
    ] = False,
    as_json: AsJson = False,
    timeout: Annotated[float, typer.Option(metavar="S", min=0.1, help="Seconds that one test may take.")] = 10.0,
    sandbox: Annotated[
        Sandbox,
        typer.Option(help="Isolate your code with bubblewrap: if it is installed, or else don't grade, or never."),
    ] = Sandbox.AUTO,
) -> None:
    """Check your work: the named tests, and your own tests against planted bugs.

    The modules underneath are your own where they are found and pass, else the
    course's flat models. They are looked for beside PATH (radix_tree.ipynb or
    radix_tree.py), and as nbgrader files them: for radix_cache/radix_cache.ipynb
    in the folder radix_tree beside radix_cache. Where your work fails on your own
    modules and passes on flat models, the report says which one is at fault.

    L10.4 ends with the TTFT budget, which is no part of the verdict.

    The exit code is the verdict: 0 passed, 1 not passed, 2 could not be graded.
    """
    from autograder import keeper
    from autograder.grading import grade
    from autograder.report import as_data, shown
    from autograder.rooms import Rooms
    from autograder.sandbox import NoSandbox
    from autograder.work import Limits

    chosen = as_module(module)
    target = _target(chosen, path, reference)
    rooms = Rooms(sandbox)
    keeper.begin()
    with progress(f"{chosen.id} {target.name}", quiet=as_json) as tell:
        try:
            report = grade(target, chosen, Limits(test_s=timeout), ref_deps, tell, rooms, with_budget=True)
        except NoSandbox as problem:
            give_up(f"{problem}. Nothing was graded.")
    if as_json:
        print_json(as_data(report))
    else:
        console().print(shown(report), crop=False)
    raise typer.Exit(exit_code(report))


def exit_code(report: Report) -> int:
    """0 passed, 1 not passed, 2 where the verdict is not known."""
    if report.passed:
        return PASSED
    return COULD_NOT if report.undecided else NOT_PASSED


def _target(module: Module, path: Path | None, reference: bool) -> Path:
    """The file to check; gives up where there is none."""
    from autograder.implementations import SOLUTIONS

    solution = SOLUTIONS / f"{module.file}.py"
    if reference:
        if not solution.exists():
            give_up("the reference solutions are not in this edition: they stay with the instructor.")
        return solution
    if path is not None:
        if not path.is_file():
            give_up(f"{path} is {'a folder' if path.is_dir() else 'not there'}: name a notebook or a Python file.")
        return path
    here = [Path(f"{module.name}{suffix}") for suffix in (".ipynb", ".py")]
    elsewhere = edition.NOTEBOOKS / module.name / f"{module.name}.ipynb" if edition.IS_STUDENTS else solution
    found = next((file for file in [*here, elsewhere] if file.is_file()), None)
    if found is None:
        give_up(
            f"there is no {' or '.join(map(str, here))} in this folder. Name a file, or begin: ol start {module.id}"
        )
    return found


# ---------------------------------------------------------------- replay


@app.command()
def replay(
    report: Annotated[
        Path, typer.Argument(metavar="REPORT", help="A report of ol check M --json > REPORT, or - for standard input.")
    ],
    test: Annotated[str, typer.Argument(metavar="TEST", help="A named test that did not pass.")],
) -> None:
    """Step through the shortest story that shows a mistake: each call, what came, and where it goes wrong.

    Enter goes on to the next call, q ends. Where the output is piped, all of it comes at once.
    """
    from autograder import replay as replaying

    try:
        story = replaying.find(replaying.load(report), test)
    except replaying.NothingToReplay as problem:
        give_up(f"{problem}.")
    out = console()
    replaying.play_back(test, story, out, wait=out.is_terminal and sys.stdin.isatty())


# ---------------------------------------------------------------- diff


@app.command()
def diff(
    module: M,
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="A notebook or a Python file. Without it, the one in this folder."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show your code beside the reference, method by method, once it passes.

    The exit code is that of ol check: where your work does not pass yet, what is missing is said instead.
    """
    from autograder import grading, reading, side_by_side
    from autograder.implementations import SOLUTIONS, NoReference, reference_source

    chosen = as_module(module)
    try:
        reference = reference_source(chosen)
    except NoReference:
        give_up("the reference solutions are not in this edition: they stay with the instructor.")
    target = _target(chosen, path, reference=False)
    if path is None and target.parent == SOLUTIONS:
        give_up(f"there is no {chosen.name}.ipynb or {chosen.name}.py in this folder: name your file.")
    with progress(f"{chosen.id} {target.name}", quiet=as_json) as tell:
        report = grading.grade(target, chosen, tell=tell)
    if not report.passed:
        _say_what_is_missing(report)
        raise typer.Exit(exit_code(report))
    found = side_by_side.pairs(side_by_side.own_source(reading.read(target, chosen)), reference)
    if as_json:
        print_json(side_by_side.data(found))
    else:
        out = console()
        out.print(side_by_side.view(found, out.width, out.is_terminal), crop=False)


def _say_what_is_missing(report: Report) -> None:
    from autograder.report import own_result, verdict_line

    out = console(error=True)
    out.print(verdict_line(report))
    lost = [f"{verdict.test}: {verdict.status}" for verdict in report.verdicts if not verdict.passed]
    own = [f"your own tests: {own_result(report.own)}"] * (not report.own.passed)
    for line in [*lost, *own]:
        out.print(f"  {line}", markup=False)
    out.print(f"The reference is shown once it passes. For the reasons: ol check {report.module.id}", markup=False)


# ---------------------------------------------------------------- doctor, demo


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Say what is installed, what is missing and what to do, and whether the references pass here."""
    from autograder import doctor as look

    out, found = console(), []
    with progress("looking", as_json, out) as tell:
        for finding in look.findings(tell):
            found.append(finding)
            if not as_json:
                _print_finding(out, finding)
    if as_json:
        print_json([{**vars(finding), "state": finding.state.value} for finding in found])
    raise typer.Exit(NOT_PASSED if any(finding.state is look.State.BAD for finding in found) else PASSED)


def _print_finding(out: Console, finding: Finding) -> None:
    from rich.text import Text

    sign, colour = {"ok": ("✓", "green"), "without": ("!", "yellow"), "missing": ("✗", "red")}[finding.state]
    out.print(Text.assemble((sign, colour), f" {finding.what:17} ", finding.detail))
    if finding.advice:
        out.print(Text(f"  {'':17} {finding.advice}", "dim"))


@app.command()
def demo(
    what: Annotated[
        str, typer.Argument(metavar="grade", help="Grade a part of the sample class instead.", show_default=False)
    ] = "",
    model: Annotated[
        str, typer.Option(metavar="NAME", help="smollm2, byte, or a folder with a Llama checkpoint.")
    ] = "smollm2",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where charts, tables and pages go.")] = Path("out"),
) -> None:
    """Serve eight chats without and with a prefix cache, show what that saves, then grade three sample notebooks.

    ol demo grade grades a part of a sample class, right, wrong, careless and
    hostile, and writes the pages that an instructor looks at.
    """
    if what == "grade":
        raise typer.Exit(PASSED if instructors.class_demo(console(), out) else NOT_PASSED)
    if what:
        give_up(f"there is no demo called {what}: there are ol demo and ol demo grade.")
    raise typer.Exit(PASSED if instructors.demo(console(), model, out) else NOT_PASSED)


def main() -> None:
    """Run the command; an interrupt ends it without a traceback, and so does code sealed for another Python."""
    try:
        app(prog_name="ol")
    except KeyboardInterrupt:
        sys.exit(130)
    except WrongPython as problem:
        print(f"ol: {problem}", file=sys.stderr)
        sys.exit(COULD_NOT)


if __name__ == "__main__":
    main()

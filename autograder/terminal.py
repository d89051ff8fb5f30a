"""What every command of `ol` shares: where output goes, exit codes, how it gives up, how it shows progress,
how a module is named.

It knows terminals and pipes. What is said there it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from course.modules import EXTENSIONS, MODULES, Module

PASSED, NOT_PASSED, COULD_NOT = 0, 1, 2

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def console(error: bool = False) -> Console:
    """Where to print: as wide as the terminal, or 120 columns where there is none."""
    made = Console(stderr=error, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        made = Console(stderr=error, highlight=False, width=120, color_system=None)
    return made


def give_up(message: str) -> NoReturn:
    """Say why nothing could be done, and leave with exit code 2."""
    console(error=True).print(f"ol: {message}", markup=False)
    raise typer.Exit(COULD_NOT)


def print_json(data: Any) -> None:
    """Data for programs, on standard output."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def as_module(wanted: str) -> Module:
    """The module that is meant by an id or a name; gives up where there is none."""
    folded = {name.lower(): module for module in (*MODULES, *EXTENSIONS) for name in (module.id, module.name)}
    if found := folded.get(wanted.lower()):
        return found
    listed = "\n".join(f"  {module.id:13} {module.title}" for module in (*MODULES, *EXTENSIONS))
    give_up(f"there is no module {wanted}. There are:\n{listed}")


@contextmanager
def progress(what: str, quiet: bool = False, out: Console | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on the terminal while something runs; nothing where output is piped.

    Args:
        what: how its text begins.
        quiet: no bar at all.
        out: the console to share with what is printed meanwhile; standard error by default.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    out = out or console(error=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=out, transient=True, disable=quiet or not out.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda step, done, of: bar.update(task, description=f"{what}: {step}", completed=done, total=of)

"""What stands in a student's edition for the instructor's commands: they are named, and say whose they are.

It knows their names. What they do for an instructor it does not know.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from autograder.terminal import give_up

ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}


def add_commands(app: typer.Typer, bench: typer.Typer) -> None:
    """Add the instructor's commands to those of `ol`; the instructor's benchmarks are left out."""
    app.command(hidden=True, context_settings=ANYTHING)(grade)
    app.command(hidden=True, context_settings=ANYTHING)(release)


def grade(words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """Grade a class: the instructor's."""
    give_up("ol grade is the instructor's: it grades a class. For your own work: ol check M")


def release(words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """Make the student edition: the instructor's."""
    give_up("ol release is the instructor's: it makes the edition that you have.")


def demo(console: Console, model: str, out: Path) -> bool:
    """Serve chats. Returns whether all is as it should be."""
    from autograder.serving_demo import serving_demo

    return serving_demo(console, model, out)


def class_demo(console: Console, out: Path) -> bool:
    """There is no sample class here."""
    give_up("ol demo grade is the instructor's: it grades a sample class. Without the last word: ol demo")

"""The instructor's commands, and what the other commands do with the instructor's material.

In a student's edition another file of this name takes this one's place (autograder/student_edition/instructors.py),
and nothing that only this file leads to is in it. What a command does this file does not know.
"""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from autograder import instructors_benches
from autograder.grade_command import grade
from autograder.release_command import release


def add_commands(app: typer.Typer, bench: typer.Typer) -> None:
    """Add the instructor's commands to those of `ol` and of `ol bench`."""
    app.command()(grade)
    app.command()(release)
    bench.command()(instructors_benches.manager)
    bench.command()(instructors_benches.tree)
    bench.command()(instructors_benches.grade)


def demo(console: Console, model: str, out: Path) -> bool:
    """Serve chats, then grade the sample notebooks. Returns whether all is as it should be."""
    from autograder.demo import demo as run

    return run(console, model, out)


def class_demo(console: Console, out: Path) -> bool:
    """Grade a part of the sample class. Returns whether all is as it should be."""
    from autograder.class_demo import class_demo as run

    return run(console, out)

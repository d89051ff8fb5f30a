"""`ol release`: make the student edition, as a folder and a zip.

It knows options and exit codes. What is in the edition it does not know.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.terminal import console, give_up


def release(
    destination: Annotated[
        Path, typer.Argument(metavar="DEST", help="The folder to make; the zip goes beside it.")
    ] = Path("dist/kv-cache-course"),
    zipped: Annotated[bool, typer.Option("--zip/--no-zip", help="A zip of the folder, too.")] = True,
) -> None:
    """Make the student edition: notebooks without solutions, and all that they need.

    It installs and runs by itself, as its README says. No reference, planted edit
    or flat model can be read in it: they are compiled, for each Python 3.11 or
    newer that is found here, and your students need one of those.

    The exit code is 0, or 2 where nothing was made.
    """
    from autograder import release as releasing

    try:
        made = releasing.release(destination, zipped)
    except releasing.NotReleased as problem:
        give_up(f"{problem}.")
    except OSError as problem:
        give_up(f"{problem.filename or destination}: {problem.strerror}")
    out = console()
    out.print(f"{made.folder} is written, {made.n_files} files.", markup=False)
    if made.zip is not None:
        out.print(f"{made.zip} is written, {made.zip.stat().st_size / 2**20:.1f} MB.", markup=False)
    out.print(f"Students need Python {' or '.join(made.pythons)}.", markup=False)

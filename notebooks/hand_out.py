"""Lays the student's edition of each notebook out in a folder to work in: `<folder>/<name>/<name>.ipynb`.

    python -m notebooks.hand_out lab

It writes what is not there yet and leaves alone what is: a notebook that somebody works in stays as it is. `ol start`
begins one anew. What the notebooks say, and how they are graded, it does not know.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from notebooks import build

NOT_HANDED_OUT = frozenset({".ipynb", ".md", ".py"})
"""Files beside a notebook's text that are made anew, or that only the build reads."""


def hand_out(folder: Path) -> list[Path]:
    """Put what a student gets into a folder; the files that were not there before.

    Raises:
        OSError: a text can't be read, or a file can't be written.
        notebooks.build.BadSource: a notebook's text can't be built.
    """
    return [path for name in build.names() for path in _laid_out(name, folder / name)]


def _laid_out(name: str, folder: Path) -> Iterator[Path]:
    notebook = folder / f"{name}.ipynb"
    if not notebook.exists():
        yield _new(notebook, build.as_text(build.student_notebook(name)).encode())
    for path in sorted((build.HERE / name).iterdir()):
        goes = path.is_file() and not path.name.startswith(".") and path.suffix not in NOT_HANDED_OUT
        if goes and not (folder / path.name).exists():
            yield _new(folder / path.name, path.read_bytes())


def _new(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:  # "x": what came to be here in the meantime stays
        file.write(data)
    return path


def main(arguments: list[str]) -> int:
    """Hand the notebooks out and say what is new. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m notebooks.hand_out", description="Lay the students' notebooks out in a folder."
    )
    parser.add_argument("folder", type=Path, help="the folder to work in; what is there already stays as it is")
    folder = parser.parse_args(arguments).folder
    try:
        for path in hand_out(folder):
            print(f"{path} is written.")
    except OSError as problem:
        print(f"{problem.filename or folder}: {problem.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

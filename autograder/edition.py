"""Which edition of the course this is, the instructor's or a student's, and where its parts stand.

The instructor's is the repository. A student's is made of it by `ol release`: it has no `solutions/`, it has the
planted bugs and the flat models as sealed code, and each notebook twice, once to work in and once to begin anew.
What is in any of them this file does not know.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent

SEALED = Path(__file__).parent / "sealed_code"
"""Sealed code, a file for each version of Python; in a student's edition only."""

NOTEBOOKS = ROOT / "notebooks"
"""Where one works on the notebooks."""

IS_STUDENTS = SEALED.is_dir()

ASSIGNMENTS = Path(__file__).parent / "assignments" if IS_STUDENTS else NOTEBOOKS
"""The notebooks as the course gives them out, `<name>/<name>.ipynb`."""

"""How an error is told to the author of the code that raised it: what it is, and in which of their lines.

It knows which code no student wrote. What an error means for a verdict it does not know.
"""

from __future__ import annotations

import linecache
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

AUTOGRADER = Path(__file__).parent.parent
NOT_A_STUDENTS = (
    f"{AUTOGRADER}/",
    f"{AUTOGRADER.parent / 'course'}/",
    f"{sysconfig.get_path('stdlib')}/",
    f"{sysconfig.get_path('platlib')}/",
    "<frozen ",
    "<string>",
    "<reference: ",
    "<flat model: ",
    "<planted bug ",
)
"""How the file names of code begin that no student wrote: an error is placed in the last line outside these."""


def explained(error: BaseException) -> str:
    """An error as one line for its author: what it is, and the last line of their own code that it came through."""
    text = str(error).strip()
    return f"{type(error).__name__}{': ' + text if text else ''}{at(error)}"


def at(error: BaseException, with_line: bool = True) -> str:
    """The place in a student's code that an error came through, in brackets; nothing if there is none."""
    frame = students_frame(error.__traceback__)
    if frame is None:
        return ""
    line = frame.line or linecache.getline(frame.filename, frame.lineno or 0).strip()
    return f" ({place(frame.filename)}, line {frame.lineno}{': ' + line if line and with_line else ''})"


def students_frame(trace: TracebackType | None) -> traceback.FrameSummary | None:
    """The innermost frame of code that a student wrote, if the error came through any."""
    # The lines of all the other frames would be read from files, which takes long where many tests fail.
    frames = traceback.StackSummary.extract(traceback.walk_tb(trace), lookup_lines=False)
    return next((frame for frame in reversed(frames) if not frame.filename.startswith(NOT_A_STUDENTS)), None)


def place(filename: str) -> str:
    """A file name as a student knows it: a cell's or a file's own name, without folders."""
    if filename.startswith("<"):
        return filename.strip("<>")
    return "this notebook" if "ipykernel_" in filename else Path(filename).name

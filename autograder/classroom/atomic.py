"""Files that are written whole or not at all.

It knows how to put a file in the place of an old one, and how to take away what a killed run left half written.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

HALF = ".ol-half"
"""How the name of a file ends that is still being written."""


def write(path: Path, text: str) -> None:
    """Put a UTF-8 file in its place at once: whoever looks sees the old one or the new one. Raises OSError.

    What has no place in UTF-8, such as the bytes of a file name in another encoding, is written as an escape.
    """
    half = path.with_name(f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}{HALF}")
    try:
        with half.open("wb") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Take away what killed runs left half written in a folder and the folders in it."""
    for pattern in (f".*{HALF}", f"*/.*{HALF}"):
        for half in folder.glob(pattern):
            half.unlink(missing_ok=True)

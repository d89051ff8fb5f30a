"""Loads hypothesis' table of characters when it is imported: where nothing can be kept on disk, that takes a second.

Only tests that draw text need it. It knows nothing else.
"""

from __future__ import annotations

from hypothesis.internal import charmap

from autograder.room.pytests import nothing_kept

with nothing_kept():
    charmap.charmap()

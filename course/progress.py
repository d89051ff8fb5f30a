"""How long work tells how far it is: one kind of call for loading, measuring and grading.

It knows the call and the one who doesn't listen. How progress is shown it does not know.
"""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[str, int, int], None]
"""Hears what is being done, how much of it is done, and how much there is."""


def silent(_what: str, _done: int, _of: int) -> None:
    """Tells nobody."""

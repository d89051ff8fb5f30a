"""Names that students chose, made fit for a sentence.

It knows which characters of a file name would break a line, hide or turn round what follows. HTML and tables
have rules of their own, and are escaped where they are written.
"""

from __future__ import annotations

from collections.abc import Sequence

JOINS_EMOJI = "\u200d"

NAMED_AT_MOST = 5
"""So many files are named in a sentence; of more, how many there are."""


def printable(name: str) -> str:
    r"""A name on one line: line ends, controls and bytes that are no UTF-8 are written as escapes such as \n."""
    return "".join(each if each.isprintable() or each == JOINS_EMOJI else _escaped(each) for each in name)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def listed(names: Sequence[str]) -> str:
    """Names in a row, `a, b and 3 more`."""
    shown = [printable(name) for name in names[:NAMED_AT_MOST]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")

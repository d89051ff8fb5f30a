"""What students are called on pages: names that are any text, made safe for files and seen as they are.

It knows which characters can't stand in a file's name or can't be seen. What is on a page it does not know.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

from autograder.classroom.printable import printable

LONGEST = 40
"""So many characters of a student's id are kept in a file's name."""

HASH = 10
PAGE = re.compile(rf"[a-z0-9-]+-[0-9a-f]{{{HASH}}}\.html")
"""The names that `page_name` gives."""

_UNSEEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def page_name(student: str) -> str:
    """The file name of a student's page: what of the id is plain, and a hash that tells all ids apart."""
    ascii_only = unicodedata.normalize("NFKD", student).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_only)[:LONGEST].strip("-")
    told_apart = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:HASH]
    return f"{slug or 'student'}-{told_apart}.html"


def seen(name: str) -> str:
    """A name on one line, escaped where it can't be seen."""
    return printable(name) if name.strip() else repr(name)


def without_controls(html: str) -> str:
    """A page in which a sign stands for each control character: no browser shows them."""
    return _UNSEEN.sub("\ufffd", html)

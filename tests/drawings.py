"""What the tests of pictures share: a drawing as elements, its words, and classes that are only half there."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

from course.pictures import Picture

VOID = {"br", "hr", "img"}


def svg_of(picture: Picture) -> ElementTree.Element:
    """The (first) drawing as a tree of elements: it must be well-formed."""
    start, end = picture.html.index("<svg"), picture.html.index("</svg>") + len("</svg>")
    return ElementTree.fromstring(picture.html[start:end])


def words(picture: Picture) -> list[str]:
    """The texts in a drawing."""
    return [element.text or "" for element in svg_of(picture).iter() if element.tag.endswith("text")]


class _Balance(HTMLParser):
    """Opening and closing tags that match."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"


def tags_of(picture: Picture) -> set[str]:
    """The elements of a picture's HTML, every one of them closed where it should be."""
    balance = _Balance()
    balance.feed(picture.html)
    balance.close()
    assert balance.open == []
    return balance.seen


def is_a_sentence(picture: Picture) -> bool:
    """Is there only a message, no drawing?"""
    return "svg" not in tags_of(picture) and 'role="note"' in picture.html

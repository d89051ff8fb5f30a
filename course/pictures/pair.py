"""Two pictures side by side: what a call changed.

It knows two finished pictures. What they show it does not know.
"""

from __future__ import annotations

from html import escape

from course.pictures import base
from course.pictures.base import SANS, Picture


def before_and_after(before: Picture, after: Picture, caption: str = "") -> Picture:
    """Put two pictures beside each other, or below each other where the page is narrow.

    Draw the first one before the call: a picture shows its object as it was then.
    """
    pictures = [part if isinstance(part, Picture) else base.message(_no_picture(part)) for part in (before, after)]
    parts = zip(("Before", "After"), pictures, strict=True)
    texts = [caption, *(f"{title}:\n{picture.text}" for title, picture in parts)]
    title = f'<div style="font-weight:600; margin-bottom:.3em">{escape(caption)}</div>' if caption else ""
    sides = "".join(_side(title, picture) for title, picture in zip(("Before", "After"), pictures, strict=True))
    row = "display:flex; flex-wrap:wrap; gap:.5em 2.5em; align-items:flex-start"
    outer = f"margin:.5em 0; font-family:{SANS}; color:inherit"
    html = f'<div role="group" style="{outer}">{title}<div style="{row}">{sides}</div></div>'
    return Picture(html, "\n".join(part for part in texts if part))


def _side(title: str, picture: Picture) -> str:
    # a side never grows wider than the page: what is wider scrolls in its own box
    head = f'<div style="font-size:.85em; opacity:.8">{title}</div>'
    return f'<div style="min-width:0; max-width:100%; break-inside:avoid">{head}{picture.html}</div>'


def _no_picture(part: object) -> str:
    return f"{base.said(part)} is no picture: draw one first, such as draw_tree(cache)."

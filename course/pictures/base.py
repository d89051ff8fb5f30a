"""What all pictures share: the two forms, the few colours, and the shapes they are drawn with.

It knows how something is drawn so that it can be read on a light page, on a dark one, in print and
by people who see colours differently: text and lines take the page's own colour, a colour never
means anything that a word or a line style doesn't say too. It does not know what is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

BLUE = "#2f86c9"
ORANGE = "#d9730d"
"""Two colours that differ for every kind of colour vision, and in lightness from white and from black."""

SANS = "var(--jp-content-font-family, system-ui, sans-serif)"
MONO = "var(--jp-code-font-family, ui-monospace, Menlo, Consolas, monospace)"
START, END, BOLD = "text-anchor:start;", "text-anchor:end;", "font-weight:600;"
CHAR = 7.9
"""Width in pixels of one character of the drawings' monospaced text."""


THIN = 'stroke="currentColor" stroke-opacity=".6"'
THICK = f'stroke="{BLUE}" stroke-width="3"'
DASHED = f'{THIN} stroke-dasharray="5 4"'
DOTTED = f'stroke="{ORANGE}" stroke-width="2" stroke-dasharray="2 3"'
"""The line styles; each means the same wherever it is drawn in one picture, and its legend says what."""


@dataclass(frozen=True)
class Picture:
    """One drawing: `html` for a notebook, `text` for everything else."""

    html: str
    text: str

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


class NothingToDraw(Exception):
    """Something can't be drawn; the message says why, in words for whoever wrote the class."""


def ask(question: Callable[[], Any], problem: str) -> Any:
    """What a class answers. Raises NothingToDraw, with `problem` and the reason, where it raises anything."""
    try:
        return question()
    except Exception as error:
        raise NothingToDraw(f"{problem} ({reason(error)}).") from error


def reason(error: Exception) -> str:
    """An exception in a few words."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def said(value: object) -> str:
    """A value as a picture shows it: whatever a half-finished class gives, in a few characters."""
    if value is None or type(value) in (bool, int, float, str):
        text = str(value)
        return text if len(text) <= 24 else f"{text[:22]}…"
    return f"a value of type {type(value).__name__}"


SMALL = 2**24
"""Numbers below this are shown as they are: a hash is never that small, and a name made up for an example is."""


def short_name(name: int) -> str:
    """The beginning of a block's name in hexadecimal, the same in every picture; a small number as it is."""
    return str(name) if name < SMALL else f"0x{name:x}"[:8] + "…"


def full_name(name: int) -> str:
    """A block's name in hexadecimal; a small number as it is."""
    return str(name) if name < SMALL else f"{name:#x}"


def message(text: str) -> Picture:
    """A picture that says in words why there is nothing to draw."""
    style = f"border-left:4px solid {ORANGE}; padding:.3em .8em; margin:.4em 0; white-space:pre-line; max-width:60em"
    return Picture(f'<div role="note" style="{style}">{escape(text)}</div>', text)


def figure(width: float, height: float, shapes: list[str], text: str, caption: str, legend: str) -> Picture:
    """A drawing of this size in pixels, with a caption above and a legend below.

    `text` is the text form; a screen reader gets it in place of the drawing.
    """
    svg = (
        f'<svg role="img" aria-label="{escape(text)}" xmlns="http://www.w3.org/2000/svg" width="{width:g}" '
        f'height="{height:g}" viewBox="0 0 {width:g} {height:g}" style="color:inherit; display:block">'
        f"{''.join(shapes)}</svg>"
    )
    title = f'<figcaption style="font-weight:600; margin-bottom:.3em">{escape(caption)}</figcaption>' if caption else ""
    # as wide as the drawing, but no wider than it must be: so two figures find room beside each other
    narrow = "width:0; min-width:max(100%, 24em); white-space:pre-line"
    below = f'<div style="font-size:.85em; opacity:.8; margin-top:.3em; {narrow}">{escape(legend)}</div>'
    style = f"margin:.5em 0; font-family:{SANS}; color:inherit; break-inside:avoid"
    html = f'<figure style="{style}">{title}<div style="overflow-x:auto">{svg}</div>{below if legend else ""}</figure>'
    return Picture(html, "\n".join(part for part in (caption, text) if part))


# ---------------------------------------------------------------- shapes


def box(x: float, y: float, width: float, height: float, *, line: str = "", fill: str = "", radius: float = 6) -> str:
    """A rectangle. `line` and `fill` are further attributes; by default a thin line and a faint tint."""
    line = line or THIN
    fill = fill or 'fill="currentColor" fill-opacity=".05"'
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" {line} {fill}/>'


def label(x: float, y: float, text: str, *, size: float = 13, mono: bool = False, style: str = "") -> str:
    """Text with its baseline's middle at (x, y); `style` is further CSS, START and END move the anchor."""
    font = MONO if mono else SANS
    css = f"font:{size:g}px {font}; white-space:pre; {style}"
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle" fill="currentColor" style="{css}">{escape(text)}</text>'


def path(commands: str, attributes: str = "") -> str:
    """A line along SVG path commands."""
    attributes = attributes or THIN
    return f'<path d="{commands}" fill="none" {attributes}/>'


def arrow(x: float, y: float, to_x: float, to_y: float, attributes: str = "") -> str:
    """An arrow with its head at the second point: straight along a row, a curve from one row down to the next."""
    attributes = attributes or THIN
    if y == to_y:
        head = f"M{to_x - 6:g} {to_y - 4:g} L{to_x:g} {to_y:g} L{to_x - 6:g} {to_y + 4:g}"
        return path(f"M{x:g} {y:g} H{to_x:g}", attributes) + path(head, attributes)
    middle = (y + to_y) / 2
    head = f"M{to_x - 4:g} {to_y - 6:g} L{to_x:g} {to_y:g} L{to_x + 4:g} {to_y - 6:g}"
    curve = f"M{x:g} {y:g} C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}"
    return path(curve, attributes) + path(head, attributes)


def padlock(x: float, y: float) -> str:
    """A small closed lock, 10 by 12 pixels, its upper left corner at (x, y)."""
    shackle = path(f"M{x + 2:g} {y + 6:g} v-2 a3 3 0 0 1 6 0 v2", f'stroke="{ORANGE}" stroke-width="1.6"')
    return shackle + box(x, y + 5.5, 10, 7, line="", fill=f'fill="{ORANGE}"', radius=1.5)


def ordinal(n: int) -> str:
    """1st, 2nd, 3rd, 4th, and so on."""
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"

"""Pictures made from live objects: what a structure holds right now, as a drawing and as text.

`draw_tree(cache)` in a notebook's last line shows the radix tree under a cache. Every picture has a
text form too (`print(picture)`), for a screen reader and for a terminal.
"""

from course.pictures.base import Picture
from course.pictures.tree import draw_tree

__all__ = ["Picture", "draw_tree"]

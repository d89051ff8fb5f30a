"""Pictures made from live objects: what a structure holds right now, as a drawing and as text.

`draw_tree(cache)` in a notebook's last line shows the radix tree under a cache, `draw_pool(pool)` the blocks
of a pool. Every picture has a text form too (`print(picture)`), for a screen reader and for a terminal.
"""

from course.pictures.base import Picture
from course.pictures.chain import draw_chain
from course.pictures.measured import draw_hit_rate, draw_ttft
from course.pictures.pair import before_and_after
from course.pictures.pool import draw_pool
from course.pictures.table import draw_block_table
from course.pictures.tree import draw_tree

__all__ = [
    "Picture",
    "before_and_after",
    "draw_block_table",
    "draw_chain",
    "draw_hit_rate",
    "draw_pool",
    "draw_tree",
    "draw_ttft",
]

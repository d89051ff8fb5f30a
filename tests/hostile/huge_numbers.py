"""Numbers of thousands of digits, infinities and endless texts, for a grader that counts with them or prints them."""

# %% wrong
# %%
from course.contract import Inserted, PrefixMatch, PrefixStats

HUGE = 2**20_000


class RadixCache(RadixCache):
    block_size = cached_tokens = cached_blocks = evictable_blocks = HUGE
    hit_rate = float("inf")
    stats = PrefixStats(HUGE, HUGE, HUGE, HUGE, HUGE)

    def match_prefix(self, tokens):
        return PrefixMatch(HUGE, (HUGE,) * 10, "x" * 100_000)

    def insert(self, tokens, blocks):
        return Inserted(HUGE, (HUGE,) * 10)

    def evict(self, n_blocks):
        return [float("nan"), "x" * 100_000, b"x" * 100_000]

"""os._exit(0) in one method of a cache that is right otherwise."""

# %% right
# %%
import os


class RadixCache(RadixCache):
    def evict(self, n_blocks):
        os._exit(0)

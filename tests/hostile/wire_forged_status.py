"""The room's server made to tell an end that no process can have, of a fork that goes in the middle of a call."""

# %%
import itertools
import os
import sys
import types

STATUSES, SECONDS = itertools.cycle([2**80, 0x7F, -(2**80), 0]), itertools.cycle([1e999, -1, 2**80, 0])

for module in list(sys.modules.values()):
    if hasattr(module, "end_all_others"):
        module.end_all_others = lambda *args: types.SimpleNamespace(status=next(STATUSES), cpu_s=next(SECONDS))


# %% wrong
# %%
class RadixCache(RadixCache):
    def __init__(self, block_size):
        os._exit(0)

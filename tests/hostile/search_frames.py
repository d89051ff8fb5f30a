"""Every frame below and beside this one, with its names and values."""

# %% wrong
# %% needles
# %%
import sys
import threading


def texts():
    for frame in [sys._getframe(), *sys._current_frames().values()]:
        while frame is not None:
            yield from (frame.f_code.co_name, frame.f_code.co_filename)
            for names in (frame.f_locals, frame.f_globals):
                for name, value in list(names.items()):
                    yield from (name, repr(value)[:100_000] if name != "NEEDLES" else "")
            frame = frame.f_back
    yield from (repr(thread) for thread in threading.enumerate())


class RadixCache:
    def __init__(self, block_size):
        count, found = 0, []
        for text in texts():
            count += 1
            mirrored = text[::-1]
            found += [backwards for backwards in NEEDLES if backwards in mirrored]
        raise RuntimeError(f"searched {count}: " + (f"LEAKED {found[0]!r}" if found else "nothing there"))

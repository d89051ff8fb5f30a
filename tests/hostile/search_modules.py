"""Everything that any loaded module holds, and its source."""

# %% wrong
# %% needles
# %%
import inspect
import sys


def texts():
    for name, module in list(sys.modules.items()):
        yield name
        if name.partition(".")[0] in ("autograder", "solutions", "course", "room", "__main__", "__mp_main__"):
            yield from (f"{key} {value!r}"[:10_000] for key, value in list(vars(module).items()) if key != "NEEDLES")
            try:
                yield inspect.getsource(module)
            except (OSError, TypeError):
                pass


class RadixCache:
    def __init__(self, block_size):
        count, found = 0, []
        for text in texts():
            count += 1
            mirrored = text[::-1]
            found += [backwards for backwards in NEEDLES if backwards in mirrored]
        raise RuntimeError(f"searched {count}: " + (f"LEAKED {found[0]!r}" if found else "nothing there"))

"""The reference, the flat model and the named tests imported, under every name and from every folder."""

# %% wrong
# %%
import importlib
import os
import sys

WANTED = (
    "solutions.radix_cache",
    "autograder.flat.radix_cache",
    "autograder.implementations",
    "autograder.tests.test_radix_cache",
    "autograder.golden",
    "autograder.judging_radix_cache",
    "autograder.planted",
    "autograder.rooms",
    "flat.radix_cache",
    "tests.test_radix_cache",
)


def taken():
    sys.path += [place for place in FOLDERS if place not in sys.path] + [os.getcwd(), "/"]
    sys.meta_path[:] = [finder for finder in sys.meta_path if not hasattr(finder, "forbidden")]
    for name in WANTED:
        for known in [known for known in sys.modules if known.partition(".")[0] in ("autograder", "solutions", "flat")]:
            del sys.modules[known]
        try:
            module = importlib.import_module(name)
        except BaseException:
            continue
        yield from (name for _ in [module] if getattr(module, "__file__", None))


mine = RadixCache


class RadixCache:
    def __init__(self, block_size):
        found = list(taken())
        raise RuntimeError(f"tried {len(WANTED)}: " + (f"LEAKED {found}" if found else "nothing there"))

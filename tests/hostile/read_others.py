"""Other students' work, the gradebook and this student's own folder, by path and through /proc."""

# %% wrong
# %%
import glob
import os
import sys


def places():
    for folder in FOLDERS:
        yield from (folder, f"{folder}/submitted/alice/L8.4/radix_cache.ipynb", f"{folder}/gradebook.db")
        for root in glob.glob("/proc/*/root") + glob.glob("/proc/*/cwd"):
            yield f"{root}{folder}/gradebook.db"
    yield from ("../../alice/L8.4/radix_cache.ipynb", "../../../gradebook.db", "/root", "/home")


def readable(path):
    try:
        if os.path.isdir(path):
            return any(not sys.base_prefix.startswith(os.path.join(path, name)) for name in os.listdir(path))
        with open(path, "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


class RadixCache(RadixCache):
    def __init__(self, block_size):
        tried = list(places())
        found = [path for path in tried if readable(path)]
        raise RuntimeError(f"tried {len(tried)}: " + (f"LEAKED {found}" if found else "nothing there"))

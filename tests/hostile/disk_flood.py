"""Files without end in one method, wherever they can be written."""

# %% right
# %%
import itertools
import os

full = []


class RadixCache(RadixCache):
    def evict(self, n_blocks):
        if full:
            raise RuntimeError(full[0])
        block, written = b"x" * (16 << 20), 0
        for number in itertools.count():
            places = [place for place in ("/tmp", ".", "/dev/shm", "/var/tmp", *FOLDERS) if os.access(place, os.W_OK)]
            for place in places:
                try:
                    with open(os.path.join(place, f"flood-{number}"), "wb") as file:
                        written += file.write(block)
                except OSError as problem:
                    if number > 4:
                        full.append(f"{written >> 20} MB, then {problem.strerror}")
                        raise RuntimeError(full[0]) from None
            if not places or written > 4 << 30:
                raise RuntimeError(f"{written >> 20} MB, and no end")

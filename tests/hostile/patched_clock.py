"""The clock stands still, sleep does not sleep, alarms are off: an endless loop can't be timed out, it hopes."""

# %% right
# %%
import signal
import threading
import time

for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
    setattr(time, name, lambda: 0.0)
    setattr(time, f"{name}_ns", lambda: 0)
time.sleep = lambda seconds: None
threading.Timer = threading.Thread = lambda *args, **kwargs: None
for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGXCPU, signal.SIGVTALRM, signal.SIGPROF):
    signal.signal(number, signal.SIG_IGN)
for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
    signal.setitimer(timer, 0)
try:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
except (ImportError, OSError, ValueError):
    pass


class RadixCache(RadixCache):
    def evict(self, n_blocks):
        while True:
            pass

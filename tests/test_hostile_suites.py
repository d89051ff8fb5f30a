"""Own tests that try to get more than honest tests would: each is not valid, or catches nothing by it."""

from __future__ import annotations

import pytest

from autograder.scoring import FLAT, REFERENCE
from autograder.work import Limits
from tests.own_suites import FEW, HONEST, IMPORTS, play, score, submission

SHORT = Limits(test_s=2.0, cell_s=5.0)


def fingerprints(source: str) -> list[str]:
    """What a suite can find out about each implementation, `found`, and tell itself apart by: one text if nothing."""
    tells = "\nimport hashlib\nraise RuntimeError('found ' + repr(found)[:600])\n"
    rounds, remarks = play(
        submission(IMPORTS + "def test_a(): assert RadixCache(2).cached_tokens == 0\n" + source + tells)
    )
    assert len(rounds) == len(FEW) and not any(round_.cut_off for round_ in rounds)
    found = list(remarks.raised)
    assert found and all("RuntimeError: found" in each for each in found), found
    return found


def test_an_honest_suite_catches_what_these_are_measured_by() -> None:
    assert score(HONEST).caught == ("s01", "m02")


def test_always_fail() -> None:
    result = score("def test_a(): assert False")
    assert not result.valid and "fails on a correct implementation" in result.reason


def test_never_assert() -> None:
    result = score(
        "def test_a():\n    cache = RadixCache(2)\n    cache.insert([1, 2], [3])\n    cache.match_prefix([1, 2, 3])"
    )
    assert result.valid and result.caught == ()


def test_fail_at_random() -> None:
    source = """
import random
@pytest.mark.parametrize('n', range(20))
def test_a(n): assert random.SystemRandom().random() < 0.5
"""
    assert not score(source).valid


def test_fail_in_every_round_but_the_first() -> None:
    source = "import os\ndef test_a(): assert os.getpid() <= os.getppid() + 1"
    assert not score(source).valid


STATES = {
    "file in /tmp": "path = '/tmp/mark'\nfound = os.path.exists(path)\nopen(path, 'w').close()",
    "folder of a kind that resists": (
        "found = os.path.exists('/tmp/d')\nos.makedirs('/tmp/d/e', exist_ok=True)\nopen('/tmp/d/e/f', 'w').close()\n"
        "os.chmod('/tmp/d/e', 0)\nos.chmod('/tmp/d', 0)"
    ),
    "file in the working folder": "found = os.path.exists('mark')\ntry_open('mark')",
    "file at home": "found = os.path.exists(os.path.expanduser('~/mark'))\ntry_open(os.path.expanduser('~/mark'))",
    "shared memory": "found = os.path.exists('/dev/shm/mark')\ntry_open('/dev/shm/mark')",
    "environment": "found = 'MARK' in os.environ\nos.environ['MARK'] = '1'",
    "modules": "found = hasattr(pytest, 'mark_of_mine')\npytest.mark_of_mine = 1",
    "files of modules": "found = os.path.exists(pytest.__file__ + '.mark')\ntry_open(pytest.__file__ + '.mark')",
    "process that outlives the round": """
import socket, subprocess, sys
s = socket.socket(socket.AF_UNIX)
try:
    s.connect('\\0mark')
    found = True
except OSError:
    found = False
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            t = socket.socket(socket.AF_UNIX)
            t.bind('\\0mark')
            t.listen()
            time.sleep(60)
        os._exit(0)
    time.sleep(0.1)
""",
    "System V shared memory": """
import ctypes
c = ctypes.CDLL(None, use_errno=True)
found = c.shmget(4711, 4096, 0o600) >= 0
c.shmget(4711, 4096, 0o1600)
""",
    "limits of the parent": "import resource\nfound = resource.getrlimit(resource.RLIMIT_SIGPENDING)[0] == 7\n"
    "try: resource.prlimit(os.getppid(), resource.RLIMIT_SIGPENDING, (7, 7))\nexcept OSError: pass",
    "memory that forks share": "import mmap\nm = mmap.mmap(-1, 8)\nfound = m[0]\nm[0] = 1",
}
HELP = """
import os, time
def try_open(path):
    try: open(path, 'w').close()
    except OSError: pass
"""


@pytest.mark.parametrize("state", STATES)
def test_keep_state_between_runs(state: str) -> None:
    assert len(fingerprints(HELP + STATES[state] + "\nfound = bool(found)")) == 1


def test_hash_the_source() -> None:
    found = fingerprints(
        """
import hashlib, inspect
def source(thing):
    try: return inspect.getsource(thing)
    except (OSError, TypeError) as problem: return type(problem).__name__
def code(thing):
    code = getattr(thing, '__code__', getattr(getattr(thing, 'fget', None), '__code__', None))
    return (code.co_code, code.co_filename, code.co_names) if code else None
found = [source(RadixCache), repr(RadixCache), RadixCache.__module__]
for name in sorted(dir(RadixCache)):
    member = inspect.getattr_static(RadixCache, name)
    found += [name, source(member), code(member)]
found = hashlib.sha256(repr(found).encode()).hexdigest()
""".replace("import inspect", "import inspect, os", 1)
    )
    assert len(found) == 1


def test_look_at_paths() -> None:
    found = fingerprints(
        """
import os, sys
def listed(path):
    try: return sorted(os.listdir(path))
    except OSError as problem: return type(problem).__name__
def text(path):
    try: return open(path, 'rb').read()
    except OSError as problem: return type(problem).__name__
found = hashlib.sha256(repr((
    sys.argv, sys.path, sorted(sys.modules), sorted(os.environ.items()), globals().get('__file__'), os.getcwd(),
    listed('/'), listed('/tmp'), listed('.'), listed('/home'), listed('/root'), listed('/proc/self/fd'),
    text('/proc/self/cmdline'), text('/proc/1/cmdline'), text('/proc/self/environ'), text('/proc/self/mounts'),
    [getattr(module, '__file__', None) for _, module in sorted(sys.modules.items())],
)).encode()).hexdigest()
""".replace("import os, sys", "import hashlib, os, sys", 1)
    )
    assert len(found) == 1


def test_look_for_the_answers() -> None:
    found = fingerprints("""
import gc, importlib, sys
def has(name):
    try:
        importlib.import_module(name)
        return name
    except ImportError:
        return ''
names = ('solutions', 'solutions.radix_cache', 'autograder.flat', 'autograder.flat.radix_cache', 'autograder.planted',
         'autograder.scoring', 'autograder.implementations', 'autograder.serving', 'autograder.tests')
found = [name for name in names if has(name)]
found += [type(each).__name__ for each in gc.get_objects() if type(each).__name__ in ('PlantedBug', 'Round', 'Serving')]
""")
    assert len(found) == 1 and "found []" in found[0]


def test_reach_for_private_attributes() -> None:
    found = fingerprints("""
cache = RadixCache(2)
inserted = cache.insert([1, 2, 3, 4], [10, 11])
def told(reach):
    try: return repr(reach())
    except Exception as error: return f'{type(error).__name__}: {error}'
found = [told(lambda: getattr(thing, name)) for thing in (cache, cache.tree, RadixCache)
         for name in ('_tree', '_stats', '_count', '_nodes', '__dict__', '__weakref__', 'number', '_handle', 'x')]
found = hash(str([part.split(' at 0x')[0] for part in found]))
found = [found, told(lambda: RadixCache(0)), told(lambda: cache.lock(object())),
         told(lambda: cache.insert([1], [1, 2, 3])), told(lambda: cache.evict(-1)),
         repr(cache), repr(cache.tree), told(lambda: setattr(cache, 'mine', 1))]
""")
    assert len(found) == 1 and "the call is refused" in found[0]
    assert "AttributeError" in score("def test_a(): RadixCache(2)._tree").reason


def test_hang() -> None:
    result = score("def test_a():\n    while True: pass", limits=SHORT)
    assert not result.valid and result.reason == "test_a timed out on a correct implementation."
    result = score("while True: pass\ndef test_a(): pass", limits=Limits(cell_s=2.0))
    assert not result.valid and "timed out" in result.reason


def test_hang_only_where_behaviour_is_wrong() -> None:
    source = HONEST.replace(
        "    assert cache.match_prefix([1, 2, 3, 4]).blocks == (10,)",
        """
    while cache.match_prefix([1, 2, 3, 4]).blocks != (10,): pass""",
    )
    result = score(source, (REFERENCE, "s01", FLAT, REFERENCE), limits=SHORT)
    assert result.valid and result.caught == ("s01",)


DEATHS = {
    "exit": "os._exit(0)",
    "signal": "os.kill(os.getpid(), signal.SIGKILL)",
    "all there is": "os.kill(-1, signal.SIGKILL)",
    "parent": "os.kill(os.getppid(), signal.SIGKILL); time.sleep(9)",
    "fork bomb": "\n    while True:\n        try: os.fork()\n        except OSError: pass",
    "memory": "x = [bytes(1 << 28) for _ in range(1000)]; os._exit(1)",
}


@pytest.mark.parametrize("death", DEATHS)
def test_die(death: str) -> None:
    always = f"import os, signal, time\ndef test_a(): {DEATHS[death]}\n"
    assert not score(always, limits=SHORT).valid
    on_bugs = f"""
import os, signal, time
def dies(): {DEATHS[death]}
def test_a():
    cache = RadixCache(2)
    cache.insert([1, 2, 3, 4], [10, 11])
    if cache.cached_tokens != 4: dies()
"""
    if death in ("exit", "signal"):
        assert score(on_bugs, (REFERENCE, "m02", FLAT, REFERENCE), limits=SHORT).caught == ()


def test_skip_everything() -> None:
    for source in (
        "@pytest.mark.skip\ndef test_a(): assert 0",
        "def test_a(): pytest.skip()",
        "pytestmark = pytest.mark.skip\ndef test_a(): pass",
    ):
        result = score(source)
        assert not result.valid and "skipped" in result.reason


PATCHES = {
    "pytest": (
        "from _pytest.reports import TestReport\n"
        "TestReport.outcome = property(lambda self: 'failed', lambda self, value: None)"
    ),
    "hypothesis": "import hypothesis\nhypothesis.given = lambda *a, **k: lambda f: f",
    "assert": "import builtins\nclass AssertionError(BaseException): pass\nbuiltins.AssertionError = AssertionError",
    "json": 'import json\ndone = \'{"op":"done","n":1}\'\njson.dumps = lambda *a, **k: done',
    "time": "import time\ntime.monotonic = time.time = time.perf_counter = lambda: 0.0",
    "socket": "import socket\nsocket.socket.sendall = lambda *a: None",
    "equality": "import course.contract as c\nc.PrefixMatch.__eq__ = lambda s, o: False\nc.PrefixMatch.__hash__ = None",
    "reporting": "from autograder.room import own\nown.Asking.__call__ = lambda self, message: {}",
}


@pytest.mark.parametrize("patched", PATCHES)
def test_patch_what_judges(patched: str) -> None:
    result = score(PATCHES[patched] + "\ndef test_a(): assert RadixCache(2).cached_tokens == 0", limits=SHORT)
    assert result.caught == () and not result.passed


RUBBISH = {
    "noise": "b'rubbish' * 1000 + bytes([10])",
    "a wrong number": 'b\'{"op":"done","n":77}\\n\'',
    "a result that no test had": 'b\'{"op":"ran","test":"x","did":"failed","message":"","n":2}\\n\'',
    "a private call": 'b\'{"op":"call","target":"__import__","verb":"","args":["os"],"n":2}\\n\'',
    "deep nesting": "b'[' * 100000 + bytes([10])",
    "a line without end": "b'x' * (17 << 20)",
}


@pytest.mark.parametrize("kind", RUBBISH)
def test_write_rubbish_on_the_wire(kind: str) -> None:
    source = f"""
import os, socket, stat
for fd in map(int, os.listdir('/proc/self/fd')):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode): socket.socket(fileno=os.dup(fd)).sendall({RUBBISH[kind]})
    except OSError: pass
def test_a(): assert RadixCache(2).cached_tokens == 0
"""
    result = score(source, limits=SHORT)
    assert not result.valid and "on a correct implementation" in result.reason


def test_tell_of_passes_and_failures_without_running_anything() -> None:
    source = """
from autograder.room import own, pytests
pytests.Runner.run = lambda self, item: ('failed', 'because')
def test_a(): pass
"""
    assert not score(source).valid
    assert score(source.replace("failed", "passed")).caught == ()

"""The repository keeps its own rules: layers, pins, what may not be written into a file, sizes, targets."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 400

OURS = {"course", "autograder", "solutions", "notebooks", "tests"}
MAY_IMPORT = {"course": {"course"}, "solutions": {"course", "solutions"}}

TARGETS = ("help", "setup", "demo", "test", "test-slow", "lint", "format", "notebooks", "lab", "clean")

FORBIDDEN_TEXT = {
    "host name of a package registry": re.compile(
        r"pypi\.org|pythonhosted\.(?:org|com)|npmjs\.(?:org|com)|(?:deb|security)\.debian\.org|anaconda\.(?:org|com)"
        r"|repo\.maven|crates\.io|proxy\.golang"
    ),
    "path of one machine": re.compile(
        r"/work/(?:main|shared|venv|brief|\.)|/root/\.|/opt/(?:wheels|pypi)|/tmp/bash[_]jobs"
    ),
}
PUBLIC_TRACES = re.compile(r"(?:conversation|synthetic|toolagent|mooncake|arxiv)_trace\.jsonl")
OWN_TRACE_BYTES = 256 * 1024


def repository_files() -> list[Path]:
    """Every file that is, or is about to be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    files = [ROOT / name for name in listed if name]
    return [path for path in files if path.is_file()]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def python_files(folder: str = "") -> list[Path]:
    return [path for path in repository_files() if path.suffix == ".py" and relative(path).startswith(folder)]


# ---------------------------------------------------------------- layers


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The modules that these nodes import, by statement or by a call with the name spelled out."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield module


def own_roots(modules: Iterable[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules} & OURS


def at_import_time(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: all but those inside functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        ]


@pytest.mark.parametrize(
    "source",
    [
        "import solutions",
        "import os, solutions.kv_pool as pool",
        "from solutions import kv_pool",
        "def late():\n    from solutions.kv_pool import KvPool",
        "import importlib\nimportlib.import_module('solutions.kv_pool')",
        "__import__('solutions')",
    ],
)
def test_the_layer_check_sees_every_way_to_import(source: str) -> None:
    assert own_roots(imported(ast.walk(ast.parse(source)))) == {"solutions"}


def test_at_import_time_leaves_out_function_bodies_only() -> None:
    source = "if True:\n    import course\ndef late():\n    import solutions"
    assert own_roots(imported(at_import_time(ast.parse(source)))) == {"course"}


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_layers_import_downwards_only(layer: str) -> None:
    files = python_files(f"{layer}/")
    assert files, f"{layer}/ has no Python file"
    for path in files:
        reached = own_roots(imported(ast.walk(ast.parse(path.read_text(encoding="utf-8")))))
        assert reached <= MAY_IMPORT[layer], f"{relative(path)} imports {sorted(reached - MAY_IMPORT[layer])}"


def test_importing_the_autograder_never_imports_the_solutions() -> None:
    files = python_files("autograder/")
    assert files, "autograder/ has no Python file"
    for path in files:
        reached = own_roots(imported(at_import_time(ast.parse(path.read_text(encoding="utf-8")))))
        assert "solutions" not in reached, f"{relative(path)} imports solutions as it is imported itself"


# ---------------------------------------------------------------- pins


def canonical(name: str) -> str:
    """One spelling for a package's name: Jinja2 and jinja2, prometheus_client and prometheus-client."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lines: Iterable[str]) -> dict[str, str]:
    """Name to version for lines of the form name==version; any other line is an error."""
    found = {}
    for line in lines:
        pin = re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([0-9][A-Za-z0-9.]*)", line)
        assert pin, f"not a plain pin of one release: {line!r}"
        found[canonical(pin[1])] = pin[2]
    return found


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return pins(line for line in lines if line and not line.startswith("#"))


def project() -> dict[str, str]:
    described = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return pins([*described["dependencies"], *described["optional-dependencies"]["dev"]])


def conda() -> dict[str, str]:
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    under_pip = text.partition("- pip:\n")[2].splitlines()
    return pins(line.strip().removeprefix("- ") for line in under_pip)


@pytest.mark.parametrize(
    "line", ["numpy", "numpy>=2", "torch==2.13.0+cpu", "-e .", "name @ file:///wheel", "numpy==2.*"]
)
def test_only_plain_pins_count(line: str) -> None:
    with pytest.raises(AssertionError, match="not a plain pin"):
        pins([line])


def test_every_direct_requirement_stands_in_the_lock_at_the_same_version() -> None:
    lock = locked()
    assert project() == {name: lock.get(name) for name in project()}


def test_conda_users_get_the_same_pins() -> None:
    assert conda() == project()


def test_the_conda_python_is_one_the_project_allows() -> None:
    python = re.search(r"- python=3\.(\d+)", (ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert python and int(python[1]) >= 11


def test_the_lock_works_where_there_is_no_gpu() -> None:
    assert locked()["torch"] == "2.13.0"
    assert not [name for name in locked() if name.startswith(("nvidia-", "cuda-")) or name == "triton"]


# ---------------------------------------------------------------- what files hold


@pytest.mark.parametrize("what", FORBIDDEN_TEXT)
def test_no_file_holds_a(what: str) -> None:
    for path in repository_files():
        text = path.read_bytes().decode("utf-8", errors="replace")
        hit = FORBIDDEN_TEXT[what].search(text)
        assert not hit, f"{relative(path)}, line {text.count(chr(10), 0, hit.start()) + 1}: {what}: {hit[0]}"


def test_python_files_stay_short() -> None:
    """A catalogue of named tests is one file a module, however many tests it takes."""
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    long = {name: n for name, n in lengths.items() if n >= MAX_LINES}
    assert {name: n for name, n in long.items() if not name.startswith("autograder/tests/") or n >= 600} == {}


def test_public_traces_are_not_shipped() -> None:
    for path in repository_files():
        if path.suffix == ".jsonl":
            assert not PUBLIC_TRACES.fullmatch(path.name), f"{relative(path)} is a public trace"
            assert path.stat().st_size <= OWN_TRACE_BYTES, f"{relative(path)} is large for a trace of our own"


def test_licence() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.startswith("MIT License\n") and "Copyright (c) 2026 The course authors" in text


# ---------------------------------------------------------------- commands


def make(*arguments: str) -> str:
    """What make prints, run as if from a shell of its own, with nothing inherited from a make around the tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    ran = subprocess.run(["make", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_make_lists_its_targets_by_default() -> None:
    listed = re.findall(r"^  make (\S+)", make(), re.MULTILINE)
    assert set(TARGETS) <= set(listed)
    assert make() == make("help")


@pytest.mark.parametrize("target", [target for target in TARGETS if target not in ("help", "clean")])
def test_every_target_sets_up_first_and_runs_from_the_environment(target: str) -> None:
    planned = make("--dry-run", "--always-make", target)
    assert planned.index("-m venv --clear .venv") < planned.index("-r requirements.lock") < planned.index("-e .")


def test_a_python_that_is_too_old_is_refused_in_words(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    with pytest.raises(AssertionError, match=r"Python 3\.11 or newer is needed"):
        make("require-python", f"PYTHON={old}")


def test_ci_runs_what_make_test_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = script.read_text(encoding="utf-8").splitlines()
    assert "set -euo pipefail" in lines and lines[-1] == "make test"

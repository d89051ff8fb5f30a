"""`ol diff`: own code beside the reference, once it passes and where there is a reference; `ol start` and backups."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from autograder import implementations, samples, side_by_side, starting
from autograder.cli import app
from autograder.reading import read
from autograder.side_by_side import Pair, pairs, pieces
from course import modules
from course.modules import MODULES, Module

L84 = modules.find("L8.4")
RIGHT = samples.FOLDER / "right.ipynb"
METHODS = ("match_prefix", "usable_tokens", "insert", "lock", "unlock", "evict", "cached_blocks", "hit_rate")


def ol(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


# ---------------------------------------------------------------- pieces


def test_a_source_falls_into_its_methods_functions_and_constants() -> None:
    source = (
        '"""A module."""\nimport os\nLIMIT = 3\n\n'
        "def helper():\n    return 1\n\n"
        "class Box:\n"
        '    """A box."""\n\n'
        "    size: int = 2\n\n"
        "    # ------ queries\n"
        "    @property\n    def full(self):\n        return True\n\n"
        "    @full.setter\n    def full(self, value):\n        pass\n\n"
        "os.getpid()\n"
    )
    assert pieces(source) == {
        "LIMIT": "LIMIT = 3",
        "helper": "def helper():\n    return 1",
        "class Box": 'class Box:\n    """A box."""\n    size: int = 2',
        "Box.full": "@property\ndef full(self):\n    return True",
        "Box.full (setter)": "@full.setter\ndef full(self, value):\n    pass",
    }


def test_a_class_that_later_cells_continue_is_one_and_one_begun_anew_is_the_later_one() -> None:
    first = "class Box:  # step 1\n    def a(self): return 1\n    def b(self): return 1\n"
    continued = pieces(first + "class Box(Box):  # step 2\n    def b(self): return 2\n")
    assert continued["Box.a"] == "def a(self): return 1" and continued["Box.b"] == "def b(self): return 2"
    assert continued["class Box"] == "class Box:  # step 1"
    anew = pieces(first + "class Box:  # again\n    def b(self): return 2\n")
    assert anew == {"class Box": "class Box:  # again", "Box.b": "def b(self): return 2"}


def test_pairs_come_in_the_references_order_and_then_what_only_the_student_has() -> None:
    found = pairs("def mine(): pass\ndef b(): return 2\n", "def a(): return 1\ndef b():\n    '''Two.'''\n    return 2")
    assert [(pair.name, bool(pair.own), bool(pair.reference), pair.alike) for pair in found] == [
        ("a", False, True, False),
        ("b", True, True, True),
        ("mine", True, False, False),
    ]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.id)
def test_every_reference_is_alike_to_itself_and_nothing_of_it_is_lost(module: Module) -> None:
    source = implementations.reference_source(module)
    found = pairs(source, source)
    assert all(pair.alike for pair in found)
    shown = "\n".join(pair.reference for pair in found)
    for line in source.splitlines():
        if line.lstrip().startswith(("def ", "class ", "return ", "raise ")):
            assert line.strip() in shown


def test_the_code_of_a_notebook_is_its_solutions_and_the_functions_of_its_other_cells() -> None:
    found = pieces(side_by_side.own_source(read(RIGHT, L84)))
    assert {f"RadixCache.{name}" for name in METHODS} <= set(found)
    assert not {"guess", "cache"} & set(found) and not any(name.startswith("test_") for name in found)
    assert "a_new_cache_is_empty" not in found, "a cell that the course wrote is not the student's code"


# ---------------------------------------------------------------- how it looks


def shown(width: int, terminal: bool) -> list[str]:
    out = Console(width=width, force_terminal=terminal, color_system=None, file=io.StringIO())
    found = [Pair("f", "def f():\n    return own", "def f():\n    return reference"), Pair("g", "", "def g(): ...")]
    out.print(side_by_side.view(found, out.width, out.is_terminal))
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().splitlines()


def test_side_by_side_on_a_wide_terminal() -> None:
    lines = shown(160, True)
    assert any("return own" in line and "return reference" in line for line in lines)
    assert any(line.startswith("(none)") and "def g()" in line for line in lines)
    assert max(map(len, lines)) <= 160


@pytest.mark.parametrize(("width", "terminal"), [(80, True), (300, False)], ids=["narrow", "piped"])
def test_one_below_the_other_when_narrow_or_piped(width: int, terminal: bool) -> None:
    lines = [line.rstrip() for line in shown(width, terminal)]
    assert lines[:7] == [
        "f",
        "--- yours",
        "def f():",
        "    return own",
        "--- reference",
        "def f():",
        "    return reference",
    ]
    assert "g  (only in the reference)" in lines


# ---------------------------------------------------------------- the command


def test_right_work_is_shown_beside_the_reference() -> None:
    ran = ol("diff", "L8.4", str(RIGHT))
    assert ran.exit_code == 0, ran.output
    for name in METHODS:
        assert f"RadixCache.{name}" in ran.stdout
    assert ran.stdout.count("--- yours") == ran.stdout.count("--- reference") > 10 and "\x1b" not in ran.stdout
    told = json.loads(ol("diff", "L8.4", str(RIGHT), "--json").stdout)
    evict = next(row for row in told if row["name"] == "RadixCache.evict")
    assert evict["alike"] and "self.tree.evict(n_blocks)" in evict["own"]


def test_work_that_does_not_pass_is_told_what_is_missing_and_sees_no_reference(tmp_path: Path) -> None:
    ran = ol("diff", "L8.4", str(samples.FOLDER / "matched_whole.ipynb"))
    assert ran.exit_code == 1 and ran.stdout == ""
    assert "the_last_prompt_token_is_never_covered: failed" in ran.stderr and "ol check L8.4" in ran.stderr
    assert "usable_tokens" not in ran.stderr
    (tmp_path / "radix_cache.py").write_text(implementations.reference_source(L84), encoding="utf-8")
    untested = ol("diff", "L8.4", str(tmp_path / "radix_cache.py"))
    assert untested.exit_code == 1 and "your own tests: not valid" in untested.stderr and untested.stdout == ""


def test_without_a_reference_there_is_a_clear_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implementations, "SOLUTIONS", tmp_path)
    ran = ol("diff", "L8.4", str(RIGHT))
    assert ran.exit_code == 2 and ran.stdout == ""
    assert "they stay with the instructor" in ran.stderr


def test_a_file_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "there is no radix_cache.ipynb or radix_cache.py in this folder" in ol("diff", "L8.4").stderr
    assert "nothing.py is not there" in ol("diff", "L8.4", "nothing.py").stderr
    assert "there is no module L9.9" in ol("diff", "L9.9").stderr


# ---------------------------------------------------------------- start keeps work, whatever way it takes


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.id)
@pytest.mark.parametrize("suffix", ["", ".py", ".ipynb"], ids=["folder", "py", "ipynb"])
def test_start_keeps_every_byte_that_was_there(module: Module, suffix: str, tmp_path: Path) -> None:
    work = {tmp_path / f"{stem}{end}": f"{stem}{end}, my work\r\n".encode() + b"\xff" for stem, end in names(module)}
    for path, content in work.items():
        path.write_bytes(content)
    for _ in range(2):
        ran = ol("start", module.id, str(tmp_path / f"{module.name}{suffix}") if suffix else str(tmp_path))
        assert ran.exit_code in (0, 2), ran.output
        there = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        assert all(content in there for content in work.values())
    assert (tmp_path / f"test_{module.name}.py").read_bytes() == work[tmp_path / f"test_{module.name}.py"]


def names(module: Module) -> list[tuple[str, str]]:
    return [(module.name, ".py"), (module.name, ".ipynb"), (f"test_{module.name}", ".py"), (module.name, ".py.bak-1")]


def test_start_puts_no_empty_file_in_front_of_tests_that_stand_in_a_folder_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tests = tmp_path / "tests" / "test_radix_tree.py"
    tests.parent.mkdir()
    tests.write_text("mine", encoding="utf-8")
    ran = ol("start", "ds.07", "radix_tree.py")
    assert "tests/test_radix_tree.py is there already and stays as it is" in ran.stdout
    assert tests.read_text(encoding="utf-8") == "mine" and not (tmp_path / "test_radix_tree.py").exists()


def test_start_writes_stubs_where_a_python_file_is_named_even_if_there_is_a_notebook(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    assert ol("start", "L8.4", str(path)).exit_code == 0
    assert path.read_text(encoding="utf-8") == starting.stubs(L84)


def test_start_refuses_a_notebook_that_there_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "NOTEBOOKS", tmp_path / "nowhere")
    ran = ol("start", "L8.4", str(tmp_path / "mine.ipynb"))
    assert ran.exit_code == 2 and "has no notebook here" in ran.stderr and not list(tmp_path.iterdir())


def test_start_writes_through_no_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text("linked work", encoding="utf-8")
    (tmp_path / "radix_tree.py").symlink_to(elsewhere)
    assert ol("start", "ds.07", str(tmp_path / "radix_tree.py")).exit_code == 0
    assert elsewhere.read_text(encoding="utf-8") == "linked work"
    assert (tmp_path / "radix_tree.py.bak-1").read_text(encoding="utf-8") == "linked work"

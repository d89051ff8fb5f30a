"""Who handed in what, in a flat folder, with odd names, and where files can't be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from autograder.classroom import recognising
from autograder.classroom.handed_in import HandedIn, find
from autograder.classroom.printable import printable
from course.modules import MODULES
from tests.class_folders import CACHE, KV, TREE, by_student, notebook, older, one, refused, text

# ---------------------------------------------------------------- a flat folder


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("alice_radix_cache.ipynb", "alice"),
        ("radix_cache_alice.ipynb", "alice"),
        ("alice-RadixCache.py", "alice"),
        ("Alice Smith - Radix Cache.ipynb", "Alice Smith"),
        ("alice_radix_cache(1).ipynb", "alice"),
        ("alice_radix_cache-Copy2.ipynb", "alice"),
        ("smithalice_1234_987_radix_cache-1.ipynb", "smithalice_1234_987"),
        ("L8.4_alice.ipynb", "alice"),
        ("radix_cache_17.ipynb", "17"),
        ("radix_cache-17.ipynb", "17"),
        ("alice_radix_cache2.ipynb", "alice"),
        ("aliceRadixCache.ipynb", "alice"),
        ("alice_radix_cache_v2.ipynb", "alice_v2"),
        ("radix_cache.ipynb", "radix_cache"),
        ("radix_cache(1).ipynb", "radix_cache(1)"),
    ],
)
def test_a_file_says_whose_it_is(tmp_path: Path, name: str, student: str) -> None:
    path = text(tmp_path / name)
    entry = find(tmp_path, MODULES)[2]
    assert (entry.student, entry.path) == (student, path)


def test_a_flat_file_says_its_module_by_what_is_in_it(tmp_path: Path) -> None:
    notebook(tmp_path / "by checks.ipynb", "class RadixTree: pass", checks=("golden_reference_trace",))
    notebook(tmp_path / "by begin.ipynb", 'from x import begin\nbegin("L10.4")', "class RadixTree: pass")
    notebook(tmp_path / "by class.ipynb", "class RadixTree: pass")
    text(tmp_path / "by function.py", "def kv_block_hash(parent, tokens): ...")
    text(tmp_path / "all in one.py", "\n".join(f"class {module.exports[0]}: ..." for module in MODULES))
    prose = notebook(tmp_path / "by prose only.ipynb", "class RadixTree: pass")
    prose.write_text(prose.read_text(encoding="utf-8").replace('"code"', '"markdown"'), encoding="utf-8")
    notebook(tmp_path / "by comments only.ipynb", "# class RadixTree", "x = 'class RadixCache:'")
    notebook(tmp_path / "alice (1).ipynb", "class RadixTree: pass")
    assert by_student(find(tmp_path, MODULES)) == {
        "by checks": ["L8.4"],
        "by begin": ["L10.4"],
        "by class": ["ds.07"],
        "by function": ["L10.1"],
        "all in one": ["L10.1", "ds.07", "L8.4", "L10.4"],
        "by prose only": [],
        "by comments only": [],
        "alice": ["ds.07"],
    }


def test_a_name_that_mentions_two_modules_says_none(tmp_path: Path) -> None:
    notebook(tmp_path / "radix_tree for radix_cache.ipynb", "class RadixCache: pass")
    assert [entry.path is not None for entry in find(tmp_path, MODULES)] == [False, False, True, False]


@pytest.mark.parametrize("name", ["friends.07.ipynb", "radix_cached.ipynb"])
def test_a_name_that_only_looks_like_a_modules_says_none(tmp_path: Path, name: str) -> None:
    notebook(tmp_path / name, "class BlockManager: pass")
    assert by_student(find(tmp_path, MODULES)) == {Path(name).stem: ["L10.4"]}


def test_in_a_flat_folder_a_name_goes_before_what_is_in_a_file(tmp_path: Path) -> None:
    path = older(text(tmp_path / "alice_radix_cache.ipynb"), 1000)
    notebook(tmp_path / "alice.ipynb", "class RadixCache: pass")
    assert (one(tmp_path).path, one(tmp_path).attempts) == (path, 2)


def test_what_belongs_to_a_folder_is_nobodys(tmp_path: Path) -> None:
    for name in ("alice.py", "__init__.py", "conftest.py", "test_radix_cache.py"):
        text(tmp_path / name)
    assert [entry.student for entry in find(tmp_path, [CACHE])] == ["alice"]


def test_two_files_of_one_student_in_a_flat_folder(tmp_path: Path) -> None:
    path = older(text(tmp_path / "alice_radix_cache.ipynb"), 1000)
    text(tmp_path / "alice_radix_cache (1).ipynb")
    entry = one(tmp_path)
    assert (entry.student, entry.path, entry.attempts) == ("alice", path, 2)
    assert entry.notes == (
        "2 files are for this module: alice_radix_cache.ipynb is graded, as its name fits best; "
        "not graded: alice_radix_cache (1).ipynb.",
    )


def test_a_resubmission_is_the_newest(tmp_path: Path) -> None:
    older(text(tmp_path / "smith_1_2_radix_cache.ipynb"), 1000)
    path = text(tmp_path / "smith_1_2_radix_cache-1.ipynb")
    assert (one(tmp_path).path, one(tmp_path).attempts) == (path, 2)


def test_what_lies_beside_flat_files_is_nobodys(tmp_path: Path) -> None:
    text(tmp_path / "alice_radix_cache.py")
    text(tmp_path / "README.md")
    text(tmp_path / "conftest.py")
    text(tmp_path / "test_radix_cache.py")
    text(tmp_path / "tests" / "test_kv_pool.py")
    (tmp_path / "data").mkdir()
    assert [entry.student for entry in find(tmp_path, [CACHE])] == ["alice"]


def test_a_flat_link_is_a_row_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "alice_radix_cache.ipynb").symlink_to("/etc/hostname")
    assert "is a link" in refused(one(tmp_path).path)


def test_folders_and_loose_files_together(tmp_path: Path) -> None:
    text(tmp_path / "alice" / "kv_pool" / "kv_pool.ipynb")
    (tmp_path / "bob").mkdir()
    text(tmp_path / "alice_radix_cache.ipynb")
    text(tmp_path / "carol_radix_cache.py")
    text(tmp_path / "make_groups.py")
    assert by_student(find(tmp_path, MODULES)) == {"alice": ["L10.1", "L8.4"], "bob": [], "carol": ["L8.4"]}


# ---------------------------------------------------------------- what can't be read


def test_links_pipes_and_folders_of_a_files_name_are_rows_and_are_not_opened(tmp_path: Path) -> None:
    secret = text(tmp_path / "secret.txt", "class RadixCache: pass")
    folder = tmp_path / "class"
    for student in ("link", "dangling", "pipe", "folder"):
        (folder / student / "radix_cache").mkdir(parents=True)
    (folder / "link" / "radix_cache" / "radix_cache.ipynb").symlink_to(secret)
    (folder / "dangling" / "radix_cache" / "radix_cache.ipynb").symlink_to(tmp_path / "nowhere")
    os.mkfifo(folder / "pipe" / "radix_cache" / "other name.ipynb")
    (folder / "folder" / "radix_cache" / "radix_cache.ipynb").mkdir()
    found = {entry.student: refused(entry.path) for entry in find(folder, [CACHE])}
    assert "is a link" in found["link"] and "is a link" in found["dangling"]
    assert "is no ordinary file" in found["pipe"]
    assert "is a folder" in found["folder"]


def test_an_ordinary_file_goes_before_one_that_is_none(tmp_path: Path) -> None:
    path = older(text(tmp_path / "alice" / "radix_cache" / "radix_cache(1).ipynb"), 1000)
    (tmp_path / "alice" / "radix_cache" / "radix_cache.ipynb").symlink_to("/etc/hostname")
    entry = one(tmp_path)
    assert (entry.path, entry.attempts) == (path, 2)
    assert "is graded, as it alone is an ordinary file" in entry.notes[1]


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    text(tmp_path / "elsewhere" / "radix_cache" / "radix_cache.ipynb")
    folder = tmp_path / "class"
    (folder / "bob").mkdir(parents=True)
    (folder / "alice").symlink_to(tmp_path / "elsewhere")
    (folder / "bob" / "radix_cache").symlink_to(tmp_path / "elsewhere" / "radix_cache")
    (folder / "carol").symlink_to("nowhere")
    alice, bob, carol = find(folder, [CACHE])
    for entry in (alice, carol):
        assert entry.path == folder / entry.student
        assert entry.notes == (
            f"{entry.student} is a link: links are not followed. Put the student's own folder there.",
        )
    assert bob.path == folder / "bob" / "radix_cache" and "is a link" in refused(bob.path)


def test_a_folder_that_cannot_be_opened_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text(tmp_path / "alice" / "radix_cache" / "radix_cache.ipynb")
    text(tmp_path / "bob" / "radix_cache" / "radix_cache.ipynb")
    closed, really = {str(tmp_path / "alice"), str(tmp_path / "bob" / "radix_cache")}, os.scandir

    def scandir(folder: Path) -> Any:
        if str(folder) in closed:
            raise PermissionError(13, "Permission denied")
        return really(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    alice, bob = find(tmp_path, [CACHE])
    assert alice == HandedIn(
        "alice", CACHE, tmp_path / "alice", ("alice can't be opened: Permission denied.",), attempts=1
    )
    assert bob.path == tmp_path / "bob" / "radix_cache"
    assert "radix_cache can't be opened: Permission denied." in bob.notes


def test_a_loose_file_of_a_student_whose_folder_is_a_link_is_graded(tmp_path: Path) -> None:
    (tmp_path / "alice").symlink_to("nowhere")
    text(tmp_path / "bob" / "radix_cache" / "radix_cache.ipynb")
    path = text(tmp_path / "alice_radix_cache.ipynb")
    alice, _ = find(tmp_path, [CACHE])
    assert alice.path == path and "alice is a link" in alice.notes[0]


def test_no_link_and_no_pipe_is_looked_into(tmp_path: Path) -> None:
    secret = text(tmp_path / "secret.py", "class RadixCache: pass")
    (tmp_path / "link.py").symlink_to(secret)
    os.mkfifo(tmp_path / "pipe.py")
    assert recognising.told_by(secret) == (CACHE,)
    assert [recognising.told_by(tmp_path / name) for name in ("link.py", "pipe.py", "missing.py")] == [(), (), ()]


def test_a_torn_notebook_still_says_which_module_it_is_for(tmp_path: Path) -> None:
    for name, module in (("a", CACHE), ("b", TREE)):
        whole = notebook(tmp_path / f"{name}.ipynb", "import math", f"x = 1\nclass {module.exports[0]}:\n    pass", "y")
        whole.write_text(whole.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    checked = notebook(tmp_path / "c.ipynb", checks=("golden_reference_trace",))
    checked.write_text(checked.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    assert by_student(find(tmp_path, MODULES)) == {"a": ["L8.4"], "b": ["ds.07"], "c": ["L8.4"]}


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[[", b'{"nbformat": 4, "cells": [3]}'])
def test_an_unreadable_file_that_says_nothing_stands_for_whatever_is_missing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "alice.ipynb").write_bytes(content)
    text(tmp_path / "alice_kv_pool.ipynb")
    entries = find(tmp_path, MODULES)
    names = [entry.path.name for entry in entries if entry.path]
    assert names == ["alice_kv_pool.ipynb", "alice.ipynb", "alice.ipynb", "alice.ipynb"]


def test_a_huge_file_is_not_looked_through(tmp_path: Path) -> None:
    path = tmp_path / "alice.ipynb"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    assert one(tmp_path).path == path
    assert "has more than 64 MB" in refused(path)


# ---------------------------------------------------------------- ids


IDS = [
    "Zoë Ångström",
    "🦊 fox 👩‍💻",
    "C:\\..\\etc",
    "<img src=x onerror=alert(1)> & 'quoted' \"twice\"",
    "two\nlines",
    "=1+1",
    "[red]markup[bold]",
    "-rf",
    "%2e%2e",
    os.fsdecode(b"caf\xe9"),
]


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("student", IDS)
def test_any_id_that_a_file_may_have_is_kept_as_it_is(tmp_path: Path, student: str, flat: bool) -> None:
    place = f"{student}_radix_cache.ipynb" if flat else f"{student}/radix_cache/radix_cache.ipynb"
    path = text(tmp_path / place)
    assert one(tmp_path) == HandedIn(student, CACHE, path)


def test_names_in_notes_stay_on_their_line(tmp_path: Path) -> None:
    notebook(tmp_path / "alice" / "radix_cache" / os.fsdecode(b"a\nb\xe9\xe2\x80\xae.ipynb"), "class RadixCache: pass")
    (note,) = one(tmp_path).notes
    assert note == r"Handed in as radix_cache/a\nb\udce9\u202e.ipynb, not as radix_cache.ipynb."
    note.encode("utf-8")
    assert printable("👩‍💻 Zoë") == "👩‍💻 Zoë"


def test_ids_that_differ_in_case_only_are_two_rows_and_said(tmp_path: Path) -> None:
    text(tmp_path / "Alice_radix_cache.ipynb")
    text(tmp_path / "alice_kv_pool.ipynb")
    entries = find(tmp_path, [KV, CACHE])
    assert [entry.student for entry in entries] == ["Alice", "Alice", "alice", "alice"]
    assert [bool(entry.notes) for entry in entries] == [True, False, True, False]
    assert entries[0].notes[0].startswith("There is also a student alice")


def test_work_on_an_extension_counts_for_no_module(tmp_path: Path) -> None:
    file = tmp_path / "my_lab.py"
    file.write_text('begin("publish")\n\n\nclass BlockManager:\n    pass\n', encoding="utf-8")
    assert recognising.told_by(file) == ()
    file.write_text('begin("L10.4-publish")\n\n\nclass BlockManager:\n    pass\n', encoding="utf-8")
    assert recognising.told_by(file) == ()

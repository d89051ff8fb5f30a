"""Who handed in what: nbgrader's layout, names, several attempts, the wrong folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.classroom import handed_in, recognising
from autograder.classroom.handed_in import HandedIn, NothingThere, find
from course.modules import MODULES, Module
from tests.class_folders import CACHE, KV, MANAGER, TREE, by_student, notebook, older, one, text


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """The files that were looked into."""
    looked: list[Path] = []
    inside = recognising.told_by

    def told_by(path: Path) -> tuple[Module, ...]:
        looked.append(path)
        return inside(path)

    monkeypatch.setattr(recognising, "told_by", told_by)
    yield looked


# ---------------------------------------------------------------- nbgrader's layout


def test_every_student_is_listed_for_every_module(tmp_path: Path) -> None:
    path = text(tmp_path / "bob" / "radix_cache" / "radix_cache.ipynb")
    text(tmp_path / "alice" / "kv_pool" / "kv_pool.py")
    entries = find(tmp_path, [MANAGER, CACHE, KV])
    assert [(entry.student, entry.module) for entry in entries] == [
        (student, module) for student in ("alice", "bob") for module in (KV, CACHE, MANAGER)
    ]
    assert by_student(entries) == {"alice": ["L10.1"], "bob": ["L8.4"]}
    assert entries[4] == HandedIn("bob", CACHE, path)
    assert entries[5] == HandedIn("bob", MANAGER, None, attempts=0)


def test_what_says_all_by_its_name_is_not_opened(tmp_path: Path, opened: list[Path]) -> None:
    for module in MODULES:
        text(tmp_path / "alice" / module.name / f"{module.name}.ipynb")
        text(tmp_path / "alice" / module.name / "timestamp.txt")
    assert [entry.notes for entry in find(tmp_path, MODULES)] == [()] * 4
    assert opened == []


def test_a_large_class_is_found_at_once(tmp_path: Path, opened: list[Path]) -> None:
    for number in range(300):
        for module in MODULES:
            folder = tmp_path / f"student {number:03}" / module.name
            folder.mkdir(parents=True)
            (folder / f"{module.name}.ipynb").touch()
    assert len(find(tmp_path, MODULES)) == 1200
    assert opened == []


@pytest.mark.parametrize("name", ["Radix_Cache", "radix-cache", "radix cache", "L8.4", "RADIXCACHE"])
def test_a_modules_folder_may_be_spelled_otherwise(tmp_path: Path, name: str) -> None:
    path = notebook(tmp_path / "alice" / name / "work.ipynb", "x = 1")
    assert find(tmp_path, MODULES)[2].path == path


def test_what_is_hidden_or_left_behind_is_no_work(tmp_path: Path) -> None:
    text(tmp_path / ".git" / "radix_cache" / "radix_cache.ipynb")
    text(tmp_path / "__MACOSX" / "radix_cache" / "radix_cache.ipynb")
    text(tmp_path / "alice" / "radix_cache" / ".ipynb_checkpoints" / "radix_cache-checkpoint.ipynb")
    text(tmp_path / "alice" / "radix_cache" / "._radix_cache.ipynb")
    text(tmp_path / "alice" / "radix_cache" / "timestamp.txt")
    entry = one(tmp_path)
    assert (entry.student, entry.path, entry.notes) == ("alice", None, ("The student's folder is empty.",))


def test_an_empty_folder_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "alice").mkdir()
    first, second = find(tmp_path, [KV, CACHE])
    assert (first.path, first.notes, first.attempts) == (None, ("The student's folder is empty.",), 0)
    assert (second.path, second.notes, second.attempts) == (None, (), 0)


def test_a_folder_without_a_notebook_is_a_row_that_names_what_is_there(tmp_path: Path) -> None:
    text(tmp_path / "alice" / "radix_cache" / "answers.docx")
    text(tmp_path / "alice" / "letter.txt")
    assert one(tmp_path).notes == (
        "Not graded, but in the folder: radix_cache/answers.docx.",
        "There is no notebook in the student's folder.",
        "Not graded: letter.txt.",
    )


def test_a_notebook_beside_the_modules_folders_counts(tmp_path: Path) -> None:
    path = text(tmp_path / "alice" / "radix_cache.ipynb")
    assert one(tmp_path) == HandedIn("alice", CACHE, path)


def test_a_zipped_folder_within_a_folder_is_looked_into(tmp_path: Path) -> None:
    path = text(tmp_path / "alice" / "homework" / "radix_cache" / "radix_cache.ipynb")
    assert one(tmp_path) == HandedIn("alice", CACHE, path)


def test_very_deep_and_very_many_files_are_said_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handed_in, "MOST_FILES", 2)
    text(tmp_path / "alice" / "/".join("abcdefghi") / "radix_cache.ipynb")
    for name in "123":
        text(tmp_path / "bob" / name)
    alice, bob = find(tmp_path, [CACHE])
    assert alice.path is None and "a/b/c/d/e/f/g lies too deep to be looked into." in alice.notes
    assert "There are very many files: only 2 of them were looked at." in bob.notes


# ---------------------------------------------------------------- renamed, several, extra


@pytest.mark.parametrize("name", ["radix_cache(1).ipynb", "radix_cache-Copy1.ipynb", "Radix Cache final.ipynb"])
def test_a_renamed_notebook_is_found_and_said(tmp_path: Path, name: str) -> None:
    path = text(tmp_path / "alice" / "radix_cache" / name)
    assert one(tmp_path) == HandedIn(
        "alice", CACHE, path, (f"Handed in as radix_cache/{name}, not as radix_cache.ipynb.",)
    )


@pytest.mark.parametrize("place", ["homework.ipynb", "radix_cache/homework.ipynb", "week 3/homework.ipynb"])
def test_a_notebook_of_any_name_is_found_by_what_it_defines(tmp_path: Path, place: str) -> None:
    path = notebook(tmp_path / "alice" / place, "import math", "class RadixCache:\n    pass")
    entry = find(tmp_path, MODULES)[2]
    assert (entry.path, entry.notes) == (path, (f"Handed in as {place}, not as radix_cache.ipynb.",))


def test_of_two_files_the_one_with_the_expected_name_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "alice" / "radix_cache"
    path = older(text(folder / "radix_cache.ipynb"), 1000)
    text(folder / "radix_cache-Copy1.ipynb")
    assert one(tmp_path) == HandedIn(
        "alice",
        CACHE,
        path,
        (
            "2 files are for this module: radix_cache/radix_cache.ipynb is graded, as its name fits best; "
            "not graded: radix_cache/radix_cache-Copy1.ipynb.",
        ),
        attempts=2,
    )


def test_of_others_the_newest_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "alice" / "radix_cache"
    older(notebook(folder / "a.ipynb", "class RadixCache: pass"), 1000)
    path = notebook(folder / "b.ipynb", "class RadixCache: pass")
    older(notebook(folder / "c.ipynb", "class RadixCache: pass"), 2000)
    entry = one(tmp_path)
    assert (entry.path, entry.attempts) == (path, 3)
    assert entry.notes == (
        "Handed in as radix_cache/b.ipynb, not as radix_cache.ipynb.",
        "3 files are for this module: radix_cache/b.ipynb is graded, as it is the newest; "
        "not graded: radix_cache/a.ipynb, radix_cache/c.ipynb.",
    )


def test_the_modules_own_folder_goes_before_a_copy_elsewhere(tmp_path: Path) -> None:
    path = older(text(tmp_path / "alice" / "radix_tree" / "radix_tree.ipynb"), 1000)
    notebook(tmp_path / "alice" / "radix_cache" / "radix_tree.ipynb", "class RadixTree: pass")
    text(tmp_path / "alice" / "radix_tree.ipynb")
    entry = one(tmp_path, TREE)
    assert (entry.path, entry.attempts) == (path, 3)


def test_a_notebook_goes_before_a_python_file_of_its_name(tmp_path: Path) -> None:
    path = older(text(tmp_path / "alice" / "radix_cache" / "radix_cache.ipynb"), 1000)
    text(tmp_path / "alice" / "radix_cache" / "radix_cache.py")
    assert (one(tmp_path).path, one(tmp_path).attempts) == (path, 2)


def test_extra_notebooks_and_files_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "alice" / "radix_cache"
    text(folder / "radix_cache.ipynb")
    notebook(folder / "scratch.ipynb", "x = 1")
    for name in ("a.png", "b.png", "c.png", "d.png", "e.png"):
        text(folder / name)
    entry = one(tmp_path)
    assert entry.attempts == 1
    assert entry.notes == (
        "Not graded, but in the folder: radix_cache/a.png, radix_cache/b.png, radix_cache/c.png, radix_cache/d.png, "
        "radix_cache/e.png and 1 more.",
    )


def test_tests_beside_a_python_file_are_part_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "alice" / "radix_cache"
    path = text(folder / "radix_cache.py")
    text(folder / "tests" / "test_radix_cache.py")
    assert one(tmp_path) == HandedIn("alice", CACHE, path)
    path.rename(folder / "radix_cache.ipynb")
    assert one(tmp_path).notes == ("Not graded, but in the folder: radix_cache/tests/test_radix_cache.py.",)


def test_work_in_the_wrong_folder_goes_where_it_belongs(tmp_path: Path) -> None:
    path = notebook(tmp_path / "alice" / "radix_cache" / "radix_cache (2).ipynb", "class RadixCache: pass")
    wrong = notebook(tmp_path / "alice" / "kv_pool" / "work.ipynb", "class RadixTree: pass")
    kv, tree, cache, _ = find(tmp_path, MODULES)
    assert (kv.path, kv.notes) == (None, ("In the folder is work for another module: kv_pool/work.ipynb.",))
    assert (tree.path, cache.path) == (wrong, path)


def test_where_name_and_folder_differ_what_is_in_the_file_decides(tmp_path: Path) -> None:
    folder = tmp_path / "alice" / "radix_cache"
    path = notebook(folder / "kv_pool.ipynb", "class RadixCache: pass", "class RadixTree: pass")
    empty = text(folder / "block_manager.ipynb")
    paths = [entry.path for entry in find(tmp_path, MODULES)]
    assert paths == [None, None, path, empty], "in a module's folder, classes of another module are helpers"


def test_a_name_like_the_modules_goes_before_any_other(tmp_path: Path) -> None:
    path = older(text(tmp_path / "alice" / "radix_cache" / "Radix-Cache.ipynb"), 1000)
    notebook(tmp_path / "alice" / "radix_cache" / "new.ipynb", "class RadixCache: pass")
    assert (one(tmp_path).path, one(tmp_path).attempts) == (path, 2)


def test_a_notebook_that_says_nothing_is_taken_for_its_folder(tmp_path: Path) -> None:
    path = notebook(tmp_path / "alice" / "radix_cache" / "work.ipynb", "x = 1")
    entry = find(tmp_path, MODULES)[2]
    assert entry.path == path
    assert "Nothing in radix_cache/work.ipynb says which module it is for" in entry.notes[0]


def test_a_notebook_that_says_nothing_anywhere_else_is_named(tmp_path: Path) -> None:
    path = notebook(tmp_path / "alice" / "work.ipynb", "x = 1")
    assert [entry.path for entry in find(tmp_path, MODULES)] == [None] * 4
    assert find(tmp_path, MODULES)[0].notes == ("Nothing says which module these files are for: work.ipynb.",)
    assert one(tmp_path).path == path, "asked for one module, it can only be for that"


# ---------------------------------------------------------------- the wrong folder


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ((), "holds nobody's work. Expected is a folder for each student"),
        (("README.md",), "holds nobody's work"),
        (("spring/alice/radix_cache/radix_cache.ipynb", "spring/bob/kv_pool/kv_pool.ipynb"), "one level lower: give"),
        (("submitted/alice/radix_cache/radix_cache.ipynb", "source/kv_pool/kv_pool.ipynb"), "give {}/submitted."),
        (("spring/alice_radix_cache.ipynb", "spring/bob_radix_cache.ipynb"), "give {}/spring."),
        (("spring/a.ipynb", "spring/b.ipynb", "spring/c.ipynb"), "give {}/spring."),
        (("radix_cache/radix_cache.ipynb", "kv_pool/kv_pool.ipynb"), "so it looks like one student's"),
    ],
)
def test_the_wrong_folder_is_refused_with_what_to_do(tmp_path: Path, places: tuple[str, ...], said: str) -> None:
    for place in places:
        text(tmp_path / place)
    with pytest.raises(NothingThere) as refused:
        find(tmp_path, MODULES)
    assert said.format(tmp_path) in str(refused.value)


@pytest.mark.parametrize(
    "places",
    [
        ("alice/radix_cache/radix_cache.ipynb", "alice/kv_pool/kv_pool.ipynb"),
        ("alice/final.ipynb", "alice/final2.ipynb"),
        ("alice/radix_cache.ipynb", "alice/radix_cache (1).ipynb", "alice/kv_pool.ipynb"),
        ("alice/old/radix_cache.ipynb", "alice/new/radix_cache.ipynb"),
    ],
)
def test_a_class_of_one_is_a_class(tmp_path: Path, places: tuple[str, ...]) -> None:
    for place in places:
        text(tmp_path / place)
    assert {entry.student for entry in find(tmp_path, MODULES)} == {"alice"}


def test_no_folder_and_a_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NothingThere, match=r"There is no folder .*missing"):
        find(tmp_path / "missing", MODULES)
    with pytest.raises(NothingThere, match="is a file: give the folder of a class"):
        find(text(tmp_path / "alice.ipynb"), MODULES)


def test_the_projects_own_submissions_are_told_apart() -> None:
    folder = Path(__file__).parent.parent / "fixtures" / "submissions"
    right = [entry for entry in find(folder, [CACHE]) if entry.student == "right"]
    assert [entry.path for entry in right] == [folder / "right.ipynb"]

"""The students' notebooks laid out in a folder to work in, beside the work that is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from notebooks import build, hand_out


@pytest.fixture
def only_radix_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """One notebook is enough here, and each takes a second to build."""
    monkeypatch.setattr(build, "names", lambda: ("radix_cache",))


def test_each_notebook_is_there_as_a_student_gets_it(only_radix_cache: None, tmp_path: Path) -> None:
    written = hand_out.hand_out(tmp_path / "lab")
    assert written == [tmp_path / "lab" / "radix_cache" / "radix_cache.ipynb"]
    text = written[0].read_text(encoding="utf-8")
    assert text == build.as_text(build.student_notebook("radix_cache")) and "BEGIN SOLUTION" not in text


def test_work_that_is_there_stays(only_radix_cache: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = tmp_path / "radix_cache" / "radix_cache.ipynb"
    assert hand_out.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{notebook} is written.\n"
    notebook.write_text("mine")
    assert hand_out.main([str(tmp_path)]) == 0
    assert notebook.read_text() == "mine" and capsys.readouterr().out == ""


def test_a_folder_that_cant_be_written_is_named(
    only_radix_cache: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lab").write_text("a file")
    assert hand_out.main([str(tmp_path / "lab")]) == 1
    assert capsys.readouterr().err.startswith(str(tmp_path / "lab"))


def test_files_beside_a_text_go_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (build.HERE / "radix_cache" / "radix_cache.md").read_text(encoding="utf-8")
    (tmp_path / "source" / "radix_cache").mkdir(parents=True)
    for name, content in (("radix_cache.md", text), ("radix_cache.ipynb", "{}"), ("map.png", "a map"), (".hid", "")):
        (tmp_path / "source" / "radix_cache" / name).write_text(content, encoding="utf-8")
    monkeypatch.setattr(build, "HERE", tmp_path / "source")
    written = hand_out.hand_out(tmp_path / "lab")
    assert [path.name for path in written] == ["radix_cache.ipynb", "map.png"]

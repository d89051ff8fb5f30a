"""What can't be read in the student edition: no solution, no planted edit, no flat model."""

from __future__ import annotations

import ast
import json
import marshal
import re
import tomllib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType

import pytest

from autograder import implementations
from autograder.edition import ROOT
from autograder.flat import flat_source
from autograder.planted import planted_bugs
from course.modules import Module, find
from notebooks import build, sources
from tests.edition_at_hand import each_module, files, released

LONG = 30
"""Characters of a line that nobody writes twice by chance."""

ANYBODYS = ('"""', "from ", "import ", "with pytest.raises(")
"""How lines begin that are no secret: docstrings, which stay in students' cells, imports, the usual test."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The student edition, with its zip beside it."""
    return released(tmp_path_factory.getbasetemp())


def bodies(source: str) -> Iterator[str]:
    """The lines inside functions, without signatures and docstrings: those are given to students."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            rest = node.body[1:] if ast.get_docstring(node) is not None else node.body
            if rest:
                yield from lines[rest[0].lineno - 1 : node.end_lineno]


def long_lines(lines: Iterable[str]) -> set[str]:
    return {line.strip() for line in lines if len(line.strip()) >= LONG}


def secrets(module: Module) -> set[str]:
    """Lines that only somebody who has the solutions, the planted edits or the flat models can know."""
    tests = (ROOT / "solutions" / "tests" / f"test_{module.name}.py").read_text(encoding="utf-8")
    edits = "\n".join(text for bug in planted_bugs(module) for text in (bug.find, bug.put))
    texts = [implementations.reference_source(module), tests, flat_source(module.name)]
    known = long_lines([*edits.splitlines(), *(line for text in texts for line in bodies(text))])
    return {line for line in known - given(module) - spelled_elsewhere() if not line.startswith(ANYBODYS)}


def given(module: Module) -> set[str]:
    """Lines that a notebook shows on purpose: its own text, and what it hands to students as it is."""
    text = build.HERE / module.name / f"{module.name}.md"
    if not text.exists():
        return set()
    shown: list[str] = []
    for line in text.read_text(encoding="utf-8").splitlines():
        whole = re.fullmatch(r" *\{\{ (code|given): .* \}\}", line)
        shown += sources.filled(line.strip(), module.name).splitlines() if whole else [line]
    return long_lines(shown)


def spelled_elsewhere() -> set[str]:
    """Lines of what students get to read anyway: the contract and the course, and how tests are written."""
    folders = ("course", "autograder/tests", "autograder/room")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    files += (ROOT / "autograder").glob("judging*.py")
    return long_lines(line for path in files for line in path.read_text(encoding="utf-8").splitlines())


def texts(released: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """All there is to read: texts, the cells of notebooks, and the constants inside sealed code."""
    for name, data in released.items():
        if name.endswith(".ipynb"):
            yield name, "\n".join("".join(cell["source"]) for cell in json.loads(data)["cells"])
        elif name.endswith(".sealed"):
            yield name, data.decode("latin-1")
            parts = marshal.loads(zlib.decompress(data[len(MAGIC_NUMBER) :]))
            for part, code in parts.items():
                yield f"{name}, {part}", "\n".join(strings(marshal.loads(code)))
        else:
            yield name, data.decode("utf-8")


def strings(code: CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, CodeType):
            yield from strings(constant)


def leaks(released: Mapping[str, bytes], lines: set[str]) -> list[str]:
    return [f"{name}: {line}" for name, text in texts(released) for line in lines if line in text]


@each_module
def test_no_solution_no_planted_edit_and_no_flat_model_can_be_read_in_it(made: Path, module: Module) -> None:
    lines = secrets(module)
    assert len(lines) > 40
    assert leaks(files(made), lines) == []


def test_the_search_finds_a_line_wherever_it_stands(made: Path) -> None:
    line = sorted(secrets(find("L8.4")), key=len)[-1]
    cell = {"cell_type": "code", "source": ["x = 1\n", f"    {line}\n"]}
    text = f"def f():\n    return {line!r}\n"
    code = marshal.dumps({"part": marshal.dumps(compile(text, "f", "exec"))})
    hidden = {
        "a.ipynb": json.dumps({"cells": [cell]}).encode(),
        "a.py": f"# {line}".encode(),
        "a.sealed": MAGIC_NUMBER + zlib.compress(code),
    }
    assert [found.partition(":")[0] for found in leaks(hidden, {line})] == ["a.ipynb", "a.py", "a.sealed, part"]


@each_module
def test_sealed_code_has_no_docstrings(made: Path, module: Module) -> None:
    documented: list[str] = []
    for text in (implementations.reference_source(module), flat_source(module.name)):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
        documented += [doc for node in nodes if (doc := ast.get_docstring(node, clean=False))]
    assert len(documented) > 10
    sealed_texts = [text for name, text in texts(files(made)) if f"/{module.name}" in name and ".sealed" in name]
    assert len(sealed_texts) == len(planted_bugs(module)) + 2
    assert [doc for doc in documented for text in sealed_texts if doc in text] == []


@each_module
def test_planted_bugs_are_told_without_their_edits(made: Path, module: Module) -> None:
    told = tomllib.loads(files(made)[f"autograder/bugs/{module.name}.toml"].decode())["bug"]
    for bug, row in zip(planted_bugs(module), told, strict=True):
        assert (row["title"], row["symptom"], row["required"]) == (bug.title, bug.symptom, bug.required)
        assert row["find"] == row["put"] == ""

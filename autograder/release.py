"""Building the student edition: a folder, and a zip of it, that installs and runs by itself.

It knows what goes in: `course`, as much of the autograder as a student's commands and notebooks lead to, the
notebooks without solutions, what cannot be read otherwise as sealed code, and fixtures. Nothing of `solutions/`
goes in as text, no edit of a planted bug, no flat model and nothing of the class. What the edition needs from a
machine is in `release_environment`.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import implementations, release_environment, sealed
from autograder.edition import ROOT
from autograder.planted import FOLDER as BUGS
from autograder.planted import planted_bugs
from autograder.reading import ordinary
from autograder.release_environment import TEMPLATES
from course.modules import EXTENSIONS, MODULES, PRODUCTION, Module

Files = dict[str, bytes]
"""What is in each file, by its path in the edition."""

STARTS = ("cli", "notebook", "expect")
WHOLE = ("room", "tests")
"""What students' commands and notebooks load: these modules of the autograder, these packages, and what they import."""

REPLACED = {"autograder/instructors.py": TEMPLATES / "instructors.py"}
"""Files that another one takes the place of."""

DATA = (".json", ".jsonl", ".toml", ".txt")
STAMP = (1980, 1, 1, 0, 0, 0)
"""The time on every file in the zip, so that the same course gives the same zip."""

NEWEST = 30
"""Python 3.11, 3.12 and so on are looked for up to this minor version."""


class NotReleased(Exception):
    """The edition can't be made; the message says why."""


@dataclass(frozen=True)
class Released:
    """What was written: the folder, the zip if there is one, and the versions of Python that it works with."""

    folder: Path
    zip: Path | None
    n_files: int
    pythons: tuple[str, ...]


def release(destination: Path, zipped: bool = True) -> Released:
    """Write the student edition into a new folder, and a zip of it beside that.

    Raises:
        NotReleased: the folder or the zip is there already, or a part of the edition can't be made.
        OSError: they can't be written.
    """
    archive = destination.parent / f"{destination.resolve().name}.zip" if zipped else None
    for path in (destination, archive):
        if path is not None and path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise NotReleased(f"{path} is there already: remove it, or name another folder")
    files, pythons = edition()
    for name, data in files.items():
        path = destination / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if archive is not None:
        write_zip(archive, destination.resolve().name, files)
    return Released(destination, archive, len(files), pythons)


def write_zip(path: Path, folder: str, files: Mapping[str, bytes]) -> None:
    """Write files as a zip with one folder in it; the same files give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(f"{folder}/{name}", STAMP)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)


def edition() -> tuple[Files, tuple[str, ...]]:
    """Every file of the student edition, and the versions of Python that it works with.

    Raises:
        NotReleased: a part can't be made.
    """
    books = notebooks()
    code = sealed_code()
    pythons = tuple(sorted(code, key=lambda version: [int(part) for part in version.split(".")]))
    try:
        environment = release_environment.files(books, pythons)
    except release_environment.NotInstalled as problem:
        raise NotReleased(str(problem)) from None
    files: Files = {f"{folder}/{name}": data for folder in _KEPT_IN for name, data in books.items()}
    files |= {f"autograder/sealed_code/{name}": data for name, data in code.values()}
    files |= {f"autograder/bugs/{name}": data for name, data in bugs()}
    files |= dict(course()) | dict(autograder(books)) | dict(fixtures()) | environment
    return dict(sorted(files.items())), pythons


_KEPT_IN = ("notebooks", "autograder/assignments")
"""A notebook is there to work in, and once more to begin anew (autograder/edition.py)."""


# ---------------------------------------------------------------- notebooks


def notebooks() -> Files:
    """Each notebook as students get it, with nbgrader's checksums, and the files that lie beside it."""
    from notebooks import build

    files: Files = {}
    for name in build.names():
        try:
            student = build.student_notebook(name)
        except build.BadSource as problem:
            raise NotReleased(str(problem)) from None
        beside = [path for path in (build.HERE / name).iterdir() if path.is_file() and not path.name.startswith(".")]
        files |= {
            f"{name}/{path.name}": path.read_bytes() for path in beside if path.suffix not in (".md", ".ipynb", ".py")
        }
        files[f"{name}/{name}.ipynb"] = build.as_text(_with_checksums(student)).encode()
    return files


def _with_checksums(notebook: Mapping[str, Any]) -> Mapping[str, Any]:
    """The notebook with what nbgrader's validation compares: which cells of the course's were changed."""
    import nbformat
    from nbgrader.preprocessors import ComputeChecksums

    made: Mapping[str, Any]
    made, _ = ComputeChecksums().preprocess(nbformat.from_dict(notebook), {})  # type: ignore[no-untyped-call]
    return made


# ---------------------------------------------------------------- code and data


def course() -> Iterator[tuple[str, bytes]]:
    """All of `course`."""
    for path in sorted((ROOT / "course").rglob("*")):
        if path.suffix in (".py", *DATA):
            yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def fixtures() -> Iterator[tuple[str, bytes]]:
    """Data that named tests and the engine read; no submissions, and not the programs that wrote the data."""
    for path in sorted((ROOT / "fixtures").rglob("*")):
        inside = path.relative_to(ROOT)
        if path.suffix in DATA and inside.parts[1] != "submissions":
            yield inside.as_posix(), path.read_bytes()


def bugs() -> Iterator[tuple[str, bytes]]:
    """What a student may read of the planted bugs, and the patterns that they leave."""
    for module in (*MODULES, *EXTENSIONS):
        yield f"{module.name}.toml", _told(module).encode()
    yield "patterns.json", (BUGS / "patterns.json").read_bytes()


def _told(module: Module) -> str:
    """The planted bugs of a module, without their edits."""
    rows = [f"# The planted bugs of {module.id}. The edits are sealed (autograder/sealed.py)."]
    for bug in planted_bugs(module):
        said = {**vars(bug), "find": "", "put": "", "caught_by": list(bug.caught_by)}
        rows.append(
            "[[bug]]\n" + "\n".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in said.items())
        )
    return "\n\n".join(rows) + "\n"


def autograder(books: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """The student's side of the autograder: what their commands and notebooks lead to.

    Args:
        books: the notebooks, whose cells import some of it.
    """
    waiting = [f"autograder/{name}.py" for name in STARTS]
    waiting += [
        path.relative_to(ROOT).as_posix() for name in WHOLE for path in (ROOT / "autograder" / name).glob("*.py")
    ]
    waiting += [file for source in _cells(books) for file in _imported(source)]
    done: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in done:
            done.add(name)
            text = REPLACED.get(name, ROOT / name).read_bytes()
            yield name, text
            waiting += [*_imported(text.decode()), *_packages(name)]


def _cells(books: Mapping[str, bytes]) -> Iterator[str]:
    """The code cells of notebooks that are Python."""
    for name, data in books.items():
        for cell in json.loads(data)["cells"] if name.endswith(".ipynb") else ():
            if cell["cell_type"] == "code":
                yield ordinary("".join(cell["source"]))


def _imported(source: str) -> list[str]:
    """The files of the autograder that a text imports, at its top or later."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    ours = [name.replace(".", "/") for name in names if name.partition(".")[0] == "autograder"]
    return [file for name in ours for file in (f"{name}.py", f"{name}/__init__.py") if (ROOT / file).is_file()]


def _packages(name: str) -> list[str]:
    """The packages that a file is in."""
    return [f"{folder.as_posix()}/__init__.py" for folder in Path(name).parents if folder.name]


# ---------------------------------------------------------------- sealed code


def sealed_code() -> dict[str, tuple[str, bytes]]:
    """References, planted bugs and flat models for every version of Python that is found here.

    Returns:
        For each version, such as "3.11", the name of its file and what is in it.
    """
    every = (*MODULES, *EXTENSIONS, PRODUCTION)
    sources = {name: text for module in every for name, text in implementations.to_seal(module).items()}
    found: dict[str, tuple[str, bytes]] = {}
    for program in _pythons():
        with tempfile.TemporaryDirectory() as folder:
            _seal(program, json.dumps(sources), folder)
            for version in sealed.versions(Path(folder)):
                (file,) = Path(folder).iterdir()
                found[version] = (file.name, file.read_bytes())
    return found


def _pythons() -> list[str]:
    """The Python that runs this, last, and others that are new enough."""
    minors = [minor for minor in range(11, NEWEST) if minor != sys.version_info.minor]
    return [*filter(None, (shutil.which(f"python3.{minor}") for minor in minors)), sys.executable]


def _seal(program: str, sources: str, folder: str) -> None:
    """Seal in a process of its own. It is no harm if another Python can't; this one must."""
    command = [program, "-s", "-S", str(sealed.__file__), folder]
    # the order of a set's constants follows the hash seed
    environment = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, input=sources, text=True, capture_output=True, env=environment)
    if done.returncode and program == sys.executable:
        raise NotReleased(f"the implementations can't be sealed: {done.stderr.strip()}")

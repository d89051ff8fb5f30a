"""Where a student starts: the assignment's notebook, or a file of stubs made from the contract.

It knows how to write a student's first version of a module, and never to write over work. It does
not know how the work is graded.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from autograder import edition, reading
from course import contract, modules
from course.modules import Module

NOTEBOOKS = edition.ASSIGNMENTS
RAISE = "raise NotImplementedError"

HEAD = '''"""{module.id} · {module.title}: yours to write.

The contract is course/contract.py. A property may become an attribute that `__init__` sets.
{more}"""'''

EXTENDS = (
    "This is your own {extended.id} and one thing more: {adds}. Put the class that you have in place of this one.\n"
)


class NoNotebook(Exception):
    """A module's notebook is asked for, and there is none here."""


@dataclass(frozen=True)
class Written:
    """A file that was written, left as it was (`unchanged`), or written after its old text went to `backup`."""

    path: Path
    backup: Path | None = None
    unchanged: bool = False


def start(module: Module, destination: Path) -> list[Written]:
    """Write a student's first version of a module.

    Args:
        module: which module.
        destination: a folder, or the path of the file to write: `.py` for stubs, `.ipynb` for the notebook.

    Raises:
        NoNotebook: a notebook is asked for where there is none.
        OSError: the destination can't be written; what was there is there still, or in its backup.
    """
    path = _path(module, destination)
    if path.suffix == ".ipynb":
        return [write(path, _notebook(module))]
    tests = reading.tests_beside(path, module)
    beside = path.parent / f"test_{module.name}.py"
    return [write(path, stubs(module)), Written(tests, unchanged=True) if tests else write(beside, own_tests(module))]


def _path(module: Module, destination: Path) -> Path:
    """The file to write: the one that is named, or the module's in the folder that is named."""
    has_notebook = _has_notebook(module)
    if destination.suffix not in (".ipynb", ".py") or destination.is_dir():
        return destination / f"{module.name}{'.ipynb' if has_notebook else '.py'}"
    if destination.suffix == ".ipynb" and not has_notebook:
        raise NoNotebook(f"{module.id} has no notebook here: name a file that ends in .py, or a folder")
    return destination


def write(path: Path, text: str) -> Written:
    """Write a file. What was there before is kept beside it as `.bak-1`, `.bak-2` and so on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    backup = None
    if path.exists():
        if path.read_bytes() == text.encode():
            return Written(path, unchanged=True)
        numbered = (path.with_name(f"{path.name}.bak-{n}") for n in range(1, 10_000))
        backup = path.rename(next(free for free in numbered if not free.exists()))
    with path.open("x", encoding="utf-8") as file:  # "x": what came to be here in the meantime stays, too
        file.write(text)
    return Written(path, backup)


# ---------------------------------------------------------------- notebooks


def _has_notebook(module: Module) -> bool:
    folder = NOTEBOOKS / module.name
    return any((folder / f"{module.name}{suffix}").exists() for suffix in (".md", ".ipynb"))


def _notebook(module: Module) -> str:
    """The student's edition of a module's notebook, as text; nothing if there is none.

    Where the notebooks' sources are, it is made from them; a student's edition of the course keeps it, made.
    """
    folder = NOTEBOOKS / module.name
    if (folder / f"{module.name}.md").exists():
        from notebooks import build  # reading Markdown takes a second, and only this needs it

        return build.as_text(build.student_notebook(module.name))
    built = folder / f"{module.name}.ipynb"
    return built.read_text(encoding="utf-8") if built.exists() else ""


# ---------------------------------------------------------------- stubs from the contract


def stubs(module: Module) -> str:
    """A Python file with everything a module exports, each call with its docstring and no body.

    Of the calls that a class may leave out, it has those that the module adds.
    """
    left_out = contract.OPTIONAL.difference(module.adds)
    exports = [_without(left_out, _stub(export, left_out)) for export in module.exports]
    needed = sorted(export for name in module.needs for export in modules.find(name).exports)
    body = "\n\n\n".join(exports)
    extended = modules.find(module.extends or module.name)
    more = EXTENDS.format(extended=extended, adds=", ".join(module.adds)) if module.extends else ""
    head = HEAD.format(module=module, more=more)
    general, ours = _imports(body, needed)
    ours += [f"from course.modules import {', '.join(needed)}"] * bool(needed)
    parts = [head, "from __future__ import annotations", "\n".join(general), "\n".join(ours)]
    return "\n\n".join(part for part in parts if part) + f"\n\n\n{body}\n"


def own_tests(module: Module) -> str:
    """The file for the student's own tests, with nothing in it but how to begin."""
    names = ", ".join(module.exports)
    return (
        f'"""{module.id} · Your own tests of {names}: functions test_..., run on right implementations and on\n'
        'planted bugs. Write them against the contract; pytest and hypothesis are at hand."""\n\n'
        f"from course.modules import {names}  # noqa: F401\n"
    )


def _without(left_out: Iterable[str], text: str) -> str:
    """A stub without the options that go with calls that are left out, and without what is said of them."""
    for name in left_out:
        text = re.sub(rf", {name}: [^,)]+", "", text)
        text = re.sub(rf" [^.]*`{name}`[^.]*\.", "", text)
    return text


def _stub(export: str, left_out: Set[str]) -> str:
    protocol = "".join(part.capitalize() for part in export.split("_")) if export.islower() else export
    if export.islower():
        (call,) = _members(protocol)
        return _function(call, export)
    members = [_member(node) for node in _members(protocol) if getattr(node, "name", "") not in left_out]
    doc = ast.get_docstring(_class(protocol), clean=False)
    return f'class {export}:\n    """{doc}"""\n\n' + "\n\n".join(members)


def _member(node: ast.stmt) -> str:
    if isinstance(node, ast.AnnAssign):
        return f"    {ast.unparse(node.target)} = {ast.unparse(node.target)}"
    return _text(node) + f"\n        {RAISE}"


def _function(call: ast.stmt, name: str) -> str:
    lines = [line.removeprefix("    ") for line in _text(call).splitlines()]
    lines[0] = lines[0].replace("def __call__(self, ", f"def {name}(")
    return "\n".join([*lines, f"    {RAISE}"])


def _members(protocol: str) -> Iterator[ast.stmt]:
    """What a protocol and those it extends ask for, `__init__` first, docstrings left out."""
    node = _class(protocol)
    own = [member for member in node.body if not isinstance(member, ast.Expr)]
    bases = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id != "Protocol"]
    inherited = [member for base in bases for member in _members(base)]
    yield from sorted([*own, *inherited], key=lambda member: getattr(member, "name", "") != "__init__")


SOURCE = Path(contract.__file__).read_text(encoding="utf-8")
TREE = ast.parse(SOURCE)


def _class(name: str) -> ast.ClassDef:
    return next(node for node in TREE.body if isinstance(node, ast.ClassDef) and node.name == name)


def _text(node: ast.stmt) -> str:
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    return "\n".join(SOURCE.splitlines()[first - 1 : node.end_lineno])


def _imports(body: str, needed: Sequence[str]) -> tuple[list[str], list[str]]:
    """What a stub imports: as the contract's own file does, and from the contract."""
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)} - set(needed)
    general, elsewhere = [], set()
    for node in TREE.body:
        if isinstance(node, ast.ImportFrom):
            names = sorted(alias.name for alias in node.names if alias.name in used)
            elsewhere |= {alias.name for alias in node.names}
            general += [f"from {node.module} import {', '.join(names)}"] * bool(names)
    named = sorted((name for name in used - elsewhere if hasattr(contract, name)), key=_as_in_imports)
    return general, [f"from course.contract import {', '.join(named)}"] * bool(named)


def _as_in_imports(name: str) -> tuple[bool, str]:
    """Constants first, as import sorters have it."""
    return not name.isupper(), name

"""Fills a cell's references with source from `solutions/`, so that each solution stands once.

A line by itself, in braces, is one of:

    {{ imports }}                         what the module's solution imports
    {{ step 2: RadixCache.insert }}       methods of a class of the module's solution: signature and docstring
                                          stay in the student's edition, the body is taken out
    {{ code: _Node }}                     definitions of the solution, as they are: what students are given
    {{ given: B, tokens, fill }}          definitions of the solution's own tests, as they are
    {{ own tests: test_a, test_b }}       the same, taken out whole in the student's edition
    {{ pitfalls }}                        in prose: the table of the module's planted bugs

It knows Python's syntax tree and the two folders. What nbgrader takes out, `notebooks.stubs` knows.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from autograder.planted import planted_bugs
from course import modules
from notebooks import stubs

SOLUTIONS = Path(__file__).parent.parent / "solutions"
REFERENCE = re.compile(r"^(?P<indent> *)\{\{ (?P<what>step \d+|code|given|own tests): (?P<names>[^{}]+) \}\}$")


class NoSuchSource(Exception):
    """A reference to something that the solutions do not define."""


def filled(source: str, module: str) -> str:
    """A cell's source with every reference replaced by what it names."""
    imports = _imports(module) if "{{ imports }}" in source else ""
    lines: list[str] = []
    for line in source.replace("{{ imports }}", imports).split("\n"):
        reference = REFERENCE.match(line)
        if "{{" in line and reference is None:
            raise NoSuchSource(f"not a reference: {line.strip()}")
        lines.append(_resolved(reference, module) if reference else line)
    return "\n".join(lines)


def told(prose: str, module: str) -> str:
    """A prose cell with its reference to the planted bugs replaced by a table of them."""
    return prose.replace("{{ pitfalls }}", _pitfalls(module)) if "{{ pitfalls }}" in prose else prose


def _pitfalls(module: str) -> str:
    rows = ["| Pitfall | Symptom | Noticed by |", "|---|---|---|"]
    for bug in planted_bugs(modules.find(module)):
        tests = ", ".join(f"`{test}`" for test in bug.caught_by)
        rows.append(f"| {bug.title} | {bug.symptom} | {tests} |")
    return "\n".join(rows)


def _imports(module: str) -> str:
    file = SOLUTIONS / f"{module}.py"
    nodes = [node for node in _tree(file).body if isinstance(node, ast.Import | ast.ImportFrom)]
    pieces = ["".join(_lines(file)[node.lineno - 1 : node.end_lineno]) for node in nodes]
    return "".join(piece for piece in pieces if "__future__" not in piece).rstrip("\n")


def _resolved(reference: re.Match[str], module: str) -> str:
    wanted = [name.strip() for name in reference["names"].split(",")]
    text = _KINDS[reference["what"].split(" ", 1)[0]](module, reference["what"], wanted)
    return textwrap.indent(text, reference["indent"])


def _methods(module: str, step: str, wanted: list[str]) -> str:
    file = SOLUTIONS / f"{module}.py"
    return "\n\n".join(_method(file, name, step) for name in wanted)


def _method(file: Path, dotted: str, step: str) -> str:
    """A method with its body marked as a solution; what comes before the body stays."""
    node = _definition(file, dotted)
    if not isinstance(node, ast.FunctionDef):
        raise NoSuchSource(f"{file.name} has no method {dotted}")
    lines = _lines(file)
    first = node.body[1] if ast.get_docstring(node) is not None else node.body[0]
    head = textwrap.dedent("".join(lines[_start(node) - 1 : first.lineno - 1])).rstrip("\n")
    body = textwrap.dedent("".join(lines[first.lineno - 1 : node.end_lineno])).rstrip("\n")
    return head + "\n" + textwrap.indent(stubs.marked(body, f"{step}: {node.name}"), "    ")


def _code(module: str, _: str, wanted: list[str]) -> str:
    return _as_they_are(SOLUTIONS / f"{module}.py", wanted)


def _given(module: str, _: str, wanted: list[str]) -> str:
    return _tests(module, wanted)


def _own(module: str, _: str, wanted: list[str]) -> str:
    return stubs.marked(_tests(module, wanted))


_KINDS: dict[str, Callable[[str, str, list[str]], str]] = {
    "step": _methods,
    "code": _code,
    "given": _given,
    "own": _own,
}


def _tests(module: str, wanted: list[str]) -> str:
    return _as_they_are(SOLUTIONS / "tests" / f"test_{module}.py", wanted)


def _as_they_are(file: Path, wanted: list[str]) -> str:
    """Definitions of a file: values close together, functions and classes two lines apart."""
    text = ""
    for name in wanted:
        node = _definition(file, name)
        end = _docstring_end(file, node)
        piece = "".join(_lines(file)[_start(node) - 1 : end])
        text += ("\n\n" if isinstance(node, ast.FunctionDef | ast.ClassDef) and text else "") + piece
    return text.strip("\n")


# ---------------------------------------------------------------- looking a definition up


@cache
def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines(keepends=True)


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse("".join(_lines(file)))


def _definition(file: Path, dotted: str) -> ast.stmt:
    body: list[ast.stmt] = _tree(file).body
    *owners, name = dotted.split(".")
    for owner in owners:
        node = next((node for node in _named(body, owner) if isinstance(node, ast.ClassDef)), None)
        body = node.body if node else []
    if found := next(_named(body, name), None):
        return found
    raise NoSuchSource(f"{file.name} does not define {dotted}")


def _named(body: list[ast.stmt], name: str) -> Iterator[ast.stmt]:
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        names = {target.id for target in targets if isinstance(target, ast.Name)} | {getattr(node, "name", None)}
        if name in names:
            yield node


def _start(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return decorators[0].lineno if decorators else node.lineno


def _docstring_end(file: Path, node: ast.stmt) -> int:
    """The last line of a definition, with the string that explains a value below it."""
    body = _tree(file).body
    after = body[body.index(node) + 1] if node is not body[-1] else None
    explains = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    end = after.end_lineno if after is not None and explains and isinstance(node, ast.Assign) else node.end_lineno
    return end or node.lineno

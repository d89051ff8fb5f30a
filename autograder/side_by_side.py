"""A student's code beside the reference, piece by piece: what `ol diff` shows.

It knows how a source falls into pieces (methods, functions, constants, heads of classes), which pieces
answer each other, and how a pair is laid out. It does not know whether the code is right, or who may
see the reference.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from autograder.reading import Role, Submission

WIDE = 140
"""Columns from which two pieces stand side by side: two columns of code of 68."""

THEME = "ansi_dark"
"""The terminal's own colours, whatever they are."""


@dataclass(frozen=True)
class Pair:
    """One piece of code, as the student and as the reference have it; "" where one of them has none."""

    name: str
    own: str
    reference: str

    @property
    def alike(self) -> bool:
        """Both say the same, comments, docstrings and layout left aside."""
        return bool(self.own and self.reference) and _bare(self.own) == _bare(self.reference)


# ---------------------------------------------------------------- pieces and pairs


def pieces(source: str) -> dict[str, str]:
    """The pieces of a source by name, `RadixCache.insert` for a method; of two with one name the last counts.

    Imports, the module's docstring and bare expressions are no pieces. A class that a later cell continues,
    `class RadixCache(RadixCache):`, is one class; one that a later cell begins anew is the later one.
    """
    lines, found = source.splitlines(), dict[str, str]()
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef):
            found |= {name: _text(node, lines)} if (name := _name(node)) else {}
            continue
        head = f"class {node.name}"
        if any(isinstance(base, ast.Name) and base.id == node.name for base in node.bases):
            found.setdefault(head, _head(node, lines))
        else:
            found = {name: text for name, text in found.items() if not name.startswith(f"{node.name}.")}
            found[head] = _head(node, lines)
        found |= {_member_name(node, each): _text(each, lines) for each in _members(node)}
    return found


def own_source(submission: Submission) -> str:
    """The student's code: their solutions, and of their other cells the functions and classes."""
    parts = [
        cell.source if cell.role is Role.SOLUTION else _definitions(cell.source)
        for cell in submission.for_named_tests
        if not cell.given
    ]
    return "\n\n".join(parts)


def pairs(own: str, reference: str) -> list[Pair]:
    """Every piece of two sources, in the order of the reference, and then what only the student has."""
    ours, theirs = pieces(own), pieces(reference)
    names = [*theirs, *(name for name in ours if name not in theirs)]
    return [Pair(name, ours.get(name, ""), theirs.get(name, "")) for name in names]


def _members(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]


def _name(node: ast.stmt) -> str:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def _member_name(owner: ast.ClassDef, member: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    setter = any(isinstance(each, ast.Attribute) and each.attr == "setter" for each in member.decorator_list)
    return f"{owner.name}.{member.name}{' (setter)' if setter else ''}"


def _head(node: ast.ClassDef, lines: list[str]) -> str:
    """A class without its methods: its first line, docstring and fields."""
    first = _first_line(node) - 1
    inside = {n for each in _members(node) for n in range(_first_line(each) - 1, each.end_lineno or 0)}
    kept = [line for n, line in enumerate(lines[first : node.end_lineno], first) if n not in inside]
    return "\n".join(line for line in kept if line.strip() and not line.lstrip().startswith("# ---"))


def _text(node: ast.stmt, lines: list[str]) -> str:
    margin = " " * node.col_offset
    return "\n".join(line.removeprefix(margin) for line in lines[_first_line(node) - 1 : node.end_lineno])


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def _definitions(source: str) -> str:
    lines = source.splitlines()
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return "\n\n".join(_text(node, lines) for node in ast.parse(source).body if isinstance(node, kinds))


def _bare(text: str) -> str:
    """A piece as its syntax alone, without docstrings."""
    try:
        tree = ast.parse(text)
    except SyntaxError:  # the head of a class that has methods and nothing else
        tree = ast.parse(f"{text}\n    pass")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.body = [each for each in node.body if not _is_docstring(each)]
    return ast.dump(tree)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


# ---------------------------------------------------------------- on a terminal and in a file


def view(found: Sequence[Pair], width: int, is_terminal: bool) -> RenderableType:
    """Pairs side by side where a terminal has room for it, else one below the other."""
    show = _beside if is_terminal and width >= WIDE else _below
    return Group(*(part for pair in found for part in show(pair, is_terminal)))


def data(found: Sequence[Pair]) -> list[Mapping[str, Any]]:
    """Pairs for programs."""
    return [
        {"name": pair.name, "own": pair.own or None, "reference": pair.reference or None, "alike": pair.alike}
        for pair in found
    ]


def _beside(pair: Pair, is_terminal: bool) -> Iterator[RenderableType]:
    yield Text(pair.name + _remark(pair), "bold")
    table = Table.grid(padding=(0, 2), expand=True)
    for _ in range(2):
        table.add_column(ratio=1)
    table.add_row(Text("yours", "dim"), Text("reference", "dim"))
    table.add_row(_code(pair.own, is_terminal), _code(pair.reference, is_terminal))
    yield from (table, Text())


def _below(pair: Pair, is_terminal: bool) -> Iterator[RenderableType]:
    yield Text(pair.name + _remark(pair), "bold")
    for whose, text in (("yours", pair.own), ("reference", pair.reference)):
        yield Text(f"--- {whose}", "dim")
        yield _code(text, is_terminal)
    yield Text()


def _remark(pair: Pair) -> str:
    if pair.alike:
        return "  (alike)"
    return "" if pair.own and pair.reference else f"  (only {'yours' if pair.own else 'in the reference'})"


def _code(text: str, is_terminal: bool) -> RenderableType:
    if not text:
        return Text("(none)", "dim")
    if is_terminal:
        return Syntax(text, "python", theme=THEME, word_wrap=True, background_color="default")
    return Text(text, no_wrap=True, overflow="ignore")

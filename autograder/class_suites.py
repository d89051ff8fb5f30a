"""Kinds of own tests in the sample class: good, in a class, weak, skipped, or none.

It knows how each is made of the text of good ones. Which student has which it does not know.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterator

N_WEAK = 2
"""Weak tests of one's own are the first two of the good ones."""


def pieces(source: str) -> Iterator[tuple[ast.stmt, str]]:
    """Each statement at the top of a source, with the text from the end of the one before to its own end."""
    lines, at = source.splitlines(keepends=True), 0
    for node in ast.parse(source).body:
        end = node.end_lineno or at
        yield node, "".join(lines[at:end])
        at = end


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test_")


def _weak(source: str) -> str:
    found = list(pieces(source))
    dropped = [node for node, _ in found if _is_test(node)][N_WEAK:]
    return "".join(text for node, text in found if node not in dropped)


def _skipped(source: str) -> str:
    mark = '\n\n\n@pytest.mark.skip(reason="not finished")\n'
    return "".join(mark + text.lstrip("\n") if _is_test(node) else text for node, text in pieces(source))


def _in_a_class(source: str) -> str:
    """Every test as a method of one class."""
    helpers, methods = "", ""
    for node, text in pieces(source):
        if _is_test(node) and isinstance(node, ast.FunctionDef):
            mine = "self, " if node.args.args else "self"
            text = text.replace(f"def {node.name}(", f"def {node.name}({mine}")
            methods += "\n" + textwrap.indent(text.strip("\n"), "    ") + "\n"
        else:
            helpers += text
    return f"{helpers}\n\n\nclass TestAll:{methods}"


SUITES: dict[str, Callable[[str], str]] = {
    "good": lambda source: source,
    "in a class": _in_a_class,
    "weak": _weak,
    "skipped": _skipped,
    "none": lambda source: "# YOUR CODE HERE",
}
"""What becomes of the good tests in a notebook."""

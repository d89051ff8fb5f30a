"""The regions that hold solutions, and the stubs that students find in their place.

It knows nbgrader's convention: what stands between `### BEGIN SOLUTION` and `### END SOLUTION` is replaced
by a stub. A region may name its step (`### BEGIN SOLUTION step 2: insert`); then its stub raises
NotImplementedError with that name. nbgrader has one stub for all regions, so `NameStubs` writes the line
with the name before nbgrader's own ClearSolutions runs. It knows nothing of solutions or notebooks' texts.
"""

from __future__ import annotations

import re
import textwrap

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
STUB = "# YOUR CODE HERE"
"""nbgrader's stub, as `nbgrader_config.py` sets it."""

HIDDEN = re.compile(r"^ *### BEGIN HIDDEN TESTS$.*?^ *### END HIDDEN TESTS\n", re.MULTILINE | re.DOTALL)
"""What nbgrader keeps from students: from one mark to the other."""

NAMED = re.compile(rf"^( *){BEGIN} (.+)$")


def marked(body: str, step: str = "") -> str:
    """A solution as a region. `step` is what its stub's NotImplementedError says; without it the stub is silent."""
    return f"{BEGIN} {step}".rstrip() + f"\n{body}\n{END}"


def named(source: str) -> str:
    """The source with each named region made a plain one, followed by the line that raises its name."""
    lines, raising = [], ""
    for line in source.split("\n"):
        if region := NAMED.match(line):
            indent, step = region.groups()
            line, raising = f"{indent}{BEGIN}", f'{indent}raise NotImplementedError("{step}")'
        lines.append(line)
        if line.strip() == END and raising:
            lines.append(raising)
            raising = ""
    return "\n".join(lines)


def cleared(source: str) -> str:
    """The source as a student finds it: what nbgrader's ClearSolutions makes of it after `named`."""
    region = re.compile(rf"^( *){BEGIN}$.*?^ *{END}$", re.MULTILINE | re.DOTALL)
    return region.sub(lambda found: textwrap.indent(STUB, found[1]), named(source))


def without_hidden(source: str) -> str:
    """The source without its hidden tests and their marks: what nbgrader's ClearHiddenTests leaves of it."""
    return "\n".join(HIDDEN.sub("", f"{source}\n").split("\n")[:-1]) if "### BEGIN HIDDEN TESTS" in source else source

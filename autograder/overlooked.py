"""What a student may have overlooked in a notebook: leftover stubs, lost and doubled cells, answers in the wrong place.

It reads cells and says what it finds, by cell and line, with what to do. Nothing is run here, and no
verdict hangs on it: a remark explains a verdict, it never makes one.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Found:
    """A cell as it stands in the notebook: its number, what it is labelled with, and its text.

    `grade_id` is empty for a cell of the student's own. `runs` is False for test cells and for what is no code.
    """

    number: int
    source: str
    grade_id: str = ""
    is_code: bool = True
    is_solution: bool = False
    is_test: bool = False

    @property
    def name(self) -> str:
        """The cell as a student finds it."""
        return f"cell {self.number}" + (f" ({self.grade_id})" if self.grade_id else "")

    @property
    def runs(self) -> bool:
        """Whether grading runs it as part of the implementation."""
        return self.is_code and not self.is_test


def overlooked(name: str, cells: Sequence[Found], exports: Sequence[str], expected: Sequence[str]) -> list[str]:
    """Remarks on a notebook's cells, each a sentence with what to do.

    Args:
        name: the file's name.
        cells: every cell, in order, Markdown too.
        exports: the names that the module asks for.
        expected: the grade_ids of the solution cells that the assignment has; none if that is not known.
    """
    remarks = [
        *_doubled(cells),
        *_turned(cells, exports),
        *_deleted(cells, expected),
        *_in_test_cells(cells, exports),
        *_stubs_beside_answers(cells),
        *(left for cell in cells if cell.runs for left in _left(cell)),
    ]
    return [f"{name}, {remark}" for remark in remarks]


# ---------------------------------------------------------------- cells


def _doubled(cells: Sequence[Found]) -> Iterator[str]:
    labelled = defaultdict(list)
    for cell in cells:
        if cell.grade_id and cell.is_code:
            labelled[cell.grade_id].append(cell)
    for grade_id, same in labelled.items():
        if len(same) == 1:
            continue
        numbers = ", ".join(str(cell.number) for cell in same)
        stubborn = _unwritten(same[-1]) and not _unwritten(same[0])
        advice = (
            "The last one is still a stub and takes the place of your answer: delete it."
            if stubborn
            else "They run in this order, and the last one counts."
        )
        yield f"cells {numbers}: all carry the grade_id {grade_id}. {advice}"


def _turned(cells: Sequence[Found], exports: Sequence[str]) -> Iterator[str]:
    for cell in cells:
        defined = _classes_and_functions(cell)
        if not cell.is_code and defined and (cell.is_solution or set(exports) & set(defined)):
            yield f"{cell.name}: this is not a code cell any more, so its code does not run: make it one again."


def _deleted(cells: Sequence[Found], expected: Sequence[str]) -> Iterator[str]:
    there = {cell.grade_id for cell in cells if cell.grade_id}
    if not there:
        return
    gone = [grade_id for grade_id in expected if grade_id not in there]
    if gone:
        what, they, them = ("cell", "it", "it") if len(gone) == 1 else ("cells", "they", "them")
        yield (
            f"{what} {', '.join(gone)}: not there any more, so what {they} defined must stand elsewhere. "
            f"If you did not move it, put {them} back."
        )


def _in_test_cells(cells: Sequence[Found], exports: Sequence[str]) -> Iterator[str]:
    for cell in cells:
        for name in _classes_and_functions(cell) if cell.is_test and cell.is_code else ():
            if name in exports:
                yield f"{cell.name}: test cells are never run, and {name} is defined in this one: move it out of it."


def _stubs_beside_answers(cells: Sequence[Found]) -> Iterator[str]:
    """Stubs that are still there while another cell answers them, below or above."""
    answers: dict[str, list[Found]] = defaultdict(list)
    for cell in cells:
        if cell.runs and not cell.grade_id:
            for what in _written(cell):
                answers[what].append(cell)
    for stub in cells:
        beside: dict[Found, list[str]] = defaultdict(list)
        for what in _stubbed(stub) if stub.is_solution and stub.runs else ():
            if what in answers:
                beside[answers[what][-1]].append(what)
        yield from (_stub_beside(stub, answer, names) for answer, names in beside.items())


def _stub_beside(stub: Found, answer: Found, names: Sequence[str]) -> str:
    verb, ending = ("is", "s") if len(names) == 1 else ("are", "")
    still = f"{stub.name}: {', '.join(names)} {verb} still a stub here"
    if answer.number > stub.number:
        return f"{still}, and your answer stands below, in {answer.name}: that one counts."
    return f"{still} and take{ending} the place of your answer above, in {answer.name}: move your answer here."


# ---------------------------------------------------------------- stubs


def _left(cell: Found) -> Iterator[str]:
    for function in functions(cell.source).values():
        if line := line_left(function):
            yield (
                f"{cell.name}, line {line}: the stub's line `raise NotImplementedError` still stands in "
                f"{function.name} beside your answer, and Python gets there: delete it."
            )


def line_left(function: Function) -> int:
    """The line of a `raise NotImplementedError` that was left beside an answer and can be reached; else 0.

    An answer that has returned before it, whatever happens, loses nothing by it.
    """
    body = _after_docstring(function.body)
    for place, statement in enumerate(body):
        if is_stub_line(statement):
            return statement.lineno if len(body) > 1 else 0
        if always_ends(body[: place + 1]):
            return 0
    return 0


def is_stub_line(statement: ast.stmt) -> bool:
    """Whether this is `raise NotImplementedError`, with or without a text."""
    if not isinstance(statement, ast.Raise):
        return False
    raised = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def always_ends(body: Sequence[ast.stmt]) -> bool:
    """Whether a body surely returns or raises before its end."""
    last = body[-1]
    if isinstance(last, ast.Return | ast.Raise):
        return True
    if isinstance(last, ast.If):
        return bool(last.orelse) and always_ends(last.body) and always_ends(last.orelse)
    if isinstance(last, ast.With):
        return always_ends(last.body)
    return False


def functions(source: str) -> dict[str, Function]:
    """Every function of a cell, by name; a method's name has its class's before it."""
    found: dict[str, Function] = {}
    for node in body_of(source):
        if isinstance(node, Function):
            found[node.name] = node
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}": inner for inner in node.body if isinstance(inner, Function)}
    return found


def _unwritten(cell: Found) -> bool:
    return any(map(_is_stub, functions(cell.source).values()))


def _stubbed(cell: Found) -> list[str]:
    return [name for name, function in functions(cell.source).items() if _is_stub(function)]


def _written(cell: Found) -> list[str]:
    return [name for name, function in functions(cell.source).items() if not _is_stub(function)]


def _is_stub(function: Function) -> bool:
    body = _after_docstring(function.body)
    return len(body) == 1 and is_stub_line(body[0])


def _after_docstring(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    first = body[0]
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return body[1:] if is_text else body


def _classes_and_functions(cell: Found) -> list[str]:
    return [node.name for node in body_of(cell.source) if isinstance(node, Function | ast.ClassDef)]


def body_of(source: str) -> Sequence[ast.stmt]:
    """The statements of a cell; none if it is no Python."""
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def solution_cells(book: Mapping[str, Any]) -> tuple[str, ...]:
    """The grade_ids of an assignment's solution cells, in order, the one for own tests among them."""
    labels = [cell["metadata"].get("nbgrader", {}) for cell in book["cells"]]
    return tuple(label["grade_id"] for label in labels if label.get("solution"))

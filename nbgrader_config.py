"""nbgrader's settings: where the notebooks stand, and what students find in place of a solution.

`nbgrader generate_assignment radix_cache`, run in this folder, makes release/radix_cache.
"""

import sys
from pathlib import Path
from typing import Any

from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor

sys.path.insert(0, str(Path(__file__).parent))

from notebooks import stubs


class NameStubs(NbGraderPreprocessor):
    """Lets each stub name its step; runs just before nbgrader's own ClearSolutions."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        """The cell with each named region followed by the line that raises its name."""
        if cell.cell_type == "code":
            cell.source = stubs.named(cell.source)
        return cell, resources


def with_named_stubs(steps: list[Any]) -> list[Any]:
    """nbgrader's own steps, with ours before the one that clears solutions."""
    place = steps.index(ClearSolutions)
    return [*steps[:place], NameStubs, *steps[place:]]


c = get_config()  # noqa: F821 - nbgrader puts it here

c.CourseDirectory.course_id = "kv-cache-course"
c.CourseDirectory.root = str(Path(__file__).parent)
c.CourseDirectory.source_directory = "notebooks"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", ".hypothesis", "feedback", "*.md"]

c.ClearSolutions.code_stub = {"python": stubs.STUB}
c.GenerateAssignment.preprocessors = with_named_stubs(GenerateAssignment.preprocessors.default_args[0])

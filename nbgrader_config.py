"""nbgrader's settings: where the notebooks stand, what students find in place of a solution, and who grades.

`nbgrader generate_assignment radix_cache`, run in this folder, makes release/radix_cache, and `nbgrader autograde
radix_cache` grades what lies in submitted/: with the verdicts of `ol grade`, not by running notebooks.
"""

import os
import sys
from pathlib import Path
from typing import Any

from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
from nbgrader.preprocessors import ClearSolutions, Execute, GetGrades, NbGraderPreprocessor

sys.path.insert(0, str(Path(__file__).parent))

from autograder import nbgrader_plugin
from notebooks import stubs


class NameStubs(NbGraderPreprocessor):
    """Lets each stub name its step; runs just before nbgrader's own ClearSolutions."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        """The cell with each named region followed by the line that raises its name."""
        if cell.cell_type == "code":
            cell.source = stubs.named(cell.source)
        return cell, resources


def own_steps(converter: Any, name: str, replaced: dict[Any, list[Any]]) -> list[Any]:
    """nbgrader's own steps of a command, with others in the places of some."""
    steps = converter.class_traits()[name].default_args[0]
    return [step for each in steps for step in replaced.get(each, [each])]


def on_path(folder: str) -> str:
    """PATH with a folder in front: nbgrader calls alembic, beside this Python, by its bare name."""
    before = [place for place in os.environ.get("PATH", "").split(os.pathsep) if place and place != folder]
    return os.pathsep.join([folder, *before])


os.environ["PATH"] = on_path(str(Path(sys.executable).parent))

c = get_config()  # noqa: F821 - nbgrader puts it here

c.CourseDirectory.course_id = "kv-cache-course"
c.CourseDirectory.root = str(Path(__file__).parent)
c.CourseDirectory.source_directory = "notebooks"
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", ".hypothesis", "feedback", "*.md"]

c.ClearSolutions.code_stub = {"python": stubs.STUB}
c.GenerateAssignment.preprocessors = own_steps(
    GenerateAssignment, "preprocessors", {ClearSolutions: [NameStubs, ClearSolutions]}
)

c.Autograde.pre_convert_hook = nbgrader_plugin.take_what_was_handed_in
c.Autograde.exporter_class = nbgrader_plugin.SubmissionExporter
c.Autograde.autograde_preprocessors = own_steps(
    Autograde, "autograde_preprocessors", {Execute: [nbgrader_plugin.GradeInRooms]}
)
c.OverwriteCells.add_missing_cells = True

c.GenerateFeedback.preprocessors = own_steps(
    GenerateFeedback, "preprocessors", {GetGrades: [GetGrades, nbgrader_plugin.HideHiddenTests]}
)

"""The sample submissions of L8.4 that `ol demo` grades: one right, one with a pitfall, one that loops.

It knows how each differs from the finished notebook: by one edit of a cell. `python -m autograder.samples`
writes the files anew from the notebook's text and the solutions, and with them the sample class
(autograder/class_samples.py); a test fails if they no longer agree. How they are graded it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import class_samples
from autograder.class_notebooks import MARKER
from autograder.planted import planted_bugs
from course import modules

FOLDER = Path(__file__).parent.parent / "fixtures" / "submissions"
MODULE = modules.find("L8.4")
PITFALL = "s01"


@dataclass(frozen=True)
class Sample:
    """A submission: its file's name, what it is, the edit that makes it, and whether it should pass.

    `shows` is the status that some of its named tests must have.
    """

    name: str
    what: str
    find: str
    put: str
    passes: bool
    shows: str

    @property
    def path(self) -> Path:
        """Where the notebook stands."""
        return FOLDER / f"{self.name}.ipynb"


def samples() -> tuple[Sample, ...]:
    """The three samples."""
    pitfall = next(bug for bug in planted_bugs(MODULE) if bug.id == PITFALL)
    ((once, forever),) = class_samples.edits(MODULE, "endless")
    return (
        Sample("right", "a right notebook", "", "", True, "passed"),
        Sample("matched_whole", pitfall.title, pitfall.find, pitfall.put, False, "failed"),
        Sample("endless_eviction", "evict() loops", once, forever, False, "timed out"),
    )


def text_of(sample: Sample, finished: Mapping[str, Any]) -> str:
    """A sample as the text of a notebook file.

    Args:
        sample: which one.
        finished: the notebook with its solutions in place.

    Raises:
        ValueError: the text that the edit replaces is not there exactly once.
    """
    from notebooks import build

    cells = [dict(cell, source=MARKER.sub("", cell["source"])) for cell in finished["cells"]]
    places = [cell for cell in cells if cell["cell_type"] == "code" and sample.find in cell["source"]]
    if sample.find:
        if len(places) != 1 or places[0]["source"].count(sample.find) != 1:
            raise ValueError(f"sample {sample.name}: the text it replaces is not there exactly once")
        places[0]["source"] = places[0]["source"].replace(sample.find, sample.put)
    return build.as_text({**finished, "cells": cells})


def main() -> None:
    """Write the three notebooks and the class."""
    from notebooks import build

    finished = build.build(MODULE.name)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for sample in samples():
        sample.path.write_text(text_of(sample, finished), encoding="utf-8")
        print(f"{sample.path.name}: {sample.what}")
    print(f"{class_samples.FOLDER.name}/: {class_samples.write()} files of {len(class_samples.students())} students")


if __name__ == "__main__":
    main()

"""What the commands of `ol bench` share: a model on a device, whose classes are measured, and where results go.

It knows options, and how to give up with a sentence. What is measured, and how, it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder.terminal import console, give_up, print_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from course.engine.models import LoadedModel


class Device(StrEnum):
    """Where the model runs; auto takes a GPU if there is one."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    MPS = "mps"


class Publish(StrEnum):
    """When a request's blocks can be found by others."""

    RELEASE = "release"
    PREFILL = "prefill"


Submission = Annotated[
    Path | None,
    typer.Argument(metavar="SUBMISSION", help="A notebook or a Python file. Without it, the reference."),
]
Model = Annotated[str, typer.Option(metavar="NAME", help="byte, smollm2, or a folder with a checkpoint.")]
OnDevice = Annotated[Device, typer.Option(help="Where the model runs.")]
Threads = Annotated[
    int, typer.Option(metavar="N", min=1, help="Threads on a CPU; one is hardly disturbed by what else runs.")
]
When = Annotated[Publish, typer.Option(help="When blocks can be found by others.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Equal seeds give equal chats.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Where charts and numbers go.")]

Draw = Callable[[Path], Path]
"""Writes a chart into this file."""


# ---------------------------------------------------------------- what is measured


def model_on(name: str, device: Device, tell: Any, on_gpu: str = "") -> LoadedModel:
    """The model, in the type that suits the device; gives up where it can't be had.

    Args:
        name: as for `load_model`.
        device: where it is to run.
        tell: hears how far loading is.
        on_gpu: what takes the place of the byte model on anything but a CPU.
    """
    from course.engine.models import ModelUnavailable, ModelUnsupported, load_model, pick_device

    try:
        where = pick_device(device.value)
        if where.type == "cpu":
            return load_model(name, where, "float32", tell)
        return load_model(on_gpu if on_gpu and name == "byte" else name, where, "bfloat16", tell)
    except (ModelUnavailable, ModelUnsupported, ValueError) as problem:
        give_up(str(problem))


def told_where(loaded: LoadedModel, threads: int) -> str:
    """The model and where it runs, in words."""
    kind = str(loaded.model.dtype).removeprefix("torch.")
    on_cpu = loaded.model.device.type == "cpu"
    return f"{loaded.name} model in {kind} on {loaded.model.device}" + _threads(threads) * on_cpu


def _threads(n: int) -> str:
    return f", {n} thread{'s' * (n != 1)}"


@contextmanager
def classes_of(
    path: Path | None,
    otherwise: Callable[[], Mapping[str, Any]] | None = None,
    passes: tuple[type[Exception], ...] = (),
    publish: Publish = Publish.RELEASE,
) -> Iterator[Mapping[str, Any]]:
    """The classes of a submission; gives up where they can't be measured.

    Args:
        path: the submission; None for none.
        otherwise: gives the classes where there is none; by default the lab's.
        passes: errors of whoever measures, that are none of the submission's.
        publish: what its manager will be asked for; release is what every manager does.
    """
    from autograder.benchmarks.serving import MODULE, lab_names
    from autograder.benchmarks.submitted import SubmissionFailed, submission
    from course.lab import takes_option

    if path is None:
        yield (otherwise or lab_names)()
        return
    try:
        with submission(path, MODULE, (typer.Exit, *passes)) as names:
            if publish is not Publish.RELEASE and not takes_option(names["BlockManager"], "publish"):
                give_up(f"{path.name} can't be measured. Its BlockManager takes no option publish.")
            yield names
    except SubmissionFailed as problem:
        give_up(f"{path.name} can't be measured. {problem}")


# ---------------------------------------------------------------- what comes of it


def write(out: Path, name: str, data: Mapping[str, Any], charts: Mapping[str, Draw]) -> list[Path]:
    """Write the numbers as JSON, and the charts; the files. Gives up where they can't be written.

    Args:
        out: a folder, made if need be.
        name: what the files are called, without an ending.
        data: the numbers.
        charts: by what comes after the name in the file's ("" for nothing), who draws it.
    """
    numbers = out / f"{name}.json"
    try:
        out.mkdir(parents=True, exist_ok=True)
        numbers.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
        drawn = [draw(out / f"{name}{f'_{ending}' if ending else ''}.png") for ending, draw in charts.items()]
    except OSError as problem:
        give_up(f"can't write {problem.filename or out}: {problem.strerror}")
    return [*drawn, numbers]


def show(data: Mapping[str, Any], as_json: bool, view: RenderableType, texts: list[str], files: list[Path]) -> None:
    """Print what was measured: as JSON for programs, else the table, what the charts say, and which files there are."""
    if as_json:
        print_json(data)
        return
    shown = console()
    shown.print(view)
    written = ", ".join([str(files[0]), *(file.name for file in files[1:])])
    shown.print("\n" + "\n\n".join([*texts, f"Written: {written}"]), markup=False)

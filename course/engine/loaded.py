"""What every loader gives back, and how it says that it can't.

A loaded model is a model with its tokenizer and the words around a chat. Which loaders there are is not known here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from course.engine.model import Llama
from course.engine.tokenizer import Tokenizer
from course.progress import Tell

Messages = Sequence[Mapping[str, str]]
"""A conversation: each message has a `role` (system, user or assistant) and its `content`."""

Report = Tell
"""Told of progress: what is being done, how much of it is done, how much there is (bytes or tensors)."""

CACHE_VARIABLE = "KV_COURSE_CACHE"


class ModelUnavailable(Exception):
    """A model that can't be had here now, with the reason and what would help; the byte model always can."""


class ModelUnsupported(ValueError):
    """A checkpoint that asks for something this engine does not do, or that is not complete; names file and key."""


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to run.

    Attributes:
        model: the network.
        tokenizer: text to ids and back.
        name: what it is called in tables.
        chat: makes the prompt text of a conversation, up to where the answer begins.
    """

    model: Llama
    tokenizer: Tokenizer
    name: str
    chat: Callable[[Messages], str]


def cache_folder() -> Path:
    """Where fetched and converted models are kept: what KV_COURSE_CACHE says, else ~/.cache/kv-cache-course."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named).expanduser() if named else Path.home() / ".cache" / "kv-cache-course"

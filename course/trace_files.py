"""Trace files: recorded traffic in the public Mooncake format, read line by line.

A trace is a file of JSON lines, one request a line: `timestamp` in milliseconds, `input_length` and `output_length`
in tokens, and `hash_ids`, one id for each block of 512 tokens of the prompt, the last one perhaps in part. Two prompts
that begin alike begin with the same ids (Qin et al., Mooncake, FAST '25). Others have published traces in this format
with blocks of another size, so the number of ids is not held against the number of tokens.

It knows the format, and says of each line that does not keep to it why. What requests are for it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from course.tokens import TOKEN_LIMIT

BLOCK_TOKENS = 512
"""Tokens of a prompt that one id of a Mooncake trace stands for."""

BLOCK_SIZES = tuple(2**power for power in range(13))
"""Sizes of a block that others may have published: 1 to 4,096 tokens."""

LONGEST_LINE = 4 * 2**20
"""Bytes of a line, at which it is no longer read: so memory is bounded, whatever file it is. A prompt of 300 million
tokens would still fit."""

MOST_TOLD = 1_000
"""So many bad lines are told one by one; those after them are only counted."""


class TraceError(Exception):
    """A file that is no trace, or with a line that is none where none is allowed; the message names both."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One recorded request: when it came, in milliseconds, its lengths in tokens, and an id for each block."""

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]


@dataclass(frozen=True)
class BadLine:
    """A line that is no valid record: its number, from 1, and what is wrong with it."""

    line: int
    why: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.why}"


@dataclass(frozen=True)
class Trace:
    """The valid records of a file in its order, and the lines that are none.

    `bad_lines` are the first MOST_TOLD of them; `n_bad` counts all.
    """

    requests: tuple[TraceRequest, ...]
    bad_lines: tuple[BadLine, ...] = ()
    n_bad: int = 0

    @property
    def n_blocks(self) -> int:
        """Blocks of all prompts together."""
        return sum(len(request.hash_ids) for request in self.requests)

    @property
    def block_tokens(self) -> int:
        """Tokens that an id stands for: the size that fits most prompts' tokens and ids, 512 if that one does."""
        sizes: tuple[int, ...] = (BLOCK_TOKENS, *BLOCK_SIZES)
        return max(sizes, key=self._fitting)

    def _fitting(self, size: int) -> int:
        """How many prompts have as many ids as they have blocks of this size."""
        return sum(-(-each.input_length // size) == len(each.hash_ids) for each in self.requests)


def read_trace(path: Path, strict: bool = False) -> Trace:
    """Read a trace, line by line. Lines that are no valid record are left out and told.

    Args:
        path: a file in the public format. Blank lines at its end are no mistake.
        strict: the first line that is no valid record is an error.

    Raises:
        TraceError: no valid record in the file, or `strict` and a line that is none.
        OSError: the file can't be read.
    """
    requests, bad, n_bad = [], [], 0
    with path.open("rb") as file:
        for line, read in _records(file):
            if isinstance(read, TraceRequest):
                requests.append(read)
                continue
            if strict:
                raise TraceError(f"{path}, {BadLine(line, read)}")
            n_bad += 1
            if n_bad <= MOST_TOLD:
                bad.append(BadLine(line, read))
    if not requests:
        raise TraceError(f"{path} has no valid record; {bad[0] if bad else 'it is empty'}")
    return Trace(tuple(requests), tuple(bad), n_bad)


def _records(file: BinaryIO) -> Iterator[tuple[int, TraceRequest | str]]:
    """Each line's number, and its request or why it is none; nothing for blank lines at the end."""
    blank: int | None = None
    for number, line in enumerate(_lines(file), 1):
        if not line.strip():
            blank = blank or number
            continue
        for skipped in range(blank or number, number):
            yield skipped, "the line is blank"
        blank = None
        try:
            yield number, _request(line)
        except _NoRecord as problem:
            yield number, str(problem)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Each line, cut off where it is longer than any record can be."""
    while line := file.readline(LONGEST_LINE):
        rest = line
        while len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
            rest = file.readline(LONGEST_LINE)
        yield line


class _NoRecord(Exception):
    """The message says why a line is no valid record."""


def _request(line: bytes) -> TraceRequest:
    record = _object(line)
    n_input, n_output = (_amount(record, key) for key in ("input_length", "output_length"))
    return TraceRequest(_time(record), n_input, n_output, tuple(_ids(record)))


def _object(line: bytes) -> Mapping[str, Any]:
    if len(line) >= LONGEST_LINE:
        raise _NoRecord(f"{LONGEST_LINE} bytes long, or longer")
    try:
        record = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as problem:
        raise _NoRecord(f"not UTF-8 at byte {problem.start + 1}") from None
    except json.JSONDecodeError as problem:
        raise _NoRecord(f"not JSON: {problem.msg}, at column {problem.colno}") from None
    except (ValueError, RecursionError) as problem:  # a number of thousands of digits; brackets in brackets
        raise _NoRecord(f"not JSON that can be read: {problem}") from None
    if not isinstance(record, dict):
        raise _NoRecord("not an object with the keys of a request")
    return record


def _amount(record: Mapping[str, Any], key: str) -> int:
    value = _present(record, key)
    if type(value) is not int:
        raise _NoRecord(f"{key} is {_shown(value)}, not a whole number")
    if value < 0:
        raise _NoRecord(f"{key} is {_shown(value)}, below 0")
    return value


def _time(record: Mapping[str, Any]) -> float:
    value = _present(record, "timestamp")
    if type(value) not in (int, float) or not 0 <= value < 2**63:
        raise _NoRecord(f"timestamp is {_shown(value)}, not a number of 0 or more")
    return float(value)


def _ids(record: Mapping[str, Any]) -> list[int]:
    ids = _present(record, "hash_ids")
    if not isinstance(ids, list):
        raise _NoRecord(f"hash_ids is {_shown(ids)}, not a list")
    if not ids:
        raise _NoRecord("hash_ids is empty")
    for place, value in enumerate(ids):
        if type(value) is not int or not 0 <= value < TOKEN_LIMIT:
            raise _NoRecord(f"hash_ids has {_shown(value)} at place {place}, not a whole number from 0 to 2**32 - 1")
    return ids


def _present(record: Mapping[str, Any], key: str) -> Any:
    if key not in record:
        raise _NoRecord(f"{key} is missing")
    return record[key]


def _shown(value: object, longest: int = 40) -> str:
    text = json.dumps(value)
    return text if len(text) <= longest else f"{text[:longest]}…"

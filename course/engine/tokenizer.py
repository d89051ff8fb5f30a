"""Text to token ids and back: bytes for the byte model, a checkpoint's own vocabulary for the others; chat templates.

It knows the files that checkpoints carry for this. It knows nothing of models.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, Protocol


class Tokenizer(Protocol):
    """Text to token ids and back."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """The ids that end an answer."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text. Special tokens written out in it become themselves; none is added."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens left out; bytes that are no UTF-8 become replacement characters."""


# ---------------------------------------------------------------- bytes

N_BYTES = 256
SPECIALS = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>")


class ByteTokenizer:
    """One id a byte of UTF-8; after the 256 bytes come four special tokens."""

    n_ids = N_BYTES + len(SPECIALS)

    @property
    def stop_ids(self) -> frozenset[int]:
        """The end of a message."""
        return frozenset({N_BYTES})

    def encode(self, text: str) -> list[int]:
        """The ids of a text; a special token written out in it becomes one id."""
        ids: list[int] = []
        rest = text
        while rest:
            before, special, rest = _split_at_special(rest)
            ids += before.encode()
            if special:
                ids.append(N_BYTES + SPECIALS.index(special))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens left out."""
        return bytes(i for i in ids if i < N_BYTES).decode(errors="replace")


def _split_at_special(text: str) -> tuple[str, str, str]:
    """The text before the first special token, that token, and the text after it."""
    places = [(place, special) for special in SPECIALS if (place := text.find(special)) >= 0]
    if not places:
        return text, "", ""
    place, special = min(places)
    return text[:place], special, text[place + len(special) :]


def byte_chat(messages: Sequence[Mapping[str, str]]) -> str:
    """A conversation for the byte model: role, content, end, for each message."""
    said = (f"<|{message['role']}|>{message['content']}<|end|>" for message in messages)
    return "".join(said) + "<|assistant|>"


# ---------------------------------------------------------------- a checkpoint's own


class FileTokenizer:
    """The tokenizer of a checkpoint, from its tokenizer.json.

    Args:
        path: the file.
        stop: the ids, or the texts of the special tokens, that end an answer.
    """

    def __init__(self, path: Path, stop: Sequence[int | str] = ()) -> None:
        import tokenizers

        self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        ids = (self._tokenizer.token_to_id(end) if isinstance(end, str) else end for end in stop)
        self._stop_ids = frozenset(i for i in ids if i is not None)

    @property
    def stop_ids(self) -> frozenset[int]:
        """The ids that end an answer."""
        return self._stop_ids

    def encode(self, text: str) -> list[int]:
        """The ids of a text; a start token, where the model wants one, comes from its chat template."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens left out."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))


def write_bpe_tokenizer(
    path: Path, tokens: Sequence[str], merges: Sequence[str], specials: Sequence[str], split_digits: bool
) -> None:
    """Write the tokenizer.json of a byte-level BPE vocabulary.

    Args:
        path: the file to write.
        tokens: the vocabulary, in the order of the ids.
        merges: the pairs to merge, first come first, the two parts with a space between.
        specials: the tokens that are never split or merged.
        split_digits: whether each digit is a piece of its own.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs))
    bytes_first = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, bytes_first]) if split_digits else bytes_first
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(special, special=True, normalized=False) for special in specials])
    tokenizer.save(str(path))


# ---------------------------------------------------------------- chat templates


def chat_of(template: str, variables: Mapping[str, str]) -> Callable[[Sequence[Mapping[str, str]]], str]:
    """The function that renders a checkpoint's chat template, in a sandbox: the file may be anybody's.

    Args:
        template: the Jinja text.
        variables: names that the template may use besides `messages`, such as `bos_token`.

    Raises (the function): ValueError where the template refuses the conversation.
    """
    from jinja2.exceptions import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    environment.globals |= {"raise_exception": _refuse, "strftime_now": datetime.now().strftime}
    compiled = environment.from_string(template)

    def chat(messages: Sequence[Mapping[str, str]]) -> str:
        plain: list[dict[str, Any]] = [dict(message) for message in messages]
        try:
            return compiled.render(messages=plain, add_generation_prompt=True, **variables)
        except TemplateError as error:
            raise ValueError(f"the model's chat template refuses this conversation: {error}") from error

    return chat


def _refuse(reason: str) -> NoReturn:
    from jinja2.exceptions import TemplateError

    raise TemplateError(reason)


def plain_chat(messages: Sequence[Mapping[str, str]]) -> str:
    """A conversation for a model that has no template."""
    return "".join(f"{message['role']}: {message['content']}\n" for message in messages) + "assistant:"

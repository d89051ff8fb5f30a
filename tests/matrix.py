"""What the tests of the named tests share: running one on an implementation, and stubs of every module."""

from __future__ import annotations

from collections.abc import Callable

from autograder.catalogue import NamedTest
from autograder.subject import Subject
from course import contract, modules


def passes(test: NamedTest, subject: Subject) -> str:
    """Nothing if the test passes on the subject, else why it fails."""
    try:
        test.run(subject)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def stub(module: modules.Module, below: dict[str, object]) -> Subject:
    """A module whose every call raises NotImplementedError, as a student finds it."""

    def unwritten(*args: object, **kwargs: object) -> object:
        raise NotImplementedError("not written yet")

    names: dict[str, object] = dict(below)
    for export in module.exports:
        protocol = getattr(contract, export, None)
        names[export] = unwritten if protocol is None else _stub_class(export, protocol, unwritten)
    return Subject(module, names, "stub")


def _stub_class(name: str, protocol: type, unwritten: Callable[..., object]) -> type:
    members: dict[str, object] = {"__init__": lambda self, *args, **kwargs: None, "ROOT": contract.ROOT}
    for base in protocol.__mro__:
        for member, value in vars(base).items():
            if not member.startswith("_") and member != "ROOT":
                members[member] = property(unwritten) if isinstance(value, property) else unwritten
    return type(name, (), members)

"""Results of a class for tests, made without rooms, and a page read back: what is on it, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from autograder import implementations
from autograder.budget import Budget
from autograder.catalogue import catalogue
from autograder.classroom.pages import write
from autograder.classroom.pages.naming import page_name
from autograder.classroom.rows import OWN_TESTS, Class, Result, State
from autograder.diagnosis import diagnose
from autograder.grading import Report
from autograder.planted import planted_bugs
from autograder.report import as_data
from autograder.running import Status, Verdict, run_named
from autograder.sandbox import ISOLATED
from autograder.scoring import OwnScore
from course.modules import MODULES, Module, find

TREE, CACHE, MANAGER = find("ds.07"), find("L8.4"), find("L10.4")
FIRST = catalogue(CACHE)[0].name
SERIES: dict[str, Any] = {
    "ttft_ms": {"none": [96.0, 95.0, 97.0], "hash": [96.0, 31.0, 33.0], "radix": [95.0, 40.0, 42.0]},
    "hit_tokens": {"hash": [0, 224, 224], "radix": [0, 224, 224]},
    "query_tokens": {"hash": [336, 336, 336], "radix": [336, 336, 336]},
}


# ---------------------------------------------------------------- results to show


@cache
def verdicts(module: Module, bug_id: str) -> tuple[Verdict, ...]:
    bug = next(bug for bug in planted_bugs(module) if bug.id == bug_id)
    subject = implementations.buggy(module, bug)
    return tuple(run_named(test, subject) for test in catalogue(module))


def passed(module: Module) -> tuple[Verdict, ...]:
    return tuple(Verdict(test.name, Status.PASSED) for test in catalogue(module))


def ended(module: Module, status: Status, message: str) -> tuple[Verdict, ...]:
    return tuple(Verdict(test.name, status, message) for test in catalogue(module))


def all_caught(module: Module) -> OwnScore:
    return OwnScore(True, caught=tuple(bug.id for bug in planted_bugs(module)))


def some_missed(module: Module) -> OwnScore:
    first, *others = planted_bugs(module)
    return OwnScore(True, "", tuple(bug.id for bug in others), (first.title,), (first.title,) * first.required)


def result(
    student: str,
    module: Module,
    found: Sequence[Verdict] = (),
    own: OwnScore | None = None,
    budget: Budget | None = None,
    remarks: tuple[str, ...] = (),
    isolation: str = ISOLATED,
    **more: Any,
) -> Result:
    found = found or passed(module)
    name = f"{module.name}.ipynb"
    report = Report(module, name, tuple(found), own or all_caught(module), "", isolation, remarks, 0.5, budget)
    data = as_data(replace(report, diagnosis=diagnose(module, found)))
    worth = {each.test: 80 / len(found) for each in found} | {OWN_TESTS: 20.0}
    got = {each.test: worth[each.test] * each.passed for each in found} | {OWN_TESTS: 20.0}
    fields = {"submission": f"{student}/{name}", "state": State.GRADED, "points": got, "worth": worth, "report": data}
    return Result(student, module.id, **{**fields, **more})


def absent(student: str, module: Module, state: State, *notes: str) -> Result:
    worth = {test.name: 80 / len(catalogue(module)) for test in catalogue(module)} | {OWN_TESTS: 20.0}
    return Result(student, module.id, "", state, notes, dict.fromkeys(worth, 0.0), worth)


def class_of(*results: Result, name: str = "a class") -> Class:
    modules = tuple(module.id for module in MODULES if any(each.module == module.id for each in results))
    return Class(name, modules, results)


def class_page(folder: Path, *results: Result, name: str = "a class") -> str:
    write(class_of(*results, name=name), folder)
    return (folder / "class.html").read_text(encoding="utf-8")


def student_page(folder: Path, *results: Result) -> str:
    write(class_of(*results), folder)
    return (folder / "students" / page_name(results[0].student)).read_text(encoding="utf-8")


# ---------------------------------------------------------------- reading a page

VOID = {"meta", "link", "br", "wbr"}
INLINE = {"a", "b", "bdi", "code", "i", "span", "wbr"}


class Read(HTMLParser):
    """A page's tags with their attributes, its text, and what is wrong with it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.words += [" "] * (tag not in INLINE)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def sound(page: str) -> Read:
    """A page, after a look at what every page must be: closed tags, nothing active, nothing from elsewhere, words."""
    read = Read(page)
    assert read.open == []
    names = {tag for tag, _ in read.tags}
    assert not names & {"script", "img", "iframe", "object", "form", "base"}
    every = [(key, value or "") for _, attrs in read.tags for key, value in attrs.items()]
    assert not [key for key, _ in every if key.startswith("on") or key in ("src", "srcset", "action")]
    links = [value for key, value in every if key == "href"]
    assert all(link.startswith(("#", "students/", "data:")) for link in links)
    assert "url(" not in page and "@import" not in page
    assert all(th.get("scope") in ("col", "row") for th in read.all("th"))
    assert all(svg.get("role") == "img" and "aria-label" in svg for svg in read.all("svg"))
    ids = [value for key, value in every if key == "id"]
    assert len(ids) == len(set(ids)) and {link[1:] for link in links if link.startswith("#")} <= set(ids)
    replayed = page.count('<div class="scroll replay"')
    assert len(read.all("caption")) == len(read.all("table")) - replayed
    return read

"""JupyterLab in a real browser, for the tests: a server of its own, Chromium, and what a student does in a notebook.

Cells are named as nbgrader names them, by grade_id, or by a piece of their source. Whatever is started ends with its
`with` block: the server, its kernels and the browser.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, FrameLocator, Locator, Page, expect, sync_playwright

from notebooks import build
from tests.class_at_hand import alive, descendants

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = shutil.which("chromium")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking")

STARTS_S, ENDS_S = 60.0, 20.0
"""So long a server may take to answer, and to end."""

LOADS_MS, CELL_MS = 60_000, 60_000
"""So long JupyterLab may take to show a notebook, and a cell to run."""


# ---------------------------------------------------------------- the server


@contextlib.contextmanager
def jupyterlab(folder: Path, private: Path) -> Iterator[str]:
    """A JupyterLab on a folder, with its settings and logs in `private`; its address."""
    port = _free_port()
    options = [f"--port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=", "--allow-root"]
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", f"--ServerApp.root_dir={folder}", *options]
    private.mkdir(parents=True, exist_ok=True)
    _no_news(private / "config")
    with (private / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=_environment(private), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for(server, address, private / "server.log")
            yield address
        finally:
            _end(server)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _environment(private: Path) -> dict[str, str]:
    """This process's environment, with Jupyter's folders kept apart from the user's own."""
    apart = {f"JUPYTER_{what}_DIR": str(private / what.lower()) for what in ("CONFIG", "DATA", "RUNTIME")}
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
    ours = {"IPYTHONDIR": str(private / "ipython"), "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return {**os.environ, **apart, **ours}


def _no_news(config: Path) -> None:
    """Settings that keep JupyterLab from asking whether it may fetch news."""
    settings = config / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')


def _wait_for(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    ends = time.monotonic() + STARTS_S
    while time.monotonic() < ends and server.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/api/status", timeout=5):
            return
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab does not answer. Its log:\n{log.read_text(errors='replace')[-4000:]}")


def _end(server: subprocess.Popen[bytes]) -> None:
    """End a server and its kernels; what does not go when asked is killed."""
    family = descendants(server.pid)
    server.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(ENDS_S)
    for pid, _ in alive(family):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server.wait(ENDS_S)


# ---------------------------------------------------------------- the browser


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def tab(browser: Browser, width: int = 1280, height: int = 1000) -> Iterator[Page]:
    """A page that shares nothing with any other, and may read and write the clipboard."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, permissions=["clipboard-read", "clipboard-write"]
    )
    context.set_default_timeout(LOADS_MS)
    try:
        yield context.new_page()
    finally:
        context.close()


# ---------------------------------------------------------------- a notebook


@dataclass(frozen=True)
class Open:
    """A notebook as it stands open in JupyterLab, and the cells of its file."""

    page: Page
    cells: tuple[dict[str, Any], ...]

    def place(self, what: str) -> int:
        """Where the cell of this grade_id stands, or else the first code cell with this text."""
        return next(n for test in (_is_named, _holds) for n, cell in enumerate(self.cells) if test(cell, what))

    def has(self, text: str) -> bool:
        """Whether there is a code cell with this text."""
        return any(_holds(cell, text) for cell in self.cells)

    def code_before(self, what: str) -> list[int]:
        """The places of the code cells above a cell."""
        return [n for n in range(self.place(what)) if self.cells[n]["cell_type"] == "code"]

    def checks(self) -> list[str]:
        """The grade_ids of all checks, of steps and with points, from top to bottom."""
        named = (cell["metadata"].get("nbgrader", {}).get("grade_id", "") for cell in self.cells)
        return [grade_id for grade_id in named if grade_id.startswith(("look_", "check_"))]

    def output(self, what: str) -> Locator:
        """What stands below a cell."""
        return self._at(self.place(what)).locator(".jp-OutputArea-output")

    def run(self, what: str) -> Locator:
        """Click a cell, press Shift+Enter, wait for its end; its output."""
        return self.run_at(self.place(what))

    def run_at(self, place: int) -> Locator:
        """The same for the cell at a place."""
        prompt = self._at(place).locator(".jp-InputPrompt")
        before = (prompt.text_content() or "").strip()  # inner_text is empty for a cell out of view
        self._edit(place)
        self.page.keyboard.press("Shift+Enter")
        ended = re.compile(rf"^\s*(?!{re.escape(before)})\[\d+\]:")
        expect(prompt).to_have_text(ended, timeout=CELL_MS)
        return self._at(place).locator(".jp-OutputArea-output")

    def paste(self, what: str, source: str) -> None:
        """Put text in the place of a cell's text, through the clipboard."""
        editor = self._edit(self.place(what))
        self.page.evaluate("text => navigator.clipboard.writeText(text)", source)
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.press("ControlOrMeta+v")
        expect(editor.locator(".cm-line")).to_have_text(source.split("\n"))

    def shoot(self, what: str, picture: Path) -> None:
        """Take a screenshot of the whole window, scrolled so that a cell's end is in view."""
        self._at(self.place(what)).evaluate("cell => cell.scrollIntoView({block: 'end'})")
        self.page.screenshot(path=picture)

    def validate(self) -> str:
        """Save, press nbgrader's button Validate, wait for its answer, close it; what it says."""
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("ControlOrMeta+s")
        expect(self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")).to_be_visible()
        expect(self.page.locator("#jp-main-dock-panel .lm-TabBar-tab.jp-mod-dirty")).to_have_count(0)
        self.page.get_by_role("button", name="Validate", exact=True).click()
        answer = self.page.locator(".jp-Dialog").filter(has_text="Validation Results")
        answer.wait_for()
        said = answer.inner_text()
        answer.get_by_role("button", name="Ok").click()
        return said

    def _at(self, place: int) -> Locator:
        return self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{place}"]')

    def _edit(self, place: int) -> Locator:
        """Click into a cell, wait until what is typed goes there; its text."""
        text = self._at(place).locator(".cm-content")
        text.click()
        expect(self._at(place)).to_have_class(re.compile("jp-mod-active"))
        expect(text).to_be_focused()
        return text


def _is_named(cell: dict[str, Any], grade_id: str) -> bool:
    return bool(cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)


def _holds(cell: dict[str, Any], text: str) -> bool:
    return cell["cell_type"] == "code" and text in cell["source"]


def open_notebook(page: Page, address: str, path: str, notebook: dict[str, Any]) -> Open:
    """Open a notebook in JupyterLab and wait until its kernel is ready."""
    page.goto(f"{address}/lab/tree/{path}?reset")  # as a new student finds it, no tabs of others
    page.locator(".jp-RenderedMarkdown h1").first.wait_for()
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    return Open(page, tuple(notebook["cells"]))


def hand_out(folder: Path, name: str) -> dict[str, Any]:
    """Put the student's edition of a notebook where a student has it; the notebook."""
    notebook = build.student_notebook(name)
    (folder / name).mkdir(parents=True)
    (folder / name / f"{name}.ipynb").write_text(build.as_text(notebook), encoding="utf-8")
    return notebook


def answers(name: str) -> dict[str, str]:
    """The source of each solution cell as a student would have written it, by grade_id."""
    cells = [cell for cell in build.build(name)["cells"] if cell["metadata"].get("nbgrader", {}).get("solution")]
    return {cell["metadata"]["nbgrader"]["grade_id"]: _unmarked(cell["source"]) for cell in cells}


def _unmarked(source: str) -> str:
    return "\n".join(line for line in source.split("\n") if not re.match(r" *### (BEGIN|END) SOLUTION", line))


# ---------------------------------------------------------------- formgrader


def open_formgrader(page: Page, address: str) -> FrameLocator:
    """Open nbgrader's formgrader from JupyterLab's menu; the frame it shows itself in."""
    page.goto(f"{address}/lab?reset")
    page.get_by_role("menuitem", name="Nbgrader").click()
    page.get_by_role("menuitem", name="Formgrader").click()
    return page.frame_locator("#jp-main-dock-panel iframe")

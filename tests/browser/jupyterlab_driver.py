"""JupyterLab as a learner's browser shows it: a server on a copy of the notebooks, and one of them
open in a page."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Page, Request

__all__ = ["CHROMIUM_FLAGS", "LabServer", "OpenNotebook", "find_chromium", "open_notebook", "serve"]

CHROMIUM_FLAGS = [
    # a container has no user namespaces to build the sandbox from; only our own server is visited
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--disable-background-networking",
    "--disable-component-update",
    # nothing outside this machine can be reached
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]
_CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MAC_CHROME = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
_CONFIG = Path(__file__).parent.parent.parent / ".jupyter"  # what `make lab` starts with
# JupyterLab's own complaints, which say nothing about the course
_LABS_OWN_NOISE = (
    "/lab/api/",
    "/api/contents",
    "/api/ydoc",
    "/static/lab/",
    "/lsp/",
    "The requested file format",
)


def find_chromium():
    """Return the path of a Chromium or Chrome: ``$CHROMIUM``, or one on the PATH; None where there
    is none."""
    named = os.environ.get("CHROMIUM")
    candidates = [named] if named else [shutil.which(name) for name in _CHROMIUMS] + [_MAC_CHROME]
    return next((path for path in candidates if path and Path(path).exists()), None)


@dataclass(frozen=True)
class LabServer:
    """A JupyterLab that serves ``root`` on this machine only, to whoever has its token."""

    url: str
    token: str
    root: Path


@contextmanager
def serve(root, private):
    """Run JupyterLab on ``root``, with settings, workspaces and progress of its own in
    ``private``."""
    of_notebooks = (
        private / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    )
    of_notebooks.parent.mkdir(parents=True)
    # every cell is drawn, also far below the screen
    of_notebooks.write_text(json.dumps({"windowingMode": "none"}))
    port, token = _free_port(), secrets.token_hex(16)
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--LabApp.expose_app_in_browser=True",
    ]
    command += [
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={root}",
    ]
    own = {
        "JUPYTER_CONFIG_DIR": private / "config",
        "JUPYTER_RUNTIME_DIR": private / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": private / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": private / "workspaces",
        "COURSE_PROGRESS_DIR": private / "progress",
    }
    fixed = {"JUPYTER_TOKEN": token, "JUPYTER_CONFIG_PATH": str(_CONFIG)}
    environment = {**os.environ, **fixed, **{name: str(place) for name, place in own.items()}}
    log_file = private / "server.log"
    with log_file.open("w") as log:
        process = subprocess.Popen(command, cwd=root, env=environment, stdout=log, stderr=log)
        try:
            server = LabServer(f"http://127.0.0.1:{port}", token, root)
            _wait_until_up(server, process, log_file)
            yield server
        finally:
            process.terminate()  # JupyterLab shuts its kernels down
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_up(server, process, log, timeout_s=180):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and process.poll() is None:
        with (
            suppress(OSError),
            urllib.request.urlopen(f"{server.url}/api/status?token={server.token}", timeout=2),
        ):
            return
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


@dataclass
class OpenNotebook:
    """One notebook, open in JupyterLab with its kernel ready."""

    page: Page
    name: str
    console_errors: list[str] = field(default_factory=list)
    requests_outside: list[str] = field(default_factory=list)

    def run_all(self, timeout_s=180):
        """Run every cell from top to bottom and wait until the kernel is idle and the page has
        drawn."""
        self._command("notebook:run-all-cells", timeout_s)
        self.wait_until_idle(timeout_s)
        # pictures and widgets are drawn a moment after their messages
        self.page.wait_for_timeout(300)

    def run_cell(self, index, timeout_s=60, command="notebook:run-cell"):
        """Run one cell, counted from 0; the ``command`` of Shift+Enter goes on to the next."""
        self.page.evaluate(f"{_NOTEBOOK}.activeCellIndex = {index}; {_NOTEBOOK}.deselectAll()")
        self._command(command, timeout_s)
        self.wait_until_idle(timeout_s)

    def cells(self):
        """Return the cells as they are now: source, metadata, and for code what came out."""
        return self.page.evaluate(f"{_PANEL}.content.model.sharedModel.toJSON().cells")

    def cell(self, index):
        """Return the element of one cell, counted from 0."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def type_into(self, index, code):
        """Replace a code cell's text in its editor, as a learner does who selects all and
        pastes."""
        editor = self.cell(index).locator(".cm-content").first
        editor.click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(code)
        written = self.cells()[index]["source"]
        assert written == code, f"the editor holds\n{written}\ninstead of\n{code}"

    def text_of_output(self, index):
        """Return what a reader sees below a code cell."""
        return self.cell(index).locator(".jp-OutputArea").first.inner_text()

    def set_theme(self, theme):
        """Change to "light" or "dark"."""
        name, is_light = {
            "light": ("JupyterLab Light", "true"),
            "dark": ("JupyterLab Dark", "false"),
        }[theme]
        self.page.evaluate(
            "theme => jupyterapp.commands.execute('apputils:change-theme', { theme })", name
        )
        self.page.wait_for_function("is => document.body.dataset.jpThemeLight === is", arg=is_light)
        self.page.wait_for_timeout(300)  # the style sheet of the new theme arrives after its name

    def screenshot(self, path, highest=16000):
        """Save a picture of the whole notebook, however long it is."""
        path.parent.mkdir(parents=True, exist_ok=True)
        size = self.page.viewport_size or {"width": 1280, "height": 900}
        bottom = self.page.evaluate(
            f"() => {{ {_NOTEBOOK}.outerNode.scrollTop = 0; {_NOTEBOOK}.node.scrollTop = 0;"
            " return Math.max(...[...document.querySelectorAll('.jp-Notebook .jp-Cell')]"
            ".map(cell => cell.getBoundingClientRect().bottom)); }"
        )
        self.page.set_viewport_size(
            {"width": size["width"], "height": min(int(bottom) + 80, highest)}
        )
        self.page.wait_for_timeout(300)
        self.page.screenshot(path=path)
        self.page.set_viewport_size(size)

    def wait_until_idle(self, timeout_s):
        """Wait until the kernel is connected and has nothing left to do."""
        self.page.wait_for_function(
            f"(() => {{ const kernel = {_PANEL}?.sessionContext?.session?.kernel;"
            " return kernel && kernel.connectionStatus === 'connected' && kernel.status === "
            "'idle'; })()",
            timeout=timeout_s * 1000,
        )

    def close(self):
        """Shut the kernel down and leave the page."""
        with suppress(
            Exception
        ):  # the page may be gone already, and the server ends the kernel in any case
            self.page.evaluate(f"async () => await {_PANEL}.sessionContext.shutdown()")
        self.page.context.close()

    def _command(self, name, timeout_s):
        done = self.page.evaluate(
            "async ([name, ms]) => await Promise.race(["
            " jupyterapp.commands.execute(name).then(() => 'done'),"
            " new Promise(resolve => setTimeout(() => resolve('late'), ms))])",
            [name, timeout_s * 1000],
        )
        assert done == "done", f"{self.name}: {name} did not end within {timeout_s:g} s"


_PANEL = "jupyterapp.shell.currentWidget"
_NOTEBOOK = f"{_PANEL}.content"


def open_notebook(browser, server, path, timeout_s=60):
    """Open ``path`` (from the server's root) in a fresh browser profile and wait until its kernel
    is ready.

    Nothing outside this machine can be reached from the page; what was asked for is kept in
    ``requests_outside``.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    notebook = OpenNotebook(page, path)

    def keep_request(request: Request) -> None:
        if urlsplit(request.url).hostname not in ("127.0.0.1", None):
            notebook.requests_outside.append(request.url)

    def keep_error(message: ConsoleMessage) -> None:
        where = message.location.get("url", "")
        if message.type == "error" and not any(
            noise in message.text + where for noise in _LABS_OWN_NOISE
        ):
            notebook.console_errors.append(f"{message.text} ({where})")

    page.on("request", keep_request)
    page.on("console", keep_error)
    page.on("pageerror", lambda error: notebook.console_errors.append(str(error)))
    page.goto(f"{server.url}/lab/tree/{path}?reset&token={server.token}")
    page.wait_for_function("window.jupyterapp !== undefined", timeout=timeout_s * 1000)
    page.wait_for_function(f"{_PANEL}?.context?.isReady === true", timeout=timeout_s * 1000)
    # an indicator says "idle" before there is a kernel; running then would clear the outputs and
    # run nothing
    page.evaluate(
        f"async () => {{ const session = {_PANEL}.sessionContext; await session.ready;"
        " await session.session.kernel.info; }"
    )
    notebook.wait_until_idle(timeout_s)
    # the file list: room for the notebook
    page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    return notebook

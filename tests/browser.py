"""A page in Chromium, driven over DevTools' pipe: file descriptors 3 and 4, JSON messages that end in a NUL.

So a test can look at a page in light and dark, on a phone or on paper, without a dependency.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: the pages themselves are not looked at")

#: Seconds that an answer may take on a busy machine.
PATIENCE = 60.0
#: File descriptors from here on are none of those that Chromium expects.
ABOVE = 10


class Browser:
    """One Chromium with one tab. ``complaints`` are the script errors and refusals of the page since it was opened,
    ``asked`` the addresses that it asked for."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._number = 0
        self._session: str | None = None
        self._rest = b""
        self.complaints: list[str] = []
        self.asked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(
        self, page: Path | str, *, width: int = 1200, height: int = 900, dark: bool = False, scripts: bool = True
    ) -> None:
        """Open a file, or an address, and wait until it has loaded. ``scripts``: whether its own may run."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url="about:blank")
        self._until("Page.loadEventFired")
        self.complaints, self.asked = [], []
        self.call("Page.navigate", url=page if isinstance(page, str) else page.absolute().as_uri())
        self._until("Page.loadEventFired")

    def run(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is waited for. The page's policy doesn't bind it."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def follow(self, expression: str) -> None:
        """Run an expression that leads to another page, and wait until that has loaded."""
        self.complaints, self.asked = [], []
        self.run(expression)
        self._until("Page.loadEventFired")

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Save what is in view, or the whole page, as a PNG."""
        file.write_bytes(b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]))

    def printed(self) -> bytes:
        """The page on paper (A4), as a PDF."""
        return b64decode(self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=True)["data"])

    def press(self, key: str) -> None:
        for type in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=type, key=key, code=key)

    def call(self, method: str, **parameters: Any) -> Any:
        """Send one command and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _until(self, event: str) -> None:
        while self._next().get("method") != event:
            pass

    def _next(self) -> Mapping[str, Any]:
        """The next message; what a page complains about is kept."""
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            assert select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))[0], "Chromium is silent"
            read = os.read(self._from, 1 << 20)
            assert read, "Chromium has ended"
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        told = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(told["exceptionDetails"]))
            case "Log.entryAdded":
                self.complaints.append(told["entry"]["text"])
            case "Network.requestWillBeSent":
                self.asked.append(told["request"]["url"])
        return message


@contextmanager
def browser() -> Iterator[Browser]:
    """Start Chromium with a profile of its own, and end it."""
    assert CHROMIUM
    (commands, to_browser), (from_browser, answers) = os.pipe(), os.pipe()
    ours = [fcntl.fcntl(end, fcntl.F_DUPFD, ABOVE) for end in (commands, answers)]  # so that neither is 3 or 4 already
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--remote-debugging-pipe", f"--user-data-dir={profile}",
        ]  # fmt: skip
        silence = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
        pipes = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in zip((3, 4), ours, strict=True)]
        environment = {**os.environ, "TMPDIR": profile}  # so that what Chromium leaves goes with its profile
        process = os.posix_spawn(CHROMIUM, command, environment, file_actions=[*silence, *pipes])
        for end in (commands, answers, *ours):
            os.close(end)
        try:
            yield Browser(to_browser, from_browser)
        finally:
            os.kill(process, signal.SIGTERM)
            os.waitpid(process, 0)
            os.close(to_browser)
            os.close(from_browser)

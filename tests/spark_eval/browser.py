"""A headless Chromium, spoken to over its DevTools pipe; the page under test needs no script of its own."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe", "--hide-scrollbars",
)  # fmt: skip
_DEADLINE_S = 300


class Page:
    """One tab of one browser, through file descriptors 3 and 4 of the browser's process."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to_browser, self._from_browser = to_browser, from_browser
        self._received = b""
        self._last_id = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        waiting = json.dumps(message).encode() + b"\0"
        while waiting:
            waiting = waiting[os.write(self._to_browser, waiting) :]
        return self._answer(self._last_id)

    def _answer(self, wanted: int) -> dict[str, Any]:
        while True:
            message = self._next()
            if message.get("id") == wanted:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + _DEADLINE_S
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._from_browser], [], [], max(0, deadline - time.monotonic()))
            assert ready, "the browser says nothing"
            part = os.read(self._from_browser, 1 << 20)
            assert part, "the browser is gone"
            self._received += part
        line, _, self._received = self._received.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def open(self, path: Path, *, width: int, scheme: str = "light", media: str = "screen") -> None:
        """Returns when the page is loaded; what it complained of is in `complaints()`."""
        self.events.clear()
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.send("Emulation.setEmulatedMedia", media=media, features=[feature])
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        self.send("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def evaluate(self, expression: str) -> Any:
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def complaints(self) -> list[Any]:
        """Whatever the console would show, and requests for anything but the page."""
        kinds = (
            "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Network.loadingFailed",
        )  # fmt: skip
        return [event["params"] for event in self.events if event.get("method") in kinds]

    def requests(self) -> list[str]:
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def screenshot(self, *, whole: bool = False) -> bytes:
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])

    def pdf(self) -> bytes:
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])


def _out_of_the_way(descriptor: int) -> int:
    """A copy above 9, so that neither end of a pipe is in the place where the other must go."""
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return copy


def _spawn(profile: Path, reads: int, writes: int) -> int:
    assert CHROMIUM is not None
    with open(os.devnull, "r+b") as nothing:
        silent = [(os.POSIX_SPAWN_DUP2, nothing.fileno(), n) for n in (0, 1, 2)]
        pipes = [(os.POSIX_SPAWN_DUP2, reads, 3), (os.POSIX_SPAWN_DUP2, writes, 4)]
        arguments = [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}"]
        return os.posix_spawn(CHROMIUM, arguments, os.environ, file_actions=[*silent, *pipes], setpgroup=0)


@contextmanager
def browser(profile: Path) -> Generator[Page]:
    """The browser and all its processes are gone afterwards."""
    their_read, our_write = (_out_of_the_way(end) for end in os.pipe())
    our_read, their_write = (_out_of_the_way(end) for end in os.pipe())
    process = _spawn(profile, their_read, their_write)
    os.close(their_read)
    os.close(their_write)
    try:
        yield Page(our_write, our_read)
    finally:
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(our_write)
        os.close(our_read)

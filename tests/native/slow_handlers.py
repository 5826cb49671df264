"""Handlers that wait until they may go on, and threads that read links as those of a process do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from echo_core._c import links
from echo_core._c.links import Link
from tests.native.test_link_frames import frame_bytes

LIMIT_S = 30.0


@dataclass
class Readers:
    """Threads that read links as those of a process do, and what came of each."""

    ended: list[bool] = field(default_factory=list[bool])
    errors: list[BaseException] = field(default_factory=list[BaseException])
    threads: list[threading.Thread] = field(default_factory=list[threading.Thread])

    def read(self, link: Link) -> None:
        self._start(lambda: self._read(link.run))
        self.stand_by()

    def attend(self, *resting: Link) -> None:
        """Those that stand by read them when something comes."""
        for link in resting:
            link.rest(partial(self._read, link.take_over))
        self.stand_by()

    def stand_by(self) -> None:
        if links.wants_standby():
            self._start(self._stand_by)

    def _start(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        self.threads.append(thread)

    def _stand_by(self) -> None:
        while (read := links.stand_by()) is not None:
            self.stand_by()
            self._read(read)
            del read

    def _read(self, read: Callable[[], object]) -> None:
        """What is told of links that rest is told to those who attend to them."""
        try:
            is_over = read()
        except BaseException as error:  # noqa: BLE001 - for the test
            self.errors.append(error)
        else:
            if isinstance(is_over, bool):
                self.ended.append(is_over)

    def join(self) -> None:
        for thread in self.threads:
            thread.join(LIMIT_S)
            assert not thread.is_alive()


@dataclass
class Gate:
    """A handler that waits at some events until it may go on."""

    stops_at: frozenset[bytes] = frozenset()
    handled: list[bytes] = field(default_factory=list[bytes])
    threads: list[int] = field(default_factory=list[int])
    is_there: threading.Event = field(default_factory=threading.Event)
    may_go: threading.Event = field(default_factory=threading.Event)

    def __call__(self, event: bytes) -> None:
        self.handled.append(event)
        self.threads.append(threading.get_ident())
        if event in self.stops_at:
            self.is_there.set()
            assert self.may_go.wait(LIMIT_S)


def gate(*stops_at: bytes) -> Gate:
    return Gate(frozenset(stops_at))


def numbers(count: int, begin: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(begin, count)]


def frames(events: list[bytes]) -> bytes:
    """Of the first stream."""
    return b"".join(frame_bytes(64, event) for event in events)

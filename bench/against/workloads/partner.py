"""The other end of a link: answers, counts or sends, as the first process asks it to.

`python -m bench.against.workloads.partner FD` serves one such process for as long as it lives.
"""

from __future__ import annotations

import collections
import contextlib
import os
import queue
from collections.abc import Generator, Sequence
from typing import Any

from bench.against.children import modules_of, serve
from bench.codec.peer import values
from bench.transport import loops
from bench.transport.endpoint import End, Part, Role
from bench.transport.peers.channels import PEERS
from bench.transport.processes.placement import Placement

_WAIT_S = 100.0


def new_end(name: str, n: int, role: Role) -> End:
    """One of ours, by the name that the suites give it."""
    peer = next(peer for peer in PEERS if peer.name == name)
    return peer.open(role, peer.make(n))


@contextlib.contextmanager
def placed(placement: Placement, index: int) -> Generator[None]:
    """This thread, and those that are started meanwhile, have their core."""
    before = os.sched_getaffinity(0)
    placement.pin(index)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Partner:
    """One end at a time."""

    def __init__(self) -> None:
        self._kept = contextlib.ExitStack()
        self._finished: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        self._latest: collections.deque[Any] = collections.deque(maxlen=1)

    def open(self, name: str, n: int, role: Role, placement: Placement, answers: bool) -> None:
        """Its node is made here, where its threads get their core."""
        self._kept.enter_context(placed(placement, role.index))
        self._end = new_end(name, n, role)
        if not answers:
            self._end.handle = self._latest.append
        elif role.part is Part.PONG:
            self._end.handle = loops.pong_handler(self._end.form)(self._end, self._finished.put)
        else:
            self._end.handle = loops.sink_handler(self._end.form)(self._finished.put)

    def join(self, offers: Sequence[Any]) -> None:
        self._end.join(offers)

    def received(self) -> tuple[int, int]:
        """When the last message of a stream came, and how many came before it."""
        return self._finished.get(timeout=_WAIT_S)

    def send(self, count: int) -> None:
        for _ in range(count):
            self._end.send(self._end.form.message)
        self._end.flush()

    def latest(self) -> tuple[Any, ...]:
        """The values of the particle that came last."""
        return values(self._latest[0])

    def close(self) -> None:
        self._end.close()
        self._kept.close()


def main() -> None:
    partner = Partner()
    serve(
        {
            "modules": lambda: modules_of("echo_core"),
            "open": partner.open,
            "join": partner.join,
            "received": partner.received,
            "send": partner.send,
            "latest": partner.latest,
            "close": partner.close,
        }
    )


if __name__ == "__main__":
    main()

"""ZeroMQ: pairs for round trips, publish/subscribe for one way; over TCP and over its Unix sockets."""

from __future__ import annotations

import contextlib
import functools
import importlib
import tempfile
from collections.abc import Sequence
from typing import Any

from bench.transport.endpoint import End, Part, Peer, Role
from bench.transport.forms import MAKERS, Form

zmq: Any = importlib.import_module("zmq")  # it need not be installed


class ZeroMqEnd(End):
    """Process 0 binds; the others connect. `NODROP` makes a publisher wait for room."""

    def __init__(self, role: Role, form: Form, *, publishes: bool, scheme: str) -> None:
        super().__init__(role, form)
        self._kept = contextlib.ExitStack()
        self._context = zmq.Context()
        self._publishes = publishes
        self._scheme = scheme

    def offer(self) -> Any:
        kind = self._kind()
        self._socket = self._context.socket(kind)
        self._socket.setsockopt(zmq.LINGER, 1000)
        if kind == zmq.XPUB:
            self._socket.setsockopt(zmq.XPUB_NODROP, 1)
            self._socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        if kind == zmq.SUB:
            self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        self.send, self.receive = self._socket.send, self._socket.recv
        if self.role.index:
            return None
        folder = self._kept.enter_context(tempfile.TemporaryDirectory())
        self._socket.bind("tcp://127.0.0.1:*" if self._scheme == "tcp" else f"ipc://{folder}/socket")
        return self._socket.getsockopt(zmq.LAST_ENDPOINT)

    def join(self, offers: Sequence[Any]) -> None:
        if self.role.index:
            self._socket.connect(offers[0].decode())
        elif self._publishes:
            for _ in range(self.role.receivers):
                self._socket.recv()  # a subscription

    def close(self) -> None:
        self._socket.close()
        self._context.term()
        self._kept.close()

    def _kind(self) -> int:
        if not self._publishes:
            kind: int = zmq.PAIR
        else:
            kind = zmq.XPUB if self.role.part is Part.SOURCE else zmq.SUB
        return kind


def _peers(name: str, *, publishes: bool, scheme: str, forms: Sequence[str]) -> list[Peer]:
    opened = functools.partial(ZeroMqEnd, publishes=publishes, scheme=scheme)
    return [Peer(name, form, MAKERS[form], opened) for form in forms]


PEERS = [
    *_peers("zmq-pair", publishes=False, scheme="tcp", forms=("msgspec", "numpy", "pickle")),
    *_peers("zmq-pair-ipc", publishes=False, scheme="ipc", forms=("msgspec", "numpy", "pickle")),
    *_peers("zmq-pubsub", publishes=True, scheme="tcp", forms=("msgspec", "numpy", "pickle")),
]

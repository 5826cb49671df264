"""Eclipse Zenoh, from peer to peer over TCP, without a router."""

from __future__ import annotations

import importlib
import json
import socket
import time
from collections.abc import Sequence
from typing import Any

from bench.transport.endpoint import End, Peer, Role
from bench.transport.forms import MAKERS, Form

zenoh: Any = importlib.import_module("zenoh")  # it need not be installed

_MATCH_S = 8.0
_QUEUED = 256


class ZenohEnd(End):
    """Process 0 listens; a publisher waits where a subscriber is behind."""

    def __init__(self, role: Role, form: Form) -> None:
        super().__init__(role, form)
        self._publisher: Any = None

    def offer(self) -> Any:
        if self.role.index:
            return None
        with socket.socket() as free:  # it takes no port 0
            free.bind(("127.0.0.1", 0))
            where = f"tcp/127.0.0.1:{free.getsockname()[1]}"
        self._session = zenoh.open(_settings(listen=[where], connect=[]))
        return where

    def join(self, offers: Sequence[Any]) -> None:
        if self.role.index:
            self._session = zenoh.open(_settings(listen=[], connect=[offers[0]]))
        if self.role.receives:
            sender = 1 - self.role.index if self.role.sends else 0
            queue = zenoh.handlers.FifoChannel(_QUEUED)
            self._subscriber = self._session.declare_subscriber(f"bench/{sender}", queue)
            take = self._subscriber.recv
            self.receive = lambda: take().payload.to_bytes()
        if self.role.sends:
            blocks = zenoh.CongestionControl.BLOCK
            name = f"bench/{self.role.index}"
            self._publisher = self._session.declare_publisher(
                name, congestion_control=blocks, express=self.role.receives
            )
            self.send = self._publisher.put
            self._await_match()

    def _await_match(self) -> None:
        """It tells of one subscriber; the others' news gets half a second."""
        deadline_s = time.monotonic() + _MATCH_S
        while not self._publisher.matching_status.matching:
            if time.monotonic() > deadline_s:
                msg = "No zenoh subscriber came"
                raise TimeoutError(msg)
            time.sleep(0.01)
        time.sleep(0.5)

    def close(self) -> None:
        self._session.close()


def _settings(*, listen: list[str], connect: list[str]) -> Any:
    settings = zenoh.Config()
    settings.insert_json5("mode", '"peer"')
    settings.insert_json5("listen/endpoints", json.dumps(listen))
    settings.insert_json5("connect/endpoints", json.dumps(connect))
    settings.insert_json5("scouting/multicast/enabled", "false")
    settings.insert_json5("transport/shared_memory/enabled", "false")
    return settings


PEERS = [Peer("zenoh", form, MAKERS[form], ZenohEnd) for form in ("msgspec", "numpy", "pickle")]

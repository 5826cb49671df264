"""Plain stream sockets with a length before each message: what a careful user writes without a library."""

from __future__ import annotations

import contextlib
import functools
import socket
import struct
import tempfile
from collections.abc import Sequence
from typing import Any

from bench.transport.endpoint import End, Part, Peer, Role
from bench.transport.forms import MAKERS, Form

_LENGTH = struct.Struct("<I")
_BUFFER_BYTES = 1 << 20


class SocketEnd(End):
    """Process 0 listens; the others connect."""

    def __init__(self, role: Role, form: Form, family: int) -> None:
        super().__init__(role, form)
        self._family = family
        self._kept = contextlib.ExitStack()
        self._sockets: list[socket.socket] = []
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._first = self._end = 0
        self.send = self._send
        self.receive = self._receive

    def offer(self) -> Any:
        if self.role.index:
            return None
        listening = self._kept.enter_context(socket.socket(self._family))
        folder = self._kept.enter_context(tempfile.TemporaryDirectory())
        listening.bind(f"{folder}/socket" if self._family == socket.AF_UNIX else ("127.0.0.1", 0))
        listening.listen(8)
        self._listening = listening
        return listening.getsockname()

    def join(self, offers: Sequence[Any]) -> None:
        if self.role.part in (Part.PING, Part.SOURCE):
            self._sockets = [self._listening.accept()[0] for _ in range(self.role.receivers)]
        else:
            self._sockets = [socket.socket(self._family)]
            self._sockets[0].connect(offers[0])
        for each in self._sockets:
            self._kept.enter_context(each)
            if self._family == socket.AF_INET:
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._kept.close()

    def _send(self, data: Any) -> None:
        length = _LENGTH.pack(len(data))
        for each in self._sockets:
            sent = each.sendmsg((length, data))
            if sent < len(data) + _LENGTH.size:
                each.sendall(memoryview(length + bytes(data))[sent:])

    def _receive(self) -> bytes:
        while True:
            held = self._end - self._first
            if held >= _LENGTH.size:
                start = self._first + _LENGTH.size
                stop = start + _LENGTH.unpack_from(self._buffer, self._first)[0]
                if stop <= self._end:
                    self._first = stop
                    return bytes(self._view[start:stop])
            self._read(held)

    def _read(self, held: int) -> None:
        """More bytes behind those that are held, which move to the front when the rear gets short."""
        if held == 0:
            self._first = self._end = 0
        elif self._first > _BUFFER_BYTES // 2:
            self._buffer[:held] = self._buffer[self._first : self._end]
            self._first, self._end = 0, held
        got = self._sockets[0].recv_into(self._view[self._end :])
        if not got:
            msg = "The other process closed the connection"
            raise ConnectionError(msg)
        self._end += got


PEERS = [
    Peer(transport, form, MAKERS[form], functools.partial(SocketEnd, family=family))
    for transport, family in (("tcp", socket.AF_INET), ("unix", socket.AF_UNIX))
    for form in ("msgspec", "numpy", "pickle")
]

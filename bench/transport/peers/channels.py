"""Our own channels: handlers ask, answer and count; or a thread asks that waits for each answer."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import echo_core as echo
from bench.transport.endpoint import End, Part, Peer, Role
from bench.transport.forms import MAKERS, Form
from bench.workload import Particle

_WAIT_S = 10.0


class ChannelEnd(End):
    """Process 0 makes the channels, one for each direction. Nothing is dropped: who sends too much waits."""

    def __init__(
        self, role: Role, form: Form, *, transports: tuple[echo.Transport, ...], spin_s: float, waits: bool
    ) -> None:
        super().__init__(role, form)
        self.calls_handlers = role.part is not Part.SOURCE and not (waits and role.part is Part.PING)
        self._is_array = form.name == "array"
        self._class: Any = Particle if self._is_array else type(form.message)
        self._node = echo.Node(transports=transports, spin_s=spin_s)

    def offer(self) -> Any:
        if self.role.index:
            return None
        self._channels = [self._node.create_channel(name, self._class) for name in ("there", "back")]
        return [channel.id for channel in self._channels]

    def join(self, offers: Sequence[Any]) -> None:
        if self.role.index:
            self._channels = [self._node.open_channel(channel_id) for channel_id in offers[0]]
        there, back = self._channels if self.role.part is not Part.PONG else self._channels[::-1]
        if self.role.part is Part.SINK:
            there, back = back, there
        backlog = echo.Backlog(when_full="block")
        if self.role.sends:
            self._source = there.source(self._class, backlog=backlog)
            self.send = self._source.submit_array if self._is_array else self._source.submit
        if self.calls_handlers:
            self._sink = back.sink(self._class, self.handle, batch=self._is_array, backlog=backlog)
        elif self.role.receives:
            self._sink = back.sink(self._class, batch=self._is_array, backlog=backlog)
            self.receive = self._sink.get
        if self.role.sends:
            self._source.wait_matched(self.role.receivers, _WAIT_S)

    def flush(self) -> None:
        self._source.flush(_WAIT_S)

    def close(self) -> None:
        self._node.close()


_TRANSPORTS: dict[str, tuple[tuple[echo.Transport, ...], float]] = {
    "echo-tcp": (("tcp",), 0.0),
    "echo-unix": (("unix",), 0.0),
    "echo-shm": (("shm",), 0.0),
    "echo-shm-spin": (("shm",), 0.001),
}


def _peer(name: str, form: str, *, waits: bool) -> Peer:
    transports, spin_s = _TRANSPORTS[name]
    make_end = functools.partial(ChannelEnd, transports=transports, spin_s=spin_s, waits=waits)
    return Peer(f"{name}-waiting" if waits else name, form, MAKERS[form], make_end)


PEERS = [
    _peer(name, form, waits=waits)
    for waits in (False, True)
    for name in _TRANSPORTS
    for form in ("dataclass", "record", "array", "batch")
]

"""The doorkeeper: what it does for each word, and what from time to time."""

from __future__ import annotations

import secrets
import socket
import time

import pytest

from echo_core.transports.handshake.exchange import Responder
from echo_core.transports.wires import doorkeeper, sockets
from echo_core.transports.wires.connecting import Connection
from echo_core.transports.wires.doorkeeper import Doorkeeper, TurnedAway
from tests.echo_core.census import until
from tests.echo_core.hostile_peer import identity


class Hall:
    """A node that counts what happens at its door."""

    def __init__(self) -> None:
        self.ticks = 0
        self.turned_away: list[str] = []
        self.door = Doorkeeper("test", self._responder, None, stall_s=30.0)

    def _responder(self) -> Responder:
        return Responder(identity(), lambda _: secrets.token_bytes(16), admit=lambda _, __: None)

    def attend(self) -> None:
        for happening in self.door.happenings():
            assert not isinstance(happening, Connection)
            if isinstance(happening, TurnedAway):
                self.turned_away.append(str(happening.error))
            else:
                self.ticks += 1


def test_time_passes_no_faster_for_those_who_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick wakes every reader of the node: strangers must not be able to ask for it."""
    monkeypatch.setattr(doorkeeper, "_TICK_S", 0.05)
    hall = Hall()
    listener = sockets.listen(sockets.new_unix_address())
    began = time.monotonic()
    hall.door.start([listener], hall.attend)
    for _ in range(200):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(listener.getsockname())
            stranger.sendall(b"E")
    until(lambda: len(hall.turned_away) == 200)
    until(lambda: hall.ticks >= 3)
    hall.door.close()
    assert hall.ticks <= (time.monotonic() - began) / 0.05 + 1


@pytest.mark.parametrize("trouble", [ValueError("trouble"), SystemExit("trouble"), GeneratorExit("trouble")])
def test_a_duty_that_fails_leaves_the_door_open(
    trouble: BaseException, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Strangers are heard as before, and its thread closes what it has to."""
    monkeypatch.setattr(doorkeeper, "_TICK_S", 0.05)
    ticks = 0

    def fail(_: Doorkeeper) -> None:
        nonlocal ticks
        ticks += 1
        raise trouble

    monkeypatch.setattr(Doorkeeper, "_listen_again", fail)
    hall = Hall()
    listener = sockets.listen(sockets.new_unix_address())
    hall.door.start([listener], hall.attend)
    until(lambda: ticks >= 2)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(listener.getsockname())
        stranger.sendall(b"E")
    until(lambda: len(hall.turned_away) == 1)
    hall.door.close()
    assert listener.fileno() == -1
    assert "the door of `test`" in caplog.text
    assert "trouble" in caplog.text

"""The doorkeeper: what it does for each word, and what from time to time."""

from __future__ import annotations

import secrets
import socket
import time

import pytest

from echo_core.transports.handshake.exchange import Responder
from echo_core.transports.handshake.words import Identity
from echo_core.transports.wires import doorkeeper, sockets
from echo_core.transports.wires.connecting import Connection, Memory
from echo_core.transports.wires.doorkeeper import Doorkeeper
from tests.echo_core.census import until
from tests.echo_core.hostile_peer import identity


class House:
    """One that counts."""

    def __init__(self) -> None:
        self.identity: Identity = identity()
        self.memory: Memory | None = None
        self.ticks = 0
        self.turned_away: list[str] = []

    def responder(self) -> Responder:
        return Responder(self.identity, lambda _: secrets.token_bytes(16), admit=lambda _: None)

    def welcome(self, connection: Connection) -> None:
        raise AssertionError(connection)

    def turn_away(self, who: str, error: Exception, admitted: bytes | None = None) -> None:
        self.turned_away.append(str(error))

    def tick(self) -> None:
        self.ticks += 1


class TroubledHouse(House):
    """Whose tick fails."""

    def __init__(self, trouble: BaseException) -> None:
        super().__init__()
        self._trouble = trouble

    def tick(self) -> None:
        super().tick()
        raise self._trouble


def test_time_passes_no_faster_for_those_who_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick wakes every reader of the node: strangers must not be able to ask for it."""
    monkeypatch.setattr(doorkeeper, "_TICK_S", 0.05)
    house = House()
    listener = sockets.listen(sockets.new_unix_address())
    door = Doorkeeper(house, "test")
    began = time.monotonic()
    door.start([listener])
    for _ in range(200):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(listener.getsockname())
            stranger.sendall(b"E")
    until(lambda: len(house.turned_away) == 200)
    until(lambda: house.ticks >= 3)
    door.close()
    assert house.ticks <= (time.monotonic() - began) / 0.05 + 1


@pytest.mark.parametrize("trouble", [ValueError("trouble"), SystemExit("trouble"), GeneratorExit("trouble")])
def test_a_duty_that_fails_leaves_the_door_open(
    trouble: BaseException, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Strangers are heard as before, and its thread closes what it has to."""
    monkeypatch.setattr(doorkeeper, "_TICK_S", 0.05)
    house = TroubledHouse(trouble)
    listener = sockets.listen(sockets.new_unix_address())
    door = Doorkeeper(house, "test")
    door.start([listener])
    until(lambda: house.ticks >= 2)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(listener.getsockname())
        stranger.sendall(b"E")
    until(lambda: len(house.turned_away) == 1)
    door.close()
    assert listener.fileno() == -1
    assert "the door of `test`" in caplog.text
    assert "trouble" in caplog.text

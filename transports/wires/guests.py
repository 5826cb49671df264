"""Guests: connections at the door whose handshake is not over, and who has to leave where they are too many.

Who has proven a key with HELLO never leaves for somebody who has said nothing yet. Among the silent ones
chance decides: whoever comes in great numbers throws out his own for the most part, while the oldest would be
just those who are honest and far away. A HELLO that was overheard can be said again by anybody, so it gets
one place however often it is said.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from echo_core.errors import LinkError
from echo_core.transports import limits
from echo_core.transports.handshake.exchange import Responder
from echo_core.transports.wires import sockets


@dataclass(slots=True, eq=False)
class Guest:
    """A connection whose handshake is not over, or which still has to send its shared memory."""

    connection: socket.socket
    responder: Responder
    limit: float

    @property
    def name(self) -> str:
        """The other end, for the log."""
        return sockets.peer_name(self.connection)


class Guests:
    """Those who are waited for."""

    def __init__(self) -> None:
        self._silent: set[Guest] = set()
        self._proven: dict[bytes, Guest] = {}  # by the proof of their HELLO

    def __contains__(self, guest: Guest) -> bool:
        return guest in self._silent or guest in self._proven.values()

    def __iter__(self) -> Iterator[Guest]:
        return iter([*self._silent, *self._proven.values()])

    def seat(self, guest: Guest) -> Guest | None:
        """Gives a guest the place that it has earned by now. Returns who has to leave for it.

        LinkError: its HELLO is another's who is there.
        """
        heard = guest.responder.heard
        if self._proven.get(heard) is guest or (not heard and guest in self._silent):
            return None
        self._silent.discard(guest)
        if heard in self._proven:
            msg = "Expected a HELLO of its own, got that of another connection"
            raise LinkError(msg)
        present = list(self._proven.values()) if heard else list(self._silent)
        limit = limits.MAX_HALF_OPEN if heard else limits.MAX_SILENT
        leaving = random.choice(present) if len(present) >= limit else None
        if heard:
            self._proven[heard] = guest
        else:
            self._silent.add(guest)
        return leaving

    def remove(self, guest: Guest) -> None:
        self._silent.discard(guest)
        if self._proven.get(guest.responder.heard) is guest:
            del self._proven[guest.responder.heard]

    def clear(self) -> None:
        self._silent.clear()
        self._proven.clear()

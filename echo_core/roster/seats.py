"""Seats: where the one node listens that holds a channel on this host, whoever that is by now.

A channel's seat is an abstract Unix address that follows from its id. Binding it is the claim: the system
gives an address to one socket alone, and takes it back when its process ends, in whatever way. So a channel
has at most one holder in a network namespace, whose place nobody has to be told of, and another one can take.

A holder that is stopped lets nobody in, and keeps its seat. So a few other members sit beside it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections.abc import Collection

from echo_core.errors import EchoError, LinkError, RefusedError
from echo_core.roster.ids import SEAT_PREFIX, ChannelId
from echo_core.transports.addresses import UnixAddress
from echo_core.transports.handshake.exchange import Initiator
from echo_core.transports.handshake.words import Identity
from echo_core.transports.protocol.messages import Refusal
from echo_core.transports.wires import sockets
from echo_core.transports.wires.connecting import connect
from echo_core.transports.wires.doorkeeper import Doorkeeper

HELD = "held"  # the code of the refusal of a second holder

_LISTED_AS = f"@{SEAT_PREFIX}"  # in the system's table of Unix sockets
_LISTENS = "00010000"  # likewise, a flag
_ASK_S = 2.0  # for who sits there to say so, where there is as much time
_KNOWN_S = 0.5  # for the system to say which process listens
_PAUSE_S = 0.005  # where who sat there has just left


class Seat:
    """Taken until `leave`."""

    def __init__(self, listener: socket.socket, door: Doorkeeper) -> None:
        self._listener = listener
        self._door = door
        door.listen_at(listener)

    def leave(self) -> None:
        """When this returns, another one can take it. A second time it does nothing."""
        self._door.stop_listening(self._listener)

    def give_up(self) -> None:
        """Likewise, soon after this returns: the door's thread does it."""
        self._door.stop_listening(self._listener, is_waited_for=False)

    def abandon(self) -> None:
        """In a forked child: the seat is the parent's."""
        self._listener.close()


def take(id_: ChannelId, own: Identity, door: Doorkeeper, timeout_s: float) -> Seat:
    """RefusedError says who else sits there."""
    limit = time.monotonic() + min(_ASK_S, timeout_s)
    while True:
        try:
            return Seat(sockets.listen(id_.seat), door)
        except LinkError as error:
            if not is_taken(error):
                raise
        who = _who_holds(id_, own, max(0.0, limit - time.monotonic()))
        if who or time.monotonic() > limit:
            msg = f"Expected nobody to hold the channel {id_.identity!r}, {who or 'somebody'} does"
            raise RefusedError(msg, code=HELD, hint="close it there, or open the channel instead")
        time.sleep(_PAUSE_S)  # nothing tells when a socket of another process lets go of its address


def take_beside(id_: ChannelId, door: Doorkeeper) -> Seat | None:
    """A free one beside the holder's; None: others sit there, or no descriptor is left."""
    for address in id_.side_seats:
        with contextlib.suppress(LinkError):
            return Seat(sockets.listen(address), door)
    return None


def of(id_: ChannelId) -> tuple[UnixAddress, ...]:
    """All seats of a channel, the holder's first."""
    return id_.seat, *id_.side_seats


def taken() -> dict[UnixAddress, int]:
    """Seats of any channels at which somebody listens on this host, with the inodes of their sockets."""
    found: dict[UnixAddress, int] = {}
    with open("/proc/net/unix", encoding="ascii", errors="replace") as table:
        for line in table:
            words = line.split()  # address, references, protocol, flags, type, state, inode, name
            if len(words) == 8 and words[7].startswith(_LISTED_AS) and words[3] == _LISTENS:
                found[UnixAddress(words[7].removeprefix("@"))] = int(words[6])
    return found


def processes_at(sockets_: Collection[int]) -> dict[int, int]:
    """By inode, the processes of this user that have these sockets; what cannot be seen is left out.

    The system tells that of a connection, too, but who is there would take one for a peer that fails.
    """
    wanted = {f"socket:[{inode}]": inode for inode in sockets_}
    found: dict[int, int] = {}
    for process in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # another user's, or ended meanwhile
            for descriptor in os.scandir(f"/proc/{process}/fd"):
                with contextlib.suppress(OSError):
                    inode = wanted.get(os.readlink(descriptor.path))
                    if inode is not None:
                        found.setdefault(inode, int(process))
    return found


def is_taken(error: LinkError) -> bool:
    """Whether a socket could not listen because another one does."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE


def holder_of(
    id_: ChannelId, own: Identity, timeout_s: float, seat: UnixAddress | None = None
) -> Identity | None:
    """Who sits there, or at another seat, and has proven the channel's key; None: nobody.

    LinkError, RefusedError or WireError: somebody who has not.
    """
    found: list[Identity] = []

    def admit(holder: Identity, *_: object) -> Refusal:
        found.append(holder)
        return Refusal.DUPLICATE

    try:
        connect(
            seat or id_.seat,
            lambda: Initiator(own, id_.uid, id_.key, admit=admit),
            memory=None,
            timeout_s=timeout_s,
        )
    except RefusedError:
        if not found:
            raise
    except LinkError as error:
        if not isinstance(error.__cause__, ConnectionError | EOFError):
            raise
    return found[0] if found else None


def _who_holds(id_: ChannelId, own: Identity, timeout_s: float) -> str:
    """In words; nothing where nobody does any more."""
    try:
        holder = holder_of(id_, own, timeout_s / 2)
    except EchoError as error:
        return f"{process_at(id_.seat)} ({error})"
    return "" if holder is None else f"node `{holder.name}` (process {holder.process_id})"


def process_at(seat: UnixAddress) -> str:
    """Also one that does not answer, as it is stopped: the system knows it."""
    with contextlib.suppress(LinkError, OSError), sockets.connect(seat, _KNOWN_S) as connection:
        return sockets.peer_name(connection)
    return "somebody"

"""The doorkeeper: a thread that accepts connections, and watches peers that share memory for their death.

It runs all handshakes concurrently without blocking, so that a slow or hostile peer delays nobody. limits.py
sets the timeout of a handshake and how many may be in progress.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from echo_core._c import locks
from echo_core.errors import EchoError
from echo_core.transports import limits
from echo_core.transports.handshake.exchange import Established, Responder
from echo_core.transports.threads import OwnThread, failures_logged
from echo_core.transports.wires import sockets
from echo_core.transports.wires.connecting import Connection, Memory, accept_shared, is_shared, plain

_TICK_S = 0.25
_JOIN_S = 2.0


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """A connection has failed; `node_id` is the peer's if the handshake had admitted it."""

    who: str
    error: Exception
    node_id: bytes | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: about four times a second."""


Happening = Connection | TurnedAway | Tick  # a Connection: a process has connected


@dataclass(slots=True, eq=False)
class _Guest:
    """A connection whose handshake is not over, or which still has to send its shared memory."""

    connection: socket.socket
    name: str
    responder: Responder
    limit: float


class Doorkeeper:
    """Started with its listeners, stopped by `close`. `happenings` is to be iterated by its thread."""

    def __init__(self, name: str, make_responder: Callable[[], Responder], memory: Memory | None) -> None:
        """`name`: of the node, for the log. `memory`: how it shares memory, None where it does not."""
        self._name = name
        self._make_responder = make_responder
        self._memory = memory
        self._happened: deque[Happening] = deque()
        self._selector = selectors.DefaultSelector()
        self._guests: dict[socket.socket, _Guest] = {}
        self._deaf: dict[socket.socket, float] = {}  # listeners that are paused until that time
        self._bell, self._bell_rope = socket.socketpair()
        self._bell.setblocking(False)
        self._bell_rope.setblocking(False)
        self._orders: deque[Callable[[], object]] = deque()
        self._ordering = threading.Lock()
        self._is_closing = False
        self._is_gone = False
        self._selector.register(self._bell, selectors.EVENT_READ, self._heed)
        self._thread: threading.Thread | None = None

    def start(self, listeners: list[socket.socket], attend: Callable[[], None]) -> None:
        """`attend` iterates `happenings`, in the doorkeeper's thread."""
        for listener in listeners:
            self._selector.register(listener, selectors.EVENT_READ, partial(self._admit, listener))
        self._thread = OwnThread(attend, f"echo-door-{self._name}")
        self._thread.start()

    def watch(self, connection: socket.socket, on_end: Callable[[], None]) -> None:
        """Call `on_end` once, when the peer closes the connection, and close it on this side."""
        ended = partial(self._ended, connection, on_end)
        self._order(partial(self._selector.register, connection, selectors.EVENT_READ, ended), connection)

    def unwatch(self, connection: socket.socket) -> None:
        """Close a connection that was watched."""
        self._order(partial(self._drop, connection), connection)

    def close(self) -> None:
        """Stop accepting connections, and wait for the thread to end."""
        self._is_closing = True
        self._ring()
        thread = self._thread
        if thread is None or thread.ident is None:
            self._clear()
        elif thread is not threading.current_thread():
            thread.join(_JOIN_S)

    def abandon(self) -> None:
        """Close inherited descriptors in a forked child, without affecting the parent.

        Do not unregister anything: the epoll instance is shared with the parent. Do not take the lock: a
        thread that does not exist in the child may hold it.
        """
        self._close_sockets()
        self._ordering = threading.Lock()
        self._is_gone = True

    def _close_sockets(self) -> None:
        for key in list((self._selector.get_map() or {}).values()):  # None once it is closed
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        for unwatched in (*self._deaf, self._bell_rope):
            unwatched.close()
        self._selector.close()

    # -----------------------------------------------------------------------
    # The thread

    def happenings(self) -> Iterator[Happening]:
        """Does the work, and yields what the node has to follow; ends when the door is closed."""
        next_tick = time.monotonic()
        while not (self._is_closing or self._is_gone):  # gone: in a forked child
            for key, _ in self._selector.select(max(0.0, next_tick - time.monotonic())):
                self._attempt(key.data)
                yield from self._take_happened()
            if time.monotonic() >= next_tick:  # not after every message
                next_tick = time.monotonic() + _TICK_S
                for duty in (self._listen_again, self._turn_late_guests_away):
                    self._attempt(duty)
                yield from self._take_happened()
                yield Tick()
        self._clear()

    def _take_happened(self) -> Iterator[Happening]:
        while self._happened:
            yield self._happened.popleft()

    def _attempt(self, duty: Callable[[], object]) -> None:
        """Run one duty. Whatever it raises, other connections and the remaining duties go on."""
        with failures_logged("the door of `%s`", self._name):
            duty()

    def _clear(self) -> None:
        with locks.Held(self._ordering):
            if self._is_gone:  # a thread whose start was interrupted may run after `close`
                return
            self._is_gone = True
        self._follow_orders()
        self._guests.clear()
        self._close_sockets()

    def _order(self, order: Callable[[], object], about: socket.socket) -> None:
        """Queue work for the thread; once the thread is gone, just close the connection."""
        with locks.Held(self._ordering):
            if self._is_gone:
                about.close()
                return
            self._orders.append(order)
        self._ring()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):  # full: the thread will wake up
            self._bell_rope.send(b"!")

    def _heed(self) -> None:
        with contextlib.suppress(OSError):
            self._bell.recv(4096)
        self._follow_orders()

    def _follow_orders(self) -> None:
        while self._orders:
            with contextlib.suppress(OSError, ValueError, KeyError):  # it was closed meanwhile
                self._orders.popleft()()

    def _ended(self, connection: socket.socket, on_end: Callable[[], None]) -> None:
        self._drop(connection)
        on_end()

    def _drop(self, connection: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection)
        self._guests.pop(connection, None)
        connection.close()

    # -----------------------------------------------------------------------
    # Guests

    def _admit(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, ConnectionError):  # gone already
            return
        except OSError:  # no file descriptors left: connections wait in the kernel's queue
            self._selector.unregister(listener)
            self._deaf[listener] = time.monotonic() + _TICK_S
            return
        if len(self._guests) >= limits.MAX_HALF_OPEN:  # drop the oldest: honest peers finish quickly
            msg = f"Expected at most {limits.MAX_HALF_OPEN} handshakes at once"
            self._turn_away(next(iter(self._guests.values())), EchoError(msg))
        name = "a stranger"
        try:
            name = sockets.peer_name(connection)
            sockets.prepare(connection)
            responder = self._make_responder()
        except (EchoError, OSError) as error:
            connection.close()
            self._happened.append(TurnedAway(name, error))
            return
        connection.setblocking(False)
        limit = time.monotonic() + limits.HANDSHAKE_TIMEOUT_S
        guest = _Guest(connection, name, responder, limit)
        self._guests[connection] = guest
        self._selector.register(connection, selectors.EVENT_READ, partial(self._hear, guest))

    def _hear(self, guest: _Guest) -> None:
        if guest.connection not in self._guests:  # dropped since `select` returned
            return
        try:
            if guest.responder.established is None:
                self._shake_hands(guest)
            else:
                self._take_memory(guest, guest.responder.established)
        except (BlockingIOError, InterruptedError):
            return
        except Exception as error:  # noqa: BLE001 - of an untrusted peer; others are not affected
            self._turn_away(guest, error)

    def _turn_away(self, guest: _Guest, error: Exception) -> None:
        self._drop(guest.connection)
        established = guest.responder.established
        node_id = None if established is None else established.peer.node_id
        self._happened.append(TurnedAway(guest.name, error, node_id))

    def _shake_hands(self, guest: _Guest) -> None:
        data = guest.connection.recv(guest.responder.wanted_bytes)
        try:
            guest.responder.receive(data)
        finally:
            answer = guest.responder.bytes_to_send()
            if answer:
                guest.connection.send(answer)  # cannot block: a few KiB into an empty buffer
        established = guest.responder.established
        if established is None or (self._memory is not None and is_shared(guest.connection, established)):
            return  # there is more to come
        self._let_go(guest)
        self._happened.append(plain(guest.connection, established, guest.name))

    def _take_memory(self, guest: _Guest, established: Established) -> None:
        assert self._memory is not None
        connection = accept_shared(guest.connection, established, guest.name, self._memory)
        self._let_go(guest)
        self._happened.append(connection)

    def _let_go(self, guest: _Guest) -> None:
        """Stop watching a connection that a link takes over."""
        del self._guests[guest.connection]
        self._selector.unregister(guest.connection)

    def _listen_again(self) -> None:
        """Resume listeners that were paused for lack of file descriptors."""
        now = time.monotonic()
        for listener in [listener for listener, until in self._deaf.items() if until <= now]:
            del self._deaf[listener]
            self._selector.register(listener, selectors.EVENT_READ, partial(self._admit, listener))

    def _turn_late_guests_away(self) -> None:
        now = time.monotonic()
        for guest in [guest for guest in self._guests.values() if guest.limit < now]:
            self._turn_away(guest, TimeoutError("its handshake took too long"))

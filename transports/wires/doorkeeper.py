"""The doorkeeper: a thread that accepts connections.

It runs all handshakes concurrently without blocking, so that a slow or hostile peer delays nobody. Who has no
key costs a hash: what a connection has said is read and checked as it is accepted, before anything is
remembered of it. limits.py sets the timeout of a handshake and how many may be in progress (guests.py).
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
from echo_core.transports.wires.guests import Guest, Guests

_TICK_S = 0.25
_ADMITTED_AT_ONCE = 64
_JOIN_S = 2.0


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """A connection has failed; `established` is what its handshake had come to, if it had been let in."""

    who: str
    error: Exception
    established: Established | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: about four times a second. `late_s`: by how much this comes later than it should."""

    late_s: float


@dataclass(frozen=True, slots=True)
class Called:
    """Somebody in this process has called."""


Happening = Connection | TurnedAway | Tick | Called  # a Connection: a process has connected


class Doorkeeper:
    """Started with its listeners, stopped by `close`. `happenings` is to be iterated by its thread."""

    def __init__(
        self, name: str, make_responder: Callable[[], Responder], memory: Memory | None, *, stall_s: float
    ) -> None:
        """`name`: of the node, for the log. `memory`: how it shares memory, None where it does not.

        `stall_s`: in which the loss of another host is to be noticed.
        """
        self._name = name
        self._make_responder = make_responder
        self._memory = memory
        self._stall_s = stall_s
        self._happened: deque[Happening] = deque()
        self._selector = selectors.DefaultSelector()
        self._guests = Guests()
        self._deaf: dict[socket.socket, float] = {}  # listeners that are paused until that time
        self._bell, self._bell_rope = socket.socketpair()
        self._bell.setblocking(False)
        self._bell_rope.setblocking(False)
        self._orders: deque[Callable[[], object]] = deque()
        self._ordering = threading.Lock()
        self._is_called = False
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

    def listen_at(self, listener: socket.socket) -> None:
        """Also let in who connects there, until `stop_listening`."""
        attend = partial(
            self._selector.register, listener, selectors.EVENT_READ, partial(self._admit, listener)
        )
        self._order(attend, listener)

    def stop_listening(self, listener: socket.socket, *, is_waited_for: bool = True) -> None:
        """Another socket can have the address: when this returns, or soon after."""
        if threading.current_thread() is self._thread:
            self._forget_listener(listener)
            return
        is_done = threading.Event()

        def forget() -> None:
            self._forget_listener(listener)
            is_done.set()

        self._order(forget, listener)
        if is_waited_for and listener.fileno() >= 0:
            is_done.wait(_JOIN_S)

    def call(self) -> None:
        """Have the thread yield `Called`, soon and at least once."""
        self._is_called = True
        self._ring()

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
            late_s = time.monotonic() - next_tick
            if late_s >= 0.0:  # not after every message
                next_tick = time.monotonic() + _TICK_S
                for duty in (self._listen_again, self._turn_late_guests_away):
                    self._attempt(duty)
                yield from self._take_happened()
                yield Tick(late_s)
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
        if self._is_called:
            self._is_called = False
            self._happened.append(Called())

    def _follow_orders(self) -> None:
        while self._orders:
            with contextlib.suppress(OSError, ValueError, KeyError):  # it was closed meanwhile
                self._orders.popleft()()

    def _forget_listener(self, listener: socket.socket) -> None:
        self._deaf.pop(listener, None)
        self._drop(listener)

    def _drop(self, connection: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection)
        connection.close()

    # -----------------------------------------------------------------------
    # Guests

    def _admit(self, listener: socket.socket) -> None:
        """Several at once, but not all that come: those who are there are heard meanwhile."""
        for _ in range(_ADMITTED_AT_ONCE):
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, ConnectionError):  # gone already
                return
            except OSError:  # no file descriptors left: connections wait in the kernel's queue
                self._selector.unregister(listener)
                self._deaf[listener] = time.monotonic() + _TICK_S
                return
            self._receive(connection)

    def _receive(self, connection: socket.socket) -> None:
        """Most have said HELLO by now, so that they need not be waited for."""
        connection.setblocking(False)
        limit = time.monotonic() + limits.HANDSHAKE_TIMEOUT_S
        guest = Guest(connection, self._make_responder(), limit)
        self._listen_to(guest, self._greet)

    def _hear(self, guest: Guest) -> None:
        if guest in self._guests:  # else it was dropped since `select` returned
            self._listen_to(guest, self._shake_hands)

    def _listen_to(self, guest: Guest, hear: Callable[[Guest], None]) -> None:
        try:
            try:
                hear(guest)
            except (BlockingIOError, InterruptedError):
                self._wait_for(guest)
        except Exception as error:  # noqa: BLE001 - of an untrusted peer; others are not affected
            self._turn_away(guest, error)

    def _wait_for(self, guest: Guest) -> None:
        if guest.connection not in self._selector.get_map():
            self._selector.register(guest.connection, selectors.EVENT_READ, partial(self._hear, guest))
        leaving = self._guests.seat(guest)
        if leaving is not None:
            self._turn_away(
                leaving, EchoError("Expected fewer handshakes at once, chance has chosen this one")
            )

    def _turn_away(self, guest: Guest, error: Exception) -> None:
        name = guest.name
        self._guests.remove(guest)
        self._drop(guest.connection)
        self._happened.append(TurnedAway(name, error, guest.responder.established))

    def _greet(self, guest: Guest) -> None:
        sockets.demand_own_user(guest.connection)
        self._shake_hands(guest)

    def _shake_hands(self, guest: Guest) -> None:
        """Until there is nothing more to be read: BlockingIOError."""
        while guest.responder.established is None:
            self._exchange(guest.connection, guest.responder)
        established = guest.responder.established
        if self._memory is not None and is_shared(guest.connection, established):
            connection = accept_shared(guest.connection, established, guest.name, self._memory)
            self._let_go(guest)
            guest.connection.close()  # the wire has it
        else:
            sockets.prepare(guest.connection)
            name = guest.name
            self._let_go(guest)
            connection = plain(guest.connection, established, name, self._stall_s)
        self._happened.append(connection)

    def _exchange(self, connection: socket.socket, responder: Responder) -> None:
        data = connection.recv(responder.wanted_bytes)
        try:
            responder.receive(data)
        finally:
            answer = responder.bytes_to_send()
            if answer:
                connection.send(answer)  # cannot block: a few KiB into an empty buffer

    def _let_go(self, guest: Guest) -> None:
        """Stop watching a connection that a link takes over."""
        self._guests.remove(guest)
        with contextlib.suppress(KeyError):  # who was never waited for
            self._selector.unregister(guest.connection)

    def _listen_again(self) -> None:
        """Resume listeners that were paused for lack of file descriptors."""
        now = time.monotonic()
        for listener in [listener for listener, until in self._deaf.items() if until <= now]:
            del self._deaf[listener]
            self._selector.register(listener, selectors.EVENT_READ, partial(self._admit, listener))

    def _turn_late_guests_away(self) -> None:
        now = time.monotonic()
        for guest in [guest for guest in self._guests if guest.limit < now]:
            self._turn_away(guest, TimeoutError("its handshake took too long"))

"""Sockets: listening, connecting, and identifying the process at the other end.

Unix sockets have abstract names. They need no file, so a killed process leaves nothing behind. They have no
file permissions either; instead the kernel says which user is at the other end, and only the same user is
accepted.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import secrets
import socket
import struct
import time
from collections.abc import Generator
from typing import Any

from echo_core.errors import LinkError
from echo_core.transports.addresses import Address, TcpAddress, UnixAddress
from echo_core.transports.limits import HOST_ID_BYTES

BACKLOG = 4096
_DEFER_S = 5  # a connection over which nothing comes is not even handed over for so long
_TIME = struct.Struct("@ll")  # struct timeval: seconds, microseconds
_LONGEST_MS = 2**31 - 1  # that TCP_USER_TIMEOUT takes; with 0 the system would choose
_HINTS: dict[object, str] = {
    errno.EADDRINUSE: "another process listens there; is it an earlier one that still runs?"
}
_CREDENTIALS = struct.Struct("3i")  # struct ucred: process, user, group

_Place = Any  # as a Python socket takes it: a name, or a tuple that depends on the family


def host_id() -> bytes:
    """Identifies this boot of this machine, and the network namespace: abstract Unix sockets belong to it."""
    namespace = os.stat("/proc/self/ns/net").st_ino
    return hashlib.blake2b(_boot_id() + struct.pack("<Q", namespace), digest_size=HOST_ID_BYTES).digest()


@functools.cache
def _boot_id() -> bytes:
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        return file.read()


class OwnedSocket(socket.socket):
    """Closed with its last reference at the latest, which then is as it should be.

    An interrupt may come between the line that makes a socket and the one that would close it: no `with` can
    begin early enough. So it is the socket's own business, and nobody is warned of it.
    """

    __slots__ = ()

    __del__ = socket.SocketType.close  # C: works behind half an `__init__`, and swallows no interrupt


def listen(address: Address) -> socket.socket:
    """A non-blocking listening socket; port 0 means any free port."""
    listener = _socket_for(address, _family_of(address))
    with closed_on_failure(listener, f"to listen at {address}"):
        if isinstance(address, TcpAddress):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, _DEFER_S)
        listener.bind(_place(address))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    return listener


@contextlib.contextmanager
def closed_on_failure(opened: socket.socket, expected: str) -> Generator[None]:
    """Closes a socket if what is done with it fails or is interrupted; LinkError says what was expected."""
    try:
        yield
    except BaseException as error:
        opened.close()
        if not isinstance(error, OSError | UnicodeError):  # UnicodeError: not a valid host name
            raise
        is_late = isinstance(error, BlockingIOError)  # as a system call puts it that was given a time
        reason = "timed out" if is_late else getattr(error, "strerror", None) or error
        msg = f"Expected {expected}: {reason}"
        raise LinkError(msg, hint=_HINTS.get(getattr(error, "errno", 0), "")) from error


def new_unix_address() -> UnixAddress:
    return UnixAddress(f"echo-{secrets.token_hex(8)}")


def bound_address(listener: socket.socket, *, advertised_host: str = "") -> Address:
    """The address at which others can connect to a listener."""
    if listener.family == socket.AF_UNIX:
        name: bytes = listener.getsockname()
        return UnixAddress(name.lstrip(b"\0").decode())
    host, port, *rest = listener.getsockname()
    if rest and rest[1]:  # a link-local address of IPv6, and the number of its interface
        host = f"{host}%{socket.if_indextoname(rest[1])}"
    return TcpAddress(advertised_host or host, port)


def connect(address: Address, timeout_s: float) -> socket.socket:
    """A connected socket with that timeout; LinkError names the address that does not answer.

    Of a host with several addresses each gets its share of the time, and of what those before it have left.
    """
    limit = time.monotonic() + timeout_s
    places = _places(address) if timeout_s > 0 else []
    problem: LinkError | None = None
    for position, (family, place) in enumerate(places):
        share_s = (limit - time.monotonic()) / (len(places) - position)
        if share_s <= 0:  # which a socket takes for "do not wait", and then says that it is under way
            break
        try:
            return _connect_at(address, family, place, share_s)
        except LinkError as error:
            problem = error
    msg = f"Expected a process that listens at {address}: no time is left"
    raise problem or LinkError(msg)


def _places(address: Address) -> list[tuple[socket.AddressFamily, _Place]]:
    """LinkError: there is no such host, or network interface."""
    try:
        if isinstance(address, UnixAddress) or address.is_numeric:
            return [(_family_of(address), _place(address))]
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        msg = f"Expected the address of a host at {address}: {getattr(error, 'strerror', None) or error}"
        raise LinkError(msg) from error
    return [(family, place) for family, _, _, _, place in found]


def _connect_at(
    address: Address, family: socket.AddressFamily, place: _Place, timeout_s: float
) -> socket.socket:
    connection = _socket_for(address, family)
    with closed_on_failure(connection, f"a process that listens at {address}"):
        if family == socket.AF_UNIX:
            _connect_unix(connection, place, timeout_s)
        connection.settimeout(timeout_s)
        if family != socket.AF_UNIX:
            connection.connect(place)
        demand_own_user(connection)
        prepare(connection)
    return connection


def _connect_unix(connection: socket.socket, place: _Place, timeout_s: float) -> None:
    """Wait while the listener's backlog is full, where a Python socket with a timeout would fail at once."""
    wait_us = max(1, int(timeout_s * 1_000_000))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(*divmod(wait_us, 1_000_000)))
    connection.connect(place)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(0, 0))


def prepare(connection: socket.socket) -> None:
    """Set the options of a connection, on either side."""
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def end_unconfirmed_after(connection: socket.socket, seconds: float) -> None:
    """A TCP connection ends once the other host has confirmed nothing that was sent for so long.

    Its kernel confirms: a process that is stopped, or busy, does not end the connection.
    """
    limit_ms = int(min(max(1.0, seconds * 1000), _LONGEST_MS))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit_ms)


def peer_name(connection: socket.socket) -> str:
    """The other end, for error messages."""
    if connection.family == socket.AF_UNIX:
        process, _, _ = _credentials(connection)
        return f"process {process}"
    try:
        host, port = connection.getpeername()[:2]
    except OSError:
        return "a peer that has gone"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextlib.contextmanager
def peer_process(connection: socket.socket) -> Generator[int]:
    """A pidfd of the process at the other end of a Unix socket; -1 if it cannot be had."""
    process, _, _ = _credentials(connection)
    try:
        descriptor = os.pidfd_open(process)
    except OSError:  # in another PID namespace, or dead
        yield -1
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def demand_own_user(connection: socket.socket) -> None:
    """Raise LinkError if a Unix socket belongs to another user."""
    if connection.family != socket.AF_UNIX:
        return
    _, user, _ = _credentials(connection)
    if user != os.geteuid():
        msg = (
            f"Expected a process of user {os.geteuid()} at the other end of a Unix socket, got one of {user}"
        )
        raise LinkError(msg)


def _credentials(connection: socket.socket) -> tuple[int, int, int]:
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, group = _CREDENTIALS.unpack(found)
    return process, user, group


def _family_of(address: Address) -> socket.AddressFamily:
    if isinstance(address, UnixAddress):
        return socket.AF_UNIX
    return socket.AF_INET6 if ":" in address.host else socket.AF_INET


def _socket_for(address: Address, family: socket.AddressFamily) -> socket.socket:
    """LinkError: the process has no descriptor left for it."""
    try:
        return OwnedSocket(family, socket.SOCK_STREAM)
    except OSError as error:
        msg = f"Expected a socket for {address}: {error.strerror}"
        raise LinkError(msg) from error


def _place(address: Address) -> _Place:
    """As a Python socket takes it. OSError: this host has no such network interface."""
    if isinstance(address, UnixAddress):
        return f"\0{address.name}"
    host, _, scope = address.host.partition("%")
    if not scope:
        return host, address.port
    return host, address.port, 0, int(scope) if scope.isdigit() else _interface(scope)


def _interface(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError as error:  # each Python says it in other words
        raise OSError(errno.ENODEV, f"no interface `{name}` on this host") from error

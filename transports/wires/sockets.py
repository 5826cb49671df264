"""Sockets: listening, connecting, and identifying the process at the other end.

Unix sockets have abstract names. They need no file, so a killed process leaves nothing behind. They have no
file permissions either; instead the kernel says which user is at the other end, and only the same user is
accepted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
import struct
from collections.abc import Generator

from echo_core.errors import LinkError
from echo_core.transports.addresses import Address, TcpAddress, UnixAddress
from echo_core.transports.limits import HOST_ID_BYTES

BACKLOG = 128
_TIME = struct.Struct("@ll")  # struct timeval: seconds, microseconds
_TCP_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    # Notice a host that has vanished within half a minute, even if nothing is sent.
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),
)
_CREDENTIALS = struct.Struct("3i")  # struct ucred: process, user, group


def host_id() -> bytes:
    """Identifies this boot of this machine, and the network namespace: abstract Unix sockets belong to it."""
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        boot = file.read()
    namespace = os.stat("/proc/self/ns/net").st_ino
    return hashlib.blake2b(boot + struct.pack("<Q", namespace), digest_size=HOST_ID_BYTES).digest()


def listen(address: Address) -> socket.socket:
    """A non-blocking listening socket; port 0 means any free port."""
    listener = _socket_for(address)
    with closed_on_failure(listener, f"to listen at {address}"):
        if isinstance(address, TcpAddress):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
        msg = f"Expected {expected}: {getattr(error, 'strerror', None) or error}"
        raise LinkError(msg) from error


def new_unix_address() -> UnixAddress:
    return UnixAddress(f"echo-{secrets.token_hex(8)}")


def bound_address(listener: socket.socket, *, advertised_host: str = "") -> Address:
    """The address at which others can connect to a listener."""
    if listener.family == socket.AF_UNIX:
        name: bytes = listener.getsockname()
        return UnixAddress(name.lstrip(b"\0").decode())
    host, port = listener.getsockname()[:2]
    return TcpAddress(advertised_host or host, port)


def connect(address: Address, timeout_s: float) -> socket.socket:
    """A connected socket with that timeout; LinkError names the address that does not answer."""
    connection = _socket_for(address)
    with closed_on_failure(connection, f"a process that listens at {address}"):
        if isinstance(address, UnixAddress):
            _connect_unix(connection, address, timeout_s)
        connection.settimeout(timeout_s)
        if isinstance(address, TcpAddress):
            connection.connect(_place(address))
        prepare(connection)
    return connection


def _connect_unix(connection: socket.socket, address: UnixAddress, timeout_s: float) -> None:
    """Wait while the listener's backlog is full, where a Python socket with a timeout would fail at once."""
    wait_us = max(1, int(timeout_s * 1_000_000))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(*divmod(wait_us, 1_000_000)))
    connection.connect(_place(address))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIME.pack(0, 0))


def prepare(connection: socket.socket) -> None:
    """Set the options of a connection, on either side; LinkError if it belongs to another user."""
    if connection.family == socket.AF_UNIX:
        _demand_own_user(connection)
        return
    for level, option, value in _TCP_OPTIONS:
        connection.setsockopt(level, option, value)


def peer_name(connection: socket.socket) -> str:
    """The other end, for error messages."""
    if connection.family == socket.AF_UNIX:
        process, _, _ = _credentials(connection)
        return f"process {process}"
    try:
        host, port = connection.getpeername()[:2]
    except OSError:
        return "a peer that has gone"
    return f"{host}:{port}"


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


def _demand_own_user(connection: socket.socket) -> None:
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


def _socket_for(address: Address) -> socket.socket:
    if isinstance(address, UnixAddress):
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM)


def _place(address: Address) -> str | tuple[str, int]:
    return f"\0{address.name}" if isinstance(address, UnixAddress) else (address.host, address.port)

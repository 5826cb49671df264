"""Where a node can be reached: `tcp://host:port`, `tcp://[IPv6]:port`, or `unix:@name`, an abstract socket.

Shared memory has no address of its own: two processes set it up over a Unix socket. Addresses are sent as
text, and readers ignore kinds that they do not know, so that a later version can add kinds.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from echo_core.errors import LinkError, unexpected
from echo_core.transports.limits import HOST_ID_BYTES

UNKNOWN_HOST = bytes(HOST_ID_BYTES)
MAX_UNIX_NAME_BYTES = 107  # sun_path has 108 bytes, of which an abstract name uses the first for a NUL

_HOST = re.compile(r"[A-Za-z0-9._-]{1,200}")
_SCOPE = re.compile(r"[A-Za-z0-9._-]{1,15}")  # of a network interface
_PORT = re.compile(r"[0-9]{1,5}")
_UNIX_NAME = re.compile(rf"[A-Za-z0-9._/:-]{{1,{MAX_UNIX_NAME_BYTES}}}")


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A TCP port of a host, which is a name or an IP address; port 0 lets the system choose one."""

    host: str
    port: int

    def __post_init__(self) -> None:
        if not (_HOST.fullmatch(self.host) or _is_ipv6(self.host)):
            raise unexpected(LinkError, "a host name or an IP address", f"{self.host!r}")
        if not 0 <= self.port <= 65535:
            raise unexpected(LinkError, "a port from 0 to 65535", self.port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether no other host can reach it; a name other than `localhost` may resolve to any address."""
        return ip.is_loopback if (ip := _ip(self.host)) else self.host == "localhost"

    @property
    def is_numeric(self) -> bool:
        """Whether the host need not be looked up."""
        return _ip(self.host) is not None

    @property
    def is_everywhere(self) -> bool:
        """Whether it means all interfaces of a host: usable for listening, but not for connecting."""
        return (ip := _ip(self.host)) is not None and ip.is_unspecified


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """An abstract Unix socket. It has no file, so a killed process leaves nothing behind."""

    name: str

    def __post_init__(self) -> None:
        if not _UNIX_NAME.fullmatch(self.name):
            raise unexpected(
                LinkError, f"1 to {MAX_UNIX_NAME_BYTES} of A-Z a-z 0-9 . _ / : -", f"{self.name!r}"
            )

    def __str__(self) -> str:
        return f"unix:@{self.name}"


Address = TcpAddress | UnixAddress


def crosses_hosts(address: Address) -> bool:
    """Whether it may mean anything on another host."""
    return isinstance(address, TcpAddress) and not address.is_loopback


def usable(texts: tuple[str, ...], of: bytes, on: bytes) -> tuple[str, ...]:
    """Those addresses of a node on one host that mean anything on another; all of them on its own.

    A Unix socket or a loopback port of the same name may be anybody's there.
    """
    if of in {on, UNKNOWN_HOST}:
        return texts
    return tuple(text for text in texts if any(map(crosses_hosts, known_addresses([text]))))


def parse_address(text: str) -> Address:
    """Parse what `str(address)` writes; LinkError for any other text."""
    if text.startswith("tcp://"):
        return _parse_tcp(text)
    if text.startswith("unix:@"):
        return UnixAddress(text.removeprefix("unix:@"))
    raise unexpected(LinkError, "`tcp://host:port` or `unix:@name`", f"{text!r}")


def known_addresses(texts: Iterable[str]) -> list[Address]:
    """The addresses of known kinds; others are ignored."""
    found: list[Address] = []
    for text in texts:
        with contextlib.suppress(LinkError):
            found.append(parse_address(text))
    return found


def _parse_tcp(text: str) -> TcpAddress:
    host, colon, port = text.removeprefix("tcp://").rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not _PORT.fullmatch(port) or (":" in host) != is_bracketed:
        raise unexpected(LinkError, "`tcp://host:port` (an IPv6 address in brackets)", f"{text!r}")
    return TcpAddress(host[1:-1] if is_bracketed else host, int(port))


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host)
    return None


def _is_ipv6(host: str) -> bool:
    ip = _ip(host)
    scope = ip.scope_id if isinstance(ip, ipaddress.IPv6Address) else ""
    return scope is None or _SCOPE.fullmatch(scope) is not None

"""Addresses: written and read the same, and refused with a reason."""

from __future__ import annotations

import pytest

from echo_core.errors import LinkError
from echo_core.transports.addresses import TcpAddress, UnixAddress, parse_address
from echo_core.transports.limits import MAX_ADDRESS_BYTES


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp://127.0.0.1:4711", TcpAddress("127.0.0.1", 4711)),
        ("tcp://node-7.example.org:0", TcpAddress("node-7.example.org", 0)),
        ("tcp://[::1]:65535", TcpAddress("::1", 65535)),
        ("tcp://[fe80::1%eth0]:80", TcpAddress("fe80::1%eth0", 80)),
        ("unix:@echo/1234-ab", UnixAddress("echo/1234-ab")),
        ("unix:@" + "n" * 107, UnixAddress("n" * 107)),
    ],
)
def test_an_address_is_read_as_it_is_written(text: str, address: TcpAddress | UnixAddress) -> None:
    """Both ways, and short enough for every message."""
    assert parse_address(text) == address
    assert str(address) == text
    assert len(text) <= MAX_ADDRESS_BYTES


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tcp",
        "tcp://",
        "tcp://host",
        "tcp://host:",
        "tcp://:1",
        "tcp://host:65536",
        "tcp://host:-1",
        "tcp://host:1 ",
        "tcp://host:\u0661",
        "tcp://ho st:1",
        "tcp://::1:1",
        "tcp://[::1]",
        "tcp://[::1:1",
        "tcp://[host]:1",
        "tcp://[::g]:1",
        "tcp://[::1%a\0]:1",
        "tcp://[::1%\u00e9]:1",
        "tcp://" + "h" * 201 + ":1",
        "unix:@",
        "unix:/tmp/socket",
        "unix:@a b",
        "unix:@" + "n" * 108,
        "udp://127.0.0.1:1",
        "TCP://127.0.0.1:1",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    """With an error that says what was expected."""
    with pytest.raises(LinkError, match="Expected"):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
    ],
)
def test_loopback_is_told_from_the_rest(host: str, is_loopback: bool) -> None:
    """A listener that other hosts can reach has to be asked for."""
    assert TcpAddress(host, 1).is_loopback is is_loopback

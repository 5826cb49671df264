"""Links, rings and pools for tests, which are closed whatever happens."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from echo_core._c.links import (
    Link,
    Pool,
    SocketWire,
)
from tests.native.link_ends import (
    Ends,
    Peer,
    link_over,
    wires,
)
from tests.native.pools import BLOCK_BYTES, BLOCKS
from tests.native.rings import Sides, sides
from tests.native.slow_handlers import Readers


@pytest.fixture(params=["tcp", "unix", "ring"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """Two links, of which `other` keeps the control frames that it gets."""
    one, other = wires(request.param)
    messages: list[tuple[int, bytes]] = []
    pair = Ends(
        request.param,
        link_over(one),
        link_over(other, lambda kind, payload: messages.append((kind, payload))),
        messages,
    )
    yield pair
    pair.close()


@pytest.fixture
def peer() -> Iterator[tuple[SocketWire, Peer]]:
    """A wire, and who is at its other end. Small buffers: it is full soon."""
    one, other = socket.socketpair()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    other.settimeout(30)
    yield SocketWire(one.detach()), Peer(other)
    other.close()


@pytest.fixture
def pair() -> Iterator[Sides]:
    """Sides that are closed in the end."""
    one, other, memory = sides()
    yield one, other, memory
    one.close()
    other.close()
    memory.close()


@pytest.fixture
def pool() -> Iterator[Pool]:
    """Of eight blocks."""
    pool = Pool(block_bytes=BLOCK_BYTES, blocks=BLOCKS)
    yield pool
    pool.close()


@pytest.fixture
def readers() -> Iterator[Readers]:
    """All of them end with their links."""
    readers = Readers()
    yield readers
    readers.join()


@pytest.fixture
def link(peer: tuple[SocketWire, Peer]) -> Iterator[Link]:
    link = link_over(peer[0])
    yield link
    with suppress(Exception):
        link.shut()

"""Streams as base classes: what Python adds to the C half of a stream takes part in all that C does."""

from __future__ import annotations

import gc
import weakref
from typing import Any, Self

import pytest

from echo_core._c.links import BLOCK, Delivery, IncomingStream, Link, OutgoingStream, Outlet, SocketWire
from tests.native.link_ends import NO_LIMIT, Ends, Peer, eventually, link_over

LIMITS: dict[str, Any] = {"max_events": 10, "max_bytes": 1000, "policy": BLOCK, "timeout_ns": 0}


class Outgoing(OutgoingStream):
    """With slots, as a stream has them where there are many."""

    __slots__ = ("__weakref__", "cursor", "source")

    cursor: int
    source: object

    def __new__(cls, source: object, link: Link, stream: int, outlet: Outlet | None = None) -> Self:
        self = super().__new__(cls, link, stream, "a source", outlet, **LIMITS)
        self.source = source
        self.cursor = 0
        return self


class Incoming(IncomingStream):
    """With slots, and a name for arguments that the base knows nothing of."""

    __slots__ = ("__weakref__", "owner")

    owner: object

    def __new__(cls, owner: object, record_size: int = 0) -> Self:
        self = super().__new__(cls, record_size=record_size)
        self.owner = owner
        return self


class Loose(IncomingStream):
    """With a dictionary, and without a constructor."""


class Farther(Outgoing):
    """Two classes away from the C type."""

    __slots__ = ()


@pytest.mark.parametrize("class_", [Outgoing, Farther])
def test_events_leave_by_a_stream_of_a_subclass(class_: type[Outgoing], ends: Ends) -> None:
    """Everywhere a stream is wanted: in the outlet's tuple, added to it, counted by it, bound to the link."""
    outlet, received = Outlet(bytes, bytes), list[bytes]()
    outgoing, incoming = class_("a source", ends.one, 64, outlet), Incoming("an owner")
    outgoing.grant(NO_LIMIT, NO_LIMIT)
    incoming.deliveries = (Delivery(received.append, bytes, print),)
    ends.other.bind(64, incoming)
    ends.run()
    outlet.outgoing = (outgoing,)
    assert outlet.may_drop
    outlet.submit(b"one")
    outlet.outgoing = ()
    assert outlet.begin(outgoing, 0) == (1, 0)
    outlet.submit(b"two")
    eventually(lambda: incoming.events == 2)
    assert received == [b"one", b"two"]
    assert (outgoing.events, outgoing.cursor, outgoing.source) == (2, 0, "a source")
    assert (incoming.sequence, incoming.owner) == (2, "an owner")


def test_a_subclass_may_have_a_dictionary_and_no_constructor() -> None:
    """Arguments of the base and attributes of one's own."""
    loose = Loose(record_size=8, sequence=3)
    loose.anything = loose  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    loose.deliveries = (Delivery(print, bytes, print, record_size=8),)
    assert (loose.sequence, len(loose.deliveries)) == (3, 1)


def test_what_is_no_stream_is_still_refused(peer: tuple[SocketWire, Peer]) -> None:
    """A class that only looks like one."""
    link, outlet = link_over(peer[0]), Outlet(bytes, bytes)
    streams: Any = (Outgoing(None, link, 64), Incoming(None))
    with pytest.raises(TypeError, match="Expected a tuple of"):
        outlet.outgoing = streams
    with pytest.raises(TypeError):
        link.bind(64, streams[0])


def test_cycles_through_streams_of_subclasses_are_collected(peer: tuple[SocketWire, Peer]) -> None:
    """Through slots, a dictionary, a handler of events, one of control frames, and the class."""

    class Owner:
        def __init__(self, wire: SocketWire) -> None:
            self.link = link_over(wire, control=self.take)
            self.outlet = Outlet(bytes, bytes)
            self.outgoing = Outgoing(self, self.link, 64, self.outlet)
            self.outlet.outgoing = (self.outgoing,)
            self.incoming = [Incoming(self), Loose()]
            self.incoming[1].owner = self  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
            for stream, incoming in enumerate(self.incoming, 64):
                incoming.deliveries = (Delivery(self.handle, bytes, print),)
                self.link.bind(stream, incoming)

        def take(self, kind: int, payload: bytes) -> None: ...

        def handle(self, event: Any) -> None: ...

    owner = Owner(peer[0])
    watched: list[object] = [owner, owner.outgoing, *owner.incoming, Owner]
    gone = [weakref.ref(each) for each in watched]
    del owner, Owner, watched
    gc.collect()
    assert [each() for each in gone] == [None] * 5


def test_classes_of_streams_are_let_go_of_with_their_last_stream(peer: tuple[SocketWire, Peer]) -> None:
    """A stream holds its class once, and its base gives that reference back."""

    class Passing(Outgoing):
        __slots__ = ()

    class Coming(Incoming):
        __slots__ = ()

    link = link_over(peer[0])
    for _ in range(100):
        Passing(None, link, 64)
        Coming(None)
    gone = [weakref.ref(class_) for class_ in (Passing, Coming)]
    del Passing, Coming
    gc.collect()
    assert [each() for each in gone] == [None, None]


def test_a_constructor_that_fails_leaves_nothing_behind(peer: tuple[SocketWire, Peer]) -> None:
    """A half-made stream is taken apart like any other."""
    link = link_over(peer[0])
    with pytest.raises(ValueError, match="Expected stream from 64"):
        Outgoing(None, link, 63)
    with pytest.raises(ValueError, match="Expected the size of a record"):
        Incoming(None, record_size=-1)
    gc.collect()

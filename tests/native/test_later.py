"""What a stream of an outlet begins with that is derived from one with a history: what was judged anew, and
what has passed meanwhile.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from echo_core._c.links import DROP_OLDEST, Branch, Link, OutgoingStream, Outlet, SocketWire
from tests.native.link_ends import NO_LIMIT, Peer, events_of, link_over

KIND_STARTED, KIND_LAST = 12, 17
MOST = 10
LARGE_BYTES = 17 << 20  # more than is noted at all


def outlets(record_size: int = 8) -> tuple[Outlet, Outlet]:
    """One that keeps, and what is derived from it, where all events pass."""
    root = Outlet(None, bytes, record_size=record_size, keep_events=MOST, keep_bytes=1 << 26)
    derived = Outlet(None, bytes, record_size=record_size, first_number=MOST)
    root.branches = (Branch(None, derived),)
    return root, derived


class Begun:
    """A stream that begins at a peer."""

    def __init__(self, peer: tuple[SocketWire, Peer], outlet: Outlet) -> None:
        self._peer = peer[1]
        self.link: Link = link_over(peer[0])
        self.outlet = outlet
        self.stream = OutgoingStream(
            self.link,
            64,
            "a source",
            outlet,
            max_events=1000,
            max_bytes=1 << 26,
            policy=DROP_OLDEST,
            timeout_ns=0,
        )

    def begin(
        self, earlier: list[tuple[bytes, int]], following: int, first: int = 0
    ) -> tuple[tuple[int, int], list[int]]:
        """The number of the first event and how many were kept, as the peer is told, and all that comes."""
        self.outlet.begin(self.stream, first, earlier, following)
        self.stream.grant(NO_LIMIT, NO_LIMIT)
        self.stream.send(KIND_LAST, bytes(8))
        frames = self._peer.frames_until(KIND_LAST)
        kept, sequence = struct.unpack_from("<QQ", frames[0][1], 8)
        assert frames[0][0] == KIND_STARTED
        return (sequence, kept), events_of(frames[1:])


@pytest.fixture
def derived_from() -> tuple[Outlet, Outlet]:
    return outlets()


@pytest.fixture
def begun(peer: tuple[SocketWire, Peer], derived_from: tuple[Outlet, Outlet]) -> Iterator[Begun]:
    made = Begun(peer, derived_from[1])
    yield made
    made.link.shut()


def records(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def earlier_of(root: Outlet, derived: Outlet) -> tuple[list[tuple[bytes, int]], int]:
    """As where all is judged to pass."""
    kept, following = derived.kept_at(root)
    return [(record, submitted_ns) for _, record, submitted_ns in kept], following


def test_what_passes_meanwhile_follows_what_was_judged_anew(
    derived_from: tuple[Outlet, Outlet], begun: Begun
) -> None:
    """By its numbers, too, which end where those of new events begin."""
    root, derived = derived_from
    root.submit_records(records(0, 1, 2))
    derived.follow(True)
    earlier, following = earlier_of(root, derived)
    root.submit_records(records(3, 4))
    told, events = begun.begin(earlier, following)
    assert (following, derived.sequence) == (MOST + 3, MOST + 5)
    assert (told, events) == ((MOST, 5), [0, 1, 2, 3, 4])


def test_no_more_is_kept_than_its_first_number_says(
    derived_from: tuple[Outlet, Outlet], begun: Begun
) -> None:
    """The last of it, as a receiver is told how many there may be."""
    root, derived = derived_from
    root.submit_records(records(*range(20)))
    derived.follow(True)
    earlier, following = earlier_of(root, derived)
    root.submit_records(records(20, 21, 22))
    told, events = begun.begin(earlier, following)
    assert (told, events) == ((MOST + 13, 10), list(range(13, 23)))


def test_who_has_had_some_gets_the_rest(derived_from: tuple[Outlet, Outlet], begun: Begun) -> None:
    root, derived = derived_from
    root.submit_records(records(0, 1, 2, 3))
    told, events = begun.begin(*earlier_of(root, derived), MOST + 2)
    assert (told, events) == ((MOST + 2, 2), [2, 3])


def test_nothing_is_noted_for_nobody(derived_from: tuple[Outlet, Outlet]) -> None:
    """Events are numbered, whoever takes them."""
    root, derived = derived_from
    root.submit_records(records(0, 1))
    derived.follow(True)
    root.submit_records(records(2, 3))
    assert [number for number, _, _ in derived.kept_since(0, True)[0]] == [MOST + 2, MOST + 3]
    derived.follow(False)
    root.submit_records(records(4))
    assert derived.kept_since(0, True) == ([], MOST + 5)


def test_what_comes_before_an_event_that_cannot_be_noted_is_left_out(peer: tuple[SocketWire, Peer]) -> None:
    """A receiver is told of no gap there, so its numbers would be wrong."""
    root, derived = outlets(0)
    begun = Begun(peer, derived)
    for event in (records(0), records(1)):
        root.submit(event)
    derived.follow(True)
    earlier, following = earlier_of(root, derived)
    for event in (records(2), bytes(LARGE_BYTES), records(3)):
        root.submit(event)
    told, events = begun.begin(earlier, following)
    assert (told, events) == ((MOST + 4, 1), [3])
    begun.link.shut()


@pytest.mark.parametrize("item", [(b"", 1.0), (bytearray(), 1), (b"",), [b"", 1], (b"", 1 << 70)])
def test_other_than_records_and_their_times_are_refused(
    derived_from: tuple[Outlet, Outlet], begun: Begun, item: object
) -> None:
    """And nothing has begun."""
    with pytest.raises((TypeError, OverflowError)):
        derived_from[1].begin(begun.stream, 0, [(b"12345678", 0), item], MOST)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="from 0 on"):
        derived_from[1].begin(begun.stream, 0, [(b"12345678", 0)] * 3, 2)
    assert derived_from[1].outgoing == ()


def test_what_keeps_itself_has_no_first_number() -> None:
    """Nor is there one beyond those of events."""
    with pytest.raises(ValueError, match="without a history"):
        Outlet(None, bytes, keep_events=1, keep_bytes=100, first_number=1)
    with pytest.raises(ValueError, match="below 2"):
        Outlet(None, bytes, first_number=1 << 63)
    with pytest.raises(TypeError, match="Outlet"):
        Outlet(None, bytes).kept_at(b"")  # type: ignore[arg-type]


def test_a_closed_outlet_has_nothing_for_anybody(derived_from: tuple[Outlet, Outlet]) -> None:
    """Also where a sink still follows it."""
    root, derived = derived_from
    derived.follow(True)
    root.submit_records(records(0))
    derived.close()
    root.close()
    derived.follow(False)
    assert derived.kept_since(0, True) == derived.kept_at(root) == ([], MOST + 1)

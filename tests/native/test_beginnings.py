"""What a stream queues when it begins, again and again, while its peer reads nothing."""

from __future__ import annotations

import struct

import pytest

from echo_core._c.links import DROP_OLDEST, Link, OutgoingStream, Outlet, SocketWire
from echo_core.errors import LinkError
from tests.native.link_ends import NO_LIMIT, Peer, events_of, fill, link_over, source

KEYS = 200
STARTED_FRAME_BYTES = 32
KIND_STARTED, KIND_GAP, KIND_LAST = 12, 2, 17


def outlet_that_keeps_by_key() -> Outlet:
    """One event of each key; numbers between them are missing."""
    outlet = Outlet(
        None, bytes, record_size=16, keep_events=1, keep_bytes=1 << 20, key=(0, 8, False, False, KEYS)
    )
    for key in range(KEYS):
        for value in range(2):
            outlet.submit_records(struct.pack("<QQ", key, value))
    return outlet


def stream_of(link: Link, outlet: Outlet, max_events: int = 1000) -> OutgoingStream:
    return OutgoingStream(
        link,
        64,
        "a source",
        outlet,
        max_events=max_events,
        max_bytes=1 << 24,
        policy=DROP_OLDEST,
        timeout_ns=0,
    )


def begin_again(outlet: Outlet, outgoing: OutgoingStream) -> None:
    """Its last sink goes, and another one comes."""
    outlet.outgoing = ()
    outlet.begin(outgoing, 0)


@pytest.mark.parametrize("max_events", [1000, 50])
def test_a_stream_that_begins_again_and_again_has_one_beginning_wait(link: Link, max_events: int) -> None:
    """And the STARTED of the others, whether or not all fits that is kept."""
    outlet = outlet_that_keeps_by_key()
    outgoing = stream_of(link, outlet, max_events)
    outlet.begin(outgoing, 0)
    once = outgoing.queued_bytes
    for _ in range(100):
        begin_again(outlet, outgoing)
        outlet.submit_records(bytes(16))
    begin_again(outlet, outgoing)
    assert outgoing.queued_events == min(max_events, KEYS)
    assert outgoing.queued_bytes <= once + 101 * STARTED_FRAME_BYTES
    assert outgoing.events == outgoing.queued_events + outgoing.dropped


def test_sinks_of_a_new_beginning_get_all_of_it(peer: tuple[SocketWire, Peer]) -> None:
    """In its order, with the numbers that are missing between."""
    link = link_over(peer[0])
    outlet = outlet_that_keeps_by_key()
    outgoing = stream_of(link, outlet)
    for _ in range(3):
        begin_again(outlet, outgoing)
    outgoing.grant(NO_LIMIT, NO_LIMIT)
    outgoing.send(KIND_LAST, bytes(8))
    frames = peer[1].frames_until(KIND_LAST)
    last = max(i for i, (kind, _) in enumerate(frames) if kind == KIND_STARTED)
    assert [kind for kind, _ in frames[: last + 1]] == [KIND_STARTED] * 3
    assert events_of(frames[last:]) == list(range(KEYS))
    number, numbers = struct.unpack_from("<Q", frames[last][1], 16)[0], list[int]()
    for kind, payload in frames[last + 1 :]:
        if kind == KIND_GAP:
            assert struct.unpack_from("<I", payload, 4)[0] == 1
            number += struct.unpack_from("<Q", payload, 8)[0]
        else:
            numbers.append(number)
            number += 1
    assert numbers == list(range(1, 2 * KEYS, 2))
    link.shut()


def test_beginnings_count_among_what_a_peer_may_let_wait(peer: tuple[SocketWire, Peer]) -> None:
    """As other control frames do, and not one more."""
    link = link_over(peer[0], control_bytes=10 * STARTED_FRAME_BYTES)
    fill(*source(link, 65))
    outlet = outlet_that_keeps_by_key()
    outgoing = stream_of(link, outlet)
    for _ in range(10):
        begin_again(outlet, outgoing)
    waiting = outgoing.queued_bytes
    assert waiting > 10 * STARTED_FRAME_BYTES
    begin_again(outlet, outgoing)
    assert (outgoing.queued_bytes, outgoing.queued_events) == (0, 0)
    with pytest.raises(LinkError, match="control frames"):
        link.run()


def test_gaps_between_which_no_event_is_left_become_one(peer: tuple[SocketWire, Peer]) -> None:
    """Of each kind; so what does not fit leaves no more behind than what does."""
    link = link_over(peer[0])
    outlet = outlet_that_keeps_by_key()
    outgoing = stream_of(link, outlet, max_events=10)
    outlet.begin(outgoing, 0)
    outgoing.grant(NO_LIMIT, NO_LIMIT)
    outgoing.send(KIND_LAST, bytes(8))
    frames = peer[1].frames_until(KIND_LAST)
    assert [kind for kind, _ in frames[:5]] == [KIND_STARTED, *[KIND_GAP] * 3, 64]
    assert events_of(frames) == list(range(KEYS - 10, KEYS))
    gaps = [struct.unpack_from("<IQ", payload, 4) for kind, payload in frames if kind == KIND_GAP]
    kept = struct.unpack_from("<Q", frames[0][1], 8)[0]
    assert sum(events for _, events in gaps) + 10 == kept
    assert [events for why, events in gaps if why == 0] == [KEYS - 10]
    link.shut()

"""A signal that ends a submission: every other process hears of what it does not get."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from echo_core._c.links import Delivery, OutgoingStream, Outlet, SocketWire
from tests.native.link_ends import KIND_GAP, PATIENCE_NS, Peer, counted, link_over, repeat, source
from tests.native.sinks import Sink


@pytest.fixture
def full_stream() -> Iterator[tuple[OutgoingStream, Peer]]:
    """Nobody reads what it sends until the test does. A signal interrupts while a submission waits."""
    one, other = socket.socketpair()
    other.settimeout(30)
    link = link_over(SocketWire(one.detach()))
    outgoing = source(link, max_events=1)[1]
    signals_when_full: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        """Not at the first signal that finds the backlog full: the submission may not wait yet."""
        signals_when_full.extend([number] * outgoing.queued_events)
        if len(signals_when_full) >= 3:
            signal.setitimer(signal.ITIMER_REAL, 0)  # the next one would end all tests
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    yield outgoing, Peer(other)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    link.shut()
    other.close()


@pytest.mark.parametrize("submit", [Outlet.submit, Outlet.submit_records])
def test_streams_that_are_not_reached_count_the_event_as_dropped(
    submit: Callable[[Outlet, bytes], None],
    full_stream: tuple[OutgoingStream, Peer],
    peer: tuple[SocketWire, Peer],
) -> None:
    wire, far = peer
    link = link_over(wire)
    _, free = source(link, max_events=1 << 30, max_bytes=1 << 30, timeout_ns=PATIENCE_NS)
    outlet, here = Outlet(bytes, bytes, record_size=1000), Sink()
    outlet.outgoing = (full_stream[0], free)
    outlet.direct = (Delivery(here, bytes, here.on_error),)
    with pytest.raises(KeyboardInterrupt):
        repeat(submit, outlet, bytes(1000))
    assert len(here.events) == outlet.sequence
    assert (free.events, free.dropped) == (outlet.sequence - 1, 1)
    free.send(9, b"")
    assert counted([*far.frames_until(9), (64, b"")])[-1] == outlet.sequence


def test_records_behind_an_interrupted_frame_count_as_dropped(
    full_stream: tuple[OutgoingStream, Peer],
) -> None:
    outgoing, far = full_stream
    outlet = Outlet(bytes, bytes, record_size=8, max_payload=8000)
    outlet.outgoing = (outgoing,)
    with pytest.raises(KeyboardInterrupt):
        repeat(outlet.submit_records, bytes(80_000))
    assert outgoing.events + outgoing.dropped == outlet.sequence
    outgoing.send(9, b"")
    frames = far.frames_until(9)
    gaps = [int.from_bytes(payload[8:], "little") for kind, payload in frames if kind == KIND_GAP]
    assert gaps == [outgoing.dropped]
    assert sum(len(payload) // 8 for kind, payload in frames if kind == 64) == outgoing.events

"""Links whose peer does not read: what waits, what is dropped, and who is told."""

from __future__ import annotations

import _thread
import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from echo_core._c.links import (
    BLOCK,
    DROP_NEWEST,
    DROP_OLDEST,
    ERROR,
    OutgoingStream,
    Outlet,
    SocketWire,
)
from echo_core.errors import BacklogError, EncodeError, LinkError
from tests.native.link_ends import (
    KIND_GAP,
    NO_LIMIT,
    PATIENCE_NS,
    ROOT,
    Peer,
    Runner,
    counted,
    events_of,
    eventually,
    fill,
    link_over,
    number_of,
    numbered,
    repeat,
    source,
)
from tests.native.queues import demand_interrupt


@pytest.mark.parametrize("policy", [DROP_OLDEST, DROP_NEWEST])
def test_receiver_can_count_what_was_dropped(policy: int, peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link, max_events=20, policy=policy)
    sent = fill(outlet, outgoing)
    for number in range(sent, sent + 200):
        outlet.submit(numbered(number))
    assert outgoing.queued_events == link.queued_events == 20
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(far.frames_until, 9)
        assert link.drain(PATIENCE_NS)
        outlet.submit(numbered(sent + 200))
        link.send(9, b"")
        frames = reading.result(30)
    came = events_of(frames)
    assert counted(frames) == came
    assert came == sorted(came)
    assert came[-1] == sent + 200
    assert outgoing.dropped == link.dropped == sent + 201 - len(came) > 100
    assert link.queued_events == 0
    assert (came[-2] == sent + 199) == (policy == DROP_OLDEST)


def test_oldest_is_dropped_around_control_frames(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link, max_events=10, policy=DROP_OLDEST)
    sent = fill(outlet, outgoing)
    for number in range(sent, sent + 100):
        outlet.submit(numbered(number))
        if number % 7 == 0:
            outgoing.send(10, number.to_bytes(8, "little"))
    link.send(9, b"")
    frames = far.frames_until(9)
    assert counted(frames) == events_of(frames)
    marks = [number_of(payload) for kind, payload in frames if kind == 10]
    assert marks == [number for number in range(sent, sent + 100) if number % 7 == 0]
    for at, (kind, payload) in enumerate(frames):
        if kind == 10:  # between the events that it was sent between, and so are the gaps
            assert len(counted([*frames[:at], (64, b"")])) == 1 + len(events_of(frames[:at]))
            assert counted([*frames[:at], (64, b"")])[-1] == number_of(payload) + 1


def test_full_backlog_raises_under_error_and_the_receiver_can_count(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link, max_events=5, policy=ERROR)
    sent = fill(outlet, outgoing)
    for number in range(sent, sent + 4):
        outlet.submit(numbered(number))
    with pytest.raises(BacklogError, match="backlog of a source is full: expected at most 5 events"):
        outlet.submit(numbered(sent + 4))
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(far.frames_until, 9)
        assert link.drain(PATIENCE_NS)
        outlet.submit(numbered(sent + 5))
        link.send(9, b"")
        frames = reading.result(30)
    assert counted(frames) == events_of(frames) == [*range(sent + 4), sent + 5]
    assert (outgoing.events, outgoing.dropped) == (sent + 5, 1)


def test_backlog_is_bounded_in_bytes_too(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    outlet, outgoing = source(link_over(wire), max_bytes=10 * 1008, policy=DROP_NEWEST)
    fill(outlet, outgoing)
    for number in range(20):
        outlet.submit(numbered(number))
    assert (outgoing.queued_events, outgoing.queued_bytes) == (10, 10080)


def test_record_larger_than_the_backlog_waits_alone(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link, max_bytes=100, policy=DROP_NEWEST)
    sent = fill(outlet, outgoing)
    outlet.submit(numbered(sent))
    assert (outgoing.queued_events, outgoing.dropped) == (1, 1)
    link.send(9, b"")
    assert events_of(far.frames_until(9)) == list(range(sent))


def test_submit_that_blocks_gives_up_in_time(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    outlet, outgoing = source(link_over(wire), max_events=5, timeout_ns=20_000_000)
    with pytest.raises(BacklogError, match="backlog of a source was full for 20 ms"):
        repeat(outlet.submit, numbered(0))
    assert (outgoing.queued_events, outgoing.dropped) == (5, 1)


@pytest.mark.parametrize("size", [1000, 60000, 200000])
def test_submit_that_blocks_goes_on_when_the_peer_reads(size: int, peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link, max_events=5)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(far.frames_until, 9)
        for number in range(300):
            outlet.submit(numbered(number, size))
        link.send(9, b"")
        frames = reading.result(60)
    assert [payload for _, payload in frames] == [numbered(number, size) for number in range(300)]
    assert (outgoing.events, outgoing.dropped) == (300, 0)


def test_submit_that_blocks_ends_with_the_link(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link, max_events=5)
    sent = fill(outlet, outgoing)

    def submit_more() -> None:
        for number in range(100):
            outlet.submit(numbered(number))

    with ThreadPoolExecutor(1) as pool:
        submitting = pool.submit(submit_more)
        eventually(lambda: outgoing.queued_events == 5)
        far.socket.close()
        submitting.result(30)
    assert outgoing.events + outgoing.dropped >= sent + 100
    assert outgoing.queued_events == 0
    assert not link.is_open


def test_interrupt_ends_a_submit_that_blocks(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    outlet, outgoing = source(link_over(wire), max_events=5, timeout_ns=-1)
    fill(outlet, outgoing)
    demand_interrupt(repeat, outlet.submit, numbered(0))
    assert (outgoing.queued_events, outgoing.dropped) == (5, 1)


def test_submit_that_blocks_notices_a_signal_that_interrupts_no_system_call(
    peer: tuple[SocketWire, Peer],
) -> None:
    """As one that comes while the thread has slept enough, and no processor is free for it."""
    wire, _ = peer
    outlet, outgoing = source(link_over(wire), max_events=5, timeout_ns=-1)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - on a busy machine it may come before the wait
        threading.Timer(0.05, _thread.interrupt_main).start()
        repeat(outlet.submit, numbered(0))
    assert outgoing.link.is_open  # or it is noticed when the link has ended


def test_source_with_much_waiting_holds_up_no_other(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    much, outgoing = source(link, 64)
    sent = fill(much, outgoing)
    for number in range(sent, sent + 500):
        much.submit(numbered(number))
    little, _ = source(link, 65)
    little.submit(b"little")
    link.send(9, b"")
    frames = far.frames_until(9)
    assert events_of(frames) == list(range(sent + 500))
    assert frames.index((65, b"little")) <= sent + 2


def test_control_frame_waits_behind_every_event_before_it_and_no_other(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlets = [source(link, stream)[0] for stream in (64, 65, 66)]
    first, outgoing = source(link, 67)
    fill(first, outgoing)
    for number in range(30):
        outlets[number % 3].submit(numbered(number))
    link.send(10, b"fence")
    for number in range(30, 60):
        outlets[number % 3].submit(numbered(number))
    link.send(9, b"")
    frames = [frame for frame in far.frames_until(9) if frame[0] != 67]
    fence = frames.index((10, b"fence"))
    assert sorted(number_of(payload) for _, payload in frames[:fence]) == list(range(30))
    assert sorted(number_of(payload) for _, payload in frames[fence + 1 :]) == list(range(30, 60))


def test_peer_that_reads_nothing_for_too_long_loses_the_link(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    link = link_over(wire, stall_ns=30_000_000)
    runner = Runner(link)
    outlet, outgoing = source(link)
    sent = fill(outlet, outgoing)
    with pytest.raises(LinkError, match=r"The peer has read nothing for (29|30) ms"):
        runner.end()
    assert not link.is_open
    outlet.submit(b"into nothing")
    assert (outgoing.queued_events, outgoing.dropped) == (0, 1 + 1)
    assert outgoing.events == sent
    with pytest.raises(LinkError, match="read nothing"):
        link.send(9, b"")


def test_peer_that_lets_control_frames_pile_up_loses_the_link(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    link = link_over(wire, control_bytes=10000)
    runner = Runner(link)
    with pytest.raises(LinkError, match="more than 10000 bytes of control frames"):
        repeat(link.send, 9, bytes(1000))
    with pytest.raises(LinkError, match="does not read"):
        runner.end()


def test_control_frames_of_streams_are_bounded_too(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    link = link_over(wire, control_bytes=10000)
    outgoing = (source(link, stream)[1] for stream in range(64, 10064))
    with pytest.raises(LinkError, match="does not read"):
        repeat(lambda: next(outgoing).send(9, bytes(1000)))


def test_backlog_of_a_closed_stream_is_still_sent(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link)
    sent = fill(outlet, outgoing)
    outgoing.close()
    outlet.submit(b"late")
    assert (outgoing.events, outgoing.dropped) == (sent, 1)
    del outlet, outgoing
    gc.collect()
    link.send(9, b"")
    assert events_of(far.frames_until(9)) == list(range(sent))


@pytest.mark.parametrize("size", [1000, 60000, 200000])
def test_submit_that_blocks_ends_with_its_stream(size: int, peer: tuple[SocketWire, Peer]) -> None:
    """Nothing of the stream follows the frame that says so: its number may be another source's by then."""
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link, max_events=5)
    with ThreadPoolExecutor(1) as pool:
        submitting = pool.submit(repeat, outlet.submit, numbered(0, size))
        eventually(lambda: outgoing.queued_events == 5)
        outgoing.close()
        outgoing.send(9, b"closed")
        submitting.result(30)
    assert outgoing.events + outgoing.dropped == 10000
    link.send(10, b"")
    frames = far.frames_until(10)
    assert frames[-1] == (9, b"closed")
    assert len(events_of(frames)) == outgoing.events


def test_receiver_can_count_what_a_stream_had_dropped_when_it_was_closed(
    peer: tuple[SocketWire, Peer],
) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link, max_events=5, policy=DROP_NEWEST)
    sent = fill(outlet, outgoing)
    for _ in range(20):
        outlet.submit(numbered(0))
    outgoing.close()
    link.send(9, b"")
    *frames, (kind, payload) = far.frames_until(9)
    assert (kind, int.from_bytes(payload[8:], "little")) == (KIND_GAP, 16)
    assert len(frames) == sent + 4


def test_receiver_hears_of_drops_of_a_source_that_then_rests(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    outlet, outgoing = source(link, max_events=5, policy=DROP_NEWEST)
    sent = fill(outlet, outgoing)
    for _ in range(20):
        outlet.submit(numbered(0))
    frames = far.frames_until(KIND_GAP)
    assert len(frames) == sent + 4
    assert outgoing.dropped == 16


@pytest.mark.parametrize(("max_payload", "size"), [(100, 101), (0xFFFFFFFF, 1 << 31)])
def test_receiver_hears_of_a_record_that_is_too_large_for_it(
    max_payload: int, size: int, peer: tuple[SocketWire, Peer]
) -> None:
    """Though nothing else waits, or comes."""
    wire, far = peer
    outgoing = OutgoingStream(
        link_over(wire),
        64,
        "a source",
        max_events=5,
        max_bytes=1000,
        policy=ERROR,
        timeout_ns=0,
        max_payload=max_payload,
    )
    outgoing.grant(NO_LIMIT, NO_LIMIT)
    outlet = Outlet(bytes, bytes)
    outlet.outgoing = (outgoing,)
    with pytest.raises(
        EncodeError, match=f"at most {min(max_payload, 0x7FFFFFFF)} bytes.* got {size} - in a source"
    ):
        outlet.submit(bytes(size))
    assert far.frames_until(KIND_GAP) == []
    assert (outgoing.events, outgoing.dropped, outgoing.queued_bytes) == (0, 1, 0)


def test_outlet_counts_what_its_streams_have_dropped_also_when_they_are_gone(
    peer: tuple[SocketWire, Peer],
) -> None:
    """A thread that waits for room when the link ends may have the last reference to the stream."""
    wire, far = peer
    link, outlet = link_over(wire), Outlet(bytes, bytes)
    settings = {"max_events": 5, "max_bytes": 1 << 24, "policy": BLOCK, "timeout_ns": PATIENCE_NS}
    outlet.outgoing = (OutgoingStream(link, 64, "a source", outlet, **settings),)
    outlet.outgoing[0].grant(NO_LIMIT, NO_LIMIT)

    def is_waiting() -> bool:
        outgoing = outlet.outgoing[0]
        return outgoing.queued_events == 5 and outgoing.events < outlet.sequence

    with ThreadPoolExecutor(1) as pool:
        submitting = pool.submit(repeat, outlet.submit, numbered(0))
        eventually(is_waiting)
        outlet.outgoing = ()
        assert (outlet.dropped, outlet.may_drop) == (0, True)
        far.socket.close()
        submitting.result(30)
    eventually(lambda: not outlet.may_drop)
    assert outlet.dropped == link.dropped >= 1


@pytest.mark.skipif("san.so" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer takes all addresses")
@pytest.mark.parametrize("policy", [DROP_OLDEST, DROP_NEWEST])
def test_event_that_there_is_no_memory_for_is_counted_as_dropped(policy: int) -> None:
    """The link ends with it; in a process of its own, whose memory is limited."""
    program = (
        "import re, resource, socket\n"
        "from pathlib import Path\n"
        "from tests.native.link_ends import *\n"
        "one, other = socket.socketpair()\n"
        "link = link_over(SocketWire(one.detach()))\n"
        f"outlet, outgoing = source(link, max_bytes=1 << 40, policy={policy})\n"
        "large = bytes(1 << 28)\n"
        "sent = fill(outlet, outgoing)\n"
        "status = Path('/proc/self/status').read_text()\n"
        "limit = 1024 * int(re.search(r'VmSize:\\s+(\\d+)', status)[1]) + (1 << 26)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "outlet.submit(large)\n"
        "outlet.submit(b'late')\n"
        "print(outgoing.events - sent, outgoing.queued_events, outgoing.dropped, link.is_open)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("0 0 3 False\n", "")

"""How links end: closed, abandoned, forked, killed."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from typing import Any

import pytest

from echo_core._c.links import (
    BLOCK,
    Link,
    OutgoingStream,
    SocketWire,
)
from echo_core.errors import ClosedError, LinkError, WireError
from tests.native.link_ends import (
    PATIENCE_NS,
    ROOT,
    Ends,
    Peer,
    Runner,
    eventually,
    fill,
    leading_queue,
    link_over,
    number_of,
    numbered,
    sink,
    source,
    wires,
)
from tests.native.rings import GOOD_SIZE, RING_BYTES, WRITTEN, Sides, place_of, put_number
from tests.native.test_link_frames import frame_bytes

# At the reader, when it has been given to the system. TCP may still be bringing it.
WRITTEN_IS_THERE = pytest.mark.parametrize("ends", ["unix", "ring"], indirect=True)


def test_shut_ends_both_sides(ends: Ends) -> None:
    ends.run()
    ends.one.shut()
    for runner in ends.runners:
        runner.end()
    assert not ends.one.is_open
    assert not ends.other.is_open
    with pytest.raises(ClosedError, match="The link is closed"):
        ends.one.send(9, b"")


def test_events_after_the_end_are_counted_as_dropped(ends: Ends) -> None:
    outlet, outgoing = source(ends.one)
    ends.one.shut()
    outlet.submit(b"")
    assert (outgoing.events, outgoing.dropped) == (0, 1)


@WRITTEN_IS_THERE
def test_what_a_peer_wrote_before_it_was_gone_is_delivered(ends: Ends) -> None:
    """In order, control frames too; then the link has ended, and nobody has failed."""
    events: list[bytes] = []
    sink(ends.other, events.append)
    outlet, _ = source(ends.one)
    sent = [numbered(number, 100) for number in range(50)]
    for event in sent:
        outlet.submit(event)
    ends.one.send(9, b"farewell")
    assert ends.one.drain(PATIENCE_NS)
    ends.other.conclude()
    assert not ends.other.is_open
    with pytest.raises(LinkError, match="The peer has closed the connection"):
        ends.other.send(9, b"")
    Runner(ends.other).end()
    assert (events, ends.messages) == (sent, [(9, b"farewell")])


@WRITTEN_IS_THERE
def test_leader_gets_what_a_peer_wrote_before_it_was_gone(ends: Ends) -> None:
    queue, _ = leading_queue(ends.other)
    outlet, _ = source(ends.one)
    for number in range(20):
        outlet.submit(numbered(number))
    assert ends.one.drain(PATIENCE_NS)
    ends.other.conclude()
    assert [number_of(queue.get(PATIENCE_NS)) for _ in range(20)] == list(range(20))
    Runner(ends.other).end()


def test_reader_that_waits_sees_that_its_peer_is_gone(ends: Ends) -> None:
    ends.run()
    outlet, _ = source(ends.one)
    incoming = sink(ends.other, lambda event: None)
    outlet.submit(b"")
    eventually(lambda: incoming.events == 1)
    ends.other.conclude()
    for runner in ends.runners:
        runner.end()


def test_writer_that_waits_sees_that_its_peer_is_gone(ends: Ends) -> None:
    outlet, outgoing = source(ends.one, max_events=5)
    submitted = fill(outlet, outgoing)
    while outgoing.queued_events < 5:
        outlet.submit(numbered(submitted))
        submitted += 1
    writer = threading.Thread(target=outlet.submit, args=(numbered(submitted),), daemon=True)
    writer.start()
    eventually(lambda: outlet.sequence == submitted + 1)
    ends.one.conclude()
    writer.join(30)
    assert not writer.is_alive()
    assert outgoing.dropped > 0
    assert outgoing.queued_events == 0


def test_peer_that_is_gone_in_the_middle_of_a_frame_ends_its_link_behind_the_others(pair: Sides) -> None:
    one, other, _ = pair
    link = link_over(other)
    events: list[bytes] = []
    sink(link, events.append)
    whole, cut = frame_bytes(64, b"whole"), frame_bytes(64, bytes(100))
    one.write(whole + cut[:40])
    link.conclude()
    with pytest.raises(LinkError, match="Received 40 of 112 bytes of a frame; peer closed the connection"):
        link.run()
    assert events == [b"whole"]


def test_peer_that_goes_on_writing_when_it_is_gone_is_not_read(pair: Sides) -> None:
    """It has closed its socket alone, and would be read for ever."""
    one, other, memory = pair
    link = link_over(other)
    frame = frame_bytes(64, b"8 bytes.")
    written = one.write(3 * frame)
    events: list[bytes] = []

    def write_more(event: bytes) -> None:
        nonlocal written
        events.append(event)
        start = GOOD_SIZE - 2 * RING_BYTES + written
        memory[start : start + len(frame)] = frame
        written += len(frame)
        put_number(memory, place_of(0, WRITTEN), written)

    sink(link, write_more)
    link.conclude()
    link.run()
    assert events == [b"8 bytes."] * 3


def test_only_one_thread_runs_a_link(ends: Ends) -> None:
    ends.run()
    eventually(lambda: ends.other.is_open)
    incoming = sink(ends.other, lambda event: None)
    source(ends.one)[0].submit(b"")
    eventually(lambda: incoming.events == 1)
    with pytest.raises(RuntimeError, match="Another thread runs this link"):
        ends.other.run()


def _threads() -> int:
    """But for those that stand by for all links, which nodes of earlier tests may have left."""
    standby = {str(it.native_id) for it in threading.enumerate() if it.name == "echo-standby"}
    return len(set(os.listdir("/proc/self/task")) - standby)


def test_nothing_is_left_of_a_link(ends: Ends) -> None:
    descriptors, threads = len(os.listdir("/proc/self/fd")), _threads()
    for _ in range(10):
        one, other = wires(ends.kind)
        pair = Ends(ends.kind, link_over(one), link_over(other), [])
        queue, _ = leading_queue(pair.other)
        pair.run()
        outlet, outgoing = source(pair.one, delay_ns=200_000)
        for number in range(20):
            outlet.submit(numbered(number))
            queue.get(PATIENCE_NS)
        pair.close()
        del pair, queue, outlet, outgoing, one, other
    gc.collect()
    eventually(lambda: _threads() <= threads)
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= descriptors)


def test_link_that_refers_to_itself_is_collected() -> None:
    class Owner:
        link: Link

        def control(self, kind: int, payload: bytes) -> None: ...

    owner = Owner()
    one, other = socket.socketpair()
    owner.link = link_over(SocketWire(one.detach()), owner.control)
    outlet, outgoing = source(owner.link)
    fill(outlet, outgoing)
    gone = weakref.ref(owner)
    del owner, outlet, outgoing
    gc.collect()
    assert gone() is None
    with other:
        while other.recv(1 << 20):
            continue


def test_wire_has_one_link_only(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    link_over(wire)
    with pytest.raises(ClosedError):
        link_over(wire)


def test_socket_wire_wants_a_stream_socket() -> None:
    datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with datagrams, pytest.raises(ValueError, match="Expected a stream socket"):
        SocketWire(datagrams.fileno())
    with pytest.raises(OSError, match="Bad file descriptor"):
        SocketWire(-1)


def test_settings_are_checked(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    with pytest.raises(ValueError, match="max_payload below"):
        link_over(wire, max_payload=1 << 31)
    with pytest.raises(TypeError, match=r"Pool'> or None, got 5"):
        link_over(wire, pool=5)
    link = link_over(wire)
    no_outlet: Any = 5
    with pytest.raises(TypeError, match="Expected a Queue, got 5"):
        link.follow(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="Expected stream from 64"):
        source(link, 63)
    with pytest.raises(TypeError, match="Expected an Outlet or None, got 5"):
        OutgoingStream(link, 64, "", no_outlet, max_events=1, max_bytes=1, policy=BLOCK, timeout_ns=0)
    with pytest.raises(ValueError, match="kind from 1 on"):
        link.send(0, b"")


def test_forked_child_cannot_use_a_link_and_its_parent_goes_on() -> None:
    program = (
        "import os, socket\n"
        "import os, signal, socket, threading, time\n"
        "from tests.native.link_ends import *\n"
        "from tests.native.test_link_frames import frame_bytes\n"
        "from echo_core.errors import ClosedError\n"
        "def refused(call, *arguments):\n"
        "    try: call(*arguments)\n"
        "    except ClosedError as error: return 'belongs to the parent' in str(error)\n"
        "one, other = socket.socketpair()\n"
        "link = link_over(SocketWire(one.detach()))\n"
        "runner = Runner(link)\n"
        "outlet, outgoing = source(link)\n"
        "sent = fill(outlet, outgoing)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    calls = [(outlet.submit, b''), (link.send, 9, b''), (link.drain, 0), (link.run,)]\n"
        "    good = all(refused(*call) for call in [*calls, (outgoing.send, 9, b'')])\n"
        "    good = good and not link.is_open and link.queued_bytes == 0\n"
        "    link.abandon()\n"
        "    del outlet, outgoing, link\n"
        "    os._exit(0 if good else 1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
        "other.settimeout(30)\n"
        "left = sent * 1008\n"
        "while left: left -= len(other.recv(left))\n"
        "other.sendall(frame_bytes(9, b''))\n"
        "assert link.is_open\n"
        "try: link.abandon()\n"
        "except RuntimeError: print('gone on')\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("gone on\n", "")


def test_handler_may_fork_and_its_child_reads_nothing() -> None:
    program = (
        "import os, socket\n"
        "import os, signal, socket, threading, time\n"
        "from tests.native.link_ends import *\n"
        "from tests.native.test_link_frames import frame_bytes\n"
        "one, other = socket.socketpair()\n"
        "link = link_over(SocketWire(one.detach()))\n"
        "back, _ = source(link)\n"
        "pids = []\n"
        "def handle(event):\n"
        "    back.submit(event)\n"
        "    if event == b'fork': pids.append(os.fork())\n"
        "sink(link, handle)\n"
        "events = [(64, b'a'), (64, b'fork'), (9, b''), (64, b'b')]\n"
        "other.sendall(b''.join(frame_bytes(*event) for event in events))\n"
        "other.shutdown(socket.SHUT_WR)\n"
        "link.run()\n"
        "if pids == [0]: os._exit(7)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == 7\n"
        "other.settimeout(30)\n"
        "print([payload for _, payload in Peer(other).frames()])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[b'a', b'fork', b'b']\n", "")


def test_process_that_is_killed_leaves_a_link_that_has_ended() -> None:
    one, other = socket.socketpair()
    program = f"import socket; socket.socket(fileno={other.fileno()}).recv(1); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], pass_fds=[other.fileno()], stdin=subprocess.PIPE
    ) as process:
        other.close()
        link = link_over(SocketWire(one.detach()))
        runner = Runner(link)
        outlet, outgoing = source(link, max_events=5)
        fill(outlet, outgoing)
        process.send_signal(signal.SIGKILL)
        with pytest.raises(LinkError):
            runner.end()
        for number in range(100):
            outlet.submit(numbered(number))
    assert not link.is_open


def test_link_that_has_failed_goes_with_the_last_reference() -> None:
    one, other = socket.socketpair()
    descriptor = one.detach()
    opened = os.fstat(descriptor).st_ino
    link = link_over(SocketWire(descriptor))
    other.sendall(frame_bytes(65, b"bad"))

    def run(held: Link) -> None:
        with contextlib.suppress(WireError):
            held.run()

    run(link)
    assert not link.is_open
    gc.collect()
    assert os.fstat(descriptor).st_ino == opened
    gc.disable()
    del link
    gc.enable()
    with contextlib.suppress(OSError):  # it is closed, and may be another thread's by now
        assert os.fstat(descriptor).st_ino != opened
    other.close()

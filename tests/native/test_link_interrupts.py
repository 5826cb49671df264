"""What is no error of a link hits the thread that reads it, in a handler: an interrupt, a fork, a signal."""

from __future__ import annotations

import _thread
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from echo_core._c.links import Delivery, IncomingStream, SocketWire
from echo_core.errors import WireError
from tests.native.link_ends import (
    PATIENCE_NS,
    ROOT,
    Peer,
    Runner,
    fail,
    leading_queue,
    link_over,
    sink,
)
from tests.native.test_link_frames import frame_bytes


def interrupted_at(number: int, handled: list[bytes]) -> Callable[[bytes], None]:
    """A handler, and what it was given."""

    def handle(event: bytes) -> None:
        handled.append(event)
        if event == b"%d" % number:
            raise KeyboardInterrupt

    return handle


def frames(stream: int, count: int) -> bytes:
    return b"".join(frame_bytes(stream, b"%d" % number) for number in range(count))


def test_interrupt_of_run_keeps_no_event_from_anybody(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)
    handled: list[list[bytes]] = [[], []]
    incoming = IncomingStream()
    incoming.deliveries = tuple(Delivery(interrupted_at(2, events), bytes, fail) for events in handled)
    link.bind(65, incoming)
    far.socket.sendall(frames(65, 64))
    with pytest.raises(KeyboardInterrupt):
        link.run()
    assert handled == [[b"%d" % number for number in range(64)]] * 2


def test_bad_record_behind_an_interrupt_ends_the_link(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    link = link_over(wire)

    def decode(record: bytes) -> bytes:
        if record == b"2":
            msg = "not as agreed"
            raise WireError(msg)
        return bytes(record)

    handled: list[bytes] = []
    sink(link, interrupted_at(0, handled), decode=decode)
    far.socket.sendall(frames(64, 4))
    with pytest.raises(WireError, match="not as agreed") as caught:
        link.run()
    assert isinstance(caught.value.__context__, KeyboardInterrupt)
    assert handled == [b"0", b"1"]


def test_child_that_a_handler_forks_gets_nothing_of_what_the_parent_has_read() -> None:
    program = (
        "import os, socket\n"
        "from tests.native.link_ends import *\n"
        "from tests.native.test_link_frames import frame_bytes\n"
        "one, other = socket.socketpair()\n"
        "link = link_over(SocketWire(one.detach()))\n"
        "pids, events = [], []\n"
        "def handle(event):\n"
        "    events.append(event)\n"
        "    if event == b'b': pids.append(os.fork())\n"
        "incoming = IncomingStream(record_size=1)\n"
        "incoming.deliveries = (Delivery(handle, bytes, fail, record_size=1),\n"
        "                    Delivery(lambda b: events.append(b + b'2'), bytes, fail, record_size=1))\n"
        "link.bind(64, incoming)\n"
        "other.sendall(frame_bytes(64, b'a') + frame_bytes(64, b'bc') + frame_bytes(64, b'd'))\n"
        "other.shutdown(socket.SHUT_WR)\n"
        "link.run()\n"
        "if pids[0]: os.waitpid(pids[0], 0)\n"
        "os.write(1, b','.join(events) + b' ')\n"
        "os._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("a,b a,b,c,d,a2,b2,c2,d2 ", "")


def test_control_frames_are_handled_by_run_alone(peer: tuple[SocketWire, Peer]) -> None:
    wire, far = peer
    messages: list[tuple[bytes, int]] = []
    link = link_over(wire, lambda _, payload: messages.append((payload, threading.get_ident())))
    queue, threads = leading_queue(link)
    far.socket.sendall(frame_bytes(64, b"first"))
    assert queue.get(PATIENCE_NS) == b"first"
    runner = Runner(link)
    for number in range(200):
        far.socket.sendall(
            frame_bytes(64, b"before") + frame_bytes(9, b"%d" % number) + frame_bytes(64, b"after")
        )
        assert queue.get(PATIENCE_NS) == b"before"
        assert queue.get(PATIENCE_NS) == b"after"
        assert len(messages) == number + 1
    assert [payload for payload, _ in messages] == [b"%d" % number for number in range(200)]
    assert threading.get_ident() not in {thread for _, thread in messages}
    assert threading.get_ident() in threads
    link.shut()
    runner.end()


def test_leader_that_meets_a_control_frame_waits_for_run_no_longer_than_it_may(
    peer: tuple[SocketWire, Peer],
) -> None:
    wire, far = peer
    messages: list[bytes] = []
    link = link_over(wire, lambda _, payload: messages.append(payload))
    queue, _ = leading_queue(link)
    far.socket.sendall(frame_bytes(9, b"control") + frame_bytes(64, b"event"))
    assert queue.get(1_000_000) is None
    assert queue.get(0) is None
    assert messages == []
    runner = Runner(link)
    assert queue.get(PATIENCE_NS) == b"event"
    assert messages == [b"control"]
    link.shut()
    runner.end()


def test_leader_notices_a_signal_that_interrupts_no_system_call(peer: tuple[SocketWire, Peer]) -> None:
    wire, _ = peer
    queue, _ = leading_queue(link_over(wire))
    begin = time.monotonic_ns()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - on a busy machine it may come before the wait
        threading.Timer(0.05, _thread.interrupt_main).start()
        queue.get(PATIENCE_NS)
    assert time.monotonic_ns() - begin < PATIENCE_NS


def test_run_sleeps_where_no_descriptor_is_left_to_nudge_it_by() -> None:
    program = (
        "import os, resource, socket, threading, time\n"
        "from tests.native.link_ends import *\n"
        "from tests.native.test_link_frames import frame_bytes\n"
        "one, other = socket.socketpair()\n"
        "link = link_over(SocketWire(one.detach()))\n"
        "follower = unbounded_queue()\n"
        "link.follow(follower)\n"
        "events = []\n"
        "sink(link, events.append)\n"
        "highest = max(int(fd) for fd in os.listdir('/proc/self/fd'))\n"
        "for _ in range(highest): os.dup(other.fileno())\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))\n"
        "runner = Runner(link)\n"
        "begin = time.process_time()\n"
        "threading.Event().wait(0.5)\n"
        "spent = time.process_time() - begin\n"
        "other.sendall(frame_bytes(64, b'event'))\n"
        "eventually(lambda: events)\n"
        "link.shut()\n"
        "runner.end()\n"
        "print(events, spent < 0.25)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[b'event'] True\n", "")

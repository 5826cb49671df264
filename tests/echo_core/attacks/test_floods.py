"""Strangers in great numbers: whoever has no key locks no newcomer out, and fills no log."""

from __future__ import annotations

import contextlib
import logging
import os
import time

import pytest

from echo_core.transports import limits
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.hostile_peer import HostilePeer, connect
from tests.echo_core.processes import Actor

pytestmark = pytest.mark.once

NEWCOMERS = 12
TIME_S = 5.0

CREATOR = """
node = echo.Node(transports=[sys.argv[1]])
channel = node.create_channel("wanted", Plain)
say(channel.id)
hear()
say(node.statistics().handshakes_failed)
hear()
"""

# Connects so many times a second, for so long, and says what it was told to; then how often that was.
NOISE = """
import collections, socket, struct
from echo_core.transports.addresses import UnixAddress
from echo_core.transports.wires import sockets
from tests.echo_core.hostile_peer import ChannelId
id_, transport, kind, rate, seconds = sys.argv[1:]
is_unix = transport == "unix"
address = next(it for it in ChannelId.parse(id_).addresses if isinstance(it, UnixAddress) == is_unix)
hello = b"ECHO" + struct.pack("<HHHH", 1, 143, 1, 1) + ChannelId.parse(id_).uid + bytes(115)
said = {"silence": b"", "half a word": b"EC", "garbage": b"GET / HTTP/1.1", "a wrong proof": hello}[kind]
family = socket.AF_UNIX if is_unix else socket.AF_INET
open_, made, failed, began = collections.deque(), 0, 0, time.monotonic()
place = sockets._place(address)
say("on")
while (passed := time.monotonic() - began) < float(seconds):
    if made > passed * float(rate):
        time.sleep(0.001)
        continue
    stranger = socket.socket(family)
    stranger.setblocking(False)
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    made += 1
    try:
        stranger.connect(place)
        stranger.send(said)
    except BlockingIOError:
        with contextlib.suppress(OSError):
            stranger.send(said)
    except OSError:
        failed += 1
    open_.append(stranger)
    while len(open_) > 400:
        open_.popleft().close()
say(made, failed)
hear()
"""


def newcomers_let_in(make_node: MakeNode, id_: str, transport: str, *, at_least_s: float) -> int:
    """How many of so many newcomers are on the channel, each within its time."""
    began, let_in = time.monotonic(), 0
    for number in range(NEWCOMERS):
        time.sleep(max(0.0, began + at_least_s * number / NEWCOMERS - time.monotonic()))
        node = make_node(transports=[transport])
        let_in += node.open_channel(id_, timeout_s=TIME_S).name == "wanted"
        node.close(0.0)
    return let_in


def flood(make_node: MakeNode, transport: str, kind: str, rate: int, seconds: float) -> str:
    """What the noise has made of it, while newcomers came."""
    with Actor(CREATOR, transport) as creator:
        id_ = creator.hear()
        with Actor(NOISE, id_, transport, kind, str(rate), str(seconds)) as noise:
            assert noise.hear() == "on"
            began = time.monotonic()
            assert newcomers_let_in(make_node, id_, transport, at_least_s=seconds * 0.8) == NEWCOMERS
            took_s = time.monotonic() - began
            made = noise.hear()
        creator.tell("")
        return f"{kind} over {transport}: {made} made, {took_s:.1f} s, {creator.hear()} turned away"


KINDS = ["silence", "half a word", "garbage", "a wrong proof"]


@pytest.mark.parametrize("transport", ["tcp", "unix"])
@pytest.mark.parametrize("kind", KINDS)
def test_strangers_without_the_key_lock_no_newcomer_out(
    make_node: MakeNode, transport: str, kind: str
) -> None:
    """A lighter flood than below: still as many as all places in every round trip."""
    flood(make_node, transport, kind, 1000, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["tcp", "unix"])
@pytest.mark.parametrize("kind", KINDS)
def test_newcomers_get_in_at_ten_thousand_strangers_a_second(
    make_node: MakeNode, transport: str, kind: str
) -> None:
    logging.getLogger(__name__).info(flood(make_node, transport, kind, 10_000, 5.0))


def test_a_flood_is_a_few_lines_of_the_log(make_node: MakeNode, caplog: pytest.LogCaptureFixture) -> None:
    """All of it is counted."""
    node = make_node(transports=["tcp"])
    channel = node.create_channel("x", Plain)
    for _ in range(200):
        with connect(channel.id, "tcp") as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n")
    until(lambda: node.statistics().handshakes_failed == 200)
    lines = [line for line in caplog.messages if "was not let in" in line]
    assert 1 <= len(lines) <= 3


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_who_says_nothing_takes_no_place_of_who_has_proven_a_key(
    make_node: MakeNode, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """However slow its proof is in coming."""
    caplog.set_level(logging.CRITICAL)
    channel = make_node(transports=[transport]).create_channel("x", Plain)
    with HostilePeer.connected(channel.id, transport) as slow:
        initiator = slow.initiator()
        slow.send(initiator.bytes_to_send())
        initiator.receive(slow.connection.recv(8))  # of WELCOME
        with contextlib.ExitStack() as crowd:
            for _ in range(limits.MAX_SILENT * 3):
                stranger = crowd.enter_context(connect(channel.id, transport))
                with contextlib.suppress(ConnectionError):
                    stranger.sendall(b"E")
            slow.finish(initiator)
        assert slow.secret


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_a_hello_that_was_overheard_gets_one_place(
    make_node: MakeNode, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """However often it is said again."""
    node = make_node(transports=[transport])
    channel = node.create_channel("x", Plain)
    with HostilePeer.connected(channel.id, transport) as first:
        initiator = first.initiator()
        hello = initiator.bytes_to_send()
        first.send(hello)
        initiator.receive(first.connection.recv(8))
        for _ in range(20):
            with HostilePeer.connected(channel.id, transport) as again:
                again.send(hello)
                again.expect_end()
        first.finish(initiator)
        assert first.secret
    assert "a HELLO of its own" in caplog.text


def test_silent_connections_over_tcp_are_not_even_handed_over(make_node: MakeNode) -> None:
    """The system keeps them: they cost this process no descriptor."""
    node = make_node(transports=["tcp"])
    channel = node.create_channel("x", Plain)
    before = len(os.listdir("/proc/self/fd"))
    strangers = [connect(channel.id, "tcp") for _ in range(50)]
    assert make_node(transports=["tcp"]).open_channel(channel.id).name == "x"
    assert len(os.listdir("/proc/self/fd")) < before + len(strangers) + 20
    for stranger in strangers:
        stranger.close()

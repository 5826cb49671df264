"""Returns of processes that were stopped, and of those that do not come back as they were."""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator

import pytest

import echo_core as echo
from echo_core.roster.ids import ChannelId
from echo_core.transports.addresses import TcpAddress
from echo_core.transports.handshake.exchange import Responder
from echo_core.transports.limits import MAX_MEMBERS
from echo_core.transports.protocol.messages import Member, Standing
from echo_core.transports.wires import sockets
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain, Story, story
from tests.echo_core.conftest import MakeNode
from tests.echo_core.hostile_peer import HostilePeer, identity
from tests.echo_core.processes import Actor

LIMIT_S = 60.0

CREATOR = """
node = echo.Node("creator", transports=[sys.argv[1]])
say(node.create_channel("test", Plain).id)
hear()
"""

RECEIVER = """
from tests.echo_core.channel_events import Story
limits = echo.Limits(window_bytes=1 << 28)  # so that what it has not read fills the link
node = echo.Node("receiver", transports=[sys.argv[1]], limits=limits)
sink = node.open_channel(sys.argv[2], timeout_s=LIMIT_S).sink(Story)
say("on")
while sink.get(LIMIT_S).title != "last":
    pass
say("got the last")
hear()
node.close(0.0)
"""


@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_a_process_that_was_stopped_for_longer_than_stall_s_is_linked_again(
    make_node: MakeNode, transport: str
) -> None:
    creator = make_node(transports=[transport], limits=echo.Limits(stall_s=1.0))
    channel = creator.create_channel("test", Story)
    source = channel.source(Story, backlog=echo.Backlog(when_full="drop_oldest"))
    told: list[type[echo.Notice]] = []
    channel.watch(lambda notice: told.append(type(notice)))
    with Actor(RECEIVER, transport, channel.id) as receiver:
        receiver.hear()
        source.wait_matched(1, LIMIT_S)
        until(lambda: echo.PeerJoined in told, "the receiver to be told of")
        large = story(1)
        large.body = bytes(16_000)
        receiver.signal(signal.SIGSTOP)
        limit = time.monotonic() + LIMIT_S
        while echo.PeerLeft not in told and time.monotonic() < limit:
            source.submit(large)
        receiver.signal(signal.SIGCONT)
        until(lambda: told.count(echo.PeerJoined) == 2, "the receiver to be back", LIMIT_S)
        source.wait_matched(1, LIMIT_S)
        last = story(1)
        last.title = "last"
        source.submit(last)
        assert receiver.hear() == "got the last"
        assert told.count(echo.PeerLeft) == 1


@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_members_go_on_when_their_creator_is_killed_and_link_to_who_comes(
    make_node: MakeNode, transport: str
) -> None:
    first, second, newcomer = (make_node(transports=[transport]) for _ in range(3))
    with Actor(CREATOR, transport) as creator:
        id_ = creator.hear()
        one, other = first.open_channel(id_), second.open_channel(id_)
        until(lambda: one.statistics().members == 2, "the other to be known")
        creator.kill()
    sink, source = one.sink(Plain), other.source(Plain)
    source.wait_matched(1, LIMIT_S)
    late = newcomer.open_channel(other.id, timeout_s=LIMIT_S).source(Plain)
    late.wait_matched(1, LIMIT_S)
    for i, each in enumerate((source, late)):
        each.submit(Plain(i, 2.0))
        assert sink.get(LIMIT_S) == Plain(i, 2.0)


@contextlib.contextmanager
def answering(listener: socket.socket, answer: Callable[[socket.socket], None]) -> Generator[list[float]]:
    """Has each connection answered and closed; when that was."""
    answered: list[float] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # it is over
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(LIMIT_S)
                answer(connection)
                answered.append(time.monotonic())

    listener.setblocking(True)
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield answered
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(LIMIT_S)


def test_a_creator_that_shakes_hands_and_hangs_up_is_tried_less_and_less_often(make_node: MakeNode) -> None:
    member = make_node(transports=["tcp"])
    with Actor(CREATOR, "tcp") as creator:
        id_ = ChannelId.parse(creator.hear())
        channel = member.open_channel(str(id_))
        creator.kill()

    def shake_hands(connection: socket.socket) -> None:
        responder = Responder(identity(id_.members[0].node), lambda _: id_.key, admit=lambda _, __: None)
        while responder.established is None:
            responder.receive(connection.recv(responder.wanted_bytes))
            connection.sendall(responder.bytes_to_send())

    with answering(sockets.listen(id_.addresses[0]), shake_hands) as shaken:
        until(lambda: len(shaken) >= 8, "it to be tried again", LIMIT_S)
        assert shaken[7] - shaken[0] > 3.0
        assert channel.statistics().missing == 1


def test_members_that_a_peer_has_made_up_are_tried_a_few_times_a_second_and_less_without_it(
    make_node: MakeNode,
) -> None:
    """A hundred at once, and twenty a second; once a second when nobody tells of them any more."""
    creator = make_node(transports=["tcp"])
    channel = creator.create_channel("test", Plain)
    channel.sink(Plain)
    listener = sockets.listen(TcpAddress("127.0.0.1", 0))
    address = str(sockets.bound_address(listener))
    with answering(listener, lambda connection: None) as tried:
        with HostilePeer.linked(channel.id, "tcp") as peer:
            began = time.monotonic()
            peer.say(peer.join())
            for _ in range(MAX_MEMBERS):
                peer.say(
                    Member(0, secrets.token_bytes(16), 1, Standing.SENDS, bytes(16), "made up", (address,))
                )
            until(lambda: len(tried) > 168, "many to be tried", LIMIT_S)
            assert tried[168] - began > 1.5
        until(lambda: not creator.statistics().links, "the link to end", LIMIT_S)
        until(lambda: tried[-1] - tried[-4] > 2.0, "no more than one to be tried in a second", LIMIT_S)

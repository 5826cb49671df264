"""Opening a channel: by any member that its id names, again and again until time is up."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import replace

import pytest

import echo_core as echo
from echo_core.roster import opening
from echo_core.roster.ids import MAX_NAMED, ChannelId, Member
from echo_core.roster.places import Transport
from echo_core.transports.addresses import TcpAddress
from echo_core.transports.wires import sockets
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import LIMIT_S, Actor

CREATOR = """
channel = echo.Node(transports=[sys.argv[1]]).create_channel("test", Plain)
say(channel.id)
hear()
"""


def nobody_at() -> TcpAddress:
    """Where nobody listens; the port was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return TcpAddress("127.0.0.1", listener.getsockname()[1])


def demand_delivery(here: echo.Channel[Plain], there: echo.Channel[Plain]) -> None:
    sink, source = there.sink(Plain), here.source(Plain)
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(1, 2.0))
    assert sink.get(LIMIT_S) == Plain(1, 2.0)


def test_a_process_of_this_host_that_is_slow_to_answer_is_not_asked_at_its_other_addresses(
    make_node: MakeNode,
) -> None:
    """It would be as slow there, and the link could share no memory as long as it lasts."""
    here = sockets.new_unix_address()
    with sockets.listen(here), socket.create_server(("127.0.0.1", 0)) as beside:
        beside.setblocking(False)
        addresses = (here, TcpAddress("127.0.0.1", beside.getsockname()[1]))
        with pytest.raises(echo.LinkError, match="to finish the handshake"):
            make_node().open_channel(str(ChannelId.new(Member(bytes(16), addresses))), timeout_s=1.0)
        with pytest.raises(BlockingIOError):
            beside.accept()


@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_the_id_of_a_member_lets_others_in_when_the_creator_was_killed(
    make_node: MakeNode, transport: Transport
) -> None:
    member, newcomer = (make_node(transports=[transport]) for _ in range(2))
    with Actor(CREATOR, transport) as creator:
        channel = member.open_channel(creator.hear())
        creator.kill()
    until(lambda: channel.statistics().peers == 0, "the creator to be gone")
    demand_delivery(channel, newcomer.open_channel(channel.id, timeout_s=LIMIT_S))


def test_an_id_that_a_member_gave_works_when_the_creator_was_killed(make_node: MakeNode) -> None:
    """It names both, and the creator first."""
    member, newcomer = (make_node(transports=["tcp"]) for _ in range(2))
    with Actor(CREATOR, "tcp") as creator:
        channel = member.open_channel(creator.hear())
        id_ = channel.id
        creator.kill()
    assert len(ChannelId.parse(id_).members) == 2
    demand_delivery(channel, newcomer.open_channel(id_, timeout_s=LIMIT_S))


def test_an_id_names_the_creator_then_who_gave_it_then_others(make_node: MakeNode) -> None:
    creator, *others = (make_node(transports=["tcp"]) for _ in range(6))
    created = creator.create_channel("test", Plain)
    channels = [node.open_channel(created.id) for node in others]
    until(lambda: all(channel.statistics().members == 5 for channel in channels), "all to be known")
    for node, channel in zip(others, channels, strict=True):
        named = [member.node for member in ChannelId.parse(channel.id).members]
        assert named[:2] == [creator.id, node.id]
        assert len(set(named)) == MAX_NAMED
    assert ChannelId.parse(created.id).members[0].node == creator.id


def test_who_is_gone_is_named_last(make_node: MakeNode) -> None:
    creator, member = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    channel = member.open_channel(creator.create_channel("test", Plain).id)
    creator.close()
    until(lambda: channel.statistics().peers == 0, "the creator to be gone")
    assert [member.node for member in ChannelId.parse(channel.id).members] == [member.id, creator.id]


def test_all_members_that_an_id_names_are_tried(make_node: MakeNode) -> None:
    channel = make_node(transports=["tcp"]).create_channel("test", Plain)
    id_ = ChannelId.parse(channel.id)
    gone = [Member(bytes([i] * 16), (nobody_at(),)) for i in range(3)]
    opened = make_node(transports=["tcp"]).open_channel(str(replace(id_, members=(*gone, *id_.members))))
    demand_delivery(channel, opened)


def test_a_stranger_at_the_address_of_a_member_keeps_nobody_from_the_others(make_node: MakeNode) -> None:
    """Another program has got the port meanwhile; or another node, which does not know the channel."""
    channel = make_node(transports=["tcp"]).create_channel("test", Plain)
    other = make_node(transports=["tcp"])
    other.create_channel("other")
    id_ = ChannelId.parse(channel.id)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        threading.Thread(target=_say_something_else, args=(stranger,), daemon=True).start()
        places = (
            TcpAddress(*stranger.getsockname()),
            *ChannelId.parse(other.create_channel("x").id).addresses,
        )
        gone = [Member(bytes([i] * 16), (place,)) for i, place in enumerate(places)]
        opened = make_node(transports=["tcp"]).open_channel(str(replace(id_, members=(*gone, *id_.members))))
    demand_delivery(channel, opened)


def _say_something_else(listener: socket.socket) -> None:
    with listener.accept()[0] as connection:
        connection.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")


def test_who_cannot_be_reached_is_tried_again_until_time_is_up(make_node: MakeNode) -> None:
    id_ = str(ChannelId.new(Member(bytes(16), (nobody_at(),))))
    began = time.monotonic()
    with pytest.raises(echo.LinkError, match=r"tcp://.*refused.*; tried [2-9]\d* times in 0\.\d s"):
        make_node(transports=["tcp"]).open_channel(id_, timeout_s=0.4)
    assert time.monotonic() - began < LIMIT_S


def test_a_wrong_key_is_told_at_once(make_node: MakeNode) -> None:
    id_ = ChannelId.parse(make_node(transports=["tcp"]).create_channel("test", Plain).id)
    gone = Member(bytes(16), (nobody_at(),))
    wrong = replace(id_, key=bytes(16), members=(gone, *id_.members))
    with pytest.raises(echo.RefusedError) as caught:
        make_node(transports=["tcp"]).open_channel(str(wrong), timeout_s=None, wait=True)
    assert caught.value.code == "wrong_key"


def test_closing_the_node_ends_the_wait(make_node: MakeNode) -> None:
    node = make_node(transports=["tcp"])
    id_ = str(ChannelId.new(Member(bytes(16), (nobody_at(),))))
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            node.open_channel(id_, wait=True)
        except echo.EchoError as error:
            caught.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(lambda: bool(node.addresses), "the wait to begin")
    node.close()
    waiting.join(LIMIT_S)
    assert [type(error) for error in caught] == [echo.ClosedError]


def test_who_waits_for_a_channel_says_so_after_a_while(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And uses all the time that there is."""
    monkeypatch.setattr(opening, "_PATIENT_S", 0.2)
    with make_node().create_channel("x") as channel:
        identity = channel.identity
    began = time.monotonic()
    with pytest.raises(echo.LinkError):
        make_node().open_channel(identity, wait=True, timeout_s=1.0)
    assert 0.95 < time.monotonic() - began < LIMIT_S
    assert caplog.text.count("is waited for, by now for ") == 1


FIXED = """
node = echo.Node("creator", transports=["tcp"], port=int(sys.argv[1]))
channel = node.create_channel("test", Plain, identity=sys.argv[2])
source = channel.source(keep=1)
source.submit(Plain(int(sys.argv[3]), 0.5))
say(channel.id)
hear()
while channel.statistics().missing:  # until it has tried to link to where it listens itself
    threading.Event().wait(0.01)
say(channel.statistics().members, channel.statistics().missing)
hear()
"""


def test_a_creator_that_comes_back_at_its_place_does_not_look_for_itself(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """Members tell it of the one that it was before."""
    with make_node(transports=["tcp"]).create_channel("test", Plain) as made:
        identity = made.identity
    port, node = nobody_at().port, make_node(transports=["tcp"])
    with Actor(FIXED, str(port), identity, "1") as creator:
        channel = node.open_channel(creator.hear(), timeout_s=LIMIT_S)
        sink = channel.sink(Plain)
        assert sink.get(LIMIT_S).id == 1
        creator.kill()
    until(lambda: channel.statistics().peers == 0)
    with Actor(FIXED, str(port), identity, "2") as creator:
        creator.hear()
        assert sink.get(LIMIT_S).id == 2
        until(lambda: channel.statistics().missing == 0)
        creator.tell("how many?")
        assert creator.hear() == "1 0"
        assert "same node" not in caplog.text
        creator.tell("end")
        assert "same node" not in creator.end()[2]

"""Channels that outlive their creators: made again by their identity, and held by one node at a time."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import echo_core as echo
from echo_core.roster import presence
from echo_core.roster.bookkeeping import books
from echo_core.roster.ids import ChannelId
from echo_core.roster.telling import MAX_TO_TELL
from echo_core.transports.protocol.messages import Member, Standing
from echo_core.transports.wires import sockets
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import LIMIT_S, Actor
from tests.echo_core.roster.test_opening import demand_delivery

HOLDER = """
node = echo.Node("holder of old")
channel = node.create_channel("test", Plain, identity=sys.argv[1] or None)
say(channel.identity)
say(channel.id)
sink = channel.sink(Plain)
say(sink.get(LIMIT_S))
hear()
"""


def hold(identity: str) -> Actor:
    return Actor(HOLDER, identity)


def submit(channel: echo.Channel[Plain]) -> None:
    with channel.source(Plain) as source:
        source.wait_matched(1, LIMIT_S)
        source.submit(Plain(1, 2.0))


def test_an_identity_makes_the_same_channel_again_when_its_creator_was_killed(make_node: MakeNode) -> None:
    """Ids of before lead to it, and its identity too."""
    with hold("") as first:
        identity, old = first.hear(), first.hear()
        first.kill()
    with hold(identity) as again:
        assert again.hear() == identity
        again.hear()
        channels = [make_node().open_channel(text, timeout_s=LIMIT_S) for text in (old, identity)]
        assert [(channel.name, channel.identity) for channel in channels] == [("test", identity)] * 2
        submit(channels[0])
        assert again.hear() == "Plain(id=1, x=2.0)"


def test_of_two_holders_the_second_is_refused_and_told_who_holds_the_channel(make_node: MakeNode) -> None:
    with hold("") as first:
        identity = first.hear()
        node = make_node()
        words = rf"node `holder of old` \(process {first.pid}\) does"
        with pytest.raises(echo.RefusedError, match=words) as caught:
            node.create_channel("test", Plain, identity=identity)
        assert caught.value.code == "held"
        first.kill()
        until(lambda: _can_hold(node, identity), "the channel to be free")


def _can_hold(node: echo.Node, identity: str) -> bool:
    try:
        node.create_channel("test", Plain, identity=identity)
    except echo.RefusedError:
        return False
    return True


def test_a_holder_that_is_stopped_is_named_by_its_process(make_node: MakeNode) -> None:
    with hold("") as first:
        identity = first.hear()
        first.signal(signal.SIGSTOP)
        stat = Path(f"/proc/{first.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the process to be stopped")
        with pytest.raises(echo.RefusedError, match=rf"process {first.pid} \(.*(in time|timed out)"):
            make_node().create_channel("test", Plain, identity=identity)
        first.signal(signal.SIGCONT)


def test_who_holds_a_channel_itself_cannot_create_it_again(make_node: MakeNode) -> None:
    node = make_node()
    identity = node.create_channel("test", Plain).identity
    with pytest.raises(echo.RefusedError, match="this node does"):
        node.create_channel("test", Plain, identity=identity)
    with pytest.raises(echo.RefusedError, match=rf"node `{node.name}` \(process {os.getpid()}\)"):
        make_node().create_channel("test", Plain, identity=identity)


def test_threads_that_ask_for_an_identity_at_once_get_it(make_node: MakeNode) -> None:
    """The first takes the channel's seat, for which the others wait."""
    node = make_node(transports=["unix"])
    for _ in range(20):
        channel = node.create_channel("test", Plain)
        at_once = threading.Barrier(4)

        def ask(channel: echo.Channel[Plain] = channel, at_once: threading.Barrier = at_once) -> str:
            at_once.wait(LIMIT_S)
            return channel.identity

        with ThreadPoolExecutor(4) as threads:
            asking = [threads.submit(ask) for _ in range(4)]
            assert len({each.result() for each in asking}) == 1
        channel.close()


def test_a_channel_is_free_at_once_when_its_holder_has_closed_it(make_node: MakeNode) -> None:
    first, second = make_node(), make_node()
    channel = first.create_channel("test", Plain)
    identity = channel.identity
    for node in [first, second] * 5:
        channel.close()
        channel = node.create_channel("test", Plain, identity=identity)
        with echo.Node(transports=["unix"]) as other:
            demand_delivery(channel, other.open_channel(identity))
    second.close()
    first.create_channel("test", Plain, identity=identity)


def test_a_member_that_creates_the_channel_again_holds_it(make_node: MakeNode) -> None:
    """What is open goes on: it is the same channel."""
    with hold("") as first:
        identity = first.hear()
        node = make_node()
        member = node.open_channel(identity)
        first.kill()
    until(lambda: member.statistics().peers == 0, "the creator to be gone")
    channel = node.create_channel("test", Plain, identity=identity)
    assert ChannelId.parse(channel.id).members[0].node == node.id
    demand_delivery(member, make_node(transports=["unix"]).open_channel(identity))


def test_a_channel_that_nobody_creates_again_is_waited_for(make_node: MakeNode) -> None:
    """Its creator comes later than who opens it."""
    with hold("") as first:
        identity = first.hear()
        first.kill()
    node, opened = make_node(), list[echo.Channel[Plain]]()
    waiting = threading.Thread(target=lambda: opened.append(node.open_channel(identity, wait=True)))
    waiting.start()
    until(lambda: bool(node.addresses), "the wait to begin")
    with hold(identity) as again:
        waiting.join(LIMIT_S)
        submit(opened[0])
        assert [again.hear() for _ in range(3)][2] == "Plain(id=1, x=2.0)"


def test_a_channel_that_its_process_has_closed_is_waited_for(make_node: MakeNode) -> None:
    """Who is asked does not know it, until it is created again."""
    creator, node = make_node(transports=["tcp", "unix"]), make_node(transports=["tcp", "unix"])
    channel = creator.create_channel("test", Plain)
    id_, identity = channel.id, channel.identity
    channel.close()
    with pytest.raises(echo.RefusedError) as caught:
        node.open_channel(id_)
    assert caught.value.code == "unknown_channel"
    opened: list[echo.Channel[Plain]] = []
    waiting = threading.Thread(target=lambda: opened.append(node.open_channel(id_, wait=True)))
    waiting.start()
    demand_delivery(creator.create_channel("test", Plain, identity=identity), _result(waiting, opened))


def _result(waiting: threading.Thread, opened: list[echo.Channel[Plain]]) -> echo.Channel[Plain]:
    waiting.join(LIMIT_S)
    return opened[0]


def test_an_identity_leads_nowhere_when_nobody_holds_the_channel(make_node: MakeNode) -> None:
    channel = make_node().create_channel("test", Plain)
    identity = channel.identity
    channel.close()
    with pytest.raises(echo.LinkError, match=r"nobody holds the channel on this host.*tried \d+ times"):
        make_node(transports=["unix"]).open_channel(identity, timeout_s=0.1)
    with pytest.raises(echo.LinkError, match="an identity alone"):
        make_node(transports=["tcp"]).open_channel(identity, timeout_s=0.1)


def test_a_fixed_port_leads_to_the_creator_again_from_wherever_its_id_went(make_node: MakeNode) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    node = make_node(transports=["tcp"], port=port)
    channel = node.create_channel("test", Plain)
    id_, identity = channel.id, channel.identity
    node.close()
    again = make_node(transports=["tcp"], port=port).create_channel("test", Plain, identity=identity)
    demand_delivery(again, make_node(transports=["tcp"]).open_channel(id_))


def test_a_port_that_somebody_else_has_is_told_in_words(make_node: MakeNode) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(echo.LinkError, match=rf"to listen at tcp://127.0.0.1:{port}.*another process"):
            make_node(transports=["tcp"], port=port).create_channel("test", Plain)


def test_somebody_else_at_the_seat_is_told_of(make_node: MakeNode) -> None:
    """Another program, which has no key."""
    channel = make_node().create_channel("test", Plain)
    identity = channel.identity
    channel.close()
    with socket.socket(socket.AF_UNIX) as squatter:
        squatter.bind(f"\0{ChannelId.parse(identity).seat.name}")
        squatter.listen()
        with pytest.raises(echo.RefusedError, match=rf"process {os.getpid()} \(.*(in time|timed out)"):
            make_node().create_channel("test", Plain, identity=identity)


def test_a_forked_child_does_not_hold_what_its_parent_holds(make_node: MakeNode) -> None:
    script = """
node = echo.Node()
channel = node.create_channel("test", Plain)
say(channel.identity)
if os.fork() == 0:
    say("child")
    signal.pause()
hear()
"""
    with Actor(script, forks=True) as actor:
        identity = actor.hear()
        assert actor.hear() == "child"
        os.kill(actor.pid, signal.SIGKILL)
        node = make_node()
        until(lambda: _can_hold(node, identity), "the channel to be free")


@pytest.mark.parametrize("text", ["", "echo1:AAAA", "particles"])
def test_what_is_no_identity_is_refused(make_node: MakeNode, text: str) -> None:
    with pytest.raises(echo.ChannelError, match="Expected a"):
        make_node().create_channel("test", Plain, identity=text)


# ---------------------------------------------------------------------------
# Who is still there when another one comes


def test_members_link_to_a_creator_that_was_killed_and_made_the_channel_again(make_node: MakeNode) -> None:
    """By themselves: their sinks and sources go on."""
    channel = None
    with hold("") as first:
        identity = first.hear()
        channel = make_node().open_channel(identity)
        source = channel.source(Plain)
        source.wait_matched(1, LIMIT_S)
        first.kill()
    until(lambda: source.sinks == 0, "the creator to be gone")
    with hold(identity) as again:
        assert again.hear() == identity
        source.wait_matched(1, LIMIT_S)
        source.submit(Plain(1, 2.0))
        assert [again.hear() for _ in range(2)][1] == "Plain(id=1, x=2.0)"


def test_who_gives_way_leaves_the_seat_however_much_is_to_be_told(make_node: MakeNode) -> None:
    """A watcher that takes its time keeps nobody from it."""
    node = make_node(transports=["unix"])
    channel = node.create_channel("test", Plain)
    identity = ChannelId.parse(channel.identity)
    is_told, may_go_on = threading.Event(), threading.Event()

    def hold_up(_: echo.Notice) -> None:
        is_told.set()
        may_go_on.wait(LIMIT_S)

    channel.watch(hold_up)
    channel.source(Plain)
    assert is_told.wait(LIMIT_S)
    [membership] = node._home.memberships.values()  # pyright: ignore[reportPrivateUsage]
    rival = Member(0, bytes(16), 1, Standing.HOLDS.value, membership.home.host_id, "rival", ())
    with books.changing():
        books.tell_later(*[partial(int, "1")] * MAX_TO_TELL)
        membership.attendance.meet(rival, 0.0)
        presence.hear_of(membership, rival.node_id, rival)
    assert not membership.is_creator
    until(lambda: _is_free(identity), "the seat to be free")
    may_go_on.set()


def _is_free(identity: ChannelId) -> bool:
    with contextlib.suppress(echo.LinkError), sockets.listen(identity.seat):
        return True
    return False

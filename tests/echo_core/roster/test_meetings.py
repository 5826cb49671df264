"""Links between members: made where one has something for the other, and made again when they are lost."""

from __future__ import annotations

import logging
import math
import queue
import random
import threading
import time

import pytest

import echo_core as echo
from echo_core.errors import LinkError
from echo_core.roster import meetings as meeting
from echo_core.roster.bookkeeping import books
from echo_core.roster.homes import Home
from echo_core.roster.ids import ChannelId
from echo_core.roster.meetings import Meetings
from echo_core.roster.memberships import Membership
from echo_core.roster.places import Limits, Place
from echo_core.transports.addresses import TcpAddress
from echo_core.transports.protocol.messages import Member, Standing
from tests.echo_core.census import peers_of, until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode

LIMIT_S = 60.0


@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_a_link_that_is_lost_between_two_members_comes_back(
    make_node: MakeNode, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Though both have another one, to the creator; the loss and the return are told, and logged."""
    caplog.set_level(logging.INFO, "echo_core")
    creator, sender, receiver = (make_node(transports=[transport]) for _ in range(3))
    id_ = creator.create_channel("test", Plain).id
    source, there = sender.open_channel(id_).source(Plain), receiver.open_channel(id_)
    sink = there.sink(Plain)
    source.wait_matched(1, LIMIT_S)
    told: list[echo.Notice] = []
    there.watch(told.append)
    [peer] = [peer for peer in peers_of(sender) if peer.node_id == receiver.id]
    peer.link.shut()
    until(
        lambda: [type(notice) for notice in told].count(echo.PeerJoined) == 3, "the link to be back", LIMIT_S
    )
    source.wait_matched(1, LIMIT_S)
    sink.wait_matched(1, LIMIT_S)
    source.submit(Plain(1, 2.0))
    assert sink.get(LIMIT_S) == Plain(1, 2.0)
    assert [type(notice) for notice in told].count(echo.PeerLeft) == 1
    assert there.statistics().missing == 0
    assert any("is back" in line for line in caplog.messages)


def test_who_is_found_under_another_name_is_told_why_the_handshake_ends(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """It happens where processes start at once: nothing of it is to be seen in the log."""
    caplog.set_level(logging.INFO, "echo_core")
    here, there = (make_node(transports=["tcp"]) for _ in range(2))
    channel = here.create_channel("test", Plain)
    there.open_channel(channel.id)
    [membership] = there._home.memberships.values()  # pyright: ignore[reportPrivateUsage]
    neighbours = there._neighbours  # pyright: ignore[reportPrivateUsage]
    addresses = ChannelId.parse(channel.id).addresses
    neighbours.join(membership, bytes(16), addresses, ["tcp"], LIMIT_S)
    assert not any("was not let in" in line for line in caplog.messages)
    assert len(here.statistics().links) == 1
    assert here.statistics().handshakes_failed == 0


def test_only_who_has_something_for_others_is_linked_to_them(make_node: MakeNode) -> None:
    """Ten sinks and a source: one link each to the creator, and one to the source."""
    creator, sender, *receivers = (make_node(transports=["unix"]) for _ in range(12))
    id_ = creator.create_channel("test", Plain).id
    source = sender.open_channel(id_).source(Plain)
    channels = [node.open_channel(id_) for node in receivers]
    for channel in channels:
        channel.sink(Plain)
    source.wait_matched(10, LIMIT_S)
    assert [len(node.statistics().links) for node in receivers] == [2] * 10
    until(lambda: all(channel.statistics().members == 11 for channel in channels), "all to be known", LIMIT_S)
    assert [channel.statistics().missing for channel in channels] == [0] * 10


def test_members_go_on_without_their_creator(make_node: MakeNode) -> None:
    """They find another one that tells of newcomers."""
    creator, first, second, third = (make_node(transports=["unix"]) for _ in range(4))
    id_ = creator.create_channel("test", Plain).id
    opened = first.open_channel(id_)
    other = second.open_channel(id_)
    until(lambda: opened.statistics().members == 2, "the other to be known", LIMIT_S)
    creator.close()
    until(lambda: opened.statistics().peers == 1, "a link to the other", LIMIT_S)
    newcomer = third.open_channel(other.id)
    newcomer.source(Plain)
    opened.sink(Plain).wait_matched(1, LIMIT_S)


@pytest.mark.parametrize("is_known_first", [True, False])
def test_members_of_one_channel_that_do_not_answer_hold_up_no_other_channel(is_known_first: bool) -> None:
    """A peer may tell of any number of them; who was linked before goes before those, too."""
    place = Place(transports=("tcp",), listens_at=TcpAddress("127.0.0.1", 0), advertised_host="", spin_ns=0)
    home = Home("test", place, Limits(), None)
    tried: queue.SimpleQueue[str] = queue.SimpleQueue()
    may_answer = threading.Event()

    def attempt(membership: Membership, _: Member, __: float) -> bytes:
        tried.put(membership.name)
        if membership.name == "full":
            may_answer.wait(LIMIT_S)
        msg = "nobody is there"
        raise LinkError(msg)

    meetings = Meetings(home, attempt)
    names = ["full", "other"]
    full, other = (_membership(home, name) for name in (names if is_known_first else reversed(names)))
    if not is_known_first:
        full, other = other, full
    _hear_of_senders(full, 2000)
    meetings.begin()
    try:
        assert tried.get(timeout=LIMIT_S) == "full"
        _hear_of_senders(other, 1)
        meetings.begin()
        while tried.get(timeout=LIMIT_S) != "other":
            pass
    finally:
        home.is_closed = True
        may_answer.set()
        for membership in (full, other):
            membership.close(0.0)


def test_no_more_are_asked_at_once_where_the_first_have_not_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many processes that start at once would otherwise each wait for all others, and give up in vain."""
    monkeypatch.setattr(meeting, "_YOUNG_S", math.inf)
    place = Place(transports=("tcp",), listens_at=TcpAddress("127.0.0.1", 0), advertised_host="", spin_ns=0)
    home = Home("test", place, Limits(), None)
    tried: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    may_answer = threading.Event()

    def attempt(_: Membership, member: Member, __: float) -> bytes:
        tried.put(member.node_id)
        may_answer.wait(LIMIT_S)
        msg = "nobody is there"
        raise LinkError(msg)

    meetings, membership = Meetings(home, attempt), _membership(home, "test")
    _hear_of_senders(membership, 20)
    try:
        meetings.begin()
        first = {tried.get(timeout=LIMIT_S) for _ in range(3)}
        meetings.begin()
        assert tried.empty()
        may_answer.set()
        assert tried.get(timeout=LIMIT_S) not in first
    finally:
        home.is_closed = True
        may_answer.set()
        membership.close(0.0)


def _membership(home: Home, name: str) -> Membership:
    """Of a sink."""
    membership = Membership(home, ChannelId.new(), name, ())
    membership.is_proven = True
    membership.attendance.stand(Standing.TAKES.value)
    return membership


def _hear_of_senders(membership: Membership, count: int) -> None:
    """By one who is linked."""
    teller = Member(0, random.randbytes(16), 1, 0, bytes(16), "", ())
    with books.changing():
        now = time.monotonic()
        membership.attendance.meet(teller, now)
        for _ in range(count):
            named = (
                bytes([255]) + random.randbytes(15),
                1,
                Standing.SENDS.value,
                bytes(16),
                "",
                ("tcp://10.0.0.1:1",),
            )
            membership.attendance.hear(teller.node_id, Member(0, *named), now)


def test_a_node_of_this_process_that_is_heard_of_needs_no_link(make_node: MakeNode) -> None:
    """A thread that was to link to it finds it here, and has the books open when the two meet."""
    here, there = (make_node() for _ in range(2))
    there.open_channel(here.create_channel("test", Plain).id)
    (near,), (far,) = (node._home.memberships.values() for node in (there, here))  # pyright: ignore[reportPrivateUsage]
    neighbours = there._neighbours  # pyright: ignore[reportPrivateUsage]
    assert neighbours._attempt(near, far.attendance.own, LIMIT_S) == here.id  # pyright: ignore[reportPrivateUsage]
    assert there.statistics().links == ()

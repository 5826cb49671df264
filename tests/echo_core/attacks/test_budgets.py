"""What a peer says of channels and formats is paid for out of its own budget, and holds up nobody else."""

from __future__ import annotations

import secrets
import statistics
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import make_dataclass
from functools import partial
from typing import Any

import pytest

from echo_core.roster.bookkeeping import books
from echo_core.roster.peers import Peer
from echo_core.transports.limits import COMPILING_S, HEARING_S, HEARING_SHARE
from echo_core.transports.protocol import messages
from tests.echo_core.attacks.test_costs import FormatVictim, wide_formats
from tests.echo_core.census import peers_of, until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.hostile_peer import STREAM, HostilePeer
from tests.transports.frames import write_frame

pytestmark = pytest.mark.once

FIELDS = 500
SINKS = 6
MORE_SLOWLY = "heard more slowly"


def similar(cls_number: int) -> type[Any]:
    """A class whose fields look like those of the formats, but are none of them."""
    name = f"Similar{cls_number}"
    return make_dataclass(name, [(f"f{cls_number}_{k}x", int, 0) for k in range(FIELDS)])


@contextmanager
def offered_without_end(victim: FormatVictim) -> Generator[None]:
    """Sources of large formats, each closed at once and offered anew, as fast as they are read."""
    formats = wide_formats(15)
    again = b"".join(
        write_frame(said.kind, messages.encode(said))
        for number in range(len(formats))
        for said in (messages.Source(STREAM, 0, number, 0, bytes(16), ""), messages.Closed(STREAM))
    )
    with HostilePeer.linked(victim.channel.id, "unix") as peer:
        peer.say(peer.join(), messages.Declared(0, "", ()))
        peer.say(*(messages.Format(number, metadata) for number, metadata in enumerate(formats)))
        until(lambda: victim.channel.statistics().peers == 1, "the peer")
        [hostile] = [each for each in peers_of(victim.node) if str(each).startswith("hostile")]
        hostile.conversation.hearing.charge(HEARING_S / 2)  # which takes long on a busy machine
        threads = [
            threading.Thread(target=partial(_until_the_end, act))
            for act in (partial(_send_for_ever, peer, again), peer.expect_end)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            peer.shut_sending()
            victim.node.close()
            for thread in threads:
                thread.join()


def _send_for_ever(peer: HostilePeer, data: bytes) -> None:
    while True:
        peer.send(data)


def _until_the_end(act: Any) -> None:
    with suppress(OSError):
        act()


def time_to_open_the_books() -> float:
    began = time.monotonic()
    with books.changing():
        return time.monotonic() - began


def test_a_peer_that_offers_large_formats_without_end_holds_up_nobody(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """Each format took a second of others' time. The peer is slowed down, and not refused."""
    victim = FormatVictim(make_node)
    for number in range(SINKS):
        victim.channel.sink(similar(number), print, match="shape")
    waits_s: list[float] = []

    def is_slowed_down() -> bool:
        waits_s.append(time_to_open_the_books())
        victim.demand_delivery()
        return MORE_SLOWLY in caplog.text

    with offered_without_end(victim):
        until(is_slowed_down, "the peer to be slowed down", 120.0)
        for _ in range(50):
            is_slowed_down()
        assert victim.channel.statistics().peers == 1
        assert statistics.median(waits_s) < 0.1
        assert caplog.text.count(MORE_SLOWLY) == 1


def test_who_has_said_too_much_is_heard_all_the_same(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    node, other = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = node.create_channel("plain", Plain)
    sink = channel.sink(Plain)
    source = other.open_channel(channel.id).source(Plain)
    source.wait_matched()
    [peer] = peers_of(node)
    peer.conversation.hearing.charge(HEARING_S + 0.02)
    source.submit(Plain(1, 0.5))
    assert sink.get(30.0) == Plain(1, 0.5)
    late = other.open_channel(channel.id).source(Plain, name="late")
    late.wait_matched()
    late.submit(Plain(2, 0.5))
    assert sink.get(30.0) == Plain(2, 0.5)
    assert caplog.text.count(MORE_SLOWLY) == 1
    assert node.statistics().links_lost == 0


def test_a_peer_that_is_made_to_wait_does_not_keep_its_node_from_closing(make_node: MakeNode) -> None:
    node, other = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = node.create_channel("plain", Plain)
    channel.sink(Plain)
    opened = other.open_channel(channel.id)
    opened.source(Plain).wait_matched()
    [peer] = peers_of(node)
    peer.conversation.hearing.charge(1000.0)
    opened.source(Plain, name="late")
    began = time.monotonic()
    node.close()
    assert peer.is_over.wait(30.0)
    assert time.monotonic() - began < 4.0  # a frame may wait for 5 s


RECONNECTIONS = 20


@contextmanager
def joined(victim: FormatVictim, node_id: bytes | None = None) -> Generator[Peer]:
    """A hostile peer has come to the victim's channel; the victim's end of its link."""
    with HostilePeer.linked(victim.channel.id, "unix", node_id) as peer:
        peer.say(peer.join(), messages.Declared(0, "", ()))
        until(lambda: victim.channel.statistics().peers == 1, "the peer")
        [hostile] = [each for each in peers_of(victim.node) if str(each).startswith("hostile")]
        yield hostile
    until(lambda: victim.channel.statistics().peers == 0, "the peer to be gone")


def test_a_peer_that_comes_again_has_no_more_than_it_had_left(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """Of what is compiled for it, too. It is told of once, and nobody else waits."""
    victim, node_id = FormatVictim(make_node), secrets.token_bytes(16)
    began = time.monotonic()
    with joined(victim, node_id) as hostile:
        hostile.conversation.hearing.charge(HEARING_S + 0.3)
        hostile.conversation.compiling.charge(1000.0)
    for _ in range(RECONNECTIONS):
        with joined(victim, node_id) as hostile:
            assert hostile.conversation.compiling.wait_s() > 1000.0
            used_s = HEARING_S - hostile.conversation.hearing.left_s
            assert used_s + HEARING_SHARE * (time.monotonic() - began) > HEARING_S + 0.2
            victim.demand_delivery()
    assert caplog.text.count(MORE_SLOWLY) == 1


def test_a_peer_that_comes_under_another_name_each_time_has_little_more(make_node: MakeNode) -> None:
    """And those that were there before have their own."""
    victim = FormatVictim(make_node)
    honest = [peer for peer in peers_of(victim.node) if not str(peer).startswith("hostile")]
    for _ in range(RECONNECTIONS):
        with joined(victim) as hostile:
            hostile.conversation.hearing.charge(HEARING_S)
            hostile.conversation.compiling.charge(COMPILING_S)
    with joined(victim) as hostile:
        assert hostile.conversation.compiling.wait_s() == 0.0  # but next to nothing is left
        assert hostile.conversation.hearing.left_s < HEARING_S / 2
        victim.demand_delivery()
    for peer in honest:
        assert peer.conversation.hearing.left_s > HEARING_S / 2

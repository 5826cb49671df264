"""What the log has of a channel's life, at its usual levels."""

from __future__ import annotations

import logging
import re

import pytest

import echo_core as echo
from echo_core.roster.announcements import Announcements, log_lost
from echo_core.roster.bookkeeping import books
from echo_core.transports.protocol import messages
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import Collector
from tests.echo_core.hostile_peer import STREAM, HostilePeer
from tests.echo_core.processes import LIMIT_S, Actor
from tests.transports.frames import write_frame


@pytest.fixture(autouse=True)
def everything_that_is_usual(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "echo_core")


def test_joins_and_leaves_are_logged_with_names_and_addresses(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """At both ends."""
    here, there = make_node(name="here", transports=["tcp"]), make_node(name="there", transports=["tcp"])
    with here.create_channel("plain", Plain) as channel:
        opened = there.open_channel(channel.id, timeout_s=LIMIT_S)
        opened.close()
        until(lambda: len(_lines(caplog)) == 4, "both ends to have left")
    address = r"\(127\.0\.0\.1:\d+\)"
    _demand_one(caplog, rf"INFO channel `plain`: joined by `there {address}`")
    _demand_one(caplog, rf"INFO channel `plain`: joined by `here {address}`")
    _demand_one(caplog, rf"INFO channel `plain`: left by `there {address}`: it said goodbye")
    _demand_one(caplog, rf"INFO channel `plain`: left by `here {address}`: it said goodbye")


def _demand_one(caplog: pytest.LogCaptureFixture, line: str) -> None:
    assert sum(re.fullmatch(line, said) is not None for said in _lines(caplog)) == 1, _lines(caplog)


def test_a_process_that_was_killed_leaves_with_a_reason(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    channel = make_node(transports=["unix"]).create_channel("plain", Plain)
    script = (
        "channel = echo.Node('other', transports=['unix']).open_channel(sys.argv[1])\nsay('there')\nhear()\n"
    )
    with Actor(script, channel.id) as other:
        assert other.hear() == "there"
        until(lambda: len(_lines(caplog)) == 1, "the join to be logged")
        other.kill()
        until(lambda: len(_lines(caplog)) == 2, "the leave to be logged")
    assert re.match(r"INFO channel `plain`: left by `other \(.*\)`: .+", _lines(caplog)[-1])
    assert "goodbye" not in _lines(caplog)[-1]


def test_the_loss_of_a_link_is_logged_once(make_node: MakeNode, caplog: pytest.LogCaptureFixture) -> None:
    """With the channels that it has carried, which watch for it by themselves."""
    told = Collector()
    channel = make_node(transports=["unix"]).create_channel("plain", Plain)
    channel.watch(told)
    with HostilePeer.linked(channel.id, "unix") as peer:
        peer.say(peer.join(), messages.Declared(0, "", ()))
        until(lambda: len(_lines(caplog)) == 1, "the join to be logged")
        caplog.clear()
        peer.send(write_frame(STREAM + 9, bytes(16)))
        peer.expect_end()
        told.wait_for(echo.PeerLeft)
    [said] = caplog.messages
    assert re.match(r"link to hostile \(.*\) lost: Expected a stream .* \(it carried channel `plain`\)", said)


def test_few_of_the_channels_of_a_lost_link_are_named(caplog: pytest.LogCaptureFixture) -> None:
    log_lost("it", ["a", "b", "c\n", "d", "e"], "why")
    log_lost("it", [], "why")
    many, none = caplog.messages
    assert re.fullmatch(r"link to it lost: why \(it carried channel `a`, `b`, `.*c.*`, 2 others\)", many)
    assert none == "link to it lost: why"


def test_what_a_peer_says_of_derived_channels_is_bounded_and_told_apart(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that says it without end keeps no other from being heard; none of its lines is one of the log."""
    announcements = Announcements()
    with books.changing():
        for number in range(200):
            announcements.tell_underivable("c", "hostile", "source", f"because\nof {number}")
            announcements.tell_underivable("c", "hostile", "source", "because\nof 0")
    assert 0 < len(caplog.messages) <= 64
    assert all("\n    of " in message for message in caplog.messages)
    caplog.clear()
    with books.changing():
        for number in range(200):
            announcements.tell_underivable("c", f"honest {number}", "source", "it lacks a field")
    assert len(caplog.messages) == 200


def test_a_name_that_would_break_the_line_is_quoted(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """A peer chooses its name, and that of its channels."""
    here, there = make_node(transports=["unix"]), make_node(name="a\n\x1b[2J", transports=["unix"])
    with here.create_channel("x\ny", Plain) as channel:
        there.open_channel(channel.id, timeout_s=LIMIT_S).close()
        until(lambda: len(_lines(caplog)) == 4, "both ends to have left")
    assert all(line.isprintable() for line in _lines(caplog))


def test_a_type_that_is_refused_is_logged_once_at_each_end(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    @echo.event
    class Plain:
        id: str

    channel = make_node(transports=["unix"]).create_channel("x")
    opened = make_node(transports=["unix"]).open_channel(channel.id, timeout_s=LIMIT_S)
    source, sink = channel.source(_plain()), opened.sink(Plain)
    with pytest.raises(echo.IncompatibleError):
        source.wait_matched(timeout_s=LIMIT_S)
    with pytest.raises(echo.IncompatibleError):
        sink.wait_matched(timeout_s=LIMIT_S)
    refused = [record for record in caplog.records if "cannot take events of" in record.getMessage()]
    assert [record.levelname for record in refused] == ["WARNING"] * 2


def _plain() -> type[Plain]:
    return Plain


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Of joins and leaves."""
    said = [f"{record.levelname} {record.getMessage()}" for record in caplog.records]
    return [line for line in said if "joined by" in line or "left by" in line]

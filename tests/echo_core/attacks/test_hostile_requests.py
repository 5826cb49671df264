"""Peers with the right key that misuse the control of sources, or claim sources of what is derived."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import echo_core as echo
from echo_core.roster.ids import ChannelId
from echo_core.streams import conversations
from echo_core.streams.controls import to_message
from echo_core.transports.handshake.words import Feature
from echo_core.transports.limits import MAX_SOURCE_PARAMETERS
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.messages import Message
from echo_core.values.parameters import ParameterType
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain, Reading1, Story
from tests.echo_core.conftest import MakeNode
from tests.echo_core.hostile_peer import STREAM, HostilePeer, identity
from tests.echo_core.victims import LIMIT_S, Victim
from tests.transports.frames import write_frame

STORY = Story(1, "a title", b"body", np.array([1.0, 2.0], np.float32), ["one", "two"], "noted")
RESOLUTION = ParameterType("resolution", 64, 1, 1024)


@pytest.fixture
def victim(make_node: MakeNode) -> Victim:
    return Victim(make_node)


def word(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


def parameter(name: str, high: int = 1024) -> Message:
    return replace(to_message(replace(RESOLUTION, name=name, high=high)), stream=STREAM)


BROKEN: dict[str, list[Message]] = {  # said by who has offered a source
    "a parameter of no stream": [replace(parameter("x"), stream=STREAM + 7)],  # type: ignore[type-var]
    "a parameter twice": [parameter("x"), parameter("x")],
    "a parameter that none can be": [parameter("x", high=3)],
    "too many": [parameter(f"p{i}") for i in range(MAX_SOURCE_PARAMETERS + 1)],
    "an answer to nothing": [messages.Requested(STREAM, 1)],
    "an answer to no request": [parameter("x"), messages.Requested(STREAM, 1)],
    "a request of no stream": [messages.Request(STREAM + 7, True, 1, word(2), "resolution")],
    "what is underivable on nothing": [messages.Underivable(98, bytes(16), "x", "y")],
}


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_what_no_source_may_say_costs_its_peer_the_link(
    victim: Victim, transport: str, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The good link goes on."""
    with HostilePeer.linked(victim.id, transport) as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.join_and_offer(Reading1)
        for message in BROKEN[what]:
            peer.say(message)
        peer.expect_end()
    victim.demand_only_the_good_link()
    assert len([line for line in caplog.messages if "lost" in line]) == 1


def test_parameters_of_many_sources_are_bounded_together(
    victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer may have tens of thousands of sources, each of which may have some."""
    monkeypatch.setattr(conversations, "MAX_LINK_PARAMETER_BYTES", 10_000)
    with HostilePeer.linked(victim.id, "unix") as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.join_and_offer(Reading1)
        low, high = (f"{place}{'x' * 200}" for place in range(2))
        type_ = ParameterType("p", low, low, high, (low, high))
        said = (to_message(replace(type_, name=f"p{number}")) for number in range(MAX_SOURCE_PARAMETERS))
        with contextlib.suppress(ConnectionError):  # it may be shut out on the way
            peer.say(*(replace(it, stream=STREAM) for it in said))
        peer.expect_end()
    victim.demand_only_the_good_link()


REQUESTS: dict[str, Callable[[int], messages.Request]] = {
    "a parameter that there is not": lambda s: messages.Request(s, True, 1, word(2), "gain"),
    "a value out of bounds": lambda s: messages.Request(s, True, 1, word(1025), "resolution"),
    "a value below": lambda s: messages.Request(s, True, 1, word(-1), "resolution"),
    "the name of what was hidden": lambda s: messages.Request(s, False, 1, word(0), "\u202e"),
}


@pytest.mark.parametrize("what", REQUESTS)
def test_a_request_for_what_was_not_offered_costs_its_peer_the_link(make_node: MakeNode, what: str) -> None:
    """What honest receivers request goes on to count."""
    channel = make_node(transports=["unix"]).create_channel("attacked", Plain)
    source = channel.source()
    resolution = source.parameter("resolution", 64, low=1, high=1024)
    good: echo.Channel[Plain] = make_node(transports=["unix"]).open_channel(channel.id)
    until(lambda: good.request(resolution=128, timeout_s=LIMIT_S) != [], "the source to be known")
    with HostilePeer.connected(channel.id, "unix") as peer:
        stream = offered(peer)
        peer.say(messages.Request(stream, True, 1, word(512), "resolution"))
        until(lambda: resolution.value == 512, "what may be requested")
        peer.say(REQUESTS[what](stream))
        peer.expect_end()
    until(lambda: resolution.value == 128, "the hostile request to end")


def offered(peer: HostilePeer) -> int:
    """The stream of the source that the other side offers, once it has said what that can be asked."""
    peer.connection.settimeout(LIMIT_S)
    peer.shake_hands(replace(identity(), features=Feature.DERIVED_CHANNELS))
    peer.say(peer.join(), messages.Declared(0, "", ()))
    for said in peer.messages():
        if isinstance(said, messages.Parameter):
            assert said.name == "resolution"
            return said.stream
    raise AssertionError


def test_sources_on_a_derived_channel_are_those_of_who_has_its_base(make_node: MakeNode) -> None:
    """Whoever claims one by the derived id alone is held back, and hears why if it has not the base."""
    node = make_node(transports=["unix"])
    base = node.create_channel("base", Plain)
    hot = base.derive(where="x > 1")
    notices: list[echo.Notice] = []
    hot.watch(notices.append)
    sink = hot.sink(Plain)
    source = base.source()
    with HostilePeer.linked(hot.id, "unix") as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.say(peer.join(), messages.Declared(0, "", ()))
        peer.say(messages.Format(0, echo.format_of(Plain).metadata))
        peer.say(messages.Source(STREAM, 0, 0, 0, bytes(16), "hostile"))
        asked = next(said for said in peer.messages() if isinstance(said, messages.Join))
        assert asked.uid == ChannelId.parse(base.id).uid
        peer.say(messages.Refused(asked.alias, messages.Refusal.UNKNOWN_CHANNEL, ""))
        told = next(said for said in peer.messages() if isinstance(said, messages.Unreachable))
        assert told.text.startswith("Expected no sources on the derived `base, derived")
        assert "but those of who has `base`" in told.text
        until(lambda: any(isinstance(it, echo.Unreachable) for it in notices), "the notice")
        source.submit(Plain(1, 2.0))
        assert sink.get(LIMIT_S) == Plain(1, 2.0)
        assert hot.statistics().remote_sources == 1
        peer.say(messages.Flush(1))
        heard = list(until_flushed(peer))
        assert not any(isinstance(said, messages.Attach) for said in heard)


def test_what_a_peer_sends_that_knows_no_derived_channels_is_judged_here(make_node: MakeNode) -> None:
    """Whether it or the derived channel comes first; what is damaged costs it the link."""
    base = make_node(transports=["unix"]).create_channel("base", Story)
    earlier = base.derive(where="len(title) > 1").sink(Story)
    taken = base.sink(Story)
    damaged = bytearray(echo.encoder(Story)(STORY))
    damaged[8:16] = (1 << 40).to_bytes(8, "little")  # where the title lies
    with HostilePeer.linked(base.id, "unix") as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.join_and_offer(Story)
        until(lambda: base.statistics().remote_sources == 1, "the source")
        later = base.derive(where="len(title) > 2").sink(Story)
        peer.send(write_frame(STREAM, echo.encoder(Story)(STORY)))
        for sink in (taken, earlier, later):
            assert sink.get(LIMIT_S) == STORY
        peer.send(write_frame(STREAM, bytes(damaged)))
        peer.expect_end()
    until(lambda: earlier.statistics().judged_here == 0, "the source to go")


@pytest.mark.parametrize("is_alone", [False, True])
def test_damaged_records_are_refused_before_they_are_judged(
    make_node: MakeNode, is_alone: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Many bytes of one changed, each by itself: the link ends or not, and nothing else happens."""
    base = make_node(transports=["unix"]).create_channel("base", Story)
    hot = base.derive(where="any(tag == 'none' for tag in tags) or sum(samples) > 1e9")
    sink = hot.sink(Story)
    taken = None if is_alone else base.sink(Story, lambda event: None)
    record = echo.encoder(Story)(STORY)
    for at in range(0, len(record), 3):
        with HostilePeer.linked(base.id, "unix") as peer:
            peer.connection.settimeout(LIMIT_S)
            peer.join_and_offer(Story)
            changed = bytes([*record[:at], record[at] ^ 0x80, *record[at + 1 :]])
            with contextlib.suppress(ConnectionError):
                peer.send(write_frame(STREAM, changed) + write_frame(STREAM, record))
                peer.say(messages.Flush(1))
                for said in peer.messages():
                    if isinstance(said, messages.Flushed):
                        break
    assert sink.statistics().failures == 0
    assert taken is None or taken.statistics().events > 0
    assert not any("Traceback" in str(it.exc_text) for it in caplog.records)


def until_flushed(peer: HostilePeer) -> list[Message]:
    heard: list[Message] = []
    for said in peer.messages():
        if isinstance(said, messages.Flushed):
            return heard
        heard.append(said)
    raise AssertionError


def test_a_source_counts_once_its_side_has_proven_the_base(make_node: MakeNode) -> None:
    """Two nodes that were linked by the derived channel alone at first."""
    near = make_node(transports=["unix"])
    base = near.create_channel("base", Plain)
    hot = base.derive(where="x > 1")
    sink = hot.sink(Plain)
    far = make_node(transports=["unix"])
    viewed: echo.Channel[Plain] = far.open_channel(hot.id)
    opened: echo.Channel[Plain] = far.open_channel(base.id)
    again = opened.derive(Plain, where="x > 1")
    source = opened.source(Plain)
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(1, 2.0))
    assert sink.get(LIMIT_S) == Plain(1, 2.0)
    viewed.close()
    again.close()


def test_the_id_of_a_derived_channel_alone_takes_no_sources(make_node: MakeNode) -> None:
    """A named error where somebody tries, with the way out; also for what is derived from it again."""
    base = make_node(transports=["unix"]).create_channel("base", Plain)
    hot = base.derive(where="x > 1")
    assert hot.id.startswith("echo1-derived:")
    viewed: echo.Channel[Plain] = make_node(transports=["unix"]).open_channel(hot.id)
    for channel in (viewed, viewed.derive(Plain, where="x > 2")):
        with pytest.raises(echo.ChannelError, match="Expected a channel that is not derived, for a source"):
            channel.source(Plain)
    with pytest.raises(echo.ChannelError, match="put it on `base`"):
        hot.source(Plain)


ANSWERS: dict[str, Callable[[int], Message]] = {
    "an answer to no question": lambda s: messages.Ack(s, messages.Level.HANDLED, 1 << 40, 0),
    "an answer of no level": lambda s: messages.Ack(s, 3, 0, 0),
    "a miss of no events": lambda s: messages.Missed(s, messages.Missing.FAILED, 2, 1),
    "a miss for no reason": lambda s: messages.Missed(s, 0, 1, 2),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_an_answer_that_none_can_be_costs_its_peer_the_link(make_node: MakeNode, what: str) -> None:
    """What honest receivers answer goes on to count."""
    channel = make_node(transports=["unix"]).create_channel("attacked", Plain)
    source = channel.source()
    source.parameter("resolution", 64, low=1, high=1024)
    sink = make_node(transports=["unix"]).open_channel(channel.id).sink(Plain)
    source.wait_matched(1, LIMIT_S)
    with HostilePeer.connected(channel.id, "unix") as peer:
        stream = offered(peer)
        receipt = source.submit_tracked(Plain(1, 0.5))
        peer.say(ANSWERS[what](stream))
        peer.expect_end()
    assert sink.get(LIMIT_S) == Plain(1, 0.5)
    assert len(receipt.wait(LIMIT_S)) == 1

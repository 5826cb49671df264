"""One link: what may be said when, what the node hears, and that a peer can break nothing but the link."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest

from echo_core.errors import ClosedError, EchoError, EncodeError, LinkError, WireError
from echo_core.transports import limits
from echo_core.transports.handshake.proofs import Purpose, Role, prove
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.link import LinkProtocol, cut
from echo_core.transports.protocol.link_state import Declaration, Heard, PeerStream
from echo_core.transports.protocol.messages import Farewell, Message, Refusal, Standing, encode
from tests.transports.samples import (
    CHANNEL,
    KEY,
    OTHER_KEY,
    SECRET,
    Pair,
    is_shared,
    member,
    on_link,
    said,
    session,
    types_of,
)

OTHER = bytes(range(50, 66))


def tell(protocol: LinkProtocol, message: Message) -> list[Heard]:
    return protocol.receive(message.kind, encode(message))


def join(alias: int, uid: bytes = CHANNEL, key: bytes = KEY) -> messages.Join:
    """A JOIN as a peer with this key would make it."""
    proven = (SECRET, uid, alias.to_bytes(4, "little"))
    return messages.Join(alias, uid, prove(Purpose.JOIN, key, *proven))


def kinds(frames: list[tuple[int, bytes]]) -> list[int]:
    return [kind for kind, _ in frames]


# ---------------------------------------------------------------------------------------------------
# What each side hears


def test_a_channel_is_shared_when_both_have_proven_it() -> None:
    """The one that joins learns the types, and both know that sources can be offered."""
    pair = Pair()
    pair.near.join(CHANNEL)
    near, far = pair.exchange()
    assert types_of(near) == [messages.Joined, messages.Declared]
    assert types_of(far) == [messages.Join, messages.Declared]
    assert {about for _, about in near} == {pair.near_channel}
    assert {about for _, about in far} == {pair.far_channel}
    for channel in (pair.near_channel, pair.far_channel):
        assert channel.uid == CHANNEL
        assert channel.is_shared
        assert channel.is_declared
    assert (pair.near_channel.name, pair.near_channel.types) == ("particles", (b"type",))
    assert (pair.far_channel.name, pair.far_channel.types) == ("", ())


def test_the_life_of_a_stream() -> None:
    """Offered, attached to, started, with gaps and drops, closed."""
    pair = Pair().shared()
    own = pair.far.offer(pair.far_channel, b"type", "source", bytes(16))
    ((offered, theirs),) = pair.exchange()[0]
    number = own.number
    assert offered == messages.Source(number, 0, 0, 0, bytes(16), "source")
    assert isinstance(theirs, PeerStream)
    assert (theirs.number, theirs.channel) == (number, pair.near_channel)
    assert (theirs.metadata, theirs.name) == (b"type", "source")
    pair.near.attach(theirs, 2, (65536, 1 << 24))
    assert pair.exchange()[1] == [(messages.Attach(number, 2, 0, 65536, 1 << 24), own)]
    pair.far.start(own, 41)
    assert pair.exchange()[0] == [(messages.Started(number, 0, 41), theirs)]
    assert tell(pair.near, messages.Gap(number, 3)) == [(messages.Gap(number, 3), theirs)]
    pair.near.report_dropped(theirs, 5)
    pair.near.report_unreachable(theirs, "why")
    assert pair.exchange()[1] == [
        (messages.Dropped(number, 5), own),
        (messages.Unreachable(number, "why"), own),
    ]
    pair.far.close(own)
    assert pair.exchange() == ([(messages.Closed(number), theirs)], [])
    pair.near.report_dropped(theirs, 1)  # its last events may wait for long
    pair.near.release(theirs)
    assert pair.exchange()[1] == [(messages.Dropped(number, 1), own), (messages.Released(number), own)]


def test_a_flush_is_answered_by_number() -> None:
    """In whatever order."""
    pair = Pair()
    first, second = pair.near.flush(), pair.near.flush()
    assert pair.exchange()[1] == [(messages.Flush(first), None), (messages.Flush(second), None)]
    pair.far.answer_flush(second)
    pair.far.answer_flush(first)
    assert pair.exchange()[0] == [(messages.Flushed(second), None), (messages.Flushed(first), None)]


def test_members_are_told_of() -> None:
    """And that they are gone."""
    pair = Pair().shared()
    for told in (member(OTHER, "tcp://127.0.0.1:1", "udp://later"), member(OTHER, standing=Standing.LEFT)):
        pair.near.tell_member(pair.near_channel, told)
        assert pair.exchange()[1] == [(told, pair.far_channel)]


def test_a_format_is_sent_once() -> None:
    """However many sources and channels have it."""
    pair = Pair(far=Declaration(KEY, "", (b"type", b"type", b"other")))
    pair.declarations[0][OTHER] = pair.declarations[1][OTHER] = Declaration(KEY, "", (b"other",))
    pair.near.join(CHANNEL)
    pair.near.join(OTHER)
    pair.exchange()
    for _ in range(3):
        pair.far.offer(pair.far_channel, b"type", "", bytes(16))
    near, _ = pair.exchange()
    assert kinds(pair.near_frames).count(messages.Format.kind) == 2
    assert types_of(near) == [messages.Source] * 3
    assert all(isinstance(stream, PeerStream) and stream.metadata == b"type" for _, stream in near)


def test_a_stream_number_is_used_again_once_it_is_released() -> None:
    """Tables by number stay as small as the number of streams."""
    pair = Pair().shared()
    channel = pair.far_channel
    first, second = (
        pair.far.offer(channel, b"type", "1", bytes(16)),
        pair.far.offer(channel, b"type", "2", bytes(16)),
    )
    assert (first.number, second.number) == (limits.FIRST_STREAM, limits.FIRST_STREAM + 1)
    pair.far.close(first)
    assert pair.far.offer(channel, b"type", "3", bytes(16)).number == limits.FIRST_STREAM + 2
    [(_, theirs), *_] = [each for each in pair.exchange()[0] if isinstance(each[0], messages.Closed)]
    assert isinstance(theirs, PeerStream)
    assert pair.far.offer(channel, b"type", "none is free", bytes(16)).number == limits.FIRST_STREAM + 3
    pair.near.release(theirs)
    pair.exchange()
    assert pair.far.offer(channel, b"type", "4", bytes(16)).number == first.number
    pair.far.leave(channel)
    pair.exchange()
    pair.far.join(CHANNEL)
    pair.exchange()
    assert pair.far.offer(channel, b"type", "5", bytes(16)).number == first.number


# ---------------------------------------------------------------------------------------------------
# Joining and leaving


def test_an_unknown_channel_is_refused() -> None:
    """To the one that joins; the other does not hear of it."""
    pair = Pair()
    pair.declarations[0][OTHER] = Declaration(KEY)
    channel = pair.near.join(OTHER)
    near, far = pair.exchange()
    assert far == []
    ((refused, about),) = near
    assert about is channel
    assert refused is channel.refusal
    assert channel.refusal is not None
    assert channel.refusal.code == Refusal.UNKNOWN_CHANNEL
    assert pair.near.channel(OTHER) is None
    assert not channel.is_shared


def test_a_wrong_key_is_refused_on_a_link_too() -> None:
    """And another attempt may follow."""
    pair = Pair(near=Declaration(OTHER_KEY))
    channel = pair.near.join(CHANNEL)
    ((refused, _),), far = pair.exchange()
    assert isinstance(refused, messages.Refused)
    assert refused.code == Refusal.WRONG_KEY
    assert far == []
    pair.declarations[0][CHANNEL] = Declaration(KEY)
    assert pair.near.join(CHANNEL) is channel
    assert channel.refusal is None
    assert messages.Joined in types_of(pair.exchange()[0])
    assert channel.is_shared


def test_whoever_takes_a_join_proves_the_key_as_well() -> None:
    """A peer that says yes to everything learns of no type and no source."""
    pair = Pair()
    pair.near.join(CHANNEL)
    ((_, payload),) = pair.near.take_frames()
    for proof in (bytes(32), payload[-32:]):
        with pytest.raises(WireError, match="proof"):
            tell(pair.near, messages.Joined(0, proof))
    assert not is_shared(pair.near)


def test_a_proof_of_another_link_or_alias_is_none() -> None:
    """Nobody gets in with what he has overheard."""
    other_link = messages.Join(0, CHANNEL, prove(Purpose.JOIN, KEY, bytes(32), CHANNEL, bytes(4)))
    other_alias = messages.Join(2, CHANNEL, join(0).proof)
    for message in (other_link, other_alias):
        pair = Pair()
        assert tell(pair.far, message) == []
        assert kinds(pair.far.take_frames()) == [messages.Refused.kind]


def test_both_join_at_once() -> None:
    """The initiator's JOIN counts, and each hears of it once."""
    pair = Pair()
    channels = pair.near.join(CHANNEL), pair.far.join(CHANNEL)
    near, far = pair.exchange()
    assert types_of(near) == [messages.Joined, messages.Declared]
    assert types_of(far) == [messages.Join, messages.Declared]
    assert channels == (pair.near_channel, pair.far_channel)
    assert pair.near_channel.alias == pair.far_channel.alias == 0
    assert pair.near_channel.is_shared
    assert pair.far_channel.is_shared
    assert pair.near_channel.types == (b"type",)


def test_both_join_at_once_with_different_keys() -> None:
    """Both hear that it came to nothing."""
    pair = Pair(near=Declaration(OTHER_KEY))
    channels = pair.near.join(CHANNEL), pair.far.join(CHANNEL)
    for heard, channel in zip(pair.exchange(), channels, strict=True):
        ((refused, about),) = heard
        assert about is channel
        assert isinstance(refused, messages.Refused)
        assert refused.code == Refusal.WRONG_KEY
        assert channel.refusal is refused


def test_a_responder_that_wants_the_channel_again_hears_of_a_refusal() -> None:
    """It had left before the answer, and joined anew, when the initiator's JOIN came."""
    pair = Pair(near=Declaration(OTHER_KEY))
    channel = pair.far.join(CHANNEL)
    pair.far.leave(channel)
    assert pair.far.join(CHANNEL) is channel
    pair.near.join(CHANNEL)
    _, far = pair.exchange()
    assert types_of(far) == [messages.Refused]
    assert channel.refusal is not None


def test_leaving_closes_what_was_on_the_channel() -> None:
    """The one that stays hears of each stream; the one that leaves hears nothing more."""
    pair = Pair().shared()
    near, far = pair.near_channel, pair.far_channel
    stream = pair.near.offer(near, b"type", "", bytes(16))
    ((_, theirs),) = pair.exchange()[1]
    pair.attached()
    pair.near.leave(near)
    pair.far.offer(far, b"type", "crosses", bytes(16))
    pair.far.tell_member(far, member(OTHER, "unix:@x"))
    assert pair.exchange() == (
        [],
        [(messages.Closed(stream.number), theirs), (messages.Leave(0), far)],
    )
    for side, channel in ((pair.near, near), (pair.far, far)):
        assert side.channel(CHANNEL) is None
        assert not channel.is_shared
        assert not channel.is_declared
        assert [*channel.own_streams, *channel.peer_streams, *channel.members] == []


def test_both_leave_at_once() -> None:
    """And can join again, on the same link."""
    pair = Pair().shared()
    pair.near.leave(pair.near_channel)
    pair.far.leave(pair.far_channel)
    assert pair.exchange() == ([], [])
    pair.far.join(CHANNEL)
    assert messages.Join in types_of(pair.exchange()[0])
    assert is_shared(pair.far)


def test_a_channel_that_is_left_before_the_answer_is_not_shared() -> None:
    """Whether the answer is yes or no."""
    for far in (Declaration(KEY), Declaration(OTHER_KEY)):
        pair = Pair(far=far)
        channel = pair.near.join(CHANNEL)
        pair.near.leave(channel)
        assert pair.exchange()[0] == []
        assert pair.near.channel(CHANNEL) is pair.far.channel(CHANNEL) is None
        assert channel.refusal is None


def test_who_leaves_and_joins_at_once_shares_anew() -> None:
    """As soon as the peer has let go of the old; it is the same object on both sides."""
    pair = Pair().shared()
    near_channel, far_channel = pair.near_channel, pair.far_channel
    pair.near.leave(near_channel)
    assert pair.near.join(CHANNEL) is near_channel
    near, far = pair.exchange()
    assert (messages.Joined, near_channel) in [(type(message), about) for message, about in near]
    assert types_of(far)[:2] == [messages.Leave, messages.Join]
    assert {about for _, about in far} == {far_channel}
    assert near_channel.is_shared
    assert near_channel.alias == far_channel.alias == 2


def test_the_last_wish_counts() -> None:
    """Left, wanted again, and left again before the peer has answered."""
    pair = Pair().shared()
    channel = pair.near_channel
    pair.near.leave(channel)
    pair.near.join(CHANNEL)
    pair.near.leave(channel)
    assert pair.exchange()[0] == []
    assert pair.near.channel(CHANNEL) is None


def test_joining_and_leaving_twice_say_nothing_twice() -> None:
    """A node need not remember on which links it has."""
    pair = Pair()
    channel = pair.near.join(CHANNEL)
    assert pair.near.join(CHANNEL) is channel
    pair.exchange()
    assert pair.near.join(CHANNEL) is channel
    pair.near.leave(channel)
    pair.near.leave(channel)
    pair.exchange()
    pair.near.leave(channel)
    assert pair.near.take_frames() == []
    said_by_near = kinds(pair.far_frames)
    assert said_by_near.count(messages.Join.kind) == said_by_near.count(messages.Leave.kind) == 1


def test_a_channel_that_the_node_has_forgotten_is_left() -> None:
    """Where its declaration is gone when the answer comes."""
    pair = Pair()
    pair.near.join(CHANNEL)
    del pair.declarations[0][CHANNEL]
    assert pair.exchange()[0] == []
    assert not is_shared(pair.far)
    with pytest.raises(LinkError, match="knows"):
        pair.near.join(CHANNEL)


# ---------------------------------------------------------------------------------------------------
# What crosses on the way


def test_what_comes_for_a_stream_that_was_just_closed_is_ignored() -> None:
    """The peer could not know; but what its sinks have dropped is counted."""
    pair = Pair().shared()
    own, theirs = pair.attached()
    number = own.number
    pair.near.attach(theirs, 5, (65536, 1 << 24))
    pair.near.report_dropped(theirs, 1)
    pair.near.report_unreachable(theirs, "no")
    pair.far.close(own)
    assert pair.exchange() == (
        [(messages.Closed(number), theirs)],
        [(messages.Dropped(number, 1), own)],
    )


def test_what_a_source_says_behind_its_end_is_a_wire_error() -> None:
    """Also while its last events wait here."""
    pair = Pair().shared()
    own, theirs = pair.attached()
    attach_again(pair, theirs)
    pair.far.close(own)
    pair.exchange()
    number = own.number
    judged = messages.Judged(number, 1, bytes(16), 0, 0)
    gap, started = messages.Gap(number, 1), messages.Started(number, 0, 50)
    for message in (messages.Closed(number), started, gap, judged):
        with pytest.raises(WireError, match="which is ending"):
            tell(pair.near, message)


def test_a_closed_stream_is_heard_of_once_where_its_channel_is_left_before_it_is_released() -> None:
    pair = Pair().shared()
    own, theirs = pair.attached()
    pair.far.close(own)
    pair.far.leave(pair.far_channel)
    near, _ = pair.exchange()
    assert types_of(near) == [messages.Closed, messages.Leave]
    with pytest.raises(ClosedError):
        pair.near.release(theirs)


def test_what_comes_for_a_channel_that_was_just_left_is_ignored() -> None:
    """Events that start, a gap in them, their end."""
    pair = Pair().shared()
    own, theirs = pair.attached()
    number = own.number
    attach_again(pair, theirs)
    pair.near.take_frames()
    pair.near.leave(pair.near_channel)
    for message in (messages.Started(number, 0, 5), messages.Gap(number, 1), messages.Closed(number)):
        assert tell(pair.near, message) == []
    assert kinds(pair.near.take_frames()) == [messages.Leave.kind]


def test_what_comes_behind_the_own_bye_is_ignored() -> None:
    """But it still has to be a message."""
    pair = Pair().shared()
    pair.near.bye(Farewell.UNUSED, "unused")
    pair.near.bye(Farewell.UNUSED, "again")
    assert kinds(pair.near.take_frames()) == [messages.Bye.kind]
    assert tell(pair.near, messages.Attach(9999, 1, 0, 65536, 1 << 24)) == []
    with pytest.raises(WireError):
        pair.near.receive(63, b"")


# ---------------------------------------------------------------------------------------------------
# What a node may not do


def test_commands_for_what_is_gone_say_so() -> None:
    """Channels and streams that the peer has closed, also where the channel is back, and links that end."""
    pair = Pair().shared()
    channel = pair.near_channel
    theirs, mine = pair.attached()[1], pair.near.offer(channel, b"type", "", bytes(16))
    on_streams: list[Callable[[], object]] = [
        lambda: pair.near.start(mine, 0),
        lambda: pair.near.close(mine),
        lambda: pair.near.attach(theirs, 1, (65536, 1 << 24)),
        lambda: pair.near.report_dropped(theirs, 1),
        lambda: pair.near.report_unreachable(theirs, ""),
    ]
    on_channel: list[Callable[[], object]] = [
        lambda: pair.near.offer(channel, b"type", "", bytes(16)),
        lambda: pair.near.tell_member(channel, member(OTHER)),
    ]
    pair.far.leave(pair.far_channel)
    pair.exchange()
    for command in on_streams + on_channel:
        with pytest.raises(ClosedError):
            command()
    pair.shared()
    assert channel.is_shared
    for command in on_streams:
        with pytest.raises(ClosedError):
            command()
    pair.far.leave(pair.far_channel)
    pair.exchange()
    pair.far.bye(Farewell.CLOSING, "closing")
    assert pair.exchange()[0] == [(messages.Bye(Farewell.CLOSING, "closing"), None)]
    on_link: list[Callable[[], object]] = [
        pair.near.flush,
        lambda: pair.near.join(CHANNEL),
        lambda: pair.near.leave(channel),
    ]
    for command in on_streams + on_channel + on_link:
        with pytest.raises(ClosedError):
            command()
    assert pair.near.take_frames() == []


def test_what_cannot_be_sent_changes_nothing() -> None:
    """A name that is too long takes no stream's number, and a declaration is checked when it is made."""
    pair = Pair().shared()
    with pytest.raises(EncodeError):
        pair.near.offer(pair.near_channel, b"type", "x" * 256, bytes(16))
    assert pair.near.offer(pair.near_channel, b"type", "x" * 255, bytes(16)).number == limits.FIRST_STREAM
    pair.exchange()
    untold: list[Callable[[], Declaration]] = [
        lambda: Declaration(bytes(15)),
        lambda: Declaration(KEY, "x" * 256),
        lambda: Declaration(KEY, "", (b"",) * (limits.MAX_TYPES + 1)),
        lambda: Declaration(KEY, "", (bytes(limits.MAX_METADATA_BYTES + 1),)),
    ]
    for make in untold:
        with pytest.raises((EncodeError, LinkError)):
            make()


def test_a_long_report_is_cut() -> None:
    """Between two characters."""
    pair = Pair().shared()
    own, theirs = pair.attached()
    pair.near.report_unreachable(theirs, "é" * limits.MAX_REPORT_BYTES)
    (told,) = said(pair.exchange()[1])
    assert told == messages.Unreachable(own.number, "é" * (limits.MAX_REPORT_BYTES // 2))
    assert cut("aéb", 2) == "a"


def test_what_was_on_a_link_that_is_over_goes_without_the_collector() -> None:
    """Channels and streams refer to each other, and owners to them; the memory of owners may be shared."""
    pair = Pair().shared()
    own, theirs = pair.attached()
    kept = [weakref.ref(about) for about in (pair.near_channel, pair.far_channel)]
    own.owner, theirs.owner = [own], [theirs]
    gc.disable()
    try:
        pair.near.end()
        pair.far.end()
        assert not own.is_open
        assert not theirs.is_open
        assert pair.near.channel(CHANNEL) is pair.far.channel(CHANNEL) is None
        del own, theirs
        assert [channel() for channel in kept] == [None, None]
    finally:
        gc.enable()


# ---------------------------------------------------------------------------------------------------
# What a peer may not do

STREAM = limits.FIRST_STREAM

# Said to far, which has joined CHANNEL as alias 0, offered stream 64 and been offered 64 without attaching.
ILLEGAL: dict[str, Message] = {
    "a second JOIN of a channel": join(2),
    "an alias that is the receiver's to give": join(1, OTHER),
    "an alias that was used": join(0, OTHER),
    "JOINED without JOIN": messages.Joined(0, bytes(32)),
    "JOINED for nothing": messages.Joined(1, bytes(32)),
    "REFUSED without JOIN": messages.Refused(0, 1, ""),
    "DECLARED twice": messages.Declared(0, "", ()),
    "DECLARED for nothing": messages.Declared(2, "", ()),
    "LEAVE for an alias that never was": messages.Leave(2),
    "LEAVE for an own alias that never was": messages.Leave(1),
    "MEMBER for nothing": member(bytes(16), alias=2),
    "FORMAT out of order": messages.Format(7, b""),
    "FORMAT again": messages.Format(0, b""),
    "SOURCE on nothing": messages.Source(70, 2, 0, 0, bytes(16), ""),
    "SOURCE with a format that was not sent": messages.Source(70, 0, 1, 0, bytes(16), ""),
    "SOURCE with a stream in use": messages.Source(STREAM, 0, 0, 0, bytes(16), ""),
    "SOURCE with the number of a kind": messages.Source(limits.FIRST_STREAM - 1, 0, 0, 0, bytes(16), ""),
    "SOURCE with a stream out of bounds": messages.Source(
        limits.FIRST_STREAM + limits.MAX_STREAMS, 0, 0, 0, bytes(16), ""
    ),
    "ATTACH to what was not offered": messages.Attach(STREAM + 1, 1, 0, 65536, 1 << 24),
    "DROPPED of what was not offered": messages.Dropped(STREAM + 1, 1),
    "UNREACHABLE of what was not offered": messages.Unreachable(STREAM + 1, ""),
    "RELEASED of what is open": messages.Released(STREAM),
    "RELEASED of what was not offered": messages.Released(STREAM + 1),
    "STARTED before ATTACH": messages.Started(STREAM, 0, 0),
    "STARTED of what was not offered": messages.Started(STREAM + 1, 0, 0),
    "GAP before ATTACH": messages.Gap(STREAM, 1),
    "CLOSED of what was not offered": messages.Closed(STREAM + 1),
    "FLUSHED without FLUSH": messages.Flushed(0),
    "LOAN without shared memory": messages.Loan(STREAM, 0, 8),
}


@pytest.mark.parametrize("what", ILLEGAL)
def test_what_may_not_be_said_is_a_wire_error(what: str) -> None:
    """Each message where it has no place."""
    pair = Pair(near=Declaration(KEY, "", (b"type",))).shared()
    pair.far.offer(pair.far_channel, b"type", "", bytes(16))
    pair.near.offer(pair.near_channel, b"type", "", bytes(16))
    pair.exchange()
    with pytest.raises(WireError, match="Expected"):
        tell(pair.far, ILLEGAL[what])


def attach_again(pair: Pair, stream: PeerStream) -> None:
    """All sinks have gone, and others come."""
    for sinks in (0, 1):
        pair.near.attach(stream, sinks, (65536, 1 << 24))


def test_a_stream_starts_once_for_each_time_that_it_was_asked_for() -> None:
    """Sinks that come beside others do not ask."""
    pair = Pair().shared()
    own, theirs = pair.attached()
    started = messages.Started(own.number, 0, 50)
    pair.near.attach(theirs, 2, (65536, 1 << 24))
    with pytest.raises(WireError, match="Expected STARTED once for each ATTACH with the first sinks, got 64"):
        tell(pair.near, started)
    attach_again(pair, theirs)
    assert tell(pair.near, started)
    with pytest.raises(WireError, match="STARTED once"):
        tell(pair.near, started)


def test_a_stream_does_not_go_back() -> None:
    """A source's events are numbered upwards."""
    pair = Pair().shared()
    own, theirs = pair.attached()
    number = own.number
    for _ in range(3):
        attach_again(pair, theirs)
    assert tell(pair.near, messages.Started(number, 0, 9))
    assert tell(pair.near, messages.Started(number, 0, 9))
    with pytest.raises(WireError, match="9 or more"):
        tell(pair.near, messages.Started(number, 0, 8))


def test_no_stream_begins_with_a_number_that_could_begin_anew() -> None:
    """Whatever comes of it is counted from there."""
    pair = Pair().shared()
    own, theirs = pair.attached()
    for _ in range(2):
        attach_again(pair, theirs)
    assert tell(pair.near, messages.Started(own.number, 0, limits.MAX_NUMBER))
    with pytest.raises(WireError, match="below 2"):
        tell(pair.near, messages.Started(own.number, 0, limits.MAX_NUMBER + 1))


def test_nothing_is_said_behind_bye() -> None:
    """It is the last frame."""
    pair = Pair().shared()
    tell(pair.far, messages.Bye(1, ""))
    with pytest.raises(WireError, match="BYE"):
        tell(pair.far, messages.Flush(1))


def test_no_metadata_is_taken_before_a_channel_is_shared() -> None:
    """A link costs nothing until something is proven on it."""
    pair = Pair()
    with pytest.raises(WireError, match="shared"):
        tell(pair.far, messages.Format(0, b"x"))
    pair.far.join(CHANNEL)
    with pytest.raises(WireError, match="shared"):
        tell(pair.far, messages.Format(0, b"x"))


# ---------------------------------------------------------------------------------------------------
# Limits: one less, as many, one more


def test_channels_of_a_link_are_limited() -> None:
    """The peer's JOIN is refused, the node's own is a LinkError."""
    far = LinkProtocol(role=Role.RESPONDER, secret=SECRET, declaration_of=lambda _: Declaration(KEY))
    for i in range(limits.MAX_CHANNELS - 1):
        far.join((2 * i).to_bytes(16, "little"))  # kept by the link while it is on it
    assert set(kinds(far.take_frames())) == {messages.Join.kind}
    assert tell(far, join(0, bytes(15) + b"1"))
    assert kinds(far.take_frames()) == [messages.Joined.kind, messages.Declared.kind]
    assert tell(far, join(2, bytes(15) + b"2")) == []
    assert kinds(far.take_frames()) == [messages.Refused.kind]
    with pytest.raises(LinkError, match="16384"):
        far.join(bytes(15) + b"3")


def test_streams_of_a_link_are_limited() -> None:
    """In each direction."""
    pair = Pair().shared()
    last = limits.FIRST_STREAM + limits.MAX_STREAMS - 1
    streams = [pair.far.offer(pair.far_channel, b"type", "", bytes(16)) for _ in range(limits.MAX_STREAMS)]
    assert streams[-1].number == last
    with pytest.raises(LinkError, match="65536"):
        pair.far.offer(pair.far_channel, b"type", "", bytes(16))
    pair.exchange()


def test_formats_of_a_link_are_limited() -> None:
    """The 1025th ends the link of the peer that sends it."""
    pair = Pair().shared()
    known = 1  # by DECLARED
    for i in range(known, limits.MAX_FORMATS):
        pair.far.offer(pair.far_channel, b"%d" % i, "", bytes(16))
    pair.exchange()
    with pytest.raises(LinkError, match="1024"):
        pair.far.offer(pair.far_channel, b"one more", "", bytes(16))
    with pytest.raises(WireError, match="1024"):
        tell(pair.near, messages.Format(limits.MAX_FORMATS, b"one more"))


def test_metadata_of_a_link_is_limited() -> None:
    """So many bytes, and not one more."""
    pair = Pair(far=Declaration(KEY)).shared()
    each = limits.MAX_METADATA_BYTES
    count = limits.MAX_LINK_METADATA_BYTES // each
    for i in range(count - 1):
        assert tell(pair.near, messages.Format(i, bytes(each))) == []
    assert tell(pair.near, messages.Format(count - 1, bytes(each - 1))) == []
    assert tell(pair.near, messages.Format(count, b"x")) == []
    with pytest.raises(WireError, match="metadata"):
        tell(pair.near, messages.Format(count + 1, b"x"))


def test_members_that_a_peer_tells_of_are_limited() -> None:
    """Those that are gone do not count."""
    pair = Pair().shared()

    def told(i: int, standing: Standing = Standing.SENDS) -> messages.Member:
        return member(i.to_bytes(16, "little"), "unix:@x", standing=standing)

    for i in range(limits.MAX_MEMBERS):
        assert tell(pair.far, told(i))
    assert tell(pair.far, told(0, Standing.TAKES))
    assert tell(pair.far, told(0, Standing.LEFT))
    assert tell(pair.far, told(limits.MAX_MEMBERS))
    with pytest.raises(WireError, match="4096"):
        tell(pair.far, told(limits.MAX_MEMBERS + 1))


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_versions_of_members_are_limited(beyond: int) -> None:
    """Whoever is spoken of has to be able to say more."""
    pair = Pair().shared()
    told = replace(member(OTHER), version=limits.MAX_VERSION + beyond)
    if beyond <= 0:
        assert tell(pair.far, told)
        return
    with pytest.raises(WireError, match="version"):
        tell(pair.far, told)


def test_flushes_are_limited() -> None:
    """A peer that never answers holds a bounded number of them."""
    pair = Pair()
    for _ in range(limits.MAX_FLUSHES):
        pair.near.flush()
    with pytest.raises(LinkError, match="1024"):
        pair.near.flush()
    pair.exchange()
    pair.far.answer_flush(0)
    pair.exchange()
    pair.near.flush()


def test_flushes_of_a_peer_are_limited() -> None:
    """Those that are not answered yet, and each has its own number."""
    pair = Pair()
    for number in range(limits.MAX_FLUSHES):
        assert tell(pair.far, messages.Flush(number))
    with pytest.raises(WireError, match="at most 1024 flushes"):
        tell(pair.far, messages.Flush(limits.MAX_FLUSHES))
    pair.far.answer_flush(7)
    with pytest.raises(WireError, match="not under way"):
        tell(pair.far, messages.Flush(8))
    assert tell(pair.far, messages.Flush(7))


# ---------------------------------------------------------------------------------------------------
# A recorded session, damaged


def replayed(frames: list[tuple[int, bytes]]) -> None:
    """What far makes of them; its own commands are those that the session needs."""
    pair = Pair(near=Declaration(KEY, "particles", (b"type", b"other")))
    for kind, payload in frames:
        for message, about in pair.far.receive(kind, payload):
            match message:
                case messages.Join():
                    pair.far.offer(on_link(pair.far), b"type", "source", bytes(16))
                case messages.Source():
                    assert isinstance(about, PeerStream)
                    pair.far.attach(about, 3, (65536, 1 << 24))
                case messages.Flush(number):
                    pair.far.answer_flush(number)
                case _:
                    pass


def test_a_recorded_session_can_be_replayed() -> None:
    """What the tests below damage is whole, and has most of what can be said."""
    frames = session()
    replayed(frames)
    assert len(set(kinds(frames))) >= 13
    assert frames[-1][0] == messages.Bye.kind


def test_a_session_with_a_frame_left_out_or_doubled_breaks_nothing() -> None:
    """A named error, or the session goes on."""
    frames = session()
    for i in range(len(frames)):
        for damaged in (frames[:i] + frames[i + 1 :], frames[: i + 1] + frames[i:]):
            with contextlib.suppress(EchoError):
                replayed(damaged)


def test_a_session_with_any_bit_changed_breaks_nothing() -> None:
    """Of any payload or kind."""
    frames = session()
    for i, (kind, payload) in enumerate(frames):
        changes = [(kind ^ (1 << bit), payload) for bit in range(6)]
        for position in range(len(payload)):
            for bit in range(8):
                changed = bytearray(payload)
                changed[position] ^= 1 << bit
                changes.append((kind, bytes(changed)))
        for change in changes:
            with contextlib.suppress(EchoError):
                replayed([*frames[:i], change, *frames[i + 1 :]])


def test_a_session_cut_inside_a_message_breaks_nothing() -> None:
    """At every byte."""
    frames = session()
    for i, (kind, payload) in enumerate(frames):
        for size in range(len(payload)):
            with pytest.raises(WireError):
                replayed([*frames[:i], (kind, payload[:size])])

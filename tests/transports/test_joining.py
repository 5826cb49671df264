"""How channels come to be shared, where something has changed between the question and the answer."""

from __future__ import annotations

from echo_core.transports import limits
from echo_core.transports.protocol import notices
from echo_core.transports.protocol.joining import Declaration
from tests.transports.samples import CHANNEL, KEY, Pair

OTHER = bytes(range(50, 66))


def test_a_channel_that_is_forgotten_while_it_is_wanted_again_is_not_joined() -> None:
    """The peer's LEAVE comes when this node knows the channel no more."""
    pair = Pair().shared()
    pair.near.leave(CHANNEL)
    pair.near.join(CHANNEL)
    del pair.declarations[0][CHANNEL]
    near, far = pair.exchange()
    assert near == []
    assert far == [notices.ChannelLeft(CHANNEL)]


def test_an_answer_for_whose_formats_there_is_no_room_is_left_again() -> None:
    formats = tuple(str(i).encode() for i in range(limits.MAX_FORMATS + 1))
    pair = Pair(far=Declaration(KEY)).shared()
    for metadata in formats[: limits.MAX_FORMATS]:
        pair.near.offer(CHANNEL, metadata, "")
    pair.declarations[0][OTHER] = Declaration(KEY, "", formats[-1:])
    pair.declarations[1][OTHER] = Declaration(KEY)
    pair.near.join(OTHER)
    near, far = pair.exchange()
    assert [type(notice) for notice in near] == [notices.JoinRefused]
    assert far[-1] == notices.ChannelLeft(OTHER)
    assert not pair.far.is_shared(OTHER)
    assert pair.near.is_shared(CHANNEL)

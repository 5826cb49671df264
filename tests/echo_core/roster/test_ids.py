"""Channel ids: one line of text, and what is said of one that is damaged."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core.errors import ChannelError
from echo_core.roster.ids import MAX_NAMED, ChannelId, Member
from echo_core.transports.addresses import TcpAddress, UnixAddress
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import ROOT

ADDRESSES = (UnixAddress("echo-1"), TcpAddress("127.0.0.1", 4711), TcpAddress("::1", 1))
MEMBER = Member(bytes(range(32, 48)), ADDRESSES, bytes(range(48, 64)))
ID = ChannelId(bytes(range(16)), bytes(range(16, 32)), (MEMBER,))


def test_text_is_one_printable_line_that_comes_back() -> None:
    text = str(ID)
    assert text.isascii()
    assert text.isprintable()
    assert len(text.split()) == 1
    assert ChannelId.parse(text) == ID
    assert ChannelId.parse(f" {text}\n".strip()) == ID


def test_text_stays_the_same_in_every_version() -> None:
    """Ids are kept in files and passed between versions; the page on links has this one as its example."""
    assert str(ID) in re.sub(r"\s+", "", (ROOT / "docs" / "link-protocol.md").read_text())
    assert str(ID) == (
        "echo1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0-P"
        "y8AdW5peDpAZWNoby0xCnRjcDovLzEyNy4wLjAuMTo0NzExCnRjcDovL1s6OjFdOjFdYyJy"
    )


def test_the_key_is_not_shown_where_ids_are_printed_for_people() -> None:
    assert "tcp://127.0.0.1:4711" in repr(ID)
    assert ID.key.hex() not in repr(ID)


def test_ids_of_two_channels_differ_in_name_and_key() -> None:
    first, second = (ChannelId.new(MEMBER) for _ in range(2))
    assert first.uid != second.uid
    assert first.key != second.key


@given(st.integers(0, len(str(ID)) - 1))
def test_a_text_that_was_cut_off_is_refused(length: int) -> None:
    with pytest.raises(ChannelError, match="Expected a"):
        ChannelId.parse(str(ID)[:length])


@given(st.integers(6, len(str(ID)) - 1), st.characters(codec="ascii"))
def test_a_text_that_was_changed_is_refused(place: int, letter: str) -> None:
    text = str(ID)
    changed = text[:place] + letter + text[place + 1 :]
    try:
        parsed = ChannelId.parse(changed)
    except ChannelError:
        return
    assert parsed == ID  # the same letter, or bits beyond the last byte


@pytest.mark.parametrize(("own", "other"), ["-+", "_/"])
def test_letters_of_plain_base64_are_refused(own: str, other: str) -> None:
    """One channel has one text."""
    text = str(replace(ID, uid=b"\xfb\xef\xbe\xff" * 4))
    assert own in text
    with pytest.raises(ChannelError, match="got other characters"):
        ChannelId.parse(text.replace(own, other))


@given(st.text(max_size=200))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ChannelError):
        ChannelId.parse(text)


def test_what_is_no_text_is_refused_like_any_other_text(make_node: MakeNode) -> None:
    with pytest.raises(ChannelError, match=r"Expected a channel id, got None.*channel\.id"):
        make_node().open_channel(cast("str", None))


def test_an_id_of_a_later_version_is_told_from_one_that_is_none() -> None:
    with pytest.raises(ChannelError, match="another version"):
        ChannelId.parse("echo2:AAAA")


def test_a_text_of_any_length_costs_little() -> None:
    with pytest.raises(ChannelError, match="at most 12288 characters"):
        ChannelId.parse("echo1:" + "A" * 10_000_000)


def test_addresses_of_a_later_kind_are_passed_over() -> None:
    """So an id of a later version leads where this one can go."""
    lines = "\n".join(["tls://host:1", *map(str, ADDRESSES)]).encode()
    later = MEMBER.node + MEMBER.host + len(lines).to_bytes(2, "little") + lines
    assert ChannelId.parse(text_of(later)) == ID


def text_of(members: bytes) -> str:
    """An id of these bytes, with the right check."""
    said = ID.uid + ID.key + members
    check = hashlib.blake2b(said, digest_size=4, person=b"echo-channel-1").digest()
    return "echo1:" + base64.urlsafe_b64encode(said + check).rstrip(b"=").decode()


@pytest.mark.parametrize("members", range(MAX_NAMED + 1))
def test_an_id_names_up_to_four_members(members: int) -> None:
    many = replace(ID, members=tuple(Member(bytes([i] * 16), ADDRESSES[i % 4 :]) for i in range(members)))
    assert ChannelId.parse(str(many)) == many


def test_members_beyond_the_fourth_are_passed_over() -> None:
    many = replace(ID, members=(MEMBER,) * (MAX_NAMED + 1))
    assert ChannelId.parse(str(many)).members == (MEMBER,) * MAX_NAMED


def test_of_an_id_from_another_host_only_addresses_are_used_that_lead_there() -> None:
    """Where its host is not known, all are."""
    far = TcpAddress("10.0.0.1", 4711)
    member = Member(MEMBER.node, (*ADDRESSES, far), MEMBER.host)
    assert member.seen_from(MEMBER.host) == member
    assert member.seen_from(b"i" * 16).addresses == (far,)
    unknown = Member(MEMBER.node, ADDRESSES)
    assert unknown.seen_from(b"i" * 16) == unknown


def test_the_longest_id_comes_back() -> None:
    """Of nodes that have as many addresses as they may, each as long as it may be."""
    longest = tuple(TcpAddress(f"{i}" * 200, 65535) for i in range(8))
    many = replace(ID, members=(Member(bytes(16), longest),) * MAX_NAMED)
    assert ChannelId.parse(str(many)) == many


@pytest.mark.parametrize("members", [b"x", bytes(33), bytes(32) + b"\x02\x00\xff\xff"])
def test_members_that_are_none_are_refused(members: bytes) -> None:
    with pytest.raises(ChannelError, match="Expected a channel id with members"):
        ChannelId.parse(text_of(members))


def test_an_identity_is_the_id_without_members() -> None:
    assert ID.identity == ChannelId(ID.uid, ID.key)
    assert ChannelId.parse(str(ID.identity)) == ID.identity


def test_a_seat_follows_from_the_id_and_does_not_tell_it() -> None:
    assert ID.seat == ID.identity.seat == replace(ID, key=bytes(16)).seat
    assert ID.seat != replace(ID, uid=bytes(16)).seat
    assert ID.uid.hex() not in ID.seat.name

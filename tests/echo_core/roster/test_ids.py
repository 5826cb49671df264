"""Channel ids: one line of text, and what is said of one that is damaged."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core.errors import ChannelError
from echo_core.roster.ids import ChannelId
from echo_core.transports.addresses import TcpAddress, UnixAddress
from tests.echo_core.conftest import MakeNode

ADDRESSES = (UnixAddress("echo-1"), TcpAddress("127.0.0.1", 4711), TcpAddress("::1", 1))
ID = ChannelId(bytes(range(16)), bytes(range(16, 32)), bytes(range(32, 48)), ADDRESSES)


def test_text_is_one_printable_line_that_comes_back() -> None:
    text = str(ID)
    assert text.isascii()
    assert text.isprintable()
    assert len(text.split()) == 1
    assert ChannelId.parse(text) == ID
    assert ChannelId.parse(f" {text}\n".strip()) == ID


def test_text_stays_the_same_in_every_version() -> None:
    """Ids are kept in files and passed between versions."""
    assert str(ID) == (
        "echo1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vdW5peDpAZWNoby0xCnRjc"
        "DovLzEyNy4wLjAuMTo0NzExCnRjcDovL1s6OjFdOjF72sdh"
    )


def test_the_key_is_not_shown_where_ids_are_printed_for_people() -> None:
    assert "tcp://127.0.0.1:4711" in repr(ID)
    assert ID.key.hex() not in repr(ID)


def test_ids_of_two_channels_differ_in_name_and_key() -> None:
    first, second = (ChannelId.new(bytes(16), ADDRESSES) for _ in range(2))
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
    with pytest.raises(ChannelError, match="at most 4096 characters"):
        ChannelId.parse("echo1:" + "A" * 10_000_000)


def test_addresses_of_a_later_kind_are_passed_over() -> None:
    """So an id of a later version leads where this one can go."""
    later = ID.uid + ID.key + ID.node + "\n".join(["tls://host:1", *map(str, ADDRESSES)]).encode()
    check = hashlib.blake2b(later, digest_size=4, person=b"echo-channel-1").digest()
    text = "echo1:" + base64.urlsafe_b64encode(later + check).rstrip(b"=").decode()
    assert ChannelId.parse(text) == ID

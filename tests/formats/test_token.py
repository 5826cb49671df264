"""Tokens: 128 bits that name a format."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import assume, given

import echo_core as echo
from echo_core.errors import WireError
from echo_core.formats.layout import Layout
from echo_core.formats.token import TOKEN_BYTES, Token
from tests.formats.samples import Rich, Small
from tests.formats.strategies import layouts


def test_token_is_a_keyed_hash_of_the_metadata() -> None:
    """BLAKE2b of 128 bits, personalised, so that no other use of the hash gives the same."""
    metadata = echo.format_of(Rich).metadata
    expected = hashlib.blake2b(metadata, digest_size=16, person=b"echo-format-1").digest()
    assert echo.format_of(Rich).token == expected
    assert TOKEN_BYTES * 8 == 128


def test_token_prints_as_hexadecimal() -> None:
    """In full, and short for a message."""
    token = Token(bytes(range(16)))
    assert str(token) == "000102030405060708090a0b0c0d0e0f"
    assert repr(token) == f"Token({token})"
    assert token.short == "00010203"


@pytest.mark.parametrize("size", [0, 15, 17, 32])
def test_token_of_another_size_is_refused(size: int) -> None:
    """A peer's token has sixteen bytes."""
    with pytest.raises(WireError, match=f"Expected a token of 16 bytes, got {size}"):
        Token(bytes(size))


def test_token_is_a_key_like_its_bytes() -> None:
    """What came off the wire finds what was put in under the token."""
    token = echo.format_of(Small).token
    assert {token: 1}[Token(bytes(token))] == 1
    assert token == bytes(token)


@given(layouts(), layouts())
def test_different_layouts_have_different_tokens(first: Layout, second: Layout) -> None:
    """The token is the identity of a layout."""
    assume(first != second)
    assert echo.Format(first).token != echo.Format(second).token


@given(layouts())
def test_token_travels(layout: Layout) -> None:
    """Whoever reads the metadata finds the same token."""
    format_ = echo.Format(layout)
    assert echo.Format.from_metadata(format_.metadata).token == format_.token

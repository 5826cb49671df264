"""The words of errors."""

from __future__ import annotations

from echo_core.errors import EncodeError, WireError, unexpected


def test_error_says_what_was_expected_what_came_and_where() -> None:
    """The path stands in the message, and beside it for programs."""
    error = unexpected(WireError, "2 bytes", 3, path="Point.x", hint="send one less")
    assert str(error) == "Expected 2 bytes, got 3 - at `Point.x`: send one less"
    assert error.path == "Point.x"


def test_error_is_of_the_type_that_was_asked_for() -> None:
    """The same words are the caller's fault or the peer's."""
    assert type(unexpected(EncodeError, "a number", "`str`")) is EncodeError
    assert type(unexpected(WireError, "a number", "`str`")) is WireError

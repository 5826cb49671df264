"""Every error, and what its message and its path are made of."""

from __future__ import annotations

import pickle

import pytest

from echo_core import errors
from echo_core.errors import (
    BacklogError,
    ChannelError,
    ClosedError,
    ConversionError,
    EchoError,
    EncodeError,
    EncodeTypeError,
    FormatError,
    IncompatibleError,
    LimitError,
    LinkError,
    LogError,
    PlaintextWarning,
    RefusedError,
    TimedOutError,
    WireError,
)

KINDS = [
    FormatError,
    EncodeError,
    EncodeTypeError,
    IncompatibleError,
    WireError,
    ConversionError,
    LimitError,
    ChannelError,
    ClosedError,
    BacklogError,
    TimedOutError,
    LinkError,
    RefusedError,
    LogError,
]
_WARNINGS: set[type[Exception]] = {PlaintextWarning}


def test_every_error_is_an_echo_error() -> None:
    """One `except` catches all of them; two are also of another kind."""
    found = [cls for cls in vars(errors).values() if isinstance(cls, type)]
    defined = {cls for cls in found if issubclass(cls, Exception)}
    assert {EchoError, *KINDS} <= defined
    assert defined - {EchoError} == {kind for kind in defined if EchoError in kind.__mro__[1:]} | _WARNINGS
    second = {kind for kind in defined if kind.__base__ in defined - {EchoError}}
    assert second == {EncodeTypeError, RefusedError}


@pytest.mark.parametrize(
    ("path", "hint", "text"),
    [
        ("", "", "Expected a"),
        ("R.x", "", "Expected a - at `R.x`"),
        ("", "write b", "Expected a: write b"),
        ("R.x", "write b", "Expected a - at `R.x`: write b"),
    ],
)
@pytest.mark.parametrize("kind", [EchoError, *KINDS])
def test_message_ends_in_where_and_the_way_out(
    kind: type[EchoError], path: str, hint: str, text: str
) -> None:
    """The path is kept for programs."""
    error = kind("Expected a", path=path, hint=hint)
    assert str(error) == text
    assert error.path == path


@pytest.mark.parametrize("kind", [EchoError, *KINDS])
def test_error_comes_back_from_another_process(kind: type[EchoError]) -> None:
    """A worker's error keeps its kind, its message and its path."""
    error = kind("Expected a", path="R.x", hint="write b")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert (str(again), again.path) == (str(error), "R.x")


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [(EncodeError, ValueError), (EncodeTypeError, TypeError), (TimedOutError, TimeoutError)],
)
def test_error_is_also_the_builtin_that_python_would_raise(
    kind: type[EchoError], builtin: type[Exception]
) -> None:
    """`except ValueError` around code that makes events catches what is wrong with their values."""
    assert issubclass(kind, builtin)

"""Every error that this library raises on purpose.

The caller's fault and the peer's fault are different types, so that a component can let the first one
crash it and survive the second. A message says what was expected, what came, where, and the way out
where there is one; `path` holds the "where" for programs.
"""

from __future__ import annotations

from typing import TypeVar


class EchoError(Exception):
    """The root: `except EchoError` catches all errors of this library and nothing else.

    Arguments:
        message: what was expected and what came.
        path: the field that it is about, such as `Particle.cells[2].x`; also the attribute `path`.
        hint: the way out.

    >>> try:
    ...     echo.encoder(echo.Format.from_c("struct P { int x; };").record_class())("text")
    ... except echo.EchoError as error:
    ...     print(error)
    ...     print(error.path)
    Expected `P`, got `str` - at `P`
    P
    """

    def __init__(self, message: str, *, path: str = "", hint: str = "") -> None:
        where = f" - at `{path}`" if path else ""
        super().__init__(message + where + (f": {hint}" if hint else ""))
        self.path = path


class FormatError(EchoError):
    """A declaration (class, dtype, C text) or a request that has no layout: the caller's fault."""


class EncodeError(EchoError, ValueError):
    """A value that its field cannot hold, such as a number out of range: the caller's fault."""


class EncodeTypeError(EncodeError, TypeError):
    """A value of a type that its field does not take, such as text for a number: the caller's fault."""


class IncompatibleError(EchoError):
    """A sender's format that a receiver's cannot be reached from; the message lists every refusal."""


class WireError(EchoError):
    """Bytes from a peer or a file that break the rules of the wire format."""


class ConversionError(EchoError):
    """A sender's value that does not fit the receiver's type, met in a conversion that may lose."""


class LimitError(EchoError):
    """An event that would become more objects than a limit allows; the message names the limit."""


class ExpressionError(EchoError):
    """An expression that cannot be judged: the caller's fault. The message points at what is wrong."""


class CompileError(EchoError):
    """The compiler refused or a limit was met; the interpreter stays in charge."""


class ChannelError(EchoError):
    """A channel id that is none, or a request that its channel cannot meet: the caller's fault."""


class ClosedError(EchoError):
    """Use of what has been closed, or of what belongs to the process that forked this one."""


class BacklogError(EchoError):
    """A full backlog: under the policy "error" at once, under "block" when the time is up."""


class TimedOutError(EchoError, TimeoutError):
    """What was waited for has not come; the message says what, and from whom."""


class UndeliveredError(EchoError):
    """An event that a process does not have, nor will; the message says which, and why."""


class LinkError(EchoError):
    """A link to another process that could not be made, or was lost."""


class RefusedError(LinkError):
    """The peer said no; `code` says why."""

    def __init__(self, message: str, *, code: str = "", path: str = "", hint: str = "") -> None:
        super().__init__(message, path=path, hint=hint)
        self.code = code


class LogError(EchoError):
    """An event log that cannot be written or read, or that somebody else writes to."""


class PlaintextWarning(UserWarning):
    """Events will leave this host unencrypted."""


_Fault = TypeVar("_Fault", bound=EchoError)


def unexpected(
    fault: type[_Fault], expected: object, got: object, *, path: str = "", hint: str = ""
) -> _Fault:
    """The error to raise where `got` came in place of `expected`."""
    return fault(f"Expected {expected}, got {got}", path=path, hint=hint)


_Bared = TypeVar("_Bared", bound=BaseException)


def bare(error: _Bared) -> _Bared:
    """Without the frames that it and its causes went through: who keeps it would keep them, too."""
    each: BaseException | None = error
    while each is not None:
        each.__traceback__ = each.__context__ = None
        each = each.__cause__
    return error

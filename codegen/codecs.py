"""Encoders and decoders of one event class: what components call.

The generic codec (`generic.py`) handles every declaration and every value. Before it stands C code that walks
a tree of values, and before that, for classes with slots and records of one size, code compiled for the class
(`compiled.py`). What one does not handle goes on to the next; so every error has one wording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, overload

from echo_core.codegen.conversion import Tier
from echo_core.codegen.events.compiled import Ways, functions_of
from echo_core.codegen.plain.generic import Data, GenericCodec
from echo_core.errors import FormatError, unexpected
from echo_core.formats.abi import Abi
from echo_core.formats.compare import Report
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format

T = TypeVar("T")


class Codec(Generic[T]):
    """The four functions of one class and one sender; built-in ones but for a few classes.

    `encode` and `encode_many` go from events to records of `format`, `decode` and `decode_many` from records
    of `sender` to events.
    """

    def __init__(
        self,
        cls: type[T],
        format_: Format,
        sender: Format,
        *,
        lossy: bool,
        tier: Tier,
        ways: Ways = Ways.BOTH,
        report: Report | None = None,
    ) -> None:
        self.generic = GenericCodec(cls, format_, sender, lossy=lossy, report=report)
        self.format = format_  # of what events are encoded to
        self.sender = sender  # the format of the bytes that are decoded
        self.report = self.generic.report  # what becomes of the sender's fields
        functions = functions_of(self.generic, tier, ways)
        self.encode: Callable[[T], bytes] = functions.encode
        self.encode_many: Callable[[Iterable[T]], bytes] = functions.encode_many
        self.decode: Callable[[Data], T] = functions.decode
        self.decode_many: Callable[[Data], list[T]] = functions.decode_many

    def __repr__(self) -> str:
        return f"Codec({self.generic.cls.__qualname__}, {self.format!r}, sender={self.sender!r})"


@overload
def codec(
    cls: type[T],
    *,
    sender: Format | None = None,
    abi: str | Abi = "native",
    lossy: bool = False,
    tier: Tier = "auto",
) -> Codec[T]: ...


@overload
def codec(
    cls: None, *, sender: Format, abi: str | Abi = "native", lossy: bool = False, tier: Tier = "auto"
) -> Codec[Any]: ...


def codec(
    cls: type[Any] | None,
    *,
    sender: Format | None = None,
    abi: str | Abi = "native",
    lossy: bool = False,
    tier: Tier = "auto",
) -> Codec[Any]:
    """The four functions that encode and decode events of a class, one by one or many at once.

    Arguments:
        cls: the event class, or None for a class that is made for the sender's format.
        sender: the format of the bytes that are decoded; by default the one that is encoded to.
        abi: the machine whose layout events are encoded in, as in `format_of`.
        lossy: whether to consent to conversions that may lose. A value that does not fit is then a
            ConversionError when it is decoded.
        tier: "auto" works without compiled code until that is ready, "compiled" waits for it here,
            "interpreted" never compiles.

    Raises:
        FormatError: `cls` has no layout, `abi` or `tier` is not known, or there is no `cls` and no `sender`.
        IncompatibleError: the sender's format cannot be converted; the message lists every reason.
        CompileError: `tier` is "compiled", and there can be no code for this class.

    `encode` raises EncodeError, and EncodeTypeError where a type is wrong. `decode` raises WireError for
    bytes that are no record of the sender's format, and ConversionError.

    >>> @echo.event
    ... class Point:
    ...     x: float
    >>> codec = echo.codec(Point)
    >>> data = codec.encode_many([Point(1.0), Point(2.0)])
    >>> [point.x for point in codec.decode_many(data)]
    [1.0, 2.0]
    """
    cls = _class_for(cls, sender)
    format_ = format_of(cls, abi=abi)
    return Codec(cls, format_, sender or format_, lossy=lossy, tier=tier)


def _class_for(cls: type[Any] | None, sender: Format | None) -> type[Any]:
    if cls is not None:
        return cls
    if sender is None:
        raise unexpected(FormatError, "a class or a sender's format", "neither")
    return sender.record_class()


def encoder(cls: type[T], *, abi: str | Abi = "native", tier: Tier = "auto") -> Callable[[T], bytes]:
    """A function from events of a class to bytes: their records.

    Arguments:
        cls: the event class.
        abi: the machine whose layout the bytes have, as in `format_of`.
        tier: when to compile, as in `codec`.

    Raises:
        FormatError, CompileError: as `codec` does.

    The function raises EncodeError for a value that its field cannot hold, and EncodeTypeError for one of a
    wrong type; the message names the field.

    >>> @echo.event
    ... class Point:
    ...     x: echo.Int16
    >>> encode = echo.encoder(Point, abi="s390x")
    >>> encode(Point(258))
    b'\\x01\\x02'
    """
    format_ = format_of(cls, abi=abi)
    return Codec(cls, format_, format_, lossy=False, tier=tier, ways=Ways.ENCODE).encode


@overload
def decoder(
    cls: type[T], *, sender: Format | None = None, lossy: bool = False, tier: Tier = "auto"
) -> Callable[[Data], T]: ...


@overload
def decoder(
    cls: None, *, sender: Format, lossy: bool = False, tier: Tier = "auto"
) -> Callable[[Data], Any]: ...


def decoder(
    cls: type[Any] | None,
    *,
    sender: Format | None = None,
    lossy: bool = False,
    tier: Tier = "auto",
) -> Callable[[Data], Any]:
    """A function from a sender's bytes to events of a class.

    Arguments:
        cls: the event class, or None for a class that is made for the sender's format.
        sender: the format of the bytes; by default the class's own on this machine.
        lossy: whether to consent to conversions that may lose, as in `codec`.
        tier: when to compile, as in `codec`.

    Raises:
        FormatError, IncompatibleError, CompileError: as `codec` does.

    The function raises WireError for bytes that are no record of the sender's format, and ConversionError
    for a value that does not fit.

    >>> @echo.event
    ... class Point:
    ...     x: echo.Int16
    >>> decode = echo.decoder(Point, sender=echo.format_of(Point, abi="s390x"))
    >>> decode(b"\\x01\\x02").x
    258
    """
    cls = _class_for(cls, sender)
    format_ = format_of(cls)
    return Codec(cls, format_, sender or format_, lossy=lossy, tier=tier, ways=Ways.DECODE).decode

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
from echo_core.codegen.machine.budgets import Payers
from echo_core.codegen.plain.counting import MostObjects
from echo_core.codegen.plain.generic import Data, GenericCodec
from echo_core.errors import EncodeTypeError, FormatError, unexpected
from echo_core.formats.abi import Abi
from echo_core.formats.comparing.compare import Report
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
        most: MostObjects | None = None,
        payers: Payers | None = None,
    ) -> None:
        self.generic = GenericCodec(cls, format_, sender, lossy=lossy, report=report, most=most)
        self.format = format_  # of what events are encoded to
        self.sender = sender  # the format of the bytes that are decoded
        functions = functions_of(self.generic, tier, ways, payers)
        self.encode: Callable[[T], bytes] = functions.encode
        self.encode_many: Callable[[Iterable[T]], bytes] = functions.encode_many
        self.decode: Callable[[Data], T] = functions.decode
        self.decode_many: Callable[[Data], list[T]] = functions.decode_many

    @property
    def report(self) -> Report:
        """What becomes of the sender's fields."""
        return self.generic.report

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
    max_objects: int | None = None,
) -> Codec[T]: ...


@overload
def codec(
    cls: None,
    *,
    sender: Format,
    abi: str | Abi = "native",
    lossy: bool = False,
    tier: Tier = "auto",
    max_objects: int | None = None,
) -> Codec[Any]: ...


def codec(
    cls: type[Any] | None,
    *,
    sender: Format | None = None,
    abi: str | Abi = "native",
    lossy: bool = False,
    tier: Tier = "auto",
    max_objects: int | None = None,
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
        max_objects: how many Python objects one event may become when it is decoded, None for any number:
            each field of a record is one, each element of a list, and a numpy array as a whole. Bytes that
            come from anywhere may say that they are millions; `Limits.event_objects` is that of channels.

    Raises:
        FormatError: `cls` has no layout, `abi`, `tier` or `max_objects` is none, or there is neither `cls`
            nor `sender`.
        IncompatibleError: the sender's format cannot be converted; the message lists every reason.
        CompileError: `tier` is "compiled", and there can be no code for this class.

    `encode` raises EncodeError, and EncodeTypeError where a type is wrong. `decode` raises WireError for
    bytes that are no record of the sender's format, ConversionError, and LimitError for too many objects.

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
    return Codec(cls, format_, sender or format_, lossy=lossy, tier=tier, most=_most(max_objects))


def _most(max_objects: int | None) -> MostObjects | None:
    if max_objects is None:
        return None
    if max_objects < 0:
        raise unexpected(FormatError, "max_objects from 0 on", max_objects)
    return MostObjects(max_objects, "max_objects")


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


class FormatEncoder:
    """From events of all classes that have one format to records of it, as whoever laid it out has them.

    A class has the format if its records here look as those of the class that is made for it.
    """

    def __init__(self, format_: Format) -> None:
        self._format = format_
        self._encode_by_class: dict[type[Any], Callable[[Any], bytes]] = {}

    def __call__(self, event: Any) -> bytes:
        """The event's record. EncodeTypeError for an event of a class that has another format."""
        cls: type[Any] = event.__class__
        encode = self._encode_by_class.get(cls) or self._encoder_for(cls)
        return encode(event)

    def _encoder_for(self, cls: type[Any]) -> Callable[[Any], bytes]:
        if not self._is_of(cls):
            raise unexpected(
                EncodeTypeError,
                f"an event of the format of `{self._format.name}`",
                f"`{cls.__qualname__}`",
                hint="take an instance of the format's record_class(), or of a class with equal fields",
            )
        made = Codec(cls, self._format, self._format, lossy=False, tier="auto", ways=Ways.ENCODE).encode
        self._encode_by_class[cls] = made
        return made

    def _is_of(self, cls: type[Any]) -> bool:
        try:
            return format_of(cls) == format_of(self._format.record_class())
        except FormatError:  # it is no class of events at all
            return False


class Adoption:
    """From events of a class that was declared again, as a notebook's cell does, to events of the one before.

    The two have equal formats, names included. Only the last such class is kept.
    """

    def __init__(self, cls: type[Any]) -> None:
        self._cls = cls
        self._last: tuple[type[Any], Callable[[Any], Any]] | None = None

    def __call__(self, event: Any) -> Any:
        """An equal event of the class; None for one of a class that is another."""
        cls: type[Any] = event.__class__
        last = self._last
        if last is None or last[0] is not cls:
            if not self._is_same(cls):
                return None
            last = self._last = cls, self._conversion(cls)
        return last[1](event)

    def _is_same(self, cls: type[Any]) -> bool:
        try:
            return format_of(cls) == format_of(self._cls)
        except FormatError:  # it is no class of events at all
            return False

    def _conversion(self, cls: type[Any]) -> Callable[[Any], Any]:
        encode, decode = encoder(cls), decoder(self._cls)
        return lambda event: decode(encode(event))


@overload
def decoder(
    cls: type[T],
    *,
    sender: Format | None = None,
    lossy: bool = False,
    tier: Tier = "auto",
    max_objects: int | None = None,
) -> Callable[[Data], T]: ...


@overload
def decoder(
    cls: None, *, sender: Format, lossy: bool = False, tier: Tier = "auto", max_objects: int | None = None
) -> Callable[[Data], Any]: ...


def decoder(
    cls: type[Any] | None,
    *,
    sender: Format | None = None,
    lossy: bool = False,
    tier: Tier = "auto",
    max_objects: int | None = None,
) -> Callable[[Data], Any]:
    """A function from a sender's bytes to events of a class.

    Arguments:
        cls: the event class, or None for a class that is made for the sender's format.
        sender: the format of the bytes; by default the class's own on this machine.
        lossy: whether to consent to conversions that may lose, as in `codec`.
        tier: when to compile, as in `codec`.
        max_objects: how many Python objects an event may become, as in `codec`.

    Raises:
        FormatError, IncompatibleError, CompileError: as `codec` does.

    The function raises WireError for bytes that are no record of the sender's format, ConversionError for a
    value that does not fit, and LimitError for an event of too many objects.

    >>> @echo.event
    ... class Point:
    ...     x: echo.Int16
    >>> decode = echo.decoder(Point, sender=echo.format_of(Point, abi="s390x"))
    >>> decode(b"\\x01\\x02").x
    258
    """
    cls = _class_for(cls, sender)
    format_ = format_of(cls)
    most = _most(max_objects)
    return Codec(cls, format_, sender or format_, lossy=lossy, tier=tier, ways=Ways.DECODE, most=most).decode

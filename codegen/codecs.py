"""Encoders and decoders: one callable for one class and one sender's format."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast, overload

from echo_core.codegen.convert import convert_record
from echo_core.codegen.objects import plain_of, value_of
from echo_core.codegen.records import read, write
from echo_core.errors import FormatError
from echo_core.formats.abi import Abi
from echo_core.formats.compare import compare
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format

T = TypeVar("T")


class Encoder(Generic[T]):
    """Events of one class to the bytes of one format."""

    def __init__(self, cls: type[T], format_: Format) -> None:
        self.format = format_
        self._cls = cls

    def __call__(self, event: T) -> bytes:
        """The event's record; EncodeError with the field's path where a value does not fit its field."""
        record = self.format.record
        return write(plain_of(record, event, record.name), self.format.layout)

    def __repr__(self) -> str:
        return f"Encoder({self._cls.__qualname__} -> {self.format!r})"


class Decoder(Generic[T]):
    """Bytes of one sender's format to events of one class.

    Extra fields are ignored, missing ones take their defaults, and values are widened and swapped on the
    way; a sender from which the class cannot be reached is refused here, before any of its bytes.
    """

    def __init__(self, cls: type[T], sender: Format, receiver: Format, *, lossy: bool) -> None:
        self.report = compare(sender, receiver, lossy=lossy)
        self.report.raise_if_refused()
        self.sender = sender
        self.receiver = receiver

    def __call__(self, data: bytes | bytearray | memoryview) -> T:
        """The event; WireError for bytes that are no record of the sender's format."""
        plain = read(memoryview(data), self.sender.layout)
        receiver = self.receiver.record
        if not self.report.is_same:
            plain = convert_record(plain, self.sender.record, receiver, receiver.name)
        return cast("T", value_of(receiver, plain, receiver.name))

    def __repr__(self) -> str:
        return f"Decoder({self.sender!r} -> {self.receiver!r})"


def encoder(cls: type[T], *, abi: str | Abi = "native") -> Encoder[T]:
    """A callable from events of `cls` to bytes, in the layout of this machine or of the one named."""
    return Encoder(cls, format_of(cls, abi=abi))


@overload
def decoder(cls: type[T], *, sender: Format | None = None, lossy: bool = False) -> Decoder[T]: ...


@overload
def decoder(cls: None, *, sender: Format, lossy: bool = False) -> Decoder[Any]: ...


def decoder(cls: type[Any] | None, *, sender: Format | None = None, lossy: bool = False) -> Decoder[Any]:
    """A callable from a sender's bytes to events of `cls`, or of a class made for the sender's format.

    Without `sender` the bytes are this machine's own. `lossy` consents to conversions that may lose; a
    value that does not fit is then a ConversionError. Where no path leads from the sender's format to the
    class, IncompatibleError says why.
    """
    if cls is None:
        if sender is None:
            msg = "Expected a class or a sender's format, got neither"
            raise FormatError(msg)
        cls = sender.record_class()
    receiver = format_of(cls)
    return Decoder(cls, sender or receiver, receiver, lossy=lossy)

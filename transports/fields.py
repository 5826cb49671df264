"""Fields of messages: how an integer, bytes, a text and a list are written and read.

Little-endian integers, bytes of fixed size, and what varies in size behind a uint32 that tells the size in
bytes (of text and blobs) or the number of items (of lists). Nothing is read beyond the data, nothing may be
left over, and every size is held to a limit before anything is made of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from echo_core.errors import EncodeError, WireError

T = TypeVar("T")


class Reader:
    """A position in bytes, which moves as they are read."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        end = self._position + size
        if end > len(self._data):
            msg = f"Expected {end} bytes or more, got {len(self._data)}"
            raise WireError(msg)
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def finish(self) -> None:
        """Nothing may be left over."""
        if self._position != len(self._data):
            msg = f"Expected {self._position} bytes, got {len(self._data)}"
            raise WireError(msg)


@dataclass(frozen=True, slots=True)
class Codec:
    """How a field is written and read; `write` raises EncodeError, `read` WireError."""

    write: Callable[[Any], bytes]
    read: Callable[[Reader], Any]


def _held(value: T, *, size: int, limit: int, error: type[EncodeError | WireError], unit: str) -> T:
    if size > limit:
        msg = f"Expected at most {limit} {unit}, got {size}"
        raise error(msg)
    return value


def integer(code: str) -> Codec:
    """An integer with the struct module's code."""
    layout = struct.Struct("<" + code)

    def write(value: int) -> bytes:
        try:
            return layout.pack(value)
        except struct.error:
            msg = f"Expected an unsigned integer of {layout.size} bytes, got {value!r}"
            raise EncodeError(msg) from None

    def read(reader: Reader) -> int:
        (value,) = layout.unpack(reader.take(layout.size))
        return int(value)

    return Codec(write, read)


def fixed(size: int) -> Codec:
    """So many bytes."""

    def write(value: bytes) -> bytes:
        if len(value) != size:
            msg = f"Expected {size} bytes, got {len(value)}"
            raise EncodeError(msg)
        return value

    return Codec(write, lambda reader: reader.take(size))


U16, U32, U64 = integer("H"), integer("I"), integer("Q")


def blob(limit: int) -> Codec:
    """At most `limit` bytes, behind their number."""

    def write(value: bytes) -> bytes:
        _held(value, size=len(value), limit=limit, error=EncodeError, unit="bytes")
        return U32.write(len(value)) + value

    def read(reader: Reader) -> bytes:
        size = U32.read(reader)
        return reader.take(_held(size, size=size, limit=limit, error=WireError, unit="bytes"))

    return Codec(write, read)


def text(limit: int) -> Codec:
    """UTF-8 of at most `limit` bytes, behind their number."""
    coded = blob(limit)

    def write(value: str) -> bytes:
        try:
            return coded.write(value.encode())
        except UnicodeEncodeError:
            msg = f"Expected text that UTF-8 can hold, got {value!r}"
            raise EncodeError(msg) from None

    def read(reader: Reader) -> str:
        data: bytes = coded.read(reader)
        try:
            return data.decode()
        except UnicodeDecodeError:
            msg = f"Expected UTF-8, got {data[:40]!r}"
            raise WireError(msg) from None

    return Codec(write, read)


def many(item: Codec, limit: int) -> Codec:
    """At most `limit` items, behind their number."""

    def write(values: tuple[Any, ...]) -> bytes:
        _held(values, size=len(values), limit=limit, error=EncodeError, unit="items")
        return U32.write(len(values)) + b"".join(map(item.write, values))

    def read(reader: Reader) -> tuple[Any, ...]:
        count = U32.read(reader)
        _held(count, size=count, limit=limit, error=WireError, unit="items")
        return tuple([item.read(reader) for _ in range(count)])

    return Codec(write, read)


def _read_zero(reader: Reader) -> None:
    if value := U32.read(reader):
        msg = f"Expected 0, got {value}"
        raise WireError(msg)


ZERO = Codec(lambda _: bytes(4), _read_zero)  # so that a uint64 behind a uint32 is aligned
PADDING = "padding"  # the name of what is zero


def write_fields(codecs: Mapping[str, Codec], message: object) -> bytes:
    """The attributes of a message, side by side; EncodeError names the one that its field cannot hold."""
    parts: list[bytes] = []
    for name, codec in codecs.items():
        try:
            parts.append(codec.write(getattr(message, name, None)))
        except EncodeError as error:
            raise EncodeError(str(error), path=f"{type(message).__name__}.{name}") from None
    return b"".join(parts)


def read_fields(codecs: Mapping[str, Codec], data: bytes, *, where: str) -> dict[str, Any]:
    """The values of a message's fields by name; WireError names the one that the data does not hold."""
    reader = Reader(data)
    values: dict[str, Any] = {}
    name = ""
    try:
        for name, codec in codecs.items():
            values[name] = codec.read(reader)
        reader.finish()
    except WireError as error:
        raise WireError(str(error), path=f"{where}.{name}") from None
    values.pop(PADDING, None)
    return values

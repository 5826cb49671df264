"""Messages as dataclasses, and codecs for their fields: integers, bytes, text and lists.

Integers are little-endian. Bytes of fixed size stand alone; text, blobs and lists have a uint32 prefix, which
is the size in bytes or the number of items. A reader never reads beyond the data, refuses trailing bytes, and
checks every size against its limit before it allocates anything.
"""

from __future__ import annotations

import dataclasses
import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, get_type_hints

from echo_core.errors import EncodeError, WireError, unexpected

T = TypeVar("T")


class Reader(io.BytesIO):
    """Bytes with a read position."""

    def take(self, size: int) -> bytes:
        """Read the next `size` bytes; WireError if there are fewer."""
        taken = self.read(size)
        if missing := size - len(taken):
            raise unexpected(WireError, f"{self.tell() + missing} bytes or more", self.tell())
        return taken

    def finish(self) -> None:
        """Raise WireError if bytes are left."""
        if rest := self.read():
            raise unexpected(WireError, f"{self.tell() - len(rest)} bytes", self.tell())


@dataclass(frozen=True, slots=True)
class Codec:
    """Writes and reads one kind of field; `write` raises EncodeError, `read` WireError."""

    write: Callable[[Any], bytes]
    read: Callable[[Reader], Any]


def _held(value: T, *, size: int, limit: int, error: type[EncodeError | WireError], unit: str) -> T:
    if size > limit:
        raise unexpected(error, f"at most {limit} {unit}", size)
    return value


def integer(code: str) -> Codec:
    """An integer, by its code in the struct module."""
    layout = struct.Struct("<" + code)

    def write(value: int) -> bytes:
        try:
            return layout.pack(value)
        except struct.error:
            raise unexpected(
                EncodeError, f"an unsigned integer of {layout.size} bytes", f"{value!r}"
            ) from None

    def read(reader: Reader) -> int:
        (value,) = layout.unpack(reader.take(layout.size))
        return int(value)

    return Codec(write, read)


def fixed(size: int) -> Codec:
    """Exactly `size` bytes."""

    def write(value: bytes) -> bytes:
        if len(value) != size:
            raise unexpected(EncodeError, f"{size} bytes", len(value))
        return value

    return Codec(write, lambda reader: reader.take(size))


U16, U32, U64 = integer("H"), integer("I"), integer("Q")


def blob(limit: int) -> Codec:
    """At most `limit` bytes, with a length prefix."""

    def write(value: bytes) -> bytes:
        _held(value, size=len(value), limit=limit, error=EncodeError, unit="bytes")
        return U32.write(len(value)) + value

    def read(reader: Reader) -> bytes:
        size = U32.read(reader)
        return reader.take(_held(size, size=size, limit=limit, error=WireError, unit="bytes"))

    return Codec(write, read)


def text(limit: int) -> Codec:
    """UTF-8 of at most `limit` bytes, with a length prefix."""
    coded = blob(limit)

    def write(value: str) -> bytes:
        try:
            return coded.write(value.encode())
        except UnicodeEncodeError:
            raise unexpected(EncodeError, "text that UTF-8 can hold", f"{value!r}") from None

    def read(reader: Reader) -> str:
        data: bytes = coded.read(reader)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise unexpected(WireError, "UTF-8", f"{data[:40]!r}") from None

    return Codec(write, read)


def shown(said: str, *, keep: str = "") -> str:
    """What a peer says, fit for a log and a terminal: what could not be seen there is escaped.

    That is control characters, line breaks and marks of direction, but for those of `keep`.
    """
    if said.isprintable():
        return said
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in said)


def words(limit: int, *, keep: str = "") -> Codec:
    """Text that people are shown: a reader has it as `shown` makes it."""
    coded = text(limit)
    return Codec(coded.write, lambda reader: shown(coded.read(reader), keep=keep))


def many(item: Codec, limit: int) -> Codec:
    """At most `limit` items, with a count prefix."""

    def write(values: tuple[Any, ...]) -> bytes:
        _held(values, size=len(values), limit=limit, error=EncodeError, unit="items")
        return U32.write(len(values)) + b"".join(map(item.write, values))

    def read(reader: Reader) -> tuple[Any, ...]:
        count = U32.read(reader)
        _held(count, size=count, limit=limit, error=WireError, unit="items")
        return tuple([item.read(reader) for _ in range(count)])

    return Codec(write, read)


def _read_aligned(reader: Reader) -> int:
    if value := U32.read(reader):
        raise unexpected(WireError, "0 in front", value)
    return int(U64.read(reader))


# Behind one uint32: four bytes of zeros align it.
ALIGNED_U64 = Codec(lambda value: bytes(4) + U64.write(value), _read_aligned)


def _read_count(reader: Reader) -> int:
    if (value := int(U64.read(reader))) >> 63:
        raise unexpected(WireError, "a count below 2**63", value)
    return value


COUNT = Codec(U64.write, _read_count)


def _read_flag(reader: Reader) -> bool:
    if (value := int(U32.read(reader))) > 1:
        raise unexpected(WireError, "0 or 1", value)
    return value == 1


FLAG = Codec(U32.write, _read_flag)


class Message:
    """The root of all messages: dataclasses, whose annotations say how their fields are written.

    Each protocol derives a class for its own, whose kind is 0 and whose `by_kind` finds the others.
    """

    __slots__ = ()
    kind: ClassVar[int]
    word: ClassVar[str]  # what the kind is called: the class's name in capitals
    by_kind: ClassVar[dict[int, type[Any]]]

    def __init_subclass__(cls, kind: int = 0) -> None:
        """A dataclass with slots is made twice, the second time with the attributes of the first."""
        cls.kind = vars(cls).get("kind", kind)
        cls.word = cls.__name__.upper()
        if cls.kind:
            cls.by_kind[cls.kind] = cls


M = TypeVar("M", bound=Message)


class _CodecsByClass(dict[type[Any], dict[str, Codec]]):
    """How the fields of a dataclass are written: `Annotated[..., Codec]`, looked at when first needed."""

    def __missing__(self, cls: type[Any]) -> dict[str, Codec]:
        hints = get_type_hints(cls, include_extras=True)
        self[cls] = {field.name: hints[field.name].__metadata__[0] for field in dataclasses.fields(cls)}
        return self[cls]


CODECS = _CodecsByClass()


def write_fields(message: object) -> bytes:
    """Encode the fields of a dataclass; EncodeError names the one that cannot hold its value."""
    parts: list[bytes] = []
    for name, codec in CODECS[type(message)].items():
        try:
            parts.append(codec.write(getattr(message, name)))
        except EncodeError as error:
            raise EncodeError(str(error), path=f"{type(message).__name__}.{name}") from None
    return b"".join(parts)


def read_fields(cls: type[M], data: bytes) -> M:
    """Decode a dataclass; WireError names the field that is malformed."""
    reader, name = Reader(data), ""
    values: dict[str, Any] = {}
    try:
        for name, codec in CODECS[cls].items():
            values[name] = codec.read(reader)
        reader.finish()
    except WireError as error:
        raise WireError(str(error), path=f"{cls.__name__}.{name}") from None
    return cls(**values)

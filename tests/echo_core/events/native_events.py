"""Native record classes of tests, and what their native functions make of events."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import pytest

import echo_core as echo
from echo_core.codegen.events.record_types import encoder_of, is_native, own_decoder
from echo_core.codegen.plain.generic import Data, GenericCodec
from echo_core.errors import EncodeError

T = TypeVar("T")
UTC = dt.UTC


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = 3
    HIGH = 70000


@echo.event
class Point:
    x: float
    y: float = 0.0


@echo.event(frozen=True, order=True)
class Version:
    major: int
    minor: echo.UInt8 = 0


@echo.event
class Fixed:
    """A field of every kind that has no variable parts."""

    flag: bool = False
    i8: echo.Int8 = 0
    i16: echo.Int16 = 0
    i32: echo.Int32 = 0
    i64: int = 0
    u8: echo.UInt8 = 0
    u16: echo.UInt16 = 0
    u32: echo.UInt32 = 0
    u64: echo.UInt64 = 0
    f16: echo.Float16 = 0.0
    f32: echo.Float32 = 0.0
    f64: float = 0.0
    c64: echo.Complex64 = 0j
    tag: echo.Chars[4] = echo.field(default="")
    raw: echo.Bytes[2] = echo.field(default=b"\0\0")
    color: Color = Color.RED
    level: Level = Level.LOW
    when: dt.datetime = dt.datetime(2020, 1, 1, tzinfo=UTC)
    span: dt.timedelta = dt.timedelta(0)
    key: uuid.UUID = uuid.UUID(int=0)
    maybe: int | None = None
    position: echo.Array[echo.Float64, 3] = echo.field(default_factory=lambda: np.zeros(3))
    names: echo.Array[echo.Chars[2], 2] = echo.field(default_factory=lambda: ["a", "b"])
    point: Point = dataclasses.field(default_factory=lambda: Point(1.0))
    points: echo.Array[Point, 2] = echo.field(default_factory=lambda: [Point(1.0), Point(2.0)])


@echo.event
class Varied:
    """Fields of every kind that has variable parts, beside a fixed one."""

    id: int = 0
    text: str = ""
    blob: bytes = b""
    note: str | None = None
    tags: list[str] = dataclasses.field(default_factory=list[str])
    pair: tuple[str, ...] = ()
    values: echo.Array[echo.Float32, ...] = echo.field(default_factory=lambda: np.zeros(0, np.float32))
    position: echo.Array[echo.Int16, 2] = echo.field(default_factory=lambda: np.zeros(2, np.int16))
    point: Point = dataclasses.field(default_factory=lambda: Point(0.0))


@dataclasses.dataclass(frozen=True)
class RecordCodec:
    """Built-in functions between the events of a native record class and records of this machine's layout.

    Records with variable parts cannot be told apart in a row, so there is no `..._many` for them, and
    `decode` wants bytes that the caller has verified.
    """

    encode: Callable[[Any], bytes]
    decode: Callable[[Data], Any]
    encode_many: Callable[[Iterable[Any]], bytes] | None
    decode_many: Callable[[Data], list[Any]] | None


def record_codec(cls: type[Any]) -> RecordCodec | None:
    """The functions of a native record class; None for any other class."""
    if not is_native(cls):
        return None
    slow = generic(cls)
    encoder, decoder = encoder_of(cls, slow.encode, slow.encode_many), own_decoder(cls)
    decoder.install_copy()
    if not slow.format.is_fixed:
        return RecordCodec(encoder.encode, decoder.decode, None, None)
    return RecordCodec(encoder.encode, decoder.decode, encoder.encode_many, decoder.decode_many)


def codec(cls: type[Any]) -> RecordCodec:
    """The native functions of a class that must have some."""
    found = record_codec(cls)
    assert found is not None
    return found


def generic(cls: type[T]) -> GenericCodec[T]:
    """The codec that knows nothing of native records."""
    format_ = echo.format_of(cls)
    return GenericCodec(cls, format_, format_, lossy=False)


def varied() -> Varied:
    """One with something in every field."""
    event = Varied(7, "größe", b"\0\1", "note", ["a", "b"], ("c",), np.arange(3, dtype=np.float32))
    event.position = np.array([1, 2], np.int16)
    return event


def received(event: Any) -> Any:
    """The event as a receiver of its bytes has it."""
    cls: Any = event.__class__
    return codec(cls).decode(generic(cls).encode(event))


def bad(event: Any, name: str, value: object) -> str:
    """What is said to an assignment that is refused."""
    with pytest.raises(EncodeError) as caught:
        setattr(event, name, value)
    return str(caught.value)

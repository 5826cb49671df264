"""Types of one value: numbers, text, bytes, enumerations, times, UUID; and those with None."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import echo_core as echo
from bench.types.case import Case, Spelling, same


class Color(enum.Enum):
    """Any enumeration of names."""

    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    """One whose members are numbers."""

    LOW = 1
    HIGH = 2


MOMENT = datetime(2026, 11, 17, 12, 30, 15, 250_500, UTC)
DURATION = timedelta(days=2, seconds=5, microseconds=250_500)
UUID = uuid.UUID("8c5b1e8a-7c1e-4f1b-9a55-3f6d5e7c9b10")
TEXT = "twenty characters, x"
UNICODE = "zwölf Böxkämpfer jagen"

_SIZES = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Long", "ULong")


def cases() -> Iterator[Case]:
    """In the order of the document."""
    yield same("bool", bool, True, documented=("bool",))
    yield same("int", int, 1_234_567_890_123, documented=("int",))
    for name in _SIZES:
        yield same(name, getattr(echo, name), 100, documented=_names(name), struct=int)
    yield same("float", float, 2.5, documented=("float",))
    for name in ("Float16", "Float32", "Float64"):
        yield same(name, getattr(echo, name), 2.5, documented=_names(name), struct=float)
    yield _complex("complex", complex, ("complex",))
    yield _complex("Complex64", echo.Complex64, _names("Complex64"))
    yield _complex("Complex128", echo.Complex128, _names("Complex128"))
    yield same("str of 20", str, TEXT, documented=("str",))
    yield same("str of 20, not ASCII", str, UNICODE)
    yield same("str of 1000", str, TEXT * 50)
    yield same("Chars[16]", echo.Chars[16], "sensor-17", documented=("echo.Chars[n]",), struct=str)
    yield same("bytes of 100", bytes, bytes(range(100)), documented=("bytes",))
    yield same("Bytes[16]", echo.Bytes[16], bytes(range(16)), documented=("echo.Bytes[n]",), struct=bytes)
    yield same("Enum", Color, Color.BLUE, documented=("Enum",))
    yield same("IntEnum", Level, Level.HIGH, documented=("IntEnum",))
    yield same("datetime", datetime, MOMENT, documented=("datetime",))
    yield same("timedelta", timedelta, DURATION, documented=("timedelta",))
    yield same("UUID", uuid.UUID, UUID, documented=("uuid.UUID",))
    yield from _optional()


def _names(name: str) -> tuple[str, ...]:
    """A scalar is written with its module, or without it after another one."""
    return (name, f"echo.{name}")


def _complex(name: str, annotation: Any, documented: tuple[str, ...]) -> Case:
    """A Struct has two floats, of which a program makes a complex number."""
    value = complex(1.5, -2.5)
    ours = Spelling((("value", annotation),), value)
    theirs = Spelling(
        (("real", float), ("imag", float)), value, "value.real, value.imag", "complex(it.real, it.imag)"
    )
    return Case(name, documented, value, ours, ours, theirs, "two floats")


def _optional() -> Iterator[Case]:
    """With a value, and without one."""
    yield same("float or None, a value", float | None, 2.5, documented=("T \\| None",))
    yield same("float or None, None", float | None, None)
    yield same("str or None, a value", str | None, TEXT)
    yield same("str or None, None", str | None, None)
    yield same("datetime or None, a value", datetime | None, MOMENT)
    yield same("UUID or None, a value", uuid.UUID | None, UUID)
    yield same("list[int] of 10 or None, a value", list[int] | None, [i * 1000 for i in range(10)])

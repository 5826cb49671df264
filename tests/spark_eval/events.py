"""Event classes with every kind of field, and random events of them."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from typing import Any, cast

import numpy as np

import echo_core as echo


class Quality(enum.Enum):
    """An enumeration with a negative number."""

    GOOD = 1
    SUSPECT = -5


@echo.event
class Channel:
    """A record of fixed size."""

    number: echo.UInt16
    label: echo.Chars[5]


@echo.event
class Cell:
    """A record with a variable part."""

    kind: echo.Int16
    label: str


@echo.event
class Fixed:
    """Every kind of field that lies in the record itself."""

    flag: bool
    i8: echo.Int8
    i16: echo.Int16
    i32: echo.Int32
    i64: int
    u8: echo.UInt8
    u16: echo.UInt16
    u32: echo.UInt32
    u64: echo.UInt64
    f16: echo.Float16
    f32: echo.Float32
    f64: float
    c64: echo.Complex64
    c128: complex
    text: echo.Chars[5]
    data: echo.Bytes[3]
    quality: Quality
    when: dt.datetime
    lasted: dt.timedelta
    key: uuid.UUID
    channel: Channel
    grid: echo.Array[echo.Float32, 2, 3]
    channels: echo.Array[Channel, 2]
    maybe: float | None
    maybe_text: echo.Chars[4] | None
    maybe_channel: Channel | None


@echo.event
class Varying:
    """Every kind of field that has variable parts."""

    id: int
    text: str
    data: bytes
    samples: echo.Array[echo.Float32, ...]
    rows: echo.Array[echo.Int16, ..., 2]
    count: echo.Int32
    counted: echo.Array[echo.UInt64, "count"]  # noqa: F821, UP037 - a dimension, not a type
    times: list[dt.datetime]
    tags: list[str]
    qualities: list[Quality]
    nested: list[list[int]]
    channels: list[Channel]
    array: echo.Array[Channel, ...]
    cell: Cell
    cells: list[Cell]
    pair: echo.Array[Cell, 2]
    note: str | None
    blob: bytes | None
    maybe: list[int] | None
    maybe_cell: Cell | None
    holes: list[int | None]


def fixed(seed: int) -> Fixed:
    """A random event of fixed size."""
    rng = np.random.default_rng(seed)
    return Fixed(
        flag=bool(rng.integers(2)),
        **{
            f"i{b}": int(rng.integers(-(2 ** (b - 1)), 2 ** (b - 1) - 1, endpoint=True))
            for b in (8, 16, 32, 64)
        },
        **{f"u{b}": int(rng.integers(0, 2**b - 1, dtype=np.uint64, endpoint=True)) for b in (8, 16, 32, 64)},
        f16=float(np.float16(rng.normal())),
        f32=float(rng.choice([0.0, -0.0, np.inf, 1.5])),
        f64=float(rng.normal()),
        c64=complex(1.5, int(rng.integers(9))),
        c128=complex(rng.normal(), -np.inf),
        text=_text(rng, 2),
        data=rng.bytes(3),
        quality=_quality(rng),
        when=_when(rng),
        lasted=dt.timedelta(microseconds=int(rng.integers(-(2**52), 2**52))),
        key=uuid.UUID(bytes=rng.bytes(16)),
        channel=_channel(rng),
        grid=rng.normal(size=(2, 3)).astype("f4"),
        channels=_channels(rng, 2),
        maybe=None if rng.integers(2) else 2.5,
        maybe_text=cast("Any", None if rng.integers(2) else _text(rng, 2)),
        maybe_channel=None if rng.integers(2) else _channel(rng),
    )


def varying(seed: int) -> Varying:
    """A random event with variable parts."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(4))
    return Varying(
        id=seed,
        text=_text(rng, 200 * count),
        data=rng.bytes(count),
        samples=rng.normal(size=100 * count).astype("f4"),
        rows=rng.integers(-9, 9, (count, 2)).astype("i2"),
        count=count,
        counted=np.arange(count, dtype="u8") + np.uint64(2**63),
        times=[_when(rng) for _ in range(_few(rng))],
        tags=[_text(rng, 4) for _ in range(_few(rng))],
        qualities=[_quality(rng) for _ in range(_few(rng))],
        nested=[list(range(_few(rng))) for _ in range(_few(rng))],
        channels=[_channel(rng) for _ in range(_few(rng))],
        array=_channels(rng, _few(rng)),
        cell=_cell(rng),
        cells=[_cell(rng) for _ in range(_few(rng))],
        pair=_pair(rng),
        note=None if rng.integers(2) else _text(rng, 4),
        blob=None if rng.integers(2) else rng.bytes(_few(rng)),
        maybe=None if rng.integers(2) else [1] * _few(rng),
        maybe_cell=None if rng.integers(2) else _cell(rng),
        holes=[None if rng.integers(2) else 7 for _ in range(_few(rng))],
    )


def _few(rng: np.random.Generator) -> int:
    return int(rng.integers(4))


def _text(rng: np.random.Generator, most: int) -> str:
    return "".join(rng.choice(list("aZ é"), int(rng.integers(most + 1))))


def _quality(rng: np.random.Generator) -> Quality:
    return Quality.GOOD if rng.integers(2) else Quality.SUSPECT


def _when(rng: np.random.Generator) -> dt.datetime:
    return dt.datetime(2000, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
        microseconds=int(rng.integers(-(2**52), 2**52))
    )


def _channel(rng: np.random.Generator) -> Channel:
    return Channel(int(rng.integers(2**16)), _text(rng, 2))


def _channels(rng: np.random.Generator, count: int) -> Any:
    records = np.zeros(count, echo.format_of(Channel).dtype)
    records["number"] = rng.integers(2**16, size=count)
    records["label"] = [_text(rng, 2).encode() for _ in range(count)]
    return records


def _cell(rng: np.random.Generator) -> Cell:
    return Cell(_few(rng), _text(rng, 4))


def _pair(rng: np.random.Generator) -> Any:
    return [_cell(rng), _cell(rng)]


# ---------------------------------------------------------------------------
# The oracle: one event, one value at a time


def plain(type_: Any, value: Any) -> Any:
    """A value as a column's `to_pylist` gives it; times as microseconds."""
    match type(type_).__name__:
        case "Nullable":
            return None if value is None else plain(type_.element, value)
        case "Record":
            return {field.name: plain(field.type, _member(value, field)) for field in type_.fields}
        case "StaticArray" | "Sequence":
            return _lists(type_.element, value, len(type_.shape))
        case "Enumeration":
            return value.name if isinstance(value, enum.Enum) else _name(type_, int(value))
        case "Scalar":
            return _scalar(type_, value)
        case _:
            return value


def _member(value: Any, field: Any) -> Any:
    """A field of an event, or of a row of a record array."""
    if not isinstance(value, np.void):
        return getattr(value, field.name)
    row: Any = value  # to numpy's stubs, what is in it is unknown
    found = row[field.name]
    if type(field.type).__name__ == "Nullable":
        return found["value"] if found["present"] else None
    return found


def _name(enumeration: Any, number: int) -> str:
    name_by_number: dict[int, str] = {its_number: name for name, its_number in enumeration.members}
    return name_by_number[number]


def _lists(element: Any, value: Any, depth: int) -> Any:
    return [_lists(element, it, depth - 1) if depth > 1 else plain(element, it) for it in value]


def _scalar(type_: Any, value: Any) -> Any:
    match type_.kind.name:
        case "COMPLEX":
            return {"real": float(value.real), "imag": float(value.imag)}
        case "UUID":
            return str(uuid.UUID(bytes=value.tobytes()) if isinstance(value, np.void) else value)
        case "BYTES":
            return value.tobytes() if isinstance(value, np.void) else value
        case "CHARS":
            return value.split(b"\0")[0].decode() if isinstance(value, bytes) else value
        case "BOOL":
            return bool(value)
        case "INT" | "UINT":
            return int(value)
        case "FLOAT":
            return float(value)
        case _:
            return _microseconds(value)


def _microseconds(time: Any) -> int:
    if isinstance(time, np.datetime64 | np.timedelta64):
        nanoseconds = int(time.astype(np.int64))
        return nanoseconds // 1000 if nanoseconds >= 0 else -(-nanoseconds // 1000)
    since = time - dt.datetime(1970, 1, 1, tzinfo=dt.UTC) if isinstance(time, dt.datetime) else time
    return since // dt.timedelta(microseconds=1)


def comparable(found: Any) -> str:
    """A column's values with numbers as the oracle has them, as text: NaN equals itself, 0.0 is not -0.0."""
    return repr(_bare(found))


def _bare(found: Any) -> Any:
    match type(found).__name__:
        case "dict":
            return {name: _bare(value) for name, value in found.items()}
        case "list":
            return [_bare(value) for value in found]
        case "datetime" | "timedelta":
            return _microseconds(found)
        case "Decimal":
            return int(found)
        case _:
            return found

"""The events of the comparison: classes, variants of senders, and values.

A shape's own class is a dataclass with slots, written out below. Variants are generated from it, under names
of this module, so that executors can unpickle them: `...Event` is the `@echo.event` class; `...Extra` and
`...ExtraLast` are senders with three additional fields in every record (spread, or at the end for positional
codecs); `...Reordered` has its fields in the opposite order. `BatchArray` and `BatchRecords` hold their
particles in a numpy array.
"""

import dataclasses
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

import echo_core as echo

Sender = Literal["same", "big-endian", "extra", "reordered"]
SENDERS: tuple[Sender, ...] = typing.get_args(Sender)
Values = dict[str, Any]  # of a record, by field; nested records are dicts too


@dataclass(slots=True)
class Particle:
    """96 bytes with fields of all common kinds."""

    id: int
    x: float
    y: float
    z: float
    vx: echo.Float32
    vy: echo.Float32
    vz: echo.Float32
    temp: echo.Float32
    cell: echo.Int32
    kind: echo.Int16
    flags: echo.UInt8
    active: bool
    mass: float
    charge: float
    tag: echo.Chars[16]
    owner: echo.UInt32


@dataclass(slots=True)
class Batch:
    """Many particles in one event."""

    step: int
    count: echo.Int32
    particles: list[Particle]


@echo.event
class BatchArray:
    """The same with a numpy array of particles."""

    step: int
    count: echo.Int32
    particles: echo.Array[Particle, ...]


@dataclass(slots=True)
class BatchRecords:
    """The same for sending: creating a BatchArray checks each record, creating this does not."""

    step: int
    count: echo.Int32
    particles: echo.Array[Particle, ...]


@dataclass(slots=True)
class Odd:
    """A typical C struct, laid out differently by almost any two machines."""

    c: echo.Chars[1]
    l: echo.Long  # noqa: E741 - the workload's name for it
    d: float
    ll: int
    s: echo.Int16
    text: str
    n: echo.Int32
    values: echo.Array[echo.Float32, "n"]  # noqa: F821 - a dimension, not a type


@dataclass(slots=True)
class Line:
    """A line of a chapter."""

    text: str
    speaker: str | None
    stress: float | None


@dataclass(slots=True)
class Chapter:
    """A chapter of a story."""

    title: str
    note: str | None
    lines: list[Line]


@dataclass(slots=True)
class Story:
    """Text, optional parts, and lists of records that hold lists of records."""

    id: int
    title: str
    author: str | None
    year: int | None
    tags: list[str]
    chapters: list[Chapter]


MORE: list[tuple[str, Any]] = [("origin", echo.Int32), ("weight", float), ("label", echo.Chars[8])]
MORE_VALUES: Values = {"origin": 3, "weight": 0.5, "label": "more"}
Fields = list[tuple[str, Any]]


def _spread(fields: Fields) -> Fields:
    half = len(fields) // 2
    return [MORE[0], *fields[:half], MORE[1], *fields[half:], MORE[2]]


VARIANTS: dict[str, Callable[[Fields], Fields]] = {
    "Event": lambda fields: fields,
    "Extra": _spread,
    "ExtraLast": lambda fields: [*fields, *MORE],
    "Reordered": lambda fields: fields[::-1],
}


def _declare(name: str, fields: Fields, *, is_event: bool = False) -> type[Any]:
    """Create a class under a name of this module: a dataclass with slots, or an event."""
    bare = type(name, (), {"__module__": __name__, "__annotations__": dict(fields), "__doc__": f"{name}."})
    made: type[Any] = echo.event(bare) if is_event else dataclass(slots=True)(bare)
    globals()[name] = made
    return made


_hints: dict[type[Any], dict[str, Any]] = {}


def hints(cls: type[Any]) -> dict[str, Any]:
    """The annotation of each field, in order."""
    if cls not in _hints:
        found = typing.get_type_hints(cls, include_extras=True)
        _hints[cls] = {field.name: found[field.name] for field in dataclasses.fields(cls)}
    return _hints[cls]


def _named(cls: type[Any], suffix: str) -> type[Any]:
    found: type[Any] = globals()[cls.__name__ + suffix]
    return found


def _variant_hint(hint: Any, suffix: str) -> Any:
    """The annotation with classes replaced by their variants."""
    if typing.get_origin(hint) is list:
        (item,) = typing.get_args(hint)
        return types.GenericAlias(list, (_variant_hint(item, suffix),))
    return _named(hint, suffix) if hasattr(hint, "__dataclass_fields__") else hint


def _declare_variants(cls: type[Any]) -> None:
    for suffix, arranged in VARIANTS.items():
        fields = [(name, _variant_hint(hint, suffix)) for name, hint in hints(cls).items()]
        _declare(cls.__name__ + suffix, arranged(fields), is_event=suffix == "Event")


_KINDS: tuple[Any, ...] = (
    int,
    float,
    echo.Int32,
    echo.Float32,
    bool,
    echo.Int16,
    echo.UInt8,
    echo.UInt32,
    float,
    echo.Chars[8],
)
Wide = _declare("Wide", [(f"f{i:03}", _KINDS[i % len(_KINDS)]) for i in range(200)])

for _cls in (Particle, Batch, Odd, Line, Chapter, Story, Wide):
    _declare_variants(_cls)


@dataclass(frozen=True, slots=True)
class EventShape:
    """An event class with values; `records` is the number of records per event."""

    name: str
    records: int
    cls: type[Any]
    values: Callable[[], Values]

    @property
    def is_batch(self) -> bool:
        return self.cls is Batch

    @property
    def event_class(self) -> type[Any]:
        return _named(self.cls, "Event")

    def sender_class(self, sender: Sender, *, positional: bool = False) -> type[Any]:
        """The class of the sender's events."""
        if sender == "extra":
            return _named(self.cls, "ExtraLast" if positional else "Extra")
        return _named(self.cls, "Reordered") if sender == "reordered" else self.cls


def instance(cls: type[Any], values: Values) -> Any:
    """Create an event of a class, or of a variant, with these values."""
    given = {name: _instance_value(hint, _value_of(values, name)) for name, hint in hints(cls).items()}
    return cls(**given)


def _value_of(values: Values, name: str) -> Any:
    return values[name] if name in values else MORE_VALUES[name]


def _instance_value(hint: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return instance(hint, typing.cast("Values", value))
    if isinstance(value, list):
        (item,) = typing.get_args(hint)
        return [_instance_value(item, it) for it in typing.cast("list[object]", value)]
    return value


def _particle(i: int) -> Values:
    """A particle whose fields depend on `i`; values of 32-bit floats are exact in 32 bits."""
    third = i / 3
    return {
        "id": i,
        "x": third,
        "y": -third,
        "z": third * 1e6,
        "vx": i % 17 / 4,
        "vy": -1.5,
        "vz": 0.25,
        "temp": 300.0 + i % 100,
        "cell": i % 1000,
        "kind": i % 6,
        "flags": i % 256,
        "active": i % 2 == 0,
        "mass": 1.67e-27,
        "charge": 1.6e-19,
        "tag": f"p{i % 100}",
        "owner": i % 65536,
    }


STEP = 42  # of every batch


def _batch(count: int) -> Callable[[], Values]:
    @cache
    def values() -> Values:
        return {"step": STEP, "count": count, "particles": [_particle(i) for i in range(7, 7 + count)]}

    return values


def _odd() -> Values:
    return {
        "c": "x",
        "l": -123456,
        "d": 2.5,
        "ll": 1 << 40,
        "s": -77,
        "text": "the quick brown fox",
        "n": 32,
        "values": np.arange(32, dtype="f4") / 4,
    }


def _wide() -> Values:
    value_by_kind: dict[type[Any], Callable[[int], Any]] = {
        int: lambda i: i,
        float: lambda i: i / 4,
        bool: lambda i: i % 20 == 4,
        str: lambda i: f"t{i}",
    }
    plain = typing.get_type_hints(Wide)
    return {name: value_by_kind[plain[name]](i) for i, name in enumerate(hints(Wide))}


def _story() -> Values:
    def line(i: int) -> Values:
        speaker = ("Alice", None, "the Mad Hatter")[i % 3]
        text = f"Line {i}: what is the use of a book without pictures - or of café conversations?"
        return {"text": text, "speaker": speaker, "stress": i / 4 if i % 2 else None}

    def chapter(i: int) -> Values:
        note = "abridged" if i % 2 else None
        return {"title": f"Chapter {i}", "note": note, "lines": [line(4 * i + k) for k in range(4)]}

    return {
        "id": 1865,
        "title": "Down the Rabbit-Hole",
        "author": "L. Carroll",
        "year": None,
        "tags": ["classic", "nonsense", "für Kinder"],
        "chapters": [chapter(i) for i in range(3)],
    }


SHAPES: dict[str, EventShape] = {
    shape.name: shape
    for shape in (
        EventShape("single", 1, Particle, lambda: _particle(7)),
        *(EventShape(f"batch-{n}", n, Batch, _batch(n)) for n in (1, 10, 100, 1000)),
        EventShape("odd", 1, Odd, _odd),
        EventShape("wide", 1, Wide, _wide),
        EventShape("story", 1, Story, _story),
    )
}

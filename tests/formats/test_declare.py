"""Classes become formats: every annotation that has a layout, and every one that is refused."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import enum
import gc
import threading
import typing
import uuid
import weakref
from typing import Annotated, Any, ClassVar, Optional

import numpy as np
import pytest
from numpy.typing import NDArray

import echo_core as echo
from echo_core.errors import EchoError, FormatError
from echo_core.formats import limits
from echo_core.formats.abi import Abi
from echo_core.formats.hints import UnknownNameError
from echo_core.formats.types import (
    Blob,
    Default,
    Enumeration,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
)


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = -3
    HIGH = 70_000


class Wide(enum.IntEnum):
    SMALL = -(2**31) - 1
    NULL = 0


class Narrow(enum.IntEnum):
    LEAST = -(2**31)
    GREATEST = 2**31 - 1


class Twice(enum.Enum):
    FIRST = 1
    ALIAS = 1  # noqa: PIE796 - a second name for the same member
    SECOND = 2


class Truth(enum.Enum):
    NO = False
    YES = True


class Word(enum.StrEnum):
    ONE = "one"


class Mask(enum.IntFlag):
    BIT = 1


class Empty(enum.Enum):
    pass


class TooWide(enum.IntEnum):
    FAR = 2**63


@dataclasses.dataclass
class Cell:
    i: echo.Int32
    name: str


class NotAnEvent:
    pass


# Not seen as types, for their brackets hold what no checker should look up.
ARRAY: Any = echo.Array
LIST: Any = list


def made(annotation: Any, **options: Any) -> type[Any]:
    """A dataclass `R` whose only field `x` has this annotation."""
    cls = dataclasses.make_dataclass("R", [("x", annotation, dataclasses.field(**options))])
    cls.__module__ = __name__
    return cls


def type_of(annotation: Any, *, abi: str = "x86_64") -> Type:
    return echo.format_of(made(annotation), abi=abi).fields[0].type


def fault_of(cls: Any) -> EchoError:
    with pytest.raises(FormatError) as caught:
        echo.format_of(cls)
    return caught.value


INT64 = Scalar(Kind.INT, 8)
CELL = Record("Cell", 16, 8, echo.format_of(Cell, abi="x86_64").fields)

ACCEPTED: list[tuple[Any, Type]] = [
    (bool, Scalar(Kind.BOOL, 1)),
    (int, INT64),
    (float, Scalar(Kind.FLOAT, 8)),
    (complex, Scalar(Kind.COMPLEX, 16)),
    (echo.Int8, Scalar(Kind.INT, 1)),
    (echo.Int16, Scalar(Kind.INT, 2)),
    (echo.Int32, Scalar(Kind.INT, 4)),
    (echo.Int64, INT64),
    (echo.UInt8, Scalar(Kind.UINT, 1)),
    (echo.UInt16, Scalar(Kind.UINT, 2)),
    (echo.UInt32, Scalar(Kind.UINT, 4)),
    (echo.UInt64, Scalar(Kind.UINT, 8)),
    (echo.Long, INT64),
    (echo.ULong, Scalar(Kind.UINT, 8)),
    (echo.Float16, Scalar(Kind.FLOAT, 2)),
    (echo.Float32, Scalar(Kind.FLOAT, 4)),
    (echo.Float64, Scalar(Kind.FLOAT, 8)),
    (echo.Complex64, Scalar(Kind.COMPLEX, 8)),
    (echo.Complex128, Scalar(Kind.COMPLEX, 16)),
    (str, Text(8)),
    (bytes, Blob(8)),
    (echo.Chars[16], Scalar(Kind.CHARS, 16)),
    (echo.Bytes[5], Scalar(Kind.BYTES, 5)),
    (dt.datetime, Scalar(Kind.TIMESTAMP, 8)),
    (dt.timedelta, Scalar(Kind.DURATION, 8)),
    (uuid.UUID, Scalar(Kind.UUID, 16)),
    (Color, Enumeration("Color", 4, (("RED", 0), ("BLUE", 1)))),
    (Level, Enumeration("Level", 4, (("LOW", -3), ("HIGH", 70_000)))),
    (Wide, Enumeration("Wide", 8, (("SMALL", -(2**31) - 1), ("NULL", 0)))),
    (Narrow, Enumeration("Narrow", 4, (("LEAST", -(2**31)), ("GREATEST", 2**31 - 1)))),
    (Twice, Enumeration("Twice", 4, (("FIRST", 1), ("SECOND", 2)))),
    (Truth, Enumeration("Truth", 4, (("NO", 0), ("YES", 1)))),
    (Word, Enumeration("Word", 4, (("ONE", 0),))),
    (echo.Array[echo.Float64, 3], StaticArray(Scalar(Kind.FLOAT, 8), (3,))),
    (echo.Array[echo.Float64, 3, 2], StaticArray(Scalar(Kind.FLOAT, 8), (3, 2))),
    (echo.Array[Cell, 2], StaticArray(CELL, (2,))),
    (echo.Array[str, 2], StaticArray(Text(8), (2,))),
    (echo.Array[echo.Float32, ...], Sequence(Scalar(Kind.FLOAT, 4), (None,), 8)),
    (echo.Array[echo.Int16, ..., 2], Sequence(Scalar(Kind.INT, 2), (None, 2), 8)),
    (echo.Array[echo.Int16, ..., ...], Sequence(Scalar(Kind.INT, 2), (None, None), 8)),
    (list[int], Sequence(INT64, (None,), 8)),
    (list[str], Sequence(Text(8), (None,), 8)),
    (list[Cell], Sequence(CELL, (None,), 8)),
    (list[list[int]], Sequence(Sequence(INT64, (None,), 8), (None,), 8)),
    (tuple[int, ...], Sequence(INT64, (None,), 8)),
    (list["int"], Sequence(INT64, (None,), 8)),
    ("list['Cell']", Sequence(CELL, (None,), 8)),
    (Cell, CELL),
    (int | None, Nullable(INT64)),
    (Optional[str], Nullable(Text(8))),  # noqa: UP045 - the older spelling is what is tested
    (list[str | None] | None, Nullable(Sequence(Nullable(Text(8)), (None,), 8))),
    (Cell | None, Nullable(CELL)),
    (Annotated[int, "a remark"], INT64),
    (Annotated[echo.Int16, "a remark"], Scalar(Kind.INT, 2)),
    (Annotated[NDArray[np.float64], echo.Array[echo.Float64, 4]], StaticArray(Scalar(Kind.FLOAT, 8), (4,))),
    (Annotated[str, echo.Chars[7]], Scalar(Kind.CHARS, 7)),
]


@pytest.mark.parametrize(("annotation", "expected"), ACCEPTED, ids=str)
def test_annotation_becomes_its_type(annotation: Any, expected: Type) -> None:
    """Every annotation of the requirements has the type that the table says."""
    assert type_of(annotation) == expected


@pytest.mark.parametrize(("abi", "size"), [("x86_64", 8), ("i386", 4), ("s390x", 8), ("mips", 4)], ids=str)
def test_long_and_references_are_as_wide_as_the_machine_says(abi: str, size: int) -> None:
    """`Long`, `str`, `bytes` and lists follow the ABI."""
    assert type_of(echo.Long, abi=abi).size == size
    assert type_of(echo.ULong, abi=abi).size == size
    assert type_of(str, abi=abi).size == size
    assert type_of(bytes, abi=abi).size == 2 * size
    assert type_of(list[int], abi=abi).size == 2 * size


def test_containers_and_classes_are_remembered() -> None:
    """What values look like in Python is kept beside the type."""
    listed, tupled, numbers = type_of(list[int]), type_of(tuple[int, ...]), type_of(echo.Array[int, ...])
    assert isinstance(listed, Sequence)
    assert listed.container is list
    assert isinstance(tupled, Sequence)
    assert tupled.container is tuple
    assert isinstance(numbers, Sequence)
    assert numbers.container is np.ndarray
    record, color = type_of(Cell), type_of(Color)
    assert isinstance(record, Record)
    assert record.python is Cell
    assert isinstance(color, Enumeration)
    assert color.python is Color


# ---------------------------------------------------------------------------------------------------
# Kinds of class


@dataclasses.dataclass
class Plain:
    a: echo.Int8
    b: int = 3


@dataclasses.dataclass(slots=True)
class Slotted:
    a: echo.Int8
    b: int = 3


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: echo.Int8
    b: int = 3


@dataclasses.dataclass(kw_only=True)
class KeywordOnly:
    a: echo.Int8
    b: int = 3


@echo.event
class Declared:
    a: echo.Int8
    b: int = 3


@dataclasses.dataclass
class Parent:
    a: echo.Int8


@dataclasses.dataclass
class Child(Parent):
    count: ClassVar[int] = 0
    b: int = 3


@pytest.mark.parametrize("cls", [Plain, Slotted, Frozen, KeywordOnly, Declared, Child])
def test_kinds_of_dataclass_are_laid_out_alike(cls: type[Any]) -> None:
    """Slots, freezing, inheritance and `@event` change nothing in memory."""
    format_ = echo.format_of(cls, abi="x86_64")
    assert [(f.name, f.offset, f.type.size) for f in format_.fields] == [("a", 0, 1), ("b", 8, 8)]
    assert format_.fields[1].default == Default((3).to_bytes(8, "little"))
    assert format_.size_bytes == 16
    assert format_.name == cls.__name__


DEFAULTS: list[tuple[Any, dict[str, Any], Default | None]] = [
    (int, {}, None),
    (int, {"default": -2}, Default(b"\xfe" + b"\xff" * 7)),
    (float, {"default": 1}, Default(b"\0\0\0\0\0\0\xf0\x3f")),
    (bool, {"default": True}, Default(b"\1")),
    (str, {"default": "é"}, Default("é".encode())),
    (bytes, {"default": b"\0\1"}, Default(b"\0\1")),
    (echo.Chars[4], {"default": "ab"}, Default(b"ab")),
    (echo.Bytes[2], {"default": b"ab"}, Default(b"ab")),
    (Color, {"default": Color.BLUE}, Default(b"\1\0\0\0")),
    (str | None, {"default": None}, Default()),
    (str | None, {"default": "x"}, Default(b"x")),
    (list[int] | None, {"default": None}, Default()),
    (tuple[int, ...], {"default": (1, 2)}, Default(local=True)),
    (list[int], {"default_factory": list}, Default(local=True)),
    (int, {"default_factory": int}, Default(local=True)),
    (str, {"default": "x" * limits.MAX_DEFAULT_BYTES}, Default(b"x" * limits.MAX_DEFAULT_BYTES)),
    (str, {"default": "x" * (limits.MAX_DEFAULT_BYTES + 1)}, Default(local=True)),
]


@pytest.mark.parametrize(("annotation", "options", "expected"), DEFAULTS)
def test_default_is_kept_where_it_is_one_value(
    annotation: Any, options: dict[str, Any], expected: Default | None
) -> None:
    """One value travels; what a factory makes, a container or something long stays with the class."""
    assert echo.format_of(made(annotation, **options)).fields[0].default == expected


def test_field_options_are_kept() -> None:
    """Former names, unit and documentation belong to the field."""
    cls = dataclasses.make_dataclass(
        "R", [("x", int, echo.field(aliases=("y", "z"), unit="K", doc="how warm"))]
    )
    field = echo.format_of(cls).fields[0]
    assert (field.aliases, field.unit, field.doc) == (("y", "z"), "K", "how warm")


# ---------------------------------------------------------------------------------------------------
# Names


@dataclasses.dataclass
class Early:
    late: Late
    lates: list[Late]


@dataclasses.dataclass
class Late:
    x: int


def test_name_defined_later_in_the_module_is_found() -> None:
    """A class may name one that is defined below it."""
    assert [str(f.type) for f in echo.format_of(Early).fields] == ["Late", "Late[...]"]


def test_types_defined_in_a_function_are_found_for_events() -> None:
    """`@event` sees the local variables of the function that it stands in."""

    @echo.event
    class Inner:
        x: echo.Int16

    @echo.event
    class Outer:
        inner: Inner
        inners: list[Inner]
        arrays: echo.Array[Inner, 2]

    assert [str(f.type) for f in echo.format_of(Outer).fields] == ["Inner", "Inner[...]", "Inner[2]"]


def test_types_defined_in_a_function_are_found_for_dataclasses() -> None:
    """`format_of` sees the local variables of its callers in the class's module."""

    @dataclasses.dataclass
    class Inner:
        x: echo.Int16

    @dataclasses.dataclass
    class Outer:
        inner: Inner
        inners: echo.Array["Inner", ...]  # noqa: UP037 - the quotes are what is tested

    assert [str(f.type) for f in echo.format_of(Outer).fields] == ["Inner", "Inner[...]"]


def test_innermost_of_several_local_names_wins() -> None:
    """A name of the caller hides the same name of the caller's caller."""
    Inner = Plain  # noqa: N806
    assert Inner is Plain

    def declared() -> echo.Format:
        @dataclasses.dataclass
        class Inner:
            x: echo.Int16

        @dataclasses.dataclass
        class Outer:
            inner: Inner

        return echo.format_of(Outer)

    assert declared().size_bytes == 2


def test_event_that_names_a_later_class_is_declared_on_first_use() -> None:
    """An unknown name in `@event` is no error until the format is asked for."""

    @echo.event
    class First:
        second: Second

    with pytest.raises(UnknownNameError, match="`Second`"):
        echo.format_of(First)

    @echo.event
    class Second:
        x: int

    assert echo.format_of(First).size_bytes == 8
    assert echo.format_of(Second).size_bytes == 8


# ---------------------------------------------------------------------------------------------------
# Refusals

LAYOUT = "Expected a type with a native layout, got `{}` - at `R.x`: {}"
ANY_WAY = "use a scalar, str, bytes, Enum, list, Array or a dataclass"
NAME_ELEMENTS = "name the elements' type, as in `list[int]`"
TUPLE_WAY = "use `tuple[T, ...]`, `echo_core.Array[T, n]` or a record"
UNION_WAY = "use one type, or one and None"
DICT_WAY = "use a list of records with a key and a value"

NO_LAYOUT: list[tuple[Any, str, str]] = [
    (dict, "dict", DICT_WAY),
    (dict[str, int], "dict[str, int]", DICT_WAY),
    (collections.abc.Mapping[str, int], "collections.abc.Mapping[str, int]", DICT_WAY),
    (typing.Mapping[str, int], "typing.Mapping[str, int]", DICT_WAY),
    (set[int], "set[int]", "use `list[T]`"),
    (frozenset[int], "frozenset[int]", "use `list[T]`"),
    (list, "list", NAME_ELEMENTS),
    (collections.abc.Sequence[int], "collections.abc.Sequence[int]", NAME_ELEMENTS),
    (tuple, "tuple", TUPLE_WAY),
    (tuple[int, int], "tuple[int, int]", TUPLE_WAY),
    (tuple[()], "tuple[()]", TUPLE_WAY),
    (np.ndarray, "ndarray", "use `echo_core.Array[echo_core.Float64, ...]`"),
    (np.float32, "float32", "use `echo_core.Float32`, `echo_core.Int16` and the like"),
    (bytearray, "bytearray", "use `bytes`"),
    (memoryview, "memoryview", "use `bytes`"),
    (dt.date, "date", "use `datetime.datetime`"),
    (dt.time, "time", "use `datetime.datetime`"),
    (Mask, "<flag 'Mask'>", "use `echo_core.UInt32` and combine the flags' values"),
    (int | str, "int | str", UNION_WAY),
    (int | str | None, "int | str | None", UNION_WAY),
    (NotAnEvent, "NotAnEvent", ANY_WAY),
    (None, "NoneType", ANY_WAY),
    (Any, "typing.Any", ANY_WAY),
    (object, "object", ANY_WAY),
    (list[dict[str, int]], "dict[str, int]", DICT_WAY),
    (echo.Array[dict, 2], "dict", DICT_WAY),
]


@pytest.mark.parametrize(("annotation", "got", "hint"), NO_LAYOUT, ids=str)
def test_annotation_without_a_layout_is_refused_with_a_way_out(annotation: Any, got: str, hint: str) -> None:
    """The message has the annotation, the field's path and what to write instead."""
    fault = fault_of(made(annotation))
    assert str(fault) == LAYOUT.format(got, hint)
    assert fault.path == "R.x"


DEFAULT_FAULTS: list[tuple[Any, Any, str]] = [
    (echo.Int8, 128, "Expected `int8` from -128 to 127, got 128"),
    (int, "x", "Expected `int64`, got `str`"),
    (bool, 1, "Expected `bool`, got `int`"),
    (str, None, "Expected `str`, got `NoneType`"),
    (echo.Chars[2], "abc", "Expected text of at most 2 bytes, got 3"),
    (echo.Bytes[2], b"a", "Expected exactly 2 bytes, got 1"),
    (Color, "r", "Expected `enum Color`, got `str`"),
    (int | None, "x", "Expected `int64`, got `str`"),
]


@pytest.mark.parametrize(("annotation", "default", "message"), DEFAULT_FAULTS)
def test_default_that_does_not_fit_is_refused(annotation: Any, default: Any, message: str) -> None:
    """A default is held to the type as any value is."""
    fault = fault_of(made(annotation, default=default))
    assert str(fault) == f"Expected a default that fits: {message} - at `R.x`"
    assert fault.path == "R.x"


ENUM_FAULTS: list[tuple[type[enum.Enum], str]] = [
    (Empty, "Expected at least one member, got none"),
    (TooWide, "Expected a number from"),
]


@pytest.mark.parametrize(("cls", "message"), ENUM_FAULTS)
def test_enumeration_without_a_layout_is_refused(cls: type[enum.Enum], message: str) -> None:
    """An Enum needs members, and numbers of at most 64 bits."""
    fault = fault_of(made(cls))
    assert str(fault).startswith(message)
    assert fault.path == "R.x"


@dataclasses.dataclass
class Node:
    children: list[Node]


@dataclasses.dataclass
class Ping:
    pong: Pong | None


@dataclasses.dataclass
class Pong:
    ping: Ping | None


@pytest.mark.parametrize(("cls", "path"), [(Node, "Node.children"), (Ping, "Pong.ping")])
def test_recursive_class_is_refused(cls: type[Any], path: str) -> None:
    """A class may not contain itself, not even through another one."""
    fault = fault_of(cls)
    assert str(fault) == (
        f"Expected a class that does not contain itself, got `{cls.__name__}` inside itself"
        f" - at `{path}`: refer to other events by an id of your own"
    )


@pytest.mark.parametrize("given", [NotAnEvent, 3, "Cell", None, Cell(1, "x")], ids=str)
def test_what_is_no_event_class_is_refused(given: Any) -> None:
    """An instance or a plain class has no format."""
    assert str(fault_of(given)).startswith("Expected an event class, got `")
    assert str(fault_of(given)).endswith("decorate the class with `@echo_core.event` or `@dataclass`")


@pytest.mark.parametrize("annotation", ["nowhere", "list[nowhere]", LIST["nowhere"]], ids=str)
def test_unknown_name_is_refused(annotation: Any) -> None:
    """The message has the name that was not found."""
    fault = fault_of(made(annotation))
    assert isinstance(fault, UnknownNameError)
    assert "got `nowhere` in an annotation - at `" in str(fault)
    assert fault.path.startswith("R")


def test_unknown_name_in_quotes_inside_an_array_has_its_path() -> None:
    """An element in quotes is resolved by itself; its field is still named."""
    fault = fault_of(made(ARRAY["nowhere", 2]))
    assert "`nowhere`" in str(fault)
    assert fault.path == "R.x"


@pytest.mark.parametrize("text", ["1 +", "dict[", "int.nothing", "1[2]"])
def test_annotation_that_cannot_be_evaluated_is_refused(text: str) -> None:
    """A broken annotation is the caller's fault, with the class's name."""
    fault = fault_of(made(text))
    assert str(fault).startswith("Expected annotations that can be evaluated, got one that cannot: ")
    assert fault.path == "R"


def test_unknown_abi_is_refused() -> None:
    """The known ones are listed."""
    with pytest.raises(FormatError, match=r"x86_64.*got `pdp11`"):
        echo.format_of(Cell, abi="pdp11")


def test_unhashable_abi_is_refused() -> None:
    """Even a list given as an ABI ends in a FormatError."""
    with pytest.raises(FormatError, match="Expected an ABI"):
        echo.format_of(Cell, abi=typing.cast("Any", []))


# ---------------------------------------------------------------------------------------------------
# Caching


def test_same_format_comes_back() -> None:
    """A class is walked once per ABI."""
    assert echo.format_of(Plain) is echo.format_of(Plain)
    assert echo.format_of(Plain, abi="s390x") is echo.format_of(Plain, abi="s390x")
    assert echo.format_of(Plain, abi="s390x") is not echo.format_of(Plain)
    assert Declared.__name__ == echo.format_of(Declared).name


def test_abi_of_ones_own_is_accepted() -> None:
    """Callers may bring an Abi, which is a key of the cache like a name."""
    odd = Abi("odd", "big", 4, 8, max_alignment=1)
    format_ = echo.format_of(Plain, abi=odd)
    assert [f.offset for f in format_.fields] == [0, 1]
    assert echo.format_of(Plain, abi=odd) is format_


def test_child_is_not_taken_for_its_parent() -> None:
    """The cache goes by the class itself."""
    assert len(echo.format_of(Parent).fields) == 1
    assert len(echo.format_of(Child).fields) == 2


def test_classes_are_collected_with_their_formats() -> None:
    """Asking for a format does not keep a class alive for ever."""
    cls = made(int)
    alive = weakref.ref(cls)
    echo.format_of(cls)
    del cls
    gc.collect()
    assert alive() is None


def test_threads_declare_the_same_class_at_once() -> None:
    """Whichever thread is first, all get equal formats."""
    fields = [(f"f{i}", list[echo.Int32]) for i in range(60)]
    start = threading.Barrier(4)
    for _ in range(20):
        cls = dataclasses.make_dataclass("R", fields)
        found: list[echo.Format] = []

        def declare(cls: type[Any] = cls, found: list[echo.Format] = found) -> None:
            start.wait(timeout=10)
            found.append(echo.format_of(cls))

        threads = [threading.Thread(target=declare) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        assert all(format_ == found[0] for format_ in found)

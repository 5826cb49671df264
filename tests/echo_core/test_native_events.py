"""Native record classes: dataclasses to their users, records in memory; what they keep alive."""

from __future__ import annotations

import abc
import copy
import dataclasses
import datetime as dt
import enum
import gc
import pickle
import sys
import uuid
import weakref
from dataclasses import InitVar
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.events import record_types
from echo_core.codegen.events.record_fields import MAX_CHECKS, checks_of
from echo_core.codegen.events.record_types import RecordCodec, is_native, record_codec
from echo_core.codegen.plain import records
from echo_core.codegen.plain.generic import GenericCodec
from echo_core.codegen.plain.objects import plain_of, value_of
from echo_core.errors import EncodeError, WireError
from echo_core.formats.abi import NATIVE
from echo_core.formats.layout import Layout
from tests.formats.strategies import comparable, examples, layouts, plain_values

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


# ---------------------------------------------------------------------------------------------------
# A dataclass to its users


def test_events_are_native_records() -> None:
    """All that this module is about would hold for other classes as well."""
    assert all(is_native(cls) for cls in (Point, Version, Fixed, Varied))
    assert record_types.problem() == ""


def test_instance_is_the_head_and_the_record() -> None:
    """No boxed slots, no dict, no header for the garbage collector."""
    assert sys.getsizeof(Point(1.0)) == 16 + 16
    assert not gc.is_tracked(Point(1.0))
    assert not hasattr(Point(1.0), "__dict__")


def test_class_is_a_dataclass() -> None:
    """dataclasses sees its fields, with their defaults."""
    assert dataclasses.is_dataclass(Point)
    assert [(f.name, f.default) for f in dataclasses.fields(Point)][1] == ("y", 0.0)
    assert (Point.__name__, Point.__qualname__, Point.__module__) == ("Point", "Point", __name__)
    assert "every kind" in (Fixed.__doc__ or "")


def test_repr_shows_the_values() -> None:
    """As any dataclass's."""
    assert repr(Point(1.5)) == "Point(x=1.5, y=0.0)"


def test_equality_compares_values() -> None:
    """Two events are equal when their fields are, and of one class."""
    assert Point(1.0) == Point(1.0, 0.0)
    assert Point(1.0) != Point(2.0)
    other: Any = (1.0, 0.0)
    assert Point(1.0) != other


def test_order_compares_values() -> None:
    """With order=True."""
    assert Version(1, 2) < Version(1, 3) <= Version(2)
    assert sorted([Version(2), Version(1)]) == [Version(1), Version(2)]


def test_frozen_event_is_hashed_by_value() -> None:
    """And one that can change is not hashed."""
    assert {Version(1): "a"}[Version(1)] == "a"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1.0))


def test_frozen_event_refuses_assignment() -> None:
    """Of a field, of anything else, and deletion."""
    frozen: Any = Version(1)
    for name in ("major", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(frozen, name, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del frozen.major


def test_asdict_and_astuple() -> None:
    """Nested events included."""

    @echo.event
    class Line:
        begin: Point
        label: str

    line = Line(Point(1.0), "a")
    assert dataclasses.asdict(line) == {"begin": {"x": 1.0, "y": 0.0}, "label": "a"}
    assert dataclasses.astuple(line) == ((1.0, 0.0), "a")


def test_replace_makes_another() -> None:
    """And checks what it is given."""
    point = Point(1.0)
    assert dataclasses.replace(point, y=2.0) == Point(1.0, 2.0)
    assert point == Point(1.0)
    with pytest.raises(EncodeError):
        dataclasses.replace(point, y=dataclasses)  # type: ignore[arg-type]


def test_match_statement_takes_it_apart() -> None:
    """By position and by name."""
    match Point(1.0, 2.0):
        case Point(x, y=y):
            assert (x, y) == (1.0, 2.0)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("event", [Point(1.5), Version(3, 4), varied()], ids=["fixed", "frozen", "varied"])
def test_pickle_gives_an_equal_event(event: Any, protocol: int) -> None:
    """Of any protocol that knows slots."""
    again = pickle.loads(pickle.dumps(event, protocol))
    assert type(again) is type(event)
    assert repr(again) == repr(event)


def test_copy_shares_and_deepcopy_does_not() -> None:
    """As for any object."""
    event = varied()
    shallow, deep = copy.copy(event), copy.deepcopy(event)
    assert shallow.tags is event.tags
    assert (deep.tags, deep.tags is event.tags) == (["a", "b"], False)
    assert copy.copy(Point(1.0)) == Point(1.0)
    shallow.position[0] = 9
    assert event.position[0] == 1


def test_child_has_the_fields_of_its_parent() -> None:
    """The record grows where the parent's ends; what the parent declares works on the child."""

    @echo.event
    class Child(Point):
        z: echo.Int32 = 0

        def total(self) -> float:
            return self.x + self.y + self.z

    child = Child(1.0, 2.0, 3)
    assert (child.total(), isinstance(child, Point), repr(child)[-22:]) == (
        6.0,
        True,
        "Child(x=1.0, y=2.0, z=3)"[-22:],
    )
    assert received(child) == child
    assert sys.getsizeof(child) == 16 + 24
    assert not gc.is_tracked(child)


def test_child_may_add_variable_parts() -> None:
    """To a parent that has none, and its own child may add fields again."""

    @echo.event
    class Labelled(Point):
        label: str = ""

    @echo.event
    class Timed(Labelled):
        at: float = 0.0
        more: list[int] = dataclasses.field(default_factory=list[int])

    event = Timed(1.0, 2.0, "a", 3.0, [4])
    assert received(event) == event
    assert (event.label, event.x, event.at) == ("a", 1.0, 3.0)
    assert all(is_native(cls) for cls in (Labelled, Timed))


def test_parents_descriptor_finds_the_childs_field() -> None:
    """Wherever the child keeps it: `super().x` is the value."""

    @echo.event
    class Base:
        label: str = "base"
        n: int = 1

    @echo.event
    class Moved(Base):
        more: int = 2

        def seen(self) -> tuple[str, int]:
            return super().label, super().n

    event = Moved("a", 5)
    assert event.seen() == ("a", 5)
    vars(Base)["n"].__set__(event, 6)
    assert event.n == 6
    assert vars(Base)["n"].__get__(Base(n=3)) == 3


def test_plain_subclass_is_as_its_parent() -> None:
    """A subclass that is not declared an event has the fields, and may have a dict or slots."""

    class Sub(Point):
        extra = 1

    class Slotted(Point):
        __slots__ = ("more",)

    sub: Any = Sub(1.0)
    sub.anything = 5
    assert (sub.x, sub.anything, codec(Point).encode(sub)) == (1.0, 5, codec(Point).encode(Point(1.0)))
    slotted: Any = Slotted(2.0)
    slotted.more = 3
    assert (slotted.x, slotted.more, pickle is not None) == (2.0, 3, True)
    assert copy.copy(slotted).more == 3
    assert copy.copy(sub).anything == 5


def test_dataclass_may_inherit_from_an_event() -> None:
    """With slots or without, and declare a field again."""

    @dataclasses.dataclass(slots=True)
    class Slots(Point):
        label: str = "a"

    @dataclasses.dataclass
    class Again(Point):
        x: float

    assert (Slots(1.0).label, Slots(1.0).x) == ("a", 1.0)
    assert Again(2.0).x == 2.0
    assert echo.decoder(Slots)(echo.encoder(Slots)(Slots(1.0, label="b"))) == Slots(1.0, label="b")


def test_plain_mixins_are_bases() -> None:
    """With a dict, without one, generic, or abstract."""

    class WithDict:
        def double(self: Any) -> float:
            return float(2 * self.x)

    class Light:
        __slots__ = ()

        def half(self: Any) -> float:
            return float(self.x / 2)

    class Abstract(abc.ABC):
        @abc.abstractmethod
        def name(self) -> str: ...

    @echo.event
    class A(WithDict):
        x: float

    @echo.event
    class B(Light, Generic[T]):
        x: float

    @echo.event
    class C(Abstract):
        x: float

        def name(self) -> str:
            return "c"

    a: Any = A(2.0)
    a.more = 1
    assert (a.double(), a.more, received(a)) == (4.0, 1, A(2.0))
    assert (B(2.0).half(), gc.is_tracked(B(2.0))) == (1.0, False)
    assert (C(1.0).name(), received(C(1.0))) == ("c", C(1.0))
    assert all(is_native(cls) for cls in (A, B, C))


def test_weak_references_where_a_base_has_them() -> None:
    """As for a dataclass with slots: on request."""

    class Weak:
        __slots__ = ("__weakref__",)

    @echo.event
    class Referred(Weak):
        x: int

    event = Referred(1)
    assert weakref.ref(event)() is event
    with pytest.raises(TypeError):
        weakref.ref(Point(1.0))


def test_methods_say_super() -> None:
    """Without arguments, in methods, properties and class methods."""

    @echo.event
    class Base:
        x: int = 1

        def __post_init__(self) -> None:
            self.x += 1

        @property
        def twice(self) -> int:
            return 2 * self.x

        @classmethod
        def make(cls) -> Any:
            return cls(5)

    @echo.event
    class Child(Base):
        y: int = 0

        def __post_init__(self) -> None:
            super().__post_init__()
            self.y = self.x

        @property
        def twice(self) -> int:
            return super().twice + 1

        @classmethod
        def make(cls) -> Any:
            return super().make()

    assert (Child().y, Child().twice, Child.make().y) == (2, 5, 6)


def test_post_init_and_init_var() -> None:
    """`__post_init__` is given what is no field."""

    @echo.event
    class Made:
        x: int
        scale: InitVar[int] = 2
        many: ClassVar[int] = 3
        total: int = dataclasses.field(init=False)

        def __post_init__(self, scale: int) -> None:
            self.total = self.x * scale

    assert (Made(2).total, Made(2, 5).total, Made.many) == (4, 10, 3)
    assert received(Made(2)).total == 4  # it asks for what a decoder does not have, so it is not called


def test_decoder_calls_post_init() -> None:
    """Once per event, when it is complete; its errors are the caller's."""

    @echo.event
    class Counted:
        x: int

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError(self.x)
            calls.append(self.x)

    calls: list[int] = []
    data = b"".join(codec(Counted).encode(Counted(i)) for i in range(3))
    calls.clear()
    decode_many = codec(Counted).decode_many
    assert decode_many is not None
    assert decode_many(data) == [Counted(0), Counted(1), Counted(2)]
    assert calls[:3] == [0, 1, 2]
    with pytest.raises(ValueError, match="-1"):
        codec(Counted).decode(b"\xff" * 8)


def test_defaults_factories_kw_only_and_init_false() -> None:
    """All that `dataclasses.field` offers."""

    @echo.event(kw_only=True)
    class Made:
        a: int = 1
        b: list[int] = dataclasses.field(default_factory=list[int])
        c: int = dataclasses.field(default=3, init=False, repr=False, compare=False)

    made = Made(b=[2])
    assert (made.a, made.b, made.c, Made().b, repr(made)[-14:]) == (1, [2], 3, [], "Made(a=1, b=[2])"[-14:])
    with pytest.raises(TypeError):
        Made(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_subclass_hooks_are_called() -> None:
    """`__init_subclass__` and `__set_name__` see the class that there is in the end."""
    seen: list[type[Any]] = []
    named: list[tuple[type[Any], str]] = []

    class Hook:
        __slots__ = ()

        def __init_subclass__(cls) -> None:
            seen.append(cls)

    class Descriptor:
        def __set_name__(self, owner: type[Any], name: str) -> None:
            named.append((owner, name))

    @echo.event
    class Made(Hook):
        x: int
        it: ClassVar[Any] = Descriptor()

    assert seen[-1] is Made
    assert named[-1] == (Made, "it")


def test_name_that_is_not_defined_yet() -> None:
    """The class stays a dataclass with slots, and is checked on first use."""

    @echo.event
    class Early:
        late: Late

    @echo.event
    class Late:
        x: int

    assert not is_native(Early)
    assert record_codec(Early) is None
    event = Early(Late(1))
    assert echo.decoder(Early)(echo.encoder(Early)(event)) == event


def test_attributes_that_were_not_declared_are_refused() -> None:
    """As for a dataclass with slots; and a field cannot be deleted."""
    point: Any = Point(1.0)
    with pytest.raises(AttributeError):
        point.z = 1
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del point.x


def test_class_of_another_layout_cannot_be_assigned() -> None:
    """Not even where the record is as large."""

    @echo.event
    class Other:
        a: int
        b: int

    point: Any = Point(1.0)
    with pytest.raises(TypeError, match="layout differs"):
        point.__class__ = Other


def test_descriptor_takes_only_events_that_have_the_field() -> None:
    """It reads memory, so it looks at what it is given."""
    descriptor: Any = vars(Point)["x"]
    for other in (object(), Version(1), 5):
        with pytest.raises(TypeError, match="Expected an event that has the field"):
            descriptor.__get__(other)
        with pytest.raises(TypeError, match="Expected an event that has the field"):
            descriptor.__set__(other, 1.0)
    with pytest.raises(AttributeError):
        _ = Point.x


# ---------------------------------------------------------------------------------------------------
# Values


def test_field_holds_what_its_type_can() -> None:
    """A value is rounded, or brought to UTC, when it is assigned, not when it is sent."""
    event = Fixed(f32=0.1, f16=1 / 3, i8=np.int8(-5), u64=2**64 - 1, f64=3)  # type: ignore[arg-type]
    assert (event.f32, event.f16) == (float(np.float32(0.1)), float(np.float16(1 / 3)))
    assert (event.i8, event.u64, event.f64) == (-5, 2**64 - 1, 3.0)
    assert [type(v) for v in (event.i8, event.f64)] == [int, float]
    event.when = dt.datetime(2020, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert (event.when, event.when.tzinfo) == (dt.datetime(2020, 1, 1, tzinfo=UTC), UTC)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("flag", [True, False]),
        ("i8", [-128, 127]),
        ("i16", [-(2**15), 2**15 - 1]),
        ("i32", [-(2**31), 2**31 - 1]),
        ("i64", [-(2**63), 2**63 - 1]),
        ("u8", [0, 255]),
        ("u16", [65535]),
        ("u32", [2**32 - 1]),
        ("u64", [2**63, 2**64 - 1, 0]),
        ("f32", [1.5, float("inf"), float("-inf")]),
        ("f64", [1e308, -0.0, float("inf")]),
        ("c64", [1 + 2j]),
        ("tag", ["", "abcd", "äö", "€"]),
        ("raw", [b"\0\1"]),
        ("color", [Color.BLUE]),
        ("level", [Level.HIGH]),
        ("span", [dt.timedelta(days=-1, microseconds=1)]),
        ("key", [uuid.UUID(int=2**100)]),
        ("maybe", [None, 5, 0]),
        ("names", [["", "xy"]]),
        ("point", [Point(3.0)]),
    ],
)
def test_value_is_read_as_it_was_assigned(name: str, values: list[Any]) -> None:
    """Before and after it was sent."""
    for value in values:
        event = Fixed(**{name: value})
        assert (getattr(event, name), type(getattr(event, name))) == (value, type(value))
        assert codec(Fixed).encode(event) == generic(Fixed).encode(event)
        assert getattr(received(event), name) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flag", 1),
        ("i8", 128),
        ("i8", 1.0),
        ("u8", -1),
        ("u16", 2**64),
        ("i64", 2**63),
        ("u64", -1),
        ("u64", 2**64),
        ("f32", 1e39),
        ("f32", 10**400),
        ("f64", 10**400),
        ("f64", "1"),
        ("c64", "1"),
        ("tag", "abcde"),
        ("tag", "€€"),
        ("tag", "a\0"),
        ("tag", "\ud800"),
        ("tag", b"a"),
        ("raw", b"a"),
        ("color", "r"),
        ("level", 3),
        ("when", dt.datetime(2020, 1, 1)),
        ("span", 5),
        ("key", "x"),
        ("maybe", "x"),
        ("position", [1.0, 2.0]),
        ("names", ["abc", ""]),
        ("point", 5),
        ("points", [Point(1.0)]),
    ],
)
def test_assignment_is_checked(name: str, value: object) -> None:
    """With the field's path, in the words of the encoder; the value before stays."""
    event = Fixed()
    before = codec(Fixed).encode(event)
    message = bad(event, name, value)
    assert f" - at `Fixed.{name}" in message
    assert codec(Fixed).encode(event) == before
    field = next(field for field in echo.format_of(Fixed).fields if field.name == name)
    with pytest.raises(EncodeError) as caught:
        plain_of(field.type, value, f"Fixed.{name}")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", 5),
        ("text", "a\0"),
        ("text", "\ud800"),
        ("blob", "a"),
        ("note", 1),
        ("tags", "ab"),
        ("tags", ["a", 1]),
        ("values", [[1.0]]),
        ("values", np.array(["a"])),
    ],
)
def test_assignment_of_a_variable_part_is_checked(name: str, value: object) -> None:
    """It is kept as given, so a list is looked at again when it is sent."""
    assert f"`Varied.{name}" in bad(Varied(), name, value)
    event = Varied(tags=["a"])
    event.tags.append(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(EncodeError, match=r"Varied\.tags\[1\]"):
        codec(Varied).encode(event)


def test_variable_part_is_kept_as_given() -> None:
    """The very object, as in a dataclass."""
    tags = ["a"]
    event = Varied(tags=tags)
    assert event.tags is tags
    tags.append("b")
    assert received(event).tags == ["a", "b"]


def test_array_field_is_a_view() -> None:
    """An element can be assigned; the next reader and the encoder see it."""
    event = Fixed()
    event.position[1] = 2.5
    assert list(event.position) == [0.0, 2.5, 0.0]
    assert list(received(event).position) == [0.0, 2.5, 0.0]
    event.position = [1, 2, 3]
    assert event.position.tolist() == [1.0, 2.0, 3.0]
    event.points["y"] = 7.0
    assert event.points["x"].tolist() == [1.0, 2.0]
    assert received(event).points["y"].tolist() == [7.0, 7.0]


def test_array_field_of_a_frozen_event_is_read_only() -> None:
    """Or it would not be frozen."""

    @echo.event(frozen=True)
    class Frozen:
        position: echo.Array[echo.Float64, 2]

    event = Frozen(np.ones(2))
    with pytest.raises(ValueError, match="read-only"):
        event.position[0] = 2.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        event.position.flags.writeable = True


def test_nested_event_is_one_object() -> None:
    """What is changed in it is changed for every reader, and for the encoder, as in a dataclass."""
    event = Fixed()
    event.point.x = 9.0
    event.names[0] = "zz"
    assert event.point is event.point
    again = received(event)
    assert (again.point, again.names) == (Point(9.0), ["zz", "b"])
    again.point.y = 4.0
    assert received(again).point == Point(9.0, 4.0)


def test_structured_array_is_checked_when_it_is_sent() -> None:
    """It is written to by numpy, which knows no UTF-8."""

    @echo.event
    class Tag:
        text: echo.Chars[2]

    @echo.event
    class Tags:
        tags: echo.Array[Tag, 2]

    tags: Any = [Tag("a"), Tag("b")]
    event = Tags(tags)
    event.tags["text"][0] = b"\xff"
    with pytest.raises(EncodeError, match="UTF-8"):
        codec(Tags).encode(event)


def test_field_that_was_never_set_is_zero_or_missing() -> None:
    """A number is zero, as in C; what has no zero, and what is kept, is an AttributeError."""
    event = Fixed.__new__(Fixed)
    assert (event.i64, event.f64, event.tag, event.flag) == (0, 0.0, "", False)
    with pytest.raises(AttributeError):
        _ = event.level
    with pytest.raises(AttributeError):
        _ = Varied.__new__(Varied).text
    with pytest.raises(EncodeError, match=r"never set - at `Varied\.text`"):
        codec(Varied).encode(Varied.__new__(Varied))


# ---------------------------------------------------------------------------------------------------
# Received


def test_received_event_has_the_values_that_were_sent() -> None:
    """Also after it was read once, and sent on."""
    event = varied()
    for _ in range(2):
        again = received(event)
        for name in ("id", "text", "blob", "note", "tags", "pair"):
            assert getattr(again, name) == getattr(event, name)
        assert again.values.tolist() == [0.0, 1.0, 2.0]
        assert again.position.tolist() == [1, 2]
        assert again.point == Point(0.0)
        event = again


def test_untouched_event_is_sent_on_as_it_came() -> None:
    """The same bytes, without a look at them; reading what cannot change is no touch."""
    data = generic(Varied).encode(varied())
    event = codec(Varied).decode(data)
    assert event.text == "größe"
    assert event.values.sum() == 3.0
    assert codec(Varied).encode(event) is data


def append(event: Varied) -> None:
    event.tags.append("c")


def assign_element(event: Varied) -> None:
    event.position[0] = 5


def assign_nested(event: Varied) -> None:
    event.point.y = 5.0


def assign_fixed(event: Varied) -> None:
    event.id = 8


def assign_text(event: Varied) -> None:
    event.text = "x"


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        (assign_fixed, "id", 8),
        (assign_text, "text", "x"),
        (append, "tags", ["a", "b", "c"]),
        (assign_element, "position", [5, 2]),
        (assign_nested, "point", Point(0.0, 5.0)),
    ],
)
def test_touched_event_is_encoded_anew(change: Any, name: str, value: Any) -> None:
    """Whether a field was assigned, or something in one was changed; what was not read yet is still there."""
    data = generic(Varied).encode(varied())
    event = codec(Varied).decode(data)
    change(event)
    again = received(event)
    found = getattr(again, name)
    assert (found.tolist() if isinstance(found, np.ndarray) else found) == value
    assert again.blob == b"\0\1"


def test_received_array_is_a_read_only_view() -> None:
    """Of the record's own bytes."""
    event = received(varied())
    with pytest.raises(ValueError, match="read-only"):
        event.values[0] = 1.0
    event.values = event.values * 2
    assert received(event).values.tolist() == [0.0, 2.0, 4.0]


def test_hostile_lengths_are_refused() -> None:
    """With the words of the generic codec."""
    data = codec(Fixed).encode(Fixed())
    for wrong in (b"", data[:-1], data + b"\0", data * 2):
        with pytest.raises(WireError):
            codec(Fixed).decode(wrong)
    decode_many = codec(Fixed).decode_many
    assert decode_many is not None
    assert decode_many(b"") == []
    with pytest.raises(WireError):
        decode_many(data + b"\0")
    others: list[Any] = [5, None, "text"]
    for other in others:
        with pytest.raises((TypeError, echo.EchoError)):
            codec(Fixed).decode(other)
    for length in range(echo.format_of(Varied).size_bytes):
        with pytest.raises(WireError):
            codec(Varied).decode(bytes(length))


def test_hostile_values_are_refused_when_they_arrive() -> None:
    """Numbers that are no member's, and text that is no UTF-8, so that reading a field never fails."""
    good = bytearray(codec(Fixed).encode(Fixed(tag="ä")))
    fields = {field.name: field for field in echo.format_of(Fixed).fields}
    for name, wrong in (("tag", b"\xc3\x28"), ("color", b"\x09"), ("names", b"\xff"), ("level", b"\x04")):
        data = bytearray(good)
        at = fields[name].offset
        data[at : at + len(wrong)] = wrong
        with pytest.raises(WireError, match=rf"Fixed\.{name}"):
            codec(Fixed).decode(data)


def test_foreign_truth_is_made_ours() -> None:
    """A true may be any number but 0 where it comes from; here it is 1."""

    @echo.event
    class Flags:
        a: bool
        b: int | None = None

    data = bytearray(codec(Flags).encode(Flags(True, 5)))
    at = {field.name: field.offset for field in echo.format_of(Flags).fields}
    data[at["a"]], data[at["b"] + 8] = 200, 7
    assert codec(Flags).decode(data) == Flags(True, 5)
    assert codec(Flags).encode(codec(Flags).decode(data)) == codec(Flags).encode(Flags(True, 5))


def test_mangled_parts_read_as_something_or_raise() -> None:
    """A caller that does not verify gets wrong values, never memory that is not the record's."""
    data = generic(Varied).encode(varied())
    for at in range(echo.format_of(Varied).size_bytes):
        for byte in (0, 0x7F, 0xFF):
            event = codec(Varied).decode(data[:at] + bytes([byte]) + data[at + 1 :])
            for name in ("text", "blob", "note", "tags", "values", "pair"):
                try:
                    getattr(event, name)
                except (WireError, ValueError):
                    continue


def as_array(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, as_array])
def test_any_buffer_is_decoded(wrap: Any) -> None:
    """Whatever shows its bytes."""
    assert codec(Point).decode(wrap(codec(Point).encode(Point(1.5)))) == Point(1.5)
    assert codec(Varied).decode(wrap(generic(Varied).encode(varied()))).text == "größe"


def test_many_events_are_one_row_of_records() -> None:
    """From a list, any iterable, and back; others than exactly of the class go the slow way."""
    functions = codec(Point)
    assert functions.encode_many is not None
    assert functions.decode_many is not None
    points = [Point(float(i)) for i in range(5)]
    data = functions.encode_many(points)
    assert data == b"".join(functions.encode(point) for point in points)
    assert functions.encode_many(iter(points)) == functions.encode_many(tuple(points)) == data
    assert functions.decode_many(memoryview(data)) == points
    assert functions.encode_many([]) == b""

    class Sub(Point):
        pass

    assert functions.encode_many([*points[:4], Sub(4.0)]) == data
    with pytest.raises(EncodeError, match="Expected `Point`"):
        functions.encode_many([*points, Version(1)])
    with pytest.raises(TypeError):
        functions.encode_many(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_records_with_parts_come_one_by_one() -> None:
    """Nothing says where one ends and the next begins."""
    assert (codec(Varied).encode_many, codec(Varied).decode_many) == (None, None)


# ---------------------------------------------------------------------------------------------------
# What is kept alive


class Batch(bytearray):
    """A buffer whose end can be seen."""


def test_event_does_not_keep_the_batch_it_came_in() -> None:
    """It holds its own bytes, and so does what is read from it."""
    data = generic(Varied).encode(varied())
    batch = Batch(data + bytes(1 << 20))
    gone = weakref.ref(batch)
    event = codec(Varied).decode(memoryview(batch)[: len(data)])
    fixed = codec(Point).decode(memoryview(batch)[:16])
    kept = event.values, event.text, fixed
    del batch
    gc.collect()
    assert gone() is None
    assert kept[1] == "größe"


def test_values_keep_no_record_alive_but_arrays_do() -> None:
    """An array of the record's memory keeps that one record; a text, a number or a list keeps nothing."""

    class Weak:
        __slots__ = ("__weakref__",)

    @echo.event
    class Kept(Weak):
        x: float
        tag: echo.Chars[4]
        position: echo.Array[echo.Float64, 2]

    event = Kept(1.0, "a", np.ones(2))
    gone = weakref.ref(event)
    values = event.x, event.tag
    position = event.position
    del event
    assert gone() is not None
    position[0] = 5.0
    assert position.tolist() == [5.0, 1.0]
    del position
    assert gone() is None
    assert values == (1.0, "a")


def test_received_array_keeps_one_record() -> None:
    """Its base is the bytes of that record."""
    event = received(varied())
    values = event.values
    del event
    gc.collect()
    assert isinstance(values.base, bytes)
    assert len(values.base) == len(generic(Varied).encode(varied()))


def test_cycle_through_a_kept_value_is_collected() -> None:
    """An event that holds a list that holds the event."""

    class Weak:
        __slots__ = ("__weakref__",)

    @echo.event
    class Cyclic(Weak):
        many: list[str] = dataclasses.field(default_factory=list[str])

    event: Any = Cyclic()
    event.many.append(event)
    gone = weakref.ref(event)
    del event
    gc.collect()
    assert gone() is None


def test_class_is_collected_with_its_codec() -> None:
    """A class made at run time leaves nothing behind."""

    def made() -> weakref.ref[type[Any]]:
        @echo.event
        class Passing:
            x: int
            names: list[str] = dataclasses.field(default_factory=list[str])
            point: Point = dataclasses.field(default_factory=lambda: Point(1.0))

        assert received(Passing(1)).x == 1
        return weakref.ref(Passing)

    gone = made()
    gc.collect()
    assert gone() is None


# ---------------------------------------------------------------------------------------------------
# Any declaration


def test_record_with_too_many_checks_stays_a_dataclass() -> None:
    """Its decoder would walk a list as long as the record."""

    @echo.event
    class Many:
        names: echo.Array[echo.Chars[1], 5000]

    assert checks_of(echo.format_of(Many).record) is None
    assert MAX_CHECKS < 5000
    assert not is_native(Many)


def slots_and_native(layout: Layout) -> tuple[type[Any], type[Any]]:
    """Two classes of one declaration: a dataclass with slots, and an event."""
    members = dataclasses.fields(echo.Format(layout).record_class())

    def bare() -> type[Any]:
        annotations = {member.name: member.type for member in members}
        fields = {member.name: dataclasses.field(metadata=member.metadata) for member in members}
        body = {"__annotations__": annotations, "__module__": __name__, **fields}
        return type(layout.record.name, (), body)

    return dataclasses.dataclass(slots=True)(bare()), echo.event(bare())


@st.composite
def samples(draw: st.DrawFn) -> tuple[type[Any], type[Any], Any, Any]:
    """Both classes of a random layout, its plain value, and the layout that they have."""
    slotted, made = slots_and_native(draw(layouts(NATIVE, depth=2)))
    layout = echo.format_of(slotted).layout
    return slotted, made, draw(plain_values(layout)), layout


@given(sample=samples())
@examples(150)
def test_any_event_behaves_as_the_dataclass_with_slots(sample: Any) -> None:
    """The same bytes, the same values, made here or received, read or not."""
    slotted, made, plain, layout = sample
    record = echo.format_of(made).record
    expected = value_of(layout.record, plain, "R")
    data = generic(slotted).encode(expected)  # and not the plain value's: Python has no nanoseconds
    names = [field.name for field in record.fields]
    found = made(**{name: getattr(expected, name) for name in names})
    functions = record_codec(made)
    assert functions is not None or not is_native(made)
    assert generic(made).encode(found) == data
    assert echo.encoder(made)(found) == data
    if functions is None:
        return
    arrived = functions.decode(data)
    assert functions.encode(found) == functions.encode(arrived) == data
    for name in names:
        wanted = comparable_value(getattr(expected, name))
        assert comparable_value(getattr(found, name)) == wanted
        assert comparable_value(getattr(arrived, name)) == wanted
    again = comparable(plain_of(record, arrived, "R"))
    assert again == comparable(plain_of(layout.record, expected, "R"))
    assert functions.encode(arrived) == data


def comparable_value(value: Any) -> Any:
    """A Python value so that `==` is strict, whatever class nested records are of."""
    if dataclasses.is_dataclass(value):
        return [comparable_value(getattr(value, field.name)) for field in dataclasses.fields(value)]
    array = records.as_array(value)
    if array is not None:
        return comparable(array) if not array.dtype.names else (array.dtype.names, array.tobytes())
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return value.__class__.__name__, [comparable_value(item) for item in items]  # pyright: ignore[reportUnknownMemberType]
    return type(value).__name__, repr(value)


# ---------------------------------------------------------------------------
# Records with variable parts, held


@echo.event
class Held:
    """Parts of every kind."""

    id: int
    name: str
    xs: echo.Array[echo.Float64, ...]
    tags: list[str]
    note: str | None = None


HELD = Held(1, "hello", np.arange(3.0), ["a", "b"])


@pytest.mark.parametrize("abi", ["native", "s390x", "i386"])
@pytest.mark.parametrize("tier", ["compiled", "auto", "interpreted"])
def test_an_event_with_variable_parts_arrives_whole(abi: str, tier: Any) -> None:
    """From any machine, verified and converted at once, and read when a field is."""
    decode = echo.decoder(Held, sender=echo.format_of(Held, abi=abi), tier=tier)
    data = echo.encoder(Held, abi=abi)(HELD)
    assert decode(data) == HELD
    assert decode(bytearray(data)) == HELD
    for wrong in (data[:-1], data + b"\0", b""):
        with pytest.raises(echo.WireError):
            decode(wrong)


@pytest.mark.parametrize("tier", ["compiled", "interpreted"])
@pytest.mark.parametrize("abi", ["x86_64", "s390x"])
def test_text_that_is_no_utf8_is_refused_when_it_comes(abi: str, tier: Any) -> None:
    """Whoever holds an event may pass it on unread."""
    data = echo.encoder(Held, abi=abi)(HELD).replace(b"hello", b"\xff\xff\xff\xff\xff")
    decode = echo.decoder(Held, sender=echo.format_of(Held, abi=abi), tier=tier)
    with pytest.raises(echo.WireError, match=r"UTF-8.* - at `Held\.name`"):
        decode(data)


def test_a_held_record_does_not_change_with_its_buffer() -> None:
    """It is the event's own copy."""
    room = bytearray(echo.encoder(Held)(HELD))
    event = echo.decoder(Held, tier="compiled")(room)
    room[:] = bytes(len(room))
    assert event == HELD

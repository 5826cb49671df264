"""Native record classes: dataclasses to their users."""

from __future__ import annotations

import abc
import copy
import dataclasses
import gc
import pickle
import sys
import weakref
from dataclasses import InitVar
from typing import Any, ClassVar, Generic, TypeVar

import pytest

import echo_core as echo
from echo_core.codegen.events import record_types
from echo_core.codegen.events.record_types import is_native
from echo_core.errors import EncodeError
from tests.echo_core.events import native_events
from tests.echo_core.events.native_events import (
    Fixed,
    Point,
    Varied,
    Version,
    codec,
    received,
    record_codec,
    varied,
)

T = TypeVar("T")


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
    assert (Point.__name__, Point.__qualname__, Point.__module__) == (
        "Point",
        "Point",
        native_events.__name__,
    )
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

"""Calls of event classes, which C code answers: they do what the dataclass's own `__init__` does."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import InitVar, field
from datetime import UTC, datetime
from typing import Any

import pytest

import echo_core as echo
from echo_core.codegen.events import calls
from echo_core.codegen.events.record_types import is_native


@echo.event
class Reading:
    id: int
    text: str
    gain: float = 1.5
    values: list[int] = field(default_factory=lambda: [7])
    when: datetime = field(default=datetime(2024, 5, 17, tzinfo=UTC), kw_only=True)
    small: echo.Int8 = 3


@echo.event(frozen=True)
class Frozen:
    x: float
    y: float = 2.0


@echo.event(kw_only=True)
class Named:
    first: int
    second: int = 5


def by_init(cls: type[Any], *args: Any, **keywords: Any) -> Any:
    """What a call does where no C code stands before it."""
    return type.__call__(cls, *args, **keywords)


def outcome(call: Callable[..., Any], cls: type[Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The event's values, or the error that there is instead."""
    try:
        return dataclasses.asdict(call(cls, *args, **keywords))
    except (TypeError, ValueError) as error:
        return type(error), str(error)


def directly(cls: type[Any], *args: Any, **keywords: Any) -> Any:
    return cls(*args, **keywords)


@pytest.mark.parametrize(
    ("cls", "args", "keywords"),
    [
        (Reading, (1, "a"), {}),
        (Reading, (1,), {"text": "a"}),
        (Reading, (), {"text": "a", "id": 1}),
        (Reading, (1, "a", 2, [1, 2], 4), {}),
        (Reading, (1, "a"), {"when": datetime(2020, 1, 1, tzinfo=UTC), "small": -5}),
        (Reading, (1, "a"), {"".join(["ga", "in"]): 2.5}),  # a name that is not interned
        (Reading, (), {}),
        (Reading, (1,), {}),
        (Reading, (1, "a", 2, [1], 4, 5), {}),
        (Reading, (1, "a"), {"id": 5}),
        (Reading, (1, "a"), {"unknown": 5}),
        (Reading, (1, "a", "b"), {}),
        (Reading, ("b", 1), {}),
        (Reading, (1, "a"), {"small": 128}),
        (Reading, (1, "a"), {"values": [1, "b"]}),
        (Reading, (1, "a\0"), {}),
        (Frozen, (1.0,), {}),
        (Frozen, (), {"x": 1, "y": 3}),
        (Frozen, (None,), {}),
        (Named, (), {"second": 1, "first": 2}),
        (Named, (), {"second": 1}),
        (Named, (1,), {}),
    ],
)
def test_a_call_has_the_outcome_of_init(
    cls: type[Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    """The same values, and the same error where arguments or values do not fit."""
    assert outcome(directly, cls, args, keywords) == outcome(by_init, cls, args, keywords)


def test_a_factory_is_called_for_each_event() -> None:
    """And a default is the one object that it is."""
    one, other = Reading(1, "a"), Reading(2, "b")
    one.values.append(8)
    assert (one.values, other.values) == ([7, 8], [7])


def test_values_are_set_in_the_order_of_the_fields() -> None:
    """So of several that do not fit the first one is named, whatever the order of the arguments."""
    with pytest.raises(echo.EncodeError, match=r"Reading\.id"):
        Reading(small=1000, text=5, id="x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def called(run: Callable[[], object]) -> list[str]:
    """The names of the Python functions that run meanwhile."""
    names: list[str] = []

    def note(frame: Any, what: str, _: object) -> None:
        if what == "call":
            names.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return names[1:]


@pytest.mark.usefixtures("without_collector")
def test_no_python_code_runs_but_what_the_class_asks_for() -> None:
    """Neither `__init__` nor anything that makes or checks a value."""

    @echo.event
    class Followed:
        x: float
        values: list[int]

        def __post_init__(self) -> None:
            self.x += 1

    when = datetime(2024, 5, 17, tzinfo=UTC)
    assert called(lambda: Reading(1, "a", 2.5, [1, 2, 3], when=when)) == []
    assert called(lambda: Followed(1, [2]))[-1:] == [Followed.__post_init__.__qualname__]
    assert Followed(1, [2]).x == 2.0


def test_what_was_assigned_to_the_class_later_runs() -> None:
    """An `__init__` or a `__new__`, and again what was there before."""

    @echo.event
    class Patched:
        x: int

    def init(self: Any, x: int) -> None:
        self.x = 2 * x

    def new(cls: type[Any], *_: object) -> Any:
        made.append(cls)
        return object.__new__(cls)

    made: list[type[Any]] = []
    generated = Patched.__init__
    Patched.__init__ = init  # type: ignore[method-assign]
    assert Patched(5).x == 10
    Patched.__init__ = generated  # type: ignore[method-assign]
    assert Patched(5).x == 5
    Patched.__new__ = new  # type: ignore[method-assign]
    assert (Patched(5).x, made) == (5, [Patched])


def test_a_class_that_does_something_else_runs_its_own_init() -> None:
    """One of its own, or one with arguments that are no fields, or that leaves a field alone."""

    @echo.event
    class Own:
        x: int

        def __init__(self, text: str) -> None:
            self.x = len(text)

    @echo.event
    class WithVariable:
        x: int
        by: InitVar[int] = 2

        def __post_init__(self, by: int) -> None:
            self.x *= by

    @echo.event
    class Partly:
        x: int
        y: int = field(init=False, default=9)

    @echo.event
    class Guarded:
        x: int

        def __setattr__(self, name: str, value: Any) -> None:
            object.__setattr__(self, name, value + 1)

    class Meta(type):
        def __call__(cls, *args: Any) -> Any:
            return super().__call__(*args, 7)

    @echo.event
    class Made(metaclass=Meta):
        x: int
        y: int

    assert Own("four").x == 4
    assert (WithVariable(3).x, WithVariable(3, 5).x) == (6, 15)
    assert (Partly(1).x, Partly(1).y) == (1, 9)
    assert Guarded(1).x == 2
    assert (Made(1).x, Made(1).y) == (1, 7)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    assert all(calls.how_to_make(cls) is None for cls in (WithVariable, Partly, Guarded, Made))


def test_a_plain_subclass_and_super_run_init() -> None:
    """The function is where it was, with its signature."""

    class Plain(Frozen):
        pass

    @echo.event
    class Parent:
        x: int

    @echo.event
    class Child(Parent):
        y: int

        def __init__(self, x: int) -> None:
            super().__init__(x)
            self.y = -x

    assert Plain(1.0) != Frozen(1.0)
    assert (Plain(1.0).x, Plain(1.0).y) == (1.0, 2.0)
    assert (Child(3).x, Child(3).y) == (3, -3)
    assert list(inspect.signature(Frozen).parameters) == ["x", "y"]
    assert inspect.isfunction(Frozen.__init__)


def test_an_error_midway_leaves_nothing_behind() -> None:
    """Whether of a value, a factory or `__post_init__`: the event goes, and what it held."""

    @echo.event
    class Failing:
        text: str
        number: int = field(default_factory=lambda: 1 // 0)

        def __post_init__(self) -> None:
            raise KeyError(self.text)

    class Text(str):
        """Text that can be referred to weakly."""

    texts = [Text("a"), Text("b")]
    references = [weakref.ref(text) for text in texts]
    for text, arguments, error in ((texts[0], (), ZeroDivisionError), (texts[1], (1,), KeyError)):
        with pytest.raises(error):
            Failing(text, *arguments)
    del texts, text
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_classes_that_are_called_are_collected() -> None:
    """What the class is told of its arguments refers to it."""

    def declare() -> Iterator[weakref.ref[Any]]:
        @echo.event
        class Brief:
            text: str
            values: list[int] = field(default_factory=list[int])

        assert is_native(Brief)
        Brief("a")
        yield weakref.ref(Brief)

    (reference,) = declare()
    gc.collect()
    assert reference() is None


def test_classes_of_any_number_of_fields_are_called() -> None:
    """Up to as many as C code has room for, and beyond."""
    for count in (0, 1, calls.MAX_ARGUMENTS, calls.MAX_ARGUMENTS + 1):
        names = [f"f{i}" for i in range(count + 1)]
        cls: Any = echo.event(type("Wide", (), {"__annotations__": dict.fromkeys(names, int)}))
        assert (calls.how_to_make(cls) is None) == (count + 1 > calls.MAX_ARGUMENTS)
        event = cls(*range(count + 1))
        assert [getattr(event, name) for name in names] == list(range(count + 1))
        with pytest.raises(TypeError, match="missing 1 required"):
            cls(*range(count))

"""A name in an annotation means what it means where it was written."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

import echo_core as echo
from echo_core.formats.hints import UnknownNameError, hints_of
from echo_core.formats.types import Scalar, Text, innermost

PARENT = """
from __future__ import annotations
from dataclasses import dataclass
import echo_core as echo

Num = echo.Float32

@dataclass
class Base:
    n: Num
"""
CHILD = """
from __future__ import annotations
import echo_core as echo
from hints_parent import Base

Num = str

@echo.event
class Holder:
    b: Base
    own: Num

@echo.event
class Child(Base):
    own: Num
"""


LAZY = """
from dataclasses import dataclass
import echo_core as echo

@echo.event
class Early:
    later: Later
    many: list[Later]

@dataclass
class Measured:
    count: echo.UInt32
    values: echo.Array[float, count]


@dataclass
class Told:
    count: echo.UInt32
    values: "echo.Array[float, count]"

@dataclass
class Lost:
    it: list[Nowhere]

def inner():
    @dataclass
    class Outer:
        it: Inner

    @dataclass
    class Inner:
        n: int

    return Outer

@echo.event
class Later:
    n: int
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two modules in which one name means different things."""
    (tmp_path / "hints_parent.py").write_text(PARENT)
    (tmp_path / "hints_child.py").write_text(CHILD)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield importlib.import_module("hints_child")
    for name in ("hints_parent", "hints_child"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("abi", ["native", "s390x"])
def test_a_nested_class_keeps_the_names_of_its_own_module(modules: Any, abi: str) -> None:
    """Not those of the module that uses it."""
    nested, own = echo.format_of(modules.Holder, abi=abi).fields
    number = innermost(nested.type)[0].fields[0].type  # type: ignore[union-attr]
    assert isinstance(number, Scalar)
    assert str(number) == "float32"
    assert isinstance(own.type, Text)


@pytest.mark.parametrize("abi", ["native", "s390x"])
def test_an_inherited_field_keeps_the_names_of_its_own_module(modules: Any, abi: str) -> None:
    """A child's module may give them another meaning."""
    inherited, own = echo.format_of(modules.Child, abi=abi).fields
    assert str(inherited.type) == "float32"
    assert isinstance(own.type, Text)


def made_in_a_function() -> tuple[type[Any], Any]:
    class Colour(enum.IntEnum):
        A = 1

    @dataclasses.dataclass
    class Inner:
        c: Colour

    @echo.event
    class Outer:
        a: echo.Array[Inner, ...]

    inner: Any = [Inner(Colour.A)]
    return Outer, Outer(inner)


def test_local_names_are_known_after_their_function_has_returned() -> None:
    """They were resolved when the class was declared, and the class keeps them: also for other machines."""
    outer, event = made_in_a_function()
    decoded = echo.decoder(outer)(echo.encoder(outer)(event))
    assert decoded.a["c"].tolist() == [1]
    assert echo.format_of(outer, abi="s390x").byte_order == "big"


def test_a_local_name_goes_before_a_global_one() -> None:
    """As in the function's own code."""

    @dataclasses.dataclass
    class Path:
        x: int

    @dataclasses.dataclass
    class Holder:
        path: Path

    assert hints_of(Holder)["path"] is Path


def test_names_of_another_function_are_not_looked_at() -> None:
    """A caller's local variables are not the class's."""

    def declare() -> type[Any]:
        @dataclasses.dataclass
        class Lost:
            x: Elsewhere  # type: ignore[name-defined]  # noqa: F821

        return Lost

    def use(cls: type[Any], Elsewhere: type[Any] = int) -> None:  # noqa: N803
        assert Elsewhere
        echo.format_of(cls)

    with pytest.raises(UnknownNameError, match="Elsewhere"):
        use(declare())


def test_a_class_made_from_a_used_one_is_a_class_of_its_own() -> None:
    """`dataclass(slots=True)` copies attributes, those of this library among them."""

    @dataclasses.dataclass
    class Event:
        x: int = 0

    echo.format_of(Event)
    slotted = dataclasses.dataclass(slots=True)(Event)
    assert slotted is not Event
    assert echo.decoder(slotted)(echo.encoder(slotted)(slotted(7))).x == 7


@pytest.fixture
def lazy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module whose annotations are no text, and are not evaluated before they are asked for."""
    (tmp_path / "hints_lazy.py").write_text(LAZY)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield importlib.import_module("hints_lazy")
    sys.modules.pop("hints_lazy", None)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated in the class body")
def test_an_annotation_without_text_may_name_a_later_class(lazy: Any) -> None:
    """Or a field, for a dimension; the class of a function may be used when the function has returned."""
    event = lazy.Early(lazy.Later(1), [lazy.Later(2)])
    assert echo.decoder(lazy.Early)(echo.encoder(lazy.Early)(event)) == event
    assert hints_of(lazy.Measured) == hints_of(lazy.Told)
    assert hints_of(lazy.inner())["it"].__name__ == "Inner"


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated in the class body")
def test_a_name_that_an_annotation_without_text_lacks_is_told(lazy: Any) -> None:
    with pytest.raises(UnknownNameError, match="`Nowhere` in an annotation - at `Lost`"):
        hints_of(lazy.Lost)

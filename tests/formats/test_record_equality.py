"""Records are equal when their fields are, and an array counts as a whole."""

from __future__ import annotations

import numpy as np
import pytest

import echo_core as echo
from echo_core.formats.record_class import holds_arrays


@echo.event
class Inner:
    """An array in a record in a record."""

    spot: echo.Array[float, 2]


@echo.event
class Outer:
    """Arrays at several depths."""

    id: int
    samples: echo.Array[float, ...]
    rows: list[Inner]
    one: Inner | None = None


@echo.event
class Plain:
    """None at all."""

    id: int
    names: list[str]


def outer(last: float = 3.0) -> Outer:
    """One whose arrays are new each time."""
    inner = Inner(np.array([1.0, last]))
    return Outer(1, np.array([1.0, 2.0]), [inner], inner)


def test_equal_arrays_make_equal_events() -> None:
    """At every depth, also when they have come over the wire."""
    assert outer() == outer()
    assert echo.decoder(Outer)(echo.encoder(Outer)(outer())) == outer()


def test_one_element_makes_the_difference() -> None:
    """In an array of a record of a list."""
    assert outer() != outer(4.0)


def test_lengths_and_classes_make_a_difference() -> None:
    """And so does anything that is no event."""
    longer = Outer(1, np.array([1.0, 2.0, 3.0]), [])
    assert longer != Outer(1, np.array([1.0, 2.0]), [])
    others: list[object] = [Inner(np.zeros(2)), 1]
    assert all(outer() != other for other in others)


@pytest.mark.parametrize(("cls", "holds"), [(Inner, True), (Outer, True), (Plain, False)])
def test_only_classes_with_arrays_are_compared_so(cls: type[object], holds: bool) -> None:
    """The others keep what dataclasses gives them."""
    assert holds_arrays(echo.format_of(cls).record) is holds


def test_a_class_may_say_what_is_equal() -> None:
    """Its own word counts."""

    @echo.event
    class Own:
        spot: echo.Array[float, 2]

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

    assert Own(np.zeros(2)) == Own(np.ones(2))

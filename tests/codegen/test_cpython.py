"""What compiled code believes of CPython's objects is true of this interpreter."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
import sys
import sysconfig
from typing import Any

import pytest

from echo_core.codegen import cpython


def test_known_interpreters_are_trusted() -> None:
    """CPython 3.11 to 3.13 with the GIL, on a little-endian machine of 64 bits, gets code for events."""
    is_known = (
        platform.python_implementation() == "CPython"
        and sys.version_info < (3, 14)
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and sys.byteorder == "little"
        and sys.maxsize > 2**32
    )
    if not is_known:
        pytest.skip("another interpreter: whatever it says is right")
    assert not cpython.problem()


@pytest.mark.parametrize(
    "fact",
    [
        "FLOAT_OFFSET",
        "INT_DIGIT_OFFSET",
        "INT_TAG_OFFSET",
        "TEXT_DATA_OFFSET",
        "TEXT_LENGTH_OFFSET",
        "LIST_ITEMS_OFFSET",
    ],
)
def test_a_wrong_fact_is_found(fact: str) -> None:
    """Eight bytes off, and nothing is compiled for events, with a reason; events still work."""
    program = f"""
import dataclasses
import echo_core as echo
from echo_core.codegen import cpython

cpython.{fact} += 8
assert "expected" in cpython.problem(), cpython.problem()
assert echo.diagnostics().event_code == cpython.problem()

@dataclasses.dataclass(slots=True)
class Event:
    x: int

codec = echo.codec(Event)
assert codec.decode(codec.encode(Event(7))) == Event(7)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)


@dataclasses.dataclass(slots=True)
class Slotted:
    """Slots that CPython sorts by name."""

    b: int
    a: float
    c: str


def test_slots_are_found_where_they_are() -> None:
    """Each has a place of its own within the instance."""
    offsets = cpython.slot_offsets(Slotted, ["a", "b", "c"])
    assert offsets is not None
    assert len(set(offsets.values())) == 3
    assert all(16 <= offset < Slotted.__basicsize__ for offset in offsets.values())


def with_property() -> type[Any]:
    class WithProperty:
        __slots__ = ("_x",)

        @property
        def x(self) -> int:
            return 7

        @x.setter
        def x(self, value: int) -> None:
            self._x = value

    return WithProperty


@pytest.mark.parametrize(
    "cls",
    [dataclasses.make_dataclass("WithDict", [("x", int)]), with_property(), type("Empty", (), {"x": 1})],
)
def test_what_is_no_slot_is_not_taken_for_one(cls: type[Any]) -> None:
    """An attribute in a dict, a property, a value of the class."""
    assert cpython.slot_offsets(cls, ["x"]) is None


def test_slots_of_a_parent_are_found() -> None:
    """A class may inherit some of its slots."""

    @dataclasses.dataclass(slots=True)
    class Child(Slotted):
        d: int

    offsets = cpython.slot_offsets(Child, ["a", "b", "c", "d"])
    assert offsets is not None
    assert len(set(offsets.values())) == 4

"""Places where two parts of the house must agree, and once did not."""

from __future__ import annotations

import abc
import dataclasses
import enum
import struct
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.codegen import cpython


class Kind(enum.IntEnum):
    """One member, so that most numbers have no name."""

    A = 1


@dataclasses.dataclass(slots=True)
class Old:
    kind: Kind


@dataclasses.dataclass(slots=True)
class New:
    kind: Kind
    x: int = 0


@dataclasses.dataclass
class Cell:
    x: int


@echo.event
class NewCell:
    x: int
    spot: echo.Array[int, 2] = echo.field(default_factory=lambda: np.array([3, 4]))


@dataclasses.dataclass
class Cells:
    cells: echo.Array[Cell, ...]


@dataclasses.dataclass
class NewCells:
    cells: echo.Array[NewCell, ...]


TIERS = [
    "interpreted",
    pytest.param("compiled", marks=pytest.mark.skipif(bool(cpython.problem()), reason="no code")),
]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("cls", [Old, New])
def test_a_number_without_a_name_is_refused_where_it_becomes_a_member(cls: type[Any], tier: Any) -> None:
    """The same error in each tier, from a sender of the same version and of another."""
    decode = echo.decoder(cls, sender=echo.format_of(Old), tier=tier)
    with pytest.raises(echo.WireError, match=r"kind`$"):
        decode(bytes(4))


@pytest.mark.parametrize("tier", TIERS)
def test_a_number_without_a_name_is_passed_on_by_conversions(tier: Any) -> None:
    """Bytes are converted, members are not asked for."""
    convert = echo.converter(echo.format_of(Old), echo.format_of(New), tier=tier)
    assert struct.unpack("=i4xq", convert(struct.pack("=i", 77))) == (77, 0)


def test_a_number_without_a_name_is_not_sent_in_an_array() -> None:
    """Numpy knows nothing of members."""

    @dataclasses.dataclass
    class Many:
        rows: echo.Array[Old, ...]

    rows = np.zeros(1, echo.format_of(Old).dtype)
    rows["kind"] = 77
    with pytest.raises(echo.EncodeError, match="number of `enum Kind`, got 77"):
        echo.encoder(Many)(Many(rows))


def test_a_default_made_here_stands_in_records_of_an_array() -> None:
    """An element of a numpy array that gained such a field gets what the class makes."""
    cells: Any = [Cell(1), Cell(2)]
    data = echo.encoder(Cells)(Cells(cells))
    event = echo.decoder(NewCells, sender=echo.format_of(Cells))(data)
    assert event.cells["x"].tolist() == [1, 2]
    assert event.cells["spot"].tolist() == [[3, 4], [3, 4]]


def test_a_sequence_whose_length_another_decides_has_no_default() -> None:
    """The sender's count is of its own elements."""

    @dataclasses.dataclass
    class One:
        n: echo.Int8
        a: echo.Array[int, "n"]  # noqa: F821, UP037 - a dimension

    @dataclasses.dataclass
    class Two:
        n: echo.Int8
        a: echo.Array[int, "n"]  # noqa: F821, UP037 - a dimension
        b: echo.Array[int, "n"] | None = None  # noqa: F821, UP037 - a dimension

    with pytest.raises(echo.IncompatibleError, match="decides its length by `n`"):
        echo.decoder(Two, sender=echo.format_of(One))


@pytest.mark.parametrize("tier", TIERS)
def test_records_in_wide_items_are_bytes(tier: Any) -> None:
    """A memoryview of eight-byte items is as long as its bytes."""

    @dataclasses.dataclass(slots=True)
    class Number:
        x: int

    numbers = np.arange(5)
    events = echo.codec(Number, tier=tier).decode_many(memoryview(numbers.data))
    assert [event.x for event in events] == [0, 1, 2, 3, 4]


def test_what_is_no_buffer_is_said_so() -> None:
    """By this library's error."""
    with pytest.raises(echo.FormatError, match="contiguous buffer, got `list`"):
        echo.decoder(Cell)([1])  # type: ignore[arg-type]


def test_a_tier_that_is_none_is_refused() -> None:
    """It would have been taken for another."""
    wrong: Any = "Compiled"
    format_ = echo.format_of(Cell)
    with pytest.raises(echo.FormatError, match="got 'Compiled'"):
        echo.codec(Cell, tier=wrong)
    with pytest.raises(echo.FormatError, match="got 'Compiled'"):
        echo.converter(format_, format_, tier=wrong)
    with pytest.raises(echo.FormatError, match="got 'Compiled'"):
        echo.column_decoder(Cell, tier=wrong)


@dataclasses.dataclass
class Wrong(Exception):  # noqa: N818
    x: int


@dataclasses.dataclass
class Abstract(abc.ABC):
    x: int

    @abc.abstractmethod
    def f(self) -> None:
        """What it lacks."""


@pytest.mark.parametrize("cls", [Wrong, Abstract])
def test_classes_whose_instances_cannot_be_made_are_refused(cls: type[Any]) -> None:
    """Where they are declared, and not at the first event."""
    with pytest.raises(echo.FormatError, match="hold their fields and no more"):
        echo.format_of(cls)


@pytest.mark.parametrize(
    "wrong", [{"unit": None}, {"aliases": (1,)}, {"doc": b""}, {"aliases": "old"}], ids=str
)
def test_options_of_the_wrong_type_are_refused(wrong: Any) -> None:
    """By name."""
    with pytest.raises(echo.FormatError, match="Expected"):
        echo.field(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"byte_order": "middle"},
        {"pointer_size": 3},
        {"long_size": 5},
        {"max_alignment": 0},
    ],
    ids=str,
)
def test_a_machine_that_cannot_be_is_refused(wrong: Any) -> None:
    """Before anything is laid out for it."""
    given: dict[str, Any] = {"name": "mine", "byte_order": "little", "pointer_size": 8, "long_size": 8}
    with pytest.raises(echo.FormatError, match="at `mine`"):
        echo.Abi(**{**given, **wrong})


def test_not_a_time_goes_there_and_back() -> None:
    """What numpy has for a missing time is a value of its arrays."""

    @dataclasses.dataclass
    class Times:
        when: echo.Array[__import__("datetime").datetime, ...]

    given = np.array(["2026-01-02", "NaT"], "M8[s]")
    decoded = echo.decoder(Times)(echo.encoder(Times)(Times(given)))
    assert np.isnat(decoded.when).tolist() == [False, True]

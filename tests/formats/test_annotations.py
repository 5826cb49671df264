"""The names that annotate fields, and what they refuse between their brackets."""

from __future__ import annotations

import typing
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.errors import FormatError
from echo_core.formats import unchecked
from echo_core.formats.annotations import ArraySpec
from echo_core.formats.types import Kind, Scalar

# Not seen as types, for what is tested is what their brackets do when the program runs.
ARRAY: Any = echo.Array
CHARS: Any = echo.Chars
BYTES: Any = echo.Bytes


@pytest.mark.parametrize("size", [1, 16, 65535])
def test_strings_of_fixed_size_are_text_and_bytes(size: int) -> None:
    """A type checker sees str and bytes, the layout sees the size."""
    assert typing.get_args(CHARS[size]) == (str, Scalar(Kind.CHARS, size))
    assert typing.get_args(BYTES[size]) == (bytes, Scalar(Kind.BYTES, size))


@pytest.mark.parametrize("size", [0, -1, 65536, True, 1.0, "4", None, ..., (1, 2)], ids=str)
@pytest.mark.parametrize(("alias", "name"), [(CHARS, "Chars"), (BYTES, "Bytes")])
def test_size_out_of_range_is_refused(alias: Any, name: str, size: Any) -> None:
    """The message has what stood between the brackets."""
    with pytest.raises(FormatError) as caught:
        alias[size]
    assert str(caught.value) == (f"Expected `{name}[n]` with n from 1 to 65535, got `{name}[{size!r}]`")


@pytest.mark.parametrize("shape", [(3,), (3, 2), (...,), (..., 2, ...), ("n",), ("n", 3)], ids=str)
def test_array_holds_element_and_shape(shape: tuple[Any, ...]) -> None:
    """A type checker sees numpy's array."""
    assert typing.get_args(ARRAY[(int, *shape)]) == (np.ndarray, ArraySpec(int, shape))


@pytest.mark.parametrize("given", [int, (int,), "int", (), None], ids=str)
def test_array_without_dimensions_is_refused(given: Any) -> None:
    """An element alone is no array."""
    with pytest.raises(FormatError, match=r"Expected `Array\[type, dimension, ...\]`, got `Array\["):
        ARRAY[given]


@pytest.mark.parametrize("dimension", [0, -1, True, 2.0, None, int, b"n"], ids=str)
def test_dimension_of_another_type_is_refused(dimension: Any) -> None:
    """Positive numbers, `...` and names only."""
    with pytest.raises(FormatError) as caught:
        ARRAY[int, 3, dimension]
    assert str(caught.value) == (
        f"Expected a positive number, `...` or a field's name as dimension, got {dimension!r}"
    )


def test_mypy_is_given_the_names_that_take_numbers() -> None:
    """And the plugin knows the same three."""
    names = typing.get_type_hints(unchecked)
    assert set(names) == {"Array", "Bytes", "Chars"}
    assert set(names.values()) == {Any}


SCALARS: list[tuple[str, type[Any], Kind, int]] = [
    *((f"Int{8 * n}", int, Kind.INT, n) for n in (1, 2, 4, 8)),
    *((f"UInt{8 * n}", int, Kind.UINT, n) for n in (1, 2, 4, 8)),
    *((f"Float{8 * n}", float, Kind.FLOAT, n) for n in (2, 4, 8)),
    *((f"Complex{8 * n}", complex, Kind.COMPLEX, n) for n in (8, 16)),
]


@pytest.mark.parametrize(("name", "python", "kind", "size"), SCALARS)
def test_scalar_name_says_kind_and_bits(name: str, python: type[Any], kind: Kind, size: int) -> None:
    """`Int16` is an int of 16 bits, and so on."""
    assert typing.get_args(getattr(echo, name)) == (python, Scalar(kind, size))

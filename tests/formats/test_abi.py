"""What formats/abi.py says of this machine and of the others."""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import Any

import pytest

from echo_core.errors import FormatError
from echo_core.formats.abi import ABI_BY_NAME, NATIVE, Abi, abi_named
from echo_core.formats.layout import place
from echo_core.formats.types import Field, Kind, Scalar

CTYPES: list[tuple[Any, str, Scalar]] = [
    (ctypes.c_int8, "b", Scalar(Kind.INT, 1)),
    (ctypes.c_int16, "h", Scalar(Kind.INT, 2)),
    (ctypes.c_int32, "i", Scalar(Kind.INT, 4)),
    (ctypes.c_int64, "q", Scalar(Kind.INT, 8)),
    (ctypes.c_float, "f", Scalar(Kind.FLOAT, 4)),
    (ctypes.c_double, "d", Scalar(Kind.FLOAT, 8)),
    (ctypes.c_bool, "?", Scalar(Kind.BOOL, 1)),
    (ctypes.c_long, "l", Scalar(Kind.INT, NATIVE.long_size)),
]


def test_native_is_what_ctypes_and_struct_say() -> None:
    """Byte order and widths of this machine."""
    assert NATIVE.byte_order == sys.byteorder
    assert NATIVE.pointer_size == ctypes.sizeof(ctypes.c_void_p) == struct.calcsize("P")
    assert NATIVE.long_size == ctypes.sizeof(ctypes.c_long) == struct.calcsize("l")
    assert NATIVE.max_alignment == min(8, ctypes.alignment(ctypes.c_longlong))


@pytest.mark.parametrize("second", CTYPES, ids=lambda case: case[1])
@pytest.mark.parametrize("first", CTYPES, ids=lambda case: case[1])
def test_two_members_lie_where_ctypes_puts_them(
    first: tuple[Any, str, Scalar], second: tuple[Any, str, Scalar]
) -> None:
    """Every pair of scalars, held to a C struct."""

    class Pair(ctypes.Structure):
        _fields_ = [("a", first[0]), ("b", second[0])]

    record = place("Pair", [Field("a", first[2]), Field("b", second[2])], NATIVE)
    b: Any = Pair.b
    assert record.fields[1].offset == b.offset
    assert record.fields[1].end == struct.calcsize(first[1] + second[1])
    assert record.size == ctypes.sizeof(Pair)
    assert record.alignment == ctypes.alignment(Pair)


def test_required_machines_are_known() -> None:
    """Those of the requirements; a name leads to its own ABI."""
    required = "x86_64 i386 aarch64 armhf s390x ppc64 ppc64le ppc sparc64 sparc mips riscv64 native"
    assert set(required.split()) <= set(ABI_BY_NAME)
    assert all(abi_named(name).name == name for name in ABI_BY_NAME)


def test_byte_orders_and_widths_of_the_table() -> None:
    """The big-endian ones, the 32-bit ones, and the ceilings on alignment."""
    others = [abi for name, abi in ABI_BY_NAME.items() if name != "native"]
    big = {"s390x", "ppc64", "ppc", "sparc64", "sparc", "mips", "m68k"}
    small = {"i386", "armhf", "ppc", "sparc", "mips", "m68k"}
    assert {abi.name for abi in others if abi.byte_order == "big"} == big
    assert {abi.name for abi in others if abi.pointer_size == 4} == small
    assert all(abi.long_size == abi.pointer_size for abi in others)
    assert {abi.name: abi.max_alignment for abi in others if abi.max_alignment < 8} == {
        "i386": 4,
        "m68k": 2,
    }


@pytest.mark.parametrize(("natural", "expected"), [(1, 1), (2, 2), (4, 4), (8, 4)])
def test_alignment_has_a_ceiling(natural: int, expected: int) -> None:
    """No member asks for more than its machine grants."""
    assert abi_named("i386").align(natural) == expected


def test_abi_of_ones_own_is_returned_as_it_is() -> None:
    """Callers may bring their own."""
    own = Abi("own", "big", 4, 4)
    assert abi_named(own) is own


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    """The message lists every name."""
    with pytest.raises(FormatError) as caught:
        abi_named("vax")
    assert all(name in str(caught.value) for name in [*ABI_BY_NAME, "`vax`"])

"""What formats/abi.py says of this machine, held to what the C compiler does on it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from echo_core._c import native
from echo_core.formats.abi import NATIVE

if TYPE_CHECKING:
    from echo_core._c.native import StructEchoAbi


@pytest.fixture(name="compiler")
def fixture_compiler() -> StructEchoAbi:
    """The answers of the compiler that built echo_core._c.native."""
    abi = native.ffi.new("struct echo_abi *")
    native.lib.echo_native_abi(abi)
    return abi


def test_byte_order_is_the_compilers(compiler: StructEchoAbi) -> None:
    """NATIVE, the compiler and the interpreter agree which byte of a number comes first."""
    assert NATIVE.byte_order == ("big" if compiler.big_endian else "little") == sys.byteorder


def test_pointer_size_is_the_compilers(compiler: StructEchoAbi) -> None:
    """A pointer takes as many bytes in NATIVE as in C."""
    assert NATIVE.pointer_size == compiler.pointer_size


def test_long_size_is_the_compilers(compiler: StructEchoAbi) -> None:
    """A long takes as many bytes in NATIVE as in C."""
    assert NATIVE.long_size == compiler.long_size


def test_max_alignment_is_the_compilers(compiler: StructEchoAbi) -> None:
    """An 8-byte number inside a struct is aligned in NATIVE as in C."""
    assert NATIVE.max_alignment == compiler.max_alignment

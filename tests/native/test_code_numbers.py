"""What compiled expressions ask of numbers and bytes, beside Python's own answers."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core._c.code import functions
from tests.formats.strategies import examples

FUNCTIONS = functions()
FLOATS = st.floats(width=64) | st.sampled_from([0.0, -0.0, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 5e-324])
TEXTS = st.binary(max_size=8) | st.sampled_from([b"", b"a", b"ab", b"aab"])


def called(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A function by its name."""
    function: Callable[..., Any] = ctypes.CFUNCTYPE(result, *arguments)(FUNCTIONS[name])
    return function


DOUBLE, INT = ctypes.c_double, ctypes.c_int32
COMPARE_INT = called("echo_compare_int", INT, ctypes.c_int64, DOUBLE)
COMPARE_UINT = called("echo_compare_uint", INT, ctypes.c_uint64, DOUBLE)
FLOOR_DIVIDE = called("echo_floor_divide", DOUBLE, DOUBLE, DOUBLE)
REMAINDER = called("echo_remainder", DOUBLE, DOUBLE, DOUBLE)
POWER = called("echo_power", DOUBLE, DOUBLE, ctypes.c_int64)
DIGEST = called("echo_digest", ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint64)
BYTES = ctypes.c_char_p, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint64


def bits(number: float) -> bytes:
    return b"nan" if math.isnan(number) else struct.pack("d", number)


def order(a: int, b: float) -> int:
    return 2 if math.isnan(b) else (a > b) - (a < b)


@examples(500)
@given(st.integers(-(2**63), 2**63 - 1), FLOATS)
def test_an_integer_is_compared_with_a_float_exactly(number: int, other: float) -> None:
    """Also beside the float that is next to it."""
    near = float(number)
    for it in (other, near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf)):
        assert COMPARE_INT(number, it) == order(number, it)
        unsigned = number + 2**63
        assert COMPARE_UINT(unsigned, it) == order(unsigned, it)


@examples(500)
@given(FLOATS, FLOATS.filter(lambda it: it != 0))
def test_floats_are_divided_as_python_divides_them(a: float, b: float) -> None:
    """To the sign of a zero."""
    assert bits(FLOOR_DIVIDE(a, b)) == bits(a // b)
    assert bits(REMAINDER(a, b)) == bits(a % b)


@examples(300)
@given(FLOATS, st.integers(0, 4))
def test_powers_are_python_s(a: float, exponent: int) -> None:
    """What Python raises for is infinite."""
    try:
        wanted = a**exponent
    except OverflowError:
        assert math.isinf(POWER(a, exponent))
        return
    assert bits(POWER(a, exponent)) == bits(wanted)


@examples(300)
@given(TEXTS, TEXTS)
def test_bytes_are_compared_and_found(a: bytes, b: bytes) -> None:
    """Empty ones too."""
    arguments = a, len(a), b, len(b)
    compared = called("echo_compare_bytes", INT, *BYTES)(*arguments)
    assert (compared > 0) - (compared < 0) == (a > b) - (a < b)
    assert called("echo_starts", INT, *BYTES)(*arguments) == a.startswith(b)
    assert called("echo_ends", INT, *BYTES)(*arguments) == a.endswith(b)
    assert called("echo_contains", INT, *BYTES)(*arguments) == (b in a)


@pytest.mark.parametrize("text", ["", "a", "é", "数x", "\U0001f600" * 3])
def test_characters_are_counted(text: str) -> None:
    """Of one to four bytes."""
    data = text.encode()
    count = called("echo_count_characters", ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint64)
    assert count(data, len(data)) == len(text)


def test_a_slot_s_text_ends_within_its_record() -> None:
    """Or there is none."""
    size = called("echo_slot_text_size", ctypes.c_int64, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64)
    assert [size(b"xxab\0", 5, at) for at in (0, 2, 4, 5, 2**64 - 1)] == [0, 2, 0, -1, -1]
    assert size(b"xxab", 4, 2) == -1


AT_RANDOM, WORD = 25, 2**64 - 1  # 16 bytes that the kernel gives each process; a word's bits


def sip_hash(key: bytes, data: bytes) -> int:
    """SipHash-2-4 as its paper has it."""
    k0, k1 = struct.unpack("<QQ", key)
    v: list[int] = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]

    def rounds(count: int) -> None:
        for _ in range(count):
            for a, b, by in ((0, 1, 13), (2, 3, 16), (0, 3, 21), (2, 1, 17)):
                v[a] = (v[a] + v[b]) & WORD
                v[b] = ((v[b] << by | v[b] >> (64 - by)) & WORD) ^ v[a]
                if by in (13, 17):
                    v[a] = (v[a] << 32 | v[a] >> 32) & WORD

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) % 256])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_the_oracle_of_digests_gives_what_their_paper_says() -> None:
    """Its one example."""
    assert sip_hash(bytes(range(16)), bytes(range(15))) == 0xA129CA6149BE45E5


@examples(500)
@given(st.binary(max_size=300) | TEXTS)
def test_a_digest_is_keyed_by_what_the_kernel_has_given_the_process(data: bytes) -> None:
    """So all modules of a process have one key, and no other process knows it."""
    getauxval = ctypes.CDLL(None).getauxval
    getauxval.restype = ctypes.c_ulong
    key = ctypes.string_at(getauxval(ctypes.c_ulong(AT_RANDOM)), 16)
    assert DIGEST(data, len(data)) == sip_hash(key, data)

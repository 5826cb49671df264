"""16-bit floats compiled: to the bit what numpy makes of them, at each level of the CPU."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from echo_core.codegen.emit.halves import TOO_LARGE
from echo_core.formats.abi import NATIVE, Abi
from echo_core.formats.types import Scalar, StaticArray, Type
from tests.codegen.machine_code import Code, Level, levels
from tests.codegen.pairs import FLOAT16, FLOAT32, FLOAT64, PPC, X86_64, Pair, format_of_types

LEVELS = pytest.mark.parametrize("level", levels(), ids=lambda level: level.name)
SENDERS = pytest.mark.parametrize("abi", [X86_64, PPC], ids=["little", "big"])
SINGLES = pytest.mark.parametrize("wide", [FLOAT32, FLOAT64], ids=str)
ORDERS = {"little": "<", "big": ">"}
HALVES = np.arange(65536, dtype=np.uint16)
QUIET = np.uint16(0x0200)


def code_of(theirs: Type, ours: Type, abi: Abi, level: Level) -> Code:
    """Code for records of one field."""
    pair = Pair(format_of_types(abi, a=theirs), format_of_types(NATIVE, a=ours))
    return Code(pair.plan, pair.verification, level)


def sent(numbers: np.ndarray[Any, Any], abi: Abi) -> bytes:
    """Numbers as such a machine has them."""
    return numbers.astype(numbers.dtype.newbyteorder(ORDERS[abi.byte_order])).tobytes()


def widened(wide: Scalar) -> np.ndarray[Any, Any]:
    """All halves by numpy, which may leave a signalling NaN as it is; no CPU does."""
    is_nan = (HALVES & 0x7FFF) > 0x7C00
    return np.where(is_nan, HALVES | QUIET, HALVES).view(np.float16).astype(f"f{wide.size}")


@LEVELS
@SENDERS
@SINGLES
def test_every_half_is_widened_to_the_bit(wide: Scalar, abi: Abi, level: Level) -> None:
    """Subnormal ones, infinities and NaN among them; in one run, and in short arrays one by one."""
    data = sent(HALVES, abi)
    run = code_of(FLOAT16, wide, abi, level).convert_many(data, len(HALVES), shift=1)
    assert run == widened(wide).tobytes()
    single = code_of(StaticArray(FLOAT16, (3,)), StaticArray(wide, (3,)), abi, level)
    assert single.convert_many(data[:-2], len(HALVES) // 3) == widened(wide)[:-1].tobytes()


def doubles() -> Iterator[float]:
    """Each half, what lies half way to the next, and what lies beside that by the least that there is."""
    halves = np.arange(0x7C01, dtype=np.uint16).view(np.float16).astype(np.float64)
    halves[-1] = 2 * TOO_LARGE - halves[-2]  # what would come next, were there more
    ties = (halves[1:] + halves[:-1]) / 2
    for numbers in (halves[:-1], ties[:-1], np.nextafter(ties, 0), np.nextafter(ties[:-1], np.inf)):
        yield from numbers.tolist()
    dice = random.Random("halves")
    yield from (dice.uniform(1, 2) * 2.0 ** dice.randint(-40, 14) for _ in range(20_000))
    yield from (5e-324, 2.0**-1022, 2.0**-149, 2.0**-126, 1 + 2.0**-11 + 2.0**-40, float("inf"))


@LEVELS
@SENDERS
@SINGLES
def test_number_is_rounded_once(wide: Scalar, abi: Abi, level: Level) -> None:
    """To the nearest half, of two the even one; a double never by way of a float."""
    numbers = np.array(list(doubles()), f"f{wide.size}")
    numbers = numbers[(numbers < TOO_LARGE) | np.isinf(numbers)]
    numbers = np.concatenate([numbers, -numbers])
    made = code_of(wide, FLOAT16, abi, level).convert_many(sent(numbers, abi), len(numbers))
    assert made == numbers.astype(np.float16).tobytes()


@LEVELS
@SINGLES
def test_nan_keeps_the_upper_bits_of_its_payload(wide: Scalar, level: Level) -> None:
    """And is quiet afterwards."""
    numbers = widened(wide)
    numbers = numbers[np.isnan(numbers)]
    made = code_of(wide, FLOAT16, NATIVE, level).convert_many(numbers.tobytes(), len(numbers))
    assert made == (HALVES | QUIET)[(HALVES & 0x7FFF) > 0x7C00].tobytes()
    least = np.array(1, "u8") | np.array(np.inf).view("u8")  # a NaN whose payload lies below what is kept
    assert code_of(FLOAT64, FLOAT16, NATIVE, level).convert(least.tobytes()) == b"\x00\x7e"


@LEVELS
@pytest.mark.parametrize("sign", [1, -1])
@SINGLES
def test_number_beyond_the_largest_half_fails(wide: Scalar, sign: int, level: Level) -> None:
    """Where it would be rounded to infinity."""
    code = code_of(wide, FLOAT16, NATIVE, level)
    dtype = np.dtype(f"f{wide.size}")
    for number in (TOO_LARGE, np.nextafter(dtype.type(TOO_LARGE), dtype.type(np.inf)), 1e38):
        assert code.convert(np.array(sign * number, dtype).tobytes()) is None

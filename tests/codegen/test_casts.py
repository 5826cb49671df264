"""Casts as LLVM IR: which instruction, which checks, where vectors. Their values are tested compiled."""

from __future__ import annotations

import itertools

import pytest

from echo_core.codegen.emit.casts import cast_values, ir_type, load_number, store_number
from echo_core.codegen.emit.emitter import DECLARATIONS
from echo_core.codegen.emit.ir import LIKELY, Function
from echo_core.codegen.machine.engine import compile_ir, native_target
from echo_core.codegen.plans.plan import Cast
from echo_core.formats.comparing.leaf_conversions import Loss, judge
from echo_core.formats.types import Scalar
from tests.codegen.pairs import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
)

NUMBERS = (BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT16, FLOAT32, FLOAT64)


def written(
    sender: Scalar,
    receiver: Scalar,
    *,
    count: str = "1",
    swaps: tuple[bool, bool] = (False, False),
    vector_bytes: int = 0,
) -> str:
    """The IR of a cast, without its function."""
    function = Function("i32 @f(ptr %source, ptr %target, i64 %count)", failure="i32 1")
    checked = judge(sender, receiver) is Loss.LOSSY
    cast = Cast(0, 0, 1, sender, receiver, is_checked=checked)
    cast_values(function, cast, "%source", "%target", count, swaps, vector_bytes)
    return "\n".join(line.strip() for line in function.lines)


@pytest.mark.parametrize(
    ("sender", "receiver", "instruction"),
    [
        (INT8, INT64, "sext i8 %v1 to i64"),
        (UINT8, INT64, "zext i8 %v1 to i64"),
        (UINT16, UINT32, "zext i16 %v1 to i32"),
        (INT64, INT16, "trunc i64 %v1 to i16"),
        (INT32, FLOAT64, "sitofp i32 %v1 to double"),
        (UINT64, FLOAT32, "uitofp i64 %v1 to float"),
        (FLOAT32, FLOAT64, "fpext float %v2 to double"),
        (FLOAT64, FLOAT32, "fptrunc double %v2 to float"),
        (FLOAT64, INT8, "fptosi double %v2 to i8"),
        (FLOAT32, UINT64, "fptoui float %v2 to i64"),
        (BOOL, INT32, "zext i1 %v2 to i32"),
        (INT64, FLOAT16, "sitofp i64 %v1 to float"),
    ],
    ids=str,
)
def test_cast_is_one_instruction(sender: Scalar, receiver: Scalar, instruction: str) -> None:
    """Between a load and a store."""
    assert instruction in written(sender, receiver)


@pytest.mark.parametrize(
    ("sender", "receiver", "checks"),
    [
        (INT64, INT32, ["icmp sge i64 %v1, -2147483648", "icmp sle i64 %v1, 2147483647"]),
        (INT32, UINT32, ["icmp sge i32 %v1, 0"]),
        (INT8, UINT64, ["icmp sge i8 %v1, 0"]),
        (UINT32, INT32, ["icmp ule i32 %v1, 2147483647"]),
        (UINT64, UINT8, ["icmp ule i64 %v1, 255"]),
        (INT16, BOOL, ["icmp sge i16 %v1, 0", "icmp sle i16 %v1, 1"]),
        (UINT8, BOOL, ["icmp ule i8 %v1, 1"]),
        (
            FLOAT64,
            INT32,
            ["fcmp ogt double %v2, 0xC1E0000000200000", "fcmp olt double %v2, 0x41E0000000000000"],
        ),
        (
            FLOAT32,
            INT32,
            ["fcmp oge float %v2, 0xC1E0000000000000", "fcmp olt float %v2, 0x41E0000000000000"],
        ),
        (
            FLOAT64,
            INT64,
            ["fcmp oge double %v2, 0xC3E0000000000000", "fcmp olt double %v2, 0x43E0000000000000"],
        ),
        (
            FLOAT32,
            UINT8,
            ["fcmp ogt float %v2, 0xBFF0000000000000", "fcmp olt float %v2, 0x4070000000000000"],
        ),
        (INT64, FLOAT32, []),
        (INT8, FLOAT16, []),
        (UINT16, FLOAT16, ["icmp ule i16 %v1, 65519"]),
        (INT64, FLOAT16, ["icmp sge i64 %v1, -65519", "icmp sle i64 %v1, 65519"]),
        (INT8, INT16, []),
        (FLOAT32, FLOAT64, []),
    ],
    ids=str,
)
def test_cast_checks_what_may_not_fit_and_no_more(
    sender: Scalar, receiver: Scalar, checks: list[str]
) -> None:
    """Both ends of a float's range, with the number next beyond excluded; ordered, so that no NaN passes."""
    text = written(sender, receiver)
    pairs = itertools.pairwise(text.splitlines())
    found = [line.partition(" = ")[2] for line, following in pairs if "label %fail" in following]
    assert found == checks
    assert text.count("label %fail") == len(checks)


def test_float_that_is_rounded_to_infinity_fails() -> None:
    """But an infinity stays one: both are infinite, or neither."""
    text = written(FLOAT64, FLOAT32)
    assert "call double @llvm.fabs.f64(double %v2)" in text
    assert "call float @llvm.fabs.f32(float %v3)" in text
    assert text.count("oeq") == 2
    assert text.count("label %fail") == 1


def test_other_sign_of_the_same_size_is_checked_and_not_changed() -> None:
    """The bits are those of the value."""
    assert written(INT32, UINT32).splitlines()[-1] == "store i32 %v1, ptr %target, align 1"


def test_byte_order_is_changed_on_the_way_in_and_out() -> None:
    """Before the cast in the sender's width, after it in the receiver's; single bytes not at all."""
    text = written(INT16, INT32, swaps=(True, True))
    assert text.index("@llvm.bswap.i16") < text.index("sext") < text.index("@llvm.bswap.i32")
    assert "bswap" not in written(INT16, INT32)
    assert written(INT8, INT32, swaps=(True, False)) == written(INT8, INT32)


def test_float_is_loaded_and_stored_as_its_bits() -> None:
    """A swapped float is no float: its bits could be taken for a NaN and changed."""
    function = Function("void @f()")
    value = load_number(function, FLOAT32, "%p", is_swapped=True)
    store_number(function, FLOAT32, value, "%q", is_swapped=True)
    assert [line.split(" = ")[-1].split()[0] for line in function.lines] == [
        "load", "call", "bitcast", "bitcast", "call", "store",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("scalar", "expected"),
    [
        (BOOL, "i8"),
        (UINT16, "i16"),
        (INT64, "i64"),
        (FLOAT16, "i16"),
        (FLOAT32, "float"),
        (FLOAT64, "double"),
    ],
)
def test_number_has_an_ir_type(scalar: Scalar, expected: str) -> None:
    """Integers have no sign there."""
    assert ir_type(scalar) == expected


@pytest.mark.parametrize(
    ("sender", "receiver", "vector_bytes", "expected"),
    [
        (INT16, INT32, 16, "sext <4 x i16>"),
        (INT16, INT32, 64, "sext <16 x i16>"),
        (UINT8, UINT64, 32, "zext <4 x i8>"),
        (FLOAT32, FLOAT64, 32, "fpext <4 x float>"),
        (FLOAT16, FLOAT32, 32, "zext <8 x i16>"),
        (FLOAT16, FLOAT64, 64, "fpext <8 x float>"),
    ],
    ids=str,
)
def test_run_of_unchecked_casts_is_done_in_vectors(
    sender: Scalar, receiver: Scalar, vector_bytes: int, expected: str
) -> None:
    """As many as the wider type has in a vector; the rest one by one."""
    text = written(sender, receiver, count="%count", vector_bytes=vector_bytes)
    lanes = expected.split("<")[1].split()[0]
    assert expected in text
    assert f"and i64 %count, -{lanes}" in text
    assert text.count("phi i64") == 2


@pytest.mark.parametrize(
    ("sender", "receiver", "vector_bytes"),
    [(INT16, INT32, 0), (INT32, INT16, 32), (BOOL, INT32, 32), (INT32, FLOAT64, 32), (INT32, INT64, 8)],
    ids=str,
)
def test_run_of_other_casts_is_done_one_by_one(sender: Scalar, receiver: Scalar, vector_bytes: int) -> None:
    """Where there are no vectors, where each value is checked, and where a vector would be one value."""
    text = written(sender, receiver, count="%count", vector_bytes=vector_bytes)
    assert " x " not in text
    assert text.count("phi i64") == 1


def test_run_shorter_than_a_vector_needs_none() -> None:
    """Known when the code is written; a single value needs no loop either."""
    assert " x " not in written(INT16, INT32, count="7", vector_bytes=32)
    assert " x " in written(INT16, INT32, count="8", vector_bytes=32)
    assert "phi" not in written(INT16, INT32, count="1", vector_bytes=32)


def test_swapped_vector_is_swapped_lane_by_lane() -> None:
    """As its values are."""
    text = written(INT16, INT32, count="%count", swaps=(True, False), vector_bytes=32)
    assert "call <8 x i16> @llvm.bswap.v8i16(<8 x i16>" in text


def test_every_cast_is_ir_that_llvm_takes() -> None:
    """All pairs, alone and in runs, swapped and not, in one module."""
    functions: list[str] = []
    swaps = ((False, False), (True, True))
    for sender, receiver in itertools.product(NUMBERS, NUMBERS):
        if sender == receiver or judge(sender, receiver) is Loss.REFUSED:
            continue
        for count, swap, vector_bytes in itertools.product(("1", "%count"), swaps, (0, 32)):
            name = f"@f{len(functions)}"
            function = Function(f"i32 {name}(ptr %source, ptr %target, i64 %count)", failure="i32 1")
            checked = judge(sender, receiver) is Loss.LOSSY
            cast = Cast(0, 0, 1, sender, receiver, is_checked=checked)
            cast_values(function, cast, "%source", "%target", count, swap, vector_bytes)
            function.do("ret i32 0")
            functions.append(function.text())
    assert compile_ir("\n\n".join([DECLARATIONS, *functions, LIKELY]), native_target())

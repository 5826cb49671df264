"""The LLVM IR of steps, as text, and what no text may have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import echo_core as echo
from echo_core._c import expressions
from echo_core.codegen.emit.ir import float_bits
from echo_core.codegen.expressions.emit import emit, emit_table
from echo_core.codegen.expressions.lowering import lower
from echo_core.codegen.expressions.program import IS_SWAPPED, NO_STEP, Program, Step
from echo_core.codegen.expressions.sorts import Sort
from echo_core.codegen.machine import engine
from echo_core.errors import CompileError
from tests.codegen.expressions.particles import Hit, Particle

DOUBLE = [Step("LOAD_F64"), Step("LOAD_F64", imm=8)]
INTEGER = [Step("LOAD_I64"), Step("LOAD_I64", imm=8)]
BOOL = [Step("LOAD_BOOL"), Step("LOAD_BOOL", imm=1)]
BYTES = [Step("CHARS", aux=4), Step("FIXED", imm=4, aux=4)]
REGION = [Step("LOAD_I64"), Step("LOAD_I64", imm=8), Step("REGION", NO_STEP, 1, 0, imm=8)]

# What is before an operation, the operation, and lines that it becomes.
TEXTS: list[tuple[list[Step], Step, list[str]]] = [
    ([], Step("LOAD_I8", imm=3), ["getelementptr i8, ptr %record, i64 3", "load i8", "sext i8"]),
    ([], Step("LOAD_U16", b=IS_SWAPPED), ["load i16", "@llvm.bswap.i16", "zext i16"]),
    ([], Step("LOAD_I32"), ["load i32", "sext i32"]),
    ([], Step("LOAD_I16"), ["load i16", "sext i16"]),
    ([], Step("LOAD_U8"), ["load i8", "zext i8"]),
    ([], Step("LOAD_U32"), ["load i32", "zext i32"]),
    ([], Step("LOAD_I64", b=IS_SWAPPED), ["@llvm.bswap.i64"]),
    ([], Step("LOAD_F16"), ["load i16", "fpext float"]),
    ([], Step("LOAD_F32"), ["bitcast i32 %v1 to float", "fpext float"]),
    ([], Step("LOAD_F64"), ["bitcast i64 %v1 to double"]),
    ([], Step("LOAD_BOOL"), ["icmp ne i8"]),
    ([], Step("PARAM"), ["load i64, ptr %parameters"]),
    ([], Step("CONST", imm=7), ["store i64 7"]),
    ([], Step("STATE", imm=0), ["getelementptr i8, ptr %states, i64 8"]),
    ([], Step("STATE_COUNT", imm=0), ["load i64, ptr %states"]),
    (INTEGER, Step("ADD_I", 0, 1), ["@llvm.sadd.with.overflow.i64", "label %fail"]),
    (INTEGER, Step("SUB_U", 0, 1), ["@llvm.usub.with.overflow.i64"]),
    (INTEGER, Step("MUL_I", 0, 1), ["@llvm.smul.with.overflow.i64"]),
    (INTEGER, Step("ADD_U", 0, 1), ["@llvm.uadd.with.overflow.i64"]),
    (INTEGER, Step("SUB_I", 0, 1), ["@llvm.ssub.with.overflow.i64"]),
    (INTEGER, Step("MUL_U", 0, 1), ["@llvm.umul.with.overflow.i64"]),
    (INTEGER, Step("FLOORDIV_I", 0, 1), ["icmp ne i64 %v3, 0", "sdiv i64", "srem i64"]),
    (INTEGER, Step("MOD_I", 0, 1), ["select i1", "srem i64"]),
    (INTEGER, Step("FLOORDIV_U", 0, 1), ["udiv i64"]),
    (INTEGER, Step("MOD_U", 0, 1), ["urem i64"]),
    (INTEGER, Step("POW_I", 0, imm=3), ["@llvm.smul.with.overflow.i64"]),
    (INTEGER, Step("POW_U", 0, imm=2), ["@llvm.umul.with.overflow.i64"]),
    (INTEGER, Step("NEG_I", 0), ["icmp ne i64 %v1, -9223372036854775808", "sub i64 0"]),
    (INTEGER, Step("ABS_I", 0), ["icmp slt i64", "select i1"]),
    (INTEGER, Step("AND_I", 0, 1), ["and i64"]),
    (INTEGER, Step("OR_I", 0, 1), ["or i64"]),
    (INTEGER, Step("XOR_I", 0, 1), ["xor i64"]),
    (INTEGER, Step("NOT_I", 0), ["xor i64 %v1, -1"]),
    (INTEGER, Step("SHL_I", 0, 1), ["icmp ult i64 %v3, 64", "shl i64", "ashr i64"]),
    (INTEGER, Step("SHL_U", 0, 1), ["shl i64", "lshr i64"]),
    (INTEGER, Step("SHR_I", 0, 1), ["ashr i64"]),
    (INTEGER, Step("SHR_U", 0, 1), ["lshr i64"]),
    (DOUBLE, Step("ADD_F", 0, 1), ["fadd double"]),
    (DOUBLE, Step("SUB_F", 0, 1), ["fsub double"]),
    (DOUBLE, Step("MUL_F", 0, 1), ["fmul double"]),
    (DOUBLE, Step("DIV_F", 0, 1), ["fcmp une double", "fdiv double"]),
    (DOUBLE, Step("FLOORDIV_F", 0, 1), ["@echo_floor_divide"]),
    (DOUBLE, Step("MOD_F", 0, 1), ["@echo_remainder"]),
    (DOUBLE, Step("POW_F", 0, imm=3), ["@echo_power"]),
    (DOUBLE, Step("NEG_F", 0), ["fneg double"]),
    (DOUBLE, Step("ABS_F", 0), ["@llvm.fabs.f64"]),
    (DOUBLE, Step("SQRT_F", 0), ["fcmp uge double", "@llvm.sqrt.f64"]),
    (DOUBLE, Step("FLOOR_F", 0), ["@echo_floor(", "fptosi double"]),
    (DOUBLE, Step("CEIL_F", 0), ["@echo_ceil("]),
    (DOUBLE, Step("F_TO_I", 0), [f"fcmp olt double %v2, 0x{float_bits(2.0**63, 8):016X}", "fptosi"]),
    (DOUBLE, Step("IS_NAN", 0), ["fcmp uno double"]),
    (DOUBLE, Step("IS_INF", 0), ["fcmp oeq double"]),
    (DOUBLE, Step("IS_FINITE", 0), ["fcmp olt double"]),
    (INTEGER, Step("U_TO_I", 0), ["icmp sge i64"]),
    (INTEGER, Step("I_TO_F", 0), ["sitofp i64"]),
    (INTEGER, Step("U_TO_F", 0), ["uitofp i64"]),
    (INTEGER, Step("EQ_I", 0, 1), ["icmp eq i64"]),
    (INTEGER, Step("LT_I", 0, 1), ["icmp slt i64"]),
    (INTEGER, Step("LE_I", 0, 1), ["icmp sle i64"]),
    (INTEGER, Step("LT_U", 0, 1), ["icmp ult i64"]),
    (INTEGER, Step("LE_U", 0, 1), ["icmp ule i64"]),
    (DOUBLE, Step("EQ_F", 0, 1), ["fcmp oeq double"]),
    (DOUBLE, Step("LT_F", 0, 1), ["fcmp olt double"]),
    (DOUBLE, Step("LE_F", 0, 1), ["fcmp ole double"]),
    (INTEGER, Step("EQ_IU", 0, 1), ["icmp sge i64 %v1, 0", "and i1"]),
    (INTEGER, Step("LT_IU", 0, 1), ["icmp slt i64 %v1, 0", "or i1"]),
    (INTEGER, Step("LE_IU", 0, 1), ["icmp ule i64", "or i1"]),
    (INTEGER, Step("LT_UI", 0, 1), ["icmp sge i64 %v3, 0", "and i1"]),
    (INTEGER, Step("LE_UI", 0, 1), ["icmp ule i64", "and i1"]),
    ([INTEGER[0], DOUBLE[1]], Step("EQ_IF", 0, 1), ["@echo_compare_int", "icmp eq i32"]),
    ([INTEGER[0], DOUBLE[1]], Step("LT_IF", 0, 1), ["icmp eq i32 %v5, -1"]),
    ([INTEGER[0], DOUBLE[1]], Step("LE_IF", 0, 1), ["icmp sle i32"]),
    ([DOUBLE[0], INTEGER[1]], Step("LT_FI", 0, 1), ["icmp eq i32 %v5, 1"]),
    ([DOUBLE[0], INTEGER[1]], Step("LE_FI", 0, 1), ["icmp ult i32 %v5, 2"]),
    ([INTEGER[0], DOUBLE[1]], Step("EQ_UF", 0, 1), ["@echo_compare_uint"]),
    ([INTEGER[0], DOUBLE[1]], Step("LT_UF", 0, 1), ["@echo_compare_uint"]),
    ([INTEGER[0], DOUBLE[1]], Step("LE_UF", 0, 1), ["@echo_compare_uint"]),
    ([DOUBLE[0], INTEGER[1]], Step("LT_FU", 0, 1), ["@echo_compare_uint"]),
    ([DOUBLE[0], INTEGER[1]], Step("LE_FU", 0, 1), ["@echo_compare_uint"]),
    (BYTES, Step("DIGEST", 0), ["@echo_digest"]),
    (BYTES, Step("EQ_T", 0, 1), ["@echo_chars_size", "@echo_compare_bytes", "icmp eq i32"]),
    (BYTES, Step("LT_T", 0, 1), ["icmp slt i32"]),
    (BYTES, Step("LE_T", 0, 1), ["icmp sle i32"]),
    (BYTES, Step("STARTS", 0, 1), ["@echo_starts"]),
    (BYTES, Step("ENDS", 0, 1), ["@echo_ends"]),
    (BYTES, Step("CONTAINS", 0, 1), ["@echo_contains"]),
    (BYTES, Step("CHARACTERS", 0), ["@echo_count_characters"]),
    (BYTES, Step("LENGTH", 1), ["store i64 4"]),
    ([Step("TEXT_CONST", aux=2)], Step("LENGTH", 0), ["store i64 2"]),
    ([Step("TEXT_PARAM")], Step("LENGTH", 0), ["getelementptr i8, ptr %parameters"]),
    ([INTEGER[0], Step("TEXT", c=0)], Step("LENGTH", 1), ["@echo_slot_text_size"]),
    (BOOL, Step("NOT", 0), ["xor i1"]),
    (BOOL, Step("AND", 0, 1), ["and i1"]),
    (BOOL, Step("OR", 0, 1), ["or i1"]),
    ([*BOOL, DOUBLE[0], DOUBLE[1]], Step("CHOOSE", 0, 2, 3), ["select i1 %v2, double"]),
    (REGION, Step("LENGTH", 2), ["udiv i64", "icmp ule i64"]),
    ([Step("ARRAY", imm=8, aux=3)], Step("LENGTH", 0), ["store i64 3"]),
    (
        [*REGION, Step("SLICE", 2, imm=(1 << 32) | 2, aux=8)],
        Step("LENGTH", 3),
        ["@llvm.smax.i64", "@llvm.smin.i64"],
    ),
    ([*REGION, Step("INDEX", 2, 0, imm=8)], Step("LOAD_I64", 3), ["icmp slt i64", "icmp ult i64"]),
]

REDUCTIONS = {
    "SUM_I": ["@llvm.sadd.with.overflow.i64"],
    "SUM_U": ["@llvm.uadd.with.overflow.i64"],
    "SUM_F": ["fadd double"],
    "ANY": ["or i64"],
    "ALL": ["and i64"],
    "MIN_I": ["icmp slt i64"],
    "MIN_U": ["icmp ult i64"],
    "MIN_F": ["fcmp olt double"],
    "MAX_I": ["icmp sgt i64"],
    "MAX_U": ["icmp ugt i64"],
    "MAX_F": ["fcmp ogt double"],
}
for _name, _lines in REDUCTIONS.items():
    _load = Step({"F": "LOAD_F64"}.get(_name[-1], "LOAD_I64") if "_" in _name else "LOAD_BOOL", 3)
    TEXTS.append(([*REGION, Step("FOR", 2, 5, imm=8), _load], Step(_name, 3, 4), ["phi i64", *_lines]))


def program_of(before: list[Step], step: Step) -> Program:
    """A program whose one root is the step."""
    from echo_core.codegen.expressions.program import Slot

    loads = ("LOAD", "CHARS", "FIXED")
    steps = [it._replace(b=it.b % NO_STEP) if it.op.startswith(loads) else it for it in (*before, step)]
    made = Program(16, steps, list(range(len(steps))), bytearray(b"xy"), [Slot(0, Sort.INT)], 1)
    made.roots.append((len(steps) - 1, Sort.INT))
    return made


@pytest.mark.parametrize(("before", "step", "lines"), TEXTS, ids=[step.op for _, step, _ in TEXTS])
def test_a_step_becomes_these_instructions(before: list[Step], step: Step, lines: list[str]) -> None:
    """And LLVM takes them, as the interpreter takes the step."""
    made = program_of(before, step)
    text = emit(made)
    body = text[text.index("@judge") :]
    for line in lines:
        assert line in body, text
    engine.compile_ir(text, engine.native_target())
    made.native()


def test_every_operation_is_emitted_somewhere() -> None:
    """Of those that the interpreter knows; the two regions of elements are parts of the tests above."""
    shown = {step.op for before, step, _ in TEXTS for step in (*before, step)}
    assert set(expressions.OPERATIONS) - shown == set()


def test_no_text_of_a_peer_is_in_the_code() -> None:
    """Names and constants are numbers and bytes there."""
    predicate = echo.where(Particle, "name == 'evil' or tag in ('more', 'evil')", tier="interpreted")
    derivation = predicate.derivation
    text = emit(lower([(derivation.tree, derivation.conditions)], echo.format_of(Particle)))
    for word in ("evil", "more", "name", "tag"):
        assert word not in text.replace("unnamed_addr", "")


def test_a_filter_reads_what_no_row_changes_once() -> None:
    """Parameters and constants stand before the loop."""
    derivation = echo.where(Hit, "temp > a and id > b", tier="interpreted", a=1.0, b=2).derivation
    text = emit(lower([(derivation.tree, derivation.conditions)], echo.format_of(Hit)))
    filter_ = text[text.index("@filter") : text.index("@copy")]
    before, loop = filter_.split("head", 1)
    assert before.count("ptr %parameters") == 2 + 1
    assert "%parameters" not in loop
    assert "br i1" in loop


def test_a_table_computes_what_all_rows_share_once() -> None:
    """The vectors hold eight rows; a reduction over them is left to the interpreter."""
    derivation = echo.where(Hit, "sqrt(temp) * 2 > a", tier="interpreted", a=1.0).derivation
    text = emit_table(lower([(derivation.tree, derivation.conditions)], echo.format_of(Hit)))
    before, loop = text.split("head", 1)
    assert "@llvm.sqrt.f64" in before
    assert "fcmp olt <8 x double>" in loop
    assert "sqrt" not in loop
    inner = echo.where(Particle, "any(x > a for x in parts)", tier="interpreted", a=1.0).derivation
    with pytest.raises(CompileError, match="outside of loops"):
        emit_table(lower([(inner.tree, inner.conditions)], echo.format_of(Particle)))


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_every_level_of_cpu_has_code_for_every_step(cpu: str) -> None:
    """In vectors as well."""
    target = engine.Target("x86_64-unknown-linux-gnu", cpu, "")
    for before, step, _ in TEXTS:
        engine.compile_ir(emit(program_of(before, step)), target)
    for text in tables():
        engine.compile_ir(text, target)


def tables() -> Iterator[str]:
    for condition in (
        "temp + a > b and not id * 2 - c == 3",
        "abs(id - c) < 2 or -temp < a",
        "(a if id > c else b) > temp",
    ):
        names: Any = {
            name: value
            for name, value in {"a": 1.0, "b": 2.0, "c": 3}.items()
            if re.search(rf"\b{name}\b", condition)
        }
        derivation = echo.where(Hit, condition, tier="interpreted", **names).derivation
        yield emit_table(lower([(derivation.tree, derivation.conditions)], echo.format_of(Hit)))

"""Compiled code, the interpreter and Python itself give the same for any expression over any record."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core._c import expressions
from echo_core.codegen.emit.ir import LIKELY
from echo_core.codegen.expressions.canonical import canonical
from echo_core.codegen.expressions.emit import emit, emit_judge, has_filter
from echo_core.codegen.expressions.lowering import lower
from echo_core.codegen.expressions.program import Program
from echo_core.codegen.expressions.reading import read
from echo_core.codegen.expressions.tree import Tree
from echo_core.codegen.machine import engine
from echo_core.errors import ExpressionError
from tests.codegen.expressions.oracle import Failure, UInt, evaluate
from tests.codegen.expressions.random_expressions import Kind, Shape, Writer, a_shape, an_event
from tests.formats.strategies import examples

TREES = 20  # of one record: its class, its bytes and the compilation are then shared
EVENTS = 4
NUMBERS = {kind.name: kind.value for kind in Kind}

Parts = list[tuple[Tree, tuple[int, ...]]]


class Case:
    """Some expressions over records of one class, on one machine."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.shape: Shape = a_shape(self.random)
        self.abi = self.random.choice(("native", "native", "i386", "s390x", "sparc"))
        self.format = echo.format_of(self.shape.cls, abi=self.abi)
        self.texts: list[str] = []
        self.parts: Parts = []
        self.values: list[Any] = []
        writer = Writer(self.random, self.shape)
        while len(self.texts) < TREES:
            text = writer.write(
                self.random.choice(("bool", "bool", "int", "float", "uint")), self.random.randint(1, 5)
            )
            if text:
                self._add(text)

    def _add(self, text: str) -> None:
        try:
            reading = read([text], self.format.record, {})
        except ExpressionError as error:
            if "at most" not in str(error):  # no limit: it should have been taken
                raise
            return
        made = canonical(reading.tree, reading.roots)
        self.texts.append(text)
        self.parts.append((made.tree, made.roots))
        self.values += [reading.values[old].value for old in made.parameters]

    def program(self, parts: Parts) -> Program:
        return lower(parts, self.format)


def expected(text: str, names: dict[str, Any]) -> list[Any]:
    """What Python says; None for a failure. A sum of nothing has a type that Python does not know."""
    values = [_value(text, names, 0)]
    if "sum(" in text:
        values.append(_value(text, names, UInt(0)))
        with suppress(TypeError):  # it is an operand of bits, so it is none of floats
            values.append(_value(text, names, 0.0))
    return values


def _value(text: str, names: dict[str, Any], empty_sum: float) -> Any:
    try:
        return evaluate(text, names, empty_sum)
    except Failure:
        return None


def is_expected(got: Any, values: list[Any]) -> bool:
    return any(is_same(got, value) for value in values)


def is_same(got: Any, wanted: Any) -> bool:
    """The same value, to the bit where it is a float; a failure is a tuple."""
    if wanted is None or isinstance(got, tuple):
        return wanted is None and isinstance(got, tuple)
    if isinstance(wanted, str):
        return bool(got == wanted or got == NUMBERS.get(wanted))
    if got == wanted == 0:
        return True  # to Python a sum of no floats is an int, which has no sign
    if isinstance(wanted, float) or isinstance(got, float):
        return (math.isnan(got) and math.isnan(wanted)) or struct.pack("d", got) == struct.pack("d", wanted)
    return bool(got == wanted)


def together(texts: list[str]) -> str:
    """The functions of each module as one: the compiler is started once."""
    declared: set[str] = set()
    others: list[str] = []
    for i, text in enumerate(texts):
        head, first, functions = text.partition("define ")
        declarations, _, pool = head.rstrip().partition("@pool")
        declared.update(declarations.splitlines())
        module = f"@pool{pool}\n" if pool else ""
        module += first + functions.removesuffix(f"{LIKELY}\n")
        others.append(re.sub(r"@(judge|filter|copy|pool)\b", rf"@\g<1>{i}", module))
    return "\n".join([*sorted(declared), *others, LIKELY]) + "\n"


@pytest.mark.once
@pytest.mark.parametrize("part", range(4))
@examples(250)
@given(st.integers(0, 2**62))
def test_all_three_agree(part: int, seed: int) -> None:
    """Twenty trees in each example, so 20,000 in all, on four records each; in parts that share the cores."""
    case = Case(4 * seed + part)
    events = [an_event(case.random, case.shape) for _ in range(EVENTS)]
    encode = echo.codec(case.shape.cls, abi=case.abi, tier="interpreted").encode
    records = [encode(event) for event, _ in events]
    program = case.program(case.parts)
    snapshot = program.snapshot(case.values)
    native = program.native()
    wanted = [[expected(text, names) for text in case.texts] for _, names in events]
    for (_, names), record, values in zip(events, records, wanted, strict=True):
        for i, got in enumerate(native.evaluate(record, snapshot)):
            assert is_expected(got, values[i]), f"{case.texts[i]}\n{names}\n{got} instead of {values[i]}"
    check_compiled(case, [names for _, names in events], records, wanted)


FUNCTIONS = ("judge", "filter", "copy")


def check_compiled(case: Case, names: list[Any], records: list[bytes], wanted: list[list[Any]]) -> None:
    """Compiled code of each tree, on each record and on rows; what fails in it is interpreted."""
    for i, (program, judge, takes_rows) in enumerate(compiled(case)):
        form = {"bool": "?", "float": "d", "uint64": "Q"}.get(str(program.roots[0][1]), "q")
        passed: list[bytes] = []
        for j, record in enumerate(records):
            room = bytearray(8)
            got = struct.unpack_from(form, room)[0] if judge.write_roots(record, room, (0,)) else (0,)
            assert is_expected(got, wanted[j][i]), (
                f"{case.texts[i]}\n{names[j]}\n{got} instead of {wanted[j][i]}"
            )
            passed += [record] if got is True else []
        if takes_rows:
            rows = b"".join(records)
            survivors = bytearray(len(rows))
            count = judge.filter_into(rows, survivors)
            assert count == len(passed), case.texts[i]
            assert bytes(survivors[: count * case.format.size_bytes]) == b"".join(passed), case.texts[i]


def compiled(case: Case) -> Iterator[tuple[Program, expressions.Judge, bool]]:
    """Each tree with a judge, and whether that takes rows: only where records are of one size."""
    programs = [case.program([part]) for part in case.parts]
    size, is_fixed = case.format.size_bytes, case.format.is_fixed
    takes_rows = [is_fixed and has_filter(program) for program in programs]
    texts = [
        emit(program) if has_rows else emit_judge(program)
        for program, has_rows in zip(programs, takes_rows, strict=True)
    ]
    code = engine.compile_ir(together(texts), engine.native_target())
    exported = [
        f"{name}{i}" for i, has_rows in enumerate(takes_rows) for name in FUNCTIONS[: 3 if has_rows else 1]
    ]
    loaded = engine.load(code, exported)
    left = iter(case.values)
    for i, (program, has_rows) in enumerate(zip(programs, takes_rows, strict=True)):
        snapshot = program.snapshot([next(left) for _ in case.parts[i][0].parameters])
        judge = expressions.Judge(program.native(), snapshot, size, is_fixed, None, 1, 0)
        compiled_judge, filter_, copy = (loaded.addresses.get(f"{name}{i}", 0) for name in FUNCTIONS)
        judge.install(compiled_judge, filter_, copy, loaded)
        yield program, judge, has_rows

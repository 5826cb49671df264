"""Fuzzing derivations: any bytes are a tree that judges any record, or a WireError.

    make fuzz FUZZ=trees

An input is the size of the tree (two bytes, the least significant first), the tree, and a record, whatever
that holds. A tree that is accepted is judged over that record as if machines of both byte orders had sent it,
alone and as a row of a table; what is read beyond the record is the sanitizer's finding.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import echo_core as echo
from echo_core._c import expressions
from echo_core.codegen.expressions.deriving import derive
from echo_core.codegen.expressions.lowering import lower
from echo_core.codegen.expressions.program import Program
from echo_core.codegen.expressions.tables import Index, Table, has_rows, is_index
from echo_core.codegen.expressions.wire import Derivation, from_bytes
from echo_core.errors import EchoError, WireError
from echo_core.formats.format import Format
from echo_core.formats.layout import Layout
from tests.codegen.expressions.particles import Hit, Particle
from tests.codegen.expressions.random_expressions import Shape, Writer, a_shape

FORMATS = [echo.format_of(cls, abi=abi) for cls in (Hit, Particle) for abi in ("x86_64", "s390x", "i386")]
ROOM = np.empty(64, np.uint32)


def one(data: bytes) -> None:
    """One input: a named error, or a tree whose answers are the same however it is asked."""
    size = int.from_bytes(data[:2], "little")
    tree, record = data[2 : 2 + size], data[2 + size :]
    try:
        derivation = from_bytes(tree)
    except WireError:
        return
    assert derivation.to_bytes() == tree
    view = Format(Layout("little", 8, derivation.tree.record))
    for format_ in (view, *FORMATS):
        judge(derivation, format_, record)


def judge(derivation: Derivation, format_: Format, record: bytes) -> None:
    """By every way that interprets it; a format that lacks what it reads is left out."""
    try:
        program = lower([(derivation.tree, (*derivation.conditions, *derivation.outputs))], format_)
    except EchoError:
        return
    snapshot = program.snapshot(derivation.values)
    values = program.native().evaluate(record, snapshot)
    assert len(values) == len(derivation.conditions) + len(derivation.outputs)
    if derivation.conditions:
        judge_conditions(derivation, format_, record, values)


def judge_conditions(derivation: Derivation, format_: Format, record: bytes, values: list[Any]) -> None:
    """As events are: one by one, and as a row among others."""
    program = lower([(derivation.tree, derivation.conditions)], format_)
    snapshot = program.snapshot(derivation.values)
    judge = expressions.Judge(program.native(), snapshot, format_.size_bytes, False, None, 1, 0)
    passes = judge.passes_record(record, 0)
    assert passes is all(value is True for value in values[: len(derivation.conditions)])
    judge.passes_record(record, 1)
    if has_rows(derivation, program) and len(derivation.conditions) == 1:
        assert rows_of(derivation, format_, program, record) == ([3] if passes else [])


def rows_of(derivation: Derivation, format_: Format, program: Program, record: bytes) -> list[int]:
    """The rows that pass in a table with one."""
    kind = Index if is_index(derivation) else Table
    table = kind(derivation, format_, "interpreted").native
    table.put(3, program.snapshot(derivation.values))
    return [int(row) for row in ROOM[: table.rows(record, ROOM)]]


def seeds(folder: Path) -> None:
    """Trees that reach every operation, each with a record of its event."""
    random = Random(1)
    for i, cls in enumerate((Hit, Particle)):
        record = echo.encoder(cls)(cls())
        for j, text in enumerate(("id == k", "temp > k and id != 3", "id * 2 + k > 1 or tag == 'a'")):
            options: dict[str, Any] = {"select": {"id": "id", "twice": "temp * 2"}} if j == 1 else {}
            made = derive(echo.format_of(cls).record, where=text, parameters={"k": 1}, **options)
            write(folder / f"{i}-{j}", made.derivation, record)
    for i in range(200):
        write_random(folder / f"random-{i}", random, a_shape(random))


def write_random(path: Path, random: Random, shape: Shape) -> None:
    """One of those that the tests of agreement make."""
    text = Writer(random, shape).write("bool", random.randint(1, 4))
    if text:
        try:
            made = derive(echo.format_of(shape.cls).record, where=text, parameters={})
        except EchoError:  # larger than any may be
            return
        write(path, made.derivation, random.randbytes(400))


def write(path: Path, derivation: Derivation, record: bytes) -> None:
    """An input."""
    tree = derivation.to_bytes()
    data = len(tree).to_bytes(2, "little") + tree + record
    one(data)
    path.write_bytes(data)


if __name__ == "__main__":
    seeds(Path(sys.argv[1]))

"""Every codec gives the same values, and what is wrong is found."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

from echo_core.spark_eval.measure import codecs
from echo_core.spark_eval.measure.codecs import CODECS, Cell, Work
from echo_core.spark_eval.measure.codecs.members import check_columns, check_object, columns_of, members
from echo_core.spark_eval.measure.workloads import SHAPES, Batch, Particle, instance

CELLS = [cell for name in CODECS for shape in SHAPES.values() for cell in codecs.cells(CODECS[name], shape)]


def name_of(cell: Cell) -> str:
    return "-".join(dataclasses.astuple(cell))


def build(cell: Cell) -> Work:
    if cell.codec not in codecs.installed():
        pytest.skip(f"nothing to run `{cell.codec}` with")
    return codecs.build(cell)


@pytest.mark.parametrize("cell", CELLS, ids=name_of)
def test_cell_gives_the_values(cell: Cell) -> None:
    """`build` checks every value, and again what is called later."""
    work = build(cell)
    work.check(work.call())
    assert work.records == SHAPES[cell.shape].records
    assert work.payload_bytes > 0
    assert work.setup_ns >= 0
    assert work.compile_ns >= 0


@pytest.mark.parametrize("cell", [it for it in CELLS if it.shape == "batch-10"], ids=name_of)
def test_a_wrong_value_is_found(cell: Cell) -> None:
    """The check of a cell fails for the values of another shape."""
    other = build(dataclasses.replace(cell, shape="batch-100"))
    work = build(cell)
    with pytest.raises(ValueError, match="Expected"):
        work.check(other.call())


@pytest.mark.parametrize("name", CODECS)
def test_targets_are_of_one_kind(name: str) -> None:
    """Objects are instances of the receiver's class or its counterpart, columns a dict of arrays."""
    for cell in (
        it for it in CELLS if it.codec == name and it.shape == "batch-10" and it.operation == "decode"
    ):
        found: Any = build(cell).call()
        if cell.target == "columns":
            assert [type(it) for it in found.values()] == [np.ndarray] * 16
        else:
            wanted = {"echo event": "BatchEvent", "echo event, read": "BatchEvent"}.get(name, "Batch")
            assert type(found).__name__ == wanted


def test_only_ours_have_a_sender_of_the_other_byte_order() -> None:
    """The other codecs have one order on the wire."""
    found = {cell.codec.split()[0] for cell in CELLS if cell.sender == "big-endian"}
    assert found == {"echo"}


def test_encoders_have_one_sender() -> None:
    """What encoding costs does not depend on who else sends."""
    assert {cell.sender for cell in CELLS if cell.operation == "encode"} == {"same"}


def test_columns_are_of_batches() -> None:
    """Other shapes have one record."""
    assert all(cell.shape.startswith("batch") for cell in CELLS if cell.target == "columns")


def test_only_ours_are_compiled() -> None:
    """The cost of compilation stands apart from that of set-up."""
    assert build(Cell("echo dataclass", "decode", "single", "extra", "objects")).compile_ns > 0
    assert build(Cell("msgpack map", "decode", "single", "extra", "objects")).compile_ns == 0


def test_reordered_pickles_are_read_by_name() -> None:
    """A sender whose class of the same name has its slots in another order."""
    work = build(Cell("pickle", "decode", "single", "reordered", "objects"))
    same = build(Cell("pickle", "decode", "single", "same", "objects"))
    assert work.argument != same.argument
    assert pickle.loads(work.argument) == pickle.loads(same.argument)


def test_a_value_of_another_type_is_found() -> None:
    """True is not 1, and 1 is not 1.0."""
    values = SHAPES["single"].values()
    for name, wrong in (("active", int(values["active"])), ("vy", -1), ("id", 7.0)):
        with pytest.raises(ValueError, match=name):
            check_object(instance(Particle, values | {name: wrong}), values, Particle)


def test_a_column_of_another_dtype_is_found() -> None:
    """Columns are compared by their dtypes as well."""
    columns = columns_of(SHAPES["batch-10"].values(), Particle)
    check_columns(dict(columns), columns)
    with pytest.raises(ValueError, match="cell"):
        check_columns(columns | {"cell": columns["cell"].astype("i8")}, columns)
    with pytest.raises(ValueError, match="columns"):
        check_columns({"id": columns["id"]}, columns)


def test_members_say_what_fields_hold() -> None:
    """The kinds that the rivals' schemas are made of."""
    story = members(SHAPES["story"].cls)
    assert story["author"].is_optional
    assert story["tags"].element.what == "text"
    assert story["chapters"].element.record.__name__ == "Chapter"
    assert members(Particle)["vx"].is_single
    assert not members(Particle)["x"].is_single
    assert members(Batch)["particles"].holds_records

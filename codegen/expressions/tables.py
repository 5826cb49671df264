"""Many derivations of one shape over one record, and many predicates at once.

A source that many receivers ask the same of, each with values of its own, asks once (streams/shapes.py):
`Table` keeps the values by column, and compiled code compares eight rows at a time. Where all that is asked
is that a number or a text is one row's, `Index` finds the rows without asking the others. Predicates of
several shapes are fused: what they have in common is computed once, and the answer is a bit for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from echo_core._c import expressions
from echo_core.codegen.conversion import Tier, have_done
from echo_core.codegen.expressions.emit import emit_judge, emit_table, emit_text
from echo_core.codegen.expressions.lowering import lower
from echo_core.codegen.expressions.operations import Op
from echo_core.codegen.expressions.predicates import GENERATOR_VERSION
from echo_core.codegen.expressions.program import Program
from echo_core.codegen.expressions.sorts import STRINGS, Sort, Value
from echo_core.codegen.expressions.wire import Derivation
from echo_core.codegen.machine.store import load_code
from echo_core.errors import FormatError, unexpected
from echo_core.formats.format import Format


def _room_for(rows: int) -> tuple[bytearray, npt.NDArray[np.uint32]]:
    """Room for numbers of rows. C code is given the bytes, as opening an array takes it longer."""
    room = bytearray(4 * rows)
    return room, np.frombuffer(room, np.uint32)


class Table:
    """Rows of parameters of one shape, judged together. A row is a number from 0 on."""

    def __init__(self, derivation: Derivation, format_: Format, tier: Tier = "auto") -> None:
        """The derivation has one condition; its values are those of no row."""
        if derivation.condition is None or derivation.change is not None:
            raise unexpected(FormatError, "a derivation with a condition alone", "another")
        self.program = lower([(derivation.tree, [derivation.condition])], format_)
        self._table = expressions.Table(self.program.native(), format_.size_bytes)
        self._room, self._rows = _room_for(0)
        have_done(self.compile, tier)

    def compile(self) -> None:
        """Installs compiled code; CompileError where vectors cannot, as with texts."""
        identity = GENERATOR_VERSION + f"{self.program.record_size}\n{self.program.text()}".encode()
        loaded = load_code("expressions in a table", identity, lambda: emit_table(self.program), ["table"])
        self._table.install(loaded.addresses["table"], loaded)

    def put(self, row: int, values: Sequence[Value]) -> None:
        """What a row compares with; it is there from the next event on."""
        self._table.put(row, self.program.snapshot(list(values)))
        if len(self._rows) < 64 * self._table.words:
            self._room, self._rows = _room_for(64 * self._table.words)

    def remove(self, row: int) -> None:
        """Takes a row out."""
        self._table.remove(row)

    def rows(self, record: bytes) -> npt.NDArray[np.uint32]:
        """The rows that a record passes, ascending; valid until the next call."""
        return self._rows[: self._table.rows(record, self._room)]

    @property
    def native(self) -> expressions.Table:
        """What finds the rows; a call less for whoever has room for them."""
        return self._table

    @property
    def interpreted(self) -> int:
        """How many events no compiled code could judge."""
        return self._table.interpreted


class Fused:
    """Several conditions over the records of one format: a bit for each."""

    def __init__(self, derivations: Sequence[Derivation], format_: Format, tier: Tier = "auto") -> None:
        """Each has a condition alone, and nothing that is remembered."""
        parts: list[tuple[Any, list[int]]] = []
        for derivation in derivations:
            if derivation.condition is None or derivation.change is not None:
                raise unexpected(FormatError, "derivations with a condition alone", "another")
            parts.append((derivation.tree, [derivation.condition]))
        self.program: Program = lower(parts, format_)
        if self.program.states:
            raise unexpected(FormatError, "conditions that remember nothing", f"{self.program.states} states")
        values = [value for derivation in derivations for value in derivation.values]
        self.judge = expressions.Judge(
            self.program.native(),
            self.program.snapshot(values),
            format_.size_bytes,
            format_.is_fixed,
            None,
            1,
            0,
        )
        self.mask = self.judge.mask
        have_done(self.compile, tier)

    def compile(self) -> None:
        """Installs compiled code."""
        text = f"{self.program.record_size} {self.program.roots}\n{self.program.text()}"
        identity = GENERATOR_VERSION + bytes(self.program.pool) + b"\0" + text.encode()
        loaded = load_code("fused expressions", identity, lambda: emit_judge(self.program), ["judge"])
        self.judge.install(loaded.addresses["judge"], 0, 0, loaded)


class Index:
    """The rows of a shape that only asks whether a value is a row's: `id == wanted`, `name == wanted`.

    Texts are found by a digest of them, and compared.
    """

    def __init__(self, derivation: Derivation, format_: Format, tier: Tier = "auto") -> None:
        """FormatError where the shape asks anything else; see `is_index`."""
        if not is_index(derivation):
            raise unexpected(
                FormatError,
                "a comparison of an integer, a member or a text with a parameter",
                "another shape",
            )
        tree = derivation.tree
        assert derivation.condition is not None
        root = tree.nodes[derivation.condition]
        value, parameter = (root.a, root.b) if tree.nodes[root.b].op is Op.PARAMETER else (root.b, root.a)
        self.program = lower([(tree, [value])], format_)
        self._asked = lower([(tree, [parameter])], format_)  # what a row's value is to this sender
        self._index = expressions.Index(self.program.native(), format_.size_bytes)
        self._room, self._rows = _room_for(0)
        have_done(self.compile, tier)

    def compile(self) -> None:
        """Installs compiled code."""
        identity = GENERATOR_VERSION + f"{self.program.record_size}\n{self.program.text()}".encode()
        is_text = self.program.roots[0][1] in STRINGS
        kind, emit = ("texts in an index", emit_text) if is_text else ("expressions in an index", emit_judge)
        loaded = load_code(kind, identity, lambda: emit(self.program), ["judge"])
        self._index.install(loaded.addresses["judge"], loaded)

    def put(self, row: int, values: Sequence[Value]) -> None:
        """What a row compares with; it is there from the next event on."""
        self._index.put(row, self._asked.snapshot(list(values)))
        if len(self._rows) < self._index.room:
            self._room, self._rows = _room_for(self._index.room)

    def remove(self, row: int) -> None:
        """Takes a row out."""
        self._index.remove(row)

    def rows(self, record: bytes) -> npt.NDArray[np.uint32]:
        """The rows that a record passes, in no order; valid until the next call."""
        return self._rows[: self._index.rows(record, self._room)]

    @property
    def native(self) -> expressions.Index:
        """What finds the rows; a call less for whoever has room for them."""
        return self._index


_INDEXED = STRINGS | {Sort.INT, Sort.ENUM}


def is_index(derivation: Derivation) -> bool:
    """Whether all that is asked is that an integer, a member or a text equals a parameter."""
    if derivation.condition is None or derivation.change is not None:
        return False
    tree = derivation.tree
    root = tree.nodes[derivation.condition]
    if root.op is not Op.EQ:
        return False
    both = tree.nodes[root.a], tree.nodes[root.b]
    asked = [node for node in both if node.op is Op.PARAMETER]
    values = [node for node in both if node.is_place]
    return len(asked) == len(values) == 1 and all(node.sort in _INDEXED for node in both)


def has_rows(derivation: Derivation, program: Program) -> bool:
    """Whether its parameters can be a row of a table or an index: what came before does not count there."""
    is_alone = derivation.condition is not None and derivation.change is None
    is_unlimited = derivation.every == 1 and derivation.min_interval_ns == 0
    are_numbers = all(slot.sort not in STRINGS for slot in program.slots)
    if not (is_alone and is_unlimited and program.slots) or program.states:
        return False
    return are_numbers or is_index(derivation)

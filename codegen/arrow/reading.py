"""From records in this machine's byte order to Arrow arrays, without a Python object for each value.

The records have passed a conversion, which checked every slot, so slots are followed without checks. Only
what a conversion does not check is checked here: the UTF-8 of chars and the numbers of an enumeration.
docs/wire-format.md specifies the layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from echo_core.codegen.arrow.blocks import ByteBlock, Numbers, Places, are_long, offsets_of, spread
from echo_core.codegen.arrow.leaves import Array, binary, expanded, fitted, leaf_array, string
from echo_core.codegen.arrow.package import pyarrow
from echo_core.codegen.arrow.schema import arrow_schema, demand_schema, leaf_names
from echo_core.formats.abi import NATIVE
from echo_core.formats.comparing.matching import counted_by
from echo_core.formats.format import Format
from echo_core.formats.leaves import scalar_dtype
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Field,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
    has_parts,
)

_ALIGNMENT = 16  # of records in a block, so that numbers are aligned as in their record
_PADS = [bytes(n) for n in range(_ALIGNMENT)]
_Counts = Mapping[str, Numbers]


class ArrowReader:
    """Records of one format, which is this machine's, to Arrow batches."""

    def __init__(self, format_: Format, schema: Any = None) -> None:
        """`schema`: the fields that are wanted, and their types; FormatError if it does not fit."""
        if schema is not None:
            demand_schema(format_, schema)
        self.asked = schema
        self.schema = arrow_schema(format_) if schema is None else schema
        self.columns = None if schema is None else tuple(leaf_names(format_.record, schema))
        """The names of those that `of_columns` takes; None for all."""
        self._row = pyarrow().struct(list(self.schema))
        self._record = format_.record
        self._word = f"u{format_.pointer_size}"
        self._pointer_size = format_.pointer_size

    def of_records(self, records: Iterable[bytes]) -> Array:
        """A batch of records that vary in size."""
        parts = list(records)
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        pads = -sizes % _ALIGNMENT
        padded = [part for pair in zip(parts, map(_PADS.__getitem__, pads), strict=True) for part in pair]
        starts = np.cumsum(sizes + pads) - (sizes + pads)
        block = ByteBlock(np.frombuffer(b"".join(padded), np.uint8))
        places = Places(len(parts), irregular=starts, base=starts)
        return _batch(self._record_array(self._record, self._row, block, places, self._record.name))

    def of_columns(self, columns: Mapping[str, Numbers], count: int) -> Array:
        """A batch of what `ColumnDecoder` has made: numbers are not copied again."""
        return _batch(self._of_columns(self._record, self._row, columns, count, ""))

    def _of_columns(
        self, record: Record, target: Any, columns: Mapping[str, Numbers], count: int, prefix: str
    ) -> Array:
        parts: list[Array] = []
        for field, wanted in _chosen(record, target):
            type_, name = field.type, prefix + field.name
            if isinstance(type_, Record):
                parts.append(self._of_columns(type_, wanted, columns, count, f"{name}."))
                continue
            block = ByteBlock(columns[name].reshape(-1).view(np.uint8))
            at, path = Places(count, 0, type_.size), f"{self._record.name}.{name}"
            parts.append(self._value(type_, wanted, block, at, path, {}))
        return _struct(target, parts, count)

    def _value(
        self, type_: Type, target: Any, block: ByteBlock, at: Places, path: str, counts: _Counts
    ) -> Array:
        match type_:
            case Scalar() | Enumeration():
                return leaf_array(type_, target, block, at, path)
            case Record():
                return self._record_array(type_, target, block, at, path)
            case Nullable():
                return self._optional(type_, target, block, at, path, counts)
            case StaticArray():
                return self._array(type_, target, block, at, path)
            case Sequence():
                return self._sequence(type_, target, block, at, path, counts)
            case Text():
                return fitted(self._text(block, at, path), target, path)
            case Blob():
                sizes = self._words(block, at, 1)
                made = binary(block.runs(self._starts(block, at), sizes), sizes, pyarrow().binary())
                return fitted(made, target, path)

    def _record_array(self, record: Record, target: Any, block: ByteBlock, at: Places, path: str) -> Array:
        counting = counted_by(record)
        counts = {
            field.name: block.numbers(at.moved(field.offset), scalar_dtype(field.type, NATIVE.byte_order))
            for field in record.fields
            if field.name in counting and isinstance(field.type, Scalar)
        }
        parts = [
            self._value(field.type, wanted, block, at.moved(field.offset), f"{path}.{field.name}", counts)
            for field, wanted in _chosen(record, target)
        ]
        return _struct(target, parts, at.count)

    def _optional(
        self, type_: Nullable, target: Any, block: ByteBlock, at: Places, path: str, counts: _Counts
    ) -> Array:
        element = type_.element
        if type_.by_reference:
            present = block.numbers(at, self._word) != 0
        else:
            present = block.numbers(at.moved(element.size), "u1") != 0
        if present.all():
            return self._value(element, target, block, at, path, counts)
        there = {name: numbers[present] for name, numbers in counts.items()}
        return expanded(self._value(element, target, block, at.where(present), path, there), present)

    def _array(self, type_: StaticArray, target: Any, block: ByteBlock, at: Places, path: str) -> Array:
        number, step = math.prod(type_.shape), type_.element.size
        base = _repeated(at.base, number)
        if at.irregular is None and at.step == number * step:
            inner = Places(at.count * number, at.first, step, None, base)
        else:
            each = spread(at.each, np.full(at.count, number), step)
            inner = Places(at.count * number, irregular=each, base=base)
        dimensions = [np.full(at.count, length) for length in type_.shape]
        elements = self._value(type_.element, _of_elements(target, type_), block, inner, path, {})
        return _nested(target, elements, dimensions)

    def _sequence(
        self, type_: Sequence, target: Any, block: ByteBlock, at: Places, path: str, counts: _Counts
    ) -> Array:
        dimensions: list[Numbers] = []
        words = 0
        for length in type_.shape:
            if isinstance(length, str):
                dimensions.append(counts[length].astype(np.int64))
            elif length is None:
                words += 1
                dimensions.append(self._words(block, at, words))
            else:
                dimensions.append(np.full(at.count, length))
        numbers = np.prod(dimensions, axis=0, dtype=np.int64)
        starts, inner = self._starts(block, at), _of_elements(target, type_)
        elements = self._elements(type_.element, inner, block, at.base, starts, numbers, path)
        return _nested(target, elements, dimensions)

    def _elements(
        self,
        type_: Type,
        target: Any,
        block: ByteBlock,
        base: Numbers | None,
        starts: Numbers,
        numbers: Numbers,
        path: str,
    ) -> Array:
        total = int(numbers.sum())
        if has_parts(type_):
            places = Places(
                total, irregular=spread(starts, numbers, type_.size), base=_repeated(base, numbers)
            )
        elif are_long(len(starts), total * type_.size):
            block, places = ByteBlock(block.runs(starts, numbers * type_.size)), Places(total, 0, type_.size)
        else:
            places = Places(total, irregular=spread(starts, numbers, type_.size))
        return self._value(type_, target, block, places, path, {})

    def _words(self, block: ByteBlock, at: Places, index: int) -> Numbers:
        return block.numbers(at.moved(index * self._pointer_size), self._word).astype(np.int64)

    def _starts(self, block: ByteBlock, at: Places) -> Numbers:
        assert at.base is not None
        return at.base + self._words(block, at, 0)

    def _text(self, block: ByteBlock, at: Places, path: str) -> Array:
        starts = self._starts(block, at)
        sizes = block.nuls[np.searchsorted(block.nuls, starts)] - starts if at.count else starts
        return string(block.runs(starts, sizes), sizes, path)


def _batch(structs: Array) -> Array:
    """Also of records without fields, of which a batch of columns would not know how many there are."""
    return pyarrow().RecordBatch.from_struct_array(structs)


def _chosen(record: Record, target: Any) -> list[tuple[Field, Any]]:
    """The fields of a record that a struct has, and their types there."""
    field_by_name = {field.name: field for field in record.fields}
    return [(field_by_name[wanted.name], wanted.type) for wanted in target]


def _struct(target: Any, parts: list[Array], count: int) -> Array:
    pa = pyarrow()
    if not parts:
        return pa.array([{}] * count, target)
    return pa.StructArray.from_arrays(parts, fields=list(target))


def _of_elements(target: Any, type_: StaticArray | Sequence) -> Any:
    """The type of the elements of nested lists."""
    for _ in type_.shape:
        target = target.value_type
    return target


def _repeated(base: Numbers | None, number: int | Numbers) -> Numbers | None:
    return None if base is None else np.repeat(base, number)


def _nested(target: Any, elements: Array, dimensions: list[Numbers]) -> Array:
    """The elements in nested lists, one level for each dimension."""
    pa = pyarrow()
    lists_of = [np.ones(len(dimensions[0]), np.int64)]  # the number of lists of each value, by level
    for lengths in dimensions:
        lists_of.append(lists_of[-1] * lengths)
    kinds = [target]
    for _ in dimensions[1:]:
        kinds.append(kinds[-1].value_type)
    for list_type, number, lengths in reversed(list(zip(kinds, lists_of[:-1], dimensions, strict=True))):
        offsets = pa.array(offsets_of(np.repeat(lengths, number)))
        elements = pa.ListArray.from_arrays(offsets, elements, type=list_type)
    return elements

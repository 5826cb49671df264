"""Converts records to Arrow columns, without a Python object for each value.

The records are in one block of memory, in this machine's byte order. They have passed a conversion, which
checked every slot, so slots are followed without checks. Only what a conversion does not check is checked
here: the UTF-8 of chars and the numbers of an enumeration. docs/wire-format.md specifies the layout.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import echo_core as echo
from echo_core.spark_eval.columns.schema import TypeNode, arrow_type, form, has_parts, kind

pa: Any = importlib.import_module("pyarrow")  # it comes without types
pc: Any = importlib.import_module("pyarrow.compute")

Numbers = np.ndarray[Any, Any]

ALIGNMENT = 16  # of records in the block, so that numbers are aligned as in their record
_LONG_RUN = 256  # average bytes from which copying runs is faster than indexing each item
_CODES = {
    "BOOL": "u1",
    "UINT": "u",
    "INT": "i",
    "FLOAT": "f",
    "COMPLEX": "c",
    "TIMESTAMP": "i",
    "DURATION": "i",
}


@dataclass(frozen=True)
class Places:
    """Where values begin: with a constant step, or at irregular places.

    `base` is the start of each value's record, to which its slots are relative; None if there are no slots.
    """

    count: int
    first: int = 0
    step: int = 0
    irregular: Numbers | None = None
    base: Numbers | None = None

    def moved(self, by: int) -> Places:
        if self.irregular is None:
            return Places(self.count, self.first + by, self.step, None, self.base)
        return Places(self.count, irregular=self.irregular + by, base=self.base)

    @cached_property
    def each(self) -> Numbers:
        if self.irregular is not None:
            return self.irregular
        return self.first + self.step * np.arange(self.count, dtype=np.int64)

    def where(self, mask: Numbers) -> Places:
        base = None if self.base is None else self.base[mask]
        return Places(int(mask.sum()), irregular=self.each[mask], base=base)


class ByteBlock:
    """A block of bytes from which values are gathered."""

    def __init__(self, data: Numbers) -> None:
        self.data = data

    @cached_property
    def nuls(self) -> Numbers:
        """The places of all zeros: a text ends at the first zero after its start."""
        return np.flatnonzero(self.data == 0)

    def numbers(self, at: Places, dtype: Any) -> Numbers:
        """A contiguous array of the values at these places."""
        dtype = np.dtype(dtype)
        if not at.count:
            return np.empty(0, dtype)
        if at.irregular is None:
            strided: Numbers = np.ndarray((at.count,), dtype, self.data.data, at.first, (at.step,))
            return np.ascontiguousarray(strided)
        size = dtype.itemsize
        if size & (size - 1) == 0 and not np.any(at.irregular & (size - 1)):
            whole = self.data[: len(self.data) // size * size].view(dtype)
            taken: Numbers = whole[at.irregular // size]
            return taken
        windows = np.lib.stride_tricks.sliding_window_view(self.data, size)
        gathered: Numbers = np.ascontiguousarray(windows[at.irregular]).view(dtype).ravel()
        return gathered

    def rows(self, at: Places, size: int) -> Numbers:
        """`size` bytes from each place, as rows."""
        rows: Numbers = self.numbers(at, f"V{size}").view(np.uint8).reshape(at.count, size)
        return rows

    def runs(self, starts: Numbers, sizes: Numbers) -> Numbers:
        """The concatenated bytes of all runs."""
        total = int(sizes.sum())
        if total >= _LONG_RUN * len(starts) > 0:
            ends = (starts + sizes).tolist()
            return np.concatenate([self.data[s:e] for s, e in zip(starts.tolist(), ends, strict=True)])
        return self.data[spread(starts, sizes, 1)]


def spread(starts: Numbers, counts: Numbers, step: int) -> Numbers:
    """For all i, `counts[i]` places from `starts[i]` on, `step` apart."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before * step, counts) + np.arange(int(counts.sum()), dtype=np.int64) * step


def offsets_of(counts: Numbers) -> Any:
    """Arrow offsets of lists or strings of these lengths."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return offsets


class ColumnReader:
    """Converts records of one format to Arrow arrays."""

    def __init__(self, format_: echo.Format) -> None:
        self._record: TypeNode = format_.record
        self._word = f"u{format_.pointer_size}"
        self._pointer_size = format_.pointer_size

    def read(self, data: Numbers, starts: Numbers | None, count: int) -> Any:
        """The struct array of `count` records, side by side or at `starts`."""
        size = self._record.size
        at = Places(count, 0, size) if starts is None else Places(count, irregular=starts, base=starts)
        return self._value(self._record, ByteBlock(data), at, self._record.name, {})

    def column(self, node: TypeNode, numbers: Numbers, path: str) -> Any:
        """The array of values without variable parts that lie side by side, as from `column_decoder`."""
        data = np.ascontiguousarray(numbers).view(np.uint8).ravel()
        return self._value(node, ByteBlock(data), Places(len(numbers), 0, node.size), path, {})

    def _value(
        self, node: TypeNode, block: ByteBlock, at: Places, path: str, counts: Mapping[str, Numbers]
    ) -> Any:
        match form(node):
            case "Record":
                return self._struct(node, block, at, path)
            case "Nullable":
                return self._optional(node, block, at, path, counts)
            case "StaticArray":
                return self._array(node, block, at, path)
            case "Sequence":
                return self._sequence(node, block, at, path, counts)
            case "Text":
                return self._text(block, at, path)
            case "Blob":
                sizes = self._words(block, at, 1)
                return binary(block.runs(self._starts(block, at), sizes), sizes, pa.binary())
            case "Enumeration":
                return names_of(node, block.numbers(at, f"i{node.size}"), path)
            case _:
                return _scalar(node, block, at, path)

    def _struct(self, node: TypeNode, block: ByteBlock, at: Places, path: str) -> Any:
        counting = _counting(node)
        counts = {
            field.name: block.numbers(at.moved(field.offset), f"{_CODES[kind(field.type)]}{field.type.size}")
            for field in node.fields
            if field.name in counting
        }
        columns = [
            self._value(field.type, block, at.moved(field.offset), f"{path}.{field.name}", counts)
            for field in node.fields
        ]
        if not columns:
            return pa.array([{}] * at.count, arrow_type(node))
        return pa.StructArray.from_arrays(columns, fields=list(arrow_type(node)))

    def _optional(
        self, node: TypeNode, block: ByteBlock, at: Places, path: str, counts: Mapping[str, Numbers]
    ) -> Any:
        element = node.element
        if form(element) in ("Text", "Blob", "Sequence"):
            present = block.numbers(at, self._word) != 0
        else:
            present = block.numbers(at.moved(element.size), "u1") != 0
        if present.all():
            return self._value(element, block, at, path, counts)
        there = {name: numbers[present] for name, numbers in counts.items()}
        return expanded(self._value(element, block, at.where(present), path, there), present)

    def _array(self, node: TypeNode, block: ByteBlock, at: Places, path: str) -> Any:
        number = math.prod(node.shape)
        step = node.element.size
        if at.irregular is None and at.step == number * step:
            inner = Places(at.count * number, at.first, step, None, _repeated(at.base, number))
        else:
            each = spread(at.each, np.full(at.count, number), step)
            inner = Places(at.count * number, irregular=each, base=_repeated(at.base, number))
        dimensions = [np.full(at.count, length) for length in node.shape]
        return _nested(node, self._value(node.element, block, inner, path, {}), dimensions)

    def _sequence(
        self, node: TypeNode, block: ByteBlock, at: Places, path: str, counts: Mapping[str, Numbers]
    ) -> Any:
        dimensions: list[Numbers] = []
        words = 0
        for length in node.shape:
            if isinstance(length, str):
                dimensions.append(counts[length].astype(np.int64))
            elif length is None:
                words += 1
                dimensions.append(self._words(block, at, words))
            else:
                dimensions.append(np.full(at.count, length))
        numbers = np.prod(dimensions, axis=0, dtype=np.int64)
        starts = self._starts(block, at)
        elements = self._elements(node.element, block, at.base, starts, numbers, path)
        return _nested(node, elements, dimensions)

    def _elements(
        self,
        node: TypeNode,
        block: ByteBlock,
        base: Numbers | None,
        starts: Numbers,
        numbers: Numbers,
        path: str,
    ) -> Any:
        total = int(numbers.sum())
        if has_parts(node):
            places = Places(total, 0, 0, spread(starts, numbers, node.size), _repeated(base, numbers))
        elif total * node.size >= _LONG_RUN * len(starts):
            block, places = ByteBlock(block.runs(starts, numbers * node.size)), Places(total, 0, node.size)
        else:
            places = Places(total, irregular=spread(starts, numbers, node.size))
        return self._value(node, block, places, path, {})

    def _words(self, block: ByteBlock, at: Places, index: int) -> Numbers:
        return block.numbers(at.moved(index * self._pointer_size), self._word).astype(np.int64)

    def _starts(self, block: ByteBlock, at: Places) -> Numbers:
        assert at.base is not None
        return at.base + self._words(block, at, 0)

    def _text(self, block: ByteBlock, at: Places, path: str) -> Any:
        starts = self._starts(block, at)
        sizes = block.nuls[np.searchsorted(block.nuls, starts)] - starts if at.count else starts
        return string(block.runs(starts, sizes), sizes, path)


def _repeated(base: Numbers | None, number: int | Numbers) -> Numbers | None:
    return None if base is None else np.repeat(base, number)


def _counting(record: TypeNode) -> set[str]:
    """The names of fields that count sequences."""
    types = [f.type.element if form(f.type) == "Nullable" else f.type for f in record.fields]
    return {n for t in types if form(t) == "Sequence" for n in t.shape if isinstance(n, str)}


def _nested(node: TypeNode, elements: Any, dimensions: list[Numbers]) -> Any:
    """Wrap elements in nested lists, one level per dimension."""
    lists_of = [np.ones(len(dimensions[0]), np.int64)]  # the number of lists of each value, by level
    for lengths in dimensions:
        lists_of.append(lists_of[-1] * lengths)
    kinds = [arrow_type(node)]
    for _ in dimensions[1:]:
        kinds.append(kinds[-1].value_type)
    for list_type, number, lengths in reversed(list(zip(kinds, lists_of[:-1], dimensions, strict=True))):
        offsets = pa.array(offsets_of(np.repeat(lengths, number)))
        elements = pa.ListArray.from_arrays(offsets, elements, type=list_type)
    return elements


def expanded(values: Any, present: Numbers) -> Any:
    """Values where `present` is true, nulls elsewhere."""
    if present.all():
        return values
    indices = np.cumsum(present) - 1
    return values.take(pa.array(indices, pa.int64(), mask=~present))


def _scalar(node: TypeNode, block: ByteBlock, at: Places, path: str) -> Any:
    match kind(node):
        case "CHARS":
            return _chars(block.rows(at, node.size), path)
        case "BYTES":
            return binary(block.rows(at, node.size).ravel(), np.full(at.count, node.size), pa.binary())
        case "UUID":
            return _uuids(block.rows(at, 16))
        case "BOOL":
            return pa.array(block.numbers(at, "u1") != 0)
        case other:
            return _number(node, block.numbers(at, f"{_CODES[other]}{node.size}"))


def _number(node: TypeNode, numbers: Numbers) -> Any:
    type_ = arrow_type(node)
    match kind(node), node.size:
        case "UINT", 8:
            wide = np.zeros((len(numbers), 2), "<u8")
            wide[:, 0] = numbers
            return pa.Array.from_buffers(type_, len(numbers), [None, pa.py_buffer(wide)])
        case "COMPLEX", _:
            halves = [pa.array(np.ascontiguousarray(half)) for half in (numbers.real, numbers.imag)]
            return pa.StructArray.from_arrays(halves, fields=list(type_))
        case "TIMESTAMP" | "DURATION", _:
            return pa.array(microseconds(numbers)).cast(type_)
        case _:
            return pa.array(numbers.astype(type_.to_pandas_dtype(), copy=False))


def microseconds(nanoseconds: Numbers) -> Numbers:
    """Times with Spark's precision, truncated towards zero."""
    cut: Numbers = nanoseconds // 1000 + ((nanoseconds < 0) & (nanoseconds % 1000 != 0))
    return cut


def binary(data: Numbers, sizes: Numbers, type_: Any) -> Any:
    """A binary or string array of adjacent values."""
    buffers = [None, pa.py_buffer(offsets_of(sizes)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(type_, len(sizes), buffers)


def string(data: Numbers, sizes: Numbers, path: str) -> Any:
    """A string array; WireError if a value is not UTF-8."""
    return _demand_utf8(binary(data, sizes, pa.string()), data, path)


def _demand_utf8(strings: Any, data: Numbers, path: str) -> Any:
    if len(data) and data.max() >= 0x80:
        try:
            strings.validate(full=True)
        except pa.ArrowInvalid:
            msg = "Expected UTF-8, got other bytes"
            raise echo.WireError(msg, path=path) from None
    return strings


def _chars(rows: Numbers, path: str) -> Any:
    """Text up to the first NUL, or the whole field.

    Arrow removes the zeros at the end in a tenth of the time that numpy takes to find the first one.
    """
    count, size = rows.shape
    made = pc.ascii_rtrim(binary(rows.ravel(), np.full(count, size), pa.string()), characters="\0")
    kept = _characters_of(made)
    if len(kept) and not kept.all():  # what is behind the end is not zero everywhere
        within = np.logical_and.accumulate(rows != 0, axis=1)
        return string(rows[within], within.sum(axis=1), path)
    return _demand_utf8(made, kept, path)


def _characters_of(strings: Any) -> Numbers:
    _, offsets, data = strings.buffers()
    if not len(strings) or data is None:
        return np.empty(0, np.uint8)
    return np.frombuffer(data, np.uint8)[: np.frombuffer(offsets, np.int32)[len(strings)]]


_DIGITS = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)
_HYPHENS = (8, 13, 18, 23)
_PLACES = np.array([i for i in range(36) if i not in _HYPHENS])


def _uuids(rows: Numbers) -> Any:
    text = np.full((len(rows), 36), ord("-"), np.uint8)
    text[:, _PLACES] = _DIGITS[rows].reshape(len(rows), 32)
    return binary(text.ravel(), np.full(len(rows), 36), pa.string())


def names_of(node: TypeNode, numbers: Numbers, path: str) -> Any:
    """The names of members; WireError for a number without a name."""
    members = sorted(node.members, key=lambda member: member[1])
    known = np.array([number for _, number in members], np.int64)
    indices = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    unknown = known[indices] != numbers
    if unknown.any():
        msg = f"Expected a number of `{node}`, got {numbers[int(unknown.argmax())]}"
        raise echo.WireError(msg, path=path)
    return pa.array([name for name, _ in members], pa.string()).take(pa.array(indices))

"""Derivations as bytes, which is all that travels of an expression: never source, code or pickles.

Little endian; `u8` to `u64` are unsigned, a *block* is a u32 length and so many bytes.

    u8      version, 1
    u8      flags: 1 there is a condition, 2 there is what has to change, 4 there are outputs
    u16     entries       of the tree, 1 to 256
    u16     parameters
    u16     constants
    u16     outputs
    u16     every
    u64     min_interval_ns
    block   metadata of the view: the fields that are read, with former names and defaults
    block   metadata of the output, empty without outputs
    8 each  entries: u8 operation, u8 sort, three u16 operands; 0xffff is none
    each    constants: u8 sort, u8 is a set, u16 values, blocks of values
    u16     the condition, if any
    u16     what has to change, if anything
    u16     each output's entry
    u8      each parameter's sort
    block   each parameter's value

An entry's operands are earlier entries, or numbers of fields, loops, parameters and constants. There is one
form for equal derivations (canonical.py), and bytes that are not it are refused: reading writes them again.
So equal derivations have equal ids wherever they were made.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from echo_core.codegen.expressions import limits
from echo_core.codegen.expressions.canonical import canonical
from echo_core.codegen.expressions.operations import NONE, Op
from echo_core.codegen.expressions.sorts import Sort, Value, pack_value, unpack_value
from echo_core.codegen.expressions.tree import Constant, Node, Refusal, Tree
from echo_core.errors import EchoError, WireError, unexpected
from echo_core.formats.abi import Abi
from echo_core.formats.format import Format
from echo_core.formats.layout import Layout, place
from echo_core.formats.metadata import from_metadata, to_metadata
from echo_core.formats.types import Field, Kind, Scalar, Type

VERSION = 1
ID_BYTES = 16

_HEADER = struct.Struct("<BBHHHHHQ")
_ENTRY = struct.Struct("<BBHHH")
_CONSTANT = struct.Struct("<BBH")
_CONDITION, _CHANGE, _OUTPUTS = 1, 2, 4

COMPUTED: dict[Sort, Type] = {  # the type of a field that is computed, by what it is
    Sort.BOOL: Scalar(Kind.BOOL, 1),
    Sort.INT: Scalar(Kind.INT, 8),
    Sort.UINT: Scalar(Kind.UINT, 8),
    Sort.FLOAT: Scalar(Kind.FLOAT, 8),
    Sort.TIME: Scalar(Kind.TIMESTAMP, 8),
    Sort.DURATION: Scalar(Kind.DURATION, 8),
}

_ALIGNMENTS = (8, 4, 2, 1, 16)  # what machines have as the ceiling of a member's

_OPERATIONS = {int(op): op for op in Op}
_SORTS = {int(sort): sort for sort in Sort if sort < Sort.RECORD}  # those that constants and parameters have


@dataclass(frozen=True, slots=True)
class Derivation:
    """What a receiver asks of a source's events, in its canonical form: pure data.

    `condition`, `change` and `outputs` are nodes of the tree; what has to change is a comparison with what is
    remembered. `values` are the parameters', by number.
    """

    tree: Tree
    condition: int | None
    change: int | None
    outputs: tuple[int, ...]
    output: Format | None
    every: int
    min_interval_ns: int
    values: tuple[Value, ...]

    @property
    def conditions(self) -> tuple[int, ...]:
        """What has to hold of an event, in this order."""
        return tuple(number for number in (self.condition, self.change) if number is not None)

    def to_bytes(self) -> bytes:
        """The form that travels."""
        return _shape(self) + _values(self)

    @property
    def shape_id(self) -> bytes:
        """The same for all that differ in nothing but parameters and rates."""
        return blake2b(_shape(self, with_rates=False), digest_size=ID_BYTES, person=b"echo-shape-1").digest()

    @property
    def id(self) -> bytes:
        """The same for equal derivations."""
        return blake2b(self.to_bytes(), digest_size=ID_BYTES, person=b"echo-derived-1").digest()


def _block(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _shape(it: Derivation, *, with_rates: bool = True) -> bytes:
    tree = it.tree
    flags = (it.condition is not None) | (it.change is not None) << 1 | bool(it.outputs) << 2
    rates = (it.every, it.min_interval_ns) if with_rates else (1, 0)
    counts = len(tree.nodes), len(tree.parameters), len(tree.constants), len(it.outputs)
    view = Layout("little", 8, tree.record)
    return b"".join(
        [
            _HEADER.pack(VERSION, flags, *counts, *rates),
            _block(to_metadata(view)),
            _block(it.output.metadata if it.output is not None else b""),
            *(_ENTRY.pack(node.op, node.sort, node.a, node.b, node.c) for node in tree.nodes),
            *(_packed_constant(constant) for constant in tree.constants),
            *(struct.pack("<H", number) for number in (*it.conditions, *it.outputs)),
            *(struct.pack("<B", sort) for sort in tree.parameters),
        ]
    )


def _packed_constant(constant: Constant) -> bytes:
    head = _CONSTANT.pack(constant.sort, constant.is_set, len(constant.values))
    return head + b"".join(_block(pack_value(constant.sort, value)) for value in constant.values)


def _values(it: Derivation) -> bytes:
    sorts = zip(it.tree.parameters, it.values, strict=True)
    return b"".join(_block(pack_value(sort, value)) for sort, value in sorts)


# ---------------------------------------------------------------------------
# Reading what a peer has sent


def from_bytes(data: bytes) -> Derivation:
    """The derivation that these bytes are; WireError for all others, with the entry where there is one."""
    if len(data) > limits.MAX_TREE_BYTES:
        raise unexpected(WireError, f"a derivation of at most {limits.MAX_TREE_BYTES} bytes", len(data))
    reader = _Reader(data)
    derivation = _read(reader)
    reader.demand_end()
    if _canonical(derivation).to_bytes() != data:
        raise unexpected(WireError, "a derivation in its canonical form", "another form of it")
    return derivation


def _canonical(it: Derivation) -> Derivation:
    made = canonical(it.tree, (*it.conditions, *it.outputs))
    roots = list(made.roots)
    condition = roots.pop(0) if it.condition is not None else None
    change = roots.pop(0) if it.change is not None else None
    values = tuple(it.values[old] for old in made.parameters)
    return Derivation(
        made.tree, condition, change, tuple(roots), it.output, it.every, it.min_interval_ns, values
    )


class _Reader:
    """Takes parts off the front of bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self.take(form.size))

    def take(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        if len(part) < size:
            raise unexpected(WireError, f"{size} more bytes of a derivation", len(part))
        self._at += size
        return part

    def block(self) -> bytes:
        (size,) = struct.unpack("<I", self.take(4))
        return self.take(size)

    def number(self) -> int:
        (number,) = struct.unpack("<H", self.take(2))
        return int(number)

    def demand_end(self) -> None:
        if self._at != len(self._data):
            raise unexpected(WireError, f"a derivation of {self._at} bytes", len(self._data))


def _read(reader: _Reader) -> Derivation:
    version, flags, entries, parameters, constants, outputs, every, interval = reader.unpack(_HEADER)
    if version != VERSION:
        raise unexpected(WireError, f"version {VERSION} of derivations", version)
    _demand_most("entries", entries, limits.MAX_NODES)
    _demand_most("parameters", parameters, limits.MAX_PARAMETERS)
    _demand_most("constants", constants, limits.MAX_NODES)
    _demand_most("outputs", outputs, limits.MAX_OUTPUTS)
    if flags > 7 or every < 1 or interval >= 2**63 or bool(flags & _OUTPUTS) != bool(outputs):
        raise unexpected(WireError, "flags and rates of a derivation", f"{flags}, {every}, {interval}")
    view, output = reader.block(), reader.block()
    tree = Tree(from_metadata(view).record)
    found = [reader.unpack(_ENTRY) for _ in range(entries)]
    for _ in range(constants):
        _add_constant(tree, reader)
    roots = [reader.number() for _ in range(bool(flags & _CONDITION) + bool(flags & _CHANGE) + outputs)]
    tree.parameters.extend(_sort(reader.take(1)[0]) for _ in range(parameters))
    values = tuple(_value(sort, reader.block()) for sort in tree.parameters)
    demand_bounded(tree.parameters, values, WireError)
    _add_entries(tree, found)
    _demand_roots(tree, roots, flags)
    condition = roots.pop(0) if flags & _CONDITION else None
    change = roots.pop(0) if flags & _CHANGE else None
    format_ = Format.from_metadata(output) if flags & _OUTPUTS else None
    if format_ is not None:
        _demand_outputs(tree, roots, format_)
    if output and format_ is None:
        raise unexpected(WireError, "no output without outputs", f"{len(output)} bytes")
    return Derivation(tree, condition, change, tuple(roots), format_, every, interval, values)


def demand_bounded(sorts: Sequence[Sort], values: Sequence[Value], error: type[EchoError]) -> None:
    """No more bytes of parameters than a derivation may have, also where others are set later."""
    size = sum(len(pack_value(*pair)) for pair in zip(sorts, values, strict=True))
    if size > limits.MAX_CONSTANT_BYTES:
        raise unexpected(error, f"parameters of at most {limits.MAX_CONSTANT_BYTES} bytes", size)


def _demand_most(what: str, count: int, most: int) -> None:
    if count > most:
        raise unexpected(WireError, f"at most {most} {what}", count)


def _sort(number: int) -> Sort:
    sort = _SORTS.get(number)
    if sort is None:
        raise unexpected(WireError, "the number of a sort with values", number)
    return sort


def _value(sort: Sort, data: bytes) -> Value:
    value = unpack_value(sort, data)
    if value is None:
        raise unexpected(WireError, f"a value of `{sort}`", f"{data[:40]!r}")
    return value


def _add_constant(tree: Tree, reader: _Reader) -> None:
    sort, is_set, count = reader.unpack(_CONSTANT)
    _demand_most("values in one set", count, limits.MAX_SET_MEMBERS)
    if is_set > 1 or (not is_set and count != 1):
        raise unexpected(WireError, "a constant with one value, or a set", f"{count}")
    values = tuple(_value(_sort(sort), reader.block()) for _ in range(count))
    before = len(tree.constants)
    try:
        if tree.constant(Constant(_sort(sort), values, bool(is_set))) != before:
            raise unexpected(WireError, "each constant once", "one twice")
    except Refusal as refusal:
        raise WireError(str(refusal)) from None


def _add_entries(tree: Tree, entries: list[tuple[int, ...]]) -> None:
    for i, (op, sort, a, b, c) in enumerate(entries):
        where = f"entry {i}"
        known = _OPERATIONS.get(op)
        if known is None:
            raise unexpected(WireError, "the number of an operation", op, path=where)
        try:
            number = tree.add(known, a, b, c)
        except Refusal as refusal:
            raise WireError(str(refusal), path=where) from None
        except EchoError as error:
            raise WireError(str(error), path=where) from None
        if number != i:
            raise unexpected(WireError, "each entry once", f"entry {number} again", path=where)
        if tree.nodes[i].sort != sort:
            raise unexpected(WireError, f"sort {tree.nodes[i].sort:d}", sort, path=where)
        if tree.nodes[i].op is Op.ELEMENT:
            tree.loops += 1
    try:
        tree.check_cost()
    except Refusal as refusal:
        raise WireError(str(refusal)) from None


def _demand_roots(tree: Tree, roots: list[int], flags: int) -> None:
    conditions = bool(flags & _CONDITION) + bool(flags & _CHANGE)
    for i, root in enumerate(roots):
        if root >= len(tree.nodes) or tree.nodes[root].loops:
            raise unexpected(WireError, "an entry outside of loops", root, path=f"root {i}")
        if i < conditions and tree.nodes[root].sort is not Sort.BOOL:
            raise unexpected(WireError, "a condition", tree.nodes[root].describe(), path=f"root {i}")


def _demand_outputs(tree: Tree, outputs: list[int], format_: Format) -> None:
    """A field for each output, and the type that a computed one has; conversions compare those taken over.

    They lie as close as they do for whoever derives: a source makes no records that are mostly padding.
    """
    if len(format_.fields) != len(outputs):
        raise unexpected(WireError, f"{len(outputs)} fields of the output", len(format_.fields))
    for root, field in zip(outputs, format_.fields, strict=True):
        if taken_over(tree, root) is None and COMPUTED.get(tree.nodes[root].sort) != field.type:
            raise unexpected(
                WireError, f"the type of {tree.nodes[root].describe()}", str(field.type), path=field.name
            )
    if not any(_is_placed(format_, most) for most in _ALIGNMENTS):
        raise unexpected(
            WireError, "the output's fields as close as they can lie", f"{format_.size_bytes} bytes of them"
        )


def _is_placed(format_: Format, max_alignment: int) -> bool:
    """Whether a machine with this ceiling on alignment gives the fields these places."""
    record = format_.record
    abi = Abi("", format_.byte_order, format_.pointer_size, format_.pointer_size, max_alignment)
    placed = place(record.name, record.fields, abi)
    return (placed.size, placed.alignment) == (record.size, record.alignment) and all(
        field.offset == at.offset for field, at in zip(record.fields, placed.fields, strict=True)
    )


def taken_over(tree: Tree, root: int) -> Field | None:
    """The field of the event that a node is, as it is."""
    node = tree.nodes[root]
    return tree.record.fields[node.b] if node.op is Op.FIELD and node.a == NONE else None


def describe(node: Node) -> str:
    """An entry for a message about a tree whose text nobody here has."""
    return f"{node.op.name.lower()}({', '.join(str(it) for it in (node.a, node.b, node.c) if it != NONE)})"

"""Which fields of an event a program reads, and where an event of a class keeps them.

An event that holds its record is judged by that. Of one with slots the fields that are read are written to a
record of nothing else, by the functions that encode it. Any other event is encoded first; so is one with a
value of a subclass, or of a type that only Python code knows to write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from echo_core.codegen import cpython
from echo_core.codegen.events.value_trees import LEAVES
from echo_core.codegen.expressions.program import NO_STEP, Program
from echo_core.formats.leaves import number_by_member
from echo_core.formats.types import Enumeration, Field, Kind, Record, Scalar, Type

# (at, form, size, slots, classes, members, numbers): struct leaf of native/expressions/judges.h.
Leaf = tuple[int, str, int, tuple[int, ...], tuple[type[Any], ...], tuple[Any, ...], tuple[int, ...]]
Access = tuple[Any, ...]

MAX_SLOTS = 4
_IN_SLOTS = "ktyo"  # forms of fields whose value is kept as an object


class _EncodedError(Exception):
    """Events of this class have to be encoded."""


def access_of(cls: type[Any], record: Record, program: Program) -> Access | None:
    """How C code reads these events; None where they are encoded."""
    try:
        offsets = sorted(_offsets(program))
        shape = vars(cls).get("__echo_shape__")
        if shape is not None:
            _check_inlined(cls, record, offsets)
            return (shape.record,)
        return (0, *_leaves(cls, record, offsets))
    except _EncodedError:
        return None


def _offsets(program: Program) -> set[int]:
    """Where in the fixed part the program reads."""
    found: set[int] = set()
    for step in program.steps:
        if step.op in ("TEXT", "REGION", "ARRAY"):
            raise _EncodedError
        if step.a == NO_STEP and step.op.startswith(("LOAD", "CHARS", "FIXED")):
            found.add(step.imm)
    return found


def _field_at(record: Record, offset: int) -> Field:
    for field in record.fields:
        if field.offset <= offset < field.end:
            return field
    raise _EncodedError


def _check_inlined(cls: type[Any], record: Record, offsets: list[int]) -> None:
    for offset in offsets:
        descriptor: Any = vars(cls).get(_field_at(record, offset).name)
        if descriptor is None or descriptor.form in _IN_SLOTS:
            raise _EncodedError


def _leaves(cls: type[Any], record: Record, offsets: list[int]) -> Iterator[Leaf]:
    if cpython.problem():
        raise _EncodedError
    for offset in offsets:
        type_, slots, classes = _leaf_at(cls, record, offset)
        yield offset, *_form(type_), slots, classes, *_members(type_)


def _leaf_at(
    cls: type[Any], record: Record, offset: int
) -> tuple[Type, tuple[int, ...], tuple[type[Any], ...]]:
    """The leaf there, the slots on the way to it, and what is in all but the last."""
    slots: list[int] = []
    classes: list[type[Any]] = []
    base = 0
    while True:
        field = _field_at(record, offset - base)
        places = cpython.slot_offsets(cls, [member.name for member in record.fields])
        if places is None or len(slots) == MAX_SLOTS:
            raise _EncodedError
        slots.append(places[field.name])
        base += field.offset
        if not isinstance(field.type, Record):
            if base != offset:
                raise _EncodedError
            return field.type, tuple(slots), tuple(classes)
        inner = field.type.python
        if inner is None or "__echo_shape__" in vars(inner):
            raise _EncodedError
        record, cls = field.type, inner
        classes.append(inner)


def _form(type_: Type) -> tuple[str, int]:
    if isinstance(type_, Enumeration) and type_.python is not None:
        return "e", type_.size
    if isinstance(type_, Scalar) and type_.kind is Kind.CHARS:
        return "s", type_.size
    if isinstance(type_, Scalar) and (type_.kind, type_.size) in LEAVES:
        return LEAVES[type_.kind, type_.size], type_.size
    raise _EncodedError


def _members(type_: Type) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    if not isinstance(type_, Enumeration):
        return (), ()
    numbers = number_by_member(type_)
    return tuple(numbers), tuple(numbers.values())

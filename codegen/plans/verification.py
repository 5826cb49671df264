"""The checks before the slots of a record may be followed, as a plan.

The plan visits every variable part in the order in which the sender wrote them; its operations have no
target. Executing it checks that each part begins where the one before it ended, that lengths are in range,
that texts end and are UTF-8, and that the record ends with its last part.

It checks chars as well, because a verified record may be kept and passed on, and others would refuse it and
blame the one that passed it on. Records of fixed size in a row are not verified: whoever reads their chars
checks them.
"""

from __future__ import annotations

from echo_core.codegen.plans.plan import Each, Operation, Plan, Run, Slot, Text, When, Where
from echo_core.codegen.plans.planner import absence_of, blob_slot, lengths_of, side_of
from echo_core.formats import types
from echo_core.formats.layout import Layout
from echo_core.formats.types import Blob, Kind, Nullable, Record, Scalar, Sequence, StaticArray, Type

# The largest product of a sequence's lengths, without those of 0. So no count overflows, and an array that is
# empty in one dimension has no absurd length in another.
MAX_EXTENT = 2**40


def verification(layout: Layout) -> Plan:
    """The plan that passes every variable part and all chars of a record."""
    side = side_of(layout)
    return Plan(side, side, tuple(_record(layout.record, 0, layout.record.name)))


def _record(record: Record, base: int, path: str) -> list[Operation]:
    return [
        operation
        for field in record.fields
        for operation in _type(field.type, record, base, base + field.offset, f"{path}.{field.name}")
    ]


def _type(type_: Type, record: Record, base: int, at: int, path: str) -> list[Operation]:
    match type_:
        case types.Text():
            return [Text(at, None, None, None, Where(path, type_))]
        case Scalar(kind=Kind.CHARS):
            return [Text(at, type_.size, None, None, Where(path, type_))]
        case Blob():
            return [Run(blob_slot(type_, at), None, 1, 0, 0, Where(path, type_))]
        case Sequence():
            body = _type(type_.element, record, base, 0, path + "[]")
            slot = Slot(at, lengths_of(type_, record, base, at), type_.element.alignment)
            return [Run(slot, None, type_.element.size, 0, len(body), Where(path, type_)), *body]
        case StaticArray():
            body = _type(type_.element, record, base, 0, path + "[]")
            count = type_.size // type_.element.size
            return [Each(at, 0, count, type_.element.size, 0, len(body)), *body] if body else []
        case Nullable():
            body = _type(type_.element, record, base, at, path)
            when = When(absence_of(type_, record, base, at), None, False, len(body), Where(path, type_))
            return [when, *body] if body else []
        case Record():
            return _record(type_, at, path)
        case _:
            return []

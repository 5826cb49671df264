"""From two layouts to a plan, following the verdicts of `formats/comparing/compare.py`.

The pair has been accepted before it is planned. Nested records are flattened into the record around them;
what stands side by side on both ends is moved as one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from echo_core.codegen.plans.plan import (
    Agree,
    Append,
    Cast,
    Count,
    Each,
    Fill,
    Flag,
    Inline,
    Known,
    Length,
    Move,
    Offset,
    Operation,
    Plan,
    Renumber,
    Run,
    Side,
    Slot,
    Text,
    When,
    Where,
    Word,
    steps,
)
from echo_core.formats import types
from echo_core.formats.comparing.leaf_conversions import Loss, judge, keeps_numbers, new_numbers
from echo_core.formats.comparing.matching import counted_by, match
from echo_core.formats.layout import Layout
from echo_core.formats.leaves import Leaf, pack, unpack_default
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Type,
    required,
)


def plan(sender: Layout, receiver: Layout) -> Plan:
    """The plan for a pair that a comparison has accepted."""
    planner = _Planner(sender, receiver)
    operations = planner.record(sender.record, receiver.record, 0, 0, receiver.record.name)
    return Plan(side_of(sender), side_of(receiver), tuple(operations), tuple(planner.local))


def side_of(layout: Layout) -> Side:
    """The side of a plan for a layout."""
    return Side(layout.byte_order, layout.pointer_size, layout.record.size, layout.record.name)


def lengths_of(sequence: Sequence, record: Record, base: int, slot: int) -> tuple[Length, ...]:
    """Where the lengths of a sequence are; its slot is at `slot` and its record at `base`."""
    lengths: list[Length] = []
    word = slot
    for n in sequence.shape:
        if n is None:
            word += sequence.pointer_size
            lengths.append(Word(word))
        elif isinstance(n, int):
            lengths.append(Known(n))
        else:
            counter = next(member for member in record.fields if member.name == n)
            assert isinstance(counter.type, Scalar)
            lengths.append(Count(base + counter.offset, counter.type, n))
    return tuple(lengths)


def blob_slot(blob: Blob, at: int) -> Slot:
    """A slot for bytes, which is one for a sequence of single bytes."""
    return Slot(at, (Word(at + blob.pointer_size),), 1)


def absence_of(nullable: Nullable, record: Record, base: int, at: int) -> Flag | Offset:
    """Where a record says whether a value is present."""
    match nullable.element:
        case types.Text():
            return Offset(at)
        case Blob():
            return Offset(at, blob_slot(nullable.element, at).lengths)
        case Sequence():
            lengths = lengths_of(nullable.element, record, base, at)
            return Offset(at, tuple(n for n in lengths if not isinstance(n, Known)))
        case _:
            return Flag(at + nullable.element.size)


@dataclass
class _Place:
    """A type at an offset from the operations' base, and the record that it is in."""

    type: Type
    at: int
    record: Record
    base: int

    def inside(self, element: Type, at: int | None = None) -> _Place:
        return replace(self, type=element, at=self.at if at is None else at)


@dataclass
class _Planner:
    sender: Layout
    receiver: Layout
    local: list[str] = field(default_factory=list[str])

    def record(self, sender: Record, receiver: Record, base: int, target: int, path: str) -> list[Operation]:
        matched = match(sender, receiver)
        counts = counted_by(receiver)
        operations = self._agreements(sender, receiver, matched, base, path)
        for member in receiver.fields:
            place = _Place(member.type, target + member.offset, receiver, target)
            if member.name in counts:
                continue  # the sequence that it counts sets it
            if member.name in matched:
                found = matched[member.name]
                source = _Place(found.type, base + found.offset, sender, base)
                operations += self.value(source, place, f"{path}.{member.name}")
            else:
                operations += self.default(member, place, f"{path}.{member.name}")
        return merged(operations)

    def _agreements(
        self, sender: Record, receiver: Record, matched: dict[str, Field], base: int, path: str
    ) -> list[Operation]:
        """An Agree for each count of the receiver's whose sequences may differ in length at the sender."""
        held: dict[str, dict[tuple[Length, Flag | Offset | None], Where]] = {}
        for member in receiver.fields:
            type_ = required(member.type)
            for i, name in enumerate(type_.shape if isinstance(type_, Sequence) else ()):
                if isinstance(name, str):
                    found = matched.get(member.name)
                    length = _held(found, i, sender, base) if found else (Known(0), None)
                    held.setdefault(name, {}).setdefault(length, Where(f"{path}.{member.name}", type_))
        return [
            Agree(tuple(wheres), count, tuple(wheres.values()))
            for count, wheres in held.items()
            if len(wheres) > 1
        ]

    def value(self, source: _Place, target: _Place, path: str) -> list[Operation]:
        match source.type, target.type:
            case Nullable(), _:
                return self._nullable(source, target, path)
            case _, Nullable():
                body = self.value(source, target.inside(target.type.element), path)
                return body if target.type.by_reference else [*body, _present(target)]
            case (StaticArray() | Sequence(), StaticArray() | Sequence()):
                return self._elements(source, target, path)
            case Record(), Record():
                return self.record(source.type, target.type, source.at, target.at, path)
            case _:
                return self._leaf(source, target, Where(path, target.type))

    def _nullable(self, source: _Place, target: _Place, path: str) -> list[Operation]:
        assert isinstance(source.type, Nullable)
        absence = absence_of(source.type, source.record, source.base, source.at)
        inner = source.inside(source.type.element)
        if isinstance(target.type, Nullable):
            body = self.value(inner, target.inside(target.type.element), path)
            flag = None if target.type.by_reference else target.at + target.type.element.size
            return [When(absence, flag, is_required=False, body=len(body)), *body]
        body = self.value(inner, target, path)
        return [When(absence, None, True, len(body), Where(path, target.type)), *body]

    def _elements(self, source: _Place, target: _Place, path: str) -> list[Operation]:
        sender, receiver = source.type, target.type
        assert isinstance(sender, StaticArray | Sequence)
        assert isinstance(receiver, StaticArray | Sequence)
        body = self.value(source.inside(sender.element, 0), target.inside(receiver.element, 0), path + "[]")
        strides = sender.element.size, receiver.element.size
        if isinstance(sender, StaticArray) and isinstance(receiver, StaticArray):
            count = sender.size // sender.element.size
            return _static(source.at, target.at, count, *strides, body)
        where = Where(path, receiver)
        run = Run(_run_place(source), _run_place(target), *strides, len(body), where)
        return [run, *body]

    def _leaf(self, source: _Place, target: _Place, where: Where) -> list[Operation]:
        match source.type, target.type:
            case (types.Text() | Scalar(kind=Kind.CHARS), types.Text() | Scalar(kind=Kind.CHARS)):
                return self._text(source, target, where)
            case (Blob() | Scalar(kind=Kind.BYTES), Blob() | Scalar(kind=Kind.BYTES)):
                return self._bytes(source, target, where)
            case (Scalar() | Enumeration(), Scalar() | Enumeration()):
                return self._number(source.type, target.type, source.at, target.at, where)
            case _:
                raise AssertionError(source, target)  # the comparison has refused it

    def _text(self, source: _Place, target: _Place, where: Where) -> list[Operation]:
        sizes = [p.type.size if isinstance(p.type, Scalar) else None for p in (source, target)]
        if sizes[0] is not None and sizes[1] is not None and sizes[0] <= sizes[1]:
            return [Move(source.at, target.at, sizes[0])]
        return [Text(source.at, sizes[0], target.at, sizes[1], where)]

    def _bytes(self, source: _Place, target: _Place, where: Where) -> list[Operation]:
        if isinstance(source.type, Scalar) and isinstance(target.type, Scalar):
            return [Move(source.at, target.at, source.type.size)]
        places = [
            blob_slot(p.type, p.at) if isinstance(p.type, Blob) else Inline(p.at, (Known(p.type.size),))
            for p in (source, target)
        ]
        return [Run(places[0], places[1], 1, 1, 1, where), Move(0, 0, 1)]

    def _number(
        self,
        sender: Scalar | Enumeration,
        receiver: Scalar | Enumeration,
        source: int,
        target: int,
        where: Where,
    ) -> list[Operation]:
        given, wanted = Scalar(sender.kind, sender.size), Scalar(receiver.kind, receiver.size)
        if isinstance(receiver, Enumeration) and not keeps_numbers(sender, receiver):
            numbers = tuple(new_numbers(sender, receiver).items())
            return [Renumber(source, target, given, wanted, numbers, where)]
        if given == wanted:
            return [Move(source, target, given.size, self._unit(given))]
        if wanted.kind is Kind.COMPLEX:
            half = Scalar(Kind.FLOAT, wanted.size // 2)
            count = 2 if given.kind is Kind.COMPLEX else 1
            part = Scalar(Kind.FLOAT, given.size // count)
            if part == half:
                return [Move(source, target, given.size, self._unit(given))]
            return [Cast(source, target, count, part, half, _is_lossy(part, half), where)]
        return [Cast(source, target, 1, given, wanted, _is_lossy(sender, receiver), where)]

    def _unit(self, scalar: Scalar) -> int:
        return 1 if self.sender.byte_order == self.receiver.byte_order else scalar.alignment

    # -----------------------------------------------------------------------
    # Fields that the sender does not have

    def default(self, member: Field, place: _Place, path: str) -> list[Operation]:
        """The operations that put a default in its place; the record is zero where none do."""
        assert member.default is not None
        if member.default.local:
            self.local.append(path)
            return self._blank(place)
        if member.default.data is None:
            return []
        leaf = required(member.type)
        assert isinstance(leaf, Leaf)
        inner = place.inside(leaf)
        mark = isinstance(member.type, Nullable) and not member.type.by_reference
        return [self._constant(leaf, inner, member.default.data), *([_present(place)] if mark else [])]

    def _constant(self, leaf: Leaf, place: _Place, data: bytes) -> Operation:
        match leaf:
            case types.Text():
                return Append(Slot(place.at, (), 1), data + b"\0")
            case Blob():
                return Append(blob_slot(leaf, place.at), data)
            case _:
                plain = unpack_default(leaf, data, place.record.name)
                return Fill(place.at, pack(leaf, plain, self.receiver.byte_order))

    def _blank(self, place: _Place) -> list[Operation]:
        """The operations for an empty value, beyond zeros: its slots refer to empty parts."""
        match place.type:
            case types.Text() | Blob():
                return [self._constant(place.type, place, b"")]
            case Sequence():
                slot = _run_place(place)
                assert isinstance(slot, Slot)
                return [Append(slot, b"")]
            case Record():
                inner = [
                    _Place(member.type, place.at + member.offset, place.type, place.at)
                    for member in place.type.fields
                ]
                return [operation for member in inner for operation in self._blank(member)]
            case StaticArray():
                body = self._blank(place.inside(place.type.element, 0))
                count = place.type.size // place.type.element.size
                stride = place.type.element.size
                return [Each(0, place.at, count, 0, stride, len(body)), *body] if body else []
            case _:
                return []


def _held(found: Field, dimension: int, record: Record, base: int) -> tuple[Length, Flag | Offset | None]:
    """A length of a sender's field, and where a Known one is optional, what says if it is present."""
    place = _Place(required(found.type), base + found.offset, record, base)
    length = _run_place(place).lengths[dimension]
    if isinstance(found.type, Nullable) and isinstance(length, Known):
        return length, absence_of(found.type, record, base, place.at)
    return length, None


def _run_place(place: _Place) -> Inline | Slot:
    if isinstance(place.type, StaticArray):
        return Inline(place.at, tuple(Known(n) for n in place.type.shape))
    assert isinstance(place.type, Sequence)
    lengths = lengths_of(place.type, place.record, place.base, place.at)
    return Slot(place.at, lengths, place.type.element.alignment)


def _present(place: _Place) -> Fill:
    assert isinstance(place.type, Nullable)
    return Fill(place.at + place.type.element.size, b"\1")


def _is_lossy(sender: Leaf, receiver: Leaf) -> bool:
    return judge(sender, receiver) is Loss.LOSSY


def _static(
    source: int, target: int, count: int, source_stride: int, target_stride: int, body: list[Operation]
) -> list[Operation]:
    """The body for each element of a static array, as one operation if the elements are contiguous."""
    match body:
        case [Move(0, 0, size, unit)] if size == source_stride == target_stride:
            return [Move(source, target, count * size, unit)]
        case [Cast(0, 0, n, sender, receiver) as cast] if (
            n * sender.size == source_stride and n * receiver.size == target_stride
        ):
            where = replace(cast.where, lengths=(count, *cast.where.lengths))
            return [replace(cast, source=source, target=target, count=count * n, where=where)]
        case _:
            return [Each(source, target, count, source_stride, target_stride, len(body)), *body]


def merged(operations: list[Operation]) -> list[Operation]:
    """The operations with adjacent moves joined; bodies are left alone."""
    result: list[Operation] = []
    last: Operation | None = None
    for operation, body in steps(tuple(operations)):
        if isinstance(last, Move) and isinstance(operation, Move) and _is_behind(operation, last):
            result[-1] = last = replace(last, size=last.size + operation.size)
        else:
            result += [operation, *body]
            last = operation
    return result


def _is_behind(move: Move, first: Move) -> bool:
    ends = first.source + first.size, first.target + first.size, first.unit
    return ends == (move.source, move.target, move.unit)

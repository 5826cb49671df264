"""Plans executed one operation at a time: the first tier, and what compiled routines are held to."""

from __future__ import annotations

import struct
from math import prod
from typing import NoReturn

import numpy as np

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
    Word,
    steps,
)
from echo_core.codegen.plans.verification import MAX_EXTENT
from echo_core.errors import ConversionError, WireError
from echo_core.formats.types import Kind, Scalar, round_up
from echo_core.formats.values import decode_text, integer_range, struct_format

Operations = tuple[Operation, ...]


def verify(plan: Plan, data: bytes) -> None:
    """Executes a verification; WireError where a record breaks the rules."""
    verifier = _Verifier(data, plan.sender)
    if len(data) < plan.sender.size:
        _refuse(f"at least {plan.sender.size} bytes", len(data))
    verifier.run(plan.operations, 0)
    if verifier.end != len(data):
        _refuse(f"a record of {verifier.end} bytes", len(data))


def convert(plan: Plan, data: bytes) -> bytes:
    """The receiver's record for a sender's that has been verified."""
    converter = _Converter(data, plan)
    converter.run(plan.operations, 0, 0)
    return bytes(converter.out)


def _refuse(expected: str, got: object) -> NoReturn:
    msg = f"Expected {expected}, got {got}"
    raise WireError(msg)


class _Source:
    """Reads a sender's record."""

    def __init__(self, data: bytes, side: Side) -> None:
        self.data = data
        self._side = side

    def word(self, at: int) -> int:
        return int.from_bytes(self.data[at : at + self._side.pointer_size], self._side.byte_order)

    def number(self, scalar: Scalar, at: int) -> float:
        value: float = struct.unpack_from(struct_format(scalar, self._side.byte_order), self.data, at)[0]
        return value

    def length(self, length: Length, base: int) -> int:
        match length:
            case Known():
                return length.count
            case Word():
                return self.word(base + length.offset)
            case Count():
                return int(self.number(length.scalar, base + length.offset))

    def lengths(self, place: Inline | Slot, base: int) -> list[int]:
        return [self.length(length, base) for length in place.lengths]

    def is_present(self, source: Flag | Offset, base: int) -> bool:
        if isinstance(source, Flag):
            return self.data[base + source.offset] != 0
        return self.word(base + source.offset) != 0

    def text_end(self, start: int, size: int | None) -> int:
        """Where a text ends: at its NUL, or where it fills its place."""
        end = self.data.find(b"\0", start, len(self.data) if size is None else start + size)
        return end if end >= 0 or size is None else start + size


class _Verifier(_Source):
    """`end` is where the next variable part may begin."""

    def __init__(self, data: bytes, side: Side) -> None:
        super().__init__(data, side)
        self.end = side.size

    def run(self, operations: Operations, base: int) -> None:
        for operation, body in steps(operations):
            match operation:
                case Text():
                    self._pass_text(base + operation.source, operation.source_size)
                case Run():
                    self._pass_run(operation, body, base)
                case When():
                    self._pass_when(operation.source, body, base)
                case Each():
                    for i in range(operation.count):
                        self.run(body, base + operation.source + i * operation.source_stride)
                case _:
                    raise AssertionError(operation)

    def _pass_text(self, at: int, size: int | None) -> None:
        start = self._begin(at, 1) if size is None else at
        end = self.text_end(start, size)
        if end < 0:
            _refuse("a text that a NUL ends", "none")
        decode_text(self.data[start:end], "")
        if size is None:
            self.end = end + 1

    def _pass_run(self, operation: Run, body: Operations, base: int) -> None:
        slot = operation.source
        assert isinstance(slot, Slot)
        lengths = self.lengths(slot, base)
        if min(lengths) < 0 or prod(n for n in lengths if n) > MAX_EXTENT:
            _refuse("lengths of a sequence", lengths)
        count = prod(lengths)
        start = self._begin(base + slot.offset, slot.alignment)
        if count * operation.source_stride > len(self.data) - start:
            _refuse(f"{count} elements within the record", len(self.data) - start)
        self.end = start + count * operation.source_stride
        if body:
            for i in range(count):
                self.run(body, start + i * operation.source_stride)

    def _begin(self, at: int, alignment: int) -> int:
        expected = round_up(self.end, alignment)
        start = self.word(at)
        if start != expected or start > len(self.data):
            _refuse(f"the offset {expected}, where the next part begins", start)
        return start

    def _pass_when(self, source: Flag | Offset, body: Operations, base: int) -> None:
        if self.is_present(source, base):
            self.run(body, base)
        elif isinstance(source, Offset) and any(self.length(n, base) for n in source.lengths):
            _refuse("no length beside an offset of 0", "one")


class _Converter(_Source):
    """Writes the receiver's record: fixed parts in place, variable parts at the end of `out`."""

    def __init__(self, data: bytes, plan: Plan) -> None:
        super().__init__(data, plan.sender)
        self._receiver = plan.receiver
        self.out = bytearray(plan.receiver.size)

    def run(self, operations: Operations, base: int, target: int) -> None:
        for operation, body in steps(operations):
            match operation:
                case Move():
                    self._move(operation, base, target)
                case Fill():
                    self._put(target + operation.target, operation.data)
                case Cast():
                    self._cast(operation, base, target)
                case Renumber():
                    self._renumber(operation, base, target)
                case Each():
                    self._each(operation, body, base, target)
                case When():
                    self._when(operation, body, base, target)
                case Agree():
                    self._agree(operation, base)
                case Run():
                    self._run(operation, body, base, target)
                case Text():
                    self._text(operation, base, target)
                case Append():
                    self._part(operation.slot, operation.data, target)

    def _put(self, at: int, data: bytes) -> None:
        self.out[at : at + len(data)] = data

    def _move(self, move: Move, base: int, target: int) -> None:
        data = self.data[base + move.source : base + move.source + move.size]
        if move.unit > 1:
            data = (
                np.frombuffer(data, f"V{move.unit}").view(np.uint8).reshape(-1, move.unit)[:, ::-1].tobytes()
            )
        self._put(target + move.target, data)

    def _cast(self, cast: Cast, base: int, target: int) -> None:
        for i in range(cast.count):
            value = self.number(cast.sender, base + cast.source + i * cast.sender.size)
            number = cast_number(value, cast.sender, cast.receiver)
            data = struct.pack(struct_format(cast.receiver, self._receiver.byte_order), number)
            self._put(target + cast.target + i * cast.receiver.size, data)

    def _renumber(self, operation: Renumber, base: int, target: int) -> None:
        number = self.number(operation.sender, base + operation.source)
        numbers = dict(operation.numbers)
        if number not in numbers:
            msg = f"Expected a number of the receiver's enumeration, got {number}"
            raise ConversionError(msg)
        form = struct_format(operation.receiver, self._receiver.byte_order)
        self._put(target + operation.target, struct.pack(form, numbers[int(number)]))

    def _each(self, each: Each, body: Operations, base: int, target: int) -> None:
        for i in range(each.count):
            source = base + each.source + i * each.source_stride
            self.run(body, source, target + each.target + i * each.target_stride)

    def _when(self, when: When, body: Operations, base: int, target: int) -> None:
        if self.is_present(when.source, base):
            self.run(body, base, target)
            if when.target is not None:
                self.out[target + when.target] = 1
        elif when.is_required:
            msg = "Expected a value, got None"
            raise ConversionError(msg)

    def _agree(self, agree: Agree, base: int) -> None:
        lengths = {
            self.length(length, base) if source is None or self.is_present(source, base) else 0
            for length, source in agree.lengths
        }
        if len(lengths) > 1:
            msg = f"Expected the same length wherever one field counts, got {sorted(lengths)}"
            raise ConversionError(msg)

    def _run(self, run: Run, body: Operations, base: int, target: int) -> None:
        assert run.target is not None
        lengths = self.lengths(run.source, base)
        count = prod(lengths)
        start = base + run.source.offset
        if isinstance(run.source, Slot):
            start = self.word(start)
        self._check_known(run.target, lengths)
        if isinstance(run.target, Slot):
            end = self._part(run.target, bytes(count * run.target_stride), target, lengths)
        else:
            end = target + run.target.offset
        for i in range(count):
            self.run(body, start + i * run.source_stride, end + i * run.target_stride)

    def _check_known(self, place: Inline | Slot, lengths: list[int]) -> None:
        pairs = list(zip(place.lengths, lengths, strict=True))
        if any(n == 0 for wanted, n in pairs if not isinstance(wanted, Known)):
            return  # no elements here and no places there
        for wanted, n in pairs:
            if isinstance(wanted, Known) and wanted.count != n:
                msg = f"Expected {wanted.count} elements, got {n}"
                raise ConversionError(msg)

    def _text(self, text: Text, base: int, target: int) -> None:
        start = base + text.source
        if text.source_size is None:
            start = self.word(start)
        data = self.data[start : self.text_end(start, text.source_size)]
        assert text.target is not None
        if text.target_size is None:
            self._part(Slot(text.target, (), 1), data + b"\0", target)
        elif len(data) <= text.target_size:
            self._put(target + text.target, data)
        else:
            msg = f"Expected text of at most {text.target_size} bytes, got {len(data)}"
            raise ConversionError(msg)

    def _part(self, slot: Slot, data: bytes, target: int, lengths: list[int] | None = None) -> int:
        """Appends a variable part and fills its slot; where the part begins."""
        start = round_up(len(self.out), slot.alignment)
        self.out += bytes(start - len(self.out)) + data
        self._word(target + slot.offset, start)
        for length, n in zip(slot.lengths, lengths or [len(data)] * len(slot.lengths), strict=True):
            match length:
                case Word():
                    self._word(target + length.offset, n)
                case Count():
                    number = cast_number(n, Scalar(Kind.UINT, 8), length.scalar)
                    form = struct_format(length.scalar, self._receiver.byte_order)
                    self._put(target + length.offset, struct.pack(form, number))
                case Known():
                    pass
        return start

    def _word(self, at: int, number: int) -> None:
        try:
            data = number.to_bytes(self._receiver.pointer_size, self._receiver.byte_order)
        except OverflowError:
            msg = f"Expected a record that {self._receiver.pointer_size}-byte offsets reach, got a larger one"
            raise ConversionError(msg) from None
        self._put(at, data)


def cast_number(value: float, sender: Scalar, receiver: Scalar) -> float:
    """A number in another type: precision may go, range may not."""
    match receiver.kind:
        case Kind.FLOAT:
            return _to_float(value, sender, receiver)
        case Kind.BOOL if value not in (0, 1):
            low, high = 0, 1
        case Kind.BOOL:
            return bool(value)
        case _:
            low, high = integer_range(receiver.kind, receiver.size)
            if np.isfinite(value) and low <= int(value) <= high:
                return int(value)
    msg = f"Expected `{receiver}` from {low} to {high}, got {value}"
    raise ConversionError(msg)


def _to_float(value: float, sender: Scalar, receiver: Scalar) -> float:
    """One rounding, from the sender's own type: by way of float64 an int64 would be rounded twice."""
    exact = np.array(
        value, f"{'f' if sender.kind is Kind.FLOAT else sender.kind.name[0].lower()}{sender.size}"
    )
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(f"f{receiver.size}")
    if np.isfinite(exact) and not np.isfinite(rounded):
        msg = f"Expected a number within the range of `{receiver}`, got {value}"
        raise ConversionError(msg)
    return float(rounded)

"""Executes plans one operation at a time: the first tier, and the reference for compiled code."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from math import prod
from typing import NoReturn

import numpy as np

from echo_core.codegen.plans.plan import (
    NOWHERE,
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
from echo_core.codegen.plans.verification import MAX_EXTENT
from echo_core.errors import ConversionError, WireError, unexpected
from echo_core.formats.leaves import decode_text, integer_range, pack, scalar_dtype, struct_format
from echo_core.formats.types import Blob, Kind, Scalar, Type, round_up

Operations = tuple[Operation, ...]


def verify(plan: Plan, data: bytes) -> None:
    """Executes a verification; WireError where a record breaks the rules."""
    verifier = _Verifier(data, plan.sender)
    whole = Where(plan.sender.name)
    if len(data) < plan.sender.size:
        verifier.refuse(whole, f"at least {plan.sender.size} bytes", len(data))
    verifier.run(plan.operations, 0)
    if verifier.end != len(data):
        verifier.refuse(whole, f"a record of {verifier.end} bytes", len(data))


def convert(plan: Plan, data: bytes) -> bytes:
    """The receiver's record for one that has been verified; ConversionError where a value does not fit."""
    converter = _Converter(data, plan)
    converter.run(plan.operations, 0, 0)
    return bytes(converter.out)


class _Source:
    """Reads a sender's record, and raises the errors that name the field and the element."""

    error: type[ConversionError | WireError]

    def __init__(self, data: bytes, side: Side) -> None:
        self.data = data
        self._side = side
        self._indexes: list[int] = []  # of the current loops, the outermost first

    def refuse(self, where: Where, expected: str, got: object, inner: tuple[int, ...] = ()) -> NoReturn:
        """Raises the error; `inner` are the indexes within the loops that one operation stands for."""
        raise unexpected(self.error, expected, got, path=self.path(where, inner))

    def path(self, where: Where, inner: tuple[int, ...] = ()) -> str:
        """The path with an index for each loop."""
        indexes = iter((*self._indexes, *inner))
        return re.sub(r"\[\]", lambda _: f"[{next(indexes)}]", where.path)

    def elements(self, count: int) -> Iterator[int]:
        """The indexes of a loop; an error inside the loop names the current one."""
        self._indexes.append(0)
        for i in range(count):
            self._indexes[-1] = i
            yield i
        self._indexes.pop()

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
        at = base + source.offset
        return (self.data[at] if isinstance(source, Flag) else self.word(at)) != 0

    def text_end(self, start: int, size: int | None) -> int:
        """Where a text ends: at its NUL, or where it fills its place."""
        end = self.data.find(b"\0", start, len(self.data) if size is None else start + size)
        return end if end >= 0 or size is None else start + size


class _Verifier(_Source):
    """`end` is where the next variable part may begin."""

    error = WireError

    def __init__(self, data: bytes, side: Side) -> None:
        super().__init__(data, side)
        self.end = side.size

    def run(self, operations: Operations, base: int) -> None:
        for operation, body in steps(operations):
            match operation:
                case Text():
                    self._pass_text(operation, base + operation.source)
                case Run():
                    self._pass_run(operation, body, base)
                case When():
                    self._pass_when(operation, body, base)
                case Each():
                    for i in self.elements(operation.count):
                        self.run(body, base + operation.source + i * operation.source_stride)
                case _:
                    raise AssertionError(operation)

    def _pass_text(self, text: Text, at: int) -> None:
        size = text.source_size
        start = self._begin(text.where, at, 1) if size is None else at
        end = self.text_end(start, size)
        if end < 0:
            self.refuse(text.where, "a text that a NUL ends within the record", "none")
        held = self.data[start:end]
        try:
            held.decode()
        except UnicodeDecodeError:
            decode_text(held, self.path(text.where))  # which refuses it in its own words
        if size is None:
            self.end = end + 1

    def _pass_run(self, run: Run, body: Operations, base: int) -> None:
        slot = run.source
        assert isinstance(slot, Slot)
        lengths = self.lengths(slot, base)
        if min(lengths) < 0:
            self.refuse(run.where, "a count of elements", min(lengths))
        count, stride = prod(lengths), run.source_stride
        start = self._begin(run.where, base + slot.offset, slot.alignment)
        if count * stride > len(self.data) - start:
            what = "bytes" if isinstance(run.where.type, Blob) else "elements"
            self.refuse(run.where, f"{count} {what} within the record", (len(self.data) - start) // stride)
        if prod(n for n in lengths if n) > MAX_EXTENT:
            self.refuse(run.where, f"dimensions of at most {MAX_EXTENT} elements", lengths)
        self.end = start + count * stride
        if body:
            for i in self.elements(count):
                self.run(body, start + i * stride)

    def _begin(self, where: Where, at: int, alignment: int) -> int:
        expected = round_up(self.end, alignment)
        start = self.word(at)
        if start != expected:
            self.refuse(where, f"the offset {expected}, where the next part begins", start)
        if start > len(self.data):
            self.refuse(where, f"a part within {len(self.data)} bytes", f"the offset {start}")
        return start

    def _pass_when(self, when: When, body: Operations, base: int) -> None:
        if self.is_present(when.source, base):
            self.run(body, base)
        elif isinstance(when.source, Offset) and any(self.length(n, base) for n in when.source.lengths):
            self.refuse(when.where, "no length beside an offset of 0", "one")


class _Converter(_Source):
    """Writes the receiver's record: fixed parts in place, variable parts at the end of `out`."""

    error = ConversionError

    def __init__(self, data: bytes, plan: Plan) -> None:
        super().__init__(data, plan.sender)
        self._receiver = plan.receiver
        self.out = bytearray(plan.receiver.size)

    def run(self, operations: Operations, base: int, target: int) -> None:
        for operation, body in steps(operations):
            match operation:
                case Move():
                    self._move(operation, base, target)
                case Text():
                    self._text(operation, base, target)
                case Run():
                    self._run(operation, body, base, target)
                case When():
                    self._when(operation, body, base, target)
                case Cast():
                    self._cast(operation, base, target)
                case Each():
                    self._each(operation, body, base, target)
                case Fill():
                    self._put(target + operation.target, operation.data)
                case Renumber():
                    self._renumber(operation, base, target)
                case Agree():
                    self._agree(operation, base)
                case Append():
                    size = len(operation.data)
                    self._part(operation.slot, operation.data, target, [size] * len(operation.slot.lengths))

    def _put(self, at: int, data: bytes) -> None:
        self.out[at : at + len(data)] = data

    def _move(self, move: Move, base: int, target: int) -> None:
        data = self.data[base + move.source : base + move.source + move.size]
        if move.unit == move.size:
            data = data[::-1]
        elif move.unit > 1:
            data = (
                np.frombuffer(data, f"V{move.unit}").view(np.uint8).reshape(-1, move.unit)[:, ::-1].tobytes()
            )
        self._put(target + move.target, data)

    def _cast(self, cast: Cast, base: int, target: int) -> None:
        if cast.is_checked:
            self._cast_checked(cast, base, target)
            return
        dtype = scalar_dtype(cast.sender, self._side.byte_order)
        numbers = np.frombuffer(self.data, dtype, cast.count, base + cast.source)
        if cast.sender.kind is Kind.BOOL:  # another machine's true may be any number but 0
            numbers = numbers.view(np.uint8) != 0
        with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
            converted = numbers.astype(scalar_dtype(cast.receiver, self._receiver.byte_order))
        self._put(target + cast.target, converted.tobytes())

    def _cast_checked(self, cast: Cast, base: int, target: int) -> None:
        form = struct_format(cast.receiver, self._receiver.byte_order)
        for i in range(cast.count):
            value = self.number(cast.sender, base + cast.source + i * cast.sender.size)
            number = cast_number(value, cast.sender, cast.receiver)
            if number is None:
                self._refuse_number(cast, value, i)
            self._put(target + cast.target + i * cast.receiver.size, struct.pack(form, number))

    def _refuse_number(self, cast: Cast, value: float, i: int) -> NoReturn:
        lengths = cast.where.lengths
        i //= cast.count // prod(lengths)  # a complex number is two
        inner = tuple(int(index) for index in np.unravel_index(i, lengths)) if lengths else ()
        self.refuse(cast.where, _range(cast.receiver, cast.where.type or cast.receiver), value, inner)

    def _renumber(self, operation: Renumber, base: int, target: int) -> None:
        number = self.number(operation.sender, base + operation.source)
        numbers = dict(operation.numbers)
        if number not in numbers:
            self.refuse(operation.where, f"a number that has a name in `{operation.where.type}`", number)
        data = pack(operation.receiver, numbers[int(number)], self._receiver.byte_order)
        self._put(target + operation.target, data)

    def _each(self, each: Each, body: Operations, base: int, target: int) -> None:
        for i in self.elements(each.count):
            source = base + each.source + i * each.source_stride
            self.run(body, source, target + each.target + i * each.target_stride)

    def _when(self, when: When, body: Operations, base: int, target: int) -> None:
        if self.is_present(when.source, base):
            self.run(body, base, target)
            if when.target is not None:
                self.out[target + when.target] = 1
        elif when.is_required:
            self.refuse(when.where, f"`{when.where.type}`", None)

    def _agree(self, agree: Agree, base: int) -> None:
        lengths = [
            self.length(length, base) if source is None or self.is_present(source, base) else 0
            for length, source in agree.lengths
        ]
        for where, length in zip(agree.wheres, lengths, strict=True):
            if length != lengths[0]:
                self.refuse(where, f"the length {lengths[0]}, which `{agree.count}` counts too", length)

    def _run(self, run: Run, body: Operations, base: int, target: int) -> None:
        assert run.target is not None
        lengths = self.lengths(run.source, base)
        count = prod(lengths)
        start = base + run.source.offset
        if isinstance(run.source, Slot):
            start = self.word(start)
        self._check_known(run, run.target, lengths)
        if isinstance(run.target, Slot):
            end = self._part(run.target, bytes(count * run.target_stride), target, lengths, run.where)
        else:
            end = target + run.target.offset
        for i in self.elements(count):
            self.run(body, start + i * run.source_stride, end + i * run.target_stride)

    def _check_known(self, run: Run, place: Inline | Slot, lengths: list[int]) -> None:
        known = [wanted.count if isinstance(wanted, Known) else None for wanted in place.lengths]
        wanted = [n if m is None else m for m, n in zip(known, lengths, strict=True)]
        if wanted == lengths or any(m is None and n == 0 for m, n in zip(known, lengths, strict=True)):
            return  # in the second case there are no elements here and no places there
        if isinstance(run.where.type, Scalar):
            self.refuse(run.where, f"exactly {wanted[0]} bytes", lengths[0])
        self.refuse(run.where, f"the dimensions {wanted}", lengths)

    def _text(self, text: Text, base: int, target: int) -> None:
        start = base + text.source
        if text.source_size is None:
            start = self.word(start)
        data = self.data[start : self.text_end(start, text.source_size)]
        assert text.target is not None
        if text.target_size is None:
            self._part(Slot(text.target, (), 1), data + b"\0", target, [], text.where)
        elif len(data) <= text.target_size:
            self._put(target + text.target, data)
        else:
            self.refuse(text.where, f"text of at most {text.target_size} bytes", len(data))

    def _part(self, slot: Slot, data: bytes, target: int, lengths: list[int], where: Where = NOWHERE) -> int:
        """Appends a variable part and fills its slot; where the part begins."""
        start = round_up(len(self.out), slot.alignment)
        self.out += bytes(start - len(self.out)) + data
        self._word(target + slot.offset, start, where)
        for length, n in zip(slot.lengths, lengths, strict=True):
            if isinstance(length, Word):
                self._word(target + length.offset, n, where)
            elif isinstance(length, Count):
                self._count(target + length.offset, length, n, where)
        return start

    def _count(self, at: int, count: Count, n: int, where: Where) -> None:
        number = cast_number(n, Scalar(Kind.UINT, 8), count.scalar)
        if number is None:
            beside = Where(f"{where.path.rpartition('.')[0]}.{count.name}")
            self.refuse(beside, _range(count.scalar, count.scalar), n)
        self._put(at, pack(count.scalar, number, self._receiver.byte_order))

    def _word(self, at: int, number: int, where: Where) -> None:
        size = self._receiver.pointer_size
        if number >= 1 << 8 * size:
            self.refuse(where, f"a record that {size}-byte offsets reach", "a larger one")
        self._put(at, number.to_bytes(size, self._receiver.byte_order))


def cast_number(value: float, sender: Scalar, receiver: Scalar) -> float | None:
    """A number converted to another type, with rounding; None if it is out of range."""
    match receiver.kind:
        case Kind.FLOAT:
            return _to_float(value, sender, receiver)
        case Kind.BOOL:
            return bool(value) if value in (0, 1) else None
        case _:
            low, high = integer_range(receiver.kind, receiver.size)
            return int(value) if np.isfinite(value) and low <= int(value) <= high else None


def _to_float(value: float, sender: Scalar, receiver: Scalar) -> float | None:
    """Rounds once, from the sender's own type: an int64 by way of float64 would be rounded twice."""
    exact = np.array(
        value, f"{'f' if sender.kind is Kind.FLOAT else sender.kind.name[0].lower()}{sender.size}"
    )
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(f"f{receiver.size}")
    return None if np.isfinite(exact) and not np.isfinite(rounded) else float(rounded)


def _range(receiver: Scalar, declared: Type) -> str:
    """The accepted range, for a message; `declared` is the field's type, which may be complex."""
    match receiver.kind:
        case Kind.FLOAT:
            return f"a number within the range of `{declared}`"
        case Kind.BOOL:
            return f"0 or 1 for `{declared}`"
        case _:
            low, high = integer_range(receiver.kind, receiver.size)
            return f"`{declared}` from {low} to {high}"

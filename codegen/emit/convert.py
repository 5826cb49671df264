"""The functions that convert a verified record.

i64 @measure(ptr record)                 the size of the converted record, or -1
i32 @convert(ptr record, ptr target)     0, or 1 where a value did not fit
"""

from __future__ import annotations

from echo_core.codegen.emit.casts import cast_values, store_number
from echo_core.codegen.emit.ir import Function, pieces
from echo_core.codegen.emit.moves import Module, Operations, SourceReader, move_bytes, reverse, zero
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
    Plan,
    Renumber,
    Run,
    Slot,
    Text,
    When,
    reaches_out,
    steps,
)
from echo_core.formats.types import Kind, Scalar


def covers(operations: Operations, size: int) -> bool:
    """Whether moves, fills and casts alone write every byte of an element."""
    written = 0
    for operation, _ in steps(operations):
        match operation:
            case Move():
                written += operation.size
            case Fill():
                written += len(operation.data)
            case Cast():
                written += operation.count * operation.receiver.size
            case _:
                pass
    return written >= size  # targets never overlap


class Measurer(SourceReader):
    """Finds where the receiver's record ends; nothing is written."""

    def run(self, operations: Operations, base: str) -> None:
        for operation, body in steps(operations):
            if not any(reaches_out(inner) for inner in (operation, *body)):
                continue
            match operation:
                case Each():
                    start = self.function.at(base, operation.source)
                    self._elements(body, start, str(operation.count), operation.source_stride)
                case When():
                    with self.where(self.is_present(operation.source, base)):
                        self.run(body, base)
                case Run():
                    self._pass_run(operation, body, base)
                case Text() if operation.target_size is None:
                    size = self.text_size(self.start_of(operation, base), operation)
                    self.end = self.function.add(self.function.add(self.end, size), 1)
                case Append():
                    start = self.function.round_up(self.end, operation.slot.alignment)
                    self.end = self.function.add(start, len(operation.data))
                case _:
                    pass

    def start_of(self, operation: Run | Text, base: str) -> str:
        """Where the elements or the text of the sender begin."""
        match operation:
            case Text():
                offset, is_slot = operation.source, operation.source_size is None
            case Run():
                offset, is_slot = operation.source.offset, isinstance(operation.source, Slot)
        place = self.function.at(base, offset)
        return self.function.at("%record", self.word(place)) if is_slot else place

    def _pass_run(self, run: Run, body: Operations, base: str) -> None:
        count = self.product(self.lengths(run.source, base))
        if isinstance(run.target, Slot):
            start = self.function.round_up(self.end, run.target.alignment)
            self.end = self.function.add(start, self.function.multiply(count, run.target_stride))
        if any(reaches_out(inner) for inner in body):
            self._elements(body, self.start_of(run, base), count, run.source_stride)

    def _elements(self, body: Operations, start: str, count: str, stride: int) -> None:
        with self.each(body, count) as index:
            self.run(body, self.function.at(start, self.function.multiply(index, stride)))


def measure(plan: Plan, module: Module) -> Function:
    function = Function("i64 @measure(ptr %record)", failure="i64 -1")
    measurer = Measurer(function, plan.sender, module, str(plan.receiver.size))
    measurer.run(plan.operations, "%record")
    if plan.receiver.pointer_size == 4:  # its offsets cannot refer beyond
        function.fail_unless(function.value(f"icmp ult i64 {measurer.end}, {2**32}"))
    function.do(f"ret i64 {measurer.end}")
    return function


class Converter(Measurer):
    """Writes the receiver's record at `%target`; source and target bases advance together."""

    def __init__(self, function: Function, plan: Plan, module: Module) -> None:
        super().__init__(function, plan.sender, module, str(plan.receiver.size))
        self._plan = plan

    def run(self, operations: Operations, base: str, target: str = "%target") -> None:
        for operation, body in steps(operations):
            match operation:
                case Move():
                    self._move(operation, base, target)
                case Fill():
                    self._bytes(operation.data, self.function.at(target, operation.target))
                case Cast():
                    self._cast(operation, base, target)
                case Renumber():
                    self._renumber(operation, base, target)
                case Each():
                    source = self.function.at(base, operation.source)
                    start = self.function.at(target, operation.target)
                    strides = operation.source_stride, operation.target_stride
                    self._each(body, source, start, str(operation.count), *strides)
                case When():
                    self._when(operation, body, base, target)
                case Agree():
                    self._agree(operation, base)
                case Run():
                    self._run(operation, body, base, target)
                case Text():
                    self._text(operation, base, target)
                case Append():
                    self._append(operation, target)

    # -----------------------------------------------------------------------
    # Values in place

    def _move(self, move: Move, base: str, target: str) -> None:
        source, place = self.function.at(base, move.source), self.function.at(target, move.target)
        if move.unit == 1 or move.size > 8 * move.unit:
            move_bytes(self.function, source, place, str(move.size), move.unit, self._module.machine)
            return
        for at in range(0, move.size, move.unit):
            reverse(self.function, f"i{8 * move.unit}", source, place, at)

    def _bytes(self, data: bytes, pointer: str) -> None:
        """Constant bytes, in the widest integers that fit."""
        for at, width in pieces(len(data)):
            number = int.from_bytes(data[at : at + width], self._module.machine.byte_order)
            self.function.store(f"i{8 * width}", str(number), self.function.at(pointer, at))

    def _cast(self, cast: Cast, base: str, target: str) -> None:
        swaps = self._module.machine.swaps(self._plan.sender), self._module.machine.swaps(self._plan.receiver)
        source, place = self.function.at(base, cast.source), self.function.at(target, cast.target)
        width = self._module.machine.vector_bytes
        cast_values(self.function, cast, source, place, str(cast.count), swaps, width)

    def _renumber(self, operation: Renumber, base: str, target: str) -> None:
        value = self.number(operation.sender, self.function.at(base, operation.source))
        type_ = f"i{8 * operation.sender.size}"
        known, result = "false", "0"
        wide = f"i{8 * operation.receiver.size}"
        for sender, receiver in operation.numbers:
            is_it = self.function.value(f"icmp eq {type_} {value}, {sender}")
            known = self.function.value(f"or i1 {known}, {is_it}")
            result = self.function.value(f"select i1 {is_it}, {wide} {receiver}, {wide} {result}")
        self.function.fail_unless(known)
        self._store(operation.receiver, result, self.function.at(target, operation.target))

    def _store(self, scalar: Scalar, value: str, pointer: str) -> None:
        is_swapped = self._module.machine.swaps(self._plan.receiver)
        store_number(self.function, scalar, value, pointer, is_swapped=is_swapped)

    def _each(
        self, body: Operations, source: str, target: str, count: str, source_stride: int, target_stride: int
    ) -> None:
        with self.each(body, count) as index:
            from_ = self.function.at(source, self.function.multiply(index, source_stride))
            to = self.function.at(target, self.function.multiply(index, target_stride))
            self.run(body, from_, to)

    def _when(self, when: When, body: Operations, base: str, target: str) -> None:
        present = self.is_present(when.source, base)
        if when.is_required:
            self.function.fail_unless(present)
            self.run(body, base, target)
            return
        with self.where(present):
            self.run(body, base, target)
            if when.target is not None:
                self.function.store("i8", "1", self.function.at(target, when.target))

    # -----------------------------------------------------------------------
    # Variable parts

    def _agree(self, agree: Agree, base: str) -> None:
        first, *others = [self._held(length, source, base) for length, source in agree.lengths]
        for other in others:
            self.function.fail_unless(self.function.value(f"icmp eq i64 {first}, {other}"))

    def _held(self, length: Length, source: Flag | Offset | None, base: str) -> str:
        value = self.length(length, base)
        if source is None:
            return value
        return self.function.value(f"select i1 {self.is_present(source, base)}, i64 {value}, i64 0")

    def _check_known(self, place: Inline | Slot, lengths: list[str]) -> None:
        """Lengths that the target knows are the source's, unless there are no elements and no places."""
        function, pairs = self.function, list(zip(place.lengths, lengths, strict=True))
        free = [length for wanted, length in pairs if not isinstance(wanted, Known)]
        for wanted, length in pairs:
            if isinstance(wanted, Known) and str(wanted.count) != length:
                holds = function.value(f"icmp eq i64 {length}, {wanted.count}")
                for other in free:
                    is_none = function.value(f"icmp eq i64 {other}, 0")
                    holds = function.value(f"or i1 {holds}, {is_none}")
                function.fail_unless(holds)

    def _run(self, run: Run, body: Operations, base: str, target: str) -> None:
        assert run.target is not None
        lengths = self.lengths(run.source, base)
        self._check_known(run.target, lengths)
        count = self.product(lengths)
        source = self.start_of(run, base)
        if isinstance(run.target, Slot):
            size = self.function.multiply(count, run.target_stride)
            place = self._part(run.target, size, lengths, target)
        else:
            place, size = self.function.at(target, run.target.offset), ""
        if any(reaches_out(operation) for operation in body):
            if size:
                zero(self.function, place, size)
            self._each(body, source, place, count, run.source_stride, run.target_stride)
        else:
            self._call_many(run, body, source, place, count)

    def _call_many(self, run: Run, body: Operations, source: str, place: str, count: str) -> None:
        match body:
            case (Move(0, 0, size, unit),) if size == run.source_stride == run.target_stride:
                whole = self.function.multiply(count, size)
                move_bytes(self.function, source, place, whole, unit, self._module.machine)
            case _:
                name = self._module.many(body, self._plan, run.source_stride, run.target_stride)
                arguments = f"ptr {source}, ptr {place}, i64 {count}"
                failed = self.function.value(f"call i32 {name}({arguments})")
                self.function.fail_unless(self.function.value(f"icmp eq i32 {failed}, 0"))

    def _part(self, slot: Slot, size: str, lengths: list[str], target: str) -> str:
        """Makes room for a variable part, fills its slot and returns the address of the part."""
        start = self.function.round_up(self.end, slot.alignment)
        if slot.alignment > 1:
            gap = self.function.value(f"sub i64 {start}, {self.end}")
            with self.function.loop(gap, []) as loop:
                at = self.function.add(self.end, loop.index)
                self.function.store("i8", "0", self.function.at("%target", at))
        self.end = self.function.add(start, size)
        word = Scalar(Kind.UINT, self._plan.receiver.pointer_size)
        self._store_word(word, start, self.function.at(target, slot.offset))  # it fits: see _measure
        for length, n in zip(slot.lengths, lengths, strict=True):
            if not isinstance(length, Known):
                scalar = length.scalar if isinstance(length, Count) else word
                self._store_length(scalar, n, self.function.at(target, length.offset))
        return self.function.at("%target", start)

    def _store_length(self, scalar: Scalar, value: str, pointer: str) -> None:
        """A length in a field that may be too narrow for it."""
        bits = 8 * scalar.size - (scalar.kind is Kind.INT)
        if bits < 64:
            self.function.fail_unless(self.function.value(f"icmp ult i64 {value}, {2**bits}"))
        self._store_word(scalar, value, pointer)

    def _store_word(self, scalar: Scalar, value: str, pointer: str) -> None:
        if scalar.size < 8:
            value = self.function.value(f"trunc i64 {value} to i{8 * scalar.size}")
        self._store(scalar, value, pointer)

    def _text(self, text: Text, base: str, target: str) -> None:
        start = self.start_of(text, base)
        size = self.text_size(start, text)
        assert text.target is not None
        if text.target_size is None:
            place = self._part(Slot(text.target, (), 1), self.function.add(size, 1), [], target)
            self.function.store("i8", "0", self.function.at(place, size))
        else:
            fits = self.function.value(f"icmp ule i64 {size}, {text.target_size}")
            self.function.fail_unless(fits)
            place = self.function.at(target, text.target)
        move_bytes(self.function, start, place, size, 1, self._module.machine)

    def _append(self, append: Append, target: str) -> None:
        size = str(len(append.data))
        place = self._part(append.slot, size, [size] * len(append.slot.lengths), target)
        self._bytes(append.data, place)


def convert(plan: Plan, module: Module) -> Function:
    function = Function("i32 @convert(ptr noalias %record, ptr noalias %target)", failure="i32 1")
    converter = Converter(function, plan, module)
    if not covers(plan.operations, plan.receiver.size):
        zero(function, "%target", str(plan.receiver.size))
    converter.run(plan.operations, "%record")
    function.do("ret i32 0")
    return function

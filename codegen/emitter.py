"""Plans as LLVM IR. It knows operations and nothing of formats.

A module has up to four functions:

    i32 @verify(ptr record, i64 size)              0 where every slot may be followed
    i64 @measure(ptr record)                       the size of the converted record, or -1
    i32 @convert(ptr record, ptr target)           0, or 1 where a value did not fit
    i32 @convert_many(ptr source, ptr target, i64 count)    records of fixed size, one after another

A record is verified before it is measured, and measured before it is converted. A failure says no more than
that it happened: the caller executes the plan again in the interpreter, which finds the words.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from echo_core.codegen.casts import cast_values, load_number, store_number
from echo_core.codegen.ir import LIKELY, Function
from echo_core.codegen.plan import (
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
    reaches_out,
    steps,
    walk,
)
from echo_core.codegen.shuffles import Shuffler, byte_map
from echo_core.codegen.verification import MAX_EXTENT
from echo_core.formats.abi import ByteOrder
from echo_core.formats.types import Kind, Scalar

Operations = tuple[Operation, ...]

DECLARATIONS = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)
declare i16 @llvm.bswap.i16(i16)
declare i32 @llvm.bswap.i32(i32)
declare i64 @llvm.bswap.i64(i64)
declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)
declare ptr @memchr(ptr, i32, i64)
declare i64 @strlen(ptr)
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """What code is written for: the byte order of this machine, and how wide its shuffles are (0: none)."""

    byte_order: ByteOrder
    vector_bytes: int


def emit(plan: Plan, verification: Plan, machine: Machine) -> str:
    """The module for a pair of formats."""
    module = Module(machine)
    if plan.is_fixed and not verification.operations:
        module.many(plan.operations, plan, plan.sender.size, plan.receiver.size, "@convert_many")
    else:
        module.functions += [
            _verify(verification, module),
            _measure(plan, module),
            _convert(plan, module),
        ]
    return module.text()


def is_emittable(plan: Plan) -> bool:
    """Whether code can be made for a plan. Half precision needs library calls that a process may lack."""
    return not any(
        isinstance(operation, Cast) and 2 in _float_sizes(operation) for _, operation in walk(plan.operations)
    )


def _float_sizes(cast: Cast) -> list[int]:
    return [scalar.size for scalar in (cast.sender, cast.receiver) if scalar.kind is Kind.FLOAT]


@dataclass
class Module:
    """Functions in the making; loops over fixed elements become functions of their own."""

    machine: Machine
    functions: list[Function] = field(default_factory=list[Function])

    def text(self) -> str:
        return "\n\n".join([DECLARATIONS.strip(), *(f.text() for f in self.functions), LIKELY]) + "\n"

    def swaps(self, side: Side) -> bool:
        return side.byte_order != self.machine.byte_order

    def many(
        self, operations: Operations, plan: Plan, source_stride: int, target_stride: int, name: str = ""
    ) -> str:
        """A function that converts elements of fixed size one after another; its name."""
        name = name or f"@many{len(self.functions)}"
        function = Function(
            f"{'' if name == '@convert_many' else 'internal '}i32 {name}"
            "(ptr noalias %source, ptr noalias %target, i64 %count)",
            failure="i32 1",
        )
        self.functions.append(function)
        if not _many_as_one(function, operations, plan, self, source_stride, target_stride):
            with function.loop("%count", []) as loop:
                source = function.at("%source", function.multiply(loop.index, source_stride))
                target = function.at("%target", function.multiply(loop.index, target_stride))
                self._one(function, operations, plan, source, target, source_stride, target_stride)
        function.do("ret i32 0")
        return name

    def _one(
        self,
        function: Function,
        operations: Operations,
        plan: Plan,
        source: str,
        target: str,
        source_stride: int,
        target_stride: int,
    ) -> None:
        """One element: its bytes by vectors, the rest by values; or all by values, over zeros."""
        converter = _Converter(function, plan, self)
        mapped = byte_map(
            operations,
            source_stride,
            target_stride,
            is_swapped=plan.sender.byte_order != plan.receiver.byte_order,
            is_little=plan.receiver.byte_order == self.machine.byte_order == "little",
        )
        if self.machine.vector_bytes and mapped is not None and mapped.is_worthwhile:
            shuffler = Shuffler(function, mapped, self.machine.vector_bytes)
            if shuffler.fits:
                shuffler.write(source, target)
                converter.run(mapped.rest, source, target)
                return
        if not covers(operations, target_stride):
            _zero(function, target, str(target_stride))
        converter.run(operations, source, target)


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


def _many_as_one(
    function: Function,
    operations: Operations,
    plan: Plan,
    module: Module,
    source_stride: int,
    target_stride: int,
) -> bool:
    """Elements that are all bytes to move, or all numbers to cast, are one long run of them."""
    match operations:
        case (Move(0, 0, size, unit),) if size == source_stride == target_stride:
            move_bytes(
                function, "%source", "%target", function.multiply("%count", size), unit, module.machine
            )
            return True
        case (Cast(0, 0, n, sender, receiver) as cast,) if (
            n * sender.size == source_stride and n * receiver.size == target_stride
        ):
            count = function.multiply("%count", n)
            swaps = module.swaps(plan.sender), module.swaps(plan.receiver)
            cast_values(function, cast, "%source", "%target", count, swaps, module.machine.vector_bytes)
            return True
        case _:
            return False


def move_bytes(function: Function, source: str, target: str, size: str, unit: int, machine: Machine) -> None:
    """So many bytes, each `unit` of them reversed: whole vectors first, then unit by unit."""
    if unit == 1:
        function.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
        return
    done = "0"
    width = machine.vector_bytes
    if width and not (size.isdigit() and int(size) < width):
        whole = function.value(f"and i64 {size}, {-width}")
        with function.loop(whole, [], step=width) as loop:
            _reverse_vector(
                function, function.at(source, loop.index), function.at(target, loop.index), unit, width
            )
        done = whole
    type_ = f"i{8 * unit}"
    rest = function.value(f"sub i64 {size}, {done}")
    with function.loop(rest, [], step=unit) as loop:
        at = function.add(done, loop.index)
        value = function.load(type_, function.at(source, at))
        swapped = function.value(f"call {type_} @llvm.bswap.{type_}({type_} {value})")
        function.store(type_, swapped, function.at(target, at))


def _reverse_vector(function: Function, source: str, target: str, unit: int, width: int) -> None:
    count = width // unit
    type_ = f"<{count} x i{8 * unit}>"
    value = function.load(type_, source)
    name = f"@llvm.bswap.v{count}i{8 * unit}"
    swapped = function.value(f"call {type_} {name}({type_} {value})")
    function.store(type_, swapped, target)


def _zero(function: Function, target: str, size: str) -> None:
    function.do(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {size}, i1 false)")


# ---------------------------------------------------------------------------
# Reading a sender's record


class _Reader:
    """What all three functions do alike: find lengths, slots and presence in a record."""

    def __init__(self, function: Function, side: Side, module: Module) -> None:
        self.function = function
        self._side = side
        self._module = module

    def number(self, scalar: Scalar, pointer: str) -> str:
        return load_number(self.function, scalar, pointer, is_swapped=self._module.swaps(self._side))

    def word(self, pointer: str) -> str:
        scalar = Scalar(Kind.UINT, self._side.pointer_size)
        return self._as_i64(scalar, self.number(scalar, pointer))

    def _as_i64(self, scalar: Scalar, value: str) -> str:
        if scalar.size == 8:
            return value
        extend = "sext" if scalar.kind is Kind.INT else "zext"
        return self.function.value(f"{extend} i{8 * scalar.size} {value} to i64")

    def length(self, length: Length, base: str) -> str:
        match length:
            case Known():
                return str(length.count)
            case Word():
                return self.word(self.function.at(base, length.offset))
            case Count():
                pointer = self.function.at(base, length.offset)
                return self._as_i64(length.scalar, self.number(length.scalar, pointer))

    def lengths(self, place: Inline | Slot, base: str) -> list[str]:
        return [self.length(length, base) for length in place.lengths]

    def product(self, lengths: list[str]) -> str:
        count = "1"
        for length in lengths:
            count = length if count == "1" else self.function.multiply(count, length)
        return count

    def is_present(self, source: Flag | Offset, base: str) -> str:
        if isinstance(source, Flag):
            flag = self.function.load("i8", self.function.at(base, source.offset))
            return self.function.value(f"icmp ne i8 {flag}, 0")
        word = self.word(self.function.at(base, source.offset))
        return self.function.value(f"icmp ne i64 {word}, 0")

    def text_size(self, start: str, text: Text) -> str:
        """How many bytes a text has before its NUL, or before the end of its place."""
        function = self.function
        if text.source_size is None:
            return function.value(f"call i64 @strlen(ptr {start})")
        limit = str(text.source_size)
        found = function.value(f"call ptr @memchr(ptr {start}, i32 0, i64 {limit})")
        size = self.distance(start, found)
        is_none = function.value(f"icmp eq ptr {found}, null")
        return function.value(f"select i1 {is_none}, i64 {limit}, i64 {size}")

    def distance(self, start: str, end: str) -> str:
        first = self.function.value(f"ptrtoint ptr {start} to i64")
        last = self.function.value(f"ptrtoint ptr {end} to i64")
        return self.function.value(f"sub i64 {last}, {first}")


class _Verifier(_Reader):
    """`end` is the offset at which the next variable part may begin."""

    end: str

    def run(self, operations: Operations, base: str) -> None:
        for operation, body in steps(operations):
            match operation:
                case Text():
                    self._pass_text(operation, base)
                case Run():
                    self._pass_run(operation, body, base)
                case When():
                    self._pass_when(operation, body, base)
                case Each():
                    self._elements(
                        body,
                        self.function.at(base, operation.source),
                        str(operation.count),
                        operation.source_stride,
                    )
                case _:
                    raise AssertionError(operation)

    def _begin(self, slot: str, alignment: int) -> str:
        """The start of the part that a slot refers to, which is the only place where it may be."""
        expected = self.function.round_up(self.end, alignment)
        start = self.word(slot)
        self._demand("eq", start, expected)
        self._demand("ule", start, "%size")
        return start

    def _demand(self, relation: str, a: str, b: str) -> None:
        self.function.fail_unless(self.function.value(f"icmp {relation} i64 {a}, {b}"))

    def _pass_text(self, text: Text, base: str) -> None:
        start = self._begin(self.function.at(base, text.source), 1)
        left = self.function.value(f"sub i64 %size, {start}")
        pointer = self.function.at("%record", start)
        found = self.function.value(f"call ptr @memchr(ptr {pointer}, i32 0, i64 {left})")
        self.function.fail_unless(self.function.value(f"icmp ne ptr {found}, null"))
        self.end = self.function.add(self.distance("%record", found), 1)

    def _pass_run(self, run: Run, body: Operations, base: str) -> None:
        slot = run.source
        assert isinstance(slot, Slot)
        lengths = self.lengths(slot, base)
        if len(lengths) > 1:
            self._bound(lengths)
        count = self.product(lengths)
        start = self._begin(self.function.at(base, slot.offset), slot.alignment)
        left = self.function.value(f"sub i64 %size, {start}")
        most = self.function.value(f"udiv i64 {left}, {run.source_stride}")
        self._demand("ule", count, most)
        self.end = self.function.add(start, self.function.multiply(count, run.source_stride))
        if body:
            self._elements(body, self.function.at("%record", start), count, run.source_stride)

    def _bound(self, lengths: list[str]) -> None:
        """The product of the lengths that are not 0 stays below the bound, so that none overflows."""
        extent = "1"
        for length in lengths:
            is_none = self.function.value(f"icmp eq i64 {length}, 0")
            factor = self.function.value(f"select i1 {is_none}, i64 1, i64 {length}")
            pair = self.function.value(
                f"call {{i64, i1}} @llvm.umul.with.overflow.i64(i64 {extent}, i64 {factor})"
            )
            extent = self.function.value(f"extractvalue {{i64, i1}} {pair}, 0")
            over = self.function.value(f"extractvalue {{i64, i1}} {pair}, 1")
            self.function.fail_unless(self.function.value(f"xor i1 {over}, true"))
            self._demand("ule", extent, str(MAX_EXTENT))

    def _elements(self, body: Operations, start: str, count: str, stride: int) -> None:
        with self.function.loop(count, [self.end]) as loop:
            self.end = loop.carried[0]
            self.run(body, self.function.at(start, self.function.multiply(loop.index, stride)))
            loop.carried = [self.end]
        self.end = loop.carried[0]

    def _pass_when(self, when: When, body: Operations, base: str) -> None:
        present = self.is_present(when.source, base)
        if isinstance(when.source, Offset) and when.source.lengths:
            lengths = [self.length(n, base) for n in when.source.lengths]
            any_length = lengths[0]
            for length in lengths[1:]:
                any_length = self.function.value(f"or i64 {any_length}, {length}")
            is_none = self.function.value(f"icmp eq i64 {any_length}, 0")
            self.function.fail_unless(self.function.value(f"or i1 {present}, {is_none}"))
        with self.function.when(present, [self.end]) as branch:
            self.run(body, base)
            branch.carried = [self.end]
        self.end = branch.carried[0]


def _verify(plan: Plan, module: Module) -> Function:
    function = Function("i32 @verify(ptr %record, i64 %size)", failure="i32 1")
    verifier = _Verifier(function, plan.sender, module)
    verifier.end = str(plan.sender.size)
    function.fail_unless(function.value(f"icmp uge i64 %size, {plan.sender.size}"))
    verifier.run(plan.operations, "%record")
    function.fail_unless(function.value(f"icmp eq i64 %size, {verifier.end}"))
    function.do("ret i32 0")
    return function


# ---------------------------------------------------------------------------
# Measuring and converting


class _Measurer(_Reader):
    """`end` is where the next variable part of the receiver's record may begin; nothing is written."""

    end: str

    def run(self, operations: Operations, base: str) -> None:
        for operation, body in steps(operations):
            if not any(reaches_out(inner) for inner in (operation, *body)):
                continue
            match operation:
                case Each():
                    start = self.function.at(base, operation.source)
                    self._elements(body, start, str(operation.count), operation.source_stride)
                case When():
                    with self.function.when(self.is_present(operation.source, base), [self.end]) as branch:
                        self.run(body, base)
                        branch.carried = [self.end]
                    self.end = branch.carried[0]
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
        with self.function.loop(count, [self.end]) as loop:
            self.end = loop.carried[0]
            self.run(body, self.function.at(start, self.function.multiply(loop.index, stride)))
            loop.carried = [self.end]
        self.end = loop.carried[0]


def _measure(plan: Plan, module: Module) -> Function:
    function = Function("i64 @measure(ptr %record)", failure="i64 -1")
    measurer = _Measurer(function, plan.sender, module)
    measurer.end = str(plan.receiver.size)
    measurer.run(plan.operations, "%record")
    if plan.receiver.pointer_size == 4:  # its offsets reach no further
        function.fail_unless(function.value(f"icmp ult i64 {measurer.end}, {2**32}"))
    function.do(f"ret i64 {measurer.end}")
    return function


class _Converter(_Measurer):
    """Writes the receiver's record at `%target`; the record's base and an element's go hand in hand."""

    def __init__(self, function: Function, plan: Plan, module: Module) -> None:
        super().__init__(function, plan.sender, module)
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
        type_ = f"i{8 * move.unit}"
        for at in range(0, move.size, move.unit):
            value = self.function.load(type_, self.function.at(source, at))
            swapped = self.function.value(f"call {type_} @llvm.bswap.{type_}({type_} {value})")
            self.function.store(type_, swapped, self.function.at(place, at))

    def _bytes(self, data: bytes, pointer: str) -> None:
        """Constant bytes, in the widest integers that fit."""
        at = 0
        for width in (8, 4, 2, 1):
            while len(data) - at >= width:
                number = int.from_bytes(data[at : at + width], self._module.machine.byte_order)
                self.function.store(f"i{8 * width}", str(number), self.function.at(pointer, at))
                at += width

    def _cast(self, cast: Cast, base: str, target: str) -> None:
        swaps = self._module.swaps(self._plan.sender), self._module.swaps(self._plan.receiver)
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
        is_swapped = self._module.swaps(self._plan.receiver)
        store_number(self.function, scalar, value, pointer, is_swapped=is_swapped)

    def _each(
        self, body: Operations, source: str, target: str, count: str, source_stride: int, target_stride: int
    ) -> None:
        reaches = any(reaches_out(operation) for operation in body)
        with self.function.loop(count, [self.end] if reaches else []) as loop:
            if reaches:
                self.end = loop.carried[0]
            from_ = self.function.at(source, self.function.multiply(loop.index, source_stride))
            to = self.function.at(target, self.function.multiply(loop.index, target_stride))
            self.run(body, from_, to)
            if reaches:
                loop.carried = [self.end]
        if reaches:
            self.end = loop.carried[0]

    def _when(self, when: When, body: Operations, base: str, target: str) -> None:
        present = self.is_present(when.source, base)
        if when.is_required:
            self.function.fail_unless(present)
            self.run(body, base, target)
            return
        reaches = any(reaches_out(operation) for operation in body)
        with self.function.when(present, [self.end] if reaches else []) as branch:
            self.run(body, base, target)
            if when.target is not None:
                self.function.store("i8", "1", self.function.at(target, when.target))
            if reaches:
                branch.carried = [self.end]
        if reaches:
            self.end = branch.carried[0]

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
                _zero(self.function, place, size)
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
        """Makes room for a variable part and fills its slot; the address of the part."""
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
            match length:
                case Word():
                    self._store_length(word, n, self.function.at(target, length.offset))
                case Count():
                    self._store_length(length.scalar, n, self.function.at(target, length.offset))
                case Known():
                    pass
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


def _convert(plan: Plan, module: Module) -> Function:
    function = Function("i32 @convert(ptr noalias %record, ptr noalias %target)", failure="i32 1")
    converter = _Converter(function, plan, module)
    converter.end = str(plan.receiver.size)
    if not covers(plan.operations, plan.receiver.size):
        _zero(function, "%target", str(plan.receiver.size))
    converter.run(plan.operations, "%record")
    function.do("ret i32 0")
    return function

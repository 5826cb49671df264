"""Values of steps as LLVM IR: in the type and the lanes that a step wants, and what is in the record."""

from __future__ import annotations

from dataclasses import dataclass, field

from echo_core.codegen.emit.halves import widened
from echo_core.codegen.emit.ir import Function, vector_type
from echo_core.codegen.expressions.program import IS_SWAPPED, NO_STEP, Program, Step
from echo_core.errors import CompileError

LANES = 8  # rows of a table in a vector

_LOADED = {"8": "i8", "16": "i16", "32": "i32", "64": "i64"}


@dataclass(frozen=True, slots=True)
class Value:
    """What a step has written: its type, and names; bytes and regions have a count besides."""

    type: str
    name: str
    count: str = ""
    lanes: int = 0


@dataclass(slots=True)
class Values:
    """Writes what needs no operation into a function; what steps are made of stands on it."""

    function: Function
    program: Program
    record: str = "%record"
    size: str = "%size"
    columns: str = ""  # of the rows of a table that are judged now
    values: dict[int, Value] = field(default_factory=dict[int, Value])

    # -----------------------------------------------------------------------
    # Operands

    def get(self, number: int, type_: str, lanes: int = 0) -> str:
        """A value as a type, in so many lanes."""
        value = self.values[number]
        name, own = value.name, value.lanes
        if value.type != type_:
            name = self._converted(value, type_)
        if lanes and not own:
            one = self.function.value(
                f"insertelement {vector_type(type_, lanes)} poison, {type_} {name}, i64 0"
            )
            full = vector_type(type_, lanes)
            name = self.function.value(
                f"shufflevector {full} {one}, {full} poison, <{lanes} x i32> zeroinitializer"
            )
        return name

    def _converted(self, value: Value, type_: str) -> str:
        source, target = vector_type(value.type, value.lanes), vector_type(type_, value.lanes)
        if type_ == "i1":
            zero = "zeroinitializer" if value.lanes else "0"
            return self.function.value(f"icmp ne {source} {value.name}, {zero}")
        if value.type == "i1":
            widened = self.function.value(f"zext {source} {value.name} to {vector_type('i64', value.lanes)}")
            return (
                widened
                if type_ == "i64"
                else self._converted(Value("i64", widened, lanes=value.lanes), type_)
            )
        return self.function.value(f"bitcast {source} {value.name} to {target}")

    def bits(self, number: int) -> str:
        """A value as an integer of 64 bits, whatever it means."""
        return self.get(number, "i64")

    def _lanes(self, *numbers: int) -> int:
        return max((self.values[number].lanes for number in numbers), default=0)

    def _scalar(self, *numbers: int) -> None:
        if self._lanes(*numbers):
            msg = "Expected operations that vectors have, got others"
            raise CompileError(msg)

    def _demand(self, condition: str, lanes: int = 0) -> None:
        """Fails unless the condition holds, in every lane."""
        if lanes:
            bits = self.function.value(f"bitcast <{lanes} x i1> {condition} to i{lanes}")
            condition = self.function.value(f"icmp eq i{lanes} {bits}, -1")
        self.function.fail_unless(condition)

    # -----------------------------------------------------------------------
    # What needs no record

    def _value(self, type_: str, expression: str, lanes: int = 0) -> Value:
        return Value(type_, self.function.value(expression), lanes=lanes)

    def write_constant(self, step: Step) -> Value:
        return Value("i64", str(step.imm))

    def write_parameter(self, step: Step) -> Value:
        if self.columns:
            at = self.function.at(self.columns, 64 * 8 * step.imm)
            return Value("i64", self.function.load(vector_type("i64", LANES), at), lanes=LANES)
        return Value("i64", self.function.load("i64", self.function.at("%parameters", 16 * step.imm)))

    def write_text_parameter(self, step: Step) -> Value:
        at = self.function.at("%parameters", 16 * step.imm)
        offset = self.function.load("i64", at)
        count = self.function.load("i64", self.function.at(at, 8))
        return Value("ptr", self.function.at("%parameters", offset), count)

    def write_text_constant(self, step: Step) -> Value:
        name = self.function.at("@pool", step.imm) if self.program.pool else "null"
        return Value("ptr", name, str(step.aux))

    def write_state(self, step: Step) -> Value:
        offset = 16 * step.imm + (8 if step.op == "STATE" else 0)
        return Value("i64", self.function.load("i64", self.function.at("%states", offset)))

    # -----------------------------------------------------------------------
    # The record

    def _at(self, step: Step) -> str:
        base = self.record if step.a == NO_STEP else self.values[step.a].name
        return self.function.at(base, step.imm)

    def _load(self, step: Step) -> Value:
        kind = step.op.removeprefix("LOAD_")
        at = self._at(step)
        if kind == "BOOL":
            return self._value("i1", f"icmp ne i8 {self.function.load('i8', at)}, 0")
        stored = _LOADED[kind[1:]]
        bits = self.function.load(stored, at)
        if step.b == IS_SWAPPED:
            bits = self.function.swap(stored, bits)
        return self._loaded(kind, stored, bits)

    def _loaded(self, kind: str, stored: str, bits: str) -> Value:
        if kind == "F16":
            return self._value("double", f"fpext float {widened(self.function, bits)} to double")
        if kind == "F32":
            return self._value(
                "double", f"fpext float {self.function.value(f'bitcast i32 {bits} to float')} to double"
            )
        if kind == "F64":
            return self._value("double", f"bitcast i64 {bits} to double")
        if stored == "i64":
            return Value("i64", bits)
        return self._value("i64", f"{'sext' if kind[0] == 'I' else 'zext'} {stored} {bits} to i64")

    def write_chars(self, step: Step) -> Value:
        at = self._at(step)
        if step.op == "FIXED":
            return Value("ptr", at, str(step.aux))
        return Value("ptr", at, self.function.value(f"call i64 @echo_chars_size(ptr {at}, i64 {step.aux})"))

    def write_text(self, step: Step) -> Value:
        offset = self.bits(step.c)
        call = f"call i64 @echo_slot_text_size(ptr {self.record}, i64 {self.size}, i64 {offset})"
        count = self.function.value(call)
        self._demand(self.function.value(f"icmp sge i64 {count}, 0"))
        return Value("ptr", self.function.at(self.record, offset), count)

    def write_region(self, step: Step) -> Value:
        f = self.function
        offset, count = self.bits(step.c), self.bits(step.b)
        left = f.value(f"sub i64 {self.size}, {offset}")
        most = f.value(f"udiv i64 {left}, {step.imm}")
        good = f.value(f"icmp ule i64 {count}, {most}")
        for condition in (f"icmp ne i64 {offset}, 0", f"icmp ule i64 {offset}, {self.size}"):
            good = f.value(f"and i1 {good}, {f.value(condition)}")
        self._demand(f.value(f"or i1 {good}, {f.value(f'icmp eq i64 {count}, 0')}"))
        return Value("ptr", f.at(self.record, offset), count)

    def write_array(self, step: Step) -> Value:
        return Value("ptr", self._at(step), str(step.aux))

    def write_slice(self, step: Step) -> Value:
        f, region = self.function, self.values[step.a]
        start, stop = step.imm >> 32, (step.imm & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
        first, last = (self._bound(bound, region.count) for bound in (start, stop))
        size = f.value(f"sub i64 {last}, {first}")
        is_some = f.value(f"icmp slt i64 {first}, {last}")
        count = f.value(f"select i1 {is_some}, i64 {size}, i64 0")
        offset = f.value(f"select i1 {is_some}, i64 {f.multiply(first, step.aux)}, i64 0")
        return Value("ptr", f.at(region.name, offset), count)

    def _bound(self, bound: int, count: str) -> str:
        at = self.function.value(f"add i64 {count}, {bound}") if bound < 0 else str(bound)
        least = self.function.value(f"call i64 @llvm.smax.i64(i64 {at}, i64 0)")
        return self.function.value(f"call i64 @llvm.smin.i64(i64 {least}, i64 {count})")

    def write_index(self, step: Step) -> Value:
        self._scalar(step.a, step.b)
        f, region, index = self.function, self.values[step.a], self.bits(step.b)
        is_below = f.value(f"icmp slt i64 {index}, 0")
        wrapped = f.value(f"add i64 {index}, {region.count}")
        at = f.value(f"select i1 {is_below}, i64 {wrapped}, i64 {index}")
        self._demand(f.value(f"icmp ult i64 {at}, {region.count}"))
        return Value("ptr", f.at(region.name, f.multiply(at, step.imm)))

    def write_length(self, step: Step) -> Value:
        return Value("i64", self.values[step.a].count)

    def write_characters(self, step: Step) -> Value:
        text = self.values[step.a]
        return self._value("i64", f"call i64 @echo_count_characters(ptr {text.name}, i64 {text.count})")

    def write_digest(self, step: Step) -> Value:
        text = self.values[step.a]
        return self._value("i64", f"call i64 @echo_digest(ptr {text.name}, i64 {text.count})")

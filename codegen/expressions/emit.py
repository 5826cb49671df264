"""Programs as LLVM IR.

    i64 @judge(ptr record, i64 size, ptr parameters, ptr states, ptr results)
    i64 @filter(ptr rows, i64 count, ptr parameters, ptr indices)       how many rows pass; their numbers
    void @copy(ptr rows, ptr indices, i64 count, ptr target)
    i64 @table(ptr record, i64 size, ptr columns, i64 words, ptr mask)  64 rows of parameters in each word

A record is at least as large as its fixed part. Where a step fails, the function returns -1 at once, also
where a guard says that nobody asks for that step: the caller then interprets all of them, which knows. So
compiled code has no branches but for what can fail, and no errors to carry.

In @table what depends on parameters is a vector of eight rows, and all else is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from echo_core.codegen.emit.halves import widened
from echo_core.codegen.emit.ir import LIKELY, Function, vector_type
from echo_core.codegen.expressions.program import IS_SWAPPED, NO_STEP, Program, Step
from echo_core.codegen.expressions.sorts import Sort
from echo_core.errors import CompileError

LANES = 8

_MIN = -(2**63)
_TWO_63 = "0x43E0000000000000"
_LESS_TWO_63 = "0xC3E0000000000000"
_INFINITY = "0x7FF0000000000000"

_CHECKED = {"ADD": "add", "SUB": "sub", "MUL": "mul"}
_LOADED = {"8": "i8", "16": "i16", "32": "i32", "64": "i64"}

_DECLARATIONS = (
    "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    "declare i16 @llvm.bswap.i16(i16)",
    "declare i32 @llvm.bswap.i32(i32)",
    "declare i64 @llvm.bswap.i64(i64)",
    "declare i32 @echo_compare_int(i64, double)",
    "declare i32 @echo_compare_uint(i64, double)",
    "declare double @echo_floor_divide(double, double)",
    "declare double @echo_remainder(double, double)",
    "declare double @echo_power(double, i64)",
    "declare double @echo_floor(double)",
    "declare double @echo_ceil(double)",
    "declare i32 @echo_compare_bytes(ptr, i64, ptr, i64)",
    "declare i32 @echo_starts(ptr, i64, ptr, i64)",
    "declare i32 @echo_ends(ptr, i64, ptr, i64)",
    "declare i32 @echo_contains(ptr, i64, ptr, i64)",
    "declare i64 @echo_count_characters(ptr, i64)",
    "declare i64 @echo_chars_size(ptr, i64)",
    "declare i64 @echo_slot_text_size(ptr, i64, i64)",
)


def emit(program: Program) -> str:
    """The module that judges records one by one, and rows where that is possible."""
    functions = [_judge(program)]
    if has_filter(program):
        functions.append(_filter(program))
    return _module(program, [*functions, _copy(program)])


def has_filter(program: Program) -> bool:
    """Whether rows can be judged by themselves: all roots are conditions, and nothing is remembered."""
    return not program.states and all(sort is Sort.BOOL for _, sort in program.roots)


def emit_table(program: Program) -> str:
    """The module that judges a record by many rows of parameters; CompileError where vectors cannot."""
    return _module(program, [_table(program)])


def _module(program: Program, functions: list[Function]) -> str:
    pool = "".join(f"\\{byte:02X}" for byte in program.pool)
    constants = (
        [f'@pool = private unnamed_addr constant [{len(program.pool)} x i8] c"{pool}"'] if pool else []
    )
    vectors = sorted(
        {name for function in functions for line in function.lines for name in _vectors_in(line)}
    )
    texts = (function.text() for function in functions)
    return "\n".join([*_DECLARATIONS, *vectors, *constants]) + "\n\n" + "\n\n".join([*texts, LIKELY]) + "\n"


def _vectors_in(line: str) -> list[str]:
    """The declarations of intrinsics that a line calls, of numbers and of vectors."""
    found: list[str] = []
    _, call, rest = line.partition("call ")
    if call and "@llvm." in rest and "bswap" not in rest and "memcpy" not in rest:
        type_, _, signature = rest.partition(" @")
        name, _, arguments = signature.partition("(")
        types = [part.rsplit(" ", 1)[0].strip() for part in _split(arguments.rstrip(")"))]
        found.append(f"declare {type_} @{name}({', '.join(types)})")
    return found


def _split(arguments: str) -> list[str]:
    """Arguments of a call; the commas within vectors are not between them."""
    parts: list[str] = []
    depth, part = 0, ""
    for character in arguments:
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    return [*parts, part]


# ---------------------------------------------------------------------------
# Functions


def _judge(program: Program) -> Function:
    signature = "i64 @judge(ptr %record, i64 %size, ptr %parameters, ptr %states, ptr %results)"
    function = Function(signature, failure="i64 -1")
    steps = _Steps(function, program)
    steps.run(range(len(program.steps)))
    mask = "0"
    for i, (step, sort) in enumerate(program.roots):
        if sort is Sort.BOOL:
            bit = function.value(f"zext i1 {steps.get(step, 'i1')} to i64")
            shifted = function.value(f"shl i64 {bit}, {i}")
            mask = shifted if mask == "0" else function.value(f"or i64 {mask}, {shifted}")
        elif sort not in (Sort.TEXT, Sort.BYTES):
            function.store("i64", steps.bits(step), function.at("%results", 8 * i))
    for i, update in enumerate(program.updates, len(program.roots)):
        function.store("i64", steps.bits(update.step), function.at("%results", 8 * i))
    function.do(f"ret i64 {mask}")
    return function


def _filter(program: Program) -> Function:
    function = Function("i64 @filter(ptr %rows, i64 %count, ptr %parameters, ptr %indices)", failure="i64 -1")
    steps = _Steps(function, program, record="%row", size=str(program.record_size))
    reading = _depending(program, lambda step: step.op.startswith(_OF_RECORD))
    steps.run(i for i in range(len(program.steps)) if i not in reading)
    with function.loop("%count", ["0"]) as loop:
        steps.record = function.at("%rows", function.multiply(loop.index, program.record_size))
        steps.run(i for i in range(len(program.steps)) if i in reading)
        number = function.value(f"trunc i64 {loop.index} to i32")
        at = function.value(f"getelementptr i32, ptr %indices, i64 {loop.carried[0]}")
        function.store("i32", number, at)
        passes = ""
        for step, _ in program.roots:
            holds = steps.get(step, "i1")
            passes = holds if not passes else function.value(f"and i1 {passes}, {holds}")
        loop.carried = [function.add(loop.carried[0], function.value(f"zext i1 {passes} to i64"))]
    function.do(f"ret i64 {loop.carried[0]}")
    return function


def _copy(program: Program) -> Function:
    size = program.record_size
    function = Function(
        "void @copy(ptr noalias %rows, ptr noalias %indices, i64 %count, ptr noalias %target)"
    )
    with function.loop("%count", []) as loop:
        at = function.value(f"getelementptr i32, ptr %indices, i64 {loop.index}")
        number = function.value(f"zext i32 {function.load('i32', at)} to i64")
        source = function.at("%rows", function.multiply(number, size))
        target = function.at("%target", function.multiply(loop.index, size))
        function.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
    function.do("ret void")
    return function


def _table(program: Program) -> Function:
    signature = "i64 @table(ptr %record, i64 %size, ptr %columns, i64 %words, ptr %mask)"
    function = Function(signature, failure="i64 -1")
    steps = _Steps(function, program)
    varying = _depending(program, lambda step: step.op == "PARAM")
    loops = [i for i, step in enumerate(program.steps) if step.op == "FOR"]
    if any(i in varying for loop in loops for i in range(loop, program.steps[loop].b + 1)):
        msg = "Expected parameters outside of loops, got some within"
        raise CompileError(msg)
    steps.run(i for i in range(len(program.steps)) if i not in varying)
    blocks = function.multiply("%words", 64 // LANES)
    with function.loop(blocks, []) as loop:
        word = function.value(f"lshr i64 {loop.index}, {(64 // LANES).bit_length() - 1}")
        rest = function.value(f"and i64 {loop.index}, {64 // LANES - 1}")
        begin = function.multiply(word, 64 * 8 * len(program.slots))
        steps.columns = function.at("%columns", function.add(begin, function.multiply(rest, 8 * LANES)))
        steps.run(i for i in range(len(program.steps)) if i in varying)
        holds = steps.get(program.roots[0][0], "i1", lanes=LANES)
        byte = function.value(f"bitcast <{LANES} x i1> {holds} to i{LANES}")
        function.store(f"i{LANES}", byte, function.at("%mask", loop.index))
    function.do("ret i64 0")
    return function


_OF_RECORD = ("LOAD", "CHARS", "FIXED", "TEXT", "REGION", "ARRAY")


def _depending(program: Program, begins: Callable[[Step], bool]) -> set[int]:
    """The steps that depend on such ones. A loop that holds one does as a whole: it is emitted at once."""
    found: set[int] = set()
    for i, step in enumerate(program.steps):
        is_constant = step.op in ("TEXT_CONST", "TEXT_PARAM")
        if (begins(step) and not is_constant) or any(it in found for it in step.operands()):
            found.add(i)
    for i, step in enumerate(program.steps):
        if step.op == "FOR" and any(it in found for it in range(i, step.b + 1)):
            found.update(range(i, step.b + 1))
    return _closed(program, found)


def _closed(program: Program, found: set[int]) -> set[int]:
    for i, step in enumerate(program.steps):
        if i not in found and any(it in found for it in step.operands()):
            found.add(i)
    return found


# ---------------------------------------------------------------------------
# Steps


@dataclass(frozen=True, slots=True)
class _Value:
    """What a step has written: its type, and names; bytes and regions have a count besides."""

    type: str
    name: str
    count: str = ""
    lanes: int = 0


@dataclass(slots=True)
class _Steps:
    """Writes steps into a function."""

    function: Function
    program: Program
    record: str = "%record"
    size: str = "%size"
    columns: str = ""  # of the rows of a table that are judged now
    values: dict[int, _Value] = field(default_factory=dict[int, _Value])

    def run(self, numbers: Iterable[int]) -> None:
        done = -1
        for number in numbers:
            if number > done:
                step = self.program.steps[number]
                if step.op == "FOR":
                    self._loop(number, step)
                    done = step.b
                else:
                    self.values[number] = self._written(step)

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

    def _converted(self, value: _Value, type_: str) -> str:
        source, target = vector_type(value.type, value.lanes), vector_type(type_, value.lanes)
        if type_ == "i1":
            zero = "zeroinitializer" if value.lanes else "0"
            return self.function.value(f"icmp ne {source} {value.name}, {zero}")
        if value.type == "i1":
            widened = self.function.value(f"zext {source} {value.name} to {vector_type('i64', value.lanes)}")
            return (
                widened
                if type_ == "i64"
                else self._converted(_Value("i64", widened, lanes=value.lanes), type_)
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
    # One step

    def _written(self, step: Step) -> _Value:
        op = step.op
        if op.startswith("LOAD"):
            return self._load(step)
        writer = _WRITERS.get(op)
        if writer is not None:
            return writer(self, step)
        base, _, kind = op.rpartition("_")
        if base in ("EQ", "LT", "LE"):
            return self._compare(base, kind, step)
        return self._arithmetic(base, kind, step)

    def _value(self, type_: str, expression: str, lanes: int = 0) -> _Value:
        return _Value(type_, self.function.value(expression), lanes=lanes)

    def write_constant(self, step: Step) -> _Value:
        return _Value("i64", str(step.imm))

    def write_parameter(self, step: Step) -> _Value:
        if self.columns:
            at = self.function.at(self.columns, 64 * 8 * step.imm)
            return _Value("i64", self.function.load(vector_type("i64", LANES), at), lanes=LANES)
        return _Value("i64", self.function.load("i64", self.function.at("%parameters", 16 * step.imm)))

    def write_text_parameter(self, step: Step) -> _Value:
        at = self.function.at("%parameters", 16 * step.imm)
        offset = self.function.load("i64", at)
        count = self.function.load("i64", self.function.at(at, 8))
        return _Value("ptr", self.function.at("%parameters", offset), count)

    def write_text_constant(self, step: Step) -> _Value:
        name = self.function.at("@pool", step.imm) if self.program.pool else "null"
        return _Value("ptr", name, str(step.aux))

    def write_state(self, step: Step) -> _Value:
        offset = 16 * step.imm + (8 if step.op == "STATE" else 0)
        return _Value("i64", self.function.load("i64", self.function.at("%states", offset)))

    # -----------------------------------------------------------------------
    # The record

    def _at(self, step: Step) -> str:
        base = self.record if step.a == NO_STEP else self.values[step.a].name
        return self.function.at(base, step.imm)

    def _load(self, step: Step) -> _Value:
        kind = step.op.removeprefix("LOAD_")
        at = self._at(step)
        if kind == "BOOL":
            return self._value("i1", f"icmp ne i8 {self.function.load('i8', at)}, 0")
        stored = _LOADED[kind[1:]]
        bits = self.function.load(stored, at)
        if step.b == IS_SWAPPED:
            bits = self.function.swap(stored, bits)
        return self._loaded(kind, stored, bits)

    def _loaded(self, kind: str, stored: str, bits: str) -> _Value:
        if kind == "F16":
            return self._value("double", f"fpext float {widened(self.function, bits)} to double")
        if kind == "F32":
            return self._value(
                "double", f"fpext float {self.function.value(f'bitcast i32 {bits} to float')} to double"
            )
        if kind == "F64":
            return self._value("double", f"bitcast i64 {bits} to double")
        if stored == "i64":
            return _Value("i64", bits)
        return self._value("i64", f"{'sext' if kind[0] == 'I' else 'zext'} {stored} {bits} to i64")

    def write_chars(self, step: Step) -> _Value:
        at = self._at(step)
        if step.op == "FIXED":
            return _Value("ptr", at, str(step.aux))
        return _Value("ptr", at, self.function.value(f"call i64 @echo_chars_size(ptr {at}, i64 {step.aux})"))

    def write_text(self, step: Step) -> _Value:
        offset = self.bits(step.c)
        call = f"call i64 @echo_slot_text_size(ptr {self.record}, i64 {self.size}, i64 {offset})"
        count = self.function.value(call)
        self._demand(self.function.value(f"icmp sge i64 {count}, 0"))
        return _Value("ptr", self.function.at(self.record, offset), count)

    def write_region(self, step: Step) -> _Value:
        f = self.function
        offset, count = self.bits(step.c), self.bits(step.b)
        left = f.value(f"sub i64 {self.size}, {offset}")
        most = f.value(f"udiv i64 {left}, {step.imm}")
        good = f.value(f"icmp ule i64 {count}, {most}")
        for condition in (f"icmp ne i64 {offset}, 0", f"icmp ule i64 {offset}, {self.size}"):
            good = f.value(f"and i1 {good}, {f.value(condition)}")
        self._demand(f.value(f"or i1 {good}, {f.value(f'icmp eq i64 {count}, 0')}"))
        return _Value("ptr", f.at(self.record, offset), count)

    def write_array(self, step: Step) -> _Value:
        return _Value("ptr", self._at(step), str(step.aux))

    def write_slice(self, step: Step) -> _Value:
        f, region = self.function, self.values[step.a]
        start, stop = step.imm >> 32, (step.imm & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
        first, last = (self._bound(bound, region.count) for bound in (start, stop))
        size = f.value(f"sub i64 {last}, {first}")
        is_some = f.value(f"icmp slt i64 {first}, {last}")
        count = f.value(f"select i1 {is_some}, i64 {size}, i64 0")
        offset = f.value(f"select i1 {is_some}, i64 {f.multiply(first, step.aux)}, i64 0")
        return _Value("ptr", f.at(region.name, offset), count)

    def _bound(self, bound: int, count: str) -> str:
        at = self.function.value(f"add i64 {count}, {bound}") if bound < 0 else str(bound)
        least = self.function.value(f"call i64 @llvm.smax.i64(i64 {at}, i64 0)")
        return self.function.value(f"call i64 @llvm.smin.i64(i64 {least}, i64 {count})")

    def write_index(self, step: Step) -> _Value:
        self._scalar(step.a, step.b)
        f, region, index = self.function, self.values[step.a], self.bits(step.b)
        is_below = f.value(f"icmp slt i64 {index}, 0")
        wrapped = f.value(f"add i64 {index}, {region.count}")
        at = f.value(f"select i1 {is_below}, i64 {wrapped}, i64 {index}")
        self._demand(f.value(f"icmp ult i64 {at}, {region.count}"))
        return _Value("ptr", f.at(region.name, f.multiply(at, step.imm)))

    def write_length(self, step: Step) -> _Value:
        return _Value("i64", self.values[step.a].count)

    def write_characters(self, step: Step) -> _Value:
        text = self.values[step.a]
        return self._value("i64", f"call i64 @echo_count_characters(ptr {text.name}, i64 {text.count})")

    # -----------------------------------------------------------------------
    # Comparisons and logic

    def _compare(self, relation: str, kind: str, step: Step) -> _Value:
        if kind == "T":
            return self._compare_bytes(relation, step)
        if kind in ("IF", "FI", "UF", "FU"):
            return self._compare_mixed(relation, kind, step)
        if kind in ("IU", "UI"):
            return self._compare_signs(relation, kind, step)
        lanes = self._lanes(step.a, step.b)
        type_ = "double" if kind == "F" else "i64"
        a, b = self.get(step.a, type_, lanes), self.get(step.b, type_, lanes)
        if kind == "F":
            predicate = {"EQ": "oeq", "LT": "olt", "LE": "ole"}[relation]
            return self._value("i1", f"fcmp {predicate} {vector_type(type_, lanes)} {a}, {b}", lanes)
        sign = "" if relation == "EQ" else "s" if kind == "I" else "u"
        predicate = f"icmp {sign}{relation.lower()}"
        return self._value("i1", f"{predicate} {vector_type(type_, lanes)} {a}, {b}", lanes)

    def _compare_signs(self, relation: str, kind: str, step: Step) -> _Value:
        """A signed integer with an unsigned one: below 0 it is less than all."""
        lanes = self._lanes(step.a, step.b)
        a, b = self.get(step.a, "i64", lanes), self.get(step.b, "i64", lanes)
        type_, zero = vector_type("i64", lanes), "zeroinitializer" if lanes else "0"
        predicate = "eq" if relation == "EQ" else f"u{relation.lower()}"
        compared = self.function.value(f"icmp {predicate} {type_} {a}, {b}")
        is_below = relation != "EQ" and kind == "IU"
        sign = self.function.value(
            f"icmp {'slt' if is_below else 'sge'} {type_} {a if kind == 'IU' else b}, {zero}"
        )
        return self._value(
            "i1", f"{'or' if is_below else 'and'} {vector_type('i1', lanes)} {sign}, {compared}", lanes
        )

    def _compare_mixed(self, relation: str, kind: str, step: Step) -> _Value:
        self._scalar(step.a, step.b)
        integer, number = (step.a, step.b) if kind[1] == "F" else (step.b, step.a)
        name = "echo_compare_int" if "I" in kind else "echo_compare_uint"
        call = f"call i32 @{name}(i64 {self.bits(integer)}, double {self.get(number, 'double')})"
        order = self.function.value(call)
        if relation == "EQ":
            return self._value("i1", f"icmp eq i32 {order}, 0")
        if relation == "LT":
            return self._value("i1", f"icmp eq i32 {order}, {-1 if kind[1] == 'F' else 1}")
        if kind[1] == "F":
            return self._value("i1", f"icmp sle i32 {order}, 0")
        return self._value("i1", f"icmp ult i32 {order}, 2")

    def _compare_bytes(self, relation: str, step: Step) -> _Value:
        order = self.function.value(f"call i32 @echo_compare_bytes({self._two_texts(step)})")
        predicate = {"EQ": "eq", "LT": "slt", "LE": "sle"}[relation]
        return self._value("i1", f"icmp {predicate} i32 {order}, 0")

    def _two_texts(self, step: Step) -> str:
        a, b = self.values[step.a], self.values[step.b]
        return f"ptr {a.name}, i64 {a.count}, ptr {b.name}, i64 {b.count}"

    def write_within(self, step: Step) -> _Value:
        found = self.function.value(f"call i32 @echo_{step.op.lower()}({self._two_texts(step)})")
        return self._value("i1", f"icmp ne i32 {found}, 0")

    def write_not(self, step: Step) -> _Value:
        lanes = self._lanes(step.a)
        ones = "splat (i1 true)" if lanes else "true"
        return self._value("i1", f"xor {vector_type('i1', lanes)} {self.get(step.a, 'i1')}, {ones}", lanes)

    def write_logic(self, step: Step) -> _Value:
        lanes = self._lanes(step.a, step.b)
        a, b = self.get(step.a, "i1", lanes), self.get(step.b, "i1", lanes)
        return self._value("i1", f"{step.op.lower()} {vector_type('i1', lanes)} {a}, {b}", lanes)

    def write_choose(self, step: Step) -> _Value:
        first, second = self.values[step.b], self.values[step.c]
        if first.count or second.count:
            return self._choose_text(step)
        lanes = self._lanes(step.a, step.b, step.c)
        types = {first.type, second.type}
        type_ = "double" if "double" in types else "i64" if "i64" in types else "i1"
        a, b = (self.get(number, type_, lanes) for number in (step.b, step.c))
        condition, full = self.get(step.a, "i1", lanes), vector_type(type_, lanes)
        kind = vector_type("i1", lanes)
        return self._value(type_, f"select {kind} {condition}, {full} {a}, {full} {b}", lanes)

    def _choose_text(self, step: Step) -> _Value:
        self._scalar(step.a)
        condition, a, b = self.get(step.a, "i1"), self.values[step.b], self.values[step.c]
        pointer = self.function.value(f"select i1 {condition}, ptr {a.name}, ptr {b.name}")
        return _Value(
            "ptr", pointer, self.function.value(f"select i1 {condition}, i64 {a.count}, i64 {b.count}")
        )

    # -----------------------------------------------------------------------
    # Arithmetic

    def _arithmetic(self, name: str, kind: str, step: Step) -> _Value:
        numbers = [number for number in (step.a, step.b) if number != NO_STEP]
        lanes = self._lanes(*numbers)
        type_ = "double" if kind == "F" else "i64"
        operands = [self.get(number, type_, lanes) for number in numbers]
        full = vector_type(type_, lanes)
        if kind == "F":
            return self._float_arithmetic(name, full, operands, lanes, step)
        if name in _CHECKED:
            return self._checked(_CHECKED[name], kind, operands[0], operands[1], lanes)
        if name == "POW":
            return self._integer_power(kind, operands[0], step.imm, lanes)
        if name in ("AND", "OR", "XOR"):
            return self._value("i64", f"{name.lower()} {full} {operands[0]}, {operands[1]}", lanes)
        if name in ("NEG", "ABS", "NOT"):
            return self._integer_unary(name, operands[0], lanes)
        self._scalar(*numbers)  # divisions and shifts, which vectors do one by one
        if name in ("SHL", "SHR"):
            return self._shift(name, kind, *operands)
        return self._integer_division(name, kind, *operands)

    def _checked(self, name: str, kind: str, a: str, b: str, lanes: int) -> _Value:
        full = vector_type("i64", lanes)
        suffix = f"v{lanes}i64" if lanes else "i64"
        pair_type = f"{{{full}, {vector_type('i1', lanes)}}}"
        intrinsic = f"@llvm.{'s' if kind == 'I' else 'u'}{name}.with.overflow.{suffix}"
        pair = self.function.value(f"call {pair_type} {intrinsic}({full} {a}, {full} {b})")
        over = self.function.value(f"extractvalue {pair_type} {pair}, 1")
        ones = "splat (i1 true)" if lanes else "true"
        self._demand(self.function.value(f"xor {vector_type('i1', lanes)} {over}, {ones}"), lanes)
        return self._value("i64", f"extractvalue {pair_type} {pair}, 0", lanes)

    def _integer_power(self, kind: str, base: str, exponent: int, lanes: int) -> _Value:
        if exponent == 0:
            return _Value("i64", "1")
        result = _Value("i64", base, lanes=lanes)
        for _ in range(exponent - 1):
            result = self._checked("mul", kind, result.name, base, lanes)
        return result

    def _integer_unary(self, name: str, a: str, lanes: int) -> _Value:
        full = vector_type("i64", lanes)
        if name == "NOT":
            return self._value("i64", f"xor {full} {a}, {'splat (i64 -1)' if lanes else '-1'}", lanes)
        least = f"splat (i64 {_MIN})" if lanes else str(_MIN)
        zero = "zeroinitializer" if lanes else "0"
        self._demand(self.function.value(f"icmp ne {full} {a}, {least}"), lanes)
        negative = self.function.value(f"sub {full} {zero}, {a}")
        if name == "NEG":
            return _Value("i64", negative, lanes=lanes)
        is_below = self.function.value(f"icmp slt {full} {a}, {zero}")
        return self._value(
            "i64", f"select {vector_type('i1', lanes)} {is_below}, {full} {negative}, {full} {a}", lanes
        )

    def _shift(self, name: str, kind: str, a: str, by: str) -> _Value:
        f, back = self.function, "ashr" if kind == "I" else "lshr"
        self._demand(f.value(f"icmp ult i64 {by}, 64"))
        if name == "SHR":
            return self._value("i64", f"{back} i64 {a}, {by}")
        shifted = f.value(f"shl i64 {a}, {by}")
        self._demand(f.value(f"icmp eq i64 {f.value(f'{back} i64 {shifted}, {by}')}, {a}"))
        return _Value("i64", shifted)

    def _integer_division(self, name: str, kind: str, a: str, b: str) -> _Value:
        f = self.function
        self._demand(f.value(f"icmp ne i64 {b}, 0"))
        if kind == "U":
            return self._value("i64", f"{'udiv' if name == 'FLOORDIV' else 'urem'} i64 {a}, {b}")
        is_minus_one = f.value(f"icmp eq i64 {b}, -1")
        if name == "MOD":
            b = f.value(f"select i1 {is_minus_one}, i64 1, i64 {b}")
        else:
            is_least = f.value(f"icmp eq i64 {a}, {_MIN}")
            both = f.value(f"and i1 {is_least}, {is_minus_one}")
            self._demand(f.value(f"xor i1 {both}, true"))
        rest = f.value(f"srem i64 {a}, {b}")
        differ = f.value(f"icmp slt i64 {f.value(f'xor i64 {rest}, {b}')}, 0")
        is_rest = f.value(f"icmp ne i64 {rest}, 0")
        is_low = f.value(f"and i1 {differ}, {is_rest}")
        if name == "MOD":
            raised = f.value(f"add i64 {rest}, {b}")
            return self._value("i64", f"select i1 {is_low}, i64 {raised}, i64 {rest}")
        quotient = f.value(f"sdiv i64 {a}, {b}")
        return self._value("i64", f"sub i64 {quotient}, {f.value(f'zext i1 {is_low} to i64')}")

    def _float_arithmetic(self, name: str, full: str, operands: list[str], lanes: int, step: Step) -> _Value:
        f = self.function
        zero = "zeroinitializer" if lanes else "0.0"
        if name in ("ADD", "SUB", "MUL"):
            return self._value("double", f"f{name.lower()} {full} {operands[0]}, {operands[1]}", lanes)
        if name == "NEG":
            return self._value("double", f"fneg {full} {operands[0]}", lanes)
        suffix = f"v{lanes}f64" if lanes else "f64"
        if name == "ABS":
            return self._value("double", f"call {full} @llvm.fabs.{suffix}({full} {operands[0]})", lanes)
        if name == "SQRT":
            self._demand(f.value(f"fcmp uge {full} {operands[0]}, {zero}"), lanes)
            return self._value("double", f"call {full} @llvm.sqrt.{suffix}({full} {operands[0]})", lanes)
        if name in ("DIV", "FLOORDIV", "MOD"):
            self._demand(f.value(f"fcmp une {full} {operands[1]}, {zero}"), lanes)
        if name == "DIV":
            return self._value("double", f"fdiv {full} {operands[0]}, {operands[1]}", lanes)
        if lanes:
            self._scalar(step.a, *([step.b] if step.b != NO_STEP else []))
        if name == "POW":
            return self._float_power(operands[0], step.imm)
        if name in ("FLOOR", "CEIL"):
            rounded = f.value(f"call double @echo_{name.lower()}(double {operands[0]})")
            return self._to_int(rounded)
        called = "floor_divide" if name == "FLOORDIV" else "remainder"
        return self._value(
            "double", f"call double @echo_{called}(double {operands[0]}, double {operands[1]})"
        )

    def _float_power(self, base: str, exponent: int) -> _Value:
        f = self.function
        result = f.value(f"call double @echo_power(double {base}, i64 {exponent})")
        is_finite = self._is_finite(result)
        was_infinite = f.value(f"xor i1 {self._is_finite(base)}, true")
        is_nan = f.value(f"fcmp uno double {result}, {result}")
        good = f.value(f"or i1 {is_finite}, {was_infinite}")
        self._demand(f.value(f"or i1 {good}, {is_nan}"))
        return _Value("double", result)

    def _is_finite(self, number: str) -> str:
        size = self.function.value(f"call double @llvm.fabs.f64(double {number})")
        return self.function.value(f"fcmp olt double {size}, {_INFINITY}")

    def write_question(self, step: Step) -> _Value:
        self._scalar(step.a)
        number = self.get(step.a, "double")
        if step.op == "IS_NAN":
            return self._value("i1", f"fcmp uno double {number}, {number}")
        if step.op == "IS_FINITE":
            return _Value("i1", self._is_finite(number))
        size = self.function.value(f"call double @llvm.fabs.f64(double {number})")
        return self._value("i1", f"fcmp oeq double {size}, {_INFINITY}")

    def _to_int(self, number: str) -> _Value:
        f = self.function
        is_above = f.value(f"fcmp oge double {number}, {_LESS_TWO_63}")
        is_below = f.value(f"fcmp olt double {number}, {_TWO_63}")
        self._demand(f.value(f"and i1 {is_above}, {is_below}"))
        return self._value("i64", f"fptosi double {number} to i64")

    def write_cast(self, step: Step) -> _Value:
        lanes = self._lanes(step.a)
        if step.op == "F_TO_I":
            self._scalar(step.a)
            return self._to_int(self.get(step.a, "double"))
        number, full = self.get(step.a, "i64"), vector_type("i64", lanes)
        if step.op == "U_TO_I":
            zero = "zeroinitializer" if lanes else "0"
            self._demand(self.function.value(f"icmp sge {full} {number}, {zero}"), lanes)
            return _Value("i64", number, lanes=lanes)
        cast = "sitofp" if step.op == "I_TO_F" else "uitofp"
        return self._value("double", f"{cast} {full} {number} to {vector_type('double', lanes)}", lanes)

    # -----------------------------------------------------------------------
    # Loops

    def _loop(self, number: int, step: Step) -> None:
        """Each element in turn. Whether there was one is carried too, as the extremes of none are errors."""
        f, region = self.function, self.values[step.a]
        reduction = self.program.steps[step.b]
        start = "1" if reduction.op == "ALL" else "0"
        with f.loop(region.count, [start, "0"]) as loop:
            at = f.at(region.name, f.multiply(loop.index, step.imm))
            self.values[number] = _Value("ptr", at)
            self.run(range(number + 1, step.b))
            total, had = loop.carried
            is_taken = self.get(reduction.c, "i1") if reduction.c != NO_STEP else "true"
            taken = self._reduced(reduction, total, had, is_taken)
            loop.carried = [
                f.value(f"select i1 {is_taken}, i64 {taken}, i64 {total}"),
                f.value(f"select i1 {is_taken}, i64 1, i64 {had}"),
            ]
        result, had = loop.carried
        if reduction.op.startswith(("MIN", "MAX")):
            self._demand(f.value(f"icmp ne i64 {had}, 0"))
        self.values[step.b] = _Value("i64", result)

    def _reduced(self, reduction: Step, total: str, had: str, is_taken: str) -> str:
        """The total with one more element, as 64 bits."""
        f = self.function
        name, _, kind = reduction.op.partition("_")
        if not kind:
            bit = f.value(f"zext i1 {self.get(reduction.b, 'i1')} to i64")
            return f.value(f"{'or' if name == 'ANY' else 'and'} i64 {total}, {bit}")
        if kind == "F":
            return self._float_reduced(name, self.get(reduction.b, "double"), total, had)
        it = self.bits(reduction.b)
        if name == "SUM":
            return self._summed(kind, it, total, is_taken)
        relation = f"{'s' if kind == 'I' else 'u'}{'lt' if name == 'MIN' else 'gt'}"
        return self._better(f.value(f"icmp {relation} i64 {it}, {total}"), it, total, had)

    def _summed(self, kind: str, it: str, total: str, is_taken: str) -> str:
        added = self.function.value(f"select i1 {is_taken}, i64 {it}, i64 0")
        return self._checked("add", kind, total, added, 0).name

    def _float_reduced(self, name: str, it: str, total: str, had: str) -> str:
        f = self.function
        before = f.value(f"bitcast i64 {total} to double")
        if name == "SUM":
            return f.value(f"bitcast double {f.value(f'fadd double {before}, {it}')} to i64")
        is_better = f.value(f"fcmp {'olt' if name == 'MIN' else 'ogt'} double {it}, {before}")
        return self._better(is_better, f.value(f"bitcast double {it} to i64"), total, had)

    def _better(self, is_better: str, it: str, total: str, had: str) -> str:
        f = self.function
        is_first = f.value(f"icmp eq i64 {had}, 0")
        return f.value(f"select i1 {f.value(f'or i1 {is_better}, {is_first}')}, i64 {it}, i64 {total}")


_WRITERS: dict[str, Callable[[_Steps, Step], _Value]] = {
    "CONST": _Steps.write_constant,
    "PARAM": _Steps.write_parameter,
    "TEXT_PARAM": _Steps.write_text_parameter,
    "TEXT_CONST": _Steps.write_text_constant,
    "STATE": _Steps.write_state,
    "STATE_COUNT": _Steps.write_state,
    "CHARS": _Steps.write_chars,
    "FIXED": _Steps.write_chars,
    "TEXT": _Steps.write_text,
    "REGION": _Steps.write_region,
    "ARRAY": _Steps.write_array,
    "SLICE": _Steps.write_slice,
    "INDEX": _Steps.write_index,
    "LENGTH": _Steps.write_length,
    "CHARACTERS": _Steps.write_characters,
    "STARTS": _Steps.write_within,
    "ENDS": _Steps.write_within,
    "CONTAINS": _Steps.write_within,
    "NOT": _Steps.write_not,
    "AND": _Steps.write_logic,
    "OR": _Steps.write_logic,
    "CHOOSE": _Steps.write_choose,
    "IS_NAN": _Steps.write_question,
    "IS_INF": _Steps.write_question,
    "IS_FINITE": _Steps.write_question,
    "F_TO_I": _Steps.write_cast,
    "U_TO_I": _Steps.write_cast,
    "I_TO_F": _Steps.write_cast,
    "U_TO_F": _Steps.write_cast,
}

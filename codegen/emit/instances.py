"""LLVM IR that turns events into records and records into events, for one class of slots.

    i32 @encode(ptr event, ptr target, ptr context)
    i64 @encode_many(ptr events, i64 count, ptr target, ptr context)     how many were done
    ptr @decode(ptr record, ptr context)

The context is an array of object references: the code itself names no address, so that it can be kept on
disk and run in another process. Where a value is not exactly what a field's type expects (a subclass, an int
in a float's place, text that is not ASCII) the code gives up, and the generic codec decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from echo_core.codegen import cpython
from echo_core.codegen.emit.ir import LIKELY, Function
from echo_core.formats.leaves import integer_range
from echo_core.formats.types import Field, Kind, Scalar, Type

# Every context begins with functions of native/events, then objects; those of the class come after them.
FUNCTIONS = ("WRITE_TEXT", "READ_TEXT", "WRITE_FIELD", "READ_FIELD")
OBJECTS = ("float", "int", "str", "True", "False")
_INDEX = {name: i for i, name in enumerate(FUNCTIONS + OBJECTS)}

_DIRECT = frozenset({Kind.BOOL, Kind.INT, Kind.UINT, Kind.CHARS})

DECLARATIONS = """
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare void @Py_DecRef(ptr)
declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)
"""


@dataclass(frozen=True, slots=True)
class Slot:
    """A field, its slot in an instance, and how its values are handled.

    `parts` describe the class of a nested record; `tree` is the index of what walks any other value.
    """

    field: Field
    at: int
    parts: Shape | None = None
    tree: int = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """A class for the emitter: its reference in the context, its slots, and the rest of its record."""

    index: int
    slots: tuple[Slot, ...]
    size: int
    gaps: tuple[tuple[int, int], ...]


def is_direct(type_: Type) -> bool:
    """Whether code handles a type's values by itself; others are left to a tree of values."""
    if not isinstance(type_, Scalar):
        return False
    return type_.kind in _DIRECT or (type_.kind is Kind.FLOAT and type_.size > 2)


def emit(shape: Shape) -> str:
    """The module for a class."""
    functions = [_encode(shape), _encode_many(shape), _decode(shape)]
    return "\n\n".join([DECLARATIONS.strip(), *(f.text() for f in functions), LIKELY]) + "\n"


def _reference(function: Function, index: int) -> str:
    pointer = function.at("%context", cpython.POINTER * index)
    return function.value(f"load ptr, ptr {pointer}, align 8")


# ---------------------------------------------------------------------------
# Encoding


def _encode(shape: Shape) -> Function:
    function = Function("i32 @encode(ptr %event, ptr noalias %target, ptr %context)", failure="i32 -1")
    _Encoder(function).event(shape, "%event", "%target")
    function.do("ret i32 0")
    return function


def _encode_many(shape: Shape) -> Function:
    function = Function("i64 @encode_many(ptr %events, i64 %count, ptr noalias %target, ptr %context)")
    encoder = _Encoder(function)
    encoder.load_references(shape)  # once for all events
    with function.loop("%count", []) as loop:
        function.failure = f"i64 {loop.index}"
        place = function.at("%events", function.multiply(loop.index, cpython.POINTER))
        event = function.value(f"load ptr, ptr {place}, align 8")
        encoder.event(shape, event, function.at("%target", function.multiply(loop.index, shape.size)))
    function.do("ret i64 %count")
    return function


def _classes(shape: Shape) -> list[int]:
    """The references of a class and those inside it."""
    nested = (index for slot in shape.slots if slot.parts for index in _classes(slot.parts))
    return [shape.index, *nested]


class _Encoder:
    """Writes the instructions that read an instance and write its record."""

    def __init__(self, function: Function) -> None:
        self._function = function
        # At the start: in a loop it would be another one each time.
        self._overflow = function.value("alloca i32, align 4")
        self._references: dict[int, str] = {}
        self._target = ""

    def load_references(self, shape: Shape) -> None:
        """Loads what every event needs once, at the start of the function."""
        for index in (*_INDEX.values(), *_classes(shape)):
            self._reference(index)

    def event(self, shape: Shape, event: str, target: str) -> None:
        """One event's record."""
        self._target = target
        self._shape(shape, event, 0)

    def _shape(self, shape: Shape, event: str, base: int) -> None:
        self._demand_type(event, self._reference(shape.index))
        for slot in shape.slots:
            value = self._function.value(f"load ptr, ptr {self._function.at(event, slot.at)}, align 8")
            self._function.fail_unless(self._function.value(f"icmp ne ptr {value}, null"))
            self._slot(slot, value, base + slot.field.offset)
        for at, size in shape.gaps:
            place = self._function.at(self._target, base + at)
            self._function.do(f"call void @llvm.memset.p0.i64(ptr {place}, i8 0, i64 {size}, i1 false)")

    def _slot(self, slot: Slot, value: str, at: int) -> None:
        target = self._function.at(self._target, at)
        type_ = slot.field.type
        if slot.parts is not None:
            self._shape(slot.parts, value, at)
        elif not isinstance(type_, Scalar) or not is_direct(type_):
            self._by_tree(slot, value, target)
        elif type_.kind is Kind.BOOL:
            self._bool(value, target)
        elif type_.kind is Kind.FLOAT:
            self._float(type_, value, target)
        elif type_.kind is Kind.CHARS:
            self._chars(type_, value, target)
        else:
            self._int(type_, value, target)

    def _common(self, name: str) -> str:
        return self._reference(_INDEX[name])

    def _reference(self, index: int) -> str:
        """The entry of the context at an index, loaded once."""
        if index not in self._references:
            self._references[index] = _reference(self._function, index)
        return self._references[index]

    def _demand_type(self, value: str, cls: str) -> None:
        function = self._function
        type_ = function.value(f"load ptr, ptr {function.at(value, cpython.TYPE_OFFSET)}, align 8")
        function.fail_unless(function.value(f"icmp eq ptr {type_}, {cls}"))

    def _by_tree(self, slot: Slot, value: str, target: str) -> None:
        function = self._function
        arguments = f"ptr {self._reference(slot.tree)}, ptr {value}, ptr {target}"
        failed = function.value(f"call i32 {self._common('WRITE_FIELD')}({arguments})")
        function.fail_unless(function.value(f"icmp eq i32 {failed}, 0"))

    def _bool(self, value: str, target: str) -> None:
        function = self._function
        is_true = function.value(f"icmp eq ptr {value}, {self._common('True')}")
        is_false = function.value(f"icmp eq ptr {value}, {self._common('False')}")
        function.fail_unless(function.value(f"or i1 {is_true}, {is_false}"))
        function.store("i8", function.value(f"zext i1 {is_true} to i8"), target)

    def _float(self, scalar: Scalar, value: str, target: str) -> None:
        function = self._function
        self._demand_type(value, self._common("float"))
        number = function.load("double", function.at(value, cpython.FLOAT_OFFSET))
        if scalar.size == 8:
            function.store("double", number, target)
            return
        rounded = function.value(f"fptrunc double {number} to float")
        wide = function.value(f"call double @llvm.fabs.f64(double {number})")
        narrow = function.value(f"call float @llvm.fabs.f32(float {rounded})")
        was_infinite = function.value(f"fcmp oeq double {wide}, 0x7FF0000000000000")
        is_infinite = function.value(f"fcmp oeq float {narrow}, 0x7FF0000000000000")
        function.fail_unless(function.value(f"icmp eq i1 {was_infinite}, {is_infinite}"))
        function.store("float", rounded, target)

    def _int(self, scalar: Scalar, value: str, target: str) -> None:
        function = self._function
        self._demand_type(value, self._common("int"))
        number = self._int_value(value)
        low, high = integer_range(scalar.kind, scalar.size)
        if low > -(2**63):
            function.fail_unless(function.value(f"icmp sge i64 {number}, {low}"))
        if high < 2**63 - 1:
            function.fail_unless(function.value(f"icmp sle i64 {number}, {high}"))
        if scalar.size < 8:
            number = function.value(f"trunc i64 {number} to i{8 * scalar.size}")
        function.store(f"i{8 * scalar.size}", number, target)

    def _int_value(self, value: str) -> str:
        """An int as i64: of one digit by itself, else by asking CPython."""
        function = self._function
        tag = function.load("i64", function.at(value, cpython.INT_TAG_OFFSET))
        digit = function.load("i32", function.at(value, cpython.INT_DIGIT_OFFSET))
        wide = function.value(f"zext i32 {digit} to i64")
        if cpython.HAS_INT_TAG:
            is_small = function.value(f"icmp ult i64 {tag}, 16")
            sign = function.value(f"sub i64 1, {function.value(f'and i64 {tag}, 3')}")
        else:
            is_small = function.value(f"icmp ult i64 {function.add(tag, 1)}, 3")
            sign = tag
        small = function.value(f"mul i64 {wide}, {sign}")
        before, large, end = function.block, function.name("large"), function.name("whole")
        function.do(f"br i1 {is_small}, label %{end}, label %{large}, !prof !0")
        function.label(large)
        asked = function.value(f"call i64 @PyLong_AsLongLongAndOverflow(ptr {value}, ptr {self._overflow})")
        flag = function.load("i32", self._overflow)
        function.fail_unless(function.value(f"icmp eq i32 {flag}, 0"))
        after = function.block
        function.do(f"br label %{end}")
        function.label(end)
        return function.value(f"phi i64 [ {small}, %{before} ], [ {asked}, %{after} ]")

    def _chars(self, scalar: Scalar, value: str, target: str) -> None:
        function = self._function
        self._demand_type(value, self._common("str"))
        state = function.load("i32", function.at(value, cpython.TEXT_STATE_OFFSET))
        bits = function.value(f"and i32 {state}, {cpython.TEXT_IS_COMPACT_ASCII}")
        function.fail_unless(function.value(f"icmp eq i32 {bits}, {cpython.TEXT_IS_COMPACT_ASCII}"))
        length = function.load("i64", function.at(value, cpython.TEXT_LENGTH_OFFSET))
        text = function.at(value, cpython.TEXT_DATA_OFFSET)
        arguments = f"ptr {target}, ptr {text}, i64 {length}, i64 {scalar.size}"
        failed = function.value(f"call i32 {self._common('WRITE_TEXT')}({arguments})")
        function.fail_unless(function.value(f"icmp eq i32 {failed}, 0"))


# ---------------------------------------------------------------------------
# Decoding


def _decode(shape: Shape) -> Function:
    function = Function("ptr @decode(ptr %record, ptr %context)", failure="ptr null")
    decoder = _Decoder(function)
    event = decoder.new(shape)
    function.fail_unless(function.value(f"icmp ne ptr {event}, null"))
    decoder.fill(shape, event, 0, event)
    function.do(f"ret ptr {event}")
    return function


class _Decoder:
    """Writes the instructions that make an instance and put a new value into each slot.

    What fails midway gives the instance back, with the slots that are filled; the rest are still empty, which
    is what CPython expects of an instance whose attributes are not set.
    """

    def __init__(self, function: Function) -> None:
        self._function = function

    def new(self, shape: Shape) -> str:
        cls = _reference(self._function, shape.index)
        return self._function.value(f"call ptr @PyType_GenericAlloc(ptr {cls}, i64 0)")

    def fill(self, shape: Shape, event: str, base: int, outermost: str) -> None:
        for slot in shape.slots:
            at = base + slot.field.offset
            if slot.parts is not None:
                value = self._kept(self.new(slot.parts), event, slot, outermost)
                self.fill(slot.parts, value, at, outermost)
            else:
                self._kept(self._value(slot, at), event, slot, outermost)

    def _kept(self, value: str, event: str, slot: Slot, outermost: str) -> str:
        """Puts a new reference into its slot; without one, gives everything back."""
        function = self._function
        is_new = function.value(f"icmp ne ptr {value}, null")
        onward, stop = function.name("on"), function.name("stop")
        function.do(f"br i1 {is_new}, label %{onward}, label %{stop}, !prof !0")
        function.label(stop)
        function.do(f"call void @Py_DecRef(ptr {outermost})")
        function.do("ret ptr null")
        function.label(onward)
        function.do(f"store ptr {value}, ptr {function.at(event, slot.at)}, align 8")
        return value

    def _value(self, slot: Slot, at: int) -> str:
        """A new reference to a field's value, or null."""
        function = self._function
        source = function.at("%record", at)
        type_ = slot.field.type
        if not isinstance(type_, Scalar) or not is_direct(type_):
            tree, read = _reference(function, slot.tree), _reference(function, _INDEX["READ_FIELD"])
            return function.value(f"call ptr {read}(ptr {tree}, ptr {source})")
        match type_.kind:
            case Kind.BOOL:
                return self._bool(source)
            case Kind.FLOAT:
                return self._float(type_, source)
            case Kind.CHARS:
                read = _reference(function, _INDEX["READ_TEXT"])
                return function.value(f"call ptr {read}(ptr {source}, i64 {type_.size})")
            case _:
                return self._int(type_, source)

    def _bool(self, source: str) -> str:
        function = self._function
        is_true = function.value(f"icmp ne i8 {function.load('i8', source)}, 0")
        yes, no = (_reference(function, _INDEX[name]) for name in ("True", "False"))
        value = function.value(f"select i1 {is_true}, ptr {yes}, ptr {no}")
        if not cpython.HAS_IMMORTALS:
            count = function.at(value, cpython.REFERENCE_COUNT_OFFSET)
            more = function.value(f"add i64 {function.load('i64', count)}, 1")
            function.store("i64", more, count)
        return value

    def _float(self, scalar: Scalar, source: str) -> str:
        function = self._function
        number = function.load({4: "float", 8: "double"}[scalar.size], source)
        if scalar.size == 4:
            number = function.value(f"fpext float {number} to double")
        return function.value(f"call ptr @PyFloat_FromDouble(double {number})")

    def _int(self, scalar: Scalar, source: str) -> str:
        function = self._function
        number = function.load(f"i{8 * scalar.size}", source)
        if scalar.size < 8:
            extend = "sext" if scalar.kind is Kind.INT else "zext"
            number = function.value(f"{extend} i{8 * scalar.size} {number} to i64")
        elif scalar.kind is Kind.UINT:
            return function.value(f"call ptr @PyLong_FromUnsignedLongLong(i64 {number})")
        return function.value(f"call ptr @PyLong_FromLongLong(i64 {number})")

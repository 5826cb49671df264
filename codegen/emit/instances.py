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
from echo_core.codegen.emit.casts import cast_value, ir_type
from echo_core.codegen.emit.ir import LIKELY, Function
from echo_core.codegen.plans.plan import Cast
from echo_core.formats.types import Field, Kind, Scalar, Type

# Every context begins with functions of native/events, then objects; those of the class come after them.
FUNCTIONS = ("WRITE_TEXT", "READ_TEXT", "WRITE_FIELD", "READ_FIELD")
OBJECTS = ("float", "int", "str", "True", "False")
_INDEX = {name: i for i, name in enumerate(FUNCTIONS + OBJECTS)}

_DIRECT = frozenset({Kind.BOOL, Kind.INT, Kind.UINT, Kind.CHARS})

# The function that makes an object of a number of 8 bytes.
_MAKES = {
    Kind.INT: "PyLong_FromLongLong",
    Kind.UINT: "PyLong_FromUnsignedLongLong",
    Kind.FLOAT: "PyFloat_FromDouble",
}

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


def _widest(scalar: Scalar) -> Scalar:
    """What code gets a number of CPython's as."""
    return Scalar(Kind.FLOAT if scalar.kind is Kind.FLOAT else Kind.INT, 8)


def is_direct(type_: Type) -> bool:
    """Whether code handles a type's values by itself; others are left to a tree of values."""
    return isinstance(type_, Scalar) and (
        type_.kind in _DIRECT or (type_.kind is Kind.FLOAT and type_.size > 2)
    )


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
    encoder = _Encoder("i32 @encode(ptr %event, ptr noalias %target, ptr %context)", failure="i32 -1")
    encoder.event(shape, "%event", "%target")
    encoder.do("ret i32 0")
    return encoder


def _encode_many(shape: Shape) -> Function:
    encoder = _Encoder("i64 @encode_many(ptr %events, i64 %count, ptr noalias %target, ptr %context)")
    encoder.load_references(shape)  # once for all events
    with encoder.loop("%count", []) as loop:
        encoder.failure = f"i64 {loop.index}"
        place = encoder.at("%events", encoder.multiply(loop.index, cpython.POINTER))
        event = encoder.value(f"load ptr, ptr {place}, align 8")
        encoder.event(shape, event, encoder.at("%target", encoder.multiply(loop.index, shape.size)))
    encoder.do("ret i64 %count")
    return encoder


def _classes(shape: Shape) -> list[int]:
    """The references of a class and those inside it."""
    nested = (index for slot in shape.slots if slot.parts for index in _classes(slot.parts))
    return [shape.index, *nested]


class _Encoder(Function):
    """Reads an instance and writes its record."""

    def __init__(self, signature: str, failure: str = "") -> None:
        super().__init__(signature, failure)
        # At the start: in a loop it would be another one each time.
        self._overflow = self.value("alloca i32, align 4")
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
            value = self.value(f"load ptr, ptr {self.at(event, slot.at)}, align 8")
            self.fail_unless(self.value(f"icmp ne ptr {value}, null"))
            self._slot(slot, value, base + slot.field.offset)
        for at, size in shape.gaps:
            place = self.at(self._target, base + at)
            self.do(f"call void @llvm.memset.p0.i64(ptr {place}, i8 0, i64 {size}, i1 false)")

    def _slot(self, slot: Slot, value: str, at: int) -> None:
        target = self.at(self._target, at)
        type_ = slot.field.type
        if slot.parts is not None:
            self._shape(slot.parts, value, at)
        elif not isinstance(type_, Scalar) or not is_direct(type_):
            self._by_tree(slot, value, target)
        elif type_.kind is Kind.BOOL:
            self._bool(value, target)
        elif type_.kind is Kind.CHARS:
            self._chars(type_, value, target)
        else:
            self._number(type_, value, target)

    def _common(self, name: str) -> str:
        return self._reference(_INDEX[name])

    def _reference(self, index: int) -> str:
        """The entry of the context at an index, loaded once."""
        if index not in self._references:
            self._references[index] = _reference(self, index)
        return self._references[index]

    def _demand_type(self, value: str, cls: str) -> None:
        type_ = self.value(f"load ptr, ptr {self.at(value, cpython.TYPE_OFFSET)}, align 8")
        self.fail_unless(self.value(f"icmp eq ptr {type_}, {cls}"))

    def _by_tree(self, slot: Slot, value: str, target: str) -> None:
        arguments = f"ptr {self._reference(slot.tree)}, ptr {value}, ptr {target}"
        failed = self.value(f"call i32 {self._common('WRITE_FIELD')}({arguments})")
        self.fail_unless(self.value(f"icmp eq i32 {failed}, 0"))

    def _bool(self, value: str, target: str) -> None:
        is_true = self.value(f"icmp eq ptr {value}, {self._common('True')}")
        is_false = self.value(f"icmp eq ptr {value}, {self._common('False')}")
        self.fail_unless(self.value(f"or i1 {is_true}, {is_false}"))
        self.store("i8", self.value(f"zext i1 {is_true} to i8"), target)

    def _number(self, scalar: Scalar, value: str, target: str) -> None:
        wide = _widest(scalar)
        if wide.kind is Kind.FLOAT:
            self._demand_type(value, self._common("float"))
            number = self.load("double", self.at(value, cpython.FLOAT_OFFSET))
        else:
            self._demand_type(value, self._common("int"))
            number = self._int_value(value)
        number = cast_value(self, Cast(0, 0, 1, wide, scalar, is_checked=True), number)
        self.store(ir_type(scalar), number, target)

    def _int_value(self, value: str) -> str:
        """An int as i64: of one digit by itself, else by asking CPython."""
        tag = self.load("i64", self.at(value, cpython.INT_TAG_OFFSET))
        digit = self.load("i32", self.at(value, cpython.INT_DIGIT_OFFSET))
        wide = self.value(f"zext i32 {digit} to i64")
        if cpython.HAS_INT_TAG:
            is_small = self.value(f"icmp ult i64 {tag}, 16")
            sign = self.value(f"sub i64 1, {self.value(f'and i64 {tag}, 3')}")
        else:
            is_small = self.value(f"icmp ult i64 {self.add(tag, 1)}, 3")
            sign = tag
        small = self.value(f"mul i64 {wide}, {sign}")
        before, large, end = self.block, self.name("large"), self.name("whole")
        self.do(f"br i1 {is_small}, label %{end}, label %{large}, !prof !0")
        self.label(large)
        asked = self.value(f"call i64 @PyLong_AsLongLongAndOverflow(ptr {value}, ptr {self._overflow})")
        flag = self.load("i32", self._overflow)
        self.fail_unless(self.value(f"icmp eq i32 {flag}, 0"))
        after = self.block
        self.do(f"br label %{end}")
        self.label(end)
        return self.value(f"phi i64 [ {small}, %{before} ], [ {asked}, %{after} ]")

    def _chars(self, scalar: Scalar, value: str, target: str) -> None:
        self._demand_type(value, self._common("str"))
        state = self.load("i32", self.at(value, cpython.TEXT_STATE_OFFSET))
        bits = self.value(f"and i32 {state}, {cpython.TEXT_IS_COMPACT_ASCII}")
        self.fail_unless(self.value(f"icmp eq i32 {bits}, {cpython.TEXT_IS_COMPACT_ASCII}"))
        length = self.load("i64", self.at(value, cpython.TEXT_LENGTH_OFFSET))
        text = self.at(value, cpython.TEXT_DATA_OFFSET)
        arguments = f"ptr {target}, ptr {text}, i64 {length}, i64 {scalar.size}"
        failed = self.value(f"call i32 {self._common('WRITE_TEXT')}({arguments})")
        self.fail_unless(self.value(f"icmp eq i32 {failed}, 0"))


# ---------------------------------------------------------------------------
# Decoding


def _decode(shape: Shape) -> Function:
    decoder = _Decoder("ptr @decode(ptr %record, ptr %context)", failure="ptr null")
    event = decoder.new(shape)
    decoder.fail_unless(decoder.value(f"icmp ne ptr {event}, null"))
    decoder.fill(shape, event, 0, event)
    decoder.do(f"ret ptr {event}")
    return decoder


class _Decoder(Function):
    """Makes an instance and puts a new value into each slot.

    What fails midway gives the instance back, with the slots that are filled; the rest are still empty, which
    is what CPython expects of an instance whose attributes are not set.
    """

    def new(self, shape: Shape) -> str:
        cls = _reference(self, shape.index)
        return self.value(f"call ptr @PyType_GenericAlloc(ptr {cls}, i64 0)")

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
        is_new = self.value(f"icmp ne ptr {value}, null")
        onward, stop = self.name("on"), self.name("stop")
        self.do(f"br i1 {is_new}, label %{onward}, label %{stop}, !prof !0")
        self.label(stop)
        self.do(f"call void @Py_DecRef(ptr {outermost})")
        self.do("ret ptr null")
        self.label(onward)
        self.do(f"store ptr {value}, ptr {self.at(event, slot.at)}, align 8")
        return value

    def _value(self, slot: Slot, at: int) -> str:
        """A new reference to a field's value, or null."""
        source = self.at("%record", at)
        type_ = slot.field.type
        if not isinstance(type_, Scalar) or not is_direct(type_):
            tree, read = _reference(self, slot.tree), _reference(self, _INDEX["READ_FIELD"])
            return self.value(f"call ptr {read}(ptr {tree}, ptr {source})")
        match type_.kind:
            case Kind.BOOL:
                return self._bool(source)
            case Kind.CHARS:
                read = _reference(self, _INDEX["READ_TEXT"])
                return self.value(f"call ptr {read}(ptr {source}, i64 {type_.size})")
            case _:
                return self._number(type_, source)

    def _bool(self, source: str) -> str:
        is_true = self.value(f"icmp ne i8 {self.load('i8', source)}, 0")
        yes, no = (_reference(self, _INDEX[name]) for name in ("True", "False"))
        value = self.value(f"select i1 {is_true}, ptr {yes}, ptr {no}")
        if not cpython.HAS_IMMORTALS:
            count = self.at(value, cpython.REFERENCE_COUNT_OFFSET)
            more = self.value(f"add i64 {self.load('i64', count)}, 1")
            self.store("i64", more, count)
        return value

    def _number(self, scalar: Scalar, source: str) -> str:
        wide = _widest(scalar)
        number = cast_value(
            self, Cast(0, 0, 1, scalar, wide, is_checked=False), self.load(ir_type(scalar), source)
        )
        makes = _MAKES[scalar.kind if scalar.size == 8 else wide.kind]
        return self.value(f"call ptr @{makes}({ir_type(wide)} {number})")

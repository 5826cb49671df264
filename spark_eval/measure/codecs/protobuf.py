"""protobuf: message classes declared at run time, converted from and to instances."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from echo_core.spark_eval.measure.codecs.codec import (
    Costs,
    Function,
    MeasuredCodec,
    Target,
)
from echo_core.spark_eval.measure.codecs.handwritten import column_maker, column_rows, compiled
from echo_core.spark_eval.measure.codecs.members import NUMBERS, MemberKind, members
from echo_core.spark_eval.measure.workloads import MORE, STEP, Batch, EventShape, Particle, Sender

PACKAGE = "spark_eval"
MODULES = ("descriptor_pb2", "descriptor_pool", "message_factory")
MORE_NAMES = [name for name, _ in MORE]
FIRST_OF_MORE = 1001  # additional fields get new numbers, whatever their position


def _module(name: str) -> Any:
    return importlib.import_module(f"google.protobuf.{name}")


def message_classes(cls: type[Any], receiver: type[Any]) -> dict[type[Any], Any]:
    """Message classes for an event class and its nested classes. Field numbers are the receiver's."""
    file: Any = _module("descriptor_pb2").FileDescriptorProto(
        name="events.proto", package=PACKAGE, syntax="proto3"
    )
    found: list[type[Any]] = []
    _declare(file, cls, receiver, found)
    pool = _module("descriptor_pool").DescriptorPool()
    pool.Add(file)
    get = _module("message_factory").GetMessageClass
    return {it: get(pool.FindMessageTypeByName(f"{PACKAGE}.{it.__name__}")) for it in found}


def _declare(file: Any, cls: type[Any], receiver: type[Any], found: list[type[Any]]) -> None:
    message = file.message_type.add(name=cls.__name__)
    own = members(receiver)
    numbers = {name: number for number, name in enumerate(own, 1)}
    numbers |= {name: number for number, name in enumerate(MORE_NAMES, FIRST_OF_MORE)}
    for name, kind in members(cls).items():
        _declare_field(message, name, numbers[name], kind)
        if kind.holds_records:
            _declare(file, kind.element.record, own[name].element.record, found)
    found.append(cls)


def _declare_field(message: Any, name: str, number: int, kind: MemberKind) -> None:
    item = kind.element if kind.what == "list" else kind
    kinds = _module("descriptor_pb2").FieldDescriptorProto
    is_many = kind.what in ("list", "numbers")
    label = kinds.LABEL_REPEATED if is_many else kinds.LABEL_OPTIONAL
    made = message.field.add(name=name, number=number, type=_type(kinds, item), label=label)
    if item.what == "record":
        made.type_name = f".{PACKAGE}.{item.record.__name__}"
    if kind.is_optional:
        made.proto3_optional = True
        made.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def _type(kinds: Any, kind: MemberKind) -> Any:
    if kind.what == "float":
        return kinds.TYPE_FLOAT if kind.is_single else kinds.TYPE_DOUBLE
    return {
        "bool": kinds.TYPE_BOOL,
        "int": kinds.TYPE_SINT64,
        "text": kinds.TYPE_STRING,
        "numbers": kinds.TYPE_FLOAT,
        "record": kinds.TYPE_MESSAGE,
    }[kind.what]


def _written(kind: MemberKind, it: str, depth: int) -> str:
    """The expression that creates a message from an instance."""
    if kind.what == "record":
        its = members(kind.record).items()
        parts = [f"{name}={_written(k, f'{it}.{name}', depth)}" for name, k in its]
        return f"{kind.record.__name__}({', '.join(parts)})"
    if kind.holds_records:
        each = f"x{depth}"
        return f"[{_written(kind.element, each, depth + 1)} for {each} in {it}]"
    return f"{it}.tolist()" if kind.what == "numbers" else it


@dataclass(slots=True)
class _MessageReaderText:
    """Builds the expression that creates an instance from a message."""

    names: dict[str, Any] = field(default_factory=lambda: {"array": np.array, "list": list})

    def read(self, kind: MemberKind, it: str, depth: int) -> str:
        if kind.what == "record":
            self.names[kind.record.__name__] = kind.record
            parts = [self._field(k, it, name, depth) for name, k in members(kind.record).items()]
            return f"{kind.record.__name__}({', '.join(parts)})"
        each = f"x{depth}"
        return f"[{self.read(kind.element, each, depth + 1)} for {each} in {it}]"

    def _field(self, kind: MemberKind, it: str, name: str, depth: int) -> str:
        value = f"{it}.{name}"
        if kind.is_optional:
            return f"({value} if {it}.HasField({name!r}) else None)"
        if kind.holds_records:
            return self.read(kind, value, depth)
        if kind.what == "numbers":
            return f"array({value}[:], {NUMBERS!r})"
        return f"list({value})" if kind.what == "list" else value


@dataclass(frozen=True, slots=True)
class Protobuf(MeasuredCodec):
    """Encodes messages. Reordered fields keep their numbers, and so their order in the bytes."""

    def load(self) -> None:
        for name in MODULES:
            _module(name)

    def encoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        cls = shape.sender_class(sender)
        made = message_classes(cls, shape.cls)
        names = {it.__name__: message for it, message in made.items()}
        if target == "columns" and sender == "same":
            message = _of_columns(made)
        else:
            message = compiled(_written(MemberKind("record", cls=cls), "it", 0), names)
        return lambda it: message(it).SerializeToString()

    def decoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        parse: Function = message_classes(shape.cls, shape.cls)[shape.cls].FromString
        if target == "columns":
            columns = column_maker(Particle, "x.{}")
            return lambda data: columns(parse(data).particles)
        reading = _MessageReaderText()
        read = compiled(reading.read(MemberKind("record", cls=shape.cls), "it", 0), reading.names)
        return lambda data: read(parse(data))


def _of_columns(made: dict[type[Any], Any]) -> Function:
    """A function from columns to the message of a batch."""
    one, many = made[Particle], made[Batch]
    parts = ", ".join(f"{name}=x[{i}]" for i, name in enumerate(members(Particle)))
    particles = compiled(f"[one({parts}) for x in it]", {"one": one})

    def message(columns: Any) -> Any:
        rows = column_rows(columns)
        return many(step=STEP, count=len(rows), particles=particles(rows))

    return message

"""An event class as compiled code sees it: its slots, and the objects that the code refers to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from echo_core.codegen import cpython
from echo_core.codegen.object_code import FUNCTIONS, Shape, Slot, is_direct
from echo_core.codegen.objects import plain_of, runs_post_init, value_of
from echo_core.codegen.records import read, write
from echo_core.formats.abi import NATIVE
from echo_core.formats.layout import Layout
from echo_core.formats.types import Field, Record, has_parts


@dataclass
class Context:
    """The objects of a class's code, beginning with those of every class."""

    objects: list[Any] = field(default_factory=lambda: [float, int, str, True, False])
    runs_python: bool = False  # whether some field is handled by a Python function

    def add(self, it: object) -> int:
        """The index by which code refers to an object."""
        self.objects.append(it)
        return len(FUNCTIONS) + len(self.objects) - 1


def shape_of(record: Record) -> tuple[Shape, Context] | None:
    """The shape of a record's declared class; None where code cannot know its instances.

    That is so for records with variable parts, and for classes without slots of their own.
    """
    context = Context()
    if cpython.problem() or record.python is None or has_parts(record):
        return None
    shape = _shape(record, record.name, context)
    return (shape, context) if shape else None


def _shape(record: Record, path: str, context: Context) -> Shape | None:
    cls: Any = record.python
    offsets = cpython.slot_offsets(cls, [member.name for member in record.fields])
    if offsets is None:
        return None
    index = context.add(cls)
    slots = [
        _slot(member, offsets[member.name], f"{path}.{member.name}", context) for member in record.fields
    ]
    return Shape(index, tuple(slots), record.size)


def _slot(member: Field, at: int, path: str, context: Context) -> Slot:
    if is_direct(member.type):
        return Slot(member, at)
    inner = member.type
    if isinstance(inner, Record) and inner.python is not None and not runs_post_init(inner.python):
        # Python code that runs midway could take a nested event away, so code goes into those only that need
        # none; the others are handled by one function as a whole.
        trial = Context(list(context.objects))
        parts = _shape(inner, path, trial)
        if parts is not None and not trial.runs_python:
            context.objects = trial.objects
            return Slot(member, at, parts)
    context.runs_python = True
    writer, reader = field_functions(member, path)
    return Slot(member, at, None, context.add(writer), context.add(reader))


def field_functions(member: Field, path: str) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """A field's value to its bytes and back, by the generic codec: for a field of fixed size, alone."""
    type_ = member.type
    alone = Record(member.name, type_.size, 1, (Field(member.name, type_),))
    layout = Layout(NATIVE.byte_order, NATIVE.pointer_size, alone)
    return partial(_write_field, layout, path), partial(_read_field, layout, path)


def _write_field(layout: Layout, path: str, value: Any) -> bytes:
    member = layout.record.fields[0]
    return write({member.name: plain_of(member.type, value, path)}, layout)


def _read_field(layout: Layout, path: str, data: bytes) -> Any:
    member = layout.record.fields[0]
    return value_of(member.type, read(data, layout)[member.name], path)

"""An event class as compiled code sees it: its slots, and the objects that the code refers to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from echo_core.codegen import cpython
from echo_core.codegen.emit.instances import FUNCTIONS, Shape, Slot, is_direct
from echo_core.codegen.events.value_trees import gaps, tree_of
from echo_core.codegen.plain.objects import runs_post_init
from echo_core.formats.types import Field, Record, has_parts


@dataclass
class Context:
    """The objects of a class's code, beginning with those of every class."""

    objects: list[Any] = field(default_factory=lambda: [float, int, str, True, False])
    runs_python: bool = False  # whether some field may be handled by Python code
    has_after: bool = False  # whether some `__post_init__` waits until the whole record is known to be good

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
    shape = _shape(record, context)
    return (shape, context) if shape else None


def _shape(record: Record, context: Context) -> Shape | None:
    cls: Any = record.python
    offsets = cpython.slot_offsets(cls, [member.name for member in record.fields])
    if offsets is None:
        return None
    index = context.add(cls)
    context.has_after |= runs_post_init(cls)
    slots: list[Slot] = []
    for member in record.fields:
        slot = _slot(member, offsets[member.name], context)
        if slot is None:
            return None
        slots.append(slot)
    return Shape(index, tuple(slots), record.size, tuple(gaps(record)))


def _slot(member: Field, at: int, context: Context) -> Slot | None:
    if is_direct(member.type):
        return Slot(member, at)
    inner = member.type
    if isinstance(inner, Record) and inner.python is not None and not runs_post_init(inner.python):
        # Python code that runs midway could take a nested event away, so code goes into those only that need
        # none; the others are walked as a whole.
        trial = Context(list(context.objects))
        parts = _shape(inner, trial)
        if parts is not None and not trial.runs_python:
            context.objects = trial.objects
            return Slot(member, at, parts)
    tree = tree_of(member.type)
    if tree is None:
        return None
    context.runs_python |= tree.runs_python
    context.has_after |= tree.has_after
    return Slot(member, at, None, context.add(tree))

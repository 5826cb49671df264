"""Code that is compiled for one class: what it needs to know of the class, and where the class keeps it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

from echo_core._c import events
from echo_core.codegen import cpython
from echo_core.codegen.emit.instances import FUNCTIONS, Shape, Slot, emit, is_direct
from echo_core.codegen.events.value_trees import gaps, tree_of
from echo_core.codegen.machine.store import load_code
from echo_core.codegen.plain.objects import runs_post_init
from echo_core.errors import CompileError
from echo_core.formats.declare import format_of
from echo_core.formats.types import Field, Record, has_parts

# Of a class with more fields no code is compiled: it would take a second, and 100 MB meanwhile.
MAX_CODE_FIELDS = 512

# The attribute in which a class keeps its code: a dictionary would keep the class, as its code refers to it.
_CODE = "__echo_code__"


def code_of(cls: type[Any]) -> events.Code:
    """The code of a class, compiled or taken from the cache; CompileError where there can be none.

    There is one for all codecs of the class. Beside it stands the class that it is for: a parent's is of no
    use, nor a copy of another class's.
    """
    held: _Held | None = vars(cls).get(_CODE)
    if held is None or held.code is None or held.cls is not cls:
        held = _Held(cls, _make_code(cls))
        type.__setattr__(cls, _CODE, held)
    assert held.code is not None
    return held.code


class _Held:
    """What the attribute holds. Pickling a class by value (cloudpickle) drops the code."""

    __slots__ = ("cls", "code")

    def __init__(self, cls: type[Any] | None = None, code: events.Code | None = None) -> None:
        self.cls = cls
        self.code = code

    def __reduce__(self) -> tuple[type[_Held], tuple[()]]:
        return _Held, ()


def _make_code(cls: type[Any]) -> events.Code:
    found = shape_of(format_of(cls).record)
    if found is None:
        msg = f"Expected a class that code can be compiled for, got `{cls.__qualname__}`"
        reason = (
            f"its instances need slots of their own and records of one size, {MAX_CODE_FIELDS} fields at most"
        )
        raise CompileError(msg, hint=cpython.problem() or reason)
    shape, context = found
    text = emit(shape)
    names = ["encode", "encode_many", "decode"]
    loaded = load_code("class", text, lambda: text, names)
    encode, encode_many, decode = (loaded.addresses[name] for name in names)
    return events.Code(
        cls, shape.size, encode, encode_many, decode, tuple(context.objects), loaded, context.runs_python
    )


def use_inner_codes(tree: events.Value) -> None:
    """Lets nested records use the compiled code of their classes, where that can be compiled."""
    for value in tree.inner:
        use_inner_codes(value)
        if value.takes_code and value.cls is not None:
            with contextlib.suppress(CompileError):
                value.use_code(code_of(value.cls))


# ---------------------------------------------------------------------------
# A class as code sees it


@dataclass
class Context:
    """The objects that the code of a class refers to; the first ones are the same for all classes."""

    objects: list[Any] = field(default_factory=lambda: [float, int, str, True, False])
    runs_python: bool = False  # whether some field may be handled by Python code
    has_after: bool = False  # whether some `__post_init__` waits until the whole record is known to be good

    def add(self, it: object) -> int:
        """The index by which code refers to an object."""
        self.objects.append(it)
        return len(FUNCTIONS) + len(self.objects) - 1


def shape_of(record: Record) -> tuple[Shape, Context] | None:
    """The shape of a record's declared class; None where code cannot know its instances.

    That is so for records with variable parts, for very many fields, and for classes without slots of their
    own.
    """
    context = Context()
    if cpython.problem() or record.python is None or has_parts(record) or record.leaves > MAX_CODE_FIELDS:
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

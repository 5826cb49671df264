"""Native record classes: event classes whose instances hold the record of this machine's layout inline.

To its users such a class is a dataclass. Its instances are one piece of memory: the object's head, the bytes
of the record, and one slot for each field whose value is kept as a Python object (`record_fields.py` says
which). A decoder copies a record in, an encoder copies it out, and a value is made when a field is read.

    head | record | state | slots: source, kept values ...
    --------------------- | -------------------------------
    a base type of ours     __slots__ of the class itself

The memory rule: an event keeps no more alive than the bytes of its own record, never the batch that it came
in. What is read from it keeps nothing alive but, if it is a numpy array, that one record.

A class that cannot be one (an annotation that is not defined yet, a base that leaves no room, an interpreter
that is not CPython with its global lock) stays the dataclass with slots that it was.
"""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import CellType, FunctionType, MemberDescriptorType
from typing import Any

from echo_core._c import events
from echo_core.codegen import cpython
from echo_core.codegen.events import calls
from echo_core.codegen.events.record_fields import Form, checks_of, form_of
from echo_core.codegen.plain.generic import GenericCodec
from echo_core.codegen.plain.objects import runs_post_init
from echo_core.formats.declare import format_of
from echo_core.formats.layout import Layout
from echo_core.formats.types import Field, Record, has_parts, round_up

_POINTER = struct.calcsize("P")
_SHAPE = "__echo_shape__"
_RECORD_AT = "__echo_record_at__"  # of a base type: where the record begins

# What a class made again must not inherit from the dictionary of the one before.
_DROPPED = frozenset({"__echo_formats__", "__dict__", "__weakref__", "__slots__"})

_HAVE_GC = 1 << 14  # Py_TPFLAGS_HAVE_GC


@functools.cache
def problem() -> str:
    """Why event classes are dataclasses with slots in this interpreter; empty where they hold records."""
    unknown = cpython.unknown()
    return unknown or ("" if _slots_follow_the_base() else "slots do not lie where they were expected")


def _slots_follow_the_base() -> bool:
    """Whether slots lie in the order of their names behind what the base type holds, tried on an object."""
    room = events.base_type(object, 16 + 3 * 8)
    names = _slot_names(3)
    probe = type("Probe", (room,), {"__slots__": names})
    return cpython.slot_offsets(probe, names) == {name: 40 + i * _POINTER for i, name in enumerate(names)}


def _slot_names(count: int) -> tuple[str, ...]:
    return tuple(f"_echo_{i:05}" for i in range(count))


# ---------------------------------------------------------------------------
# Making a class


@dataclass(frozen=True, slots=True)
class _Plan:
    """The memory layout of instances. `forms` are by field name; so are `slots`, for fields that have one."""

    layout: Layout
    room: type[Any]
    record_at: int
    source: int  # 0: a record without variable parts
    forms: dict[str, Form]
    slots: dict[str, int]

    @property
    def slot_count(self) -> int:
        return len(self.slots) + (1 if self.source else 0)


def native_class(slotted: type[Any], plain: type[Any], *, has_own_init: bool = False) -> type[Any]:
    """The native record class in place of a dataclass with slots, or that class where it must stay.

    `plain` is the class that the dataclass was made of: methods that say `super()` still refer to it. It may
    have had an `__init__` of its own, in place of what a dataclass generates.
    """
    plan = None if problem() else _plan(slotted)
    if plan is None:
        return slotted
    made = _rebuilt(slotted, plan)
    _redirect(vars(made).values(), {plain, slotted}, made)
    shape = _equip(made, plan)
    if not has_own_init and (how := calls.how_to_make(made)) is not None:
        shape.make_by(*how)
    return made


def _plan(slotted: type[Any]) -> _Plan | None:
    layout = format_of(slotted).layout
    solid = _solid_base(slotted)
    if solid is None or checks_of(layout.record) is None:
        return None
    params: Any = vars(slotted)["__dataclass_params__"]
    forms = {field.name: form_of(field, layout, frozen=params.frozen) for field in layout.record.fields}
    inherited: int | None = vars(solid).get(_RECORD_AT)
    record_at = round_up(solid.__basicsize__, 8) if inherited is None else inherited
    parts = has_parts(layout.record)
    size = max(round_up(record_at + layout.record.size + (1 if parts else 0), 8), solid.__basicsize__)
    room = events.base_type(solid, size)
    setattr(room, _RECORD_AT, record_at)
    kept = [name for name, form in forms.items() if form.is_kept]
    first = size + (_POINTER if parts else 0)
    slots = {name: first + i * _POINTER for i, name in enumerate(kept)}
    return _Plan(layout, room, record_at, size if parts else 0, forms, slots)


def _solid_base(cls: type[Any]) -> type[Any] | None:
    """The base type whose instances' memory has to be extended; None where it cannot be."""
    base = cls.__base__ or object  # of all bases the one with the most memory, as Python has found out
    solid = next((it for it in base.__mro__ if _adds_memory(it)), object)
    return None if solid.__itemsize__ or type(solid) is not type else solid


def _adds_memory(cls: type[Any]) -> bool:
    """Whether instances have slots of this class's own, a dict and weak references aside."""
    base = cls.__base__
    if base is None:
        return False
    size = cls.__basicsize__
    for offset in ("__weakrefoffset__", "__dictoffset__"):
        if getattr(cls, offset) > 0 and not getattr(base, offset):
            size -= _POINTER
    return size != base.__basicsize__ or cls.__itemsize__ != base.__itemsize__


def _rebuilt(slotted: type[Any], plan: _Plan) -> type[Any]:
    """Creates the class again on the new base type: only `__slots__` and the bases differ."""
    names: tuple[str, ...] = tuple(field.name for field in plan.layout.record.fields)
    namespace = {
        name: value
        for name, value in vars(slotted).items()
        if name not in _DROPPED and not (name in names and isinstance(value, MemberDescriptorType))
    }
    if not _has_state_of_its_own(slotted):
        namespace |= {"__getstate__": _get_state, "__setstate__": _set_state}
    bases = (plan.room, *(base for base in slotted.__bases__ if base is not object))
    make = _light_class if _can_be_light(slotted, plan) else _stated_class
    made = make(slotted, bases, namespace, plan)
    type.__setattr__(made, "__slots__", names)
    return made


def _stated_class(
    slotted: type[Any], bases: tuple[type[Any], ...], namespace: dict[str, Any], plan: _Plan
) -> type[Any]:
    hidden = _slot_names(plan.slot_count)
    namespace |= {"__slots__": hidden, "__qualname__": slotted.__qualname__}
    make: Callable[..., type[Any]] = slotted.__class__  # the metaclass
    made = make(slotted.__name__, bases, namespace)
    for name in hidden:
        type.__delattr__(made, name)
    return made


def _can_be_light(slotted: type[Any], plan: _Plan) -> bool:
    """Whether instances refer to nothing but their class and what is in the slots of events."""
    unusual = slotted.__dictoffset__ or slotted.__weakrefoffset__ or type(slotted) is not type
    return not unusual and all(_is_light(base) for base in plan.room.__mro__)


def _is_light(base: type[Any]) -> bool:
    """Whether a base has no slots, or those of an event class that was made by `_light_class`.

    A class in C that has more than an object may have to be asked when an instance ends.
    """
    shape = vars(base).get(_SHAPE)
    if base.__flags__ & _HAVE_GC:
        return _RECORD_AT in vars(base) or (shape is not None and shape.is_collected)
    return _RECORD_AT in vars(base) or shape is not None or base.__basicsize__ == object.__basicsize__


def _light_class(
    slotted: type[Any], bases: tuple[type[Any], ...], namespace: dict[str, Any], plan: _Plan
) -> type[Any]:
    """What a class statement does, for a class that it cannot make: one whose instances cost less.

    Where there are no slots they have no GC header; otherwise the GC learns of them when it has to.
    """
    name = f"{slotted.__module__}.{slotted.__name__}"
    made = events.plain_type(name, bases, plan.slot_count)
    made.__name__, made.__qualname__ = slotted.__name__, slotted.__qualname__
    for name, value in namespace.items():
        type.__setattr__(made, name, value)
    for name, value in namespace.items():
        if hasattr(value.__class__, "__set_name__"):
            value.__set_name__(made, name)
    super(made, made).__init_subclass__()  # pyright: ignore[reportArgumentType]
    return made


def _equip(made: type[Any], plan: _Plan) -> events.Shape:
    """Gives the class its Shape and the descriptors of its fields."""
    record = plan.layout.record
    state = plan.record_at + record.size if plan.source else 0
    kept = tuple(
        (plan.slots[field.name], field.offset, field.type.size, _nested_shape(field.type))
        for field in record.fields
        if plan.forms[field.name].letter == "k"
    )
    exposed = any(form.letter == "w" and form.is_shared for form in plan.forms.values())
    checks = checks_of(record) or ()
    shape = events.Shape(plan.record_at, record.size, plan.source, state, checks, kept, exposed)
    fields = {field.name: _descriptor(shape, plan, field) for field in record.fields}
    shape.bind(made, fields)
    for name, field in fields.items():
        type.__setattr__(made, name, field)
    for base in made.__mro__[1:]:
        if _SHAPE in vars(base):
            vars(base)[_SHAPE].mark_extended()
    type.__setattr__(made, _SHAPE, shape)
    return shape


def _descriptor(shape: events.Shape, plan: _Plan, field: Field) -> events.FieldDescriptor:
    form = plan.forms[field.name]
    nested = _nested_shape(field.type) if form.letter == "k" else None
    read = form.read
    if nested is not None and nested.owner is not None:
        decoder = own_decoder(nested.owner)
        decoder.install_copy()
        read = decoder.decode
    return events.FieldDescriptor(
        shape,
        field.name,
        form.letter,
        field.offset,
        field.type.size,
        plan.slots.get(field.name, 0),
        form.is_shared,
        read,
        form.write,
        nested,
    )


def _nested_shape(type_: Any) -> events.Shape | None:
    """The shape of the class whose instances the field holds, if they are native records."""
    cls = type_.python if isinstance(type_, Record) else None
    return None if cls is None else vars(cls).get(_SHAPE)


def _redirect(values: Iterable[Any], old: set[type[Any]], new: type[Any]) -> None:
    """Makes `super()` in methods, and methods that dataclasses generate, refer to the new class."""
    for value in values:
        for function in _functions(value):
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                if name in ("__class__", "cls") and _content(cell) in old:
                    cell.cell_contents = new


def _functions(value: Any) -> Iterator[FunctionType]:
    """The functions that an attribute of a class is made of."""
    inner: list[Any] = []
    if isinstance(value, FunctionType):
        yield value
        inner = [getattr(value, "__wrapped__", None)]
    elif isinstance(value, property | staticmethod | classmethod | functools.cached_property):
        inner = [getattr(value, name, None) for name in ("fget", "fset", "fdel", "__func__", "func")]  # pyright: ignore[reportUnknownArgumentType]
    for function in inner:
        yield from _functions(function)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents if isinstance(cell.cell_contents, type) else None
    except ValueError:  # it is empty
        return None


# ---------------------------------------------------------------------------
# Pickling and copying: as for dataclasses with slots


def _has_state_of_its_own(cls: type[Any]) -> bool:
    return any("__getstate__" in vars(base) for base in cls.__mro__ if base is not object)


def _get_state(self: Any) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """What the instance's dict and slots hold; a slot that was never set is left out."""
    state: Any = object.__getstate__(self)
    return state if isinstance(state, tuple) else (state, {})  # pyright: ignore[reportUnknownVariableType]


def _set_state(self: Any, state: tuple[dict[str, Any] | None, dict[str, Any]]) -> None:
    attributes, held = state
    if attributes:
        self.__dict__.update(attributes)
    for name, value in held.items():
        object.__setattr__(self, name, value)


# ---------------------------------------------------------------------------
# Codecs


def is_native(cls: type[Any]) -> bool:
    """Whether instances of exactly this class hold their record inline."""
    return _SHAPE in vars(cls)


def encoder_of(
    cls: type[Any], fallback: Callable[[Any], bytes], fallback_many: Callable[[list[Any]], bytes]
) -> events.Encoder:
    """The encoder of a native record class. The fallbacks encode what C code cannot."""
    return events.Encoder(vars(cls)[_SHAPE], fallback, fallback_many)


def decoder_of(
    cls: type[Any], fallback: Callable[[Any], Any], fallback_many: Callable[[Any], list[Any]]
) -> events.Decoder:
    """The decoder of a native record class. It uses the fallbacks until something is installed."""
    after = operator.methodcaller("__post_init__") if runs_post_init(cls) else None
    return events.Decoder(vars(cls)[_SHAPE], after, fallback, fallback_many)


def own_decoder(cls: type[Any]) -> events.Decoder:
    """A decoder of records in the class's own layout, with the generic codec as fallback.

    The caller installs a copy or a conversion. Variable parts must have been verified before they get here.
    """
    format_ = format_of(cls)
    generic: GenericCodec[Any] = GenericCodec(cls, format_, format_, lossy=False)
    return decoder_of(cls, generic.decode, generic.decode_many)

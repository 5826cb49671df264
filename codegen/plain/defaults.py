"""What only a class can do in a conversion: make the values that the sender's format has no field for.

A default that is one value travels in the metadata, and plans put it into the record. What a factory makes
stays with the class, and so does an array or a record; a conversion to objects leaves such fields out.
"""

from __future__ import annotations

from dataclasses import replace

from echo_core.formats.comparing.matching import counted_by, match
from echo_core.formats.types import Field, Nullable, Record, Sequence, StaticArray, Type


def without_local_defaults(sender: Record, receiver: Record) -> Record:
    """The receiver's record without the fields that only its class can fill; the others stay in place."""
    matched = match(sender, receiver)
    kept = [field for field in receiver.fields if field.name in matched or _travels(field)]
    counts = counted_by(replace(receiver, fields=tuple(kept)))
    return replace(
        receiver,
        fields=tuple(
            replace(field, type=_converted(matched[field.name].type, field.type))
            if field.name in matched
            else field
            for field in receiver.fields
            if field in kept or field.name in counts
        ),
    )


def _travels(field: Field) -> bool:
    return field.default is not None and not field.default.local


def _converted(sender: Type, receiver: Type) -> Type:
    match sender, receiver:
        case Nullable(), _:
            return _converted(sender.element, receiver)
        case _, Nullable():
            return replace(receiver, element=_converted(sender, receiver.element))
        case (StaticArray() | Sequence(), StaticArray() | Sequence()):
            return replace(receiver, element=_converted(sender.element, receiver.element))
        case Record(), Record():
            return without_local_defaults(sender, receiver)
        case _:
            return receiver

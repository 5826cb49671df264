"""What is compared with what: types by what they are called, fields by their names, former ones included.

Fields are matched by name, then by former names in either direction. Conversions follow the same rule that
reports are made by.
"""

from __future__ import annotations

from echo_core.formats.types import Field, Record, Sequence, Type, required


def is_called_alike(sender: Record, receiver: Record) -> bool:
    """Whether one's name is the other's, or a former name of the other's; yes where one of them has none.

    Two equal former names are no match, as for fields: a type may have been split into two.
    """
    if not (sender.is_named and receiver.is_named):
        return True
    theirs, ours = (record.name for record in (sender, receiver))
    return theirs == ours or theirs in receiver.aliases or ours in sender.aliases


def match(sender: Record, receiver: Record) -> dict[str, Field]:
    """The sender's field for each of the receiver's, by the receiver's name; exact names go first."""
    left = {field.name: field for field in sender.fields}
    found = {field.name: left.pop(field.name) for field in receiver.fields if field.name in left}
    for field in receiver.fields:
        if field.name in found:
            continue
        former = [name for name in field.aliases if name in left]
        former += [other.name for other in left.values() if field.name in other.aliases]
        if former:
            found[field.name] = left.pop(former[0])
    return found


def have_common_field(sender: Record, receiver: Record) -> bool:
    """Whether any field is matched; yes where one record has no fields at all."""
    theirs, ours = ({field.name for field in record.fields} for record in (sender, receiver))
    return (
        not (theirs and ours)
        or not theirs.isdisjoint(ours)
        or any(not ours.isdisjoint(field.aliases) for field in sender.fields)
        or any(not theirs.isdisjoint(field.aliases) for field in receiver.fields)
    )


def counted_by(record: Record) -> dict[str, str]:
    """For each field that counts elements, the sequence whose elements they are."""
    return {name: field.name for field in record.fields for name in counters(field.type)}


def counters(type_: Type) -> list[str]:
    """The fields that count the elements of a sequence."""
    inner = required(type_)
    return [name for name in inner.shape if isinstance(name, str)] if isinstance(inner, Sequence) else []

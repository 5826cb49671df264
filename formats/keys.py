"""Keys: the field by whose values events are told apart, and where records have it."""

from __future__ import annotations

from typing import NamedTuple

from echo_core.errors import FormatError, unexpected
from echo_core.formats.comparing.lookalikes import Lookalikes
from echo_core.formats.format import Format
from echo_core.formats.types import Enumeration, Field, Record, Scalar, Text


class KeyPlace(NamedTuple):
    """Of a field in each record of a format; the size is that of its slot where it is text."""

    offset: int
    size: int
    is_text: bool
    is_big: bool


def place_of_key(format_: Format, path: str) -> KeyPlace:
    """Where the field is that a path names, such as `"sensor"` or `"head.sensor"`.

    FormatError: there is none, or it has no values that bytes could tell apart.
    """
    record, offset = format_.record, 0
    *outer, last = path.split(".")
    for name in outer:
        field = _field(record, name, path)
        if not isinstance(field.type, Record):
            raise unexpected(FormatError, f"a record as `{name}`", str(field.type), path=path)
        record, offset = field.type, offset + field.offset
    field = _field(record, last, path)
    if not isinstance(field.type, Scalar | Enumeration | Text):
        what = "a number, an enum, a time, a UUID, text, or bytes of a fixed size as a key"
        raise unexpected(FormatError, what, str(field.type), path=path)
    is_text = isinstance(field.type, Text)
    return KeyPlace(offset + field.offset, field.type.size, is_text, format_.byte_order == "big")


def _field(record: Record, name: str, path: str) -> Field:
    found = next((field for field in record.fields if field.name == name), None)
    if found is None:
        alike = Lookalikes(field.name for field in record.fields).of(name)
        hint = f"is `{alike[0]}` meant?" if alike else ""
        raise unexpected(FormatError, f"a field of `{record.name}`", f"`{name}`", path=path, hint=hint)
    return found

"""A layout as bytes, which a process sends so that others can read its events.

`entries.py` describes the bytes. Records and enumerations are numbered in the order in which a walk from the
outermost record needs them, innermost first. So an entry refers to earlier ones only: there are no cycles.

Each layout has exactly one metadata. The reader enforces that: it writes the layout again and compares the
bytes, so that no other spelling, unused entry or trailing byte is accepted.
"""

from __future__ import annotations

import itertools
import struct
from typing import Any, TypeVar

from construct import ConstructError

from echo_core.errors import FormatError, WireError, unexpected
from echo_core.formats import limits
from echo_core.formats.abi import ByteOrder
from echo_core.formats.check import check_enumeration, check_pointer_size, check_record
from echo_core.formats.entries import COUNTED_BY, MAGIC, METADATA, TABLES, VERSION, Code, DefaultCode
from echo_core.formats.layout import Layout
from echo_core.formats.types import (
    Blob,
    Default,
    Enumeration,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
    Wrapper,
    innermost,
)

T = TypeVar("T")


def to_metadata(layout: Layout) -> bytes:
    """The metadata of a layout."""
    writer = _TableWriter()
    writer.add_record(layout.record)
    count = len(writer.tables["wrappers"])
    if count > limits.MAX_WRAPPERS:
        raise unexpected(
            FormatError,
            f"at most {limits.MAX_WRAPPERS} arrays, sequences and optionals",
            count,
            path=layout.record.name,
        )
    texts = b"".join(writer.enum_texts + writer.record_texts)
    try:
        data: bytes = METADATA.build(
            {
                "version": VERSION,
                "big_endian": layout.byte_order == "big",
                "pointer_size": layout.pointer_size,
                **{count: len(writer.tables[name]) for name, count in TABLES.items()},
                "text_size": len(texts),
                **writer.tables,
                "texts": texts,
                "end": b"",
            }
        )
    except (ConstructError, struct.error) as error:  # a count is out of its field's range
        raise _too_large(layout) from error
    if len(data) > limits.MAX_METADATA_BYTES:
        raise _too_large(layout)
    return data


def _too_large(layout: Layout) -> FormatError:
    return unexpected(
        FormatError,
        f"a format whose metadata takes at most {limits.MAX_METADATA_BYTES} bytes",
        "more",
        path=layout.record.name,
        hint="shorten defaults, aliases and names, or split the record",
    )


class _TableWriter:
    """The tables of one metadata, filled by a walk that visits nested types first."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Any]] = {name: [] for name in TABLES}
        self.enum_texts: list[bytes] = []
        self.record_texts: list[bytes] = []
        self._indexes: dict[Record | Enumeration, int] = {}

    def add_record(self, record: Record) -> int:
        if record in self._indexes:
            return self._indexes[record]
        inner = [self._add_inner(innermost(field.type)[0]) for field in record.fields]
        name = _text(self.record_texts, record.name)
        self._add_aliases(record.aliases)
        places = {field.name: i for i, field in enumerate(record.fields)}
        for field, (code, argument) in zip(record.fields, inner, strict=True):
            self._add_field(field, code, argument, places)
        entry = {
            "name_size": name,
            "alignment": record.alignment,
            "fields": len(record.fields),
            "size": record.size,
            "is_named": record.is_named,
            "aliases": len(record.aliases),
        }
        return self._add("records", record, entry)

    def _add(self, table: str, type_: Record | Enumeration, entry: dict[str, int]) -> int:
        """Adds the entry of a type, to which later entries refer by the index."""
        self._indexes[type_] = len(self.tables[table])
        self.tables[table].append(entry)
        return self._indexes[type_]

    def _add_inner(self, type_: Type) -> tuple[int, int]:
        """The code and the argument of the type inside all wrappers."""
        match type_:
            case Scalar():
                return type_.kind, type_.size
            case Enumeration():
                return Code.ENUMERATION, self._add_enum(type_)
            case Record():
                return Code.RECORD, self.add_record(type_)
            case _:
                return Code.TEXT if isinstance(type_, Text) else Code.BLOB, 0

    def _add_enum(self, enumeration: Enumeration) -> int:
        if enumeration in self._indexes:
            return self._indexes[enumeration]
        entry = {
            "name_size": _text(self.enum_texts, enumeration.name),
            "size": enumeration.size,
            "members": len(enumeration.members),
        }
        for name, number in enumeration.members:
            self.tables["members"].append({"number": number, "name_size": _text(self.enum_texts, name)})
        return self._add("enums", enumeration, entry)

    def _add_field(self, field: Field, code: int, argument: int, places: dict[str, int]) -> None:
        texts = self.record_texts  # which get the field's own in the order of the entry
        default = (field.default and field.default.data) or b""
        self.tables["fields"].append(
            {
                "name_size": _text(texts, field.name),
                "code": code,
                "wrappers": self._add_wrappers(field.type, places),
                "default": _default_code(field.default),
                "argument": argument,
                "offset": field.offset,
                "default_size": _text(texts, default),
                "unit_size": _text(texts, field.unit),
                "aliases": len(field.aliases),
            }
        )
        self._add_aliases(field.aliases)

    def _add_aliases(self, aliases: tuple[str, ...]) -> None:
        self.tables["aliases"] += [_text(self.record_texts, alias) for alias in aliases]

    def _add_wrappers(self, type_: Type, places: dict[str, int]) -> int:
        count = 0
        while isinstance(type_, Wrapper):
            shape = () if isinstance(type_, Nullable) else type_.shape
            self.tables["dimensions"] += [_dimension(n, places) for n in shape]
            self.tables["wrappers"].append(_WRAPPER_CODES[type(type_)] + 256 * len(shape))
            type_, count = type_.element, count + 1
        return count


_WRAPPER_CODES: dict[type[Wrapper], int] = {
    StaticArray: Code.ARRAY,
    Sequence: Code.SEQUENCE,
    Nullable: Code.NULLABLE,
}


def _text(texts: list[bytes], text: str | bytes) -> int:
    """Adds a text and returns its size in bytes."""
    data = text.encode() if isinstance(text, str) else text
    texts.append(data)
    return len(data)


def _default_code(default: Default | None) -> int:
    if default is None:
        return DefaultCode.REQUIRED
    if default.local:
        return DefaultCode.LOCAL
    return DefaultCode.NONE if default.data is None else DefaultCode.VALUE


def _dimension(n: int | str | None, places: dict[str, int]) -> int:
    return COUNTED_BY | places[n] if isinstance(n, str) else n or 0


def from_metadata(data: bytes) -> Layout:
    """The layout that a peer's metadata describes, or WireError."""
    if len(data) > limits.MAX_METADATA_BYTES:
        raise unexpected(WireError, f"metadata of at most {limits.MAX_METADATA_BYTES} bytes", len(data))
    if data[:4] == MAGIC and data[4:5] != bytes([VERSION]):  # the rest may have another structure then
        raise unexpected(WireError, f"metadata of version {VERSION}", f"{data[4] if data[4:] else 'none'}")
    try:
        entries = METADATA.parse(data)
    except (ConstructError, struct.error) as error:
        got = f"{len(data)} bytes that do not begin or end as it does"
        raise unexpected(WireError, "metadata", got) from error
    layout = _TableReader(entries).layout()
    if to_metadata(layout) != data:
        raise unexpected(
            WireError,
            "metadata in its only form",
            "entries that are unused, repeated or out of order",
            path=layout.record.name,
        )
    return layout


class _TableReader:
    """Takes entries from the tables in order; raises WireError for whatever a peer may get wrong."""

    def __init__(self, entries: Any) -> None:
        self._entries = entries
        self._pointer_size: int = entries.pointer_size
        self._texts = memoryview(entries.texts)
        self._position = 0
        self._tables = {name: iter(entries[name]) for name in TABLES}
        self._enums: list[Enumeration] = []
        self._records: list[Record] = []

    def layout(self) -> Layout:
        check_pointer_size(self._pointer_size, WireError)
        for entry in self._entries.enums:
            self._read_enum(entry)
        for entry in self._entries.records:
            self._read_record(entry)
        if not self._records:
            raise unexpected(WireError, "metadata of at least one record", "none")
        byte_order: ByteOrder = "big" if self._entries.big_endian else "little"
        return Layout(byte_order, self._pointer_size, self._records[-1])

    def _read_enum(self, entry: Any) -> None:
        name = self._text(entry.name_size)
        members = [
            (self._text(member.name_size), member.number) for member in self._take("members", entry.members)
        ]
        enumeration = Enumeration(name, entry.size, tuple(members))
        check_enumeration(enumeration, WireError)
        self._enums.append(enumeration)

    def _read_record(self, entry: Any) -> None:
        name = self._text(entry.name_size)
        former = self._aliases(entry.aliases)
        entries = self._take("fields", entry.fields)
        names: list[str] = []  # complete before types are read, because a count may follow its sequence
        rest: list[tuple[Default | None, tuple[str, ...], str]] = []
        for field in entries:
            names.append(self._text(field.name_size))
            default = self._default(field)
            unit = self._text(field.unit_size)
            rest.append((default, self._aliases(field.aliases), unit))
        fields = [
            Field(field_name, self._type(field, names), field.offset, *others)
            for field_name, field, others in zip(names, entries, rest, strict=True)
        ]
        is_named = entry.is_named != 0
        record = Record(name, entry.size, entry.alignment, tuple(fields), former, is_named)
        check_record(record, self._pointer_size, WireError)
        self._records.append(record)

    def _aliases(self, count: int) -> tuple[str, ...]:
        return tuple(self._text(size) for size in self._take("aliases", count))

    def _default(self, entry: Any) -> Default | None:
        data = self._bytes(entry.default_size)
        match entry.default:
            case DefaultCode.REQUIRED:
                return None
            case DefaultCode.VALUE:
                return Default(data)
            case DefaultCode.NONE | DefaultCode.LOCAL:
                return Default(local=entry.default == DefaultCode.LOCAL)
            case code:
                raise unexpected(WireError, f"a code for defaults from 0 to {max(DefaultCode)}", code)

    def _type(self, entry: Any, names: list[str]) -> Type:
        if entry.wrappers > limits.MAX_NESTING:
            raise unexpected(WireError, f"at most {limits.MAX_NESTING} levels of nesting", entry.wrappers)
        wrappers = [
            (wrapper % 256, self._take("dimensions", wrapper // 256))
            for wrapper in self._take("wrappers", entry.wrappers)
        ]
        type_ = self._inner(entry.code, entry.argument)
        for code, dimensions in reversed(wrappers):
            type_ = self._wrapped(type_, code, dimensions, names)
        return type_

    def _inner(self, code: int, argument: int) -> Type:
        match code:
            case Code.TEXT:
                return Text(self._pointer_size)
            case Code.BLOB:
                return Blob(self._pointer_size)
            case Code.ENUMERATION:
                return self._earlier(self._enums, argument)
            case Code.RECORD:
                return self._earlier(self._records, argument)
            case code if code in _KIND_CODES:
                return Scalar(Kind(code), argument)
            case code:
                raise unexpected(WireError, "the code of a type", code)

    def _wrapped(self, element: Type, code: int, dimensions: list[int], names: list[str]) -> Type:
        match code:
            case Code.NULLABLE if not dimensions:
                return Nullable(element)
            case Code.ARRAY if dimensions:
                return StaticArray(element, tuple(dimensions))
            case Code.SEQUENCE if dimensions:
                shape = tuple(self._length(n, names) for n in dimensions)
                return Sequence(element, shape, self._pointer_size)
            case code:
                raise unexpected(
                    WireError, "the code of a wrapper and its dimensions", f"{code} with {len(dimensions)}"
                )

    def _length(self, dimension: int, names: list[str]) -> int | str | None:
        if dimension & COUNTED_BY:
            return self._earlier(names, dimension ^ COUNTED_BY)
        return dimension or None

    def _earlier(self, table: list[T], index: int) -> T:
        if index >= len(table):
            raise unexpected(WireError, f"a reference to one of {len(table)} entries", index)
        return table[index]

    def _take(self, table: str, count: int) -> list[Any]:
        entries: list[Any] = list(itertools.islice(self._tables[table], count))
        if len(entries) != count:
            raise unexpected(WireError, f"{count} more entries in a table", len(entries))
        return entries

    def _text(self, size: int) -> str:
        data = self._bytes(size)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise unexpected(WireError, "a name in UTF-8", f"{data[:40]!r}") from None

    def _bytes(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._texts):
            raise unexpected(WireError, f"{size} more bytes of text", len(self._texts) - self._position)
        data = bytes(self._texts[self._position : end])
        self._position = end
        return data


_KIND_CODES = frozenset(Kind)

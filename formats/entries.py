"""The bytes of metadata: fixed-size entries in tables, and the texts that they refer to.

`METADATA` is the whole description; `metadata.py` fills it and reads it. Numbers are little-endian on every
machine. The tables stand one after the other; names and other texts follow in the order in which the entries
need them.
"""

from __future__ import annotations

import enum

from construct import (
    Array as Table,
)
from construct import (
    Byte,
    Bytes,
    Check,
    Const,
    GreedyBytes,
    Int16ul,
    Int32ul,
    Int64sl,
    Struct,
    this,
)

from echo_core.formats import limits

MAGIC = b"ECHO"
TABLES = {
    "records": "record_count",
    "fields": "field_count",
    "wrappers": "wrapper_count",
    "dimensions": "dimension_count",
    "enums": "enum_count",
    "members": "member_count",
    "aliases": "alias_count",
}
"""The tables of `METADATA`, and what holds the number of entries of each."""
VERSION = 1


class Code(enum.IntEnum):
    """The codes of types: `FIELD.code` is one of these or a Kind, `WRAPPER.code` one of these."""

    TEXT = 32
    BLOB = 33
    ENUMERATION = 34
    RECORD = 35
    ARRAY = 48
    SEQUENCE = 49
    NULLABLE = 50


class DefaultCode(enum.IntEnum):
    """The values of `FIELD.default`."""

    REQUIRED = 0
    VALUE = 1
    NONE = 2
    LOCAL = 3


# A dimension is a fixed length, or 0 where the length stands in the slot, or this bit and the index of the
# field that counts.
COUNTED_BY = 0x8000_0000

RECORD_ENTRY = Struct(
    "name_size" / Byte,
    "alignment" / Byte,
    "fields" / Int16ul,
    "size" / Int32ul,
    "is_named" / Byte,  # 1, or 0 where nobody has named it
    "aliases" / Byte,  # how many of the next ALIAS entries are its own, before those of its fields
)
FIELD = Struct(
    "name_size" / Byte,
    "code" / Byte,  # a Kind, or a Code
    "wrappers" / Byte,  # how many of the next WRAPPER entries are its own, outermost first
    "default" / Byte,
    "argument" / Int32ul,  # a scalar's size; the index of an enumeration or a record; else 0
    "offset" / Int32ul,
    "default_size" / Int16ul,
    "unit_size" / Byte,
    "aliases" / Byte,  # how many of the next ALIAS entries are its own
)
# A plain number, because there may be thousands, and construct takes 2 us for an entry that is a Struct.
WRAPPER = Int16ul  # its code, and 256 times the number of its dimensions
ENUM_ENTRY = Struct("name_size" / Byte, "size" / Byte, "members" / Int16ul)
MEMBER = Struct("number" / Int64sl, "name_size" / Byte)
ALIAS = Byte  # the size of the name

METADATA = Struct(
    "magic" / Const(MAGIC),
    "version" / Byte,
    "big_endian" / Byte,
    "pointer_size" / Byte,
    "reserved" / Const(b"\0"),
    "record_count" / Int16ul,
    "field_count" / Int16ul,
    "wrapper_count" / Int16ul,
    "dimension_count" / Int16ul,
    "enum_count" / Int16ul,
    "member_count" / Int16ul,
    "alias_count" / Int16ul,
    "text_size" / Int16ul,
    # Checked before any table is read, so that an invalid count costs no time.
    Check(this.record_count <= limits.MAX_FIELDS + 1),
    Check(this.field_count <= limits.MAX_FIELDS),
    Check(this.wrapper_count <= limits.MAX_WRAPPERS),
    Check(this.enum_count <= limits.MAX_FIELDS),
    Check(this.alias_count <= (2 * limits.MAX_FIELDS + 1) * limits.MAX_ALIASES),
    "records" / Table(this.record_count, RECORD_ENTRY),
    "fields" / Table(this.field_count, FIELD),
    "wrappers" / Table(this.wrapper_count, WRAPPER),
    "dimensions" / Table(this.dimension_count, Int32ul),
    "enums" / Table(this.enum_count, ENUM_ENTRY),
    "members" / Table(this.member_count, MEMBER),
    "aliases" / Table(this.alias_count, ALIAS),
    # Each enumeration's name and its members' names; then each record's name, its aliases and, field by
    # field, the name, the default, the unit and the aliases.
    "texts" / Bytes(this.text_size),
    "end" / GreedyBytes,
).compile()

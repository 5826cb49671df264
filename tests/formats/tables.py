"""Metadata made by hand: the tables of real metadata as dicts, changed at will and written again.

Shares with the product only the drawing of the entries, `entries.METADATA`, and none of its checks.
"""

from __future__ import annotations

from typing import Any, cast

from construct import Check, Struct

from echo_core.formats import entries
from echo_core.formats.layout import Layout
from echo_core.formats.metadata import to_metadata

Tables = dict[str, Any]

COUNTS = {
    "records": "record_count",
    "fields": "field_count",
    "wrappers": "wrapper_count",
    "dimensions": "dimension_count",
    "enums": "enum_count",
    "members": "member_count",
    "aliases": "alias_count",
    "texts": "text_size",
}

_DRAWN = cast("Any", entries.METADATA).defersubcon.subcons
_UNCHECKED: Any = Struct(*(part for part in _DRAWN if not isinstance(part, Check)))


def tables_of(layout: Layout) -> Tables:
    """The tables of a layout's metadata; the layout may break every rule that metadata can spell."""
    return _plain(_UNCHECKED.parse(to_metadata(layout)))


def built(tables: Tables) -> bytes:
    """Tables as bytes; a count that is None, or missing, is what its table has."""
    counts = {count: len(tables.get(name, ())) for name, count in COUNTS.items()}
    given = {name: value for name, value in tables.items() if value is not None}
    empty: Tables = {name: b"" if name == "texts" else [] for name in COUNTS}
    head = {"version": 1, "big_endian": 0, "pointer_size": 8, "end": b""}
    return cast("bytes", _UNCHECKED.build({**head, **empty, **counts, **given}))


def recounted(tables: Tables) -> bytes:
    """Tables as bytes, every count what its table has."""
    return built({name: value for name, value in tables.items() if name not in COUNTS.values()})


def record(name_size: int, fields: int, size: int, alignment: int = 1) -> Tables:
    """An entry of RECORD_ENTRY."""
    names = {"name_size": name_size, "is_named": 1, "aliases": 0}
    return {**names, "alignment": alignment, "fields": fields, "size": size}


def field(name_size: int, code: int = 2, argument: int = 1, **others: int) -> Tables:
    """An entry of FIELD: an int8 at 0, but for what is given."""
    entry = {"wrappers": 0, "default": 0, "offset": 0, "default_size": 0, "unit_size": 0, "aliases": 0}
    return {"name_size": name_size, "code": code, "argument": argument, **entry, **others}


def wrapper(code: int, dimensions: int = 0) -> int:
    """An entry of WRAPPER."""
    return code + 256 * dimensions


def _plain(parsed: Any) -> Tables:
    """construct's containers as dicts and lists."""
    tables: Tables = {}
    for name, value in parsed.items():
        if name == "_io":
            continue
        if isinstance(value, list):
            value = [_plain(item) if isinstance(item, dict) else item for item in cast("Any", value)]
        tables[name] = value
    return tables

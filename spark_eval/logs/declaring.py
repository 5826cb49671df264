"""From a Spark schema to the format of its rows, for those who write a log without an event class."""

from __future__ import annotations

import dataclasses
import datetime as dt
import keyword
import types
from typing import Any

import echo_core as echo
from echo_core.spark_eval.logs.options import OptionError

_BY_TYPE: dict[str, Any] = {
    "boolean": bool,
    "tinyint": echo.Int8,
    "smallint": echo.Int16,
    "int": echo.Int32,
    "bigint": int,
    "float": echo.Float32,
    "double": float,
    "decimal(20,0)": echo.UInt64,
    "string": str,
    "binary": bytes,
    "timestamp": dt.datetime,
    "interval day to second": dt.timedelta,
}


def format_of_rows(schema: Any, name: str) -> echo.Format:
    """A field for each column; OptionError for a type that no event has."""
    return echo.format_of(_record(schema, name, ""))


def _record(struct: Any, name: str, path: str) -> type[Any]:
    fields: list[tuple[str, Any]] = []
    for field in struct.fields:
        where = f"{path}.{field.name}" if path else field.name
        if not field.name.isidentifier() or keyword.iskeyword(field.name):
            msg = f"Expected a column whose name is one of Python's, got `{field.name}`"
            raise OptionError(msg, path=where, hint="give it another one by `alias`")
        annotation = _annotation(field.dataType, f"{name}_{field.name}", where)
        fields.append((field.name, annotation | None if field.nullable else annotation))
    made: type[Any] = dataclasses.make_dataclass(name, fields)
    return echo.named(name=name)(made)


def _annotation(type_: Any, name: str, path: str) -> Any:
    found: Any
    match type(type_).__name__:
        case "StructType":
            found = _record(type_, name, path)
        case "ArrayType":
            element = _annotation(type_.elementType, name, f"{path}[]")
            found = types.GenericAlias(list, (element | None if type_.containsNull else element,))
        case _:
            found = _BY_TYPE.get(type_.simpleString())
    if found is None:
        msg = f"Expected a type that events have, got {type_.simpleString()}"
        raise OptionError(msg, path=path, hint="cast it, or leave it out")
    return found

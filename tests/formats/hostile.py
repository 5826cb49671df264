"""The most expensive metadata that we know of: what takes longest to accept, or to refuse.

`python -m tests.formats.hostile` measures each, in a process of its own so that no coverage tracer slows
it down, and writes a JSON object of [seconds, bytes] by name.
"""

from __future__ import annotations

import functools
import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Iterator

from echo_core.errors import FormatError, WireError
from echo_core.formats import limits
from echo_core.formats.entries import COUNTED_BY, Code
from echo_core.formats.format import Format
from echo_core.formats.types import Kind
from tests.formats.tables import Tables, built, field, record, wrapper

_ARRAY, _SEQUENCE, _NULLABLE = int(Code.ARRAY), int(Code.SEQUENCE), int(Code.NULLABLE)


@functools.cache
def hostile() -> dict[str, bytes]:
    """Metadata by what is wrong, or merely much, about it; none is longer than the limit."""
    found = dict(_cases())
    assert all(len(data) <= limits.MAX_METADATA_BYTES for data in found.values())
    return found


def _cases() -> Iterator[tuple[str, bytes]]:
    full = limits.MAX_FIELDS
    yield "as many fields as may be", _flat(full)
    yield "defaults, units and aliases", _flat(full, default=b"\1", unit=b"u", aliases=4)
    yield "aliases", _flat(480, aliases=16)
    yield "aliases of records", _former_names(390)
    yield "longest names", _flat(220, width=limits.MAX_NAME_BYTES)
    yield "longest defaults", _texts(15)
    yield "sequences that fields count", _counted(full, 8)
    yield "sequences in sequences", _wrapped(full, [_SEQUENCE] * 4)
    yield "optional arrays", _wrapped(full, [_NULLABLE, _ARRAY, _NULLABLE, _ARRAY])
    yield "optional arrays, as deep as may be", _wrapped(273, [_NULLABLE, _ARRAY] * 7 + [_NULLABLE])
    yield "sequences of arrays, as deep as may be", _wrapped(273, [_SEQUENCE, _ARRAY] * 7)
    yield "arrays too deep", _wrapped(200, [_ARRAY] * 16)
    yield "most dimensions", _dimensions(120, 255, 15)
    yield "one enumeration in every field", _enums(full, 1024)
    yield "the same with defaults", _enums(full, 1024, default=True)
    yield "the same, fifteen records deep", _enums(900, 1024, depth=14, default=True)
    yield "an enumeration of each field's own", _many_enums(1000)
    yield "many fields, fifteen records deep", _chain(1000, 14)
    yield "records that double", _doubled(8, limits.MAX_FIELDS)
    yield "records that double beyond every limit", _doubled(600, 0)
    yield "records that no field names", _unused_records(limits.MAX_FIELDS + 1)
    yield "equal records", _equal_records(510)
    yield "records alone", built({"records": [record(0, 0, 1)] * 6540})
    yield "fields alone", built({"fields": [field(0)] * 4090})
    yield "wrappers alone", built({"wrappers": [wrapper(_NULLABLE)] * 32750})
    yield "dimensions alone", built({"dimensions": [1] * 16370})
    yield "members alone", built({"members": [{"number": 1, "name_size": 0}] * 7270})
    yield "enumerations alone", built({"enums": [{"name_size": 0, "size": 1, "members": 0}] * 16370})
    yield "aliases alone", built({"aliases": [0] * 65500})
    yield "text alone", built({"texts": b"a" * 65500})
    yield "nothing that is metadata", b"\xff" * limits.MAX_METADATA_BYTES


def _name(i: int, width: int = 5) -> bytes:
    return b"n%04d" % i + b"x" * (width - 5)


def _flat(n: int, *, default: bytes = b"", unit: bytes = b"", aliases: int = 0, width: int = 5) -> bytes:
    entry = {
        "default": int(bool(default)),
        "default_size": len(default),
        "unit_size": len(unit),
        "aliases": aliases,
    }
    texts = b"R"
    for i in range(n):
        former = [b"a%05d" % (aliases * i + j) for j in range(aliases)]
        texts += _name(i, width) + default + unit + b"".join(former)
    return built(
        {
            "records": [record(1, n, n)],
            "fields": [field(width, offset=i, **entry) for i in range(n)],
            "aliases": [6] * (n * aliases),
            "texts": texts,
        }
    )


def _former_names(n: int) -> bytes:
    """A record of so many records, each with as many former names as it may have."""
    names = [b"R%04d%02d" % (i, j) for i in range(n) for j in range(limits.MAX_ALIASES + 1)]
    entry = {"aliases": limits.MAX_ALIASES}
    return built(
        {
            "records": [*({**record(7, 0, 1), **entry} for _ in range(n)), record(1, n, n)],
            "fields": [field(5, Code.RECORD, i, offset=i) for i in range(n)],
            "aliases": [7] * (n * limits.MAX_ALIASES),
            "texts": b"".join(names) + b"R" + b"".join(map(_name, range(n))),
        }
    )


def _texts(n: int) -> bytes:
    data = "é".encode() * (limits.MAX_DEFAULT_BYTES // 2)
    entry = {"default": 1, "default_size": len(data)}
    return built(
        {
            "records": [record(1, n, 8 * n, 8)],
            "fields": [field(5, Code.TEXT, 0, offset=8 * i, **entry) for i in range(n)],
            "texts": b"R" + b"".join(_name(i) + data for i in range(n)),
        }
    )


def _sequences(n: int, code: list[int], dimensions: list[int], size: int) -> Tables:
    """A record of `n` fields; each has the wrappers `code`, with these dimensions between them."""
    shaped = [c for c in code if c != _NULLABLE]
    each = len(dimensions) // max(len(shaped), 1)
    return {
        "records": [record(1, n, size * n, 8)],
        "fields": [field(5, Kind.INT, 8, wrappers=len(code), offset=size * i) for i in range(n)],
        "wrappers": [wrapper(c, 0 if c == _NULLABLE else each) for c in code] * n,
        "dimensions": dimensions * n,
        "texts": b"R" + b"".join(_name(i) for i in range(n)),
    }


def _counted(n: int, dimensions: int) -> bytes:
    tables = _sequences(n - 1, [_SEQUENCE], [COUNTED_BY | (n - 1)] * dimensions, 8)
    tables["records"] = [record(1, n, 8 * n, 8)]
    tables["fields"].append(field(1, Kind.INT, 8, offset=8 * (n - 1)))
    tables["texts"] += b"n"
    return built(tables)


def _wrapped(n: int, code: list[int]) -> bytes:
    dimensions = [1 if c == _ARRAY else 0 for c in code if c != _NULLABLE]
    return built(_sequences(n, code, dimensions, 1024))


def _dimensions(n: int, dimensions: int, wrappers: int) -> bytes:
    tables = _sequences(1, [_ARRAY] * wrappers, [2**31 - 1] * (dimensions * wrappers), 8)
    tables["texts"] += b"x" * n
    return built(tables)


def _enums(n: int, members: int, *, depth: int = 0, default: bool = False) -> bytes:
    last = (members - 1).to_bytes(8, "little") if default else b""
    entry = {"default": int(default), "default_size": len(last)}
    texts = b"E" + b"".join(b"m%03x" % i for i in range(members))
    texts += b"R" + b"".join(_name(i) + last for i in range(n))
    tables: Tables = {
        "records": [record(1, n, 8 * n)],
        "fields": [field(5, Code.ENUMERATION, 0, offset=8 * i, **entry) for i in range(n)],
        "enums": [{"name_size": 1, "size": 8, "members": members}],
        "members": [{"number": i, "name_size": 4} for i in range(members)],
        "texts": texts,
    }
    return built(_nested(tables, depth))


def _nested(tables: Tables, depth: int) -> Tables:
    """Records around the last one, each with a single field."""
    size = tables["records"][-1]["size"]
    for i in range(depth):
        tables["fields"].append(field(1, Code.RECORD, len(tables["records"]) - 1))
        tables["records"].append(record(1, 1, size))
        tables["texts"] += b"%cf" % (97 + i)
    return tables


def _many_enums(n: int) -> bytes:
    return built(
        {
            "records": [record(1, n, n)],
            "fields": [field(5, Code.ENUMERATION, i, offset=i) for i in range(n)],
            "enums": [{"name_size": 5, "size": 1, "members": 1}] * n,
            "members": [{"number": 1, "name_size": 1}] * n,
            "texts": b"".join(_name(i) + b"m" for i in range(n))
            + b"R"
            + b"".join(_name(i) for i in range(n)),
        }
    )


def _chain(n: int, depth: int) -> bytes:
    tables: Tables = {
        "records": [record(1, n, n)],
        "fields": [field(5, offset=i, default=1, default_size=1) for i in range(n)],
        "texts": b"R" + b"".join(_name(i) + b"\1" for i in range(n)),
    }
    return built(_nested(tables, depth))


def _doubled(depth: int, others: int) -> bytes:
    """Each record has the one before it twice: 2**depth fields, or as many as the limit leaves."""
    tables: Tables = {"records": [record(1, 1, 1)], "fields": [field(1)], "texts": b"Aa"}
    for i in range(depth):
        half = min(2**i, 2**31)
        tables["records"].append(record(5, 2, min(2 * half, 2**32 - 1)))
        tables["fields"] += [field(1, Code.RECORD, i), field(1, Code.RECORD, i, offset=half)]
        tables["texts"] += _name(i) + b"ab"
    left = others - (2 ** (depth + 1) - 1 + 2**depth - 1) if others else 0
    if left > 0:
        tables["records"][-1]["fields"] += left
        size = tables["records"][-1]["size"]
        tables["records"][-1]["size"] += left
        tables["fields"] += [field(5, offset=size + i) for i in range(left)]
        tables["texts"] += b"".join(_name(i) for i in range(left))
    return built(tables)


def _unused_records(n: int) -> bytes:
    return built({"records": [record(5, 0, 1)] * n, "texts": b"".join(_name(i) for i in range(n))})


def _equal_records(n: int) -> bytes:
    """The same record of `n` fields twice, which the only form spells once."""
    texts = b"R" + b"".join(_name(i) for i in range(n))
    return built(
        {
            "records": [record(1, n, n), record(1, n, n), record(1, 2, 2 * n)],
            "fields": [
                *[field(5, offset=i) for i in range(n)],
                *[field(5, offset=i) for i in range(n)],
                field(1, Code.RECORD, 0),
                field(1, Code.RECORD, 1, offset=n),
            ],
            "texts": texts + texts + b"Sab",
        }
    )


def outcome(data: bytes) -> str:
    """What becomes of metadata; anything but a format or a named error goes up to the caller."""
    try:
        Format.from_metadata(data)
    except (FormatError, WireError) as error:
        return str(error)
    return "accepted"


def seconds(data: bytes) -> float:
    """The processor time that it takes, the least of five."""
    best = float("inf")
    for _ in range(5):
        begin = time.process_time()
        outcome(data)
        best = min(best, time.process_time() - begin)
    return best


def peak_bytes(data: bytes) -> int:
    """The most memory that is held while it is read."""
    gc.collect()
    tracemalloc.start()
    outcome(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


if __name__ == "__main__":
    outcome(b"")  # imports what reads metadata
    costs = {name: [seconds(data), peak_bytes(data)] for name, data in hostile().items()}
    sys.stdout.write(json.dumps(costs))

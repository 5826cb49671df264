"""Metadata: exact, canonical, the same for ever, and hostile-proof."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echo_core as echo
from echo_core.errors import EchoError, WireError
from echo_core.formats.check import check_record
from echo_core.formats.entries import COUNTED_BY, VERSION, Code
from echo_core.formats.layout import Layout
from echo_core.formats.metadata import from_metadata, to_metadata
from echo_core.formats.types import Record
from tests.formats import hostile
from tests.formats.samples import Particle, Rich, Small, Tiny
from tests.formats.strategies import layouts
from tests.formats.tables import COUNTS, Tables, built, field, record, recounted, tables_of, wrapper

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[2]
RICH = echo.format_of(Rich, abi="x86_64")
SMALL = echo.format_of(Small, abi="x86_64")
TINY = echo.format_of(Tiny, abi="x86_64")


def accepted(data: bytes) -> Layout | None:
    """The layout of metadata, None where it is refused as it must be; nothing else may happen."""
    try:
        layout = from_metadata(data)
    except WireError:
        return None
    check_record(layout.record, layout.pointer_size, WireError)
    assert to_metadata(layout) == data
    return layout


# ---------------------------------------------------------------------------------------------------
# Exact


@given(layouts())
@settings(max_examples=300)
def test_layout_comes_back(layout: Layout) -> None:
    """Names, defaults, units, aliases and every number of a random layout survive."""
    data = to_metadata(layout)
    assert from_metadata(data) == layout
    assert to_metadata(from_metadata(data)) == data


@pytest.mark.parametrize("abi", ["x86_64", "i386", "s390x", "ppc", "m68k"])
def test_declared_format_comes_back(abi: str) -> None:
    """On any ABI, an event class's format equals the one that a stranger reads."""
    format_ = echo.format_of(Rich, abi=abi)
    again = echo.Format.from_metadata(format_.metadata)
    assert again == format_
    assert (again.metadata, again.token) == (format_.metadata, format_.token)


@given(layouts(), layouts())
def test_equal_metadata_means_equal_layouts(first: Layout, second: Layout) -> None:
    """Two layouts have one metadata if, and only if, they are equal."""
    assert (to_metadata(first) == to_metadata(second)) is (first == second)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_metadata(kind: Any) -> None:
    """What a link received need not be copied first."""
    assert echo.Format.from_metadata(kind(RICH.metadata)) == RICH


def test_documentation_does_not_travel() -> None:
    """It stays with the class."""
    assert "how warm" in RICH.describe()
    assert "how warm" not in echo.Format.from_metadata(RICH.metadata).describe()


def test_sixteen_fields_take_little() -> None:
    """The requirement is about 500 bytes."""
    particle = echo.format_of(Particle)
    assert len(particle.fields) == 16
    assert len(particle.metadata) <= 500


def test_empty_record_has_metadata() -> None:
    """The least that there is: a head, one record and its name."""
    layout = Layout("little", 8, Record("R", 1, 1, ()))
    assert len(to_metadata(layout)) == 24 + 10 + 1
    assert from_metadata(to_metadata(layout)) == layout


def test_equal_records_of_different_classes_are_described_once() -> None:
    """What counts is the layout, not the class that declared it."""
    cell = RICH.fields[13].type
    tables = tables_of(RICH.layout)
    assert str(cell) == "Cell[...]"
    assert len(tables["records"]) == 2
    assert len(tables["enums"]) == 1


# ---------------------------------------------------------------------------------------------------
# Canonical

SCRIPT = """
import sys
{imports}
import echo_core as echo
from tests.formats.samples import Rich
echo.format_of({first}, abi="i386")
sys.stdout.write(echo.format_of(Rich, abi="s390x").metadata.hex())
"""


@pytest.mark.parametrize(
    ("seed", "imports", "first"),
    [
        ("0", "import echo_core.formats.metadata", "Rich"),
        ("1", "import tests.formats.samples as t; t.echo.format_of(t.Batch).token", "Rich"),
        ("7", "from tests.formats.samples import Cell, Small", "Small"),
    ],
)
def test_other_process_writes_the_same_metadata(seed: str, imports: str, first: str) -> None:
    """Neither hash seed, nor order of imports, nor what was declared before, has a say."""
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    script = SCRIPT.format(imports=imports, first=first)
    made = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=ROOT, capture_output=True, check=True
    )
    assert made.stdout.decode() == echo.format_of(Rich, abi="s390x").metadata.hex()


def test_byte_order_of_metadata_is_its_own() -> None:
    """A big-endian machine's metadata differs from a little-endian one's in its flag alone."""
    little, big = (echo.format_of(Particle, abi=abi).metadata for abi in ("x86_64", "s390x"))
    assert [i for i in range(len(little)) if little[i] != big[i]] == [5]
    assert little[8:10] == b"\1\0"  # one record, the least significant byte first
    assert echo.Format.from_metadata(big).byte_order == "big"


# ---------------------------------------------------------------------------------------------------
# The same for ever

GOLDEN_FORMATS: dict[str, echo.Format] = {
    f"{cls.__name__} {abi}": echo.format_of(cls, abi=abi)
    for cls in (Particle, Rich)
    for abi in ("x86_64", "s390x", "i386")
}


def golden(version: int) -> dict[str, dict[str, str]]:
    text = GOLDEN.joinpath(f"metadata-{version}.json").read_text(encoding="utf-8")
    entries: dict[str, dict[str, str]] = json.loads(text)
    return entries


@pytest.mark.parametrize("name", GOLDEN_FORMATS)
def test_metadata_and_token_are_those_of_this_version(name: str) -> None:
    """If this fails the wire has changed: give it a new VERSION, and a new file beside the old one."""
    entry = golden(VERSION)[name]
    assert GOLDEN_FORMATS[name].metadata.hex() == entry["metadata"]
    assert str(GOLDEN_FORMATS[name].token) == entry["token"]


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_metadata_of_every_version_is_read(version: int) -> None:
    """Logs outlive the code that wrote them."""
    entries = golden(version)
    assert set(entries) == set(GOLDEN_FORMATS)
    for name, entry in entries.items():
        format_ = echo.Format.from_metadata(bytes.fromhex(entry["metadata"]))
        assert format_ == GOLDEN_FORMATS[name]
        assert str(format_.token) == entry["token"]


# ---------------------------------------------------------------------------------------------------
# Hostile: real metadata, damaged


@pytest.mark.parametrize("name", GOLDEN_FORMATS)
def test_every_truncation_is_refused(name: str) -> None:
    """However much is missing at the end, or added."""
    data = GOLDEN_FORMATS[name].metadata
    for size in range(len(data)):
        with pytest.raises(WireError):
            from_metadata(data[:size])
    with pytest.raises(WireError):
        from_metadata(data + b"\0")


def test_every_change_of_one_byte_is_another_format_or_refused() -> None:
    """All 255 other values of each byte of little metadata with every table in it."""
    data = TINY.metadata
    for at in range(len(data)):
        changed = bytearray(data)
        for value in range(256):
            changed[at] = value
            layout = accepted(bytes(changed))
            assert layout is None or (layout == TINY.layout) is (value == data[at])


def test_every_flipped_bit_is_another_format_or_refused() -> None:
    """Each bit of metadata that has all there is."""
    data = RICH.metadata
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            assert accepted(bytes(changed)) != RICH.layout


@given(st.binary(max_size=400))
@settings(max_examples=300)
def test_random_bytes_are_refused(data: bytes) -> None:
    """With and without the head of real metadata before them."""
    assert accepted(data) is None
    accepted(SMALL.metadata[:8] + data)
    accepted(SMALL.metadata[:24] + data)


# ---------------------------------------------------------------------------------------------------
# Hostile: tables that no writer makes


@given(layouts(), st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_changed_tables_are_another_format_or_refused(layout: Layout, chance: random.Random) -> None:
    """Numbers exchanged, entries lost, repeated and moved, counts that lie."""
    tables = tables_of(layout)
    for _ in range(chance.randrange(1, 4)):
        mutate(tables, chance)
    accepted(built(tables))
    accepted(recounted(tables))


NUMBERS = (0, 1, 2, 3, 4, 7, 8, 9, 16, 32, 33, 34, 35, 48, 49, 50, 127, 128, 255)
LARGE = (256, 1023, 65535, 2**24, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1)
WIDTHS = {"argument": 4, "offset": 4, "size": 4, "dimensions": 4, "fields": 2, "default_size": 2} | {
    "members": 2,
    "number": 8,
    "wrappers": 2,
}


def number(name: str, table: str, chance: random.Random) -> int:
    """A number that the entry can hold."""
    width = 1 if table in ("fields", "enums") and name in ("wrappers", "size") else WIDTHS.get(name, 1)
    signed = name == "number"
    value = chance.choice(NUMBERS + LARGE)
    return value % (1 << (8 * width - signed))


def mutate(tables: Tables, chance: random.Random) -> None:
    """One change to one table, or to a number of the head."""
    match chance.randrange(4):
        case 0:
            name = chance.choice([*COUNTS.values(), "version", "big_endian", "pointer_size"])
            if name not in ("text_size", *COUNTS.values()):
                tables[name] = chance.randrange(256)
            elif name != "text_size":
                table = next(t for t, count in COUNTS.items() if count == name)
                tables[name] = max(0, min(tables[name] + chance.choice((-1, 1)), len(tables[table])))
                tables[table] = tables[table][: tables[name]]
        case 1:
            name = chance.choice([name for name in COUNTS if name != "texts"])
            rearrange(tables[name], chance)
            tables[COUNTS[name]] = len(tables[name])
        case 2 if tables["texts"]:
            texts = bytearray(tables["texts"])
            texts[chance.randrange(len(texts))] = chance.randrange(256)
            tables["texts"] = bytes(texts)
        case _:
            change_entry(tables, chance)


def rearrange(entries: list[Any], chance: random.Random) -> None:
    if not entries:
        return
    at, to = chance.randrange(len(entries)), chance.randrange(len(entries))
    match chance.randrange(3):
        case 0:
            del entries[at]
        case 1:
            entries.insert(to, copy.copy(entries[at]))
        case _:
            entries[at], entries[to] = entries[to], entries[at]


def change_entry(tables: Tables, chance: random.Random) -> None:
    filled = [name for name in COUNTS if name != "texts" and tables[name]]
    if not filled:
        return
    name = chance.choice(filled)
    entries = tables[name]
    at = chance.randrange(len(entries))
    if isinstance(entries[at], int):
        entries[at] = number(name, name, chance) % (256 if name == "aliases" else 2**32)
        return
    part = chance.choice(list(entries[at]))
    entries[at][part] = number(part, name, chance)


def of(*records: Tables, **tables: Any) -> bytes:
    return built({"records": list(records), **tables})


BYTE = field(1)
TWISTED: list[tuple[str, bytes, str]] = [
    ("no record", of(), "at least one record, got none"),
    ("unused enumeration", of(record(1, 0, 1), enums=[{"name_size": 1, "size": 1, "members": 1}],
        members=[{"number": 0, "name_size": 1}], texts=b"EMR"), "in its only form"),
    ("unused record", of(record(1, 0, 1), record(1, 0, 1), texts=b"QR"), "in its only form"),
    ("unused field", of(record(1, 0, 1), fields=[BYTE], texts=b"R"), "in its only form"),
    ("unused wrapper", of(record(1, 0, 1), wrappers=[wrapper(Code.NULLABLE)], texts=b"R"), "only form"),
    ("unused dimension", of(record(1, 0, 1), dimensions=[1], texts=b"R"), "in its only form"),
    ("unused member", of(record(1, 0, 1), members=[{"number": 1, "name_size": 0}], texts=b"R"), "only form"),
    ("unknown naming", of({**record(1, 0, 1), "is_named": 2}, texts=b"R"), "in its only form"),
    ("aliases without a name", of({**record(1, 0, 1), "is_named": 0, "aliases": 1}, aliases=[1], texts=b"RQ"),
        "no aliases of what nobody has named"),
    ("alias that is the name", of({**record(1, 0, 1), "aliases": 1}, aliases=[1], texts=b"RR"), "given once"),
    ("alias twice", of({**record(1, 0, 1), "aliases": 2}, aliases=[1, 1], texts=b"RQQ"), "given once"),
    ("alias that is no name", of({**record(1, 0, 1), "aliases": 1}, aliases=[1], texts=b"R1"), "identifier"),
    ("too few aliases", of({**record(1, 0, 1), "aliases": 2}, aliases=[1], texts=b"RQ"), "2 more entries"),
    ("unused alias", of(record(1, 0, 1), aliases=[0], texts=b"R"), "in its only form"),
    ("unused text", of(record(1, 0, 1), texts=b"RR"), "in its only form"),
    ("trailing byte", of(record(1, 0, 1), texts=b"R", end=b"\0"), "in its only form"),
    ("byte order 2", of(record(1, 0, 1), texts=b"R", big_endian=2), "in its only form"),
    ("field of itself", of(record(1, 1, 1), fields=[field(1, Code.RECORD, 0)], texts=b"Rx"),
        "Expected a reference to one of 0 entries, got 0"),
    ("field of a later record", of(record(1, 1, 1), record(1, 1, 1),
        fields=[field(1, Code.RECORD, 1), BYTE], texts=b"RxSy"), "one of 0 entries, got 1"),
    ("unknown enumeration", of(record(1, 1, 1), fields=[field(1, Code.ENUMERATION, 0)], texts=b"Rx"),
        "Expected a reference to one of 0 entries, got 0"),
    ("count of no field", of(record(1, 1, 8), fields=[field(1, wrappers=1)], dimensions=[COUNTED_BY | 1],
        wrappers=[wrapper(Code.SEQUENCE, 1)], texts=b"Rx"), "one of 1 entries, got 1"),
    ("counted by itself", of(record(1, 1, 8), fields=[field(1, wrappers=1)], dimensions=[COUNTED_BY],
        wrappers=[wrapper(Code.SEQUENCE, 1)], texts=b"Rx"), "Expected an integer field `x`"),
    ("counted array", of(record(1, 1, 8), fields=[field(1, wrappers=1)], dimensions=[COUNTED_BY],
        wrappers=[wrapper(Code.ARRAY, 1)], texts=b"Rx"), "Expected dimensions of 1 to"),
    ("array of nothing", of(record(1, 1, 8), fields=[field(1, wrappers=1)], dimensions=[0],
        wrappers=[wrapper(Code.ARRAY, 1)], texts=b"Rx"), "Expected dimensions of 1 to"),
    ("array without dimensions", of(record(1, 1, 8), fields=[field(1, wrappers=1)],
        wrappers=[wrapper(Code.ARRAY)], texts=b"Rx"), "got 48 with 0"),
    ("sequence without dimensions", of(record(1, 1, 8), fields=[field(1, wrappers=1)],
        wrappers=[wrapper(Code.SEQUENCE)], texts=b"Rx"), "got 49 with 0"),
    ("optional with dimensions", of(record(1, 1, 8), fields=[field(1, wrappers=1)], dimensions=[1],
        wrappers=[wrapper(Code.NULLABLE, 1)], texts=b"Rx"), "got 50 with 1"),
    ("unknown wrapper", of(record(1, 1, 8), fields=[field(1, wrappers=1)],
        wrappers=[wrapper(51)], texts=b"Rx"), "got 51 with 0"),
    ("optional twice", of(record(1, 1, 8), fields=[field(1, wrappers=2)],
        wrappers=[wrapper(Code.NULLABLE)] * 2, texts=b"Rx"), "optional once"),
    ("list of optionals of no size", of(record(1, 1, 16), fields=[field(1, argument=0, wrappers=2)],
        dimensions=[0], wrappers=[wrapper(Code.SEQUENCE, 1), wrapper(Code.NULLABLE)], texts=b"Rx"),
        "Expected a size that `int` has, got 0 bytes"),
    ("list of optionals that align to nothing", of(record(1, 1, 16), fields=[field(1, 5, wrappers=2)],
        dimensions=[0], wrappers=[wrapper(Code.SEQUENCE, 1), wrapper(Code.NULLABLE)], texts=b"Rx"),
        "Expected a size that `complex` has, got 1 bytes"),
    ("type 0", of(record(1, 1, 8), fields=[field(1, 0)], texts=b"Rx"), "code of a type, got 0"),
    ("type 11", of(record(1, 1, 8), fields=[field(1, 11)], texts=b"Rx"), "code of a type, got 11"),
    ("wrapper as type", of(record(1, 1, 8), fields=[field(1, Code.ARRAY)], texts=b"Rx"), "got 48"),
    ("text with an argument", of(record(1, 1, 8), fields=[field(1, Code.TEXT, 1)], texts=b"Rx"), "only form"),
    ("default 4", of(record(1, 1, 1), fields=[field(1, default=4)], texts=b"Rx"), "from 0 to 3, got 4"),
    ("no default with bytes", of(record(1, 1, 1), fields=[field(1, default_size=1)], texts=b"Rx1"),
        "in its only form"),
    ("local default with bytes", of(record(1, 1, 1), fields=[field(1, default=3, default_size=1)],
        texts=b"Rx1"), "in its only form"),
    ("too few fields", of(record(1, 2, 8), fields=[BYTE], texts=b"Rxy"), "Expected 2 more entries"),
    ("too few wrappers", of(record(1, 1, 8), fields=[field(1, wrappers=1)], texts=b"Rx"),
        "Expected 1 more entries in a table, got 0"),
    ("too little text", of(record(1, 1, 8), fields=[field(5)], texts=b"Rx"), "5 more bytes of text, got 1"),
    ("name not in UTF-8", of(record(1, 0, 1), texts=b"\xff"), "Expected a name in UTF-8"),
    ("no name", of(record(0, 0, 1)), "Expected an identifier"),
    ("overlap", of(record(1, 2, 2), fields=[BYTE, BYTE], texts=b"Rxy"), "fields that do not overlap"),
    ("beyond the record", of(record(1, 1, 1), fields=[field(1, offset=1)], texts=b"Rx"), "within the record"),
    ("offset beyond everything", of(record(1, 1, 1), fields=[field(1, offset=2**32 - 1)], texts=b"Rx"),
        "within the record's 1 bytes, got 4294967295"),
    ("version 0", of(record(1, 0, 1), texts=b"R", version=0), "Expected metadata of version 1, got 0"),
    ("version 2", of(record(1, 0, 1), texts=b"R", version=2), "Expected metadata of version 1, got 2"),
    ("pointers of 2", of(record(1, 0, 1), texts=b"R", pointer_size=2), "Expected pointers of 4 or 8"),
    ("nothing", b"", "Expected metadata, got 0 bytes"),
    ("another magic", b"OHCE" + SMALL.metadata[4:], "Expected metadata, got"),
    ("reserved byte", SMALL.metadata[:7] + b"\1" + SMALL.metadata[8:], "Expected metadata, got"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "message"), [case[1:] for case in TWISTED], ids=[case[0] for case in TWISTED]
)
def test_twisted_tables_are_refused(data: bytes, message: str) -> None:
    """Each says what was expected."""
    with pytest.raises(WireError) as caught:
        from_metadata(data)
    assert message in str(caught.value)


def test_repeated_record_is_refused() -> None:
    """Two entries that say the same are a second spelling."""
    tables = tables_of(RICH.layout)
    tables["records"].insert(0, tables["records"][0])
    count = tables["records"][0]["fields"]
    tables["fields"] = tables["fields"][:count] + tables["fields"]
    for entry in tables["fields"][2 * count :]:
        if entry["code"] == Code.RECORD:
            entry["argument"] = 1
    name, fields = "Cell", "iname"
    start = tables["texts"].index((name + fields).encode())
    tables["texts"] = tables["texts"][:start] + (name + fields).encode() + tables["texts"][start:]
    with pytest.raises(WireError, match="in its only form"):
        from_metadata(recounted(tables))


def test_order_of_records_is_fixed() -> None:
    """Only the order in which the walk needs them is accepted."""
    inner = [Record(name, 1, 1, ()) for name in ("A", "B")]
    fields = [replace(RICH.fields[0], name=r.name, type=r, offset=i) for i, r in enumerate(inner)]
    tables = tables_of(Layout("little", 8, Record("R", 2, 1, tuple(fields))))
    assert tables["texts"] == b"ABRAB"
    tables["texts"] = b"BARAB"
    tables["fields"][0]["argument"], tables["fields"][1]["argument"] = 1, 0
    with pytest.raises(WireError, match="in its only form"):
        from_metadata(built(tables))


# ---------------------------------------------------------------------------------------------------
# Hostile: costs

SECONDS = 0.050
BYTES = 64 * 1024 * 1024


def test_worst_metadata_is_accepted_or_refused_within_its_bounds() -> None:
    """50 ms of processor time, the least of five, and 64 MiB, for the worst that we know of."""
    made = subprocess.run(
        [sys.executable, "-m", "tests.formats.hostile"], cwd=ROOT, capture_output=True, check=True
    )
    costs: dict[str, list[float]] = json.loads(made.stdout)
    assert set(costs) == set(hostile.hostile())
    assert {name: cost for name, cost in costs.items() if cost[0] > SECONDS} == {}
    assert {name: cost for name, cost in costs.items() if cost[1] > BYTES} == {}


@pytest.mark.parametrize("data", hostile.hostile().values(), ids=list(hostile.hostile()))
def test_hostile_metadata_is_a_format_or_refused(data: bytes) -> None:
    """Nothing but a layout or a named error comes of it."""
    try:
        accepted(data)
    except EchoError as error:
        pytest.fail(f"Expected a layout or a WireError, got {error!r}")

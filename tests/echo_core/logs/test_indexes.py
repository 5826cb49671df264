"""The index of a segment: what it says of blocks is true, and what is skipped by it would not have passed."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core._c import logs as c
from echo_core.formats.format import Format
from echo_core.logs.blocks import Extent
from echo_core.logs.indexes import HEADER, Index, parts_of_index
from echo_core.logs.layout import BLOCK_HEADER_BYTES, HEADER_BYTES, Kind
from echo_core.logs.ranges import numbers_of, packed, ranged_fields
from echo_core.logs.reading import LogReader
from echo_core.logs.writing import LogWriter
from tests.codegen.expressions.test_bounds import ranges_of
from tests.echo_core.logs import plain_reader
from tests.echo_core.logs.logs import NAMED, PARTICLE, TIME_NS, key_of, numbered, particles, segments_of
from tests.formats.strategies import examples, layouts

COUNT = 200_000  # of records that take five blocks


@echo.event
class Particle:
    id: int
    x: float
    y: float


def write(path: Path, compress: str | None = None) -> None:
    """Five blocks of particles, and one of names."""
    with LogWriter(path, level="volatile", compress=compress) as log:
        log.stream(key_of(1), PARTICLE).append_batch(particles(COUNT), sequence=0, time_ns=TIME_NS)
        names = log.stream(key_of(2), NAMED)
        for number in range(100):
            names.append(struct.pack("<i12xi", number, 0), sequence=number, time_ns=TIME_NS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "a.echolog")
    return tmp_path / "a.echolog"


def extents_of(path: Path) -> list[Extent]:
    with LogReader(path) as reader:
        return list(reader.extents())


# ---------------------------------------------------------------------------
# What it says


@pytest.mark.parametrize("compress", [None, "zstd"])
def test_an_index_has_the_ranges_of_numbers(tmp_path: Path, compress: str | None) -> None:
    """Of records of a fixed size and of those that vary, also where they are compressed."""
    write(tmp_path / "a.echolog", compress)
    *blocks, names = extents_of(tmp_path / "a.echolog")
    assert len(blocks) == 5
    for block in blocks:
        first, last = block.first, block.last
        assert block.ranges() == {0: (first, last), 8: (first / 2, last / 2), 16: (-last, -first)}
    assert names.ranges() == {0: (0, 99)}


@examples(60)
@given(data=st.data())
def test_ranges_are_those_of_the_records(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any bytes as records of any format: the compiled loops and a slow reader agree."""
    format_ = Format(data.draw(layouts()))
    size = format_.size_bytes
    records = [
        data.draw(st.binary(min_size=size, max_size=size)) for _ in range(data.draw(st.integers(1, 5)))
    ]
    path = tmp_path_factory.mktemp("ranges") / "a.echolog"
    staging = c.Staging(1 << 22, 0)
    stage = c.Stage(staging, 1, 1, size if format_.is_fixed else 0, packed(format_))
    for number, record in enumerate(records):
        assert stage.append(record, sequence=number)
    staging.flush()
    batch = staging.take(1, HEADER_BYTES, 1 << 30, True)
    assert batch is not None
    payload = next(parts_of_index(batch.headers(), batch.ranges(), {1: offsets_of(format_)})).payload
    path.write_bytes(payload)
    expected = ranges_of(format_, [bools_as_numbers(format_, record) for record in records])
    assert same(read_ranges(payload, batch.count, format_), {at: expected[at] for at in offsets_of(format_)})


def offsets_of(format_: Format) -> tuple[int, ...]:
    return tuple(field.offset for field in ranged_fields(format_))


def bools_as_numbers(format_: Format, record: bytes) -> bytes:
    """Anything but 0 is True."""
    made = bytearray(record)
    for field in numbers_of(format_).values():
        if field.is_bool:
            made[field.offset] = bool(made[field.offset])
    return bytes(made)


def same(found: Mapping[int, Any], expected: Mapping[int, Any]) -> bool:
    return {at: str(ends) for at, ends in found.items()} == {at: str(ends) for at, ends in expected.items()}


def read_ranges(payload: bytes, count: int, format_: Format) -> dict[int, Any]:
    """As docs/log-format.md has it: of the first block."""
    (rows,) = struct.unpack_from("<I", payload, 64 * count) if len(payload) > 64 * count else (0,)
    at = 64 * count + 8 + 8 * rows
    found: dict[int, Any] = {}
    for row in range(rows):
        number, offset = struct.unpack_from("<II", payload, 64 * count + 8 + 8 * row)
        code = {"i": "<qq", "u": "<QQ", "f": "<dd"}[numbers_of(format_)[offset].kind]
        assert number == 1
        found[offset] = struct.unpack_from(code, payload, at + 16 * row)
    return found


def test_an_index_in_parts_is_one(path: Path) -> None:
    """Of more blocks than one part may have."""
    headers = np.zeros(200_000, HEADER)
    headers["kind"], headers["format"] = Kind.RECORDS, 1
    headers["header_crc"] = np.arange(len(headers))
    ranges = np.arange(2 * len(headers), dtype="<i8")
    parts = list(parts_of_index(headers.tobytes(), ranges.tobytes(), {1: (0,)}))
    assert [part.count for part in parts] == [65_536, 65_536, 65_536, 3392]
    data = b""
    for part in parts:
        at = len(data)
        data += c.compose_block(7, at, Kind.INDEX, part.payload, flags=2, first=part.first, count=part.count)
    index = index_in(data)
    assert len(index.rows) == len(headers)
    found = np.zeros(1, [("offset", "<u8"), *((name, HEADER[name]) for name in HEADER.names or ())])[0]
    for number in (0, 65_535, 65_536, 199_999):
        found["offset"] = HEADER_BYTES + BLOCK_HEADER_BYTES * number
        for name in HEADER.names or ():
            found[name] = headers[number][name]
        assert index.ranges(found, PARTICLE) == {0: (2 * number, 2 * number + 1)}
    found["header_crc"] += 1
    assert not index.ranges(found, PARTICLE)


def index_in(data: bytes) -> Index:
    from echo_core.logs.indexes import index_of
    from echo_core.logs.scanning import scan

    index = index_of(scan(data, 7, start=0, end=len(data), verify=True).rows, data, 7)
    assert index is not None
    return index


def test_small_blocks_have_an_index_without_ranges_or_none(tmp_path: Path) -> None:
    """It is at most a 64th of its segment."""
    kinds: list[list[int]] = []
    for size in (24, 250, 2000):
        path = tmp_path / f"{size}.echolog"
        with LogWriter(path, level="synced") as log:
            stream = log.stream(key_of(1), PARTICLE)
            for turn in range(40):
                stream.append_batch(particles(size, turn * size), sequence=turn * size)
                log.flush()
                log.sync()
        kinds.append([len(extent.ranges()) for extent in extents_of(path)])
    assert kinds == [[0] * 40, [0] * 40, [3] * 40]


# ---------------------------------------------------------------------------
# What is skipped by it


def blocks_read(view: echo.View[Any]) -> int:
    return sum(1 for _ in view.blocks())


@pytest.mark.parametrize(
    ("text", "count", "blocks"),
    [
        ("id == 100000", 1, 1),
        ("x < 10.0", 20, 1),
        ("id >= 43690 and id < 87380", 43_690, 1),
        ("not (id < 199990)", 10, 1),
        ("y > 0", 0, 0),
        ("id > 199990 or id < 10", 19, 2),
        ("id % 50000 == 0", 4, 5),
        ("previous(id) is None and id < 10", 1, 5),
    ],
)
def test_conditions_skip_blocks(path: Path, text: str, count: int, blocks: int) -> None:
    """And events are those that pass, whether blocks are skipped or not."""
    with echo.open_log(path) as log:
        view = log[Particle].where(text)
        assert len(view) == count
        assert blocks_read(view) == blocks
        skipping = [event.id for event in view]
        array = np.concatenate(list(log[Particle].arrays()))
        assert skipping == array[echo.where(Particle, text).indices(array)]["id"].tolist()


def test_a_condition_that_remembers_sees_what_a_later_one_refuses(path: Path) -> None:
    """Here what was before the first event of a block that the second refuses."""
    with echo.open_log(path) as log:
        changes = log[Particle].where("id % 2 == 0", every=50_000)
        all_of_them = [event.id for event in changes]
        assert [event.id for event in changes.where("id > 150000")] == [
            it for it in all_of_them if it > 150_000
        ]


def test_what_is_missing_before_a_block_is_told_though_the_block_is_skipped(tmp_path: Path) -> None:
    """As without conditions."""
    path = tmp_path / "a.echolog"
    with LogWriter(path, level="volatile") as log:
        stream = log.stream(key_of(1), PARTICLE)
        stream.append_batch(particles(50_000), sequence=0)
        stream.append_batch(particles(50_000, 60_000), sequence=60_000)
    with echo.open_log(path) as log:
        (gap,) = log[Particle].where("id < 0").with_gaps()
        assert (gap.first, gap.last) == (50_000, 59_999)


def test_a_class_of_another_version_skips_by_what_was_recorded(path: Path) -> None:
    """By a former name, and in a wider type; a field that was not recorded says nothing."""

    @echo.event(name="Particle")
    class Newer:
        number: int = echo.field(aliases=("id",))
        x: float
        charge: int = 0

    with echo.open_log(path) as log:
        assert blocks_read(log[Newer].where("number == 100000")) == 1
        assert blocks_read(log[Newer].where("charge == 1")) == 0
        assert blocks_read(log[Newer].where("charge == 0 and x < 10.0")) == 1


def test_followers_skip_what_has_been_ended(path: Path) -> None:
    """And go on behind it."""
    with echo.open_log(path) as log:
        follow = log[Particle].where("id == 100000").follow(timeout_s=0)
        assert [event.id for event in follow] == [100_000]


# ---------------------------------------------------------------------------
# What is mended by it


def damaged(path: Path, change: Callable[[bytearray, list[tuple[int, int]]], None]) -> None:
    """Changes the file of a log. `change` gets it with the begin and the end of each block of records."""
    places = [(extent.begin.offset, extent.end.offset) for extent in extents_of(path)]
    (file,) = segments_of(path)
    data = bytearray(file.read_bytes())
    change(data, places)
    file.write_bytes(data)


@pytest.mark.parametrize("byte", [0, 4, 16, 24, 32, 63])
def test_a_damaged_header_costs_nothing(path: Path, byte: int) -> None:
    """The index has it; the damage is told."""
    with LogReader(path) as reader:
        expected = numbered(reader)

    def change(data: bytearray, places: list[tuple[int, int]]) -> None:
        for start, _ in places[1:3]:
            data[start + byte] ^= 0xFF

    damaged(path, change)
    with LogReader(path) as reader:
        assert numbered(reader) == expected
        assert [each.what for each in reader.verify()] == [
            "the header of a block RECORDS, which the index has as well"
        ] * 2
        assert not reader.gaps
    with echo.open_log(path) as log:
        assert not log.verify().is_sound
        assert len(log[Particle].where("id == 50000")) == 1


def test_a_damaged_header_of_a_damaged_block_costs_what_was_damaged(path: Path) -> None:
    """One slice of it, and its numbers are known."""

    def change(data: bytearray, places: list[tuple[int, int]]) -> None:
        start, end = places[1]
        data[start] ^= 1
        data[end - 70_000] ^= 1

    damaged(path, change)
    with LogReader(path) as reader:
        found = {number for number, _ in numbered(reader)[0]}
        missing = set(range(COUNT)) - found
        assert 0 < len(missing) <= 16384 // 24 + 2
        assert {number for gap in reader.gaps for number in range(gap.first, gap.last + 1)} == missing


def test_a_damaged_index_says_nothing(path: Path) -> None:
    """All is read without it."""

    def change(data: bytearray, places: list[tuple[int, int]]) -> None:
        data[places[-1][1] + 300] ^= 1

    damaged(path, change)
    assert not any(extent.ranges() for extent in extents_of(path))
    with echo.open_log(path) as log:
        assert len(log[Particle].where("id == 100000")) == 1


@pytest.mark.parametrize("seed", range(10))
def test_a_hostile_index_is_harmless(path: Path, seed: int) -> None:
    """With right checksums: it is believed where it fits, and left alone otherwise."""
    chance = random.Random(seed)
    counts = [extent.last - extent.first + 1 for extent in extents_of(path)][:-1]
    (file,) = segments_of(path)
    data = file.read_bytes()
    header = plain_reader.header_of(data)
    assert header is not None
    blocks = [
        it for it in plain_reader.blocks_of(data, len(data), header[1]) if isinstance(it, plain_reader.Block)
    ]
    index, seal = blocks[-2:]
    assert (index.kind, seal.kind) == (Kind.INDEX, Kind.SEAL)
    payload = bytearray(data[index.payload : index.payload + index.stored])
    for _ in range(chance.randint(1, 3)):
        first = chance.choice((0, 64 * index.count))  # anywhere, or in the table
        payload[chance.randrange(first, min(first + 40, len(payload)) if first else len(payload))] ^= 255
    payload = payload[: chance.choice((len(payload), chance.randrange(len(payload))))]
    count = chance.choice((index.count, 0, 1, 2**32 - 1))
    made = c.compose_block(header[1], index.offset, Kind.INDEX, payload, flags=2, count=count)
    end = c.compose_block(header[1], index.offset + len(made), Kind.SEAL, bytes(28), flags=2)
    file.write_bytes(data[: index.offset] + made + end)
    with LogReader(path) as reader:
        assert [block.count for block in reader.blocks(streams=[0])] == counts
    with echo.open_log(path) as log:
        assert len(log[Particle].where("id == 100000")) <= 1


def test_ranges_take_fields_that_are_numbers(path: Path) -> None:
    """The first eight, also those of records within; what may be lacking is none."""

    @echo.event
    class Inner:
        a: echo.Int16
        b: echo.Float32

    @echo.event
    class Outer:
        flag: bool
        half: echo.Float16
        text: str
        inner: Inner
        maybe: int | None
        cells: echo.Array[float, 3]
        big: echo.UInt64

    fields = ranged_fields(echo.format_of(Outer))
    assert [(field.kind, field.size, field.is_bool) for field in fields] == [
        ("u", 1, True),
        ("i", 2, False),
        ("f", 4, False),
        ("u", 8, False),
    ]
    with pytest.raises(ValueError, match="at most 8 fields"):
        c.Stage(c.Staging(1 << 22, 0), 1, 1, 8, bytes(9 * 8))
    with pytest.raises(ValueError, match="that are numbers"):
        c.Stage(c.Staging(1 << 22, 0), 1, 1, 8, bytes(8))

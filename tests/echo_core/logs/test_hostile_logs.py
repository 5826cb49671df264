"""Logs that somebody has made up: harmless, whatever they say."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from echo_core._c import logs as c
from echo_core.errors import LogError
from echo_core.logs import limits
from echo_core.logs.layout import HEADER_BYTES, MARK, Flag, Kind, SegmentHeader, stream_payload
from echo_core.logs.reading import LogReader
from tests.echo_core.logs.logs import NAMED, PARTICLE, key_of, particles

SALT = 7
HEADER = SegmentHeader(bytes(16), 1, SALT, 1, 0, 0, bytes(16))


class Forger:
    """Writes a segment block by block, with right checksums."""

    def __init__(self) -> None:
        self.data = HEADER.to_bytes()

    def put(self, kind: int, payload: bytes, **fields: Any) -> Forger:
        self.data += c.compose_block(SALT, len(self.data), kind, payload, **fields)
        return self

    def declare(self) -> Forger:
        """A stream 1 of particles, and a stream 2 whose records vary."""
        self.put(Kind.FORMAT, PARTICLE.metadata, format_number=1)
        self.put(Kind.FORMAT, NAMED.metadata, format_number=2)
        self.put(Kind.STREAM, stream_payload(key_of(1)), stream=1, format_number=1)
        return self.put(Kind.STREAM, stream_payload(key_of(2)), stream=2, format_number=2)

    def patch(self, **fields: int) -> Forger:
        """Puts other numbers into the last block's header, and makes its checksum right."""
        start = self.data.rindex(b"EBLK")
        header = list(struct.unpack_from("<IBBHIIIIQIIqqII", self.data, start))
        for name, value in fields.items():
            header[_NAMES.index(name)] = value
        bare = struct.pack("<IBBHIIIIQIIqqI", *header[:-1])
        crc = c.crc32c(struct.pack("<QQ", SALT, start) + bare)
        self.data = self.data[:start] + bare + struct.pack("<I", crc) + self.data[start + 64 :]
        return self

    def read(self, path: Path) -> LogReader:
        """Everything of it, in every way."""
        path.mkdir(exist_ok=True)
        (path / "0000000001.seg").write_bytes(self.data)
        reader = LogReader(path)
        for verify in (False, True):
            for block in reader.blocks(verify=verify):
                assert len(list(block)) == len(block.sequences()) == len(block.times_ns()) == block.count
        reader.verify()
        return reader


_NAMES = [
    "magic",
    "kind",
    "codec",
    "flags",
    "stored",
    "raw",
    "stream",
    "format",
    "first",
    "count",
    "marks",
    "least",
    "greatest",
    "body_crc",
    "header_crc",
]
MARKS = struct.pack("<IIq", 0, 0, 5)
RECORDS = particles(10).tobytes()
BACK = struct.pack("<IIqIIq", 5, 0, 1, 4, 0, 1)
STREAM = stream_payload(key_of(3))


def ends(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


FORGED: dict[str, Callable[[Forger], Forger]] = {
    "records of no stream": lambda it: it.put(3, RECORDS, stream=9, format_number=1, count=10, marks=MARKS),
    "records of another format": lambda it: it.put(
        3, RECORDS, stream=1, format_number=2, count=10, marks=MARKS
    ),
    "fewer records than it says": lambda it: it.put(
        3, RECORDS, stream=1, format_number=1, count=11, marks=MARKS
    ),
    "records that vary where they do not": lambda it: it.put(
        3, RECORDS, stream=1, format_number=1, count=1, flags=Flag.VARIES, marks=MARKS, ends=ends(240)
    ),
    "ends that go back": lambda it: it.put(
        3, bytes(64), stream=2, format_number=2, count=2, flags=Flag.VARIES, marks=MARKS, ends=ends(64, 10)
    ),
    "ends beyond the payload": lambda it: it.put(
        3, bytes(64), stream=2, format_number=2, count=2, flags=Flag.VARIES, marks=MARKS, ends=ends(10, 65)
    ),
    "ends of 4 GiB": lambda it: it.put(
        3, bytes(9), stream=2, format_number=2, count=2, flags=1, marks=MARKS, ends=ends(2**32 - 1, 9)
    ),
    "a mark that begins late": lambda it: it.put(
        3, RECORDS, stream=1, format_number=1, count=10, marks=struct.pack("<IIq", 3, 0, 5)
    ),
    "marks that go back": lambda it: it.put(
        3, RECORDS, stream=1, format_number=1, count=10, marks=MARKS + BACK
    ),
    "a mark beyond the records": lambda it: it.put(
        3, RECORDS, stream=1, format_number=1, count=10, marks=MARKS + struct.pack("<IIq", 10, 0, 1)
    ),
    "a stream of no format": lambda it: it.put(2, STREAM, stream=3, format_number=9),
    "a stream that is another": lambda it: it.put(2, STREAM, stream=1, format_number=1),
    "a stream that breaks off": lambda it: it.put(2, STREAM[:50], stream=3, format_number=1),
    "a stream and more": lambda it: it.put(2, STREAM + b"x", stream=3, format_number=1),
    "a stream whose name is no text": lambda it: it.put(
        2, STREAM.replace(b"node", b"\xff\xff\xff\xff"), stream=3, format_number=1
    ),
    "a format that is none": lambda it: it.put(1, b"no metadata", format_number=3),
    "a format that is another": lambda it: it.put(1, NAMED.metadata, format_number=1),
    "a gap that ends before it begins": lambda it: it.put(4, bytes(8), stream=1, first=5),
    "a gap without an end": lambda it: it.put(4, b"", stream=1, first=5),
    "a gap of no stream": lambda it: it.put(4, bytes(8), stream=9),
    "a gap with a long cause": lambda it: it.put(4, bytes(8) + b"x" * 1025, stream=1),
    "a member that breaks off": lambda it: it.put(5, bytes(33)),
    "an acknowledgement of no stream": lambda it: it.put(6, struct.pack("<HIIQ", 0, 9, 0, 1)),
    "an acknowledgement that breaks off": lambda it: it.put(6, struct.pack("<HIIQ", 0, 1, 0, 1)[:-1]),
    "a codec that is not known": lambda it: it.put(
        3, RECORDS, stream=1, format_number=1, count=10, marks=MARKS, codec=99, raw=240
    ),
    "columns that do not fit": lambda it: it.put(
        3, ends(3, 1, 2, 4) + RECORDS, stream=1, format_number=1, count=10, marks=MARKS, codec=2, raw=240,
        flags=Flag.COLUMNS,
    ),
    "a kind that is not known": lambda it: it.put(77, b"who knows"),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED)
def test_what_does_not_fit_is_damage_and_the_rest_is_read(what: str, tmp_path: Path) -> None:
    """Right checksums say nothing of who has written it."""
    forger = FORGED[what](Forger().declare())
    forger.put(3, RECORDS, stream=1, format_number=1, count=10, marks=MARKS, first=100)
    reader = forger.read(tmp_path / "a.echolog")
    assert len(reader.damage) == 1, reader.damage
    assert [(block.first_sequence, block.count) for block in reader.blocks()] == [(100, 10)]


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": 0},
        {"stored": 2**32 - 1},
        {"raw": 2**32 - 1},
        {"raw": 241},
        {"stored": limits.MAX_EVENT_BYTES + 1, "raw": limits.MAX_EVENT_BYTES + 1},
        {"count": 2**32 - 1, "flags": 1},
        {"count": 0},
        {"marks": 11},
        {"marks": 0},
        {"marks": 2**32 - 1, "count": 2**32 - 1},
        {"first": 2**64 - 5},
    ],
)
def test_headers_that_cannot_be_are_no_blocks(fields: dict[str, int], tmp_path: Path) -> None:
    """Nothing is allocated, or read beyond the file, for what they say."""
    forger = Forger().declare().put(3, RECORDS, stream=1, format_number=1, count=10, marks=MARKS)
    forger.patch(**fields)
    forger.put(3, RECORDS, stream=1, format_number=1, count=10, marks=MARKS, first=100)
    reader = forger.read(tmp_path / "a.echolog")
    assert [damage.what for damage in reader.damage] == ["bytes that are no block"]
    assert [block.first_sequence for block in reader.blocks()] == [100]


def test_headers_of_blocks_that_overlap_are_read_in_little_time(tmp_path: Path) -> None:
    """No byte is looked at once for each header that claims it: here that would be 500 GB."""
    forger = Forger()
    start, size = len(forger.data), 8 * 1024 * 1024
    data = bytearray(forger.data + bytes(size))
    for at in range(start + 64, len(data) - 64, 64):
        marks = (len(data) - at - 64) // 64 * 4
        bare = struct.pack(
            "<IBBHIIIIQIIqqI", 0x4B4C4245, Kind.PAD, 0, 2, 0, 0, 0, 0, 0, marks, marks, 0, 0, 0
        )
        crc = c.crc32c(struct.pack("<QQ", SALT, at) + bare)
        data[at : at + 64] = bare + struct.pack("<I", crc)
    forger.data = bytes(data)
    assert forger.read(tmp_path / "a.echolog").torn_bytes == size


def test_a_kind_that_may_be_skipped_is(tmp_path: Path) -> None:
    """So a later version can add some."""
    forger = Forger().declare().put(77, b"who knows", flags=Flag.SKIPPABLE)
    forger.put(3, RECORDS, stream=1, format_number=1, count=10, marks=MARKS)
    reader = forger.read(tmp_path / "a.echolog")
    assert not reader.damage
    assert len(list(reader.blocks())) == 1


@pytest.mark.parametrize("seed", range(10))
def test_random_headers_do_no_harm(seed: int, tmp_path: Path) -> None:
    """Any numbers, with right checksums."""
    chance = random.Random(seed)
    values = (0, 1, 2, 10, 63, 64, 240, 16384, 2**24, 2**24 + 1, 2**26, 2**31, 2**32 - 1)
    for _ in range(40):
        forger = Forger().declare()
        for _ in range(6):
            forger.put(
                chance.randint(1, 11), RECORDS,
                stream=chance.randint(0, 3), format_number=chance.randint(0, 3),
                count=chance.randint(0, 12), marks=MARKS * chance.randint(0, 2), flags=chance.randint(0, 7),
                ends=chance.randbytes(4 * chance.randint(0, 12)),
            )  # fmt: skip
            if chance.random() < 0.5:
                names = chance.sample(["codec", "flags", "stored", "raw", "count", "marks", "least"], 2)
                forger.patch(
                    **{
                        name: chance.choice(values)
                        % (256 if name == "codec" else 2**16 if name == "flags" else 2**32)
                        for name in names
                    }
                )
        forger.read(tmp_path / "a.echolog")


def test_a_segment_that_is_not_the_one_of_its_name_is_damage(tmp_path: Path) -> None:
    """It was put there."""
    path = tmp_path / "a.echolog"
    path.mkdir()
    (path / "0000000002.seg").write_bytes(Forger().declare().data)
    with LogReader(path) as reader:
        assert len(reader.damage) == 1
        assert not list(reader.blocks())


def link_to_device(path: Path) -> None:
    """Which has bytes without end."""
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, link_to_device])
def test_what_is_no_file_is_refused_at_once(make: Callable[[Path], object], tmp_path: Path) -> None:
    """A pipe that nobody writes to would be waited for."""
    path = tmp_path / "a.echolog"
    path.mkdir()
    (path / "0000000001.seg").write_bytes(Forger().declare().data)
    make(path / "0000000002.seg")
    with pytest.raises(LogError, match="Expected a segment, got something that is no file"):
        LogReader(path)


def test_a_segment_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    """With an error of logs."""
    path = tmp_path / "a.echolog"
    path.mkdir()
    (path / "0000000001.seg").symlink_to("0000000001.seg")  # also for root
    with pytest.raises(LogError, match="Expected a segment, got Too many levels of symbolic links"):
        LogReader(path)


@pytest.mark.parametrize(
    "name",
    ["1.seg", "0000000000.seg", "99999999999999999999.seg", "00000000001.seg", "0000000001.SEG", "x.seg"],
)
def test_other_files_are_none_of_a_logs_business(name: str, tmp_path: Path) -> None:
    """Whatever they are called."""
    path = tmp_path / "a.echolog"
    path.mkdir()
    (path / "0000000001.seg").write_bytes(Forger().declare().data)
    (path / name).write_bytes(b"x" * HEADER_BYTES)
    with LogReader(path) as reader:
        assert (reader.end.segment, len(reader.streams), reader.damage) == (1, 2, ())


def test_too_many_blocks_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what a reader keeps of each stays bounded."""
    forger = Forger()
    for _ in range(100):
        forger.put(Kind.PAD, b"", flags=Flag.SKIPPABLE)
    for most, damaged in ((99, 1), (100, 0), (101, 0)):
        monkeypatch.setattr(limits, "MAX_BLOCKS", most)
        assert len(forger.read(tmp_path / "a.echolog").damage) == damaged


def test_a_folder_that_is_no_log_is_refused(tmp_path: Path) -> None:
    """With what is expected of it."""
    with pytest.raises(LogError, match="Expected a log, got No such file"):
        LogReader(tmp_path / "none")
    with pytest.raises(LogError, match="without a segment"):
        LogReader(tmp_path)
    assert MARK.itemsize == 16

"""The files are what docs/log-format.md says: a reader that was written from it reads them."""

from __future__ import annotations

import ast
import hashlib
import random
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from echo_core.errors import LogError
from echo_core.logs.described import Level, Position, Rotate
from echo_core.logs.layout import stream_payload
from echo_core.logs.reading import LogReader
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs import plain_reader
from tests.echo_core.logs.golden import BIG, GOLDEN, big_particles, named, write
from tests.echo_core.logs.logs import (
    NAMED,
    PARTICLE,
    TIME_NS,
    key_of,
    numbered,
    particles,
    segments_of,
)

GOLDEN_SHA256 = "201b4bc186ab1f94cd41c304b2f1b92fd28a4b33e5e506bdf9b102ff83e8d90d"


def check_golden(path: Path) -> None:
    """What both readers find in a log that `golden.write` has written."""
    with LogReader(path) as reader:
        big, varying = reader.streams
        assert (big.key, big.format, big.events, big.first, big.last) == (key_of(1), BIG, 820, 0, 829)
        assert (varying.key, varying.format, varying.events) == (key_of(2), NAMED, 60)
        found = numbered(reader)
        assert b"".join(record for number, record in found[0] if number < 800) == big_particles(800)
        assert b"".join(record for number, record in found[0] if number > 809) == big_particles(20, 810)
        assert found[1] == [(number, named(number)) for number in range(60)]
        assert [(gap.first, gap.last, gap.cause) for gap in reader.gaps] == [(800, 809, "dropped upstream")]
        (member,) = reader.members
        assert (member.activity, member.name, member.time_ns) == ("joined", "a node", TIME_NS)
        (acknowledged,) = reader.acknowledgements
        assert (acknowledged.consumer, acknowledged.watermarks) == ("consumer", ((key_of(1), 700),))
        assert reader.is_torn
        assert not reader.verify()
        check_plain(path, reader)


def check_plain(path: Path, reader: LogReader) -> None:
    """The plain reader finds the same."""
    plain = plain_reader.read_log(path)
    ours = numbered(reader)
    for stream in reader.streams:
        theirs = plain.events[stream_payload(stream.key), stream.format.metadata]
        assert [(number, record) for number, _, record in theirs] == ours.get(stream.number, [])
    times = {
        stream.number: [
            time for block in reader.blocks(streams=[stream.number]) for time in block.times_ns().tolist()
        ]
        for stream in reader.streams
    }
    for stream in reader.streams:
        theirs = plain.events[stream_payload(stream.key), stream.format.metadata]
        assert [time for _, time, _ in theirs] == times[stream.number]
    told = [
        (gap.first, gap.last, gap.cause) for gap in reader.gaps if gap.cause not in ("damage", "not recorded")
    ]
    assert [gap[1:] for gap in plain.gaps] == told
    assert plain.torn == reader.torn_bytes
    assert bool(plain.damage) == bool(reader.damage)


def test_the_golden_log_is_read_by_both_readers() -> None:
    """It was written once: today's reader reads logs of before."""
    check_golden(GOLDEN)


def test_the_golden_log_is_what_it_was() -> None:
    """Whoever writes it anew has to say so here."""
    data = b"".join(file.read_bytes() for file in segments_of(GOLDEN))
    assert hashlib.sha256(data).hexdigest() == GOLDEN_SHA256


def test_what_is_written_today_is_read_by_both_readers(tmp_path: Path) -> None:
    """And is what the golden log has."""
    write(tmp_path / "a.echolog")
    check_golden(tmp_path / "a.echolog")


def test_a_reader_takes_less_than_200_lines_and_the_standard_library() -> None:
    """What the page is enough for."""
    text = Path(plain_reader.__file__).read_text(encoding="utf-8")
    assert len(text.splitlines()) < 200
    imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        name.split(".")[0]
        for node in imported
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [it.name for it in node.names]
        )
    }
    assert names <= sys.stdlib_module_names


@pytest.mark.parametrize("seed", range(8))
def test_both_readers_agree_about_any_log(seed: int, tmp_path: Path) -> None:
    """Random streams, sizes, gaps, syncs and writers; then some bytes are changed."""
    chance = random.Random(seed)
    path = tmp_path / "a.echolog"
    for _ in range(chance.randint(1, 3)):
        with LogWriter(path, level=chance.choice(list(Level)), rotate=Rotate(bytes=1 << 16)) as log:
            fixed, varying = log.stream(key_of(1), PARTICLE), log.stream(key_of(2), NAMED)
            at = [fixed.next_sequence, 0]
            for _ in range(chance.randint(1, 20)):
                count = chance.randint(1, 300)
                fixed.append_batch(particles(count, at[0]), sequence=at[0], time_ns=chance.randint(1, 10**18))
                varying.append(chance.randbytes(chance.randint(0, 5000)), sequence=at[1], time_ns=at[1] + 1)
                at[0] += count
                at[1] += 1
                if chance.random() < 0.2:
                    fixed.gap(at[0], at[0] + 4, "told")
                    at[0] += 5
                if chance.random() < 0.2:
                    log.sync()
    for file in segments_of(path):
        data = bytearray(file.read_bytes())
        for _ in range(chance.randint(0, 2)):
            data[chance.randrange(4096, len(data))] ^= 1 << chance.randrange(8)
        if file == segments_of(path)[-1] and chance.random() < 0.5:
            del data[chance.randrange(4096, len(data)) :]
        file.write_bytes(data)
    with LogReader(path) as reader:
        reader.verify()
        check_plain(path, reader)


def test_a_log_of_another_version_is_refused(tmp_path: Path) -> None:
    """With what to do about it."""
    path = tmp_path / "a.echolog"
    LogWriter(path).close()
    (file,) = segments_of(path)
    data = bytearray(file.read_bytes())
    for at in (0, 2048):
        data[at + 8] = 2
        data[at + 2044 : at + 2048] = plain_reader.crc32c(bytes(data[at : at + 2044])).to_bytes(4, "little")
    file.write_bytes(data)
    with pytest.raises(LogError, match="Expected a log of version 1, got 2"):
        LogReader(path)


def test_positions_say_what_was_read(tmp_path: Path) -> None:
    """Reading from one to the next gives everything once."""
    path = tmp_path / "a.echolog"
    write(path)
    with LogReader(path) as reader:
        blocks = list(reader.blocks())
        for first, second in pairwise(blocks):
            assert first.position < second.position
            (between,) = reader.blocks(since=first.position, until=second.position)
            assert between.first_sequence == second.first_sequence
        assert not list(reader.blocks(since=reader.end))
        assert len(list(reader.blocks(since=Position(1, 0)))) == len(blocks)

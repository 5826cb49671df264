"""A machine may stop at any moment: what was promised is there, and nothing else is made up.

The states that a disk may be in are enumerated from what a writer did to it. ECHO_CRASH_UNITS says how
many pieces of 512 bytes are there or not in all combinations: 15 make a million states.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from echo_core.logs.described import Level, Position, Rotate
from echo_core.logs.layout import HEADER_BYTES
from echo_core.logs.reading import LogReader
from echo_core.logs.scanning import ending_of, scan, without_torn_tail
from echo_core.logs.segments import Segment
from echo_core.logs.writing import LogWriter
from tests.echo_core.logs.crashes import Crash, Model, applied, crashes
from tests.echo_core.logs.disks import Operation, Receipt, RecordingDisk
from tests.echo_core.logs.logs import NAMED, PARTICLE, key_of, numbered, particles

UNITS = int(os.environ.get("ECHO_CRASH_UNITS", "7"))


def recorded() -> list[Operation]:
    """What a writer does to a disk: some receipts, gaps, three segments, a second writer."""
    disk = RecordingDisk()
    chance = random.Random(1)
    at = 0
    for run in range(2):
        log = LogWriter("a.echolog", level=Level.SYNCED, rotate=Rotate(bytes=1 << 16), disk=disk)
        fixed, varying = log.stream(key_of(1), PARTICLE), log.stream(key_of(2), NAMED)
        for turn in range(14):
            count = chance.choice((1, 10, 200))
            fixed.append_batch(particles(count, at), sequence=at)
            varying.append(bytes([turn]) * chance.choice((0, 100, 3000)), sequence=14 * run + turn)
            at += count
            if turn % 5 == 4:
                fixed.gap(at, at, "told")
                at += 1
            promised(disk, log.sync())
        log.close()
        promised(disk, log.position)
    return disk.done


def promised(disk: RecordingDisk, position: Position) -> None:
    """Notes it among what was done."""
    disk.done.append(Receipt(f"{position.segment:010}.seg", position.offset))


@cache
def blocks_of(data: bytes) -> dict[int, bytes]:
    """The blocks that were written, by their offsets."""
    header = ending_of(data).header
    assert header is not None
    found = scan(data, header.salt, end=len(data), verify=True)
    assert found.end == len(data)
    return {int(row["offset"]): data[int(row["offset"]) : int(row["end"])] for row in found.rows}


def files_of(done: list[Operation]) -> dict[str, bytes]:
    """What all of it makes."""
    model = Model()
    for operation in done:
        model.do(operation)
    return {name: applied(data, model.pending[name]) for name, data in model.durable.items()}


def check(crash: Crash, files: dict[str, bytes]) -> str | None:
    """What is wrong with what is read of a file after a crash; None: nothing."""
    promise = crash.model.receipts.get(crash.name, 0)
    if crash.data is None:
        return "a promised file is not there" if promise else None
    ending = ending_of(crash.data)
    if ending.length < promise:
        return f"{promise} bytes were promised, {ending.length} are there"
    if ending.header is None or ending.length == HEADER_BYTES:
        return None
    written = blocks_of(files[crash.name])
    found = without_torn_tail(scan(crash.data, ending.header.salt, end=len(crash.data), verify=True))
    for offset, end in zip(found.rows["offset"].tolist(), found.rows["end"].tolist(), strict=True):
        is_written = written.get(offset) == crash.data[offset:end]
        if offset < promise and not is_written:
            return f"a promised block at {offset} is another"
    return None if ending == ending_of(crash.data) else "reading it twice gives another end"


def faults(done: list[Operation]) -> tuple[int, list[str]]:
    """How many states there are, and what is wrong with some."""
    files = files_of(done)
    found: list[str] = []
    count = 0
    for crash in crashes(done, random.Random(2), each=64, units=UNITS):
        count += 1
        fault = check(crash, files)
        if fault is not None:
            found.append(fault)
    return count, found


@pytest.mark.once
def test_nothing_that_was_promised_is_lost_in_any_crash() -> None:
    """Tens of thousands of states, and as many more as are asked for."""
    count, found = faults(recorded())
    assert found == []
    assert count > 20_000
    print(f"{count} states")  # noqa: T201 # with pytest -s


def nothing(*_: object) -> None:
    """What planted bugs do."""


def settle_without_folder(segment: Segment) -> None:
    """The file is synced, its name is not."""
    segment._disk.sync(segment.fd)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.once
@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (Segment, "settle", settle_without_folder),
        (Segment, "settle", nothing),
        (LogWriter, "_sync_file", nothing),
    ],
)
def test_planted_bugs_are_found(
    owner: type, name: str, bug: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is not synced, a file that is not, a promise before the sync."""
    monkeypatch.setattr(owner, name, bug)
    _, found = faults(recorded())
    assert found


@pytest.mark.parametrize("seed", range(20))
def test_a_writer_goes_on_behind_whatever_a_crash_has_left(seed: int, tmp_path: Path) -> None:
    """It is stopped in that, too; then readers find all that was promised, each event once."""
    chance = random.Random(seed)
    crash = next(islice(crashes(recorded(), chance, each=4096, units=3), chance.randrange(1200), None))
    path = tmp_path / "a.echolog"
    path.mkdir()
    for name, data in crash.model.durable.items():
        content = crash.data if name == crash.name else applied(data, crash.model.pending[name])
        if content is not None:
            (path / name).write_bytes(content)
    promised_events = events_before(path, crash.model.receipts)
    for attempt in range(3):
        with LogWriter(path, level=Level.SYNCED) as log:
            stream = log.stream(key_of(9), PARTICLE)
            stream.append_batch(particles(3, 3 * attempt), sequence=3 * attempt)
        if attempt == 0:  # stopped while it began: a header that is there in part
            last = max(path.glob("*.seg"))
            (path / f"{int(last.stem) + 1:010}.seg").write_bytes(last.read_bytes()[: chance.randint(0, 4095)])
    with LogReader(path) as reader:
        found = {
            (stream.key, number): record
            for stream in reader.streams
            for number, record in numbered(reader, streams=[stream.number]).get(stream.number, [])
        }
        assert promised_events.items() <= found.items()
        assert [found[key_of(9), number] for number in range(9)] == [it.tobytes() for it in particles(9)]
        assert sum(stream.events for stream in reader.streams) == len(found)


def events_before(path: Path, receipts: dict[str, int]) -> dict[tuple[object, int], bytes]:
    """What was promised, as a reader finds it before anybody goes on."""
    if not any((path / name).exists() for name in receipts):
        return {}
    with LogReader(path) as reader:
        return {
            (block.stream.key, number): bytes(record)
            for block in reader.blocks()
            if block.position.offset <= receipts.get(f"{block.position.segment:010}.seg", 0)
            for number, record in zip(block.sequences().tolist(), block, strict=True)
        }

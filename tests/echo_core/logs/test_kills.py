"""Processes that are killed while they record."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from echo_core.logs.reading import LogReader
from tests.echo_core.logs.logs import key_of, numbered, particles

ROOT = Path(__file__).parents[3]
CYCLES = 4 * int(os.environ.get("ECHO_EXAMPLES", "1"))
CYCLES_OF_A_LOG = 10  # all of it is read after each


def promised_before_a_kill(path: Path, first: int, receipts: int) -> int:
    """The last number that was promised by a process, which is killed after so many receipts or some more."""
    command = [sys.executable, "-m", "tests.echo_core.logs.recording_process", str(path), str(first)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(receipts)]
        process.kill()
        lines += process.stdout.read().splitlines(keepends=True)
    return int([line for line in lines if line.endswith("\n")][-1])


@pytest.mark.once
def test_what_was_promised_before_a_kill_is_there(tmp_path: Path) -> None:
    """Kill after kill; events are there once, and those of the end in whole runs."""
    chance = random.Random(1)
    for start in range(0, CYCLES, CYCLES_OF_A_LOG):
        path = tmp_path / f"{start}.echolog"
        check_kills(path, min(CYCLES_OF_A_LOG, CYCLES - start), chance)
        shutil.rmtree(path)


def check_kills(path: Path, cycles: int, chance: random.Random) -> None:
    """So many, in one log."""
    first = 0
    expected = set[int]()
    for _ in range(cycles):
        promised = promised_before_a_kill(path, first, chance.randint(1, 60))
        with LogReader(path) as reader:
            found = numbered(reader)
            assert not reader.damage
            streams = {stream.key: stream for stream in reader.streams}
            last = streams[key_of(1)].last
        assert last is not None
        assert last >= promised + 99
        numbers = [number for number, _ in found[0]]
        assert numbers == list(range(len(numbers)))
        assert b"".join(record for _, record in found[0]) == particles(len(numbers)).tobytes()
        assert all(record == number.to_bytes(8, "little") * 20 for number, record in found[1])
        expected.update(range(first, promised + 1, 100))
        assert expected <= {number for number, _ in found[1]}
        first = last + 1

"""Damaged and hostile logs, as views see them: never a wrong event, and what is missing is told."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import echo_core as echo
from echo_core.codegen.machine.budgets import Allowance, Budget
from echo_core.logs.views.decoders import Decoders
from echo_core.logs.writing import LogWriter
from echo_core.streams.receptions import Wanted
from tests.echo_core.logs.written import START_NS, Run, key_of, write


@echo.event
class Shot:
    id: int
    temp: float


@echo.event
class Note:
    text: str
    parts: list[str]


def known(path: Path) -> dict[tuple[str, int], str]:
    """Every event that a view gives, by source and number."""
    with echo.open_log(path) as log:
        return {(info.source, info.number): repr(event) for event, info in log[None].with_info()}


def test_no_flip_gives_an_event_that_nobody_wrote(tmp_path: Path) -> None:
    """Each event comes as it was, or is told to be missing; arrays and columns agree with that."""
    path = write(
        tmp_path / "run.echolog",
        Run([Shot(i, i / 2) for i in range(400)]),
        Run([Note(f"n{i}", ["a"] * (i % 3)) for i in range(50)], source="notes"),
        Run([Shot(i, i / 2) for i in range(400, 600)], first=400),
    )
    written = known(path)
    files = sorted(path.glob("*.seg"))
    draw = random.Random(1)
    for _ in range(100):
        copy = tmp_path / "copy.echolog"
        shutil.copytree(path, copy)
        file = copy / draw.choice(files).name
        data = bytearray(file.read_bytes())
        at = draw.randrange(len(data))
        data[at] ^= 1 << draw.randrange(8)
        file.write_bytes(data)
        found = known(copy)
        assert found.items() <= written.items(), (file.name, at)
        with echo.open_log(copy) as log:
            report = log.verify()
            ids = [identity for array in log["Shot"].arrays() for identity in array["id"].tolist()]
            assert log["Shot"].columns(["id"])["id"].tolist() == ids
        assert ids == [number for source, number in found if source == "one"], (file.name, at)
        told = {
            (stream.key.source_name, number)
            for gap in report.missing
            for stream in report.streams
            if stream.number == gap.stream
            for number in range(gap.first, gap.last + 1)
        }
        lost = written.keys() - found.keys()
        assert {event for event in lost if event[1] + 1 not in (50, 600)} <= told | lost - _within(
            found, lost
        )
        shutil.rmtree(copy)


def _within(found: Any, lost: Any) -> set[tuple[str, int]]:
    """Those that stand between two that were found: what is lost with all behind it, nobody knows of."""
    inner = set[tuple[str, int]]()
    for source, number in lost:
        numbers = [n for s, n in found if s == source]
        if numbers and min(numbers) < number < max(numbers):
            inner.add((source, number))
    return inner


def test_decoders_are_made_once_for_a_class_and_a_format() -> None:
    """Whichever logs ask; another consent is another decoder."""
    decoders, budget = Decoders(), Budget(Allowance(1.0, 1.0))
    format_ = echo.format_of(Shot, abi="s390x")
    wanted = Wanted(Shot, is_array=False, is_lossy=False)
    first = decoders.of(wanted, format_, None, budget)
    same = echo.Format.from_metadata(format_.metadata)
    assert decoders.of(wanted, same, None, Budget(Allowance(1.0, 1.0))) is first
    assert first.codec is first.codec
    assert first.columns(["id"]) is first.columns(["id"])
    lossy = Wanted(Shot, is_array=False, is_lossy=True)
    assert decoders.of(lossy, format_, None, budget) is not first


def test_what_a_log_has_compiled_is_dropped_when_it_is_closed() -> None:
    """Who comes later has it made, as after a peer has gone."""
    decoders, budget = Decoders(), Budget(Allowance(1.0, 1.0))
    wanted, format_ = Wanted(Shot, is_array=False, is_lossy=False), echo.format_of(Shot, abi="ppc64")
    first = decoders.of(wanted, format_, None, budget)
    budget.end()
    first.payers.was_dropped = True
    assert decoders.of(wanted, format_, None, Budget(Allowance(1.0, 1.0))) is not first


def test_a_log_of_hundreds_of_formats_is_read(tmp_path: Path) -> None:
    """Each has a class of its own, and none waits for the compiler."""
    writer = LogWriter(tmp_path / "run.echolog", level="volatile")
    for i in range(300):
        fields = "".join(f"int f{i}_{j};" for j in range(20))
        format_ = echo.Format.from_c(f"struct T{i} {{ {fields} }};", abi="ppc64")
        stream = writer.stream(key_of(f"source {i}"), format_)
        assert stream.append(bytes(80), sequence=0, time_ns=START_NS)
    writer.close()
    with echo.open_log(tmp_path / "run.echolog") as log:
        assert len({type(event).__name__ for event in log[None]}) == 300
        with pytest.raises(echo.FormatError, match="one class"):
            log[None].columns()

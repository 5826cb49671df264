"""Fuzzing records: bytes of a format that a peer describes are a value or a WireError.

    python tests/fuzz/fuzz_record.py -max_total_time=600 [corpus folder]

An input is the size of the metadata (two bytes, the least significant first), the metadata, and the
record. What is read is written again and read again: both values, and their bytes, must be equal.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import datetime as dt
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import atheris  # type: ignore  # pyright: ignore

with atheris.instrument_imports(include=["echo_core.formats", "echo_core.codegen", "construct"]):  # pyright: ignore
    import echo_core as echo
    import echo_core.formats.metadata  # pyright: ignore[reportUnusedImport] - now, to be instrumented
    from echo_core.codegen.plain.records import read, write
    from echo_core.errors import FormatError, WireError

import numpy as np

from tests.formats.samples import Batch, Cell, Color, Odd, Particle, Rich, Small


def one(data: bytes) -> None:
    """One input; a value, if it is one, is written to bytes that read as the same value."""
    size = int.from_bytes(data[:2], "little")
    try:
        format_ = echo.Format.from_metadata(data[2 : 2 + size])
        plain = read(data[2 + size :], format_.layout)
    except (FormatError, WireError):
        return
    written = write(plain, format_.layout)
    again = read(written, format_.layout)
    assert write(again, format_.layout) == written
    assert same(again, plain)


def same(first: Any, second: Any) -> bool:
    """Equal plain values; not a number equals itself."""
    if type(first) is not type(second):
        return False
    if type(first) is np.ndarray:
        return first.shape == second.shape and bool(first.tobytes() == second.tobytes())
    if type(first) is dict:
        return all(same(first[name], second[name]) for name in first)
    if type(first) is list:
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second) or repr(first) == repr(second)


def particle(i: int) -> Particle:
    return Particle(i, 1.0, 2.0, 3.0, 0.5, 0.5, 0.5, 300.0, i, 3, 1, True, 1.0, -1.0, "tag", i)


def events() -> list[Any]:
    cells: Any = [Cell(i=1, name="a"), Cell(i=2, name="größe")]
    particles: Any = [particle(1), particle(2)]
    return [
        particle(1),
        Batch(1, 2, particles),
        Odd(1, 2, 3.0, 4, 5, "text", 3, np.arange(3.0)),
        Small(1, Color.RED, cells),
        Rich(
            id=1, ok=True, small=2, half=0.5, temp=300.0, wave=1 + 2j, tag="tag", key=b"key",
            position=np.zeros(3), samples=np.arange(4.0), image=np.zeros((2, 2), np.uint16), count=2,
            counted=np.zeros(2, np.int8), cells=cells, first=cells[0], color=Color.BLUE,
            when=dt.datetime(2024, 1, 1, tzinfo=dt.UTC), took=dt.timedelta(seconds=1),
            who=uuid.UUID(int=5), note="note", names=["a", None], größe=1,
        ),
    ]  # fmt: skip


def seeds(folder: Path) -> None:
    """Real events on machines of both byte orders."""
    for event in events():
        for abi in ("x86_64", "ppc"):
            encoder: Any = echo.encoder(event.__class__, abi=abi)
            metadata = echo.format_of(event.__class__, abi=abi).metadata
            data = len(metadata).to_bytes(2, "little") + metadata + encoder(event)
            one(data)
            folder.joinpath(f"{type(event).__name__}-{abi}").write_bytes(data)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        seeds(Path(folder))
        atheris.Setup([*sys.argv, folder], one)  # pyright: ignore
        atheris.Fuzz()  # pyright: ignore

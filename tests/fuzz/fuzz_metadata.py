"""Fuzzing metadata: any bytes are a format or a named error, and what is accepted comes back the same.

    python tests/fuzz/fuzz_metadata.py -max_total_time=600 [corpus folder]

Needs `pip install atheris` beside echo_core's own requirements, and the checkout on PYTHONPATH; the options
are libFuzzer's. Without a corpus it begins with real metadata.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris  # type: ignore  # pyright: ignore

with atheris.instrument_imports(include=["echo_core.formats", "construct"]):  # pyright: ignore
    import echo_core as echo
    import echo_core.formats.metadata  # pyright: ignore[reportUnusedImport] - now, to be instrumented
    from echo_core.errors import FormatError, WireError

from tests.formats.hostile import hostile
from tests.formats.samples import Batch, Odd, Particle, Rich, Small


def one(data: bytes) -> None:
    """One input: a format that survives its own round trip, or a named error."""
    try:
        format_ = echo.Format.from_metadata(data)
    except (FormatError, WireError):
        return
    assert format_.metadata == data
    assert echo.Format.from_metadata(format_.metadata) == format_
    assert len(format_.token) == 16
    assert format_.describe()
    assert echo.compare(format_, format_).is_same


def seeds(folder: Path) -> None:
    """Real metadata, and the hostile inputs that the tests know."""
    classes: list[type[Any]] = [Rich, Small, Batch, Odd, Particle]
    known = [echo.format_of(cls, abi=abi).metadata for cls in classes for abi in ("x86_64", "ppc")]
    known += [data for data in hostile().values() if len(data) < 6000]
    for i, data in enumerate(known):
        folder.joinpath(f"seed{i}").write_bytes(data)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        seeds(Path(folder))
        atheris.Setup([*sys.argv, folder], one)  # pyright: ignore
        atheris.Fuzz()  # pyright: ignore

"""Time in loops of C: what a call from Python would hide, such as 0.5 ns a record."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_suffix(".c")


@functools.cache
def _library() -> Any:
    """The loops, compiled for this run."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "loops.so"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", built, SOURCE], check=True)
        library = ctypes.CDLL(str(built))
    pointer, number = ctypes.c_void_p, ctypes.c_uint64
    arguments: dict[str, list[Any]] = {
        "best_convert_ns": [pointer] * 3 + [number] * 3,
        "best_copy_ns": [pointer] * 2 + [number] * 3,
        "best_checked_ns": [pointer] * 3 + [number] * 5,
        "best_decode_ns": [pointer] * 4 + [number] * 2,
        "best_record_ns": [pointer] * 4 + [number, pointer] + [number] * 5,
    }
    for name, types in arguments.items():
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_double, types
    return library


def convert_ns(address: int, source: Any, target: Any, count: int, *, calls: int, repeats: int) -> float:
    """The best time of a call that converts `count` records from one numpy array to another."""
    ns: float = _library().best_convert_ns(
        address, source.ctypes.data, target.ctypes.data, count, calls, repeats
    )
    return ns


def copy_ns(source: Any, target: Any, *, calls: int, repeats: int) -> float:
    """The best time of a memcpy of one numpy array to another of its size."""
    ns: float = _library().best_copy_ns(source.ctypes.data, target.ctypes.data, source.nbytes, calls, repeats)
    return ns


def checked_ns(
    address: int, source: Any, target: Any, sizes: tuple[int, int], *, calls: int, repeats: int
) -> float:
    """As `convert_ns`, with the check of the source's size; `sizes` are those of a record on either side."""
    ns: float = _library().best_checked_ns(
        address, source.ctypes.data, target.ctypes.data, source.nbytes, *sizes, calls, repeats
    )
    assert ns >= 0
    return ns


def record_ns(
    addresses: Mapping[str, int], records: Any, targets: Any, *, verified: bool, calls: int, repeats: int
) -> float:
    """The best time of a call that converts one record with variable parts, verified before or not.

    The record is an array, or stands in each row of one; calls then go from row to row, of both arrays.
    """
    copies = records.shape[0] if records.ndim == 2 else 1
    assert copies.bit_count() == 1
    rooms = records.ctypes.data, records.shape[-1], targets.ctypes.data
    strides = records.strides[0], targets.strides[0]
    verify = addresses["verify"] if verified else None
    measure, convert = addresses["measure"], addresses["convert"]
    ns: float = _library().best_record_ns(verify, measure, convert, *rooms, copies, *strides, calls, repeats)
    assert ns >= 0
    return ns


def decode_ns(address: int, context: Any, message: Any, target: Any, *, calls: int, repeats: int) -> float:
    """The best time of a call to FFS's decoder, from one numpy array to another."""
    ns: float = _library().best_decode_ns(
        address, context, message.ctypes.data, target.ctypes.data, calls, repeats
    )
    assert ns >= 0
    return ns

"""Time in loops of C: what a call from Python would hide, such as 0.5 ns a record."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
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
    counts: list[type[Any]] = [ctypes.c_uint64] * 3
    library.best_convert_ns.restype = library.best_copy_ns.restype = ctypes.c_double
    library.best_convert_ns.argtypes = [ctypes.c_void_p] * 3 + counts
    library.best_copy_ns.argtypes = [ctypes.c_void_p] * 2 + counts
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

"""Time in loops of C; see loops.c."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from echo_core._c import expressions

SOURCE = Path(__file__).with_suffix(".c")


@functools.cache
def _library() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "loops.so"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", built, SOURCE], check=True)
        library = ctypes.PyDLL(str(built))  # keeps the GIL, as whoever judges events does
    pointer, number = ctypes.c_void_p, ctypes.c_uint64
    for name, types in {
        "best_judged_ns": [pointer, ctypes.py_object, pointer, *[number] * 3, pointer],
        "best_compiled_ns": [pointer, pointer, number, pointer, *[number] * 3, pointer],
    }.items():
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_double, types
    return library


def judged_ns(judge: expressions.Judge, rows: Any, *, repeats: int) -> tuple[float, int]:
    """The best time for a record, asked as C code asks; and how many pass."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    raw = pointer(judge.__echo_raw_judge_3__, b"__echo_raw_judge_3__")
    record = ctypes.c_void_p.from_address(raw).value
    passed = ctypes.c_uint64()
    sizes = len(rows), rows.dtype.itemsize, repeats
    ns = _library().best_judged_ns(record, judge, rows.ctypes.data, *sizes, ctypes.byref(passed))
    return ns, passed.value


def compiled_ns(
    functions: list[int], parameters: list[bytes], rows: Any, *, repeats: int
) -> tuple[float, int]:
    """The best time for a record of compiled functions, one after another; and the bits they answered."""
    addresses = (ctypes.c_void_p * len(functions))(*functions)
    snapshots = (ctypes.c_char_p * len(functions))(*parameters)
    found = ctypes.c_uint64()
    sizes = len(rows), rows.dtype.itemsize, repeats
    ns = _library().best_compiled_ns(
        addresses, snapshots, len(functions), rows.ctypes.data, *sizes, ctypes.byref(found)
    )
    return ns, found.value

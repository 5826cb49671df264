"""Identifies the CPU and the compiler for keys of cached code, without importing the compiler.

Machine code depends on its IR, on the CPU and on the compiler version. The compiler detects the CPU's
features by cpuid, so the same cpuid results lead to the same code. Reading them directly lets a process use
cached code without importing the compiler. Only x86-64 has cpuid; other machines need the compiler.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path

from echo_core._c import code
from echo_core.codegen.machine import engine


@functools.cache
def identity() -> tuple[bytes | str, ...]:
    """Parts for cache keys; CompileError if the compiler is needed and missing."""
    cpu, compiler = code.cpu(), _compiler()
    if cpu and compiler:
        return sys.platform, str(code.MACHINE), cpu, compiler
    target = engine.native_target()
    return target.triple, target.cpu, target.features, engine.compiler_version()


def _compiler() -> bytes:
    """llvmlite's file with its version and commit, and the size of LLVM's library; empty if unknown."""
    try:
        spec = importlib.util.find_spec("llvmlite")
        if spec is None or spec.origin is None:
            return b""
        folder = Path(spec.origin).parent
        size = (folder / "binding" / "libllvmlite.so").stat().st_size
        return (folder / "_version.py").read_bytes() + str(size).encode()
    except (ImportError, OSError, ValueError):
        return b""

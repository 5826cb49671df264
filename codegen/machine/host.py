"""What machine code depends on besides its text: this CPU and the compiler, found out without importing it.

The compiler makes code for the CPU that it runs on. It asks the CPU (cpuid) what that can do, so the answers
to the same questions stand for whatever it makes of them, and a process that finds its code in the cache
needs no compiler at all. Only x86-64 can be asked; elsewhere it takes the compiler.
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
    """Parts for keys of the cache; CompileError where there is no compiler to ask."""
    cpu, compiler = code.cpu(), _compiler()
    if cpu and compiler:
        return sys.platform, str(code.MACHINE), cpu, compiler
    target = engine.native_target()
    return target.triple, target.cpu, target.features, engine.compiler_version()


def _compiler() -> bytes:
    """The file in which llvmlite keeps its version and commit, and how large LLVM is; empty where unknown."""
    try:
        spec = importlib.util.find_spec("llvmlite")
        if spec is None or spec.origin is None:
            return b""
        folder = Path(spec.origin).parent
        size = (folder / "binding" / "libllvmlite.so").stat().st_size
        return (folder / "_version.py").read_bytes() + str(size).encode()
    except (ImportError, OSError, ValueError):
        return b""

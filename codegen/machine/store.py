"""Loads machine code from the cache on disk, or compiles it and stores it there."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import secrets
import sys
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path

from echo_core._c import code as native_code
from echo_core.codegen.machine import cache, engine
from echo_core.codegen.machine.engine import Loaded
from echo_core.errors import CompileError


def load_code(name: str, identity: bytes | str, text: Callable[[], str], names: Iterable[str]) -> Loaded:
    """The functions `names` of an IR text, compiled for this machine.

    `identity` must determine the text completely, so that the cache can be searched without generating the
    text; `name` separates different kinds of code. CompileError if the compiler refuses the text. New code is
    loaded before it is stored, and a cached entry that cannot be loaded is replaced.
    """
    found = load_cached(name, identity, names)
    if found is not None:
        return found
    code = engine.compile_ir(text(), engine.native_target())
    loaded = engine.load(code, names)
    cache.default_cache().put(_key(name, identity), code)
    return loaded


def load_cached(
    name: str, identity: bytes | str, names: Iterable[str], *, at_once: bool = False
) -> Loaded | None:
    """The same from the cache only; None if there is none, or if it cannot be loaded.

    With `at_once`, code is not loaded if that would import LLVM.
    """
    with contextlib.suppress(CompileError):
        code = cache.default_cache().get(_key(name, identity))
        if code is not None and not (at_once and not engine.is_loaded_at_once(code)):
            return engine.load(code, names)
    return None


def _key(name: str, identity: bytes | str) -> bytes:
    return cache.key_of(name, identity, _COMPILER, *identity_of_machine())


@functools.cache
def identity_of_machine() -> tuple[bytes | str, ...]:
    """Parts for cache keys; CompileError if the compiler is needed and missing."""
    cpu, compiler = native_code.cpu(), _compiler()
    if cpu and compiler:
        return sys.platform, str(native_code.MACHINE), cpu, compiler
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


def version_of(modules: Iterable[str]) -> bytes:
    """A hash of modules' source ("codegen/emit/ir"): their output is valid while it is equal."""
    folder = Path(__file__).parents[2]
    try:
        source = b"".join((folder / f"{name}.py").read_bytes() for name in modules)
    except OSError:
        return secrets.token_bytes(16)  # without sources: a random key, so nothing is reused
    return blake2b(source, digest_size=16).digest()


_COMPILER = version_of(("codegen/machine/engine", "codegen/machine/elf", "codegen/machine/flat"))

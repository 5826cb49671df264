"""Machine code put to use: from the cache on disk, or compiled and then kept there."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from echo_core.codegen.machine import cache, engine, host
from echo_core.errors import CompileError

T = TypeVar("T")


def use_code(name: str, identity: bytes | str, text: Callable[[], str], use: Callable[[bytes], T]) -> T:
    """What `use` makes of the machine code of a text, on this machine.

    `identity` says wholly what the text is, so that it need not be made to look for its code; `name` keeps
    different uses apart. CompileError where the compiler refuses. What is compiled is used before it is kept,
    as a write to disk may take longer than the compilation.
    """
    found = use_cached(name, identity, use)
    if found is not None:
        return found
    code = engine.compile_ir(text(), engine.native_target())
    used = use(code)
    cache.default_cache().put(_key(name, identity), code)
    return used


def use_cached(
    name: str, identity: bytes | str, use: Callable[[bytes], T], *, at_once: bool = False
) -> T | None:
    """The same for code that is in the cache; None where it is not, or is of no use.

    `at_once` leaves code alone for which LLVM would have to be imported.
    """
    try:
        code = cache.default_cache().get(_key(name, identity))
        if code is None or (at_once and not engine.is_loaded_at_once(code)):
            return None
        return use(code)
    except CompileError:
        return None  # it is compiled again, and what is kept then takes its place


def _key(name: str, identity: bytes | str) -> bytes:
    return cache.key_of(name, identity, _COMPILER, *host.identity())


def version_of(modules: Iterable[str]) -> bytes:
    """A hash of modules' source ("codegen/emit/ir"): what they made is of use as long as that is the same."""
    folder = Path(__file__).parents[2]
    digest = blake2b(digest_size=16)
    try:
        for name in modules:
            digest.update((folder / f"{name}.py").read_bytes())
    except OSError:
        return secrets.token_bytes(16)  # without sources nothing is known, and so nothing is shared
    return digest.digest()


_COMPILER = version_of(("codegen/machine/engine", "codegen/machine/elf", "codegen/machine/flat"))

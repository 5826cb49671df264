"""Object code put to use: from the cache on disk, or compiled and then kept there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from echo_core.codegen import cache, engine
from echo_core.errors import CompileError

T = TypeVar("T")


def use_code(name: str, identity: bytes | str, text: Callable[[], str], use: Callable[[bytes], T]) -> T:
    """What `use` makes of the object code of a text, on this machine.

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


def use_cached(name: str, identity: bytes | str, use: Callable[[bytes], T]) -> T | None:
    """The same for code that is in the cache; None where it is not, or is of no use."""
    code = cache.default_cache().get(_key(name, identity))
    if code is None:
        return None
    try:
        return use(code)
    except CompileError:
        return None  # it is compiled again, and what is kept then takes its place


def _key(name: str, identity: bytes | str) -> bytes:
    target = engine.native_target()
    machine = target.triple, target.cpu, target.features
    return cache.key_of(name, identity, *machine, engine.compiler_version())

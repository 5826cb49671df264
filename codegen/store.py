"""Object code for a text: from the cache on disk, or compiled and put there."""

from __future__ import annotations

from collections.abc import Callable

from echo_core.codegen import cache, engine


def code_for(name: str, identity: bytes | str, text: Callable[[], str]) -> bytes:
    """The object code of what `identity` says wholly, on this machine; the text is only made where needed.

    `name` keeps different uses apart. CompileError where the compiler refuses.
    """
    target = engine.native_target()
    key = key_for(name, identity)
    code = cache.default_cache().get(key)
    if code is None:
        code = engine.compile_ir(text(), target)
        cache.default_cache().put(key, code)
    return code


def key_for(name: str, identity: bytes | str) -> bytes:
    """The key under which such code is kept."""
    target = engine.native_target()
    machine = target.triple, target.cpu, target.features
    return cache.key_of(name, identity, *machine, engine.compiler_version())

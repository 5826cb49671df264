"""Compiled plans, called at their addresses: with buffers that show what is read and written beside them."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from echo_core.codegen.emit.emitter import emit
from echo_core.codegen.emit.moves import Machine
from echo_core.codegen.machine import engine
from echo_core.codegen.machine.engine import Loaded, Target
from echo_core.codegen.plans.plan import Plan

# What a CPU may be: the names are those of the x86-64 ABI, the numbers the bytes of a shuffle.
_LEVELS = (("x86-64", 0), ("x86-64-v2", 16), ("x86-64-v3", 32))
_FEATURES_BY_LEVEL = {"x86-64": "", "x86-64-v2": "+ssse3", "x86-64-v3": "+avx2"}

_BEYOND = b"\xaa" * 64  # before and after a target; no code may touch it

_VERIFY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint64)
_MEASURE = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)
_CONVERT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_MANY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)


@dataclass(frozen=True)
class Level:
    """A CPU to make code for, and the width of its vectors; 0 for code without any."""

    name: str
    target: Target
    vector_bytes: int

    @property
    def machine(self) -> Machine:
        return Machine(sys.byteorder, self.vector_bytes)


@functools.cache
def levels() -> tuple[Level, ...]:
    """Every kind of code that this CPU can run, the plainest first and its own last."""
    native = engine.native_target()
    found = [Level("native without vectors", native, 0), Level("native", native, native.vector_bytes)]
    if native.triple.startswith("x86_64"):
        known = native.features.split(",")
        plain = [
            Level(name, Target(native.triple, name, ""), size)
            for name, size in _LEVELS
            if not _FEATURES_BY_LEVEL[name] or _FEATURES_BY_LEVEL[name] in known
        ]
        found = [*plain, *found[1:]]
    return tuple(found)


class Code:
    """The functions of one plan's module. A `shift` puts source and target at odd addresses.

    `is_linked` has LLVM's linker load them, though our own loader could.
    """

    def __init__(
        self, plan: Plan, verification: Plan, level: Level | None = None, *, is_linked: bool = False
    ) -> None:
        level = level or levels()[-1]
        self.plan = plan
        self.is_many = plan.is_fixed and verification.is_fixed
        self.ir = emit(plan, verification, level.machine)
        names = ["convert_many"] if self.is_many else ["verify", "measure", "convert"]
        compile_ = engine.compile_object if is_linked else engine.compile_ir
        self.code = compile_(self.ir, level.target)
        self.loaded: Loaded = engine.load(self.code, names)

    def verify(self, message: bytes, *, shift: int = 0) -> bool:
        """Whether the slots of a message may be followed; of a record without any, whether it is one."""
        if self.is_many:
            return len(message) == self.plan.sender.size
        with _held(message, shift) as source:
            refused: int = _VERIFY(self.loaded.addresses["verify"])(source, len(message))
            return refused == 0

    def convert(self, message: bytes, *, shift: int = 0) -> bytes | None:
        """The receiver's record; None where a value does not fit."""
        if self.is_many:
            return self.convert_many(message, 1, shift=shift)
        convert = _CONVERT(self.loaded.addresses["convert"])
        with _held(message, shift) as source:
            size = _MEASURE(self.loaded.addresses["measure"])(source)
            if size == 2**64 - 1:
                return None
            return _written(size, shift, lambda target: convert(source, target))

    def convert_many(self, data: bytes, count: int, *, shift: int = 0) -> bytes | None:
        """So many records of fixed size, one after another."""
        convert = _MANY(self.loaded.addresses["convert_many"])
        size = self.plan.receiver.size * count
        with _held(data, shift) as source:
            return _written(size, shift, lambda target: convert(source, target, count))


@contextmanager
def _held(data: bytes, shift: int) -> Generator[int]:
    """The address of a copy of these bytes."""
    room = ctypes.create_string_buffer(bytes(shift) + data)
    yield ctypes.addressof(room) + shift


def _written(size: int, shift: int, convert: Callable[[int], int]) -> bytes | None:
    """What is written to a target of so many bytes, in which everything is 0xaa before."""
    before = len(_BEYOND) + shift
    room = ctypes.create_string_buffer(b"\xaa" * (before + size) + _BEYOND)
    failed = convert(ctypes.addressof(room) + before)
    assert room.raw[:before] == b"\xaa" * before, "written before the target"
    assert room.raw[before + size : -1] == _BEYOND, "written behind the target"
    return None if failed else room.raw[before : before + size]

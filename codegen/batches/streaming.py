"""Batches larger than the caches are converted past them, by code that the first such batch asks for."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import numpy as np

from echo_core.codegen.conversion import Buffer, Conversion, Tier
from echo_core.codegen.emit.emitter import emit_streamed
from echo_core.codegen.emit.moves import Machine
from echo_core.codegen.machine import background, engine
from echo_core.codegen.machine.store import use_code
from echo_core.errors import CompileError
from echo_core.formats.abi import NATIVE

_BYTE = np.dtype("u1")


class Stream:
    """What a conversion of records of fixed size does, where its code can write whole lines."""

    def __init__(self, conversion: Conversion, tier: Tier) -> None:
        self._conversion = conversion
        self._is_waiting = tier != "interpreted"
        self._is_urgent = tier == "compiled"
        self._code: _Code | None = None

    def into(self, data: Buffer, target: np.ndarray[Any, Any]) -> bool:
        """Whether it has been done; a target of the right size must begin at a cache line."""
        if self._is_waiting:
            self._begin()
        source = np.frombuffer(data, _BYTE)
        count, rest = divmod(source.size, self._conversion.sender.size_bytes)
        code = self._code
        fits = count * self._conversion.receiver.size_bytes <= target.size
        if code is None or rest or not fits:  # the conversion has the words for a rest
            return False
        code.call(source.ctypes.data, target.ctypes.data, count)
        return True

    def _begin(self) -> None:
        if self._is_urgent:
            self._is_waiting = False
            self._compile()
        else:
            self._is_waiting = not background.submit(self._compile)

    def _compile(self) -> None:
        with contextlib.suppress(CompileError):
            machine = Machine(NATIVE.byte_order, engine.native_target().vector_bytes)
            text = emit_streamed(self._conversion.plan, machine)
            if text is not None:
                self._code = _Code(
                    use_code("stream", text, lambda: text, lambda code: engine.load(code, ["stream_many"]))
                )


class _Code:
    """The function, and what keeps it mapped: whoever calls it holds both."""

    def __init__(self, loaded: engine.Loaded) -> None:
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
        self._loaded = loaded
        self.call: Any = prototype(loaded.addresses["stream_many"])

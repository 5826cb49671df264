"""A pair of formats made executable: interpreted at once, compiled in the background, kept on disk.

The callable that a component gets is a built-in function from its first call on; what stands behind it
changes from the interpreter to compiled code when that is ready; a large record does not wait for that, but
has it made. A record that compiled code refuses goes to the interpreter as well, which says why.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from echo_core._c import events
from echo_core.codegen.emit.emitter import emit
from echo_core.codegen.emit.moves import Machine
from echo_core.codegen.machine import background, engine
from echo_core.codegen.machine.budgets import Payers
from echo_core.codegen.machine.store import load_cached, load_code, version_of
from echo_core.codegen.plans import interpreter
from echo_core.codegen.plans.planner import plan
from echo_core.codegen.plans.verification import verification
from echo_core.errors import CompileError, FormatError, IncompatibleError, WireError, unexpected
from echo_core.formats.abi import NATIVE
from echo_core.formats.comparing.compare import Report, compare
from echo_core.formats.format import Format

Tier = Literal["auto", "compiled", "interpreted"]
Buffer = Any  # what the buffer protocol serves; typing has a name for it from 3.12 on

# What a sender's bytes are turned into; into a buffer of the caller's, the number of bytes written.
Converter = Callable[..., Any]

# Whose source decides what the emitted text is; a change of any of them makes other cache keys.
_GENERATOR = (
    "formats/comparing/compare",
    "formats/comparing/leaf_conversions",
    "formats/types",
    "formats/leaves",
    "codegen/plans/plan",
    "codegen/plans/planner",
    "codegen/plans/verification",
    "codegen/emit/ir",
    "codegen/emit/casts",
    "codegen/emit/halves",
    "codegen/emit/shuffles",
    "codegen/emit/moves",
    "codegen/emit/verify",
    "codegen/emit/convert",
    "codegen/emit/emitter",
    "codegen/emit/columns",
    "codegen/conversion",
)


# To interpret more takes longer than to compile: 1 us for an object of one byte, against some 10 ms in all.
LARGE_BYTES = 64 * 1024


class Conversion:
    """One sender's records to one receiver's. `call` is what components call.

    `keeps`: the two lay out their records alike, and one with variable parts is the result as it is, and
    its padding with it, once it is verified; bytes are not copied.
    """

    def __init__(
        self,
        sender: Format,
        receiver: Format,
        *,
        lossy: bool = False,
        keeps: bool = False,
        report: Report | None = None,
    ) -> None:
        """`report`: the comparison of the two, where it is known already."""
        report = report or compare(sender, receiver, lossy=lossy)
        report.raise_if_refused()
        if keeps and not report.is_same:
            raise unexpected(
                FormatError,
                f"records of `{receiver.name}`'s own layout to keep",
                f"others of `{sender.name}`",
            )
        self.sender = sender
        self.receiver = receiver
        self.lossy = lossy
        self.plan = plan(sender.layout, receiver.layout)
        self.verification = verification(sender.layout)
        if self.plan.local:
            raise unexpected(
                IncompatibleError,
                "defaults that travel",
                f"one that only its class can make: {self.plan.local}",
                path=self.plan.local[0],
                hint="decode to objects instead",
            )
        self.is_fixed = sender.is_fixed and receiver.is_fixed
        self.keeps = keeps and not self.is_fixed
        self._names = ("convert_many",) if self.is_fixed else ("verify", "measure", "convert")
        self._is_waiting = False
        self._payers: Payers | None = None
        self._may_compile_now = False  # for a large record, which need not wait until its turn comes
        self.routine = events.Routine(self.interpret)
        self.call: Converter = self.routine.call

    # -----------------------------------------------------------------------
    # Interpreted

    def interpret(self, source: Buffer, target: Buffer | None = None) -> bytes | int:
        """What compiled code does, slowly, and with words for what is wrong."""
        if self._is_waiting:  # the queue was full: perhaps it no longer is
            self._is_waiting = not have_done(self._see_to_code, "auto", self._payers)
        data = bytes(flat(source))
        if self._may_compile_now and len(data) > LARGE_BYTES and self._compiled_now():
            result: bytes | int = self.call(source) if target is None else self.call(source, target)
            return result
        if self.is_fixed:
            size = self.sender.size_bytes
            if len(data) % size:
                raise unexpected(
                    WireError, f"records of {size} bytes each", f"{len(data)} bytes", path=self.sender.name
                )
            converted = b"".join(self._one(data[i : i + size]) for i in range(0, len(data), size))
        else:
            converted = self._one(data)
        return converted if target is None else _written(converted, source, target)

    def _one(self, data: bytes) -> bytes:
        if not self.is_fixed:
            interpreter.verify(self.verification, data)
        return data if self.keeps else interpreter.convert(self.plan, data)

    def _compiled_now(self) -> bool:
        """Whether compiled code is there, as it is made unless its payers have used up their budget."""
        if self._payers is not None and self._payers.wait_s() > 0.0:
            return False
        self._may_compile_now = False
        began_s = time.thread_time()
        unless_refused(self.compile)
        if self._payers is not None:
            self._payers.charge(time.thread_time() - began_s)
        return self.routine.is_compiled

    # -----------------------------------------------------------------------
    # Compiled

    def begin(self, tier: Tier, payers: Payers | None = None) -> None:
        """Sees to compiled code as the tier says; `payers` are charged for it."""
        check_tier(tier)
        self._payers = payers
        self._may_compile_now = tier == "auto"
        cached = None
        if tier == "auto":  # code in the cache is taken at once, unless that would import LLVM
            cached = load_cached("conversion", self._identity(), self._names, at_once=True)
        if cached is not None:
            self._install(cached)
        else:
            self._is_waiting = not have_done(self._see_to_code, tier, payers)

    def _see_to_code(self) -> None:
        """Perhaps a large record has had it made by now."""
        if not self.routine.is_compiled:
            self.compile()

    def compile(self) -> engine.Loaded:
        """Installs compiled code, from the cache or anew; CompileError leaves the interpreter in charge."""
        loaded = self.loaded()
        self._install(loaded)
        return loaded

    def loaded(self) -> engine.Loaded:
        """The compiled code, from the cache or anew."""
        return load_code("conversion", self._identity(), self.ir, self._names)

    def ir(self) -> str:
        """The LLVM IR of this conversion, for this machine."""
        return emit(self.plan, self.verification, native_machine(), is_many=self.is_fixed)

    def _identity(self) -> bytes:
        """What the code depends on besides the machine; tokens, for a plan is all in two formats."""
        lossy = b"\1" if self.lossy else b"\0"
        return self.sender.token + self.receiver.token + lossy + GENERATOR_VERSION

    def _install(self, loaded: engine.Loaded) -> None:
        self._may_compile_now = False
        if self.is_fixed:
            sizes = self.sender.size_bytes, self.receiver.size_bytes
            self.routine.install_fixed(loaded.addresses["convert_many"], *sizes, loaded)
        elif self.keeps:
            self.routine.install_verified(loaded.addresses["verify"], loaded)
        else:
            self.routine.install_variable(**loaded.addresses, keep_alive=loaded)


def native_machine() -> Machine:
    """This machine, as code is emitted for it."""
    return Machine(NATIVE.byte_order, engine.native_target().vector_bytes)


def have_done(job: Callable[[], object], tier: Tier, payers: Payers | None = None) -> bool:
    """Has code compiled: now, or in the background; False if the queue is full, which may end.

    What the compiler refuses now is a CompileError; in the background all stays as it is, and `payers` are
    charged for it.
    """
    if tier == "auto":
        return background.submit(partial(unless_refused, job), payers)
    if tier == "compiled":
        job()
    return True


def unless_refused(job: Callable[[], object]) -> None:
    """What the compiler refuses stays as it is."""
    with contextlib.suppress(CompileError):
        job()


def check_tier(tier: Tier) -> None:
    """A tier that is none would be taken for another."""
    if tier not in get_args(Tier):
        raise unexpected(FormatError, f"a tier of {', '.join(get_args(Tier))}", f"{tier!r}")


# A hash of the modules that make code, as they were when this process imported them.
GENERATOR_VERSION = version_of(_GENERATOR)


def flat(source: Buffer) -> memoryview:
    """The bytes of a contiguous buffer."""
    try:
        view = memoryview(source)
        return view.cast("B") if view.nbytes else memoryview(b"")  # a shape with a 0 in it is never cast
    except TypeError:
        raise unexpected(FormatError, "a contiguous buffer", f"`{type(source).__qualname__}`") from None


def _written(converted: bytes, source: Buffer, target: Buffer) -> int:
    try:
        view = memoryview(target).cast("B")
    except TypeError:
        raise unexpected(
            FormatError, "a contiguous buffer as target", f"`{type(target).__qualname__}`"
        ) from None
    if view.readonly or len(view) < len(converted):
        kind = "read-only" if view.readonly else "writable"
        raise unexpected(
            FormatError, f"a writable target of at least {len(converted)} bytes", f"{len(view)} {kind} ones"
        )
    shared = np.asarray(view[: len(converted)]), np.asarray(flat(source))  # what follows may overlap
    if np.may_share_memory(*shared):
        raise unexpected(FormatError, "a target apart from the source", "two that overlap")
    view[: len(converted)] = converted
    return len(converted)


def converter(sender: Format, receiver: Format, *, lossy: bool = False, tier: Tier = "auto") -> Converter:
    """A function from a sender's bytes to a receiver's, without objects: `convert(source[, target])`.

    `source` holds one record, or any number of them where neither format has variable parts. The result is
    bytes, or with `target`, a writable buffer, the number of bytes written there.

    Arguments:
        sender: the format of the source.
        receiver: the format of the result.
        lossy: whether to consent to conversions that may lose, as in `codec`.
        tier: when to compile, as in `codec`; "auto" interprets until compiled code is ready.

    Raises:
        IncompatibleError: the sender's format cannot be converted, or only a class could make a default.
        FormatError: `tier` is not known.
        CompileError: `tier` is "compiled", and the compiler refused.

    The function raises WireError for bytes that are no record of the sender's format, ConversionError for a
    value that does not fit, and FormatError for a target that is too small or overlaps the source.

    >>> @echo.event
    ... class Point:
    ...     x: echo.Int16
    >>> convert = echo.converter(echo.format_of(Point, abi="s390x"), echo.format_of(Point, abi="x86_64"))
    >>> convert(b"\\x01\\x02")
    b'\\x02\\x01'
    """
    conversion = Conversion(sender, receiver, lossy=lossy)
    conversion.begin(tier)
    return conversion.call

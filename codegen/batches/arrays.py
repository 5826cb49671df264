"""Many records at once as a numpy structured array, and back."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_uint64, c_void_p
from functools import partial
from typing import Any

import numpy as np

from echo_core.codegen.batches.memory import MIN_BYTES, Spare, cache_bytes
from echo_core.codegen.conversion import (
    Buffer,
    Conversion,
    Tier,
    flat,
    have_done,
    native_machine,
    unless_refused,
)
from echo_core.codegen.emit.emitter import emit_streamed
from echo_core.codegen.machine.budgets import Payers
from echo_core.codegen.machine.store import load_code
from echo_core.codegen.plain.records import as_array
from echo_core.errors import EncodeError, EncodeTypeError, FormatError, WireError
from echo_core.formats.comparing.compare import Report, compare
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format

Array_ = np.ndarray[Any, Any]
_BYTE = np.dtype("u1")
ArrayDecoder = Callable[[Buffer], Array_]
ArrayEncoder = Callable[[Array_], memoryview]


def array_decoder(
    cls: type[Any], *, sender: Format | None = None, lossy: bool = False, tier: Tier = "auto"
) -> ArrayDecoder:
    """A function from many records of a sender to a numpy structured array of the class's records.

    Records in the class's own layout are not copied: the array is a view of the buffer, and read-only if the
    buffer is. Others are converted to a new read-only array at every call. A large array reuses the memory of
    one that is no longer referred to, of which the decoder keeps one.

    Arguments:
        cls: an event class without variable parts.
        sender: the format of the records; by default the class's own on this machine.
        lossy: whether to consent to conversions that may lose, as in `codec`.
        tier: when to compile, as in `codec`.

    Raises:
        FormatError: the class or the sender's format has variable parts.
        IncompatibleError: the sender's format cannot be converted.

    The function raises WireError for bytes that are not whole records, and ConversionError.

    >>> @echo.event
    ... class Point:
    ...     x: float
    >>> data = echo.codec(Point).encode_many([Point(1.0), Point(2.0)])
    >>> float(echo.array_decoder(Point)(data)["x"].sum())
    3.0
    """
    return records_decoder(cls, sender, lossy=lossy, tier=tier)


def records_decoder(
    cls: type[Any],
    sender: Format | None,
    *,
    lossy: bool,
    tier: Tier,
    report: Report | None = None,
    payers: Payers | None = None,
) -> ArrayDecoder:
    """The decoder of `array_decoder`. `report`: the comparison of the two, where it is known already."""
    receiver = format_of(cls)
    sender = sender or receiver
    dtype = receiver.dtype  # refuses variable parts, as the receiver's class has them
    _demand_fixed(sender)
    report = report or compare(sender, receiver, lossy=lossy)
    if report.is_same:
        return lambda data: _view(data, dtype, sender)
    conversion = Conversion(sender, receiver, lossy=lossy, report=report)
    conversion.begin(tier, payers)
    return _Converted(conversion, dtype, tier, payers)


class _Converted:
    """Records of another layout to new arrays; large ones in memory that an earlier one has left."""

    def __init__(
        self, conversion: Conversion, dtype: np.dtype[Any], tier: Tier, payers: Payers | None
    ) -> None:
        self._sizes = conversion.sender.size_bytes, dtype.itemsize
        self.convert = conversion.call
        self._dtype = dtype
        self._stream = Stream(conversion, tier, payers)
        self._spare = Spare()

    def __call__(self, data: Buffer) -> Array_:
        given, made = self._sizes
        view = flat(data)  # held: while it is, a buffer that can grow does not
        size = view.nbytes // given * made
        if size < MIN_BYTES:
            converted = self.convert(view)
            return np.frombuffer(converted, self._dtype) if converted else np.empty(0, self._dtype)
        room = self._spare.empty(size, _BYTE)
        if size <= cache_bytes() or not self._stream.into(view, room):
            self.convert(view, room)
        room.flags.writeable = False  # as bytes are
        return room.view(self._dtype)


class Stream:
    """Converts batches larger than the caches past them, by code that the first such batch asks for."""

    def __init__(self, conversion: Conversion, tier: Tier, payers: Payers | None = None) -> None:
        self._conversion = conversion
        self._payers = payers
        self._tier: Tier = tier
        self._is_waiting = True
        self._code: Callable[..., None] | None = None

    def into(self, data: Buffer, target: np.ndarray[Any, Any]) -> bool:
        """Whether it has been done; a target of the right size must begin at a cache line."""
        if self._is_waiting:
            job = partial(unless_refused, self._compile)
            self._is_waiting = not have_done(job, self._tier, self._payers)
        source = np.frombuffer(data, _BYTE)
        count, rest = divmod(source.size, self._conversion.sender.size_bytes)
        code = self._code
        fits = count * self._conversion.receiver.size_bytes <= target.size
        if code is None or rest or not fits:  # the conversion has the words for a rest
            return False
        code(source.ctypes.data, target.ctypes.data, count)
        return True

    def _compile(self) -> None:
        text = emit_streamed(self._conversion.plan, native_machine())
        if text is not None:
            loaded = load_code("stream", text, lambda: text, ["stream_many"])
            self._code = loaded.function("stream_many", c_void_p, c_void_p, c_uint64)


def _demand_fixed(sender: Format) -> None:
    if not sender.is_fixed:
        msg = f"Expected records of one size, got `{sender.name}`, which has variable parts"
        raise FormatError(msg, hint="convert them one by one")


def _view(data: Buffer, dtype: np.dtype[Any], sender: Format) -> Array_:
    size = flat(data).nbytes
    if size % dtype.itemsize:
        msg = f"Expected records of {dtype.itemsize} bytes each, got {size} bytes"
        raise WireError(msg, path=sender.name)
    return np.frombuffer(data, dtype) if size else np.empty(0, dtype)


def array_encoder(cls: type[Any]) -> ArrayEncoder:
    """A function from numpy arrays of the class's records to their bytes: a read-only view, never a copy.

    The cost does not depend on the array's size. The bytes are the array's own, padding included. Whether
    chars are UTF-8, and a number is that of an enum's member, is not checked here but by who decodes them.

    Arguments:
        cls: an event class without variable parts.

    Raises:
        FormatError: the class has variable parts.

    The function raises EncodeTypeError for anything but an array of `format_of(cls).dtype`, and EncodeError
    for one whose elements are not contiguous.

    >>> @echo.event
    ... class Point:
    ...     x: float
    >>> array = np.zeros(3, echo.format_of(Point).dtype)
    >>> echo.array_encoder(Point)(array).nbytes
    24
    """
    dtype = format_of(cls).dtype  # refuses variable parts
    return partial(_encoded, dtype, cls.__qualname__)


def _encoded(dtype: np.dtype[Any], path: str, given: Any) -> memoryview:
    array = as_array(given)
    if array is None or array.dtype != dtype:
        kind = f"`{type(given).__qualname__}`" if array is None else f"one of `{array.dtype}`"
        msg = f"Expected a numpy array of `format_of({path}).dtype`, got {kind}"
        raise EncodeTypeError(msg, path=path, hint="`astype` makes one")
    if not array.flags.c_contiguous:
        msg = "Expected an array in one piece, got one with strides"
        raise EncodeError(msg, path=path, hint="`numpy.ascontiguousarray` makes one")
    return array.reshape(-1).view(_BYTE).data.toreadonly()

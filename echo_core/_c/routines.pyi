# What the compiled module offers, for type checkers. The truth is native/code/routines.c.

from collections.abc import Callable
from typing import Final, Protocol, final, overload, type_check_only

from _typeshed import ReadableBuffer, WriteableBuffer

# Addresses are those of C functions:
#   convert_fixed   int32_t (const uint8_t *source, uint8_t *target, uint64_t count)
#   verify          int32_t (const uint8_t *record, uint64_t size)
#   measure         uint64_t (const uint8_t *record), all ones when the result would be too large
#   convert         int32_t (const uint8_t *record, uint8_t *target)
# An int32_t of 0 is success. They take any alignment, and never read back what they wrote.

# A source larger than this is converted with the GIL released.
GIL_RELEASE_BYTES: Final[int]

@type_check_only
class _Call(Protocol):
    @overload
    def __call__(self, source: ReadableBuffer, target: None = None, /) -> bytes: ...
    @overload
    def __call__(self, source: ReadableBuffer, target: WriteableBuffer, /) -> int: ...

@final
class Routine:
    def __new__(cls, fallback: Callable[..., bytes | int]) -> Routine: ...
    @property
    def call(self) -> _Call: ...
    @property
    def compiled(self) -> int: ...
    @property
    def interpreted(self) -> int: ...
    @property
    def is_compiled(self) -> bool: ...
    def install_fixed(self, convert: int, source_size: int, target_size: int, keep_alive: object) -> None: ...
    def install_variable(self, verify: int, measure: int, convert: int, keep_alive: object) -> None: ...
    def install_verified(self, verify: int, keep_alive: object) -> None:
        """From now on calls run native code that verifies one record of any size: that is the result."""
    def clear(self) -> None: ...

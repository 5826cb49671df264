# What the compiled module offers, for type checkers. The truth is native/events.

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, final, overload, type_check_only

from _typeshed import ReadableBuffer, WriteableBuffer

# The letters of numbers and bools: (name of their Kind, bytes) by letter.
LEAVES: Final[dict[str, tuple[str, int]]]

# Whether UUIDs are leaves: whether it is known how ints lie.
HAS_UUIDS: Final[int]

# Of one record: how many fields may count others.
MAX_TIES: Final[int]

# Built-in functions answer in C, or leave it to the Python functions they were given. Keep a bound one; do
# not look it up per call.
@type_check_only
class _Shell:
    @property
    def compiled(self) -> int: ...
    @property
    def interpreted(self) -> int: ...

@final
class Value:
    def __new__(cls, form: str, size: int, alignment: int, details: tuple[Any, ...], /) -> Value: ...
    @property
    def is_fixed(self) -> bool: ...
    @property
    def runs_python(self) -> bool: ...
    @property
    def cls(self) -> type[Any] | None: ...
    @property
    def inner(self) -> tuple[Value, ...]: ...
    @property
    def takes_code(self) -> bool: ...
    def use_code(self, code: Code, /) -> None: ...
    @property
    def has_after(self) -> bool: ...

@final
class Code:
    def __new__(
        cls,
        owner: type[Any],
        size: int,
        encode: int,
        encode_many: int,
        decode: int,
        objects: tuple[object, ...],
        keep_alive: object,
        runs_python: bool,
    ) -> Code: ...

@final
class Allowance:
    def __new__(cls, value: Value, most: int, refuse: Callable[[int], object]) -> Allowance: ...
    @property
    def free_bytes(self) -> int: ...

@final
class Walker(_Shell):
    def __new__(
        cls,
        value: Value,
        convert: Callable[[Any], bytes | int] | None,
        encode: Callable[[Any], bytes],
        decode: Callable[[Any], Any],
        allowance: Allowance | None = None,
    ) -> Walker: ...
    @property
    def value(self) -> Value: ...
    def encode(self, event: Any, /) -> bytes: ...
    def decode(self, data: Any, /) -> Any: ...

@final
class Part(_Shell):
    def __new__(
        cls,
        record: Value,
        index: int,
        is_view: bool,
        reader: Callable[[bytes], Any],
        writer: Callable[[Any], Any],
    ) -> Part: ...
    def read(self, source: bytes, /) -> Any: ...
    def write(self, value: Any, /) -> Any: ...

@final
class ClassCodec(_Shell):
    def __new__(cls, fallback: Callable[[Any], Any], size: int, source_size: int) -> ClassCodec: ...
    def encode(self, event: Any, /) -> bytes: ...
    def encode_many(self, events: Iterable[Any], /) -> bytes: ...
    def decode(self, data: ReadableBuffer, /) -> Any: ...
    def decode_many(self, data: ReadableBuffer, /) -> list[Any]: ...
    @property
    def is_compiled(self) -> bool: ...
    def install(self, code: Code, encodes: bool, decodes: bool, convert: int, keep_alive: object) -> None: ...

# One check of a received record: what, at, size, count, known numbers.
_Check: TypeAlias = tuple[str, int, int, int, bytes]

# One kept field of fixed size: slot, at, size, the Shape of its values' class.
_Kept: TypeAlias = tuple[int, int, int, Shape | None]

def base_type(base: type[Any], basicsize: int, /) -> type[Any]: ...
def plain_type(name: str, bases: tuple[type[Any], ...], slots: int, /) -> type[Any]: ...

@final
class Shape:
    def __new__(
        cls,
        record: int,
        size: int,
        source: int,
        state: int,
        checks: tuple[_Check, ...],
        kept: tuple[_Kept, ...],
        is_exposed: bool,
    ) -> Shape: ...
    @property
    def record(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def owner(self) -> type[Any] | None: ...
    @property
    def is_collected(self) -> int: ...
    def bind(self, cls: type[Any], fields: dict[str, FieldDescriptor], /) -> None: ...
    def make_by(
        self,
        init: Callable[..., None],
        arguments: tuple[tuple[str, Any, str], ...],
        positional: int,
        order: tuple[int, ...],
        after: str | None,
        /,
    ) -> None: ...
    def mark_extended(self) -> None: ...

@final
class FieldDescriptor:
    def __new__(
        cls,
        shape: Shape,
        name: str,
        form: str,
        at: int,
        size: int,
        slot: int,
        is_shared: bool,
        read: Callable[[Any], Any] | None,
        write: Callable[[Any], Any],
        nested: Shape | None,
    ) -> FieldDescriptor: ...
    @property
    def __name__(self) -> str: ...
    @property
    def form(self) -> str: ...
    @property
    def at(self) -> int: ...
    @property
    def slot(self) -> int: ...
    def __get__(self, instance: object, owner: type[Any] | None = None, /) -> Any: ...
    def __set__(self, instance: object, value: Any, /) -> None: ...

@final
class Window:
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Encoder(_Shell):
    def __new__(
        cls,
        shape: Shape,
        fallback: Callable[[Any], bytes],
        fallback_many: Callable[[list[Any]], bytes],
    ) -> Encoder: ...
    def encode(self, event: Any, /) -> bytes: ...
    def encode_many(self, events: Iterable[Any], /) -> bytes: ...

@final
class Decoder(_Shell):
    def __new__(
        cls,
        shape: Shape,
        after: Callable[[Any], object] | None,
        fallback: Callable[[Any], Any],
        fallback_many: Callable[[Any], list[Any]],
    ) -> Decoder: ...
    def decode(self, data: ReadableBuffer, /) -> Any: ...
    def decode_many(self, data: ReadableBuffer, /) -> list[Any]: ...
    @property
    def is_compiled(self) -> bool: ...
    # convert is the address of an int32_t (const uint8_t *source, uint8_t *target, uint64_t count).
    def install_fixed(self, convert: int, source_size: int, keep_alive: object) -> None: ...
    def install_copy(self) -> None: ...
    def install_converted(
        self, convert: Callable[[Any], Any], allowance: Allowance | None = None, /
    ) -> None: ...
    def clear(self) -> None: ...

# Addresses are those of C functions:
#   convert_fixed   int32_t (const uint8_t *source, uint8_t *target, uint64_t count)
#   verify          int32_t (const uint8_t *record, uint64_t size)
#   measure         uint64_t (const uint8_t *record), all ones when the result would be too large
#   convert         int32_t (const uint8_t *record, uint8_t *target)
# An int32_t of 0 is success. They take any alignment, and never read back what they wrote.

# A source larger than this is converted with the GIL released.
GIL_RELEASE_BYTES: Final[int]

@final
class Routine(_Shell):
    def __new__(cls, fallback: Callable[..., bytes | int]) -> Routine: ...
    @overload
    def call(self, source: ReadableBuffer, target: None = None, /) -> bytes: ...
    @overload
    def call(self, source: ReadableBuffer, target: WriteableBuffer, /) -> int: ...
    @property
    def is_compiled(self) -> bool: ...
    def install_fixed(self, convert: int, source_size: int, target_size: int, keep_alive: object) -> None: ...
    def install_variable(self, verify: int, measure: int, convert: int, keep_alive: object) -> None: ...
    def install_verified(self, verify: int, keep_alive: object) -> None:
        """From now on calls run native code that verifies one record of any size: that is the result."""
    def clear(self) -> None: ...

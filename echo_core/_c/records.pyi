# What the compiled module offers, for type checkers. The truth is native/record*.c.

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, final

from _typeshed import ReadableBuffer

# One check of a received record: what, at, size, count, known numbers.
_Check: TypeAlias = tuple[str, int, int, int, tuple[int, ...]]

# One kept field of fixed size: slot, at, size, the Shape of its values' class.
_Kept: TypeAlias = tuple[int, int, int, Shape | None]

def base_type(base: type[Any], basicsize: int, /) -> type[Any]: ...
def plain_type(name: str, bases: tuple[type[Any], ...], /) -> type[Any]: ...
def holds_at(it: object, offset: int, value: object, /) -> bool: ...

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
    def bind(self, cls: type[Any], fields: dict[str, Field], /) -> None: ...
    def mark_extended(self) -> None: ...

@final
class Field:
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
    ) -> Field: ...
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
class Encoder:
    def __new__(
        cls,
        shape: Shape,
        fallback: Callable[[Any], bytes],
        fallback_many: Callable[[list[Any]], bytes],
    ) -> Encoder: ...
    @property
    def call(self) -> Callable[[Any], bytes]: ...
    @property
    def call_many(self) -> Callable[[Iterable[Any]], bytes]: ...
    @property
    def compiled(self) -> int: ...
    @property
    def interpreted(self) -> int: ...

@final
class Decoder:
    def __new__(
        cls,
        shape: Shape,
        after: Callable[[Any], object] | None,
        fallback: Callable[[Any], Any],
        fallback_many: Callable[[Any], list[Any]],
    ) -> Decoder: ...
    @property
    def call(self) -> Callable[[ReadableBuffer], Any]: ...
    @property
    def call_many(self) -> Callable[[ReadableBuffer], list[Any]]: ...
    @property
    def compiled(self) -> int: ...
    @property
    def interpreted(self) -> int: ...
    @property
    def is_compiled(self) -> bool: ...
    # convert is the address of an int32_t (const uint8_t *source, uint8_t *target, uint64_t count).
    def install_fixed(self, convert: int, source_size: int, keep_alive: object) -> None: ...
    def install_copy(self) -> None: ...
    def install_converted(self, convert: Callable[[Any], Any], /) -> None: ...
    def clear(self) -> None: ...

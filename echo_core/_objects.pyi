# What the compiled module offers, for type checkers. The truth is native/object*.c.

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

@final
class Value:
    def __new__(cls, form: str, size: int, alignment: int, details: tuple[Any, ...], /) -> Value: ...
    @property
    def is_fixed(self) -> bool: ...
    @property
    def runs_python(self) -> bool: ...
    @property
    def has_after(self) -> bool: ...

@final
class Walker:
    def __new__(
        cls,
        value: Value,
        convert: Callable[[Any], bytes | int] | None,
        encode: Callable[[Any], bytes],
        decode: Callable[[Any], Any],
    ) -> Walker: ...
    @property
    def encode(self) -> Callable[[Any], bytes]: ...
    @property
    def decode(self) -> Callable[[Any], Any]: ...
    @property
    def walked(self) -> int: ...
    @property
    def interpreted(self) -> int: ...

@final
class Part:
    def __new__(
        cls,
        record: Value,
        index: int,
        is_view: bool,
        reader: Callable[[bytes], Any],
        writer: Callable[[Any], Any],
    ) -> Part: ...
    @property
    def read(self) -> Callable[[bytes], Any]: ...
    @property
    def write(self) -> Callable[[Any], Any]: ...

@final
class Codec:
    def __new__(cls, fallback: Callable[[Any], Any], size: int, source_size: int) -> Codec: ...
    @property
    def encode(self) -> Callable[[Any], bytes]: ...
    @property
    def encode_many(self) -> Callable[[Iterable[Any]], bytes]: ...
    @property
    def decode(self) -> Callable[[Any], Any]: ...
    @property
    def decode_many(self) -> Callable[[Any], list[Any]]: ...
    @property
    def compiled(self) -> int: ...
    @property
    def interpreted(self) -> int: ...
    @property
    def is_compiled(self) -> bool: ...
    def install(
        self,
        encode: int,
        encode_many: int,
        decode: int,
        convert: int,
        context: Sequence[object],
        keep_alive: object,
        runs_python: bool,
    ) -> None: ...

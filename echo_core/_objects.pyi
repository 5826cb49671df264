# What the compiled module offers, for type checkers. The truth is native/objects.c.

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

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

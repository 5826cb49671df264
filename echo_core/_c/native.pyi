# What the compiled module offers, for type checkers. The truth is native/core/api.h.

from typing import Final, Literal, type_check_only

@type_check_only
class StructEchoAbi:
    big_endian: int
    pointer_size: int
    long_size: int
    max_alignment: int

@type_check_only
class _FFI:
    def new(self, cdecl: Literal["struct echo_abi *"]) -> StructEchoAbi: ...

@type_check_only
class _Lib:
    def echo_native_abi(self, out: StructEchoAbi) -> None: ...

ffi: Final[_FFI]
lib: Final[_Lib]

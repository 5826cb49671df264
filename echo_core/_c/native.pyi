# What the compiled module offers, for type checkers. The truth is native/core/api/api.h.

from typing import Final, Literal, overload, type_check_only

@type_check_only
class StructEchoAbi:
    big_endian: int
    pointer_size: int
    long_size: int
    max_alignment: int

@type_check_only
class StructEchoRingLayout:
    shut: int
    directions: int
    direction_bytes: int
    written: int
    taken: int
    bytes_signal: int
    room_signal: int
    rings: int

@type_check_only
class StructEchoPoolLayout:
    holders: int
    holder_bytes: int
    data: int

@type_check_only
class StructEchoLimits:
    first_stream: int
    max_streams: int
    frame_header_bytes: int
    frame_alignment: int
    min_ring_bytes: int
    max_ring_bytes: int
    min_block_bytes: int
    max_pool_bytes: int
    max_blocks: int
    max_holders: int

@type_check_only
class StructEchoClock:
    is_counter: int
    ticks_per_second: int

@type_check_only
class _FFI:
    @overload
    def new(self, cdecl: Literal["struct echo_abi *"]) -> StructEchoAbi: ...
    @overload
    def new(self, cdecl: Literal["struct echo_ring_layout *"]) -> StructEchoRingLayout: ...
    @overload
    def new(self, cdecl: Literal["struct echo_pool_layout *"]) -> StructEchoPoolLayout: ...
    @overload
    def new(self, cdecl: Literal["struct echo_limits *"]) -> StructEchoLimits: ...
    @overload
    def new(self, cdecl: Literal["struct echo_clock *"]) -> StructEchoClock: ...

@type_check_only
class _Lib:
    def echo_native_abi(self, out: StructEchoAbi) -> None: ...
    def echo_native_ring_layout(self, out: StructEchoRingLayout) -> None: ...
    def echo_native_pool_layout(self, blocks: int, out: StructEchoPoolLayout) -> None: ...
    def echo_native_limits(self, out: StructEchoLimits) -> None: ...
    def echo_native_clock(self, out: StructEchoClock) -> None: ...

ffi: Final[_FFI]
lib: Final[_Lib]

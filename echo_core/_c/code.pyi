# What the compiled module offers, for type checkers. The truth is native/code/blocks.c.

from typing import Final, final

from _typeshed import ReadableBuffer

# This machine as ELF numbers them; 0 for one that no code is laid out for.
MACHINE: Final[int]

@final
class Block:
    # OSError: no memory; ValueError: an offset beyond the image; LookupError: no such function.
    def __new__(cls, image: ReadableBuffer, imports: tuple[tuple[str, int], ...]) -> Block: ...
    @property
    def address(self) -> int: ...
    @property
    def size(self) -> int: ...

# Mapped and unmapped since the process began, and the bytes mapped now.
def statistics() -> tuple[int, int, int]: ...

# What code may call besides what is found in the process: addresses by name.
def functions() -> dict[str, int]: ...
def cpu() -> bytes: ...

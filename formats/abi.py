"""How a machine's C compiler lays out a struct: the few facts in which the ABIs differ.

On every ABI here a scalar is as large as its name says, is aligned to its size, and a struct is aligned
to its strictest member; they differ in byte order, in the width of pointers and `long`, and in a ceiling
on alignment (i386 aligns an 8-byte number to 4, m68k aligns everything to 2 at most).
`tests/formats/test_compilers.py` holds this table to real compilers.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from typing import Literal

from echo_core.errors import FormatError, unexpected

ByteOrder = Literal["little", "big"]


@dataclass(frozen=True, slots=True)
class Abi:
    """The layout rules of one machine, for `abi=` where no name fits.

    Arguments:
        name: any text, for messages.
        byte_order: `"little"` or `"big"`.
        pointer_size, long_size: of a pointer and of C's `long`, 4 or 8.
        max_alignment: a limit to the alignment of any member: 1, 2, 4, 8 or 16.

    Raises:
        FormatError: one of these is anything else.

    >>> packed = echo.Abi("embedded", "big", 4, 4, max_alignment=1)
    >>> echo.Format.from_c("struct Point { char c; double x; };", abi=packed).size_bytes
    9
    """

    name: str
    byte_order: ByteOrder
    pointer_size: int
    long_size: int
    max_alignment: int = 8

    def __post_init__(self) -> None:
        for what, value, known in (
            ("byte order", self.byte_order, ("little", "big")),
            ("size of pointers", self.pointer_size, (4, 8)),
            ("size of `long`", self.long_size, (4, 8)),
            ("alignment at most", self.max_alignment, (1, 2, 4, 8, 16)),
        ):
            if value not in known:
                raise unexpected(FormatError, f"a {what} of {known}", f"{value!r}", path=str(self.name))

    def align(self, natural: int) -> int:
        """The alignment of a member whose natural alignment is given."""
        return min(natural, self.max_alignment)


NATIVE = Abi(
    "native",
    sys.byteorder,
    struct.calcsize("@P"),
    struct.calcsize("@l"),
    max_alignment=struct.calcsize("@bq") - 8,  # where an 8-byte integer lands after one byte
)

ABI_BY_NAME: dict[str, Abi] = {
    abi.name: abi
    for abi in (
        NATIVE,
        Abi("x86_64", "little", 8, 8),
        Abi("i386", "little", 4, 4, max_alignment=4),
        Abi("aarch64", "little", 8, 8),
        Abi("armhf", "little", 4, 4),
        Abi("s390x", "big", 8, 8),
        Abi("ppc64", "big", 8, 8),
        Abi("ppc64le", "little", 8, 8),
        Abi("ppc", "big", 4, 4),
        Abi("sparc64", "big", 8, 8),
        Abi("sparc", "big", 4, 4),
        Abi("mips", "big", 4, 4),
        Abi("riscv64", "little", 8, 8),
        Abi("m68k", "big", 4, 4, max_alignment=2),
    )
}


def abi_named(name: str | Abi) -> Abi:
    """The Abi of that name; an Abi is returned as it is, so that callers may bring their own."""
    if isinstance(name, Abi):
        return name
    try:
        return ABI_BY_NAME[name]
    except (KeyError, TypeError):
        raise unexpected(FormatError, f"an ABI of {', '.join(ABI_BY_NAME)}", f"`{name}`") from None

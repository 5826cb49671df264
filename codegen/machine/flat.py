"""Lays object code out as one block that runs at any page: loading it needs no linker and no LLVM.

After compilation the sections of an object are placed side by side, and the relocations between them are
applied. External functions are called through stubs, which jump to addresses stored in the block. Loading
only fills in these addresses. A block is, in little endian:

    offset  size
         0     8  magic "echo.fl1"
         8     4  machine, as ELF numbers them
        12     4  size of the image, i
        16     4  number of exports, e
        20     4  number of imports, m
        24     4  size of the names, s
        28    4e  offset in the image of each exported function
         .    4m  offset in the image for the address of each imported function; a multiple of 8
         .     s  names in ASCII: those of the exports, then those of the imports, each terminated by a NUL
         .     i  the image: code, constants, stubs, addresses

Only x86-64 and aarch64 are supported, with the relocations that LLVM emits for the small code model. An
object with any other section, symbol or relocation is left to LLVM's linker. Unwind tables are omitted,
because no exception passes through our code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from echo_core.codegen.machine import elf
from echo_core.codegen.machine.elf import Object, Relocation, Section, UnknownObjectError
from echo_core.errors import CompileError

X86_64, AARCH64 = 62, 183  # as ELF numbers machines

_MAGIC = b"echo.fl1"
_HEADER = struct.Struct("<8s5I")
_OFFSET_BYTES = 4
_ADDRESS_BYTES = 8
_STUB_BYTES = 8
_PAGE_BYTES = 4096  # alignment of a block: aarch64 code uses such pages, whatever the kernel's page size
_PLACED_FLAGS = elf.ALLOCATED | elf.EXECUTABLE | elf.MERGEABLE | elf.STRINGS
_UNWINDING = ".eh_frame"


class Flat(NamedTuple):
    """A parsed block; offsets by name."""

    machine: int
    image: memoryview
    exports: dict[str, int]
    imports: dict[str, int]


def is_flat(code: bytes) -> bool:
    """Whether code has the magic of a block."""
    return code.startswith(_MAGIC)


def parse(block: bytes) -> Flat:
    """Parse a block and check that all offsets are within its image; CompileError if it is malformed."""
    try:
        return _parse(block)
    except (struct.error, ValueError) as error:
        msg = f"Expected a block of machine code, got {len(block)} bytes that do not fit together"
        raise CompileError(msg) from error


def _parse(block: bytes) -> Flat:
    magic, machine, size, exported, imported, named = _HEADER.unpack_from(block)
    names_at = _HEADER.size + _OFFSET_BYTES * (exported + imported)
    if magic != _MAGIC or len(block) != names_at + named + size:
        raise ValueError
    offsets = struct.unpack_from(f"<{exported + imported}I", block, _HEADER.size)
    *names, rest = block[names_at : names_at + named].decode("ascii").split("\0")
    exports = dict(zip(names[:exported], offsets[:exported], strict=True))
    imports = dict(zip(names[exported:], offsets[exported:], strict=True))
    has_names = not rest and "" not in names and len(exports) + len(imports) == len(names)
    has_functions = all(at < size for at in exports.values())
    has_room = all(at % _ADDRESS_BYTES == 0 and at + _ADDRESS_BYTES <= size for at in imports.values())
    if not (has_names and has_functions and has_room):
        raise ValueError
    return Flat(machine, memoryview(block)[names_at + named :], exports, imports)


def flatten(object_code: bytes) -> bytes | None:
    """An object as a block; None if it contains anything that is not supported here."""
    try:
        found = elf.read(object_code)
        return _block(found, _Image(found, _MACHINES[found.machine]))
    except (UnknownObjectError, KeyError, struct.error):
        return None


def _block(found: Object, image: _Image) -> bytes:
    exports = {
        symbol.name: image.starts[symbol.section] + symbol.value
        for symbol in found.symbols
        if symbol.binding == elf.GLOBAL and symbol.type == elf.FUNCTION
    }
    offsets = [*exports.values(), *image.slots.values()]
    names = "".join(f"{name}\0" for name in (*exports, *image.slots)).encode("ascii")
    counts = len(image.bytes), len(exports), len(image.slots), len(names)
    header = _HEADER.pack(_MAGIC, found.machine, *counts)
    return b"".join((header, struct.pack(f"<{len(offsets)}I", *offsets), names, image.bytes))


class _Image:
    """The sections of an object side by side, with stubs and addresses for external calls."""

    def __init__(self, found: Object, machine: _Machine) -> None:
        self.bytes = bytearray()
        self.starts: dict[int, int] = {}  # of placed sections, by their numbers
        self._sections = found.sections
        self._machine = machine
        self._place_sections()
        relocations = [each for each in found.relocations if each.within in self.starts]
        called = sorted({each.symbol.name for each in relocations if each.symbol.section == elf.UNDEFINED})
        self._stubs = {name: self._append(bytes(_STUB_BYTES), _STUB_BYTES) for name in called}
        self.slots = {name: self._append(bytes(_ADDRESS_BYTES), _ADDRESS_BYTES) for name in called}
        for name, start in self._stubs.items():
            self.bytes[start : start + _STUB_BYTES] = machine.stub(self.slots[name] - start)
        for relocation in relocations:
            self._relocate(relocation)

    def _place_sections(self) -> None:
        for is_code in (True, False):
            for number, section in enumerate(self._sections):
                if _is_placed(section) and bool(section.flags & elf.EXECUTABLE) == is_code:
                    self.starts[number] = self._append(section.data, section.alignment)

    def _append(self, data: bytes, alignment: int) -> int:
        self.bytes += bytes(-len(self.bytes) % max(1, alignment))
        self.bytes += data
        return len(self.bytes) - len(data)

    def _relocate(self, relocation: Relocation) -> None:
        patch = self._machine.patches[relocation.type]
        if relocation.offset + 4 > len(self._sections[relocation.within].data):
            raise UnknownObjectError
        place = self.starts[relocation.within] + relocation.offset
        patch(self.bytes, place, self._goal(relocation) + relocation.addend)

    def _goal(self, relocation: Relocation) -> int:
        symbol = relocation.symbol
        if symbol.section != elf.UNDEFINED:
            if symbol.type not in (elf.UNTYPED, elf.DATA, elf.FUNCTION, elf.SECTION):
                raise UnknownObjectError
            return self.starts[symbol.section] + symbol.value
        if symbol.binding != elf.GLOBAL or relocation.type not in self._machine.calls:
            raise UnknownObjectError
        return self._stubs[symbol.name]


def _is_placed(section: Section) -> bool:
    if not section.flags & elf.ALLOCATED or section.name == _UNWINDING:
        return False
    if section.type != elf.CONTENTS or section.flags & ~_PLACED_FLAGS or section.alignment > _PAGE_BYTES:
        raise UnknownObjectError
    return True


# ---------------------------------------------------------------------------
# Machines

# Applies a relocation: makes the code at `place` refer to `goal`; both are offsets in the image.
_Patch = Callable[[bytearray, int, int], None]


@dataclass(frozen=True, slots=True)
class _Machine:
    """How to apply each supported relocation, which of them are calls, and the code of a stub."""

    patches: Mapping[int, _Patch]
    calls: frozenset[int]
    stub: Callable[[int], bytes]  # of the distance from the stub to the address that it jumps to


def _relative_32(image: bytearray, place: int, goal: int) -> None:
    struct.pack_into("<i", image, place, goal - place)


def _x86_stub(distance: int) -> bytes:
    return struct.pack("<HiH", 0x25FF, distance - 6, 0xCCCC)  # jmp *distance(%rip)


def _branch(image: bytearray, place: int, goal: int) -> None:
    _insert(image, place, _signed(goal - place, 2, 26))


def _page(image: bytearray, place: int, goal: int) -> None:
    pages = _signed((goal & -_PAGE_BYTES) - (place & -_PAGE_BYTES), 12, 21)
    _insert(image, place, (pages & 3) << 29 | pages >> 2 << 5)


def _within_page(scale: int, image: bytearray, place: int, goal: int) -> None:
    _insert(image, place, _signed(goal % _PAGE_BYTES, scale, 13) << 10)


def _insert(image: bytearray, place: int, bits: int) -> None:
    """Set bits of an instruction that are still 0, as its relocation has an addend."""
    (instruction,) = struct.unpack_from("<I", image, place)
    struct.pack_into("<I", image, place, instruction | bits)


def _signed(value: int, scale: int, bits: int) -> int:
    """A value in units of 2**scale, as a two's complement number of that many bits."""
    units, rest = divmod(value, 1 << scale)
    if rest or not -(1 << bits - 1) <= units < 1 << bits - 1:
        raise UnknownObjectError
    return units & (1 << bits) - 1


def _aarch64_stub(distance: int) -> bytes:
    load = 0x58000010 | _signed(distance, 2, 19) << 5  # ldr x16, distance
    return struct.pack("<II", load, 0xD61F0200)  # br x16


_MACHINES = {
    X86_64: _Machine(
        {2: _relative_32, 4: _relative_32},  # R_X86_64_PC32, PLT32
        frozenset({4}),
        _x86_stub,
    ),
    AARCH64: _Machine(
        {
            261: _relative_32,  # R_AARCH64_PREL32
            275: _page,  # ADR_PREL_PG_HI21
            277: partial(_within_page, 0),  # ADD_ABS_LO12_NC
            278: partial(_within_page, 0),  # LDST8_ABS_LO12_NC, and wider ones
            284: partial(_within_page, 1),
            285: partial(_within_page, 2),
            286: partial(_within_page, 3),
            299: partial(_within_page, 4),
            282: _branch,  # JUMP26
            283: _branch,  # CALL26
        },
        frozenset({282, 283}),
        _aarch64_stub,
    ),
}

"""Reads relocatable 64-bit little-endian ELF objects, as LLVM writes them, for any machine.

It reads only what `flat` needs. Anything unexpected raises UnknownObjectError, and the object is left to
LLVM's own linker.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

UNDEFINED = 0  # the section of a symbol that the object does not define

# Flags of sections.
ALLOCATED = 0x2
EXECUTABLE = 0x4
MERGEABLE = 0x10
STRINGS = 0x20

# Types of sections.
CONTENTS = 1
_SYMBOLS = 2
_NAMES = 3
_RELOCATIONS = 4
_IMPLICIT_RELOCATIONS = 9  # with addends in the code
_READ = (CONTENTS, _SYMBOLS, _NAMES, _RELOCATIONS)

# Of symbols.
GLOBAL = 1
DATA, FUNCTION, SECTION = 1, 2, 3
UNTYPED = 0

_IDENTITY = b"\x7fELF\x02\x01\x01"  # 64 bits, little endian, version 1
_RELOCATABLE = 1
_HEADER = struct.Struct("<16sHH20xQ10xHHH")
_SECTION = struct.Struct("<IIQ8xQQIIQ8x")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")


class UnknownObjectError(Exception):
    """An object contains something unsupported. Callers do not need to know what."""


class Section(NamedTuple):
    """A section; the meaning of `link` and `info` depends on its type."""

    name: str
    type: int
    flags: int
    data: bytes
    link: int
    info: int
    alignment: int


class Symbol(NamedTuple):
    """A name for an offset in a section."""

    name: str
    binding: int
    type: int
    section: int
    value: int


class Relocation(NamedTuple):
    """A place in the section `within` that depends on the address of a symbol."""

    within: int
    offset: int
    type: int
    symbol: Symbol
    addend: int


@dataclass(frozen=True, slots=True)
class Object:
    """The relevant parts of an object; sections keep their numbers."""

    machine: int
    sections: list[Section]
    symbols: list[Symbol]
    relocations: list[Relocation]


def read(object_code: bytes) -> Object:
    """Read an object; UnknownObjectError if it is malformed or of another kind."""
    try:
        return _read(object_code)
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise UnknownObjectError from error


def _read(data: bytes) -> Object:
    identity, kind, machine, at, size, count, names_at = _HEADER.unpack_from(data)
    if not identity.startswith(_IDENTITY) or kind != _RELOCATABLE or size != _SECTION.size or not count:
        raise UnknownObjectError
    heads: list[tuple[int, ...]] = [_SECTION.unpack_from(data, at + size * i) for i in range(count)]
    _, _, _, start, length, *_ = heads[int(names_at)]
    sections = [_section(data, head, data[start : start + length]) for head in heads]
    tables = [section for section in sections if section.type == _SYMBOLS]
    if len(tables) > 1 or any(section.type == _IMPLICIT_RELOCATIONS for section in sections):
        raise UnknownObjectError
    symbols = [symbol for table in tables for symbol in _symbols(table, sections[table.link].data)]
    return Object(machine, sections, symbols, _all_relocations(sections, symbols))


def _section(data: bytes, head: tuple[int, ...], names: bytes) -> Section:
    name, kind, flags, start, size, link, info, alignment = head
    contents = data[start : start + size] if kind in _READ else b""
    if kind in _READ and len(contents) != size:
        raise UnknownObjectError
    return Section(_text(names, name), kind, flags, contents, link, info, alignment)


def _symbols(table: Section, names: bytes) -> list[Symbol]:
    return [
        Symbol(_text(names, name), info >> 4, info & 15, section, value)
        for name, info, _, section, value, _ in _SYMBOL.iter_unpack(table.data)
    ]


def _all_relocations(sections: list[Section], symbols: list[Symbol]) -> list[Relocation]:
    return [
        Relocation(section.info, offset, kind, symbols[symbol], addend)
        for section in sections
        if section.type == _RELOCATIONS
        for offset, kind, symbol, addend in _RELOCATION.iter_unpack(section.data)
    ]


def _text(names: bytes, start: int) -> str:
    return names[start : names.index(b"\0", start)].decode("ascii")

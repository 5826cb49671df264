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
WRITABLE = 0x1
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

# Of symbols.
GLOBAL = 1
DATA, FUNCTION, SECTION = 1, 2, 3
UNTYPED = 0

_IDENTITY = b"\x7fELF\x02\x01\x01"  # 64 bits, little endian, version 1
_RELOCATABLE = 1
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")


class UnknownObjectError(Exception):
    """An object contains something unsupported. Callers do not need to know what."""


class _Head(NamedTuple):
    """A section header."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


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
    identity, kind, machine, _, _, _, at, _, _, _, _, size, count, names_at = _HEADER.unpack_from(data)
    if not identity.startswith(_IDENTITY) or kind != _RELOCATABLE or size != _SECTION.size or not count:
        raise UnknownObjectError
    heads = [_Head(*_SECTION.unpack_from(data, at + size * i)) for i in range(count)]
    names = _contents(data, heads[int(names_at)])
    sections = [_section(data, head, names) for head in heads]
    symbols: list[Symbol] = []
    for section in sections:
        if section.type == _SYMBOLS:
            if symbols:
                raise UnknownObjectError
            symbols = _symbols(section, sections[section.link].data)
    return Object(machine, sections, symbols, _all_relocations(sections, symbols))


def _contents(data: bytes, head: _Head) -> bytes:
    """The bytes of a section; empty for types that are not needed."""
    if head.type not in (CONTENTS, _SYMBOLS, _NAMES, _RELOCATIONS):
        return b""
    if head.offset + head.size > len(data):
        raise UnknownObjectError
    return data[head.offset : head.offset + head.size]


def _section(data: bytes, head: _Head, names: bytes) -> Section:
    contents = _contents(data, head)
    return Section(
        _text(names, head.name), head.type, head.flags, contents, head.link, head.info, head.alignment
    )


def _symbols(table: Section, names: bytes) -> list[Symbol]:
    return [
        Symbol(_text(names, name), info >> 4, info & 15, section, value)
        for name, info, _, section, value, _ in _SYMBOL.iter_unpack(table.data)
    ]


def _all_relocations(sections: list[Section], symbols: list[Symbol]) -> list[Relocation]:
    found: list[Relocation] = []
    for section in sections:
        if section.type == _IMPLICIT_RELOCATIONS:
            raise UnknownObjectError
        if section.type == _RELOCATIONS:
            found += [
                Relocation(section.info, offset, kind, symbols[symbol], addend)
                for offset, kind, symbol, addend in _RELOCATION.iter_unpack(section.data)
            ]
    return found


def _text(names: bytes, start: int) -> str:
    return names[start : names.index(b"\0", start)].decode("ascii")

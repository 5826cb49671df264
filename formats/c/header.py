"""From a layout to a C header: structs that lie in memory exactly so, or do not compile.

A struct is plain C wherever the C rules of a known ABI give the same layout. Where they do not (a packed
numpy dtype, fields in another order) it is packed, and every gap is a member. Static assertions after each
struct hold the compiler to every offset; `declarations` reads all of this back.

A variable part is a pointer in the struct. On the wire its place holds an offset from the record's start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Sequence as Many
from dataclasses import dataclass, replace
from itertools import chain, count

from echo_core.formats.abi import ABI_BY_NAME, NATIVE, Abi
from echo_core.formats.c.specifiers import NAMED_SCALARS
from echo_core.formats.layout import Layout, place
from echo_core.formats.leaves import integer_range
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
    has_parts,
    innermost,
)

_C_TYPES: dict[Kind, str] = {
    Kind.BOOL: "bool",
    Kind.INT: "int{bits}_t",
    Kind.UINT: "uint{bits}_t",
    Kind.TIMESTAMP: "int64_t",
    Kind.DURATION: "int64_t",
    Kind.CHARS: "char",
    Kind.BYTES: "uint8_t",
    Kind.UUID: "uint8_t",
}
_FLOATS = {2: "uint16_t", 4: "float", 8: "double"}  # gcc 12 has no _Float16 on half of its targets
_STRINGS = frozenset({Kind.CHARS, Kind.BYTES, Kind.UUID})

_NOTES: dict[tuple[Kind, int], str] = {
    (Kind.FLOAT, 2): "float16, as its bits",
    (Kind.TIMESTAMP, 8): "nanoseconds since 1970-01-01 UTC",
    (Kind.DURATION, 8): "nanoseconds",
    (Kind.UUID, 16): "UUID",
}

_PROLOGUE = """\
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __counted_by
#define __counted_by(...)
#endif
#ifndef __clang__
#define _Nullable
#endif
"""

# A packed struct with an aligned one in it is intended here, but -Wall warns of it.
_ALLOW_PACKED = """
#ifndef __clang__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpacked-not-aligned"
#endif
"""
_END_PACKED = """
#ifndef __clang__
#pragma GCC diagnostic pop
#endif
"""


def header_of(layout: Layout) -> str:
    """A self-contained C11 header with the layout's record, and before it whatever it nests."""
    header = _Header.of(layout)
    guard = f"ECHO_CORE_{header.tags[layout.record]}_H"
    packed = any(not _is_natural(record, header.abi) and record.alignment > 1 for record in header.records)
    parts = [
        _summary(layout),
        f"#ifndef {guard}\n#define {guard}\n\n{_PROLOGUE}",
        "\n",
        # No offset shows the byte order.
        _assertion(f"__BYTE_ORDER__ == __ORDER_{layout.byte_order.upper()}_ENDIAN__"),
        _assertion(f"sizeof(void *) == {layout.pointer_size}"),
        *(_enum(enum, header.tags[enum], header.constants) for enum in header.enumerations),
        *([_ALLOW_PACKED] if packed else []),
        *(header.struct(record) for record in header.records),
        *([_END_PACKED] if packed else []),
        "\n#endif\n",
    ]
    return "".join(parts)


def _summary(layout: Layout) -> str:
    text = f"{layout.record.name}: {layout.record.size} bytes, {layout.byte_order}-endian"
    if has_parts(layout.record):
        text += "; on the wire, pointers are offsets from the start of the record"
    return _comment(text) + "\n"


def _assertion(condition: str) -> str:
    return f'_Static_assert({condition}, "made for another ABI");\n'


def _comment(*parts: str) -> str:
    """One comment on one line, whatever the parts hold."""
    text = "; ".join(part for part in parts if part)
    text = "".join(char if char.isprintable() else " " for char in text)
    return f"/* {text.replace('*/', '* /').replace('/*', '/ *')} */" if text else ""


def _enum(enumeration: Enumeration, tag: str, names: dict[tuple[str, str], str]) -> str:
    """The constants that an enumerator can hold: an int's. The members themselves are `intN_t`."""
    low, high = integer_range(Kind.INT, 4)
    lines: list[str] = []
    for name, number in enumeration.members:
        constant = f"{names[tag, name]} = {number}"
        note = _comment(_named(names[tag, name], f"{tag}_{name}"))
        fits = low <= number <= high
        lines.append(f"    {constant},{note and ' ' + note}" if fits else f"    {_comment(constant)}")
    note = _comment(_named(tag, enumeration.name))
    if all(line.startswith("    /*") for line in lines):
        return "\n".join(["", note, *lines, ""])
    return "\n".join([f"\nenum {tag} {{{note and ' ' + note}", *lines, "};", ""])


# ---------------------------------------------------------------------------------------------------
# Names

# Keywords, and macros that a compiler defines unasked (`linux` is 1 in gcc's default mode).
_WORDS = """
    alignas alignof asm auto bool break case char complex const constexpr continue default do double else
    enum extern false float for goto if inline int long nullptr offsetof register restrict return short
    signed sizeof static static_assert struct switch thread_local true typedef typeof typeof_unqual union
    unsigned void volatile while max_align_t wchar_t NULL
    linux unix i386 mips sparc powerpc mc68000 mc68020 sun PPC R3000 MIPSEB LANGUAGE_C
"""
_RESERVED = frozenset(NAMED_SCALARS).union(_WORDS.split())
_RESERVED_FORM = re.compile(
    r"padding_[0-9]+|U?INT\w*_(MIN|MAX|C)|(SIZE|PTRDIFF|SIG_ATOMIC|WCHAR|WINT)_(MIN|MAX)"
)
# Reserved for compilers in C; the last is reserved in Python's Enum.
_PRIVATE_FORM = re.compile(r"__.*|_[A-Z].*|_.*_")
_LONGEST = 240  # leaves room for what is put before and after


def _c_names(names: Many[str]) -> list[str]:
    """A different C identifier for each name; a name that is one already is kept."""
    chosen: dict[str, int] = {}
    plain = [_c_name(name) for name in names]
    for i in sorted(range(len(names)), key=lambda i: plain[i] != names[i]):
        tries = chain([plain[i]], (f"{plain[i]}_{n}" for n in count(2)))
        chosen[next(name for name in tries if name not in chosen)] = i
    return sorted(chosen, key=chosen.__getitem__)


def _c_name(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)[:_LONGEST]
    if _PRIVATE_FORM.fullmatch(plain) or (plain != name and plain.startswith("_")):
        plain = f"x{plain}"
    if plain in _RESERVED or _RESERVED_FORM.fullmatch(plain):
        plain += "_"
    return plain


def _named(c_name: str, name: str) -> str:
    """A note where the C name is not the format's."""
    return "" if c_name == name else f"named `{name}`"


# ---------------------------------------------------------------------------------------------------
# Structs


@dataclass(frozen=True, slots=True)
class _Header:
    """The records in the order of their definition, and the names by which they are known."""

    abi: Abi
    records: tuple[Record, ...]
    enumerations: tuple[Enumeration, ...]
    tags: dict[Record | Enumeration, str]
    constants: dict[tuple[str, str], str]

    @classmethod
    def of(cls, layout: Layout) -> _Header:
        records = tuple(dict.fromkeys(_records(layout.record)))
        leaves = (innermost(field.type)[0] for record in records for field in record.fields)
        enumerations = tuple(dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, Enumeration)))
        # The outermost record chooses its name first.
        tagged: tuple[Record | Enumeration, ...] = (*reversed(records), *enumerations)
        tags = dict(zip(tagged, _c_names([type_.name for type_ in tagged]), strict=True))
        members = [(tags[enum], name) for enum in enumerations for name, _ in enum.members]
        constants = _c_names([f"{tag}_{name}" for tag, name in members])
        constant_by_member = dict(zip(members, constants, strict=True))
        return cls(_closest_abi(layout, records), records, enumerations, tags, constant_by_member)

    def struct(self, record: Record) -> str:
        """The definition, and the assertions that hold the compiler to it."""
        tag = self.tags[record]
        fields = sorted(record.fields, key=lambda field: field.offset)
        names = dict(zip((f.name for f in fields), _c_names([f.name for f in fields]), strict=True))
        members = [self.member(field, names) for field in fields]
        attributes = ""
        if not _is_natural(record, self.abi):
            members = list(_padded(record, fields, members))
            aligned = f", aligned({record.alignment})" if record.alignment > 1 else ""
            attributes = f" __attribute__((packed{aligned}))"
        note = _comment(_named(tag, record.name))
        lines = [f"struct {tag} {{{note and ' ' + note}", *members, f"}}{attributes};"]
        return "\n" + "\n".join(lines) + "\n" + _assertions(record, tag, names)

    def member(self, field: Field, names: dict[str, str]) -> str:
        name = names[field.name]
        unit = f"[{field.unit}]" if field.unit else ""
        note = _comment(_named(name, field.name), _type_note(field.type), unit, field.doc)
        return f"    {self.declare(field.type, name, names)};{note and ' ' + note}"

    def declare(self, type_: Type, name: str, names: dict[str, str], star: str = "*") -> str:
        """A declaration of `name`, which may be a whole declarator such as `*items` or `value[3]`.

        `star` is what makes a pointer of it, if it is one.
        """
        match type_:
            case Scalar():
                return _scalar(type_, name)
            case Enumeration():
                return f"int{8 * type_.size}_t {name}"
            case Text():
                return f"char {star}{name}"
            case Blob():
                return _slot(name, f"uint8_t {star}data", "size_t size")
            case Record():
                return f"struct {self.tags[type_]} {name}"
            case StaticArray():
                shape = "".join(f"[{n}]" for n in type_.shape)
                return self.declare(type_.element, f"{name}{shape}", names)
            case Sequence():
                return self.sequence(type_, name, names, star)
            case Nullable() if type_.by_reference:
                return self.declare(type_.element, name, names, "* _Nullable ")
            case Nullable():
                padding = type_.size - type_.element.size - 1
                members = [self.declare(type_.element, "value", names), "bool present"]
                members += [f"uint8_t padding[{padding}]"] if padding else []
                return _slot(name, *members)

    def sequence(self, type_: Sequence, name: str, names: dict[str, str], star: str) -> str:
        """A counted pointer; in a struct with its own lengths, where it has some."""
        own = type_.shape.count(None)
        items = f"{star}{'items' if own else name}"
        if _is_array(type_.element):
            items = f"({items})"
        pointer = self.declare(type_.element, items, names)
        if own != len(type_.shape):
            counts = (names[n] if isinstance(n, str) else str(n or "...") for n in type_.shape)
            pointer += f" __counted_by({', '.join(counts)})"
        if not own:
            return pointer
        return _slot(name, pointer, "size_t count" if own == 1 else f"size_t count[{own}]")


def _slot(name: str, *members: str) -> str:
    return f"struct {{ {' '.join(f'{member};' for member in members)} }} {name}"


def _scalar(scalar: Scalar, name: str) -> str:
    match scalar.kind:
        case Kind.FLOAT:
            return f"{_FLOATS[scalar.size]} {name}"
        case Kind.COMPLEX:
            return f"{_FLOATS[scalar.size // 2]} _Complex {name}"
        case kind:
            length = f"[{scalar.size}]" if kind in _STRINGS else ""
            return f"{_C_TYPES[kind].format(bits=8 * scalar.size)} {name}{length}"


def _is_array(type_: Type) -> bool:
    return isinstance(type_, StaticArray) or (isinstance(type_, Scalar) and type_.kind in _STRINGS)


def _type_note(type_: Type) -> str:
    """A comment with what the C type does not say."""
    inner, _ = innermost(type_)
    if isinstance(inner, Enumeration):
        return str(inner)
    return _NOTES.get((inner.kind, inner.size), "") if isinstance(inner, Scalar) else ""


def _padded(record: Record, fields: list[Field], members: list[str]) -> Iterator[str]:
    """The members, with one for every gap between them."""
    end, numbers = 0, count()
    for offset, size, member in [
        *((f.offset, f.type.size, m) for f, m in zip(fields, members, strict=True)),
        (record.size, 0, ""),
    ]:
        if offset > end:
            yield f"    uint8_t padding_{next(numbers)}[{offset - end}];"
        if member:
            yield member
        end = offset + size


def _assertions(record: Record, tag: str, names: dict[str, str]) -> str:
    sizes = [f"sizeof(struct {tag}) == {record.size}", f"_Alignof(struct {tag}) == {record.alignment}"]
    offsets = [f"offsetof(struct {tag}, {names[field.name]}) == {field.offset}" for field in record.fields]
    return "".join(map(_assertion, sizes + offsets))


# ---------------------------------------------------------------------------------------------------
# What a layout is made of


def _records(record: Record) -> Iterator[Record]:
    """The records inside a record, innermost first, and the record itself."""
    for field in record.fields:
        inner, _ = innermost(field.type)
        if isinstance(inner, Record):
            yield from _records(inner)
    yield record


def _closest_abi(layout: Layout, records: Many[Record]) -> Abi:
    """Of the ABIs with this byte order and pointer, the one that lays out the most of it by itself."""
    known = [
        abi
        for abi in ABI_BY_NAME.values()
        if (abi.byte_order, abi.pointer_size) == (layout.byte_order, layout.pointer_size)
    ]
    return max(known, key=lambda abi: sum(_is_natural(record, abi) for record in records), default=NATIVE)


def _is_natural(record: Record, abi: Abi) -> bool:
    """Whether a compiler for the ABI lays out these members so by itself; C has no empty struct."""
    if not record.fields:
        return False
    in_memory = sorted(record.fields, key=lambda field: field.offset)
    placed = place(record.name, in_memory, abi)
    return placed == replace(record, fields=tuple(in_memory))

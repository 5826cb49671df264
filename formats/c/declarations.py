"""From C declarations to a layout: structs as they stand in a header.

This reads a subset of C. What has no layout here (unions, bit-fields, pointers without a count) is refused
with the member's name. What `header` writes is read back: slots, and in a packed struct `uint8_t
padding_N[k]` as the padding that it is.

Here are the declarations, the names that they give, and the bodies of structs and enumerations; only their
braces make the reader call itself. Characters are for `tokens`; scalars, declarators and slots for
`specifiers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from echo_core.errors import FormatError
from echo_core.formats.abi import Abi, abi_named
from echo_core.formats.c.specifiers import (
    BYTE,
    QUALIFIERS,
    SCALAR_WORDS,
    TYPE_WORDS,
    Declarators,
    Declared,
    Incomplete,
    Members,
    Scalars,
    name_ahead,
    slot_of,
)
from echo_core.formats.c.tokens import Cursor
from echo_core.formats.check import check_enumeration, check_pointer_size, check_record
from echo_core.formats.layout import Layout, place
from echo_core.formats.types import Enumeration, Field, Kind, Record, Scalar, StaticArray

_PADDING = re.compile(r"padding_[0-9]+")


def layout_of(text: str, name: str | None, abi: str | Abi) -> Layout:
    """The layout of the struct called `name` by its tag or typedef, or of the last one in the text."""
    machine = abi_named(abi)
    check_pointer_size(machine.pointer_size, FormatError)
    cursor = Cursor(text, TYPE_WORDS)
    reader = _Declarations(cursor, machine)
    while cursor.text:
        reader.declaration()
    return Layout(machine.byte_order, machine.pointer_size, reader.struct_named(name))


class _Declarations:
    """Reads declarations, and keeps what has been declared."""

    def __init__(self, cursor: Cursor, abi: Abi) -> None:
        self.cursor, self.abi = cursor, abi
        self.scalars, self.declarators = Scalars(cursor, abi), Declarators(cursor, abi)
        self.tags: dict[str, Record | Enumeration] = {}
        self.typedefs: dict[str, Declared] = {}
        self.last: Record | None = None

    def declaration(self) -> None:
        """One declaration at file scope, or a semicolon."""
        self.cursor.member = ""
        if self.cursor.take(";") or self.assertion():
            return
        is_typedef = self.cursor.take("typedef")
        type_ = self.specifiers(is_typedef=is_typedef)
        if is_typedef:
            for name, alias in self.declarators.read(type_):
                if self.typedefs.setdefault(name, alias) != alias:
                    self.cursor.refuse("names that are given once", name, "rename one of the two")
        elif self.cursor.text != ";":
            self.cursor.refuse_token("only types, and `;` after each")
        self.cursor.expect(";")

    def assertion(self) -> bool:
        """Skips a static assertion: the compiler checks it."""
        found = self.cursor.take("_Static_assert")
        if found:
            self.cursor.skip_parentheses()
            self.cursor.expect(";")
        return found

    def struct_named(self, name: str | None) -> Record:
        found: Declared | None = self.last
        if name is not None:
            found = self.complete(self.typedefs.get(name)) or self.tags.get(name)
        if not isinstance(found, Record):
            types = (*self.tags.items(), *self.typedefs.items())
            known = [known for known, type_ in types if isinstance(type_, Record)]
            self.cursor.refuse(
                "a struct", name or "a text without one", f"the text defines {', '.join(known[:8]) or 'none'}"
            )
        return found

    def specifiers(self, *, is_typedef: bool = False) -> Declared:
        """The part before the declarators: the words of a scalar, or one type."""
        words: list[str] = []
        found: Declared | None = None
        while True:
            if self.cursor.text in QUALIFIERS:
                self.cursor.advance()
            elif found is None and self.cursor.text in SCALAR_WORDS:
                words.append(self.cursor.advance())
            elif found is None and not words and (named := self.named(is_typedef)) is not None:
                found = named
            else:
                return self.scalars.spelled(words) if found is None else found

    def named(self, is_typedef: bool) -> Declared | None:
        """A struct, an enum or a name for a type; None if there is none of them here."""
        if self.cursor.take("struct"):
            return self.struct(is_typedef)
        if self.cursor.take("enum"):
            return self.enumeration(is_typedef)
        if self.cursor.text in self.typedefs:
            return self.complete(self.typedefs[self.cursor.advance()])
        return self.scalars.named()

    def complete(self, type_: Declared | None) -> Declared | None:
        """A typedef may come before the struct that it names."""
        return self.tags.get(type_.tag, type_) if isinstance(type_, Incomplete) else type_

    # Tags

    def tag(self) -> str:
        return self.cursor.advance() if self.cursor.kind == "word" else ""

    def tagged(self, tag: str, expected: type[Record | Enumeration]) -> Declared:
        found = self.tags.get(tag)
        if isinstance(found, expected):
            return found
        if not tag or found or expected is Enumeration:
            self.cursor.member = name_ahead(self.cursor)
            self.cursor.refuse("a type defined above", tag or self.cursor.text, "define it before its use")
        return Incomplete(tag)

    def define(self, tag: str, type_: Record | Enumeration) -> None:
        if tag and self.tags.setdefault(tag, type_) is not type_:
            self.cursor.refuse("tags that are given once", tag, "rename one of the two")

    def name_given(self, tag: str, is_typedef: bool) -> str:
        """The name for a body's type: its typedef, its tag, or the member that has it."""
        return tag if tag and not is_typedef else name_ahead(self.cursor) or tag

    # Enumerations

    def enumeration(self, is_typedef: bool) -> Declared:
        tag = self.tag()
        if self.cursor.text != "{":
            return self.tagged(tag, Enumeration)
        name = self.name_given(tag, is_typedef)
        members = tuple(self.enumerators())
        self.cursor.constants.update(members)
        if not name:  # only constants
            return Scalar(Kind.INT, 4)
        enumeration = Enumeration(name, 4, members)
        check_enumeration(enumeration, FormatError)
        self.define(tag, enumeration)
        return enumeration

    def enumerators(self) -> Iterator[tuple[str, int]]:
        number = 0
        self.cursor.expect("{")
        while not self.cursor.take("}"):
            name = self.cursor.word()
            number = self.cursor.integer() if self.cursor.take("=") else number
            yield name, number
            number += 1
            if self.cursor.text != "}":
                self.cursor.expect(",")

    # Structs

    def struct(self, is_typedef: bool) -> Declared:
        attributes = self.attributes()
        tag = self.tag()
        if self.cursor.text != "{":
            return self.tagged(tag, Record)
        name = self.name_given(tag, is_typedef)
        if not name:
            self.cursor.refuse("a struct with a name", "struct {", "give it a tag or a member's name")
        members = self.members(name)
        attributes |= self.attributes()
        is_nested = bool(self.cursor.owner)
        if is_nested and not tag and not attributes and (slot := slot_of(members, self.abi)):
            return slot
        record = self.record(name, members, attributes)
        self.define(tag, record)
        if not is_nested:
            self.last = record
        return record

    def attributes(self) -> dict[str, int]:
        """`packed` and `aligned(n)`: the two that change a layout in a known way."""
        found: dict[str, int] = {}
        while self.cursor.take("__attribute__"):
            self.cursor.expect("(", "(")
            while not found or self.cursor.take(","):
                attribute = self.cursor.word("an attribute").strip("_")
                if attribute not in ("packed", "aligned"):
                    self.cursor.refuse(
                        "an attribute with a known layout",
                        attribute,
                        "only `packed` and `aligned(n)` are known",
                    )
                found[attribute] = self.in_parentheses() if attribute == "aligned" else 1
            self.cursor.expect(")", ")")
        return found

    def in_parentheses(self) -> int:
        self.cursor.expect("(")
        number = self.cursor.integer()
        self.cursor.expect(")")
        return number

    def members(self, name: str) -> Members:
        members: Members = []
        with self.cursor.inside(name):
            self.cursor.expect("{")
            while not self.cursor.take("}"):
                self.cursor.member = ""
                if not self.assertion():
                    members += self.declarators.read(self.specifiers())
                    self.cursor.expect(";")
        return members

    def record(self, name: str, members: Members, attributes: dict[str, int]) -> Record:
        with self.cursor.inside(name):
            fields = [self.field(member, type_) for member, type_ in members]
            if not fields:
                self.cursor.refuse("at least one member", "{}", "C has no struct without")
        packed, alignment = "packed" in attributes, attributes.get("aligned", 1)
        record = place(name, fields, self.abi, packed=packed, alignment=alignment)
        if packed:
            kept = tuple(field for field in record.fields if not _is_padding(field))
            record = replace(record, fields=kept)
        check_record(record, self.abi.pointer_size, FormatError)
        return record

    def field(self, name: str, type_: Declared) -> Field:
        self.cursor.member = name
        return Field(name, self.declarators.settled(type_))


def _is_padding(field: Field) -> bool:
    is_bytes = isinstance(field.type, StaticArray) and field.type.element == BYTE
    return is_bytes and _PADDING.fullmatch(field.name) is not None

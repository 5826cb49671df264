"""From C declarations to a layout: structs as they stand in a header.

A subset of C, and nothing is guessed: what has no layout here (unions, bit-fields, pointers that nobody
counts) is refused by the name of its member. The forms that `c_header` writes are read back: in a struct
without a tag, `{T *items; size_t count;}` is a sequence, `{uint8_t *data; size_t size;}` bytes, and
`{T value; bool present;}` an optional value; in a packed struct `uint8_t padding_N[k]` is padding.

The text is taken apart by one regular expression whose repetitions are possessive, and read once from
left to right. Only braces make the reader call itself, and they are counted before it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, NoReturn

from echo_core.errors import FormatError
from echo_core.formats import limits
from echo_core.formats.abi import Abi, abi_named
from echo_core.formats.check import check_enumeration, check_pointer_size, check_record
from echo_core.formats.layout import Layout, place
from echo_core.formats.types import (
    Array,
    Blob,
    Enumeration,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    Text,
    Type,
    round_up,
)

_CHAR = Scalar(Kind.CHARS, 1)  # compared by identity: `char c[1]` is equal, but is not a `char`
_BYTE = Scalar(Kind.UINT, 1)
_LONG, _POINTER = -1, -2  # sizes that the ABI decides

_BASIC = frozenset(
    {"char", "short", "int", "long", "signed", "unsigned", "float", "double"}
    | {"_Bool", "_Complex", "complex", "_Float16"}
)
_QUALIFIERS = frozenset({"const", "volatile", "restrict"})

# Every order of the words is allowed, so the key is the words sorted.
_SCALARS: dict[tuple[str, ...], tuple[Kind, int]] = {
    ("_Bool",): (Kind.BOOL, 1),
    ("char", "signed"): (Kind.INT, 1),
    ("char", "unsigned"): (Kind.UINT, 1),
    ("_Float16",): (Kind.FLOAT, 2),
    ("float",): (Kind.FLOAT, 4),
    ("double",): (Kind.FLOAT, 8),
    ("_Complex", "float"): (Kind.COMPLEX, 8),
    ("_Complex", "double"): (Kind.COMPLEX, 16),
    ("complex", "float"): (Kind.COMPLEX, 8),
    ("complex", "double"): (Kind.COMPLEX, 16),
} | {
    tuple(sorted(f"{width} {sign} {noun}".split())): (
        Kind.UINT if sign == "unsigned" else Kind.INT,
        size,
    )
    for width, size in (("short", 2), ("", 4), ("long", _LONG), ("long long", 8))
    for sign in ("", "signed", "unsigned")
    for noun in ("", "int")
    if width or sign or noun
}

NAMED_SCALARS: dict[str, tuple[Kind, int]] = {
    "bool": (Kind.BOOL, 1),
    "size_t": (Kind.UINT, _POINTER),
    "uintptr_t": (Kind.UINT, _POINTER),
    "ssize_t": (Kind.INT, _POINTER),
    "intptr_t": (Kind.INT, _POINTER),
    "ptrdiff_t": (Kind.INT, _POINTER),
    **{f"int{8 * size}_t": (Kind.INT, size) for size in (1, 2, 4, 8)},
    **{f"uint{8 * size}_t": (Kind.UINT, size) for size in (1, 2, 4, 8)},
}

_WAYS_OUT = {
    "union": "declare the largest member, or a struct with all of them",
    "void": "point to a type that has a size, counted by `__counted_by(n)`",
    "double long": "use `double`: no two machines agree about `long double`",
    "wchar_t": "use `char *` with UTF-8",
}


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class _Pointer:
    """A pointer whose meaning depends on what follows it: `__counted_by`, or a `count` beside it."""

    element: Type
    nullable: bool
    shape: tuple[int | str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class _Incomplete:
    """A struct that was named and not yet defined."""

    tag: str


_Declared = Type | _Pointer | _Incomplete
_Members = list[tuple[str, _Declared]]


def layout_of(text: str, name: str | None, abi: str | Abi) -> Layout:
    """The layout of the struct called `name` by its tag or typedef, or of the last one in the text."""
    machine = abi_named(abi)
    check_pointer_size(machine.pointer_size, FormatError)
    reader = _Reader(text.replace("\r\n", "\n"), machine)
    while reader.text:
        reader.declaration()
    return Layout(machine.byte_order, machine.pointer_size, reader.struct_named(name))


# ---------------------------------------------------------------------------------------------------
# Tokens

# A comment without an end reaches to the end of the text: were it no match, `/*/*/*` would be read
# once for each of its slashes.
_BLOCK = r"/\*(?:[^*]++|\*(?!/))*+(?:\*/)?"
_TOKEN = re.compile(
    rf"""
      (?P<blank>     \s++ | //[^\n]*+ )
    | (?P<comment>   {_BLOCK} )
    | (?P<directive> \#(?:\\\n|//[^\n]*+|{_BLOCK}|[^\n])*+ )
    | (?P<word>      [^\W\d]\w*+ )
    | (?P<number>    [0-9]\w*+ )
    | (?P<string>    "(?:\\.|[^"\\\n])*+" )
    | (?P<mark>      \.\.\.|. )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENTS = re.compile(rf"//.*+|{_BLOCK}", re.DOTALL)
_NUMBER = re.compile(r"(-?(?:0[xX][0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,18}))[uUlL]{0,3}")
_IGNORED = re.compile(
    r"(?:include\b.*|pragma (?:once|GCC diagnostic .*)|endif|define __counted_by\(\.\.\.\)|\d+ \".*)?"
)
_DEFINE = re.compile(r"define (\w+)(?: \(?(-?\w+)\)?)?")
_PADDING = re.compile(r"padding_[0-9]+")


def _tokens(text: str) -> Iterator[_Token]:
    """The tokens, with the constants that the text defines put in their places."""
    defined: dict[str, str] = {}
    for match in _TOKEN.finditer(text):
        kind, token = str(match.lastgroup), match.group()
        if kind == "directive":
            _obey(token, defined)
        elif token == '"' or (kind == "comment" and not token.endswith("*/", 2)):
            _refuse_text("text that is complete", token, text, match.start())
        elif kind == "word" and defined.get(token):
            yield _Token("number", defined[token], match.start())
        elif kind not in ("blank", "comment"):
            yield _Token(kind, token, match.start())
    yield _Token("end", "", len(text))


def _obey(directive: str, defined: dict[str, str]) -> None:
    """An include guard or an integer constant; any other directive could change what follows."""
    line = _COMMENTS.sub(" ", directive.replace("\\\n", " ")).lstrip("# \t")
    words = " ".join(line.split())
    if _IGNORED.fullmatch(words):
        return
    if words.startswith("ifndef ") and words[len("ifndef ") :] not in defined:
        return
    if match := _DEFINE.fullmatch(words):
        name, number = match[1], match[2] or ""
        known = name in _BASIC | _QUALIFIERS or name in NAMED_SCALARS
        if not known and (not number or _NUMBER.fullmatch(number)):
            defined[name] = number
            return
    msg = f"Expected an include guard or an integer constant, got `#{words[:64]}`"
    raise FormatError(msg, hint="give the text as the preprocessor leaves it (`gcc -E -P`)")


def _refuse_text(expected: str, got: str, text: str, at: int, path: str = "") -> NoReturn:
    msg = f"Expected {expected}, got `{got[:64] or 'the end of the text'}`"
    raise FormatError(msg, path=path, hint=f"in line {text.count(chr(10), 0, at) + 1}")


def _closing(tokens: list[_Token], text: str) -> dict[int, int]:
    """Where each brace and parenthesis is closed; the text is refused if one is not."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    for i, token in enumerate(tokens):
        if token.text in ("{", "("):
            opened.append(i)
            if len(opened) > 2 * limits.MAX_NESTING:
                _refuse_text("less nesting", token.text, text, token.at)
        elif token.text in ("}", ")"):
            if not opened or tokens[opened[-1]].text + token.text not in ("{}", "()"):
                _refuse_text("brackets in pairs", token.text, text, token.at)
            closing[opened.pop()] = i
    if opened:
        at = tokens[opened[-1]].at
        _refuse_text(f"an end for `{text[at]}`", "", text, at)
    return closing


# ---------------------------------------------------------------------------------------------------
# Declarations


class _Reader:
    """A cursor on the tokens, and what has been declared before it."""

    def __init__(self, source: str, abi: Abi) -> None:
        self.source, self.abi = source, abi
        self.tokens = list(_tokens(source))
        self.closing = _closing(self.tokens, source)
        self.at = 0
        self.owner = self.member = ""  # where in the text, for messages
        self.tags: dict[str, Record | Enumeration] = {}
        self.typedefs: dict[str, _Declared] = {}
        self.constants: dict[str, int] = {}
        self.last: Record | None = None

    # The cursor

    @property
    def text(self) -> str:
        return self.tokens[self.at].text

    def advance(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1].text

    def take(self, text: str) -> bool:
        found = self.text == text
        self.at += found
        return found

    def expect(self, text: str) -> None:
        if not self.take(text):
            self.refuse_token(f"`{text}`")

    def word(self, what: str = "a name") -> str:
        if self.tokens[self.at].kind != "word":
            self.refuse_token(what)
        return self.advance()

    def tag(self) -> str:
        return self.advance() if self.tokens[self.at].kind == "word" else ""

    def name_from(self, at: int) -> str:
        """The name that a declaration gives, from somewhere between its type and the name."""
        while self.text_at(at) in ("*", "(", "{", "_Nullable", "__attribute__", *_QUALIFIERS):
            skips = self.text_at(at) == "{" or self.text_at(at - 1) == "__attribute__"
            at = self.closing.get(at, at) + 1 if skips else at + 1
        return self.tokens[at].text if self.tokens[at].kind == "word" else ""

    def text_at(self, at: int) -> str:
        return self.tokens[at].text

    def path(self) -> str:
        return ".".join(part for part in (self.owner, self.member) if part)

    def refuse_token(self, expected: str) -> NoReturn:
        _refuse_text(expected, self.text, self.source, self.tokens[self.at].at, self.path())

    def refuse(self, expected: str, got: str, hint: str) -> NoReturn:
        msg = f"Expected {expected}, got `{got[:64]}`"
        raise FormatError(msg, path=self.path(), hint=hint)

    # Declarations at file scope

    def declaration(self) -> None:
        self.member = ""
        if self.take(";") or self.assertion():
            return
        is_typedef = self.take("typedef")
        type_ = self.specifiers(is_typedef=is_typedef)
        if is_typedef:
            for name, alias in self.declarators(type_):
                if self.typedefs.setdefault(name, alias) != alias:
                    self.refuse("names that are given once", name, "rename one of the two")
        elif self.text != ";":
            self.refuse_token("only types, and `;` after each")
        self.expect(";")

    def assertion(self) -> bool:
        """Steps over a static assertion: it is the compiler's to check."""
        if not self.take("_Static_assert"):
            return False
        if self.text != "(":
            self.refuse_token("`(`")
        self.at = self.closing[self.at] + 1
        self.expect(";")
        return True

    def struct_named(self, name: str | None) -> Record:
        found: _Declared | None = self.last
        if name is not None:
            found = self.complete(self.typedefs.get(name)) or self.tags.get(name)
        if not isinstance(found, Record):
            types = (*self.tags.items(), *self.typedefs.items())
            known = [known for known, type_ in types if isinstance(type_, Record)]
            hint = f"the text defines {', '.join(known[:8]) or 'none'}"
            self.refuse("a struct", name or "a text without one", hint)
        return found

    # Types

    def specifiers(self, *, is_typedef: bool = False) -> _Declared:
        """What stands before the declarators: words for a scalar, or one type."""
        words: list[str] = []
        found: _Declared | None = None
        while True:
            if self.text in _QUALIFIERS:
                self.advance()
            elif found is None and self.text in _BASIC:
                words.append(self.advance())
            elif found is None and not words and (named := self.named(is_typedef)) is not None:
                found = named
            else:
                return self.scalar(words) if found is None else found

    def scalar(self, words: list[str]) -> Scalar:
        if words == ["char"]:
            return _CHAR
        key = tuple(sorted(words))
        if key not in _SCALARS:
            self.member = self.name_from(self.at if words else self.at + bool(self.text))
            hint = _WAYS_OUT.get(" ".join(key) or self.text, "define it above, in the same text")
            self.refuse("a type with a layout", " ".join(words) or self.text or "nothing", hint)
        return self.sized(*_SCALARS[key])

    def sized(self, kind: Kind, size: int) -> Scalar:
        by_abi = {_LONG: self.abi.long_size, _POINTER: self.abi.pointer_size}
        return Scalar(kind, by_abi.get(size, size))

    def named(self, is_typedef: bool) -> _Declared | None:
        """A struct, an enum or a name for a type; None if there is none of them here."""
        if self.take("struct"):
            return self.struct(is_typedef)
        if self.take("enum"):
            return self.enumeration(is_typedef)
        if self.text in self.typedefs:
            return self.complete(self.typedefs[self.advance()])
        if self.text in NAMED_SCALARS:
            return self.sized(*NAMED_SCALARS[self.advance()])
        return None

    def complete(self, type_: _Declared | None) -> _Declared | None:
        """A typedef may come before the struct that it names."""
        return self.tags.get(type_.tag, type_) if isinstance(type_, _Incomplete) else type_

    def struct(self, is_typedef: bool) -> _Declared:
        attributes = self.attributes()
        tag = self.tag()
        if self.text != "{":
            return self.tagged(tag, Record)
        name = self.name_given(tag, is_typedef)
        if not name:
            self.refuse("a struct with a name", "struct {", "give it a tag or a member's name")
        members = self.members(name)
        attributes |= self.attributes()
        if self.owner and not tag and not attributes and (slot := self.slot(members)):
            return slot
        record = self.record(name, members, attributes)
        self.define(tag, record)
        if not self.owner:
            self.last = record
        return record

    def enumeration(self, is_typedef: bool) -> _Declared:
        tag = self.tag()
        if self.text != "{":
            return self.tagged(tag, Enumeration)
        name = self.name_given(tag, is_typedef)
        members = tuple(self.enumerators())
        self.constants.update(members)
        if not name:  # only constants
            return Scalar(Kind.INT, 4)
        enumeration = Enumeration(name, 4, members)
        check_enumeration(enumeration, FormatError)
        self.define(tag, enumeration)
        return enumeration

    def enumerators(self) -> Iterator[tuple[str, int]]:
        number = 0
        self.expect("{")
        while not self.take("}"):
            name = self.word()
            number = self.integer() if self.take("=") else number
            yield name, number
            number += 1
            if self.text != "}":
                self.expect(",")

    def name_given(self, tag: str, is_typedef: bool) -> str:
        """What a body's type is called: by its typedef, its tag, or the member that it is for."""
        return tag if tag and not is_typedef else self.name_from(self.at) or tag

    def tagged(self, tag: str, expected: type[Record | Enumeration]) -> _Declared:
        found = self.tags.get(tag)
        if isinstance(found, expected):
            return found
        if not tag or found or expected is Enumeration:
            self.member = self.name_from(self.at)
            self.refuse("a type defined above", tag or self.text, "define it before its use")
        return _Incomplete(tag)

    def define(self, tag: str, type_: Record | Enumeration) -> None:
        if tag and self.tags.setdefault(tag, type_) is not type_:
            self.refuse("tags that are given once", tag, "rename one of the two")

    def attributes(self) -> dict[str, int]:
        """`packed` and `aligned(n)`: the two that change a layout in a known way."""
        found: dict[str, int] = {}
        while self.take("__attribute__"):
            self.expect("(")
            self.expect("(")
            while not found or self.take(","):
                attribute = self.word("an attribute").strip("_")
                if attribute not in ("packed", "aligned"):
                    hint = "only `packed` and `aligned(n)` are known"
                    self.refuse("an attribute with a known layout", attribute, hint)
                found[attribute] = self.in_parentheses() if attribute == "aligned" else 1
            self.expect(")")
            self.expect(")")
        return found

    def in_parentheses(self) -> int:
        self.expect("(")
        number = self.integer()
        self.expect(")")
        return number

    def integer(self) -> int:
        sign = -1 if self.take("-") else 1
        number = _NUMBER.fullmatch(self.text)
        if number is None and self.text not in self.constants:
            self.refuse_token("a decimal or hexadecimal integer")
        text = self.advance()
        return sign * (int(number[1], 0) if number else self.constants[text])

    # Members

    def members(self, name: str) -> _Members:
        outer, self.owner = self.owner, name
        members: _Members = []
        self.expect("{")
        while not self.take("}"):
            self.member = ""
            if not self.assertion():
                members += self.declarators(self.specifiers())
                self.expect(";")
        self.owner, self.member = outer, ""
        return members

    def declarators(self, base: _Declared) -> Iterator[tuple[str, _Declared]]:
        yield self.declarator(base)
        while self.take(","):
            yield self.declarator(base)

    def declarator(self, base: _Declared) -> tuple[str, _Declared]:
        """`*name[n]`, or `(*name)[n]` for a pointer to arrays."""
        self.member = self.name_from(self.at)
        before = self.stars()
        inside = self.stars() if (parenthesis := self.take("(")) else []
        name = self.word("a member's name")
        if parenthesis:
            self.expect(")")
        type_ = self.pointers(base, before)
        type_ = self.array(type_, self.dimensions())
        type_ = self.counted(self.pointers(type_, inside))
        if self.text == ":":
            self.refuse("a whole number of bytes", ":", "use an integer for the bit-fields")
        if self.text == "(":
            self.refuse("data", "a function", "leave it out of what is sent")
        return name, type_

    def stars(self) -> list[bool]:
        """For each star, whether it is `_Nullable`."""
        stars: list[bool] = []
        while self.take("*"):
            nullable = False
            while self.text == "_Nullable" or self.text in _QUALIFIERS:
                nullable |= self.advance() == "_Nullable"
            stars.append(nullable)
        return stars

    def pointers(self, type_: _Declared, stars: list[bool]) -> _Declared:
        for nullable in stars:
            type_ = _Pointer(self.settled(type_), nullable)
        return type_

    def dimensions(self) -> list[int]:
        dimensions: list[int] = []
        while self.take("["):
            if self.text == "]":
                hint = "give it a size, or point to elements with `T *name __counted_by(n)`"
                self.refuse("an array with a size", "[]", hint)
            dimensions.append(self.integer())
            self.expect("]")
        return dimensions

    def array(self, type_: _Declared, dimensions: list[int]) -> _Declared:
        """The last dimension of characters is the size of a text; arrays of arrays are one array."""
        if not dimensions:
            return type_
        if type_ is _CHAR:
            type_ = Scalar(Kind.CHARS, dimensions.pop())
            if not dimensions:
                return type_
        element, shape = self.settled(type_), tuple(dimensions)
        match element:
            case Array(element=innermost, shape=rest):
                element, shape = innermost, (*shape, *rest)
            case _:
                pass
        if len(shape) > limits.MAX_DIMENSIONS:
            expected = f"at most {limits.MAX_DIMENSIONS} dimensions"
            self.refuse(expected, str(len(shape)), "use fewer, larger ones")
        return Array(element, shape)

    def counted(self, type_: _Declared) -> _Declared:
        if not self.take("__counted_by"):
            return type_
        if not isinstance(type_, _Pointer) or not self.owner:
            hint = "it counts what a pointer that is a struct's member refers to"
            self.refuse("a member that is a pointer", "__counted_by", hint)
        self.expect("(")
        shape = [self.count()]
        while self.take(","):
            shape.append(self.count())
        self.expect(")")
        return replace(type_, shape=tuple(shape))

    def count(self) -> int | str | None:
        if self.take("..."):
            return None
        is_number = self.tokens[self.at].kind == "number"
        return self.integer() if is_number else self.word("a field that counts")

    def settled(self, type_: _Declared) -> Type:
        """The type of what can have no more said about it."""
        if isinstance(type_, _Incomplete):
            hint = "define it above; to refer to another record, use an id of your own"
            self.refuse("a struct defined above", f"struct {type_.tag}", hint)
        if not isinstance(type_, _Pointer):
            return type_
        if type_.element is _CHAR and not type_.shape:
            target: Text | Sequence = Text(self.abi.pointer_size)
        elif type_.shape and None not in type_.shape:
            target = Sequence(type_.element, type_.shape, self.abi.pointer_size)
        else:
            hint = "add `__counted_by(n)`, with an integer field `n` of the same struct"
            self.refuse("a pointer that a field counts", f"{type_.element} *", hint)
        return Nullable(target) if type_.nullable else target

    # Structs

    def slot(self, members: _Members) -> Type | None:
        """What a struct without a tag stands for, if it is one of the forms that `c_header` writes."""
        word = Scalar(Kind.UINT, self.abi.pointer_size)
        match members:
            case [("data", _Pointer(shape=()) as data), ("size", size)] if size == word:
                target: Type = Blob(self.abi.pointer_size)
                if data.element != _BYTE:
                    return None
                return Nullable(target) if data.nullable else target
            case [("items", _Pointer() as items), ("count", count)]:
                return self.sequence(items, count)
            case [("value", value), ("present", Scalar(kind=Kind.BOOL)), *rest]:
                if isinstance(value, _Pointer | _Incomplete) or len(rest) > 1:
                    return None
                return self.nullable(value, rest)
            case _:
                return None

    def sequence(self, items: _Pointer, count: _Declared) -> Type | None:
        """A sequence that holds its own lengths; `__counted_by` says so where it holds only some."""
        word = Scalar(Kind.UINT, self.abi.pointer_size)
        own = count.shape[0] if isinstance(count, Array) and len(count.shape) == 1 else 1
        shape = items.shape or (None,) * min(own, limits.MAX_DIMENSIONS + 1)
        is_text = items.element is _CHAR and not items.shape
        if count not in (word, Array(word, (own,))) or shape.count(None) != own or is_text:
            return None
        target = Sequence(items.element, shape, self.abi.pointer_size)
        return Nullable(target) if items.nullable else target

    def nullable(self, value: Type, rest: _Members) -> Type | None:
        """None where the struct is not as large as the optional value: then it is just a struct."""
        padding = 0
        if rest:
            name, type_ = rest[0]
            if name != "padding" or not isinstance(type_, Array) or type_.element != _BYTE:
                return None
            padding = type_.size
        alignment = self.abi.align(value.alignment)
        target = Nullable(value)
        return target if round_up(value.size + 1 + padding, alignment) == target.size else None

    def record(self, name: str, members: _Members, attributes: dict[str, int]) -> Record:
        self.owner, outer = name, self.owner
        fields = [self.field(name, type_, attributes) for name, type_ in members]
        if not fields:
            self.refuse("at least one member", "{}", "C has no struct without")
        packed = "packed" in attributes
        record = place(name, fields, replace(self.abi, max_alignment=1) if packed else self.abi)
        if packed:
            kept = tuple(field for field in record.fields if not _is_padding(field))
            record = replace(record, fields=kept)
        alignment = max(record.alignment, attributes.get("aligned", 1))
        record = replace(record, alignment=alignment, size=round_up(record.size, alignment))
        check_record(record, self.abi.pointer_size, FormatError)
        self.owner, self.member = outer, ""
        return record

    def field(self, name: str, type_: _Declared, attributes: dict[str, int]) -> Field:
        self.member = name
        settled = self.settled(type_)
        if "packed" not in attributes and is_over_aligned(settled, self.abi):
            hint = f"make the struct around it packed, and align it to at most {self.abi.max_alignment}"
            self.refuse("a member that its ABI aligns", str(settled), hint)
        return Field(name, settled)


def is_over_aligned(type_: Type, abi: Abi) -> bool:
    """Whether an attribute made a record's alignment stricter than `place` lets any member be."""
    while isinstance(type_, Array | Nullable):
        type_ = type_.element
    return isinstance(type_, Record) and type_.alignment > abi.max_alignment


def _is_padding(field: Field) -> bool:
    is_bytes = isinstance(field.type, Array) and field.type.element == _BYTE
    return is_bytes and _PADDING.fullmatch(field.name) is not None

"""From the words of a C declaration to a type: scalars, pointers, arrays, counts, slots.

A pointer is a type only with what counts it, which may stand after it (`__counted_by`) or beside it: in a
struct without a tag, `{T *items; size_t count;}` is a sequence, `{uint8_t *data; size_t size;}` bytes, and
`{T value; bool present;}` an optional value. Until that is known it is a `Pointer`, as a struct that is not
yet defined is `Incomplete`; `Declarators.settled` gives the type, or refuses it by its member's name.

Nothing is looked up by a name that the text gave, and no braces are read: `declarations` does both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

from echo_core.formats import limits
from echo_core.formats.abi import Abi
from echo_core.formats.c.tokens import Cursor
from echo_core.formats.layout import alignment_of
from echo_core.formats.types import Blob, Kind, Nullable, Scalar, Sequence, StaticArray, Text, Type, round_up

CHAR = Scalar(Kind.CHARS, 1)  # compared by identity: `char c[1]` is equal, but is not a `char`
BYTE = Scalar(Kind.UINT, 1)
_LONG, _POINTER = -1, -2  # sizes that the ABI decides

# The words may come in any order, so the key is the sorted words.
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

SCALAR_WORDS = frozenset(word for words in _SCALARS for word in words)
QUALIFIERS = frozenset({"const", "volatile", "restrict"})
TYPE_WORDS = SCALAR_WORDS | QUALIFIERS | NAMED_SCALARS.keys()

_WAYS_OUT = {
    "union": "declare the largest member, or a struct with all of them",
    "void": "point to a type that has a size, counted by `__counted_by(n)`",
    "double long": "use `double`: no two machines agree about `long double`",
    "wchar_t": "use `char *` with UTF-8",
}
_BEFORE_A_NAME = QUALIFIERS | {"*", "(", "{", "_Nullable", "__attribute__"}


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer whose meaning depends on what follows it: `__counted_by`, or a `count` beside it."""

    element: Type
    nullable: bool
    shape: tuple[int | str | None, ...] = ()

    def to(self, target: Text | Blob | Sequence) -> Type:
        """The pointer's type, once it is known what it refers to."""
        return Nullable(target) if self.nullable else target


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A struct that was named and not yet defined."""

    tag: str


Declared = Type | Pointer | Incomplete
Members = list[tuple[str, Declared]]


# ---------------------------------------------------------------------------
# Scalars


class Scalars:
    """Reads the names of scalars; the ABI decides the size of some."""

    def __init__(self, cursor: Cursor, abi: Abi) -> None:
        self._cursor = cursor
        self._size_by_mark = {_LONG: abi.long_size, _POINTER: abi.pointer_size}

    def named(self) -> Scalar | None:
        """A scalar with a name of one word, such as `size_t`; None if there is none here."""
        if self._cursor.text not in NAMED_SCALARS:
            return None
        return self._sized(*NAMED_SCALARS[self._cursor.advance()])

    def spelled(self, words: list[str]) -> Scalar:
        """The scalar of these words, which have been read; without any words the next token is refused."""
        if words == ["char"]:
            return CHAR
        key = tuple(sorted(words))
        if key not in _SCALARS:
            self._refuse(words)
        return self._sized(*_SCALARS[key])

    def _refuse(self, words: list[str]) -> NoReturn:
        cursor = self._cursor
        cursor.member = name_ahead(cursor, 0 if words or not cursor.text else 1)
        hint = _WAYS_OUT.get(" ".join(sorted(words)) or cursor.text, "define it above, in the same text")
        cursor.refuse("a type with a layout", " ".join(words) or cursor.text or "nothing", hint)

    def _sized(self, kind: Kind, size: int) -> Scalar:
        return Scalar(kind, self._size_by_mark.get(size, size))


# ---------------------------------------------------------------------------
# Declarators


def name_ahead(cursor: Cursor, start: int = 0) -> str:
    """The name that a declaration gives, from somewhere between its type and the name."""
    return cursor.word_after(_BEFORE_A_NAME, start)


class Declarators:
    """Reads a declarator such as `*name[n]` and applies it to the type before it."""

    def __init__(self, cursor: Cursor, abi: Abi) -> None:
        self._cursor = cursor
        self._pointer_size = abi.pointer_size

    def read(self, base: Declared) -> Iterator[tuple[str, Declared]]:
        """The names up to the semicolon, each with its type."""
        yield self._declarator(base)
        while self._cursor.take(","):
            yield self._declarator(base)

    def settled(self, type_: Declared) -> Type:
        """The final type of a declarator, or an error that names the member."""
        if isinstance(type_, Incomplete):
            self._cursor.refuse(
                "a struct defined above",
                f"struct {type_.tag}",
                "define it above; to refer to another record, use an id of your own",
            )
        if not isinstance(type_, Pointer):
            return type_
        if type_.element is CHAR and not type_.shape:
            return type_.to(Text(self._pointer_size))
        if not type_.shape or None in type_.shape:
            self._cursor.refuse(
                "a pointer that a field counts",
                f"{type_.element} *",
                "add `__counted_by(n)`, with an integer field `n` of the same struct",
            )
        return type_.to(Sequence(type_.element, type_.shape, self._pointer_size))

    def _declarator(self, base: Declared) -> tuple[str, Declared]:
        """`*name[n]`, or `(*name)[n]` for a pointer to arrays."""
        cursor = self._cursor
        cursor.member = name_ahead(cursor)
        before = self._stars()
        inside = self._stars() if (parenthesis := cursor.take("(")) else []
        name = cursor.word("a member's name")
        if parenthesis:
            cursor.expect(")")
        type_ = self._pointers(base, before)
        type_ = self._array(type_, self._dimensions())
        type_ = self._counted(self._pointers(type_, inside))
        if cursor.text == ":":
            cursor.refuse("a whole number of bytes", ":", "use an integer for the bit-fields")
        if cursor.text == "(":
            cursor.refuse("data", "a function", "leave it out of what is sent")
        return name, type_

    def _stars(self) -> list[bool]:
        """For each star, whether it is `_Nullable`."""
        stars: list[bool] = []
        while self._cursor.take("*"):
            nullable = False
            while self._cursor.text == "_Nullable" or self._cursor.text in QUALIFIERS:
                nullable |= self._cursor.advance() == "_Nullable"
            stars.append(nullable)
        return stars

    def _pointers(self, type_: Declared, stars: list[bool]) -> Declared:
        for nullable in stars:
            type_ = Pointer(self.settled(type_), nullable)
        return type_

    def _dimensions(self) -> list[int]:
        dimensions: list[int] = []
        while self._cursor.take("["):
            if self._cursor.text == "]":
                self._cursor.refuse(
                    "an array with a size",
                    "[]",
                    "give it a size, or point to elements with `T *name __counted_by(n)`",
                )
            dimensions.append(self._cursor.integer())
            self._cursor.expect("]")
        return dimensions

    def _array(self, type_: Declared, dimensions: list[int]) -> Declared:
        """The last dimension of characters is the size of a text; arrays of arrays are one array."""
        if dimensions and type_ is CHAR:
            type_ = Scalar(Kind.CHARS, dimensions.pop())
        if not dimensions:
            return type_
        element, shape = self.settled(type_), tuple(dimensions)
        if isinstance(element, StaticArray):
            shape = (*shape, *element.shape)
            element = element.element
        if len(shape) > limits.MAX_DIMENSIONS:
            expected = f"at most {limits.MAX_DIMENSIONS} dimensions"
            self._cursor.refuse(expected, str(len(shape)), "use fewer, larger ones")
        return StaticArray(element, shape)

    def _counted(self, type_: Declared) -> Declared:
        if not self._cursor.take("__counted_by"):
            return type_
        if not isinstance(type_, Pointer) or not self._cursor.owner:
            self._cursor.refuse(
                "a member that is a pointer",
                "__counted_by",
                "it counts what a pointer that is a struct's member refers to",
            )
        self._cursor.expect("(")
        shape = [self._count()]
        while self._cursor.take(","):
            shape.append(self._count())
        self._cursor.expect(")")
        return replace(type_, shape=tuple(shape))

    def _count(self) -> int | str | None:
        if self._cursor.take("..."):
            return None
        is_number = self._cursor.kind == "number"
        return self._cursor.integer() if is_number else self._cursor.word("a field that counts")


# ---------------------------------------------------------------------------
# Slots


def slot_of(members: Members, abi: Abi) -> Type | None:
    """The type of a struct without a tag that has one of the forms that `header` writes."""
    word = Scalar(Kind.UINT, abi.pointer_size)
    match members:
        case [("data", Pointer(shape=()) as data), ("size", size)] if size == word:
            return data.to(Blob(word.size)) if data.element == BYTE else None
        case [("items", Pointer() as items), ("count", count)]:
            return _sequence(items, count, word)
        case [("value", value), ("present", Scalar(kind=Kind.BOOL)), *rest]:
            return None if isinstance(value, Pointer | Incomplete) else _nullable(value, rest, abi)
        case _:
            return None


def _sequence(items: Pointer, count: Declared, word: Scalar) -> Type | None:
    """A sequence that holds its own lengths; `__counted_by` says so where it holds only some."""
    own = count.shape[0] if isinstance(count, StaticArray) and len(count.shape) == 1 else 1
    shape = items.shape or (None,) * min(own, limits.MAX_DIMENSIONS + 1)
    is_text = items.element is CHAR and not items.shape
    if count not in (word, StaticArray(word, (own,))) or shape.count(None) != own or is_text:
        return None
    return items.to(Sequence(items.element, shape, word.size))


def _nullable(value: Type, rest: Members, abi: Abi) -> Type | None:
    """None where the struct is not as large as the optional value: then it is just a struct."""
    match rest:
        case []:
            padding = 0
        case [("padding", StaticArray(element=element) as array)] if element == BYTE:
            padding = array.size
        case _:
            return None
    target = Nullable(value)
    size = round_up(value.size + 1 + padding, alignment_of(value, abi))
    return target if size == target.size else None
